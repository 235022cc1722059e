//! What a report says, as data: the JSON form, and what every other form is written from.
//!
//! Times are nanoseconds (`_ns`), fractions where they are means. Absent figures are `null`, never 0. `kind` says for
//! each set of figures whether it is RTT or RTT/2.

use crate::ReportError;
use model::{LatencyKind, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The JSON schemas of [`Document`] and of [`crate::compare::Comparisons`] by file name, as `store::schemas` has those of
/// stored documents.
///
/// # Errors
/// [`ReportError::Json`] when a schema has no JSON form.
pub fn schemas() -> Result<Vec<(&'static str, String)>, ReportError> {
    let text = |schema: schemars::Schema| -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(&schema)?;
        text.push('\n');
        Ok(text)
    };
    Ok(vec![
        ("report.schema.json", text(schemars::schema_for!(Document))?),
        ("compare.schema.json", text(schemars::schema_for!(crate::compare::Comparisons))?),
    ])
}

/// A report over one or several runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Format number, see [`model::FORMAT`].
    pub format: u32,
    /// Heading.
    pub title: String,
    /// What the figures of ping-pong and request/response are. ICMP echo is always RTT.
    pub kind: LatencyKind,
    /// Message size in bytes of the papers' table and the tail plots.
    pub size_bytes: u64,
    /// What the data say, in sentences; never stronger than the evidence.
    pub summary: Vec<String>,
    /// The runs.
    pub runs: Vec<RunInfo>,
    /// Factors that every measured cell shares, by axis.
    pub fixed: BTreeMap<String, String>,
    /// The axes that make the rows of the papers' table, in order: `nic`, `load`, `shield` and `os` always, others
    /// where they vary.
    pub axes: Vec<String>,
    /// The papers' table: one block a substrate, then one a published source.
    pub blocks: Vec<Block>,
    /// Every cell with all its figures.
    pub cells: Vec<CellInfo>,
    /// Footnotes of the marks.
    pub notes: Vec<Note>,
    /// What else a reader has to know: failed steps, unreadable histograms.
    pub remarks: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunInfo {
    /// Name of the run directory.
    pub name: String,
    /// Its plan's title.
    pub title: Option<String>,
    /// What the hosts are.
    pub substrate: Substrate,
    /// The same in words ("between two network namespaces of one machine").
    pub measured_on: String,
    /// Wall clock at the start, since 1970.
    pub started_ns: u64,
    /// The same for people, UTC.
    pub started: String,
    /// Wall clock at the end, since 1970; `null` while it runs or after a kill.
    pub ended_ns: Option<u64>,
    /// How it ended: `done`, `interrupted`, `failed`; `null` while it runs.
    pub outcome: Option<String>,
    /// Version of the tool that measured.
    pub tool_version: String,
    /// Seed of the order.
    pub seed: u64,
    /// Free labels of the plan.
    pub labels: BTreeMap<String, String>,
    /// Results found and steps planned.
    pub results: usize,
    /// Steps that the plan asked for.
    pub steps: usize,
}

/// Whether a figure can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Nothing was found.
    Clean,
    /// Something disturbed it; part of the truth (`*`).
    Disturbed,
    /// It cannot be trusted, or repetitions were left out because they could not (`!`).
    Invalid,
}

impl Mark {
    /// The sign printed beside a figure.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Clean => "",
            Self::Disturbed => "*",
            Self::Invalid => "!",
        }
    }
}

/// Smallest and largest value over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Smallest.
    pub low_ns: f64,
    /// Largest.
    pub high_ns: f64,
}

/// One pair of columns of the papers' table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// Mean over all messages of all repetitions.
    pub mean_ns: f64,
    /// Sample standard deviation over the same messages (jitter), from the repetitions' exact moments; `null` for
    /// request/response, as netperf gives none, and for published rows without one.
    pub stdev_ns: Option<f64>,
    /// Repetitions combined; 0 for published rows.
    pub repetitions: usize,
    /// The repetitions' means, from smallest to largest; `null` with one repetition.
    pub mean_range: Option<Spread>,
    /// The repetitions' standard deviations, from smallest to largest.
    pub stdev_range: Option<Spread>,
    /// Whether it can be trusted.
    pub mark: Mark,
    /// Numbers of the [`Note`]s that belong to it.
    pub notes: Vec<usize>,
}

/// The papers' columns of one row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Headlines {
    /// netperf's TCP_RR, here `rr` over TCP: the reciprocal of transactions a second (halved for RTT/2).
    pub netperf_tcp: Option<Headline>,
    /// netperf's UDP_RR, here `rr` over UDP.
    pub netperf_udp: Option<Headline>,
    /// Ping-pong over TCP.
    pub pingpong_tcp: Option<Headline>,
    /// Ping-pong over UDP.
    pub pingpong_udp: Option<Headline>,
}

/// One row of the papers' table: one combination of factors.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TableRow {
    /// Its number, which cells refer to; `null` for published rows.
    pub row: Option<usize>,
    /// Factors by axis, one for each of [`Document::axes`].
    pub factors: BTreeMap<String, String>,
    /// What tells it from the other rows, in short ("load build").
    pub label: String,
    /// The figures.
    #[serde(flatten)]
    pub headlines: Headlines,
}

impl TableRow {
    /// A time of this row in microseconds: published ones as they were printed.
    pub(crate) fn us(&self, ns: f64) -> String {
        if self.row.is_none() { format!("{:.3}", ns / 1000.0) } else { crate::units::us(ns) }
    }
}

/// Rows that may be compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Block {
    /// What stands above it ("Measured between two network namespaces of one machine (netns)").
    pub heading: String,
    /// What the hosts are; `null` for published rows.
    pub substrate: Option<Substrate>,
    /// Which publication it is from; `null` for measured rows.
    pub published: Option<String>,
    /// The rows.
    pub rows: Vec<TableRow>,
}

/// How often a finding was made in the repetitions of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingCount {
    /// The finding's stable word (`other-tasks`).
    pub id: String,
    /// Whether it makes figures invalid.
    pub invalid: bool,
    /// At which end; `null` for the path.
    pub end: Option<String>,
    /// Repetitions in which it was made.
    pub repetitions: usize,
    /// The evidence of the first.
    pub detail: String,
}

/// Transactions and CPU of `rr`, means over the repetitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct RateInfo {
    /// Transactions a second.
    pub per_second: f64,
    /// Smallest and largest over the repetitions.
    pub per_second_range: Option<[f64; 2]>,
    /// Half-width of the 95 % interval of the mean of 3 or more repetitions, in percent of it; with fewer the widest that
    /// a repetition has over its own passes.
    pub ci95_percent: Option<f64>,
    /// Response size in bytes.
    pub response_bytes: u32,
    /// Whether each transaction made its own connection.
    pub connect_each: bool,
    /// Busy share of the initiator's machine in percent (netperf's definition: all CPUs, iowait and steal busy).
    pub initiator_machine_percent: Option<f64>,
    /// The same of the reflector's machine.
    pub reflector_machine_percent: Option<f64>,
    /// netperf's service demand of the initiator's machine: µs of CPU a transaction.
    pub initiator_service_demand_us: Option<f64>,
    /// The same of the reflector's machine.
    pub reflector_service_demand_us: Option<f64>,
    /// µs of the initiator process' own CPU a transaction.
    pub initiator_process_us: Option<f64>,
    /// The same of the reflector.
    pub reflector_process_us: Option<f64>,
    /// µs of softirq on the initiator's machine a transaction.
    pub initiator_softirq_us: Option<f64>,
    /// The same of the reflector's machine.
    pub reflector_softirq_us: Option<f64>,
}

/// A few figures of one distribution, over all repetitions of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Quantiles {
    /// Mean over all messages.
    pub mean_ns: Option<f64>,
    /// Sample standard deviation over the same messages, from the repetitions' exact moments.
    pub stdev_ns: Option<f64>,
    /// Median: of all messages, where their distributions are stored whole (from the intended send time, lateness); of the
    /// middle repetition otherwise, where there are several.
    pub p50_ns: Option<f64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<f64>,
    /// The repetitions' 99th percentiles.
    pub p99_range: Option<Spread>,
    /// 99.9th percentile, likewise.
    #[serde(rename = "p99_9_ns")]
    pub p99_9_ns: Option<f64>,
    /// Largest of all repetitions.
    pub max_ns: Option<f64>,
}

/// What a schedule adds to a cell of `pace`, over its repetitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct PaceInfo {
    /// Messages a second asked for.
    pub asked_pps: f64,
    /// Messages a second sent, mean of the repetitions.
    pub achieved_pps: f64,
    /// Smallest and largest of the repetitions.
    pub achieved_range: Option<[f64; 2]>,
    /// Messages that the schedules held.
    pub intended_messages: u64,
    /// Full frames a second that the link carries, as it reports its rate; `null` where it reports none.
    pub line_pps: Option<f64>,
    /// Messages sent more than one interval of the schedule late.
    pub behind: u64,
    /// Largest number of messages that the sender was behind at once.
    pub most_behind: u64,
    /// What could not keep up, when something could not, with the evidence.
    pub saturated: Option<String>,
    /// RTT from the intended send time.
    pub intended: Option<Quantiles>,
    /// Actual less intended send time.
    pub lateness: Option<Quantiles>,
    /// One-way times, where clocks allow: out before back, of each reflector where there are several.
    pub one_way: Vec<WayInfo>,
    /// The parts of the round trip, where stamps were taken.
    pub parts: Vec<PartInfo>,
    /// What PGM did about losses, where it carried the messages.
    pub pgm: Option<PgmInfo>,
}

/// What PGM did about losses, all repetitions and ends together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct PgmInfo {
    /// What packets travelled in: `udp` or `raw`.
    pub carrier: String,
    /// Packets that were missing when a later one came.
    pub missing: u64,
    /// Of these, those that were repaired.
    pub recovered: u64,
    /// Of these, those that were given up.
    pub lost: u64,
    /// NAKs sent.
    pub naks: u64,
    /// Confirmations (NCF) sent.
    pub ncfs: u64,
    /// Repairs sent.
    pub repairs: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// The parity that was used, as `16+1`: packets of a group, and those that follow it unasked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fec: Option<String>,
    /// Parity packets sent unasked.
    pub parity_unasked: u64,
    /// Parity packets sent on demand; not among `repairs`.
    pub parity_asked: u64,
    /// Of the recovered, those that were computed from parity.
    pub rebuilt: u64,
    /// The same of each end: the initiator, then the reflectors.
    pub ends: Vec<PgmEndInfo>,
    /// Messages by what repairs did to them; of all reflectors first.
    pub fates: Vec<FateInfo>,
}

/// What one end of PGM counted, all repetitions together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct PgmEndInfo {
    /// `initiator`, or the reflector.
    pub host: String,
    /// Packets to it that were missing when a later one came.
    pub missing: u64,
    /// Of these, those that came after all.
    pub recovered: u64,
    /// Of these, those that it gave up.
    pub lost: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// NAKs that it sent.
    pub naks_sent: u64,
    /// Of these, those that arrived; absent where not every NAK could be told whose it was.
    pub naks_heard: Option<u64>,
    /// NAKs that it received for what it had sent.
    pub naks_received: u64,
    /// Confirmations (NCF) of these that it sent.
    pub ncfs_sent: u64,
    /// Confirmations that it received, whoever had asked.
    pub ncfs_received: u64,
    /// Repairs that it sent.
    pub repairs_sent: u64,
    /// Parity packets that it sent unasked.
    pub parity_unasked: u64,
    /// Parity packets that it sent on demand; not among `repairs_sent`.
    pub parity_asked: u64,
    /// Parity packets that it received and kept to repair with.
    pub parity_received: u64,
    /// Of the recovered, those that it computed from parity.
    pub rebuilt: u64,
}

/// Messages of one fate, over the repetitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct FateInfo {
    /// `untouched`, `held` or `repaired`, as the results have it.
    pub fate: String,
    /// The reflector, where there are several; absent for all together.
    pub host: Option<String>,
    /// Answered messages of it.
    pub messages: u64,
    /// RTT from the actual send.
    pub figures: Option<Quantiles>,
    /// RTT from the intended send.
    pub intended: Option<Quantiles>,
    /// What repairs took of it.
    pub in_repair: Option<Quantiles>,
}

/// One-way times in one direction, over the repetitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct WayInfo {
    /// The reflector, where there are several.
    pub host: Option<String>,
    /// `out` or `back`.
    pub way: String,
    /// The times. A figure below 0 is within the error of the offset.
    #[serde(flatten)]
    pub figures: Quantiles,
    /// Smallest of all repetitions.
    pub min_ns: f64,
    /// `same-clock` or `min-rtt`, as the results have it.
    pub method: String,
    /// Half the width within which the true offset of the clocks lies: the widest of the repetitions.
    pub error_ns: u64,
}

/// A part of the round trip, over the repetitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct PartInfo {
    /// `send`, `wire`, `far-kernel`, `far-application` or `near-kernel`.
    pub name: String,
    /// Where its stamps were taken: `application`, `kernel` or `hardware`.
    pub stamps: String,
    /// Its times, whole.
    #[serde(flatten)]
    pub figures: Quantiles,
}

/// One direction of a stream, over the repetitions of a cell: rates are means, counts are sums, jitter and RTT are of the
/// middle repetition. `null` where the protocol has no such figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct FlowInfo {
    /// `up` or `down`.
    pub direction: String,
    /// Parallel flows.
    pub flows: u32,
    /// Payload delivered, in bits a second.
    pub bits_per_second: f64,
    /// Smallest and largest of the repetitions.
    pub bits_range: Option<[f64; 2]>,
    /// Datagrams delivered a second.
    pub datagrams_per_second: Option<f64>,
    /// Datagrams sent.
    pub sent: Option<u64>,
    /// Of them lost.
    pub lost: Option<u64>,
    /// Datagrams that came after a later one.
    pub reordered: Option<u64>,
    /// Datagrams that came twice.
    pub duplicated: Option<u64>,
    /// Interarrival jitter of RFC 3550.
    pub rfc3550_jitter_ns: Option<f64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// RTT as TCP sees it.
    pub tcp_rtt_mean_ns: Option<f64>,
}

/// What a stream adds to a cell of `stream`, over its repetitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct StreamInfo {
    /// Payload asked for in bits a second and direction; `null`: as fast as it goes.
    pub asked_bps: Option<f64>,
    /// Datagrams asked for a second and direction.
    pub asked_pps: Option<f64>,
    /// The directions.
    pub flows: Vec<FlowInfo>,
    /// CPU of the initiator's whole host in µs a KiB of payload, mean of the repetitions.
    pub initiator_us_per_kib: Option<f64>,
    /// The same of the far end.
    pub reflector_us_per_kib: Option<f64>,
    /// RTT of a UDP ping-pong beside the stream.
    pub working: Option<Quantiles>,
    /// RTT of the same ping-pong before the stream began.
    pub idle: Option<Quantiles>,
}

/// One cell: all repetitions of one combination of factors, probe, protocol and size.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellInfo {
    /// The run it is from.
    pub run: String,
    /// Row of the papers' table that it belongs to.
    pub row: usize,
    /// Number of its colour in every figure: cells that differ only in size and rate share one.
    pub colour: usize,
    /// That row's label.
    pub label: String,
    /// What the hosts are.
    pub substrate: Substrate,
    /// All factors by axis, `nic`, `os` and `shield` included.
    pub factors: BTreeMap<String, String>,
    /// `pingpong`, `rr` or `ping`.
    pub probe: String,
    /// `tcp`, `udp` …
    pub protocol: String,
    /// Message size.
    pub size_bytes: u64,
    /// What the figures are.
    pub kind: LatencyKind,
    /// Repetitions combined.
    pub repetitions: usize,
    /// Repetitions left out because they cannot be trusted. When none can be trusted all are combined and marked.
    pub left_out: usize,
    /// Messages timed.
    pub count: u64,
    /// Mean over all messages.
    pub mean_ns: Option<f64>,
    /// Sample standard deviation (jitter).
    pub stdev_ns: Option<f64>,
    /// Smallest.
    pub min_ns: Option<f64>,
    /// Median, from the merged histogram.
    pub p50_ns: Option<f64>,
    /// 90th percentile.
    pub p90_ns: Option<f64>,
    /// 99th percentile.
    pub p99_ns: Option<f64>,
    /// 99.9th percentile; `null` with fewer than 10 messages beyond it.
    #[serde(rename = "p99_9_ns")]
    pub p99_9_ns: Option<f64>,
    /// 99.99th percentile; `null` with fewer than 10 messages beyond it.
    #[serde(rename = "p99_99_ns")]
    pub p99_99_ns: Option<f64>,
    /// 99.999th percentile; `null` with fewer than 10 messages beyond it.
    #[serde(rename = "p99_999_ns")]
    pub p99_999_ns: Option<f64>,
    /// Largest.
    pub max_ns: Option<f64>,
    /// The repetitions' means.
    pub mean_range: Option<Spread>,
    /// The repetitions' standard deviations.
    pub stdev_range: Option<Spread>,
    /// The repetitions' medians.
    pub p50_range: Option<Spread>,
    /// Mean deviation as ping prints it, RTT; ICMP echo only.
    pub mdev_ns: Option<f64>,
    /// Messages sent.
    pub sent: u64,
    /// Of them not answered in time.
    pub lost: u64,
    /// Transactions and CPU; `rr` only.
    pub rate: Option<RateInfo>,
    /// What the schedule adds; `pace` only.
    pub pace: Option<PaceInfo>,
    /// What the stream adds; `stream` only.
    pub stream: Option<StreamInfo>,
    /// Whether it can be trusted.
    pub mark: Mark,
    /// What was found in its repetitions.
    pub findings: Vec<FindingCount>,
    /// Numbers of the [`Note`]s that belong to it.
    pub notes: Vec<usize>,
}

/// One footnote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Note {
    /// Its number, from 1.
    pub number: usize,
    /// Whether it explains `!` (else `*`).
    pub invalid: bool,
    /// The finding's stable word.
    pub id: String,
    /// Cells that it belongs to.
    pub cells: usize,
    /// The sentence.
    pub text: String,
}
