//! One module a command: parsed flags in, calls to the other crates, printing.

mod against;
mod agent;
mod ask;
mod bypass;
mod bypass_capture;
mod bypass_probe;
mod bypass_stat;
mod campaign;
mod capture;
mod check;
mod child;
mod compare;
mod complete;
mod doctor;
mod dump;
mod exchange;
mod explain;
mod explain_live;
mod generate;
mod guest_init;
pub(crate) mod identity;
mod import;
mod irq;
mod key;
mod lab;
mod launch;
mod live;
mod load;
mod measure;
mod measuring;
mod pgm;
mod plot;
mod questions;
mod report;
mod self_test;
mod serve;
mod shield;
mod signals;
mod tune;
mod tune_boot;
mod tune_try;
mod undo;
mod worker;

use crate::cli::{self, Cli, Command};
use crate::output::{Failure, Output};
use std::time::Instant;

/// Runs a command; the value is the exit code.
pub(crate) fn run(cli: Cli, output: &Output, started: Instant) -> Result<u8, Failure> {
    if cli.check_usage {
        let second = cli.second.as_ref().map_or(Ok(0), |second| check::run(&second.command));
        return second.and(check::run(&cli.command));
    }
    if let Some(second) = &cli.second {
        return against::run(&cli.command, second, output);
    }
    if let Command::Measure(command) = &cli.command
        && let Some(stack) = command.peer().and_then(cli::measure::Peer::stack)
    {
        measure::go_behind(stack)?;
    }
    match cli.command {
        Command::Key => key::run(output),
        Command::Serve(arguments) => serve::run(&arguments, output),
        Command::Measure(command) => measure::of_command(measuring::of(&command), output, started),
        Command::Pgm(command) => pgm::run(&command, output),
        Command::Exchange(command) => exchange::run(&command, output),
        Command::Dump(arguments) => dump::run(&arguments, output),
        Command::Load(arguments) => load::run(&arguments, output),
        Command::Run(arguments) => launch::run(&arguments, output),
        Command::Bypass(arguments) => bypass::run(arguments.command, output),
        Command::Shield(arguments) => shield::run(&arguments, output),
        Command::Tune(arguments) => tune::run(arguments.command, output),
        Command::Doctor(arguments) => doctor::run(&arguments, output),
        Command::Irq(arguments) => irq::run(&arguments, output),
        Command::Lab(arguments) => lab::run(arguments.command, output),
        Command::Campaign(arguments) => campaign::run(arguments.command, output),
        Command::Report(arguments) => report::report(&arguments, output),
        Command::Compare(arguments) => compare::run(&arguments, output),
        Command::Plot(arguments) => plot::run(&arguments, output),
        Command::Import(arguments) => import::run(&arguments, output),
        Command::Explain(arguments) => explain::run(&arguments, output),
        Command::Show(arguments) => report::show(&arguments, output),
        Command::Agent(arguments) => agent::run(arguments.build),
        Command::GuestInit(arguments) => guest_init::run(&arguments),
        Command::Undo(arguments) => undo::run(&arguments, output),
        Command::Keeper(arguments) => Ok(undo::keep(&arguments, output)),
        Command::LoadUnit { input, output } => load_unit(&input, &output),
        Command::Hold(arguments) => Ok(tune::hold(&arguments)),
        Command::Worker => worker::run(started),
        Command::Complete(arguments) => complete::run(&arguments, output),
        Command::Generate(arguments) => generate::run(&arguments),
    }
}

fn load_unit(input: &std::path::Path, output: &std::path::Path) -> Result<u8, crate::output::Failure> {
    use anyhow::Context as _;
    ::load::unit(input, output).with_context(|| format!("a unit of {}", input.display()))?;
    Ok(0)
}
