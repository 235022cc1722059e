//! `windhover import`: what other tools wrote becomes a run directory.

use super::identity;
use crate::cli::import::Import;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use import::Hints;
use model::run::RunStep;
use model::worker::Measured;
use model::{HostFacts, JournalLine, MachineFacts, RunDocument, run::RunHost};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use store::{CellFiles, RunDir};

/// Larger files than any tool writes in a day.
const MOST_BYTES: u64 = 2 << 30;
/// What imported facts have in the place of a boot id and a host's name.
const IMPORTED: &str = "imported";

pub(crate) fn run(arguments: &Import, output: &Output) -> Result<u8, Failure> {
    let hints = Hints { nanoseconds: arguments.nanoseconds, size: arguments.size, protocol: arguments.protocol };
    let mut cells: Vec<(String, Measured)> = Vec::new();
    let mut machine = None;
    for file in &arguments.files {
        let name = file.display().to_string();
        let imported = import::read(arguments.tool, &name, &bytes(file)?, &hints).map_err(Failure::usage)?;
        machine = machine.or(imported.machine);
        cells.extend(imported.results.into_iter().map(|measured| (key(&measured), measured)));
    }
    let mut repetitions: BTreeMap<String, u32> = BTreeMap::new();
    let mut order = Vec::new();
    for (index, (cell, measured)) in (1..).zip(&mut cells) {
        let repetition = repetitions.entry(cell.clone()).or_default();
        *repetition += 1;
        let result = &mut measured.result;
        (result.cell, result.repetition) = (Some(cell.clone()), Some(*repetition));
        order.push(RunStep { index, cell: cell.clone(), repetition: *repetition, factors: result.factors.clone() });
    }
    let now_ns = now_ns();
    let name = arguments.name.as_deref().unwrap_or(arguments.tool.word);
    let mut document = document(arguments, name, order, machine, now_ns)?;
    let failed = |error: store::StoreError| Failure::new(error.exit_code(), error);
    let mut dir = RunDir::create(&arguments.output, name, now_ns).map_err(failed)?;
    let path = dir.path().to_owned();
    if let Err(error) = write(&mut dir, &mut document, &cells, now_ns) {
        // Half of it is no run.
        let _ = dir.discard();
        return Err(failed(error));
    }
    let (results, files) = (cells.len(), arguments.files.len());
    output.note(format_args!("{results} results of {files} files of {}", arguments.tool.word));
    output.result(&format!("{}\n", path.display()))?;
    Ok(0)
}

fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let named = || format!("cannot read {}", file.display());
    let facts = std::fs::metadata(file).with_context(named).map_err(Failure::usage)?;
    if facts.is_file() && facts.len() > MOST_BYTES {
        refuse!("{} has {} bytes: files of up to {MOST_BYTES} are read", file.display(), facts.len());
    }
    std::fs::read(file).with_context(named).map_err(Failure::usage)
}

/// A cell's key as campaigns write it.
fn key(measured: &Measured) -> String {
    let result = &measured.result;
    let factors = result.factors.keys().filter_map(|name| Some(format!("{name}={}", result.factor(name)?)));
    let words: Vec<String> = std::iter::once(format!("probe={}", result.probe)).chain(factors).collect();
    words.join(",")
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn document(
    arguments: &Import,
    name: &str,
    order: Vec<RunStep>,
    machine: Option<MachineFacts>,
    now_ns: u64,
) -> Result<RunDocument, Failure> {
    let host = machine.as_ref().map(|_| RunHost {
        role: "initiator".to_owned(),
        facts: HostFacts { boot_id: IMPORTED.to_owned(), ..HostFacts::default() },
        address: None,
    });
    let machine = machine.map(|machine| MachineFacts { boot_id: IMPORTED.to_owned(), ..machine });
    Ok(RunDocument {
        format: model::FORMAT,
        name: name.to_owned(),
        title: None,
        tool_version: identity::VERSION.to_owned(),
        build: Some(identity::build().map_err(|error| anyhow!(error))?),
        seed: 0,
        order,
        machines: machine.map(|machine| (IMPORTED.to_owned(), machine)).into_iter().collect(),
        hosts: host.map(|host| (IMPORTED.to_owned(), host)).into_iter().collect(),
        substrate: arguments.substrate,
        lab: None,
        labels: arguments.labels.iter().cloned().collect(),
        started_ns: now_ns,
        ended_ns: None,
        outcome: None,
    })
}

fn write(
    dir: &mut RunDir,
    document: &mut RunDocument,
    cells: &[(String, Measured)],
    now_ns: u64,
) -> Result<(), store::StoreError> {
    dir.write_plan("# An imported run: there is no plan.\n")?;
    dir.write_run(document)?;
    dir.journal(&JournalLine::Begin { at_ns: now_ns, tool_version: document.tool_version.clone() })?;
    for (index, (_, measured)) in (1..).zip(cells) {
        dir.journal(&JournalLine::Start { index, at_ns: now_ns })?;
        dir.write_cell(index, &CellFiles::of(measured, &measured.events), now_ns)?;
    }
    (document.ended_ns, document.outcome) = (Some(now_ns), Some("done".to_owned()));
    dir.write_run(document)?;
    dir.journal(&JournalLine::End { at_ns: now_ns, outcome: "done".to_owned() })
}
