//! Flags of `exchange`: cyclic data between control PCs.

use super::shared::PlainForm;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Exchange {
    /// Check an exchange file and compute what it costs: bytes, rates, shares of links and of cycles
    Check(Check),
    /// Run nodes of an exchange file: publish and receive topics each cycle, and count what was late or lost
    ///
    /// Received topics are in images in shared memory (/dev/shm), which `exchange top` and programs read. The file is the same on
    /// all hosts; each host names its own node. Ctrl-C ends without --seconds.
    Run(Run),
    /// Show the images of topics on this host until ended: rate, age, quality, losses, missed deadlines
    Top(Top),
    /// Measure what an image and a frame cost on this host
    Bench(Bench),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The exchange file (TOML)
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The exchange file (TOML)
    pub(crate) file: PathBuf,
    /// Run this node; may be repeated [default: all nodes of the file, in this process]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Vec<String>,
    /// End after so long
    #[arg(long, short = 't', value_name = "S", value_parser = super::dump::seconds)]
    pub(crate) seconds: Option<f64>,
    /// Use addresses that are not private, too: frames have no key
    #[arg(long)]
    pub(crate) allow_public: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Time between two tables, over which rates are computed
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = super::dump::seconds)]
    pub(crate) interval: f64,
    /// Print one table and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Bytes of data
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u16).range(8..=1384))]
    pub(crate) size: u16,
    /// Measure for about so long
    #[arg(long, short = 't', value_name = "S", default_value_t = 6.0, value_parser = super::dump::seconds)]
    pub(crate) seconds: f64,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}
