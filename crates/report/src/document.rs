//! What a report says, as data: the JSON form, and what every other form is written from. Times are nanoseconds (`_ns`),
//! fractions where they are means; absent figures are `null`, never 0; `kind` says whether a set of figures is RTT or RTT/2.

use crate::ReportError;
use crate::error::json_text;
use digest::boots::BootSpread;
use digest::names::cell_word;
use digest::{CellInfo, Mark};
use model::{LatencyKind, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The JSON schemas of [`Document`] and of [`digest::compare::Comparisons`] by file name, as `store::schemas` has those of
/// stored documents. Errors: [`ReportError::Json`] when a schema has no JSON form.
pub fn schemas() -> Result<Vec<(&'static str, String)>, ReportError> {
    Ok(vec![
        ("report.schema.json", json_text(&schemars::schema_for!(Document))?),
        ("compare.schema.json", json_text(&schemars::schema_for!(digest::compare::Comparisons))?),
    ])
}

/// Format number of the JSON of a report: 2 since cells have their figures by the id of their quantity.
pub const FORMAT: u32 = 2;

/// A report over one or several runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Document {
    /// Format number of reports, [`FORMAT`].
    pub format: u32,
    /// Heading.
    pub title: String,
    /// What the figures of ping-pong and request/response are. ICMP echo is always RTT.
    pub kind: LatencyKind,
    /// Message size in bytes of the papers' table and the tail plots.
    pub size_bytes: u64,
    /// The first screen: what a reader has to know, and never stronger than the evidence.
    pub answer: Answer,
    /// What the data say beyond the answer, in sentences.
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
    /// The boots of each cell, where kernels were measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub boots: Vec<BootSpread>,
    /// Footnotes of the marks.
    pub notes: Vec<Note>,
    /// What else a reader has to know: failed steps, unreadable histograms.
    pub remarks: Vec<String>,
}

/// What a reader sees first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// What was measured, in one line.
    pub measured: String,
    /// Ids of the quantities of the table (docs/generated/quantities.md).
    pub columns: Vec<&'static str>,
    /// The rows of the table.
    pub rows: Vec<AnswerRow>,
    /// At most five sentences.
    pub sentences: Vec<String>,
    /// Commands to go on with.
    pub next: Vec<String>,
}

/// A cell in the first table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswerRow {
    /// What tells it from the other rows.
    pub label: String,
    /// Its place in [`Document::cells`].
    pub cell: usize,
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
    pub mean_range: Option<[f64; 2]>,
    /// The repetitions' standard deviations, from smallest to largest.
    pub stdev_range: Option<[f64; 2]>,
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
    /// Its value of an axis as the table shows it.
    pub(crate) fn word(&self, axis: &str) -> String {
        self.factors.get(axis).map(|value| cell_word(axis, value)).unwrap_or_default()
    }

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
