//! Asking a person before the machine is changed.

use crate::output::{Failure, Output};
use std::io::{BufRead as _, IsTerminal as _};

/// Whether to go on. Asks once where a person sits at the terminal and has not answered by `yes`; scripts go on.
pub(crate) fn proceed(question: &str, yes: bool, output: &Output) -> Result<bool, Failure> {
    let automatic = std::env::var_os("CI").is_some_and(|value| value == "true");
    if yes || automatic || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(true);
    }
    output.ask(&format!("{question} [y/N] "));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
