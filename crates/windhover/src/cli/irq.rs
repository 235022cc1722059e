//! Flags of `irq`.

use super::shared::{PlainForm, SystemArgs, seconds};
use clap::Args;
use std::time::Duration;

/// Show how often interrupts and softirqs come to each CPU, live
///
/// One row an interrupt, the busiest first: its rate on each CPU, the CPUs that it may go to and those that it goes to, and the
/// policy of its thread, where it has one. CPUs behind a shield are marked with *. Rows with nothing in the interval are left
/// out.
///
/// On a terminal it runs until q or Ctrl-C, then prints the rates of the whole time. Elsewhere, and with --format json, it shows one
/// interval, or --count of them.
///
/// Exit codes: 0 done, 1 /proc/interrupts cannot be read, 2 usage, 130 interrupted before --count intervals.
#[derive(Debug, Args)]
pub(crate) struct Irq {
    /// Only what comes to these CPUs: numbers and ranges (1,4-5), nic:IF, node:N [default: all; the busiest where the terminal
    /// is too narrow]
    #[arg(long, value_name = "LIST", alias = "cpus")]
    pub(crate) cpu: Option<String>,
    /// Length of an interval in seconds
    #[arg(long, short = 'i', value_name = "S", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Stop after so many intervals
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Also show rows with nothing in the interval
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
}
