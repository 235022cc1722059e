//! A distribution of signed times: one-way times are signed, as an offset of clocks may be wrong by more than they take.

use model::Signed;
use stats::{Histogram, Moments, rank};

/// Half the range, 2.4 hours: beyond it a time counts as that.
const REACH_NS: i64 = 1 << 43;

/// Exact moments, and a histogram for each sign (3 digits, as all others).
#[derive(Debug, Clone, Default)]
pub(super) struct SignedDistribution {
    /// Of times plus the reach, so that none is negative; means and extremes are brought back.
    moved: Moments,
    /// Magnitudes of the times below 0; often there are none.
    below: Option<Box<Histogram>>,
    above: Histogram,
}

impl SignedDistribution {
    #[inline]
    pub(super) fn record(&mut self, ns: i64) {
        let ns = ns.clamp(-REACH_NS, REACH_NS);
        self.moved.add((ns + REACH_NS).cast_unsigned());
        if ns >= 0 {
            self.above.record(ns.cast_unsigned());
        } else {
            self.below.get_or_insert_default().record(ns.unsigned_abs());
        }
    }

    /// The value at a quantile when at least 10 lie beyond it; the nearest rank, as for unsigned times.
    fn quantile(&self, q: f64) -> Option<i64> {
        let count = self.moved.count();
        let place = rank(q, count);
        if count.saturating_sub(place) < Histogram::BEYOND {
            return None;
        }
        let below = self.below.as_ref().map_or(0, |below| below.count());
        if place > below {
            let place = (place - below) as f64 / self.above.count().max(1) as f64;
            return self.above.quantile(place).and_then(|ns| i64::try_from(ns).ok());
        }
        // The smallest time has the largest magnitude.
        let place = (below - place + 1) as f64 / below.max(1) as f64;
        self.below.as_ref().and_then(|below| below.quantile(place)).and_then(|ns| i64::try_from(ns).ok()).map(|ns| -ns)
    }

    /// `None` of no times.
    pub(super) fn summary(&self) -> Option<Signed> {
        let count = self.moved.count();
        let back = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX) - REACH_NS;
        let sum = i128::try_from(self.moved.sum()).ok()? - i128::from(count) * i128::from(REACH_NS);
        let (min, max) = self.moved.min().zip(self.moved.max())?;
        let (whole, rest) = (sum.div_euclid(i128::from(count)), sum.rem_euclid(i128::from(count)));
        Some(Signed {
            count,
            mean_ns: whole as f64 + rest as f64 / count as f64,
            stdev_ns: self.moved.stdev(),
            min_ns: back(min),
            p50_ns: self.quantile(0.5),
            p99_ns: self.quantile(0.99),
            p99_9_ns: self.quantile(0.999),
            max_ns: back(max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = i64>) -> Option<Signed> {
        let mut distribution = SignedDistribution::default();
        values.into_iter().for_each(|value| distribution.record(value));
        distribution.summary()
    }

    #[test]
    fn around_zero() {
        assert_eq!(of([]), None);
        let one = of([-5]).unwrap();
        assert_eq!((one.mean_ns, one.stdev_ns, one.min_ns, one.p50_ns, one.max_ns), (-5.0, None, -5, None, -5));
        let many = of(-500..=500).unwrap();
        assert_eq!((many.count, many.mean_ns, many.p50_ns, many.p99_ns), (1001, 0.0, Some(0), Some(490)));
        assert_eq!((many.min_ns, many.max_ns, many.p99_9_ns), (-500, 500, None));
        let negative = of(-1000..0).unwrap();
        assert_eq!((negative.p50_ns, negative.p99_ns), (Some(-501), Some(-11)));
        let far = of([i64::MIN, i64::MAX]).unwrap();
        assert_eq!((far.min_ns, far.max_ns, far.mean_ns), (-REACH_NS, REACH_NS, 0.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn agrees_with_a_naive_computation(mut values in prop::collection::vec(-2_000_000_i64..3_000_000, 21..400)) {
            let found = of(values.iter().copied()).unwrap();
            values.sort_unstable();
            let count = values.len() as f64;
            let mean = values.iter().map(|&value| value as f64).sum::<f64>() / count;
            let spread = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>();
            prop_assert!((found.mean_ns - mean).abs() < 1e-6);
            prop_assert!((found.stdev_ns.unwrap() - (spread / (count - 1.0)).sqrt()).abs() < 1e-3);
            prop_assert_eq!((found.min_ns, found.max_ns), (values[0], values[values.len() - 1]));
            let exact = values[values.len().div_ceil(2) - 1];
            prop_assert!((found.p50_ns.unwrap() - exact).abs() <= exact.abs() / 1000);
        }
    }
}
