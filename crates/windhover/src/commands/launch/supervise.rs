//! Stays beside the program: several copies, a report at the end, a hold for its life, memory locked before it begins.

use super::{OURS, report};
use crate::cli::launch::{MemoryLock, Run};
use crate::commands::signals;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use host::ended;
use host::knob::Machine;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::Instant;
use task::{Child, Launch};

pub(super) fn run(arguments: &Run, output: &Output) -> Result<u8, Failure> {
    let _hold = arguments.cpu_dma_latency.map(hold).transpose()?;
    let programs = signals::pass_on()?;
    let started = Instant::now();
    let mut children = Vec::new();
    for _ in 0..arguments.copies.unwrap_or(1) {
        let (child, before) = start(arguments)?;
        programs.add(child.pid());
        children.push((child, before));
    }
    let mut code = 0;
    for (child, before_exec) in &mut children {
        child.wait_end()?;
        let ended = arguments.report.then(|| report::Ended::read(child.pid(), before_exec, started.elapsed()));
        let before = task::children_usage();
        programs.remove(child.pid());
        let status = child.wait()?;
        if let Some(ended) = ended {
            let usage = task::children_usage().less(&before);
            output.note(ended.text(&arguments.command, status, usage));
        }
        code = if code == 0 { exit_code(status) } else { code };
    }
    Ok(code)
}

pub(in crate::commands) fn exit_code(status: ExitStatus) -> u8 {
    u8::try_from(task::shell_status(status)).unwrap_or(u8::MAX)
}

fn hold(us: u32) -> Result<OwnedFd, Failure> {
    let held = prepare::tune::hold_cpu_latency(us);
    let held = held.with_context(|| format!("CPUs cannot be kept to {us} µs (/dev/cpu_dma_latency); it needs root"));
    held.map_err(|error| Failure::new(OURS, error))
}

/// Another windhover sets the scheduling, then becomes the program. Also gives how long it had waited by then.
fn start(arguments: &Run) -> Result<(Child, ended::Ended), Failure> {
    let lock = lock(arguments);
    if lock.is_some() && !task::MemoryLock::SUPPORTED {
        return Err(Failure::new(OURS, task::InjectError::Architecture));
    }
    let stopped = task::MemoryLock::SUPPORTED && (arguments.report || lock.is_some());
    let own = std::env::current_exe().context("cannot find the own program")?;
    let launch = Launch::new(own).args(in_place(arguments, stopped)).in_foreground();
    let mut child = launch.start().map_err(|error| Failure::new(OURS, error))?;
    let pid = child.pid();
    let mut before = ended::Ended::default();
    if !stopped {
        return Ok((child, before));
    }
    let mut look = || before = ended::Ended::of(&Machine::running(), pid);
    match task::lock_and_prefault(pid, lock.unwrap_or_default(), &mut look) {
        // One that ended first has printed why itself.
        Ok(()) | Err(task::InjectError::Ended) => Ok((child, before)),
        Err(error) => {
            child.kill()?;
            Err(Failure::new(OURS, anyhow!(error)))
        }
    }
}

fn lock(arguments: &Run) -> Option<task::MemoryLock> {
    let stack_bytes = arguments.prefault_stack.map_or(0, |kib| kib as usize * 1024);
    let flags = match arguments.mlock {
        None if stack_bytes == 0 => return None,
        None => 0,
        Some(MemoryLock::All) => task::MemoryLock::CURRENT | task::MemoryLock::FUTURE,
        Some(MemoryLock::Current) => task::MemoryLock::CURRENT,
        Some(MemoryLock::Future) => task::MemoryLock::FUTURE,
        Some(MemoryLock::Onfault) => task::MemoryLock::CURRENT | task::MemoryLock::FUTURE | task::MemoryLock::ONFAULT,
    };
    Some(task::MemoryLock { flags, stack_bytes })
}

/// The same command line, less what the supervisor does.
fn in_place(arguments: &Run, stopped: bool) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["run".into()];
    let options = [
        ("policy", arguments.policy.clone()),
        ("priority", arguments.priority.map(|priority| priority.to_string())),
        ("cpus", arguments.cpus.clone()),
        ("quantum", arguments.quantum.clone()),
        ("deadline", arguments.deadline.clone()),
        ("timer-slack", arguments.timer_slack.map(|slack| slack.to_string())),
        ("rt-limit", Some(arguments.rt_limit.clone())),
    ];
    let given = options.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value?).into()));
    words.extend(given);
    for (name, given) in
        [("inherit-policy", arguments.inherit_policy), ("force", arguments.force), ("stopped", stopped)]
    {
        if given {
            words.push(format!("--{name}").into());
        }
    }
    words.push("--".into());
    words.extend(arguments.command.iter().cloned());
    words
}
