//! Bulk data: how much, which way, over how many flows.

use crate::error::within;
use crate::{ModelError, ProbeSpec, Protocol, Receive, Role, SocketSpec};

words! {
    "direction";
    /// Which way the data goes.
    #[derive(Default)]
    pub enum Direction {
        /// From the initiator to the far end (netperf's STREAM).
        #[default]
        Up = "up",
        /// From the far end to the initiator (netperf's MAERTS, iperf's reverse).
        Down = "down",
        /// Both at once.
        Both = "both",
    }
}

impl Direction {
    /// The role that sends, of one direction.
    pub fn sender(self) -> Role {
        if self == Self::Down { Role::Reflector } else { Role::Initiator }
    }

    /// The role that receives, of one direction.
    pub fn receiver(self) -> Role {
        if self == Self::Down { Role::Initiator } else { Role::Reflector }
    }
}

/// The part of a specification that only `stream` has.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct StreamSpec {
    /// Which way.
    pub direction: Direction,
    /// Parallel flows, 1 to 128.
    pub flows: u32,
    /// Bits a second of payload over all flows and one direction; absent: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Datagrams a second over all flows and one direction, instead of `rate_bps`; udp only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<f64>,
    /// Datagrams a system call (sendmmsg, recvmmsg), 1 to 1024; udp only.
    pub batch: u32,
    /// UDP_SEGMENT: the kernel cuts one large send into datagrams; udp only.
    pub gso: bool,
    /// UDP_GRO: the kernel joins datagrams of one flow for the receiver; udp only.
    pub gro: bool,
    /// A UDP ping-pong beside the stream shows the latency under that load.
    pub working_latency: bool,
}

impl Default for StreamSpec {
    fn default() -> Self {
        Self {
            direction: Direction::Up,
            flows: 1,
            rate_bps: None,
            rate_pps: None,
            batch: 1,
            gso: false,
            gro: false,
            working_latency: false,
        }
    }
}

impl StreamSpec {
    /// Checks counts and rates. Errors: the first thing wrong, with what is accepted.
    pub fn check(&self, datagrams: bool) -> Result<(), ModelError> {
        within("flows", self.flows, 1..=128, "1 to 128")?;
        within("batch", self.batch, 1..=1024, "1 to 1024 datagrams")?;
        let accepted = "1 bit a second or more; leave it out for as fast as it goes";
        within("bandwidth", self.rate_bps.unwrap_or(1), 1..=u64::MAX, accepted)?;
        if let Some(rate) = self.rate_pps.filter(|rate| !(rate.is_finite() && *rate > 0.0 && *rate <= 100e6)) {
            return Err(ModelError::range("rate", rate, "above 0 and at most 100,000,000 datagrams a second"));
        }
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        if self.rate_bps.is_some() && self.rate_pps.is_some() {
            return conflict("a bandwidth and a packet rate contradict each other", "give only one of them");
        }
        if !datagrams && (self.rate_pps.is_some() || self.batch > 1 || self.gso || self.gro) {
            return conflict("packet rate, batch, gso and gro are for datagrams", "use udp, or leave them out");
        }
        Ok(())
    }
}

/// Smallest datagram of a stream: its number and its tag.
pub const MIN_DATAGRAM: u32 = 16;

/// The size of a datagram or write unless another is asked for: what an Ethernet frame carries over IPv4, or 128 KiB.
pub fn default_size(protocol: Option<Protocol>) -> u32 {
    if protocol == Some(Protocol::Udp) { 1472 } else { 128 << 10 }
}

/// Checks all of a specification that only a stream may not have. Errors: the first thing wrong, with the remedy.
pub(crate) fn check(spec: &ProbeSpec, stream: &StreamSpec) -> Result<(), ModelError> {
    let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
    let SocketSpec { protocol, multicast, .. } = spec.socket()?;
    if multicast.is_some() {
        return conflict("a stream goes to one address", "leave the multicast group out");
    }
    if let Some(mode) = spec.ends().map(|end| end.receive).find(|mode| !matches!(mode, Receive::Block | Receive::Spin))
    {
        return conflict(&format!("the receiver of a stream does not wait with {mode}"), "use --receive block or spin");
    }
    if spec.stop.max_ms == u32::MAX {
        return conflict("a stream lasts a time, not a count", "give seconds");
    }
    let small = spec.sizes.iter().find(|size| *protocol == Protocol::Udp && *size < MIN_DATAGRAM);
    if let Some(small) = small {
        let what = format!("a datagram of {small} bytes has no room for its number and its tag");
        return conflict(&what, &format!("use --size {MIN_DATAGRAM} or more"));
    }
    stream.check(*protocol == Protocol::Udp)
}

/// One interval of one direction. What an end cannot know is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct StreamInterval {
    /// Payload delivered to the receiving application.
    pub bytes: u64,
    /// Datagrams delivered, each counted once.
    pub received: u64,
    /// Of the datagrams whose numbers belong to this interval, those that never came.
    pub lost: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicated: u64,
    /// Interarrival jitter at its end (RFC 3550, section 6.4.1), in ns; mean of the flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<f64>,
}

/// What the receiving end counted of one direction, all flows together.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct StreamReceived {
    /// Payload delivered to the application, each datagram once.
    pub bytes: u64,
    /// Datagrams delivered, each once; 0 for TCP.
    pub received: u64,
    /// Numbers that were passed: one more than the highest seen, summed over flows; 0 for TCP.
    pub passed: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicated: u64,
    /// Datagrams so late that they might have come before; they stay lost.
    pub too_late: u64,
    /// Datagrams of others (another tag or size).
    pub ignored: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1) after the first interval, mean of the flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_first_ns: Option<f64>,
    /// At the end, mean of the flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<f64>,
    /// Largest of any flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_max_ns: Option<f64>,
    /// From the first arrival to the last.
    pub elapsed_ns: u64,
    /// Length of an interval: 1 s, doubled whenever there would be more than 4096.
    pub interval_ns: u64,
    /// Intervals since the first arrival.
    pub intervals: Vec<StreamInterval>,
}

/// What TCP reported in one second (tcp_info of tcp(7)), all flows together.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct TcpInterval {
    /// Segments sent again in it.
    pub retransmits: u64,
    /// Smoothed RTT at its end, mean of the flows.
    pub rtt_ns: u64,
    /// Congestion window at its end, sum of the flows.
    pub window_bytes: u64,
}

/// What the sending end did in one direction, all flows together.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct StreamSent {
    /// Payload that the kernel took.
    pub bytes: u64,
    /// Datagrams that the kernel took; 0 for TCP.
    pub datagrams: u64,
    /// From the first send call to the last.
    pub elapsed_ns: u64,
    /// Send calls that found no buffer (ENOBUFS) and were made again.
    pub no_buffer: u64,
    /// Congestion control; absent for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Segments sent again; absent for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Smoothed RTT, mean of the seconds; absent for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_mean_ns: Option<u64>,
    /// Its largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_max_ns: Option<u64>,
    /// What TCP reported each second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<TcpInterval>,
}

impl StreamSpec {
    /// Whether data goes from the initiator to the far end.
    pub fn goes_up(&self) -> bool {
        self.direction != Direction::Down
    }

    /// Whether data goes from the far end to the initiator.
    pub fn goes_down(&self) -> bool {
        self.direction != Direction::Up
    }

    /// Data sockets: `flows` for each direction; the first ones go up.
    pub fn sockets(&self) -> u32 {
        self.flows * if self.direction == Direction::Both { 2 } else { 1 }
    }

    /// Whether the data socket of a number goes up.
    pub fn is_up(&self, socket: u32) -> bool {
        self.goes_up() && socket < self.flows
    }

    /// Datagrams that one system call may carry with `gso`: what fits a UDP datagram's length, at most 64
    /// (UDP_MAX_SEGMENTS of Linux); 1 without.
    pub fn segments(&self, size: u32) -> u32 {
        const ROOM: u32 = 65_507;
        const MOST: u32 = 64;
        if self.gso { (ROOM / size.max(1)).clamp(1, MOST) } else { 1 }
    }

    /// The rate of one flow in messages (datagrams, or writes) of `size` bytes a second; `None`: as fast as it goes.
    pub fn flow_pps(&self, size: u32) -> Option<f64> {
        let all = self.rate_pps.or_else(|| self.rate_bps.map(|bits| bits as f64 / 8.0 / f64::from(size.max(1))))?;
        Some(all / f64::from(self.flows.max(1)))
    }
}
