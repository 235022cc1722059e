//! Exact count, sum and sum of squares of integers.

use crate::Block;

/// Moments of nanosecond values as exact integer sums. Nothing is rounded before the last division, so a mean or a
/// standard deviation does not depend on the order of values or on how they were split. [`Moments::add`] does not
/// allocate.
///
/// The sum of squares saturates; with values up to an hour that takes 2.6 × 10¹³ of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: u128,
    squares: u128,
    min: u64,
    max: u64,
}

impl Default for Moments {
    fn default() -> Self {
        Self::new()
    }
}

impl Moments {
    pub const fn new() -> Self {
        Self { count: 0, sum: 0, squares: 0, min: u64::MAX, max: 0 }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        let wide = u128::from(value);
        self.count += 1;
        // 2^64 values of 64 bits are below 2^128; their squares may not be.
        self.sum += wide;
        self.squares = self.squares.saturating_add(wide * wide);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    #[inline]
    pub fn add_block(&mut self, block: &Block) {
        self.count += Block::LENGTH as u64;
        self.sum += u128::from(block.sum);
        self.squares = self.squares.saturating_add(u128::from(block.squares));
        self.min = self.min.min(block.min);
        self.max = self.max.max(block.max);
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// `None` of no values, as for all that follow.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    pub fn mean(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let count = u128::from(self.count);
        Some((self.sum / count) as f64 + (self.sum % count) as f64 / self.count as f64)
    }

    /// The sum of squared distances from the mean.
    ///
    /// With sum = n·q + r, the squares about the integer q are squares − q·(sum + r), exactly; r²/n of that is what q
    /// misses the mean by. So two nearly equal floating-point numbers are never subtracted.
    fn spread(&self) -> f64 {
        let count = u128::from(self.count.max(1));
        let quotient = self.sum / count;
        let rest = self.sum % count;
        let about_quotient = self.squares.saturating_sub(quotient.saturating_mul(self.sum.saturating_add(rest)));
        let correction = rest * rest;
        let whole = about_quotient.saturating_sub(correction / count);
        whole as f64 - (correction % count) as f64 / count as f64
    }

    /// Sample standard deviation (n − 1), the papers' jitter; `None` with fewer than 2 values.
    pub fn stdev(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.spread().max(0.0) / (self.count - 1) as f64).sqrt())
    }

    /// Population standard deviation (n), which ping calls mdev; `None` of no values.
    pub fn mdev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.spread().max(0.0) / self.count as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Moments {
        let mut moments = Moments::new();
        values.iter().for_each(|&value| moments.add(value));
        moments
    }

    #[test]
    fn textbook_values() {
        let moments = of(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!(moments.mean(), Some(5.0));
        assert_eq!(moments.mdev(), Some(2.0));
        assert!((moments.stdev().unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((moments.min(), moments.max(), moments.count()), (Some(2), Some(9), 8));
        assert_eq!(Moments::new().mean(), None);
        assert_eq!(of(&[7]).stdev(), None);
    }

    #[test]
    fn no_cancellation_far_from_zero() {
        // About an hour with a spread of 1 ns: E[x²] − mean² in f64 would give 0 or thousands.
        let moments = of(&[3_599_999_999_998, 3_599_999_999_999, 3_600_000_000_000]);
        assert!((moments.stdev().unwrap() - 1.0).abs() < 1e-12);
        let pair = of(&[3_600_000_000_000, 3_600_000_000_001]);
        assert!((pair.stdev().unwrap() - 0.5_f64.sqrt()).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn agrees_with_two_passes(values in prop::collection::vec(0_u64..4_000_000_000_000, 2..300)) {
            let moments = of(&values);
            let mean = values.iter().map(|&v| v as f64).sum::<f64>() / values.len() as f64;
            let naive = (values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt();
            prop_assert!((moments.mean().unwrap() - mean).abs() <= 1e-9 * mean.max(1.0));
            prop_assert!((moments.stdev().unwrap() - naive).abs() <= 1e-6 * naive.max(1.0));
        }

        #[test]
        fn any_split_is_the_same(values in prop::collection::vec(any::<u32>(), 0..200), at in 0_usize..200) {
            let values: Vec<u64> = values.into_iter().map(u64::from).collect();
            let at = at.min(values.len());
            let mut left = of(&values[..at]);
            left.merge(&of(&values[at..]));
            prop_assert_eq!(left, of(&values));
        }
    }
}
