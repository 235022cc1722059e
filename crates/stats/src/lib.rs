//! Exact moments, the one histogram, quantiles with intervals, permutation test, the judge of comparisons, looks, periodic stalls.
//!
//! Floor 0: no I/O, no clock reads, no threads, no unsafe: pure functions of numbers. What is called between timed messages
//! (`record`, `add`, `push`) never allocates.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod batches;
mod block;
mod decode;
mod encode;
mod error;
mod histogram;
pub mod interval_log;
mod judge;
mod levels;
mod looks;
mod moments;
mod permutation;
mod ratio;
mod row_tally;
pub mod rows;
pub mod stalls;
mod student;
mod tally;

pub use batches::{BatchIntervals, NoInterval};
pub use block::Block;
pub use encode::Encoder;
pub use error::StatsError;
pub use histogram::{Bucket, Corrected, HOUR_NS, Histogram, rank};
pub use judge::{Evidence, Judgement, correct_sets, turns, whole_rounds};
pub use looks::Looks;
pub use moments::Moments;
pub use permutation::{Joint, LEVEL, holm, joint_permutation_test, samples_needed, smallest_p};
pub use random::SplitMix64;
pub use ratio::{Ratio, mean, median, ratio};
pub use row_tally::{ColumnCounts, RowTally};
pub use student::{cv, interval_of, t_quantile, t_tail};
pub use tally::{Buckets, CoarseTally, Tally};
