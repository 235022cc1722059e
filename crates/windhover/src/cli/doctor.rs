//! Flags of `doctor`.

use super::shared::{PlainForm, Root};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Check this machine for latency problems and suggest fixes
///
/// Changes nothing. Each finding names what was read, why it matters, the fix and its source: bad spoils a measurement, a
/// warning costs microseconds or makes figures vary, a note matters when reading them. Checks that cannot run here are
/// listed with the reason. docs/generated/checks.md lists all checks.
///
/// Exit codes: 0 nothing bad, 1 it could not be examined, 2 usage, 3 something bad (`diff`: something differs that should
/// not).
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Doctor {
    /// The CPUs to measure on: numbers and ranges (1,4-5), nic:IF, node:N; by default those behind a shield or isolated
    #[arg(long, value_name = "LIST", aliases = ["for", "cpu"])]
    pub(crate) cpus: Option<String>,
    /// The network device to measure over; by default all with hardware and a link
    #[arg(long, value_name = "IF")]
    pub(crate) nic: Option<String>,
    /// Only these checks (cpu.smt) or sections (cpu)
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Also measure on the first of these CPUs: the time that a spinning thread loses to others, and how long a real-time
    /// thread is stopped; keeps that CPU busy for about 3 s, half of it without any time for ordinary tasks
    #[arg(long)]
    pub(crate) measure: bool,
    /// Also show what is in order, all values read, and the source of each finding
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,
    /// Keep the document in this file, for `doctor diff`
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// With --save: replace the file
    #[arg(long, requires = "save")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) root: Root,
    #[command(subcommand)]
    pub(crate) command: Option<DoctorCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// Compare two saved documents: the two ends of a measurement, or one machine before and after
    Diff {
        /// The first document
        a: PathBuf,
        /// The second document
        b: PathBuf,
        #[command(flatten)]
        form: PlainForm,
    },
}
