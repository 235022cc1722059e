//! Confidence intervals that respect that neighbouring messages are not independent: means and medians of batches.
//!
//! Values are grouped in their order into 32 to 64 batches of equal length, far longer than one message remembers
//! another. When a 65th would begin, neighbouring batches are joined two by two and the length doubles, so memory is
//! fixed and the batches always cover the whole run. The spread of the batches' means (medians), taken as independent,
//! gives the interval by Student's t.
//!
//! A batch's mean is exact. A batch's median cannot be kept exactly in fixed memory while batches are being joined, so
//! from 4096 values on it is the mean of the medians of its blocks of 64 values. For the *spread* that is as good: to
//! first order a sample median is the true median plus an average of one term a value (Bahadur, 1966), so averaging
//! medians of blocks and taking the median of the whole vary alike, dependence included. For the *place* it is not (a
//! mean of medians is drawn by skewed blocks), so the interval is laid around the median of the histogram, which the
//! caller gives. Below 4096 values all are kept and the batches' medians are exact.

use crate::t_quantile;

const BLOCK: usize = 64;
const MOST: usize = 64;
const FEWEST: usize = 32;
const KEPT: usize = BLOCK * MOST;
/// Fewer batches give no interval.
const ENOUGH: usize = 10;
/// A batch's median needs this many values.
const MEDIAN_VALUES: usize = 8;

/// A 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// What it is laid around.
    pub centre: f64,
    /// Distance from the centre to either bound.
    pub half_width: f64,
}

impl Interval {
    /// Full width in percent of the centre.
    #[must_use]
    pub fn percent(&self) -> f64 {
        200.0 * self.half_width / self.centre
    }

    /// Lower and upper bound; the lower is never below 0, as times are not.
    #[must_use]
    pub fn bounds(&self) -> (f64, f64) {
        ((self.centre - self.half_width).max(0.0), self.centre + self.half_width)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    sum: u128,
    /// Twice the sum of the medians of its blocks (twice, so that a median of an even number stays an integer).
    medians: u128,
}

/// See the module. All memory is within the value and its one buffer; [`BatchIntervals::push`] and the intervals do not
/// allocate, and [`BatchIntervals::new`] touches the buffer.
#[derive(Debug, Clone)]
pub struct BatchIntervals {
    /// The first 4096 values.
    kept: Box<[u64]>,
    /// Values since the last full block, from the 4097th on.
    block: [u64; BLOCK],
    in_block: usize,
    batches: [Batch; MOST],
    /// Complete batches.
    filled: usize,
    /// Blocks a batch.
    length: u64,
    current: Batch,
    blocks_in_current: u64,
    count: u64,
    sum: u128,
}

impl Default for BatchIntervals {
    fn default() -> Self {
        Self::new()
    }
}

/// Twice the median of a scratch slice that is not empty.
fn twice_median(values: &mut [u64]) -> u128 {
    let half = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, &mut middle, _) = values.select_nth_unstable(half);
    let upper = u128::from(middle);
    if odd { 2 * upper } else { upper + below.iter().copied().max().map_or(upper, u128::from) }
}

impl BatchIntervals {
    /// Of no values.
    #[must_use]
    pub fn new() -> Self {
        let mut kept = vec![1_u64; KEPT].into_boxed_slice();
        std::hint::black_box(&mut kept).fill(0);
        Self {
            kept,
            block: [0; BLOCK],
            in_block: 0,
            batches: [Batch::default(); MOST],
            filled: 0,
            length: 1,
            current: Batch::default(),
            blocks_in_current: 0,
            count: 0,
            sum: 0,
        }
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds the next value.
    #[inline]
    pub fn push(&mut self, value: u64) {
        if let Some(slot) = usize::try_from(self.count).ok().and_then(|at| self.kept.get_mut(at)) {
            *slot = value;
        }
        self.count += 1;
        self.sum += u128::from(value);
        if let Some(slot) = self.block.get_mut(self.in_block) {
            *slot = value;
        }
        self.in_block += 1;
        if self.in_block == BLOCK {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        self.in_block = 0;
        self.current.sum += self.block.iter().copied().map(u128::from).sum::<u128>();
        self.current.medians += twice_median(&mut self.block);
        self.blocks_in_current += 1;
        if self.blocks_in_current < self.length {
            return;
        }
        if self.filled == MOST {
            for at in 0..FEWEST {
                let (left, right) = (self.batches[2 * at], self.batches[2 * at + 1]);
                self.batches[at] = Batch { sum: left.sum + right.sum, medians: left.medians + right.medians };
            }
            self.filled = FEWEST;
            self.length *= 2;
            // The batch just filled is the first half of one of the new length.
            return;
        }
        self.batches[self.filled] = self.current;
        self.filled += 1;
        self.current = Batch::default();
        self.blocks_in_current = 0;
    }

    /// The median of the latest block of 64 values or, before there is one, of all values; a cheap running estimate.
    #[must_use]
    pub fn recent_median(&self) -> Option<u64> {
        let batch = if self.blocks_in_current > 0 {
            Some((self.current.medians, self.blocks_in_current))
        } else {
            self.filled.checked_sub(1).and_then(|at| self.batches.get(at)).map(|batch| (batch.medians, self.length))
        };
        batch.and_then(|(medians, blocks)| u64::try_from(medians / (2 * u128::from(blocks))).ok())
    }

    /// Calls `each` with every batch's mean and, where it has enough values, median.
    fn for_each_batch(&self, mut each: impl FnMut(f64, Option<f64>)) {
        let kept = usize::try_from(self.count).ok().and_then(|count| self.kept.get(..count));
        let Some(kept) = kept else {
            let values = (self.length * BLOCK as u64) as f64;
            for batch in self.batches.iter().take(self.filled) {
                each(batch.sum as f64 / values, Some(batch.medians as f64 / (2 * self.length) as f64));
            }
            return;
        };
        let length = (kept.len() / FEWEST).max(1);
        let mut scratch = [0_u64; 2 * BLOCK];
        for batch in kept.chunks_exact(length) {
            let sum: u128 = batch.iter().copied().map(u128::from).sum();
            let median = scratch.get_mut(..length).filter(|_| length >= MEDIAN_VALUES).map(|scratch| {
                scratch.copy_from_slice(batch);
                twice_median(scratch) as f64 / 2.0
            });
            each(sum as f64 / length as f64, median);
        }
    }

    /// 95 % interval of the mean, around the exact mean; `None` with fewer than 10 batches.
    #[must_use]
    pub fn mean_interval(&self) -> Option<Interval> {
        let mut spread = Spread::default();
        self.for_each_batch(|mean, _| spread.add(mean));
        let centre = self.sum as f64 / self.count.max(1) as f64;
        spread.half_width().map(|half_width| Interval { centre, half_width })
    }

    /// 95 % interval of the median, laid around `median` (of all values, from the histogram); `None` with fewer than 256
    /// values.
    #[must_use]
    pub fn median_interval(&self, median: f64) -> Option<Interval> {
        let mut spread = Spread::default();
        self.for_each_batch(|_, median| {
            if let Some(median) = median {
                spread.add(median);
            }
        });
        spread.half_width().map(|half_width| Interval { centre: median, half_width })
    }
}

/// Mean and spread of at most 127 figures, one at a time (Welford's recurrence, which does not cancel).
#[derive(Default)]
struct Spread {
    count: usize,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    fn half_width(&self) -> Option<f64> {
        if self.count < ENOUGH {
            return None;
        }
        let count = self.count as f64;
        Some(t_quantile(0.975, count - 1.0) * (self.squares / (count - 1.0) / count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    /// A small generator of our own, so that the traces are the same for ever (splitmix64).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }

        fn unit(&mut self) -> f64 {
            (self.next() >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    fn whole(ns: f64) -> u64 {
        ns as u64
    }

    fn feed(values: impl Iterator<Item = u64>) -> (BatchIntervals, Histogram) {
        let mut batches = BatchIntervals::new();
        let mut histogram = Histogram::new();
        for value in values {
            batches.push(value);
            histogram.record(value);
        }
        (batches, histogram)
    }

    #[test]
    fn keeps_32_to_64_batches_of_all_values() {
        for count in [4097_u64, 8192, 8256, 100_000, 1_000_000] {
            let (batches, _) = feed((0..count).map(|at| at % 100));
            assert!((FEWEST..=MOST).contains(&batches.filled), "{count}: {}", batches.filled);
            let covered = (batches.filled as u64 * batches.length + batches.blocks_in_current) * BLOCK as u64
                + batches.in_block as u64;
            assert_eq!(covered, count);
        }
    }

    #[test]
    fn joining_keeps_sums_exact() {
        let (batches, _) = feed(0..64 * 64 * 4);
        let mut means = Vec::new();
        batches.for_each_batch(|mean, median| means.push((mean, median.unwrap())));
        let length = batches.length * BLOCK as u64;
        for (at, &(mean, median)) in means.iter().enumerate() {
            let first = at as u64 * length;
            assert!((mean - (first as f64 + (length - 1) as f64 / 2.0)).abs() < 1e-9);
            // Of a ramp the mean of block medians is the median.
            assert!((median - mean).abs() < 1e-9);
        }
    }

    #[test]
    fn too_few_give_none() {
        let (batches, _) = feed(0..9);
        assert_eq!(batches.mean_interval(), None);
        let (batches, _) = feed(0..10);
        assert!(batches.mean_interval().is_some());
        assert_eq!(batches.median_interval(5.0), None);
        let (batches, _) = feed(0..255);
        assert_eq!(batches.median_interval(5.0), None);
        let (batches, _) = feed(0..256);
        assert!(batches.median_interval(128.0).is_some());
        assert_eq!(BatchIntervals::new().recent_median(), None);
    }

    #[test]
    fn median_of_even_and_odd() {
        assert_eq!(twice_median(&mut [5]), 10);
        assert_eq!(twice_median(&mut [9, 1, 5]), 10);
        assert_eq!(twice_median(&mut [9, 1, 4, 5]), 9);
    }

    /// How often the interval covers the truth over many traces.
    fn coverage(
        count: usize,
        truth_mean: f64,
        truth_median: f64,
        mut value: impl FnMut(&mut Random, f64) -> f64,
    ) -> (f64, f64) {
        let (mut mean_hits, mut median_hits) = (0, 0);
        let traces = 100_u32;
        for seed in 0..traces {
            let mut random = Random(u64::from(seed));
            let mut last = 0.0;
            let (batches, histogram) = feed((0..count).map(|_| {
                last = value(&mut random, last);
                whole(10_000.0 + 1000.0 * last)
            }));
            let mean = batches.mean_interval().unwrap();
            let median = batches.median_interval(histogram.quantile(0.5).unwrap() as f64).unwrap();
            mean_hits += u32::from((mean.centre - truth_mean).abs() <= mean.half_width + 1.0);
            // The histogram rounds up by as much as a thousandth.
            median_hits += u32::from((median.centre - truth_median).abs() <= median.half_width + 8.0);
        }
        (f64::from(mean_hits) / f64::from(traces), f64::from(median_hits) / f64::from(traces))
    }

    #[test]
    fn covers_the_truth_of_independent_values() {
        // Exponential with mean 1: median ln 2.
        for count in [2000, 20_000] {
            let (mean, median) = coverage(count, 11_000.0, 10_693.1, |random, _| -(1.0 - random.unit()).ln());
            assert!(mean > 0.88 && median > 0.88, "{count}: {mean} {median}");
        }
    }

    #[test]
    fn covers_the_truth_of_dependent_values() {
        // First-order autoregressive, remembering about 40 values: a plain interval would be 6 times too narrow.
        let (mean, median) = coverage(20_000, 10_000.0, 10_000.0, |random, last| {
            0.95 * last + 0.312 * (random.unit() + random.unit() + random.unit() + random.unit() - 2.0) * 1.732
        });
        assert!(mean > 0.86 && median > 0.86, "{mean} {median}");
    }

    #[test]
    fn pushing_and_asking_do_not_allocate() {
        let mut batches = BatchIntervals::new();
        let info = allocation_counter::measure(|| {
            for value in 0..50_000 {
                batches.push(value);
                if value % 1024 == 0 {
                    std::hint::black_box((batches.mean_interval(), batches.median_interval(1.0)));
                }
            }
        });
        assert_eq!(info.count_total, 0);
    }
}
