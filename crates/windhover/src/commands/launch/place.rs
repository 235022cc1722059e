//! The calling process takes the scheduling asked for and becomes the program.

use super::OURS;
use super::wanted::{self, Wanted};
use crate::cli::launch::Run;
use crate::output::Failure;
use anyhow::{Context as _, anyhow};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// The program is there but cannot be run (env(1)).
const NOT_RUNNABLE: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// Comes back only with a failure.
pub(super) fn become_command(arguments: &Run, wanted: &Wanted) -> Failure {
    if let Err(failure) = take(arguments, wanted) {
        return Failure::new(failure.code.max(OURS), failure.error);
    }
    become_program(&arguments.command, &[], arguments.stopped)
}

/// Becomes a program with its arguments, and some variables set. Comes back only with a failure.
pub(in crate::commands) fn become_program(
    command: &[OsString],
    variables: &[(OsString, OsString)],
    stopped: bool,
) -> Failure {
    let Some((program, rest)) = command.split_first() else {
        return Failure::new(OURS, anyhow!("nothing to run"));
    };
    let cause = task::become_program(program, rest, variables, stopped);
    Failure::new(code_of(&cause), anyhow!("cannot run '{}': {cause}", program.to_string_lossy()))
}

/// The exit code for a program that was not started.
pub(in crate::commands) fn not_started(error: &task::TaskError) -> u8 {
    if let task::TaskError::Start { cause, .. } = error { code_of(cause) } else { OURS }
}

fn code_of(cause: &io::Error) -> u8 {
    if cause.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
}

/// The policy comes last: what goes before should not run in a real-time class.
fn take(arguments: &Run, wanted: &Wanted) -> Result<(), Failure> {
    if let Some(cpus) = &wanted.cpus {
        host::shield::enter(cpus)?;
        task::set_affinity(cpus)?;
    }
    if let Some(slack) = arguments.timer_slack {
        task::set_timer_slack(Duration::from_nanos(slack))?;
    }
    let now = task::attributes(0)?;
    let next = wanted.over(now, !arguments.inherit_policy);
    if next.is_real_time() {
        task::set_rt_limit(wanted::rt_limit(&arguments.rt_limit)?)?;
    }
    if wanted.changes_scheduling() {
        task::set_attributes(0, &next).context("cannot take the scheduling asked for")?;
    }
    Ok(())
}
