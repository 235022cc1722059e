//! The result document: what a probe typed by hand and a campaign's cell both write.
//!
//! JSON, one document a size. Times are integers in nanoseconds in fields that end in `_ns` (mean and standard
//! deviation are fractions); absent figures are `null`, never 0. `latency` is in the unit that `kind` names: RTT/2
//! (`rtt_half`, the default of ping-pong, as in the papers), RTT, or wake-up latency. The histogram holds RTT, or of `wake`
//! the wake-up latency.
//!
//! A quantile with fewer than 10 samples beyond it is `null`.

use crate::usage::{Carried, Preload};
use crate::{
    ClockMap, Counters, EndSpec, EndUsage, FrameBackend, OneWay, Participants, PeerProgram, Probe, RateReport,
    ReflectorReport, Role, Segment, StreamReport, Verdict,
};
use std::collections::BTreeMap;

words! {
    /// What a latency figure is.
    #[derive(Default)]
    pub enum LatencyKind {
        /// Round trip divided by two, the papers' transit time.
        RttHalf = "rtt_half",
        /// Round trip.
        #[default]
        Rtt = "rtt",
        /// One way between two clocks; signed.
        OneWay = "one_way",
        /// How late a thread woke up from a sleep until a given time.
        WakeUp = "wake_up",
    }
}

impl LatencyKind {
    /// How tables head such a column.
    pub fn title(self) -> &'static str {
        match self {
            Self::RttHalf => "RTT/2",
            Self::Rtt => "RTT",
            Self::OneWay => "one-way",
            Self::WakeUp => "wake-up latency",
        }
    }
}

/// Summary of one distribution.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Latency {
    /// What the figures are.
    pub kind: LatencyKind,
    /// Messages counted.
    pub count: u64,
    /// Exact mean.
    pub mean_ns: Option<f64>,
    /// Exact sample standard deviation (n-1): the papers' jitter.
    pub stdev_ns: Option<f64>,
    /// Smallest.
    pub min_ns: Option<u64>,
    /// Median, from the histogram (3 significant digits).
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// 99.99th percentile.
    pub p99_99_ns: Option<u64>,
    /// 99.999th percentile.
    pub p99_999_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
    /// 95 % confidence interval of the median from the medians of batches, which neighbouring messages' dependence
    /// does not narrow.
    pub p50_ci95_ns: Option<[u64; 2]>,
    /// 95 % confidence interval of the mean from the means of batches.
    pub mean_ci95_ns: Option<[f64; 2]>,
}

/// What the percentiles of a closed loop would be, had messages gone on falling due while an answer was awaited.
///
/// The correction is HdrHistogram's (`recordValueWithExpectedInterval`): a round trip of `v` stands for itself and for those
/// of the messages that were not sent meanwhile, `v - i`, `v - 2i` and so on down to `i`, where `i` is `interval_ns`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct LatencyCorrected {
    /// What the figures are.
    pub kind: LatencyKind,
    /// The expected time between two sends: the median round trip, and the gap where there is one.
    pub interval_ns: u64,
    /// Messages counted, those that were not sent too.
    pub count: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// 99.99th percentile.
    pub p99_99_ns: Option<u64>,
    /// 99.999th percentile.
    pub p99_999_ns: Option<u64>,
}

/// A percentile of the ladder.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Rung {
    /// Which percentile: 0 to 100.
    pub percent: f64,
    /// The figure, in the kind of the latency; `null` with fewer than 10 messages beyond it.
    pub ns: Option<u64>,
}

/// How many messages went and came. Counts that the protocol cannot know are `null`.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Messages {
    /// Timed messages (rounds, where a round has several) sent.
    pub sent: u64,
    /// Of them answered in time.
    pub received: u64,
    /// Of them not answered in time.
    pub lost: u64,
    /// Answers that came twice; `null` below the size of a header.
    pub duplicated: Option<u64>,
    /// Answers that came after a later one; `null` below the size of a header.
    pub reordered: Option<u64>,
    /// The furthest that one of them came behind a later one, in message numbers; 0 when all came in order, absent where no
    /// more than one is ever under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_depth: Option<u64>,
    /// Of the lost, answered after the time-out; `null` below the size of a header.
    pub late: Option<u64>,
}

/// Request/response figures (`rr`).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Transactions {
    /// Transactions a second, mean of all passes.
    pub per_second: f64,
    /// Half-width of the 95 % confidence interval over passes, in percent of the mean; `null` with fewer than 3 passes.
    pub ci95_percent: Option<f64>,
    /// Passes measured.
    pub passes: u32,
    /// Request and response size in bytes.
    pub request_bytes: u32,
    /// Response size in bytes.
    pub response_bytes: u32,
    /// Whether each transaction made its own connection.
    pub connect_each: bool,
}

/// One end of the measurement: what it was told and what it cost.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct EndReport {
    /// What it was told (`receive`, `policy`, `cpu` …).
    #[serde(flatten)]
    pub spec: EndSpec,
    /// The host's name.
    pub host: Option<String>,
    /// Its data address.
    pub address: Option<String>,
    /// CPU, scheduling and faults while measuring.
    #[serde(default)]
    pub usage: EndUsage,
    /// Where messages were dropped.
    #[serde(default)]
    pub counters: Counters,
    /// LD_PRELOAD and the settings of user-space stacks (EF_*, VMA_*, XLIO_*, ONLOAD_*).
    #[serde(default)]
    pub stack_environment: BTreeMap<String, String>,
    /// The libraries that LD_PRELOAD names in the measuring process, and whether each was really loaded.
    #[serde(default)]
    pub preloads: Vec<Preload>,
    /// What carried its frames, with protocol `frame`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_backend: Option<FrameBackend>,
    /// What carried its data sockets; absent where it did not run behind `windhover bypass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Vec<Carried>>,
}

/// What the tool itself costs, measured just before the cell.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SelfCost {
    /// One clock read, median.
    pub clock_read_ns: f64,
    /// The loop around an empty send and receive, per round; included in each latency.
    pub loop_ns: f64,
    /// Recording one sample, outside the timed part.
    pub record_ns: f64,
    /// Start of the process to the first message, without warm-up.
    pub startup_ns: Option<u64>,
}

words! {
    /// What a series holds for each interval.
    pub enum SeriesQuantity {
        /// Messages sent.
        Sent = "sent",
        /// Answers received; of a stream datagrams delivered.
        Received = "received",
        /// Messages lost.
        Lost = "lost",
        /// Median RTT.
        RttP50 = "rtt_p50_ns",
        /// 99th percentile of RTT.
        RttP99 = "rtt_p99_ns",
        /// Largest RTT.
        RttMax = "rtt_max_ns",
        /// Median wake-up latency.
        WakeUpP50 = "wake_up_p50_ns",
        /// Largest wake-up latency.
        WakeUpMax = "wake_up_max_ns",
        /// 99th percentile of lateness.
        LatenessP99 = "lateness_p99_ns",
        /// Payload delivered, of a stream.
        Bytes = "bytes",
        /// Datagrams that came after a later one.
        Reordered = "reordered",
        /// Datagrams that came twice.
        Duplicated = "duplicated",
        /// Interarrival jitter at the end of the interval (RFC 3550, section 6.4.1).
        Jitter = "rfc3550_jitter_ns",
        /// Segments sent again (tcp_info).
        Retransmits = "retransmits",
        /// Smoothed RTT that TCP sees (tcp_info).
        TcpRtt = "tcp_rtt_ns",
    }
}

/// One quantity over time, in intervals of equal length.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Series {
    /// What it is.
    pub quantity: SeriesQuantity,
    /// `initiator` or `reflector`; the name of one of several reflectors (`lost` alone).
    pub host: String,
    /// Length of an interval.
    pub interval_ns: u64,
    /// One value an interval; `null` where nothing was counted.
    pub values: Vec<Option<f64>>,
}

/// One message worth keeping.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Outlier {
    /// Number of the message.
    pub seq: u64,
    /// When it was sent, since the start of the size.
    pub at_ns: u64,
    /// Wall clock when it was sent, since 1970.
    pub realtime_ns: Option<u64>,
    /// Round trip; of `wake` how late the thread was.
    pub rtt_ns: u64,
    /// How late it was sent against the schedule.
    #[serde(default)]
    pub lateness_ns: u64,
    /// Whether it never came back.
    #[serde(default)]
    pub lost: bool,
    /// Which reflector it went to, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its parts in ns, where stamps tell: `out`, `back` (one way), `send`, `wire`, `far-kernel`, `far-application`,
    /// `near-kernel`. Of messages over PGM what repairs cost it, each with `out-` or `back-` before it: `gap-to-nak`,
    /// `nak-to-ncf`, `ncf-to-repair`, `gap-to-repair`, `held` (behind another one).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts_ns: BTreeMap<String, i64>,
    /// The segments of its way, where it was explained; such a message is of a pass of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<crate::SegmentTime>,
    /// What made it late, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<crate::Cause>,
    /// The share of its excess that is named, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained_percent: Option<u8>,
}

/// The result of measuring one size once.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ResultDocument {
    /// Format number, see [`crate::FORMAT`].
    pub format: u32,
    /// The kind of measurement.
    pub probe: Probe,
    /// The cell's key in a campaign (`load=build,protocol=udp,size=32`).
    pub cell: Option<String>,
    /// Which repetition of the cell, from 1.
    pub repetition: Option<u32>,
    /// Wall clock at the first timed message, since 1970.
    pub started_ns: u64,
    /// From the first timed message to the last.
    pub elapsed_ns: u64,
    /// What was varied or fixed, by axis name; at least `protocol` and `size` (bytes).
    pub factors: BTreeMap<String, serde_json::Value>,
    /// Who took part.
    pub ends: Participants,
    /// Latency from the actual send time.
    pub latency: Option<Latency>,
    /// Percentiles of that latency from p25 to p99.999, where they were asked for (`--ladder`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<Rung>,
    /// Latency from the intended send time, where there is a schedule.
    pub latency_intended: Option<Latency>,
    /// Actual less intended send time, where there is a schedule.
    pub lateness: Option<Latency>,
    /// Why messages were late, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<crate::Explanation>,
    /// What an open loop would see, of a closed loop without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_corrected: Option<LatencyCorrected>,
    /// Request/response figures.
    pub transactions: Option<Transactions>,
    /// The rate asked for and reached (`pace`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateReport>,
    /// One-way times, where clocks allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// The parts of the round trip, where stamps were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// Each reflector by itself, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reflectors: Vec<ReflectorReport>,
    /// Bulk figures (`stream`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamReport>,
    /// What PGM did, where it carried the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pgm: Option<crate::PgmReport>,
    /// Deadlines and timers (`wake`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake: Option<crate::WakeReport>,
    /// Cycles and their deadlines (`cycle`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<crate::CycleReport>,
    /// Mean deviation of ICMP echo as ping prints it (sqrt of mean square less square of mean), RTT.
    pub mdev_ns: Option<f64>,
    /// Quantities over time.
    #[serde(default, deserialize_with = "crate::words::known")]
    pub series: Vec<Series>,
    /// HdrHistogram V2, compressed, base64: RTT in ns; of `wake` its latency.
    pub histogram: Option<String>,
    /// The same from the intended send time, where there is a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_intended: Option<String>,
    /// The same of lateness, where there is a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_lateness: Option<String>,
    /// How many messages went and came.
    pub messages: Messages,
    /// What the tool itself costs.
    #[serde(default)]
    pub self_cost: SelfCost,
    /// The initiator's clocks.
    pub clock: Option<ClockMap>,
    /// The load beside the measurement, where there was one.
    pub load: Option<crate::LoadReport>,
    /// What was changed for the measurement, machine by machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<crate::run::Prepared>,
    /// Where it comes from, if Windhover did not measure it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<crate::Source>,
    /// Whether all its times are of clocks that count instructions: they compare kernels, and are no performance of hardware.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated_time: bool,
    /// The boot that it was measured in, where the plan names kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<crate::run::CellBoot>,
    /// Whether the program was asked to end before the stop rule was met.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Whether the figures can be trusted.
    pub verdict: Verdict,
}

impl ResultDocument {
    /// The message size in bytes, from the factors.
    pub fn size(&self) -> Option<u64> {
        self.factors.get("size").and_then(serde_json::Value::as_u64)
    }

    /// Whether another tool measured it: what its ends were told and what disturbed them is not known.
    pub fn is_imported(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.kind == crate::SourceKind::Imported)
    }

    /// Whether a participant was told how to wait and where to run: a server of another tool was not.
    pub fn is_told(&self, role: Role) -> bool {
        let is_own = self.factor("peer").is_none_or(|peer| peer == PeerProgram::Windhover.word());
        role == Role::Initiator || (self.probe.has_reflector() && is_own)
    }

    /// A factor as people write it: strings bare, everything else as JSON.
    pub fn factor(&self, name: &str) -> Option<String> {
        self.factors.get(name).map(|value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// Reads a document, refusing newer formats. Errors: [`crate::ModelError::Document`] when it is damaged,
    /// [`crate::ModelError::NewerFormat`] when it is newer.
    pub fn read(what: &str, text: &str) -> Result<Self, crate::ModelError> {
        read_document(what, text)
    }
}

/// Reads any document with a `format` field: newer formats are refused by number before anything else is looked at.
pub(crate) fn read_document<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, crate::ModelError> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: u32,
    }
    let damaged = |error: serde_json::Error| crate::ModelError::Document {
        what: what.to_owned(),
        why: format!(
            "damaged ({}): put the file back from a copy, or measure again",
            error.to_string().replace('\n', " ")
        ),
    };
    let head: Head = serde_json::from_str(text).map_err(damaged)?;
    if head.format > crate::FORMAT {
        return Err(crate::ModelError::NewerFormat { what: what.to_owned(), found: head.format, known: crate::FORMAT });
    }
    serde_json::from_str(text).map_err(damaged)
}
