//! `--check-usage`: checks of a command line without doing what it asks for.

use super::measuring;
use crate::cli::Command;
use crate::output::Failure;

/// Checks what was typed as far as it needs no host, no network and no files; 0 where nothing is wrong.
pub(super) fn run(command: &Command) -> Result<u8, Failure> {
    if let Command::Measure(measure) = command {
        measuring::of(measure).check()?;
    }
    if let Command::Compare(arguments) = command {
        for gate in &arguments.gates {
            gate.parse::<digest::compare::Gate>().map_err(Failure::usage)?;
        }
    }
    Ok(0)
}
