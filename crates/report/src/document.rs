//! What a report says, as data: the JSON form, and what every other form is written from.
//!
//! Times are nanoseconds (`_ns`), fractions where they are means. Absent figures are `null`, never 0. `kind` says for
//! each set of figures whether it is RTT or RTT/2.

use crate::ReportError;
use crate::error::json_text;
use crate::names::cell_word;
use model::{LatencyKind, Probe, Role, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The JSON schemas of [`Document`] and of [`crate::compare::Comparisons`] by file name, as `store::schemas` has those of
/// stored documents.
///
/// # Errors
/// [`ReportError::Json`] when a schema has no JSON form.
pub fn schemas() -> Result<Vec<(&'static str, String)>, ReportError> {
    Ok(vec![
        ("report.schema.json", json_text(&schemars::schema_for!(Document))?),
        ("compare.schema.json", json_text(&schemars::schema_for!(crate::compare::Comparisons))?),
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
    pub answer: crate::answer::Answer,
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
    pub boots: Vec<crate::boots::BootSpread>,
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

/// A quantity of a cell over its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// The repetitions combined as the catalogue says ([`model::quantity::Combine`]), in the unit that it has there; times
    /// in the kind of the cell.
    pub value: f64,
    /// The smallest and the largest of the repetitions; absent with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// Figures by the id of their quantity ([`model::quantity`], docs/generated/quantities.md); what is not known is left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Figures(pub BTreeMap<&'static str, Figure>);

impl Figures {
    /// The value of a quantity.
    #[must_use]
    pub fn value(&self, id: &str) -> Option<f64> {
        self.0.get(id).map(|figure| figure.value)
    }

    /// The smallest and the largest of the repetitions.
    #[must_use]
    pub fn range(&self, id: &str) -> Option<[f64; 2]> {
        self.0.get(id)?.range
    }

    /// A count, 0 where it is not known.
    #[must_use]
    pub fn count(&self, id: &str) -> u64 {
        crate::units::whole(self.value(id).unwrap_or(0.0))
    }
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
    /// Its values of some axes as the table shows them.
    pub(crate) fn words<'a>(&self, axes: impl Iterator<Item = &'a String>) -> Vec<String> {
        axes.map(|axis| self.factors.get(axis).map(|value| cell_word(axis, value)).unwrap_or_default()).collect()
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

impl FindingCount {
    /// The finding, where it was made, and in how many of all repetitions: `steal at the reflector`, and `2 of 5`.
    pub(crate) fn words(&self, info: &CellInfo) -> (String, Option<String>) {
        let at = match self.end.as_deref() {
            None => String::new(),
            Some(role) if role.parse::<Role>().is_ok() => format!(" at the {role}"),
            Some(host) => format!(" at {host}"),
        };
        let all = info.repetitions + info.left_out;
        (format!("{}{at}", self.id), (all > 1).then(|| format!("{} of {all}", self.repetitions)))
    }
}

/// The figures of one of several reflectors.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReflectorInfo {
    /// Its host or address.
    pub host: String,
    /// Those that it has by itself.
    pub figures: Figures,
}

/// What was measured: `pingpong udp 32 B`; a timer has no protocol and no size.
pub(crate) fn message(probe: Probe, protocol: &str, size_bytes: u64) -> String {
    if probe.has_peer() { format!("{probe} {protocol} {size_bytes} B") } else { probe.to_string() }
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
    /// What was measured.
    pub probe: Probe,
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
    /// All that is known of it.
    pub figures: Figures,
    /// Each reflector by itself, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reflectors: Vec<ReflectorInfo>,
    /// What is told in words: `saturated` (what could not keep up, with the evidence), `one-way` (the method of one-way
    /// times), `stamps` (where those of the parts of the round trip were taken), `carrier` and `parity` of PGM (`16+1`:
    /// packets of a group, and those that follow it unasked), `connect-each`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<&'static str, String>,
    /// Whether it can be trusted.
    pub mark: Mark,
    /// What was found in its repetitions.
    pub findings: Vec<FindingCount>,
    /// Numbers of the [`Note`]s that belong to it.
    pub notes: Vec<usize>,
}

impl CellInfo {
    /// The value of a quantity.
    #[must_use]
    pub fn value(&self, id: &str) -> Option<f64> {
        self.figures.value(id)
    }

    /// The smallest and the largest of the repetitions.
    #[must_use]
    pub fn range(&self, id: &str) -> Option<[f64; 2]> {
        self.figures.range(id)
    }

    /// A count, 0 where it is not known.
    #[must_use]
    pub fn count(&self, id: &str) -> u64 {
        self.figures.count(id)
    }
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
