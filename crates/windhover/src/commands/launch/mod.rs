//! `run`: starts a program with policy, priority and CPUs, or changes running tasks.

mod place;
mod report;
mod running;
mod supervise;
mod wanted;

use crate::cli::launch::Run;
use crate::output::{Failure, Output};
use anyhow::anyhow;

pub(super) use place::{become_program, not_started};
pub(super) use supervise::exit_code;

/// windhover itself failed; the program was not started (env(1)).
pub(super) const OURS: u8 = 125;

pub(crate) fn run(arguments: &Run, output: &Output) -> Result<u8, Failure> {
    let running = running::Selection::of(arguments);
    match (arguments.command.is_empty(), running) {
        (false, None) => {
            start(arguments, output).map_err(|failure| Failure::new(failure.code.max(OURS), failure.error))
        }
        (true, Some(selection)) => running::run(arguments, &selection, output),
        (false, Some(_)) => Err(Failure::new(
            OURS,
            anyhow!("both a program and running tasks are named: start one or change the others"),
        )),
        (true, None) => Err(Failure::new(
            OURS,
            anyhow!(
                "nothing to run: name a program, or running tasks with --pid, --tid, --group, --user, --name or --all --info"
            ),
        )),
    }
}

fn start(arguments: &Run, output: &Output) -> Result<u8, Failure> {
    if arguments.info {
        refuse!("--info is for running tasks: name them with --pid and the like");
    }
    let wanted = wanted::Wanted::of(arguments)?;
    if let (Some(copies), Some(program)) = (arguments.copies, arguments.command.first()) {
        let what = if copies == 1 { "one copy".to_owned() } else { format!("{copies} copies") };
        let program = program.to_string_lossy();
        output.note(format_args!("starts {what} of {program} (--copies {copies}; CPUs are --cpus)"));
    }
    let supervised = arguments.copies.is_some_and(|copies| copies > 1)
        || arguments.report
        || arguments.cpu_dma_latency.is_some()
        || arguments.mlock.is_some()
        || arguments.prefault_stack.is_some();
    if supervised { supervise::run(arguments, output) } else { Err(place::become_command(arguments, &wanted)) }
}
