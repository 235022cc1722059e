//! The command line and the worker's entry: parse, call, print. The only place that prints.

#[allow(rustdoc::broken_intra_doc_links, reason = "these comments are help texts, for people")]
mod cli;
mod commands;
mod output;

use clap::Parser as _;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let started = Instant::now();
    let cli = cli::Cli::parse();
    let output = output::Output::new(&cli);
    match commands::run(cli, &output, started) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output.error(&failure);
            ExitCode::from(failure.code)
        }
    }
}
