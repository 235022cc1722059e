//! A short-lived counter with HdrHistogram's buckets, for one interval. It remembers which buckets were touched: sweeping over
//! the lasting histogram's 270 KB would push the measured loop's data out of the caches.

use crate::histogram::Bucket;
use crate::{Block, HOUR_NS, Histogram};
use std::ops::RangeInclusive;

/// Counts by bucket, two to the power of `HALF_BITS` a power of two. [`Buckets::new`] takes and touches all memory.
#[derive(Debug, Clone)]
pub struct Buckets<const HALF_BITS: u32> {
    counts: Box<[u32]>,
    first: usize,
    last: usize,
    total: u64,
    overflowed: u64,
}

/// 3 significant digits, the buckets of [`Histogram`](crate::Histogram).
pub type Tally = Buckets<10>;

/// 2 significant digits: a bucket is at most a hundredth of its value wide.
pub type CoarseTally = Buckets<7>;

impl<const HALF_BITS: u32> Default for Buckets<HALF_BITS> {
    fn default() -> Self {
        Self::new()
    }
}

/// The bucket of a value up to an hour, by HdrHistogram's layout for a lowest value of 1: an IEEE 754 number's exponent and
/// first bits of its fraction say it, and cost less than counting zeros.
#[inline]
fn bucket<const HALF_BITS: u32>(value: u64) -> usize {
    usize::try_from(bucket_of::<HALF_BITS>(value, value.cast_signed() as f64)).unwrap_or(usize::MAX)
}

/// The same of a value as an integer and as a floating-point number.
#[inline]
fn bucket_of<const HALF_BITS: u32>(value: u64, float: f64) -> u64 {
    const BIAS: u64 = 1023;
    let bits = float.to_bits() >> (f64::MANTISSA_DIGITS - 1 - HALF_BITS);
    let offset = (BIAS - 1 + u64::from(HALF_BITS)) << HALF_BITS;
    if value < 1 << HALF_BITS { value } else { bits.wrapping_sub(offset) }
}

/// The values that share a bucket.
fn values<const HALF_BITS: u32>(bucket: usize) -> RangeInclusive<u64> {
    let shift = (bucket >> HALF_BITS).saturating_sub(1);
    let low = ((bucket - (shift << HALF_BITS)) as u64) << shift;
    low..=low + ((1_u64 << shift) - 1)
}

impl Tally {
    /// The bucket of a value below [`Block::END`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an hour's bucket is below 2^16")]
    pub(crate) fn small_bucket(value: u32) -> u32 {
        bucket_of::<10>(u64::from(value), f64::from(value.cast_signed())) as u32
    }

    /// The largest value of a value's bucket.
    pub(crate) fn bucket_end(value: u64) -> u64 {
        *values::<10>(Self::bucket(value)).end()
    }

    #[inline]
    pub fn record_block(&mut self, block: &Block) {
        for at in block.buckets {
            if let Some(count) = self.counts.get_mut(at as usize) {
                *count = count.saturating_add(1);
            }
        }
        self.first = self.first.min(Self::bucket(block.min));
        self.last = self.last.max(Self::bucket(block.max));
        self.total += Block::LENGTH as u64;
    }

    /// The bucket of a quantile of a histogram's values and these together; `None` when both are empty. Does not allocate.
    pub fn bucket_beside(&self, histogram: &Histogram, q: f64) -> Option<Bucket> {
        let rank = crate::histogram::rank(q, histogram.count() + self.total);
        let here = self.touched().iter().zip(self.first..).filter(|(count, _)| **count > 0);
        let mut here = here.map(|(count, at)| (values::<10>(at), u64::from(*count))).peekable();
        let there = histogram.iter_recorded().map(|bucket| (bucket.low_ns..=bucket.high_ns, bucket.count));
        let mut there = there.peekable();
        let (mut seen, mut last) = (0, None);
        while seen < rank {
            let next = match (here.peek(), there.peek()) {
                (Some((one, _)), Some((other, _))) if one.start() <= other.start() => here.next(),
                (Some(_), None) => here.next(),
                (_, Some(_)) => there.next(),
                (None, None) => break,
            };
            let (range, count) = next?;
            seen += count;
            last = Some(Bucket { low_ns: *range.start(), high_ns: *range.end(), count });
        }
        last
    }
}

impl<const HALF_BITS: u32> Buckets<HALF_BITS> {
    /// An hour's bucket is the last one.
    pub(crate) const BUCKETS: usize = ((HOUR_NS.ilog2() + 2 - HALF_BITS) as usize) << HALF_BITS;

    /// An empty one (135 KB with 3 digits, 18 KB with 2), written once so that no page fault comes later.
    pub fn new() -> Self {
        let mut counts = vec![1_u32; Self::BUCKETS].into_boxed_slice();
        std::hint::black_box(&mut counts).fill(0);
        Self { counts, first: Self::BUCKETS, last: 0, total: 0, overflowed: 0 }
    }

    /// The bucket of a value; that of an hour for longer ones.
    #[inline]
    pub(crate) fn bucket(ns: u64) -> usize {
        bucket::<HALF_BITS>(ns.min(HOUR_NS))
    }

    /// Counts one value; values over an hour count as an hour.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.overflowed += u64::from(ns > HOUR_NS);
        let at = Self::bucket(ns);
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add(1);
        }
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
        self.total += 1;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of them were longer than an hour; they are counted as an hour.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// The counts of all buckets up to the last one that holds values, from bucket 0.
    pub(crate) fn counts(&self) -> &[u32] {
        let end = if self.total == 0 { 0 } else { self.last + 1 };
        self.counts.get(..end).unwrap_or_default()
    }

    /// Significant decimal digits of the layout: one takes 4 bits, two take 7, three take 10.
    pub(crate) const DIGITS: u32 = match HALF_BITS {
        ..=4 => 1,
        5..=7 => 2,
        8..=10 => 3,
        11..=14 => 4,
        _ => 5,
    };

    fn touched(&self) -> &[u32] {
        self.counts.get(self.first..=self.last).unwrap_or_default()
    }

    /// The value at a quantile by the rule of [`Histogram::quantile`]; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.bucket_at(q).map(|bucket| bucket.high_ns)
    }

    /// The bucket that holds the value at a quantile; `None` when empty.
    pub fn bucket_at(&self, q: f64) -> Option<Bucket> {
        if self.total == 0 {
            return None;
        }
        let rank = crate::histogram::rank(q, self.total);
        let bucket = |place: usize, count: u64| {
            let range = values::<HALF_BITS>(place);
            Bucket { low_ns: *range.start(), high_ns: *range.end(), count }
        };
        let mut seen = 0_u64;
        for (at, &count) in self.touched().iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return Some(bucket(self.first + at, u64::from(count)));
            }
        }
        Some(bucket(self.last, 0))
    }

    pub fn add_to(&self, other: &mut Self) {
        if self.total == 0 {
            return;
        }
        if let Some(target) = other.counts.get_mut(self.first..=self.last) {
            for (sum, &count) in target.iter_mut().zip(self.touched()) {
                *sum = sum.saturating_add(count);
            }
        }
        other.first = other.first.min(self.first);
        other.last = other.last.max(self.last);
        other.total += self.total;
        other.overflowed += self.overflowed;
    }

    /// Adds all its values to the lasting histogram, each as the smallest value of its bucket (see [`Histogram::set_exact_range`]).
    pub fn add_to_histogram(&self, histogram: &mut Histogram) {
        for (at, &count) in self.touched().iter().enumerate() {
            if count > 0 {
                histogram.record_n(*values::<HALF_BITS>(self.first + at).start(), u64::from(count));
            }
        }
        histogram.add_overflowed(self.overflowed);
    }

    /// Forgets all values; costs as much as was touched.
    pub fn clear(&mut self) {
        if let Some(touched) = self.counts.get_mut(self.first..=self.last) {
            touched.fill(0);
        }
        self.first = Self::BUCKETS;
        self.last = 0;
        self.total = 0;
        self.overflowed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_bucket_is_the_hours() {
        assert!(bucket::<10>(HOUR_NS) < Tally::BUCKETS && bucket::<7>(HOUR_NS) < CoarseTally::BUCKETS);
        assert_eq!(Tally::BUCKETS, 33_792);
        assert_eq!(bucket::<10>(2047), 2047);
        assert_eq!(bucket::<10>(2048), 2048);
        assert_eq!(bucket::<10>(2049), 2048);
        assert_eq!(bucket::<7>(259), 257);
        assert!(values::<10>(bucket::<10>(HOUR_NS)).contains(&HOUR_NS));
        assert!(values::<7>(bucket::<7>(HOUR_NS)).contains(&HOUR_NS));
    }

    proptest! {
        #[test]
        fn quantiles_beside_a_histogram_are_those_of_all(
            early in proptest::collection::vec(1..5_000_000_u64, 0..300),
            late in proptest::collection::vec(1..5_000_000_u64, 0..300),
            q in 0.0..=1.0,
        ) {
            let (mut closed, mut open, mut all) = (Histogram::new(), Tally::new(), Histogram::new());
            for value in &early {
                closed.record(*value);
                all.record(*value);
            }
            for value in &late {
                open.record(*value);
                all.record(*value);
            }
            let found = open.bucket_beside(&closed, q).map(|bucket| bucket.low_ns..=bucket.high_ns);
            let expected = all.quantile(q).map(|value| values::<10>(bucket::<10>(value)));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn cleared_is_empty() {
        let mut tally = Tally::new();
        tally.record(5);
        tally.record(7_000_000);
        tally.clear();
        assert_eq!(tally.total(), 0);
        assert!(tally.counts.iter().all(|&count| count == 0));
        tally.record(9);
        assert_eq!(tally.quantile(0.5), Some(9));
    }

    #[test]
    fn nothing_allocates_after_new() {
        let mut tally = Tally::new();
        let mut other = Tally::new();
        let mut histogram = Histogram::new();
        let info = allocation_counter::measure(|| {
            for value in 0..10_000 {
                tally.record(value * 977);
            }
            tally.add_to(&mut other);
            tally.add_to_histogram(&mut histogram);
            tally.clear();
        });
        assert_eq!(info.count_total, 0);
        assert_eq!(other.total(), 10_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_the_histogram(values in prop::collection::vec(0_u64..2 * HOUR_NS, 1..300), q in 0.0_f64..=1.0) {
            let mut tally = Tally::new();
            let mut direct = Histogram::new();
            for &value in &values {
                tally.record(value);
                direct.record(value);
            }
            let mut through = Histogram::new();
            tally.add_to_histogram(&mut through);
            prop_assert!(direct.iter_recorded().eq(through.iter_recorded()));
            prop_assert_eq!(direct.overflowed(), through.overflowed());
            // The histogram knows its exact largest value, the tally only the bucket of it.
            let (coarse, fine) = (tally.quantile(q).unwrap(), direct.quantile(q).unwrap());
            let fine = fine.min(HOUR_NS);
            prop_assert!(coarse >= fine && bucket::<10>(coarse.min(HOUR_NS)) == bucket::<10>(fine));
        }

        #[test]
        fn a_bucket_holds_its_own_values(value in 0_u64..=HOUR_NS) {
            let range = values::<10>(bucket::<10>(value));
            prop_assert!(range.contains(&value));
            prop_assert!(range.end() - range.start() <= value / 1000);
            let range = values::<7>(bucket::<7>(value));
            prop_assert!(range.contains(&value));
            prop_assert!(range.end() - range.start() <= value / 100);
        }
    }
}
