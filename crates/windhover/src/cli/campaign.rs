//! Flags of `campaign`, `report` and `show`.

use super::lab::{LabChoice, lab_choice};
use super::shared::{MixArgs, pair};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Campaign {
    #[command(subcommand)]
    pub(crate) command: CampaignCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CampaignCommand {
    /// Check a plan and show its cells and how long it takes
    ///
    /// Example plans, such as heat-map.toml, are in campaigns/ of the source tree and of the archive, and in
    /// /usr/share/doc/windhover/examples/campaigns of the package. All keys are in generated/plan.md, below docs/ of the source tree
    /// and of the archive, and below /usr/share/doc/windhover of the package.
    Plan {
        /// The plan (TOML)
        plan: PathBuf,
    },
    /// Run a plan and write a run directory
    ///
    /// `windhover help campaign plan` says where example plans and the list of all keys are.
    Run {
        /// The plan (TOML)
        plan: PathBuf,
        /// Folder that the run directory is made in
        #[arg(long, short, value_name = "DIR", default_value = ".")]
        output: PathBuf,
        /// Use this lab instead of the plan's: netns or loopback, a new one of that kind; or the NAME of one that is up (lab up)
        #[arg(long, value_parser = lab_choice, value_name = "LAB")]
        lab: Option<LabChoice>,
        /// Set a label, such as nic=X520; may be repeated
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// Seed of the order instead of the plan's
        #[arg(long)]
        seed: Option<u64>,
        /// Repetitions of every cell, instead of the plan's and its grids'
        #[arg(long, value_name = "N")]
        repetitions: Option<u32>,
        /// Make this many runs, one after the other, each with the next seed: the samples of compare A1 A2 … --with B1 B2 …
        /// An error or an interrupt ends the series
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        repeat_runs: u32,
        /// Write events to standard output as JSON lines: begin, cell, interval, result, failed, end
        #[arg(long)]
        jsonl: bool,
        /// Print a line for each cell and each change of a host, not only what went wrong
        #[arg(long, short)]
        verbose: bool,
    },
    /// Continue a run that was interrupted or killed
    Resume {
        /// The run directory
        run: PathBuf,
        /// Write events to standard output as JSON lines, as run does
        #[arg(long)]
        jsonl: bool,
        /// Print a line for each cell, as run does
        #[arg(long, short)]
        verbose: bool,
    },
    /// List the runs in a folder
    List {
        /// The folder
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Aligned text
    #[value(alias = "text")]
    Table,
    /// Markdown
    Markdown,
    /// CSV with one row a cell and repetition
    Csv,
    /// CSV with one row a cell, its repetitions together: the report's figures
    CsvCells,
    /// An array of result documents
    Json,
    /// One self-contained file
    Html,
}

impl ReportFormat {
    pub(crate) const ENDINGS: [(&str, Self); 5] =
        [("html", Self::Html), ("md", Self::Markdown), ("csv", Self::Csv), ("json", Self::Json), ("txt", Self::Table)];
}

#[derive(Debug, Args)]
pub(crate) struct ReportCommand {
    /// Run directories; several are put side by side
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Form of the result [default: from the ending of --output (.html, .md, .csv, .json, .txt), else html]
    #[arg(long, value_enum, value_name = "FORM", help_heading = "Output")]
    pub(crate) format: Option<ReportFormat>,
    /// As --format json, in the word of iperf3 and others
    #[arg(long, short = 'J', hide = true, conflicts_with = "format")]
    pub(crate) json: bool,
    /// File to write; one that exists only with --force, but for a run's own report.html [default: report.html in the first run for
    /// html, else standard output]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the file
    #[arg(long, help_heading = "Output")]
    pub(crate) force: bool,
    /// Add the papers' published rows, marked as measured on other hardware
    #[arg(long, help_heading = "Output")]
    pub(crate) reference: bool,
    #[command(flatten)]
    pub(crate) mix: MixArgs,
    /// Message size of the papers' table in bytes [default: 32, or the nearest size that the runs have]
    #[arg(long, value_name = "BYTES", help_heading = "Output")]
    pub(crate) size: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The run directory
    pub(crate) run: PathBuf,
    /// Add the papers' published rows, marked as measured on other hardware
    #[arg(long)]
    pub(crate) reference: bool,
    /// Show each cell's figures and verdicts too
    #[arg(long)]
    pub(crate) cells: bool,
}
