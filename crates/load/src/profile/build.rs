//! Compiling in a loop. With a command, that command is run again and again in its folder; a unit of work is one run. Else
//! each job compiles one small file after the other; a unit of work is one file. Slots are refilled at once, so there
//! is no link step and no end of a tree at which the load would sag, which the papers complain of.
//!
//! Its evenness is judged by the CPU time that it gets: a run or a file takes longer than 100 ms.

use super::Workers;
use super::compile::{Source, Toolchain};
use crate::LoadError;
use crate::engine::{Shared, WorkerTask};
use crate::sampler::Measure;
use crate::scratch::scratch;
use model::{CpuList, LoadSpec, Policy};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use task::{Launch, Stream};

/// How soon a running child notices that the load ends.
const LOOK: Duration = Duration::from_millis(20);
/// Longest part of a program's words that an error repeats.
const WORDS: usize = 300;

pub(super) fn workers(spec: &LoadSpec, count: u32, cpus: &CpuList) -> Result<Workers, LoadError> {
    if let Some(command) = &spec.command {
        return command_crew(command, spec.directory.as_deref());
    }
    let scratch = scratch(spec.directory.as_deref())?;
    let toolchain = Toolchain::find(scratch.path(), cpus);
    let method = toolchain.method();
    let jobs = (0..count)
        .map(|number| {
            let slot = Slot { toolchain: toolchain.clone(), folder: scratch.path().to_owned(), number };
            Box::new(move |shared: &Shared| slot.work(shared)) as WorkerTask
        })
        .collect();
    Ok(Workers { jobs, measure: Measure::Cpu, method, scratch: Some(scratch) })
}

fn command_crew(command: &str, directory: Option<&Path>) -> Result<Workers, LoadError> {
    // For what the command says; it works in its own folder, where it may find what it left.
    let scratch = scratch(None)?;
    let log = scratch.path().join("stderr");
    let folder = directory.unwrap_or(scratch.path()).to_owned();
    if !folder.is_dir() {
        return Err(LoadError::folder(&folder, &std::io::ErrorKind::NotADirectory.into()));
    }
    let (command, method) = (command.to_owned(), format!("sh -c '{command}'"));
    let work = move |shared: &Shared| {
        while !shared.stopping() {
            // The command's own parallel jobs are its descendants: a pid namespace takes all of them along.
            let launch = Launch::new("sh").arg("-c").arg(&command).directory(&folder).pid_namespace();
            run(shared, launch, &command, &log)?;
        }
        Ok(())
    };
    Ok(Workers { jobs: vec![Box::new(work) as WorkerTask], measure: Measure::Cpu, method, scratch: Some(scratch) })
}

/// One compile slot: one file after the other.
struct Slot {
    toolchain: Toolchain,
    folder: PathBuf,
    number: u32,
}

impl Slot {
    fn work(&self, shared: &Shared) -> Result<(), LoadError> {
        let mut source = Source::new(self.number);
        let path = |suffix: &str| self.folder.join(format!("unit-{}.{suffix}", self.number));
        let (input, output, log) = (path("c"), path("o"), path("log"));
        while !shared.stopping() {
            std::fs::write(&input, source.next_unit()).map_err(LoadError::writing(&input))?;
            let launch = self.toolchain.compile(&input, &output).env("TMPDIR", &self.folder).die_with_parent();
            run(shared, launch, &self.toolchain.method(), &log)?;
        }
        Ok(())
    }
}

/// Runs one child to its end, or until the load ends.
fn run(shared: &Shared, launch: Launch, command: &str, log: &Path) -> Result<(), LoadError> {
    let complaints = File::create(log).map_err(LoadError::writing(log))?;
    let mut child =
        launch.policy(Policy::Other).stdout(Stream::Null).stderr(Stream::File(complaints.into())).start()?;
    loop {
        match child.wait_timeout(LOOK)? {
            Some(status) if status.success() => {
                shared.done(1);
                return Ok(());
            }
            Some(_) if shared.stopping() => return Ok(()),
            Some(status) => return Err(failed(command, status, log)),
            None if shared.stopping() => {
                child.kill()?;
                return Ok(());
            }
            None => {}
        }
    }
}

fn failed(command: &str, status: ExitStatus, log: &Path) -> LoadError {
    let words = std::fs::read(log).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    let said: String = last.trim().chars().take(WORDS).collect();
    LoadError::Failed(format!("the load's command '{command}' failed ({status}): {said}"))
}
