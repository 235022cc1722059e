//! The command line and the worker's entry: parse, call, print. The only place that prints.

#[macro_use]
mod output;

#[allow(rustdoc::broken_intra_doc_links, reason = "these comments are help texts, for people")]
mod cli;
mod commands;

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    if guest::inside::is_first_process() {
        guest::inside::first_process();
    }
    let started = Instant::now();
    let cli = match cli::parse::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell when it cannot be written.
            let _ = match version(&error) {
                Some(version) => output::written(version.as_bytes()).map(drop),
                None => error.print(),
            };
            return ExitCode::from(usage_code(&error));
        }
    };
    let output = output::Output::new(&cli);
    match commands::run(cli, &output, started) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output.error(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// The answer to `--version`. It is made only when it is asked for, because it takes a read of the whole program.
fn version(error: &clap::Error) -> Option<String> {
    let asked =
        error.kind() == clap::error::ErrorKind::DisplayVersion && std::env::args().any(|word| word == "--version");
    let version = asked.then(commands::identity::long_version)?.ok()?;
    Some(format!("{version}\n"))
}

/// `run` and `bypass run` pass their program's exit code on, so their own mistakes have a code that programs rarely use
/// (env(1)).
fn usage_code(error: &clap::Error) -> u8 {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .filter(|word| !word.starts_with('-'))
        .take(2)
        .collect::<Vec<_>>();
    let passes_code = words.iter().find(|word| *word != "bypass").is_some_and(|word| word == "run");
    match (error.use_stderr(), passes_code) {
        (false, _) => 0,
        (true, true) => 125,
        (true, false) => 2,
    }
}
