//! What rate, one-way and bulk measurements add to a result.

use crate::{Direction, Latency};

/// The rate that was asked for and what became of it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RateReport {
    /// Mean rate asked for, in messages a second; of a schedule file the one that follows from its times.
    pub asked_pps: f64,
    /// Messages sent, divided by the time from the first intended send to one distance of the schedule after the last
    /// actual one (n messages in time last n distances).
    pub achieved_pps: f64,
    /// Messages that the schedule held.
    pub intended: u64,
    /// Messages sent more than one interval of the schedule late: the sender had fallen behind and caught up.
    pub behind: u64,
    /// Largest number of messages that the sender was behind at once.
    pub most_behind: u64,
    /// Runs of messages lost one after the other, each reflector counted; `null` in results of older versions.
    pub gaps: Option<u64>,
    /// Messages of the longest of these runs; `null` in results of older versions.
    pub longest_gap: Option<u64>,
    /// Messages of this size a second that the link carries, from the rate it reports and what they take on the wire
    /// (81,274 full frames on 1 Gbit/s); `null` where there is no link with a rate of its own (veth and loopback).
    pub line_pps: Option<f64>,
    /// What could not keep up, when something could not: `initiator`, `reflector` or `path`, with the evidence.
    pub saturated: Option<Saturated>,
}

words! {
    /// What limits a rate.
    pub enum Bottleneck {
        /// The end that starts messages.
        Initiator = "initiator",
        /// An end that answers them.
        Reflector = "reflector",
        /// What is between the ends, or where a host sends.
        Path = "path",
        /// Read from a document of a newer version, with a word that this one does not know.
        #[serde(other)]
        Other = "other",
    }
}

/// What could not keep up with the rate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Saturated {
    /// What it was.
    pub who: Bottleneck,
    /// The evidence, in figures.
    pub why: String,
}

/// Signed summary of one-way times.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Signed {
    /// Messages counted.
    pub count: u64,
    /// Exact mean.
    pub mean_ns: f64,
    /// Exact sample standard deviation.
    pub stdev_ns: Option<f64>,
    /// Smallest.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: Option<i64>,
    /// 99th percentile.
    pub p99_ns: Option<i64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<i64>,
    /// Largest.
    pub max_ns: i64,
}

words! {
    /// How one-way times were computed.
    pub enum OneWayMethod {
        /// One machine, one counter: exact.
        SameClock = "same-clock",
        /// Offset estimated from the fastest round trips.
        MinRtt = "min-rtt",
        /// Read from a document of a newer version, with a word that this one does not know.
        #[serde(other)]
        Other = "other",
    }
}

words! {
    /// Where time stamps of messages were taken.
    #[derive(Default)]
    pub enum StampSource {
        /// By the applications, around their calls.
        #[default]
        Application = "application",
        /// By the kernel: when the driver sent, when the stack received.
        Kernel = "kernel",
        /// By the NIC.
        Hardware = "hardware",
        /// By the NIC of what is sent, by the kernel of what is received.
        HardwareSent = "hardware-sent",
        /// Read from a document of a newer version, with a word that this one does not know.
        #[serde(other)]
        Other = "other",
    }
}

words! {
    /// A part of the round trip, in the order of the path.
    pub enum SegmentName {
        /// Send call to the driver's stamp, here.
        Send = "send",
        /// All that is not in the others: both ways, and the far send.
        Wire = "wire",
        /// The far stack's receive stamp to its application.
        FarKernel = "far-kernel",
        /// The far application, receive to send.
        FarApplication = "far-application",
        /// The near stack's receive stamp to the application.
        NearKernel = "near-kernel",
        /// Read from a document of a newer version, with a word that this one does not know.
        #[serde(other)]
        Other = "other",
    }
}

/// One-way times from the reflector's stamps in the answers.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct OneWay {
    /// From the send call to the reflector's receive call's return.
    pub out: Signed,
    /// From the reflector's send call to the receive call's return here.
    pub back: Signed,
    /// How they were computed.
    pub method: OneWayMethod,
    /// The far clock less ours at the start, of the clocks that the figures are in: the wall clocks with stamps of the
    /// kernel or the NIC, else the counters, which count from wherever they do; 0 with `same-clock`.
    pub offset_ns: i64,
    /// How fast the far clock runs against ours, in parts per million; 0 with `same-clock`.
    pub drift_ppm: f64,
    /// Half the width within which the true offset lies; to be added to each one-way figure. 0 with `same-clock`.
    pub error_ns: u64,
    /// Which stamps of the round trips the offset is from: the best there were at both ends.
    #[serde(default)]
    pub stamps: StampSource,
    /// With all but `application`: what this end and then the far one stamps with. Their errors are in `error_ns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<crate::StampClock>,
}

/// A part of the round trip, between two stamps of one host each (so no offset of clocks is in it).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Segment {
    /// Which part it is.
    pub name: SegmentName,
    /// Where its stamps were taken.
    pub stamps: StampSource,
    /// Its times. RTT kind; figures are whole, not halved.
    pub latency: Latency,
}

/// One of several reflectors.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ReflectorReport {
    /// Its host or address.
    pub host: String,
    /// Latency from the actual send time.
    pub latency: Option<Latency>,
    /// Latency from the intended send time.
    pub latency_intended: Option<Latency>,
    /// Messages to and from it.
    pub messages: crate::Messages,
    /// One-way times, where its clock allows.
    pub one_way: Option<OneWay>,
}

/// One direction of a stream.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct FlowReport {
    /// `up` or `down`.
    pub direction: Direction,
    /// Parallel flows.
    pub flows: u32,
    /// Payload that reached the receiving application.
    pub bytes: u64,
    /// Time over which it was received; of datagrams the sending end's time, where that was longer.
    pub elapsed_ns: u64,
    /// Payload delivered, in bits a second.
    pub bits_per_second: f64,
    /// Datagrams sent; `null` for TCP.
    pub sent: Option<u64>,
    /// Datagrams delivered; `null` for TCP.
    pub received: Option<u64>,
    /// Datagrams delivered a second; `null` for TCP.
    pub datagrams_per_second: Option<f64>,
    /// Datagrams lost; `null` for TCP.
    pub lost: Option<u64>,
    /// Datagrams that came after a later one; `null` for TCP.
    pub reordered: Option<u64>,
    /// Datagrams that came twice; `null` for TCP.
    pub duplicated: Option<u64>,
    /// Interarrival jitter at the end of the first second, while it still settles (RFC 3550, section 6.4.1: it begins at
    /// 0), in ns; `null` for TCP and with `gro`.
    pub rfc3550_jitter_first_ns: Option<f64>,
    /// Interarrival jitter at the end (RFC 3550, section 6.4.1), in ns; `null` for TCP and with `gro`.
    pub rfc3550_jitter_ns: Option<f64>,
    /// Largest interarrival jitter.
    pub rfc3550_jitter_max_ns: Option<f64>,
    /// Segments sent again (tcp_info); `null` for UDP.
    pub retransmits: Option<u64>,
    /// Smoothed RTT that TCP sees (tcp_info), mean over the seconds; `null` for UDP.
    pub tcp_rtt_mean_ns: Option<u64>,
    /// Its largest value.
    pub tcp_rtt_max_ns: Option<u64>,
    /// Congestion control; `null` for UDP.
    pub congestion: Option<String>,
}

/// What a stream measured. CPU and its cost are in the ends' usage.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct StreamReport {
    /// One entry a direction.
    #[serde(deserialize_with = "crate::words::known")]
    pub flows: Vec<FlowReport>,
    /// Payload asked for, in bits a second and direction; `null`: as fast as it goes.
    pub asked_bps: Option<f64>,
    /// Datagrams asked for, a second and direction.
    pub asked_pps: Option<f64>,
    /// CPU time of the whole initiator's host per KiB of payload, in µs, as netperf's service demand.
    pub initiator_us_per_kib: Option<f64>,
    /// The same of the far end.
    pub reflector_us_per_kib: Option<f64>,
    /// RTT of a UDP ping-pong beside the stream.
    pub working_latency: Option<Latency>,
    /// RTT of the same ping-pong before the stream began.
    pub idle_latency: Option<Latency>,
}
