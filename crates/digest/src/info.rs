//! What is known of a cell, as data. Times are nanoseconds (`_ns`), fractions where they are means. Absent figures are
//! left out, never 0.

use model::{Explanation, LatencyKind, Probe, Role, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

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
    pub fn value(&self, id: &str) -> Option<f64> {
        self.0.get(id).map(|figure| figure.value)
    }
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
    pub fn words(&self, info: &CellInfo) -> (String, Option<String>) {
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
pub fn message(probe: Probe, protocol: &str, size_bytes: u64) -> String {
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
    /// Why messages were late, where that was asked for: the repetitions added up. Its times are RTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Whether it can be trusted.
    pub mark: Mark,
    /// What was found in its repetitions.
    pub findings: Vec<FindingCount>,
    /// Numbers of the footnotes that belong to it.
    pub notes: Vec<usize>,
}

impl CellInfo {
    pub fn value(&self, id: &str) -> Option<f64> {
        self.figures.value(id)
    }

    /// The smallest and the largest of the repetitions.
    pub fn range(&self, id: &str) -> Option<[f64; 2]> {
        self.figures.0.get(id)?.range
    }

    /// A count, 0 where it is not known.
    pub fn count(&self, id: &str) -> u64 {
        crate::text::whole(self.value(id).unwrap_or(0.0))
    }
}

/// Whether any repetition of a cell can be trusted.
pub fn is_trusted(info: &&CellInfo) -> bool {
    info.mark != Mark::Invalid || info.left_out > 0
}
