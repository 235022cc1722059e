//! Flags of captures: `--pcap` of the measuring commands, and `windhover dump`.

use super::shared::{Form, FormArgs};
use clap::{Args, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

/// A capture beside a measurement.
#[derive(Debug, Args)]
#[command(next_help_heading = "Capture")]
pub(crate) struct Pcap {
    /// Write this measurement's packets to FILE as pcapng; needs CAP_NET_RAW
    #[arg(hide_short_help = true, id = "pcap", long = "pcap", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Payload kept of each packet behind its headers
    #[arg(hide_short_help = true, id = "pcap-snap", long = "pcap-snap", value_name = "BYTES", default_value_t = probe::PAYLOAD_BYTES, requires = "pcap",
        value_parser = clap::value_parser!(u32).range(0..=65_535))]
    pub(crate) snap: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// A pcap or pcapng file, `-` for one on standard input, or a network interface to listen on (needs CAP_NET_RAW)
    #[arg(value_name = "FILE|IF")]
    pub(crate) source: String,
    /// Stop after so many messages
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Stop so long after the first packet (on an interface: after the start)
    #[arg(long, short = 't', value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Only packets from or to this port, whose UDP datagrams are then taken for data messages; may be repeated
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Vec<u16>,
    /// UDP datagrams from or to this port are PGM too, as those of 3055 and 3056 are; may be repeated
    #[arg(long, value_name = "PORT")]
    pub(crate) pgm_port: Vec<u16>,
    /// Only packets from or to this address; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub(crate) host: Vec<IpAddr>,
    /// Print packets that are not Windhover's too
    #[arg(long)]
    pub(crate) all: bool,
    /// Print no packets, only the summary, also with --all
    #[arg(long)]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) form: FormArgs<DumpFormat>,
}

/// How `dump` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// One line a packet, then the summary
    #[value(alias = "table")]
    Text,
    /// One JSON object a line; the last one is the summary
    Json,
}

impl Form for DumpFormat {
    const DEFAULT: &str = "text";
    const JSON: Self = Self::Json;
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    if value > 0.0 && value <= 1e9 { Ok(value) } else { Err("use more than 0 seconds".to_owned()) }
}
