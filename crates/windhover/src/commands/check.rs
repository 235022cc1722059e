//! `--check-usage`: what can be said about a command line without doing what it asks for.

use crate::cli::Command;
use crate::output::Failure;

/// Checks what was typed as far as it needs no host, no network and no files; 0 where nothing is wrong.
pub(super) fn run(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Pingpong(arguments) => arguments.spec().map(drop).map_err(Failure::usage)?,
        Command::Rr(arguments) => arguments.spec().map(drop).map_err(Failure::usage)?,
        Command::Ping(arguments) => arguments.spec().map(drop).map_err(Failure::usage)?,
        Command::Wake(arguments) => arguments.spec(|| [0].into_iter().collect()).map(drop).map_err(Failure::usage)?,
        Command::Pace(arguments) if arguments.schedule.schedule.is_none() => {
            arguments.spec().map(drop).map_err(Failure::usage)?;
        }
        Command::Stream(arguments) => arguments.spec(|| Ok(1472)).map(drop).map_err(Failure::usage)?,
        Command::Compare(arguments) => {
            for gate in &arguments.gates {
                gate.parse::<report::compare::Gate>().map_err(Failure::usage)?;
            }
        }
        _ => {}
    }
    Ok(0)
}
