//! Windhover's chores. `cargo xtask demo` shows the tool at work, `cargo xtask test` runs every test, `cargo xtask ci`
//! runs all that a change has to pass.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person or log that started it")]

mod arrows;
mod bench;
mod bpf;
mod ci;
mod commits;
mod demo;
mod files;
mod generated;
mod lines;
mod package;
mod packages;
mod portable;
mod process;
mod tests;
mod tools;
mod words;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Windhover's chores", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what is missing, build, measure the white papers' table on a lab of two hosts, show where the report is.
    Demo(demo::Arguments),
    /// Install what the tests need and run them all; tests that cannot run here are named with the reason.
    Test(tests::Arguments),
    /// Format, lints, tests, documentation, arrows, words, generated documents, licences: all that a change has to pass.
    Ci,
    /// Check who uses whom against the table in ARCHITECTURE.md, and that what is built for Windows uses nothing of Unix.
    Arrows,
    /// Check that product text uses no word of the table "Not used" in docs/glossary.md.
    Words,
    /// Compile the recorder's BPF programs with clang.
    Bpf(bpf::Arguments),
    /// Count the product's lines without tests, by crate, and name long files.
    Lines,
    /// Write man pages, completions and schemas again.
    Generate,
    /// Build a Debian package and a relocatable archive; try the package in a clean Debian root.
    Package(package::Arguments),
    /// Benchmarks that compare with other tools or give figures for docs/benchmarks.md.
    Bench(bench::Arguments),
    /// Run a fuzz target (or all, one after the other) for some seconds each on stable Rust.
    Fuzz {
        /// Target name; all when left out.
        target: Option<String>,
        /// Seconds a target.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Demo(arguments) => demo::run(&arguments),
        Chore::Test(arguments) => tests::run(&arguments).map(|_| ()),
        Chore::Ci => ci::run(),
        Chore::Arrows => arrows::run(),
        Chore::Words => words::run(),
        Chore::Bpf(arguments) => bpf::run(&arguments),
        Chore::Lines => lines::run(),
        Chore::Generate => generated::run(),
        Chore::Package(arguments) => package::run(&arguments),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Fuzz { target, seconds } => tools::fuzz(target.as_deref(), seconds),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
