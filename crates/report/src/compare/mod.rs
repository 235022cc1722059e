//! Comparison of cells and of runs: how far apart, how surely, and whether by more than chance.
//!
//! Cells are matched on the factors that both sides share (`sides`). Within one run a sample is a repetition, because the
//! order of the run mixes both sides. Of two kernels it is a boot: repetitions within one share its page placement. Between runs a sample is a run: the repetitions of a run share its moment, and the
//! spread within a run does not show how far runs of the same thing lie apart. A side's figure is the geometric mean over
//! its trusted samples (of shares the mean). The interval is Welch's, over samples; the test permutes the labels of samples,
//! whatever their figures' distribution is, and is corrected for all figures of all cells: within a cell by step-down maxT,
//! because its figures move together, and over cells by Holm or, with several figures, by Bonferroni. A sentence claims a
//! difference only where the corrected p is at most 0.05, the interval excludes zero, and no repetition that cannot be
//! trusted has a part in it.

mod differs;
mod evidence;
mod gate;
mod held;
mod judge;
mod metric;
mod sides;
mod two_settings;
mod words;
mod write;

pub use gate::Gate;
pub use metric::Metric;
pub use sides::{Where, known_factors};
pub use two_settings::TwoSettings;

use crate::RunInput;
use crate::document::Mark;
use model::{LatencyKind, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why nothing can be compared. Each is one line and names the remedy; all but [`CompareError::GateUntrusted`] are usage errors.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the message of a variant says what it and its fields are")]
pub enum CompareError {
    #[error("unknown metric '{given}': use {accepted}")]
    Metric { given: String, accepted: String },
    #[error("gate '{gate}': {why}")]
    Gate { gate: String, why: String },
    #[error("{run} has no factor '{factor}': it has {known}")]
    Factor { factor: String, run: String, known: String },
    #[error("no cell of {run} has {factor}={value}: it has {known}")]
    Value { factor: String, value: String, run: String, known: String },
    #[error("{run} has only one value of {axis} ({value}): there is nothing to compare it with")]
    OneValue { axis: String, value: String, run: String },
    #[error(
        "the sides have no common value of {factor} ({a}; {b}): choose one each with --where {factor}=… --where-b {factor}=…"
    )]
    Apart { factor: String, a: String, b: String },
    /// No pair of cells.
    #[error(
        "no cell of {a} has one of {b} with the same factors: compare runs of the same plan, or choose with --where and --where-b"
    )]
    Nothing { a: String, b: String },
    /// A gate that fits no cell, or cells without its figure.
    #[error("gate '{gate}' judges nothing: {why}")]
    GateIdle { gate: String, why: String },
    /// A gate whose cells cannot be trusted.
    #[error("gate '{gate}' judges nothing: no cell that it is about has repetitions on both sides that can be trusted")]
    GateUntrusted { gate: String },
    /// What two runs on the command line and an axis within one contradict.
    #[error(
        "--axis compares the values of one factor within one run: leave out the second run and --where-b, or leave out --axis"
    )]
    AxisOfTwo,
    #[error(
        "{run} is named twice: name each run once, the runs of the first side before --with and those of the second after it"
    )]
    Both { run: String },
    /// Several runs without a second side.
    #[error("several runs need two sides: put --with between them, as in compare A1 A2 A3 --with B1 B2 B3")]
    NoSecondSide,
    /// A run against itself, without a choice of cells.
    #[error(
        "one run alone needs --axis FACTOR, or --where FACTOR=VALUE and --where-b FACTOR=VALUE; with two runs, name both"
    )]
    OneSide,
}

impl CompareError {
    /// The exit code that the design has for it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::GateUntrusted { .. }) { 4 } else { 2 }
    }
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompareOptions {
    /// Compare all values of this factor within one run, pairwise, the baseline first.
    pub axis: Option<String>,
    /// Only cells with these values; of both sides, where `wheres_b` does not say otherwise.
    pub wheres: Vec<Where>,
    /// Values of the second side.
    pub wheres_b: Vec<Where>,
    /// Figures to compare; empty: [`Metric::defaults`].
    pub metrics: Vec<Metric>,
    /// Show RTT instead of RTT/2.
    pub rtt: bool,
    /// With a single repetition a side, show the intervals of the batches within it.
    pub batches: bool,
    /// Conditions that must not hold.
    pub gates: Vec<Gate>,
    /// A gate is broken only by evidence, not by the estimate alone.
    pub significant: bool,
    /// What corrected p-values are compared with, and what the intervals of a comparison that is looked at several times
    /// leave out ([`stats::Looks::level`]); absent: 0.05.
    pub level: Option<f64>,
    /// Draws the dealings of the tests where they are too many to look at all.
    pub seed: u64,
    /// With an axis of more than two values: compare with the baseline only, instead of every value with every other.
    pub baseline_only: bool,
    /// Only these values of the axis, each compared with the first; empty: all.
    pub values: Vec<String>,
    /// Which figures are tested.
    pub tests: Tests,
    /// Other runs of the same plan on the same hosts, which show how far runs lie apart where a side has one run.
    pub siblings: Siblings,
}

/// Which figures are tested, and so part of the correction for many tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tests {
    /// Those of every pair of cells, and of all pairs together.
    #[default]
    All,
    /// Those of every pair of cells.
    Pairs,
    /// None: figures are described.
    None,
}

/// Runs that are neither side, and that were measured as the sides were.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Siblings {
    /// Groups of runs between which nothing is known to differ.
    pub groups: Vec<Vec<RunInput>>,
    /// Where they are, in words for a sentence: `runs`.
    pub place: String,
}

/// What one value of a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sample {
    /// A repetition: both sides were measured in one run, whose order mixes them.
    Repetition,
    /// A run, whose repetitions are one value together.
    Run,
    /// A boot, whose repetitions are one value together: kernels of one run are compared.
    Boot,
    /// A visit, likewise: kernels of one run that were switched without a boot.
    Visit,
}

/// What an interval is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The samples of both sides.
    Samples,
    /// The repetitions of one run each; how far runs lie apart is not known.
    OneRun,
    /// The same, and the spread between siblings.
    Siblings,
    /// The batches of one repetition each.
    Batches,
}

/// What a comparison of one figure comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The second side's figure is larger, by the test and by its interval.
    Higher,
    /// The second side's figure is smaller, by the test and by its interval.
    Lower,
    /// The interval includes zero; no larger difference than its ends was seen.
    NoDifference,
    /// The interval excludes zero, but the corrected test cannot tell it from chance, or the other way round.
    Unclear,
    /// Too few samples: the test could not have reached the level, however far apart the figures lie.
    TooFew,
    /// All samples of both sides have the same figure.
    Same,
    /// A side has no repetition that can be trusted.
    Untrusted,
    /// It was not asked for: described, and not tested.
    NotTested,
}

impl Outcome {
    /// Whether a difference is claimed.
    pub(crate) fn is_claim(self) -> bool {
        matches!(self, Self::Higher | Self::Lower)
    }

    /// Whether the question has an answer: a difference, or that there is none.
    pub(crate) fn is_decided(self) -> bool {
        matches!(self, Self::Higher | Self::Lower | Self::NoDifference | Self::Same)
    }
}

/// One figure of two matched cells.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MetricComparison {
    /// Which: `p99`, `intended.p99`, `loss` …
    pub metric: String,
    /// What the figures are in: `ns`, `share` (0 to 1), `per_second`, `bits_per_second`.
    pub unit: String,
    /// The first side's figure: the geometric mean over its trusted samples; of shares the mean.
    pub a: f64,
    /// The second side's figure.
    pub b: f64,
    /// The first side's figure in each sample (see [`Comparison::sample`]).
    pub a_values: Vec<f64>,
    /// The second side's figure in each sample.
    pub b_values: Vec<f64>,
    /// b / a; `null` where a is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; `null` where nothing shows how far figures scatter, and where a figure may be 0.
    pub ratio_ci95: Option<[f64; 2]>,
    /// b - a, in the unit.
    pub difference: f64,
    /// 95 % interval of the difference.
    pub difference_ci95: Option<[f64; 2]>,
    /// What the interval is over: `repetitions`, `runs`, `boots`, `visits`, `repetitions of one run each`, `one run each and its siblings` (the
    /// same and the spread between other runs of the plan), or `batches` within one repetition each.
    pub interval_over: Option<String>,
    #[serde(skip)]
    pub(crate) quantity: Metric,
    /// Whether logarithms were compared, so that the ratio is what was tested.
    #[serde(skip)]
    pub(crate) by_ratio: bool,
    /// What the interval is over.
    #[serde(skip)]
    pub(crate) over: Over,
    /// Standard error of the difference that was tested (of logarithms where `by_ratio`), and its degrees of freedom.
    #[serde(skip)]
    pub(crate) error: Option<(f64, f64)>,
    /// The second side's figure in each of its own samples: its runs or, of one run, its repetitions.
    #[serde(skip)]
    pub(crate) b_own: Vec<f64>,
    /// Whether a sample lacks the figure, so that nothing was tested.
    #[serde(skip)]
    pub(crate) incomplete: bool,
    /// p of the permutation test by itself; `null` where nothing was tested.
    pub p: Option<f64>,
    /// p corrected for all tests of the comparison.
    pub p_corrected: Option<f64>,
    /// The smallest corrected p that so many samples can reach.
    pub smallest_p: f64,
    /// What it comes to.
    pub outcome: Outcome,
    /// The same as a sentence.
    pub sentence: String,
}

/// One side of a pair of cells.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellSide {
    /// Runs that were compared.
    pub runs: usize,
    /// Repetitions that were compared, those of all runs together.
    pub repetitions: usize,
    /// Repetitions left out because they cannot be trusted.
    pub left_out: usize,
    /// The verdict of all its repetitions together.
    pub mark: Mark,
    /// Words of what was found in any of them.
    pub findings: Vec<String>,
}

/// Two cells that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CellComparison {
    /// What tells it from the others: `pingpong udp 32 B · load build`.
    pub label: String,
    /// The factors that both share.
    pub factors: BTreeMap<String, String>,
    /// What latency figures are.
    pub kind: LatencyKind,
    /// The first side.
    pub a: CellSide,
    /// The second side.
    pub b: CellSide,
    /// Why nothing is claimed of it; `null` where something may be.
    pub excluded: Option<String>,
    /// Its figures.
    pub metrics: Vec<MetricComparison>,
    /// Figures of the plan's question that no repetition of a side has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
}

/// All matched cells of one probe and protocol together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Overall {
    /// `all 12 cells of pingpong udp together`.
    pub label: String,
    /// Cells in it.
    pub cells: usize,
    /// What latency figures are.
    pub kind: LatencyKind,
    /// Its figures: of each round of repetitions the geometric mean over the cells.
    pub metrics: Vec<MetricComparison>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// What sentences call it: `A`, `policy other`.
    pub name: String,
    /// The runs it is from, in words.
    pub run: String,
    /// Each of them.
    pub runs: Vec<String>,
    /// What the hosts are.
    pub substrate: Substrate,
    /// Wall clock at the first run's start, since 1970.
    pub started_ns: u64,
    /// The values of the factors in which it differs from the other side.
    pub factors: BTreeMap<String, String>,
}

/// Something that differs beside the factors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Of what: `kernel of the initiator's machine`.
    pub what: String,
    /// The first side's; `null`: not known there.
    pub a: Option<String>,
    /// The second side's.
    pub b: Option<String>,
}

/// Two sides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The first side, which changes are given from.
    pub a: Side,
    /// The second side.
    pub b: Side,
    /// Whether both were measured in one run, whose order mixes them.
    pub interleaved: bool,
    /// What one value of the tests is.
    pub sample: Sample,
    /// What the data say, in sentences; never stronger than the evidence.
    pub summary: Vec<String>,
    /// What else differs between the sides.
    pub differences: Vec<Difference>,
    /// All matched cells of a probe and protocol together, where there are several.
    pub overall: Vec<Overall>,
    /// Cell by cell.
    pub cells: Vec<CellComparison>,
    /// Cells that only one side has, in words.
    pub unmatched: Vec<String>,
}

/// What became of a gate in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GateCell {
    /// The cell, with the sides where several pairs of sides are compared.
    pub label: String,
    /// Whether the condition holds.
    pub broken: bool,
    /// Whether no figure, however far beyond the limit, could have broken it: too few samples.
    pub undecided: bool,
    /// Whether the evidence for that is significant.
    pub significant: bool,
    /// Both as a sentence.
    pub sentence: String,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GateOutcome {
    /// The condition.
    pub gate: String,
    /// Whether it is broken in any cell: exit code 3.
    pub broken: bool,
    /// Whether it could not be decided in a cell: exit code 4 where no gate is broken.
    pub undecided: bool,
    /// How many samples a side would decide it, and what they are: `5 runs a side`; `null` where it is decided.
    pub needed: Option<String>,
    /// Cells in which it is broken; where it is in none, those in which it is undecided; else the one nearest to its limit.
    pub cells: Vec<GateCell>,
    /// Cells that it was judged in.
    pub judged: usize,
    /// Cells that it is about and that it could not be judged in, with the reason.
    pub not_judged: Vec<String>,
}

/// Everything that is compared at once. All p-values are corrected for all of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparisons {
    /// Format number, see [`model::FORMAT`].
    pub format: u32,
    /// Heading.
    pub title: String,
    /// Figures that were tested: what the p-values are corrected for.
    pub tests: usize,
    /// The level that corrected p-values are compared with.
    pub level: f64,
    /// The comparisons; several for an axis of more than two values.
    pub comparisons: Vec<Comparison>,
    /// What became of the gates.
    pub gates: Vec<GateOutcome>,
}

impl Comparisons {
    /// Whether a gate is broken.
    #[must_use]
    pub fn broken(&self) -> bool {
        self.gates.iter().any(|gate| gate.broken)
    }

    /// Whether a gate could not be decided.
    #[must_use]
    pub fn undecided(&self) -> bool {
        self.gates.iter().any(|gate| gate.undecided)
    }
}

/// The figures that are tested together: those of one pair of cells, or of all pairs of a probe and protocol.
#[derive(Clone, Copy)]
pub(crate) struct Set<'c> {
    pub(crate) label: &'c str,
    pub(crate) kind: LatencyKind,
    /// The factors that both cells share; none of all pairs together.
    pub(crate) factors: Option<&'c BTreeMap<String, String>>,
    pub(crate) excluded: Option<&'c str>,
    pub(crate) metrics: &'c [MetricComparison],
}

impl Comparison {
    /// All pairs together, as far as there are several, then each pair.
    pub(crate) fn sets(&self) -> impl Iterator<Item = Set<'_>> {
        let overall = self.overall.iter().map(|all| Set {
            label: &all.label,
            kind: all.kind,
            factors: None,
            excluded: None,
            metrics: &all.metrics,
        });
        overall.chain(self.cells.iter().map(|cell| Set {
            label: &cell.label,
            kind: cell.kind,
            factors: Some(&cell.factors),
            excluded: cell.excluded.as_deref(),
            metrics: &cell.metrics,
        }))
    }
}

pub(crate) use evidence::{centre, repetitions_needed};
pub(crate) use judge::kind_of;
pub(crate) use sides::{KEPT, varying};
pub(crate) use words::{FIGURES, bounds, extent, most, p_word, size, title};
pub use write::csv_columns;
pub(crate) use write::{difference, grid};
