//! Comparison of cells and of runs: how far apart, how surely, and whether by more than chance.
//!
//! Cells are matched on the factors that both sides share (`sides`). Within one run a sample is a repetition, because the order
//! of the run mixes both sides; of two kernels a boot, whose repetitions share its page placement; between runs a run, whose
//! repetitions share its moment. A side's figure is the geometric mean over its trusted samples (of shares the mean). The
//! interval is Welch's, over samples; the test permutes the labels of samples, and is corrected for all figures of all cells:
//! within a cell by step-down maxT, because its figures move together, and over cells by Holm or, with several figures, by
//! Bonferroni. A difference is claimed only where the corrected p is at most 0.05, the interval excludes zero, and all
//! repetitions in it can be trusted.

mod differs;
mod error;
mod evidence;
mod gate;
mod judge;
mod options;
mod outcome;
mod sides;

pub use error::CompareError;
pub use evidence::{FEWEST, LEVEL, own, p_against, repetitions_needed};
pub use gate::{Gate, Limit, Relation};
pub use options::{CompareOptions, Siblings, Tests};
pub use outcome::{
    CellComparison, CellSide, Comparison, Comparisons, Difference, GateCell, GateOutcome, MetricComparison, Outcome,
    Over, Overall, Sample, Set, Side,
};
pub use sides::{KEPT, Where, known_factors};
