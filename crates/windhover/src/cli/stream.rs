//! Flags of `stream`.

use super::Format;
use super::dump::Pcap;
use super::measure::{Ends, Output, Peer};
use super::pace::Factors;
use super::shared::FormArgs;
use clap::Args;
use model::plan::stream_factors;
use model::{Direction, ModelError, Probe, ProbeSpec, Protocol, SizeList, SocketSpec, StreamSpec};

/// `windhover stream`
#[derive(Debug, Args)]
pub(crate) struct Stream {
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) data: Data,
    /// Stream so long [default: 10]
    #[arg(long, short = 't', value_name = "S", default_value_t = 10.0, hide_default_value = true)]
    pub(crate) seconds: f64,
    /// A UDP ping-pong before and beside the stream shows what the load does to latency
    #[arg(long)]
    pub(crate) working_latency: bool,
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// Turn Nagle's algorithm off (TCP_NODELAY); iperf and netperf leave it on for bulk data too
    #[arg(long, short = 'N', help_heading = "Socket options")]
    pub(crate) nodelay: bool,
    /// Time to live, or hop limit, of data
    #[arg(long, value_name = "N", help_heading = "Socket options")]
    pub(crate) ttl: Option<u8>,
    #[command(flatten)]
    pub(crate) pcap: Pcap,
    #[command(flatten)]
    pub(crate) form: FormArgs<Format>,
    /// Say each second on standard output as a JSON line of type `interval` as soon as it is over; the result follows as
    /// one of type `result`
    #[arg(long, conflicts_with_all = ["format", "json"], help_heading = "Output")]
    pub(crate) jsonl: bool,
}

/// What is sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct Data {
    /// Which way: up (from here), down (from the far end), both
    #[arg(long, value_name = "WAY", default_value = "up")]
    pub(crate) direction: Direction,
    /// Both ways at once: --direction both
    #[arg(long, conflicts_with_all = ["direction", "reverse"])]
    pub(crate) bidir: bool,
    /// From the far end: --direction down
    #[arg(long, short = 'R', conflicts_with = "direction")]
    pub(crate) reverse: bool,
    /// Parallel flows in each direction
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, alias = "parallel")]
    pub(crate) flows: u32,
    /// Payload bits a second in each direction, such as 500k, 100M, 2.5G [default: as fast as it goes]
    #[arg(long, short = 'b', value_name = "BITS", value_parser = bits, alias = "bitrate")]
    pub(crate) bandwidth: Option<u64>,
    /// Datagrams a second in each direction instead, such as 50k; udp only
    #[arg(long, value_name = "PPS", value_parser = pps, conflicts_with = "bandwidth")]
    pub(crate) rate: Option<f64>,
    /// Bytes of a datagram, or of a write: a number or a list, measured one after the other [default: udp what a frame of
    /// the route carries, at most 1472; tcp 131072]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<SizeList>,
    /// Datagrams a system call at most (sendmmsg, recvmmsg); udp only [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub(crate) batch: u32,
    /// The kernel cuts long sends into datagrams (UDP_SEGMENT); udp only
    #[arg(long)]
    pub(crate) gso: bool,
    /// The kernel joins datagrams for the receiver (UDP_GRO): no jitter is known then; udp only
    #[arg(long)]
    pub(crate) gro: bool,
}

/// A number with k, M or G.
fn scaled(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().map_err(|_| "use a number, or one with k, M or G".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number * factor) } else { Err("use a number above 0".to_owned()) }
}

pub(crate) fn bits(text: &str) -> Result<u64, String> {
    let bits = scaled(text)?.round();
    if !(1.0..=1e13).contains(&bits) {
        return Err("use 1 bit to 10,000 Gbit a second".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(bits as u64)
}

/// An owner's limit: 0 is one too.
pub(crate) fn bits_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { bits(text) }
}

pub(crate) fn pps(text: &str) -> Result<f64, String> {
    scaled(text)
}

impl Stream {
    /// The measurement asked for; `fitting` gives the payload of a datagram that the route carries whole.
    pub(crate) fn spec(&self, fitting: impl FnOnce() -> anyhow::Result<u32>) -> anyhow::Result<(ProbeSpec, Factors)> {
        let protocol = Protocol::from(self.peer.protocol);
        let mut spec = ProbeSpec::new(Probe::Stream, protocol);
        spec.socket = SocketSpec { nodelay: self.nodelay, ttl: self.ttl, ..SocketSpec::new(protocol) };
        spec.stream = Some(StreamSpec {
            direction: match (self.data.bidir, self.data.reverse) {
                (true, _) => Direction::Both,
                (_, true) => Direction::Down,
                _ => self.data.direction,
            },
            flows: self.data.flows,
            rate_bps: self.data.bandwidth,
            rate_pps: self.data.rate,
            batch: self.data.batch,
            gso: self.data.gso,
            gro: self.data.gro,
            working_latency: self.working_latency,
        });
        let most = model::stream::default_size(protocol);
        spec.sizes = self.data.size.clone().unwrap_or_else(|| SizeList::one(most));
        spec.stop.max_ms = super::measure::ms("--seconds", self.seconds)?;
        self.ends.apply(&mut spec);
        spec.check()?;
        if self.form.get() == Format::Sfnt {
            return Err(ModelError::Conflict {
                what: "sfnt-pingpong has no columns for a stream".to_owned(),
                remedy: "use --format table, json, csv or markdown".to_owned(),
            }
            .into());
        }
        if protocol == Protocol::Udp && self.data.size.is_none() {
            spec.sizes = SizeList::one(fitting()?.clamp(model::stream::MIN_DATAGRAM, most));
        }
        let factors = stream_factors(&spec);
        Ok((spec, factors))
    }

    /// What comes out, in the form that all measuring commands share.
    pub(crate) fn output(&self) -> Output {
        Output { form: self.form, raw: None, percentile: None, worst: 0, over: None }
    }
}
