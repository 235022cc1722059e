//! The command line: one definition of each flag, from which help, man pages and completions are made.

pub(crate) mod against;
pub(crate) mod bypass;
pub(crate) mod campaign;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod exchange;
pub(crate) mod explain;
pub(crate) mod factors;
pub(crate) mod guide;
pub(crate) mod import;
pub(crate) mod irq;
pub(crate) mod lab;
pub(crate) mod launch;
pub(crate) mod measure;
pub(crate) mod pace;
pub(crate) mod parse;
mod peers;
pub(crate) mod pgm;
pub(crate) mod plot;
pub(crate) mod serve;
pub(crate) mod shared;
pub(crate) mod shield;
pub(crate) mod stream;
pub(crate) mod tune;
pub(crate) mod tune_try;
pub(crate) mod undo;
pub(crate) mod usage;
pub(crate) mod values;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures what a message really experiences between two applications, and reports it.
///
/// Exit codes: 0 done, 1 the run failed, 2 usage or plan error, 3 a gate failed, 4 measured, but invalid,
/// 5 a remote host was lost, 130 interrupted (stopped in order by SIGINT, SIGTERM or SIGHUP; what was measured is printed,
/// what was changed is put back). A second signal ends the command at once, 128 + its number to a shell; a keeper process
/// then puts back what was changed. `run` ends with its program's own code, and 125 to 127 as env(1).
#[derive(Debug, Parser)]
#[command(name = "windhover", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colour
    #[arg(hide_short_help = true, long, value_enum, default_value_t = Colour::Auto, global = true, value_name = "WHEN")]
    pub(crate) color: Colour,
    /// Print no progress and no notes, only results and errors
    #[arg(hide_short_help = true, long, global = true)]
    pub(crate) quiet: bool,
    /// Only check the command line: run nothing and read no file
    #[arg(long, hide = true)]
    pub(crate) check_usage: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// The second side of a comparison (`--against`).
    #[arg(skip)]
    pub(crate) second: Option<Box<against::Second>>,
}

impl Cli {
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet || matches!(&self.command, Command::Measure(Measure::Wake(wake)) if wake.is_quiet)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// When standard error is a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

// What has no words here has them at its type: they are longer than a line.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a shared key for `serve` and its clients
    Key,
    Serve(serve::Serve),
    #[command(flatten)]
    Measure(Measure),
    /// Send, receive and time messages over PGM, the reliable multicast protocol (RFC 3208)
    #[command(subcommand)]
    Pgm(pgm::Pgm),
    /// Exchange process data between control PCs each cycle, and count what is late or lost
    #[command(subcommand)]
    Exchange(exchange::Exchange),
    /// Decode captured packets: Windhover's messages and the time between them
    Dump(dump::Dump),
    /// Run a background load and report how even it was
    Load(serve::LoadCommand),
    /// Start a program with policy, priority and CPUs, or change running tasks
    Run(Box<launch::Run>),
    /// Run unmodified programs on a faster network stack
    Bypass(bypass::Bypass),
    Shield(Box<shield::Shield>),
    /// Set many settings by a profile, and put them back
    Tune(tune::Tune),
    /// Check this machine for latency problems and suggest fixes
    Doctor(Box<doctor::Doctor>),
    Irq(irq::Irq),
    /// Make, list, use and remove labs of hosts
    Lab(lab::Lab),
    /// Run a plan: all combinations of its factors, interleaved and repeated
    Campaign(campaign::Campaign),
    /// Report runs as a table, Markdown, CSV, JSON or one HTML file
    Report(campaign::ReportCommand),
    Compare(Box<compare::Compare>),
    Plot(Box<plot::Plot>),
    Import(import::Import),
    Explain(explain::Explain),
    /// Show a run in the terminal
    Show(campaign::Show),
    /// Supervise one host for a campaign: requests on stdin, replies on stdout
    Agent(lab::Agent),
    /// Put changed settings back as they were
    Undo(undo::Undo),
    /// Undo a change set when its owner vanishes
    #[command(hide = true)]
    Keeper(undo::Keeper),
    /// Do one unit of work of the load `build`, on a system without compiler and shell
    #[command(hide = true)]
    LoadUnit {
        /// Its source
        input: std::path::PathBuf,
        /// What it makes
        output: std::path::PathBuf,
    },
    /// Keep CPUs out of deep sleep until ended
    #[command(hide = true)]
    Hold(tune::Hold),
    /// Serve the ports of a guest, as the process that its first one starts
    #[command(hide = true)]
    GuestInit(lab::GuestInit),
    /// Keep the worker contract: a spec on stdin, events on stdout
    #[command(hide = true)]
    Worker,
    /// Print the words that may stand in the place of the last one, for completions
    #[command(hide = true)]
    Complete(serve::Complete),
    /// Write man pages, completions and schemas
    #[command(hide = true)]
    Generate(serve::Generate),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Measure {
    /// Time messages there and back, one at a time
    Pingpong(measure::Pingpong),
    /// Count request/response transactions and the CPU they cost
    Rr(measure::Rr),
    /// Time ICMP echoes
    Ping(measure::Ping),
    /// Send messages at a fixed rate and time their answers, whether or not they keep up
    Pace(Box<pace::Pace>),
    /// Send bulk data one way or both and count what arrives; shows what the load does to latency
    Stream(Box<stream::Stream>),
    /// Time how late sleeping threads wake up, as cyclictest does
    #[command(disable_help_flag = true)]
    Wake(measure::Wake),
    /// Publish data each cycle, have them echoed, and count missed deadlines
    Cycle(measure::Cycle),
}

impl Measure {
    pub(crate) fn peer(&self) -> Option<&measure::Peer> {
        match self {
            Self::Pingpong(arguments) => Some(&arguments.peer),
            Self::Rr(arguments) => Some(&arguments.peer),
            Self::Pace(arguments) => Some(&arguments.peer),
            Self::Stream(arguments) => Some(&arguments.peer),
            Self::Cycle(arguments) => Some(&arguments.peer),
            Self::Ping(_) | Self::Wake(_) => None,
        }
    }
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned text
    #[value(alias = "text")]
    Table,
    /// One result document a line
    Json,
    /// One row a size
    Csv,
    /// A Markdown table
    Markdown,
    /// The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns
    Sfnt,
}

impl shared::Form for Format {
    const DEFAULT: &str = "table";
    const JSON: Self = Self::Json;
}
