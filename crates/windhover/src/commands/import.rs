//! `windhover import`: what other tools wrote becomes a run directory.

use super::identity;
use crate::cli::import::Import;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use import::Hints;
use model::worker::Measured;
use model::{HostFacts, MachineFacts, RunDocument, run::RunHost};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use store::WholeRun;

/// Larger files than any tool writes in a day.
const MOST_BYTES: u64 = 2 << 30;
/// What imported facts have in the place of a boot id and a host's name.
const IMPORTED: &str = "imported";

pub(crate) fn run(arguments: &Import, output: &Output) -> Result<u8, Failure> {
    let hints = Hints { nanoseconds: arguments.nanoseconds, size: arguments.size, protocol: arguments.protocol };
    let mut results: Vec<Measured> = Vec::new();
    let mut machine = None;
    for file in &arguments.files {
        let name = file.display().to_string();
        let imported = import::read(arguments.tool, &name, &bytes(file)?, &hints).map_err(Failure::usage)?;
        machine = machine.or(imported.machine);
        results.extend(imported.results);
    }
    let now_ns = now_ns();
    let name = arguments.name.as_deref().unwrap_or(arguments.tool.word);
    let run = WholeRun {
        document: document(arguments, name, machine, now_ns)?,
        results: &mut results,
        plan: "# An imported run: there is no plan.\n",
        ended_ns: now_ns,
        outcome: "done",
    };
    let path = store::write_whole(&arguments.output, run).map_err(|error| Failure::new(error.exit_code(), error))?;
    let (results, files) = (results.len(), arguments.files.len());
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

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn document(
    arguments: &Import,
    name: &str,
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
        order: Vec::new(),
        machines: machine.map(|machine| (IMPORTED.to_owned(), machine)).into_iter().collect(),
        hosts: host.map(|host| (IMPORTED.to_owned(), host)).into_iter().collect(),
        substrate: arguments.substrate,
        lab: None,
        ask: Vec::new(),
        labels: arguments.labels.iter().cloned().collect(),
        started_ns: now_ns,
        ended_ns: None,
        outcome: None,
    })
}
