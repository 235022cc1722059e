//! Asking a person before the machine is changed.

use crate::output::{Failure, Output};
use std::io::{BufRead as _, IsTerminal as _};

/// Whether to go on: by `yes`, or by a person's answer at the terminal. Where neither can be had, `plan`, which the person would
/// have read, is the result. Errors: a usage error without `yes` where no terminal is there to ask.
pub(crate) fn proceed(plan: &str, question: &str, yes: bool, output: &Output) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        output.result(plan)?;
        refuse!("no terminal to ask, nothing was changed: add --yes");
    }
    output.ask(&format!("{question} [y/N] "));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
