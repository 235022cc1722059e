//! `windhover import`: what other tools wrote becomes a run directory.

use super::identity;
use crate::cli::import::Import;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use import::Hints;
use model::worker::Measured;
use model::{HostFacts, MachineFacts, Role, RunDocument, run::RunHost};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use store::{StoreError, WholeRun};

/// Larger files than the tools write in hours; what is read takes a few times as much memory.
const MOST_BYTES: u64 = 512 << 20;
/// Imports in the same second that find a name.
const MOST_AT_ONCE: u64 = 600;
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
    let name = arguments.name.as_deref().unwrap_or(arguments.tool.word);
    let path = write(arguments, name, machine.as_ref(), &mut results)?;
    let (results, files) = (results.len(), arguments.files.len());
    output.note(format_args!("{results} results of {files} files of {}", arguments.tool.word));
    output.result(&format!("{}\n", path.display()))?;
    Ok(0)
}

/// Writes the run. Its folder has a second in its name: that of the import, or the next that is free.
fn write(
    arguments: &Import,
    name: &str,
    machine: Option<&MachineFacts>,
    results: &mut [Measured],
) -> Result<PathBuf, Failure> {
    let first_ns = clock::realtime_ns();
    let mut later_s = 0;
    loop {
        let now_ns = first_ns.saturating_add(later_s * 1_000_000_000);
        let run = WholeRun {
            document: document(arguments, name, machine.cloned(), now_ns)?,
            results,
            plan: "# An imported run: there is no plan.\n",
            ended_ns: now_ns,
            outcome: "done",
        };
        match store::write_whole(&arguments.output, run) {
            Err(StoreError::Exists(_)) if later_s < MOST_AT_ONCE => later_s += 1,
            written => return written.map_err(|error| Failure::new(error.exit_code(), error)),
        }
    }
}

/// What a file holds, or a pipe; of neither more than the limit.
fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let named = || format!("cannot read {}", file.display());
    let from = File::open(file).with_context(named).map_err(Failure::usage)?;
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(named).map_err(Failure::usage)?;
    if bytes.len() as u64 > MOST_BYTES {
        refuse!("{} has more than {} MiB, and no more are read: split it", file.display(), MOST_BYTES >> 20);
    }
    Ok(bytes)
}

fn document(
    arguments: &Import,
    name: &str,
    machine: Option<MachineFacts>,
    now_ns: u64,
) -> Result<RunDocument, Failure> {
    let host = machine.as_ref().map(|_| RunHost {
        role: Role::Initiator.to_string(),
        facts: HostFacts { boot_id: IMPORTED.to_owned(), ..HostFacts::default() },
        address: None,
    });
    let machine = machine.map(|machine| MachineFacts { boot_id: IMPORTED.to_owned(), ..machine });
    Ok(RunDocument {
        format: model::FORMAT,
        name: name.to_owned(),
        tool_version: identity::VERSION.to_owned(),
        build: Some(identity::build().map_err(|error| anyhow!(error))?),
        machines: machine.map(|machine| (IMPORTED.to_owned(), machine)).into_iter().collect(),
        hosts: host.map(|host| (IMPORTED.to_owned(), host)).into_iter().collect(),
        substrate: arguments.substrate,
        labels: arguments.labels.iter().cloned().collect(),
        started_ns: now_ns,
        ..RunDocument::default()
    })
}
