//! What a comparison comes to, as data.

use crate::causes::CauseChanges;
use crate::{Mark, Metric};
use model::{FindingId, LatencyKind, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

model::words! {
    /// What one value of a test is.
    pub enum Sample {
        /// A repetition: both sides were measured in one run, whose order mixes them.
        Repetition = "repetition",
        /// A run, whose repetitions are one value together.
        Run = "run",
        /// A boot, whose repetitions are one value together: kernels of one run are compared.
        Boot = "boot",
        /// A visit, likewise: kernels of one run that were switched without a boot.
        Visit = "visit",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The samples of both sides.
    Samples,
    /// The repetitions of one run each; how far runs lie apart is not known.
    OneRun,
    /// The same, and the spread between siblings.
    Siblings,
    /// The batches of one repetition each.
    Batches,
}

impl Over {
    pub fn words(self, sample: Sample) -> String {
        match (self, sample) {
            (Self::Samples, sample) => format!("{}s", sample.word()),
            (Self::OneRun, Sample::Boot | Sample::Visit) => format!("repetitions of one {} each", sample.word()),
            (Self::OneRun, _) => "repetitions of one run each".to_owned(),
            (Self::Siblings, _) => "one run each and its siblings".to_owned(),
            (Self::Batches, _) => "batches".to_owned(),
        }
    }
}

model::words! {
    /// What a comparison of one figure comes to.
    pub enum Outcome {
        /// The second side's figure is larger, by the test and by its interval.
        Higher = "higher",
        /// The second side's figure is smaller, by the test and by its interval.
        Lower = "lower",
        /// The interval includes zero; no larger difference than its ends was seen.
        NoDifference = "no-difference",
        /// The interval excludes zero, but the corrected test cannot tell it from chance, or the other way round.
        Unclear = "unclear",
        /// Too few samples: the test could not have reached the level, however far apart the figures lie.
        TooFew = "too-few",
        /// All samples of both sides have the same figure.
        Same = "same",
        /// A side has no repetition that can be trusted.
        Untrusted = "untrusted",
        /// It was not asked for: described, and not tested.
        NotTested = "not-tested",
    }
}

impl Outcome {
    pub fn is_claim(self) -> bool {
        matches!(self, Self::Higher | Self::Lower)
    }

    /// Whether the question has an answer: a difference, or that there is none.
    pub fn is_decided(self) -> bool {
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
    /// The same as a quantity.
    #[serde(skip)]
    pub quantity: Metric,
    /// Whether logarithms were compared, so that the ratio is what was tested.
    #[serde(skip)]
    pub by_ratio: bool,
    /// What the interval is over.
    #[serde(skip)]
    pub over: Over,
    /// Standard error of the difference that was tested (of logarithms where `by_ratio`), and its degrees of freedom.
    #[serde(skip)]
    pub error: Option<(f64, f64)>,
    /// The second side's figure in each of its own samples: its runs or, of one run, its repetitions.
    #[serde(skip)]
    pub b_own: Vec<f64>,
    /// Whether a sample lacks the figure, so that nothing was tested.
    #[serde(skip)]
    pub incomplete: bool,
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

impl CellSide {
    /// The findings for which repetitions cannot be trusted.
    pub fn invalid(&self) -> Vec<String> {
        let is_invalid = |word: &str| FindingId::ALL.iter().any(|id| id.is_invalid() && id.word() == word);
        self.findings.iter().filter(|word| is_invalid(word)).cloned().collect()
    }
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
    /// What late messages lost to each class of causes, where the messages of both sides were explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes: Option<CauseChanges>,
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
    /// Sets of figures that were tested together ([`Set`]).
    #[serde(skip)]
    pub sets: usize,
    /// Whether figures were tested, or only described.
    #[serde(skip)]
    pub is_tested: bool,
    /// The level that corrected p-values are compared with.
    pub level: f64,
    /// The comparisons; several for an axis of more than two values.
    pub comparisons: Vec<Comparison>,
    /// What became of the gates.
    pub gates: Vec<GateOutcome>,
}

impl Comparisons {
    pub fn broken(&self) -> bool {
        self.gates.iter().any(|gate| gate.broken)
    }

    pub fn undecided(&self) -> bool {
        self.gates.iter().any(|gate| gate.undecided)
    }
}

/// The figures that are tested together: those of one pair of cells, or of all pairs of a probe and protocol.
#[derive(Debug, Clone, Copy)]
pub struct Set<'c> {
    /// What tells it from the others.
    pub label: &'c str,
    /// What latency figures are.
    pub kind: LatencyKind,
    /// The factors that both cells share; none of all pairs together.
    pub factors: Option<&'c BTreeMap<String, String>>,
    /// Why nothing is claimed of it.
    pub excluded: Option<&'c str>,
    pub metrics: &'c [MetricComparison],
    /// What late messages lost, as in [`CellComparison::causes`].
    pub causes: Option<&'c CauseChanges>,
}

impl Comparison {
    /// Of each of [`Self::sets`] whether it is excluded, and its figures.
    pub(super) fn sets_mut(&mut self) -> impl Iterator<Item = (bool, &mut Vec<MetricComparison>)> {
        let overall = self.overall.iter_mut().map(|all| (false, &mut all.metrics));
        overall.chain(self.cells.iter_mut().map(|cell| (cell.excluded.is_some(), &mut cell.metrics)))
    }

    /// All pairs together, as far as there are several, then each pair.
    pub fn sets(&self) -> impl Iterator<Item = Set<'_>> {
        let overall = self.overall.iter().map(|all| Set {
            label: &all.label,
            kind: all.kind,
            factors: None,
            excluded: None,
            metrics: &all.metrics,
            causes: None,
        });
        overall.chain(self.cells.iter().map(|cell| Set {
            label: &cell.label,
            kind: cell.kind,
            factors: Some(&cell.factors),
            excluded: cell.excluded.as_deref(),
            metrics: &cell.metrics,
            causes: cell.causes.as_ref(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_figures_invalid_is_why_they_cannot_be_trusted() {
        let findings = ["generator-late", "periodic-stalls", "of-a-newer-version"].map(str::to_owned).to_vec();
        let side = CellSide { runs: 1, repetitions: 0, left_out: 2, mark: Mark::Invalid, findings };
        assert_eq!(side.invalid(), ["generator-late"]);
    }
}
