//! What is compared, and how.

use super::gate::Gate;
use super::sides::Where;
use crate::{Metric, RunInput};

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
    pub gates: Vec<Gate>,
    /// A gate is broken only by evidence, not by the estimate alone.
    pub significant: bool,
    /// What corrected p-values are compared with, and what intervals leave out ([`stats::Looks::level`]); absent: 0.05.
    pub level: Option<f64>,
    /// Draws the dealings of the tests where they are too many to look at all.
    pub seed: u64,
    /// With an axis of more than two values: compare with the baseline only, instead of every value with every other.
    pub baseline_only: bool,
    /// Only these values of the axis, each compared with the first; empty: all.
    pub values: Vec<String>,
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
