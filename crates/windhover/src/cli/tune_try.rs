//! Flags of `tune try`.

use super::lab::{LabChoice, lab_choice};
use super::shared::PlainForm;
use clap::Args;
use std::path::PathBuf;

/// `windhover tune try`
#[derive(Debug, Args)]
pub(crate) struct TuneTry {
    /// Try each setting of this profile (see `windhover tune list`)
    #[arg(required_unless_present = "settings")]
    pub(crate) profile: Option<String>,
    /// Try this setting too; several joined by ';' are tried as one
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The network device that keys beginning with nic. mean on the hosts of --plan; in the built-in lab it is the lab's
    #[arg(long, value_name = "IF", requires = "plan")]
    pub(crate) nic: Option<String>,
    /// How often each setting is measured [default: the fewest with which one of so many settings can be significant, at least 5]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,
    /// The figure that decides: p50, p99, p99.9, mean or stdev
    #[arg(long, value_name = "FIGURE", default_value = "p50", value_parser = figure)]
    pub(crate) by: model::Statistic,
    /// The least change that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub(crate) least: f64,
    /// Apply what helped at the end (`windhover tune undo` puts it back)
    #[arg(long)]
    pub(crate) keep: bool,
    /// Measure the cells of this plan instead of the one that the flags below describe
    #[arg(long, value_name = "FILE", conflicts_with_all = ["protocol", "size", "seconds", "receive", "policy", "cpu", "load", "shield", "lab"])]
    pub(crate) plan: Option<PathBuf>,
    /// Lab: netns or loopback, a new one of that kind; or the NAME of one that is up (lab up)
    #[arg(long, value_parser = lab_choice, value_name = "LAB", default_value = "netns")]
    pub(crate) lab: LabChoice,
    #[arg(long, default_value = "udp", help = model::Protocol::words_for(model::Probe::Pingpong))]
    pub(crate) protocol: String,
    /// Message size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) size: u32,
    /// Seconds a measurement
    #[arg(long, short = 't', value_name = "S", default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Receive mode: block, spin, poll, select, epoll ...; INITIATOR;REFLECTOR where they differ
    #[arg(long, value_name = "MODE", default_value = "block")]
    pub(crate) receive: String,
    /// Policy: other, fifo:N, rr:N; INITIATOR;REFLECTOR where they differ
    #[arg(long, default_value = "other")]
    pub(crate) policy: String,
    /// CPU of each end, INITIATOR;REFLECTOR: what helps depends on whether they share one
    #[arg(long, value_name = "CPU", default_value = "0;1")]
    pub(crate) cpu: String,
    /// Load beside the measurement: none, build, cpu, memory, disk, net or context
    #[arg(long, default_value = "none")]
    pub(crate) load: String,
    /// Shield meanwhile: off, affinity, v1, v2, isolcpus or auto
    #[arg(long, default_value = "off")]
    pub(crate) shield: String,
    /// Seed of the order
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Folder that the run directory is made in
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

fn figure(text: &str) -> Result<model::Statistic, String> {
    campaign::deciding(text).map_err(|error| error.to_string())
}
