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
        Err(cli::parse::Stopped::Help(text)) => {
            output::help(&text);
            return ExitCode::SUCCESS;
        }
        Err(cli::parse::Stopped::Wrong(error)) => {
            output::usage(&error);
            return ExitCode::from(usage_code());
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

/// `run` and `bypass run` return their program's code, so their usage errors have a rarely used one (env(1)).
fn usage_code() -> u8 {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .filter(|word| !word.starts_with('-'))
        .take(2)
        .collect::<Vec<_>>();
    let passes_code = words.iter().find(|word| *word != "bypass").is_some_and(|word| word == "run");
    if passes_code { 125 } else { 2 }
}
