//! The one histogram: HdrHistogram with 3 significant digits from 1 ns to 1 hour.

use crate::StatsError;
use crate::decode::Decoder;
use crate::error::one_line;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// The top of the range: 1 hour. Longer times are counted there, and in [`Histogram::overflowed`].
pub const HOUR_NS: u64 = 3_600_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value of the bucket, in ns.
    pub low_ns: u64,
    /// Largest value of the bucket, in ns.
    pub high_ns: u64,
    pub count: u64,
}

/// Counts of times in ns by bucket, at most a thousandth of its value wide. [`Histogram::new`] takes and touches all memory
/// (270 KB); recording and merging do not allocate. Layout, recording and encoding are those of `hdrhistogram`.
///
/// **Quantile rule**: nearest rank (Hyndman and Fan's type 1): of n values the q-quantile is the ⌈q·n⌉-th smallest, given as
/// the largest value of its bucket, and never more than the largest recorded.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Hdr<u64>,
    min: u64,
    max: u64,
    overflowed: u64,
}

/// A histogram with the values that a closed loop did not see; see [`Histogram::corrected`]. These are counted, never stored.
#[derive(Debug, Clone)]
pub struct Corrected {
    /// Value and count, ascending.
    buckets: Vec<(u64, u64)>,
    interval_ns: u64,
}

impl Corrected {
    /// Values above `ns`, the added ones too.
    pub fn count_above(&self, ns: u64) -> u64 {
        let i = self.interval_ns;
        let of_one = |value: u64| {
            // v - k·i for k of 1 and more, down to i, that are above ns.
            let down_to_interval = (value / i).saturating_sub(1);
            let above = (value - ns).div_ceil(i) - 1;
            1 + above.min(down_to_interval)
        };
        self.buckets
            .iter()
            .rev()
            .take_while(|(value, _)| *value > ns)
            .map(|(value, count)| count * of_one(*value))
            .sum()
    }

    pub fn count(&self) -> u64 {
        let zeros: u64 = self.buckets.iter().take_while(|(value, _)| *value == 0).map(|(_, count)| count).sum();
        self.count_above(0) + zeros
    }

    /// A quantile of 0.5 and more, by [`Histogram`]'s rule, with at least [`Histogram::BEYOND`] values above it.
    pub fn quantile_if_supported(&self, q: f64) -> Option<u64> {
        let count = self.count();
        let beyond = count - rank(q, count).min(count);
        if beyond < Histogram::BEYOND {
            return None;
        }
        // The smallest value that no more than `beyond` lie above.
        let (mut low, mut high) = (0, self.buckets.last().map_or(0, |(value, _)| *value));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.count_above(middle) > beyond { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of the q-quantile among `count` ascending values: ⌈q·n⌉ from 1 to n; q·n within rounding of an integer is that.
pub fn rank(q: f64, count: u64) -> u64 {
    let exact = q.clamp(0.0, 1.0) * count as f64;
    let nearest = exact.round();
    let rank = if (exact - nearest).abs() <= nearest * 1e-12 { nearest } else { exact.ceil() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and count; `as` saturates")]
    let rank = rank as u64;
    rank.clamp(1, count.max(1))
}

impl Histogram {
    pub fn new() -> Self {
        let Ok(mut counts) = Hdr::new_with_bounds(1, HOUR_NS, 3) else {
            unreachable!("the bounds are constants that the library accepts");
        };
        counts.auto(false);
        // Pages of zeros come into being at their first write, which must not be in the measured loop.
        std::hint::black_box(&mut counts).reset();
        Self { counts, min: u64::MAX, max: 0, overflowed: 0 }
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts a time several times over.
    #[inline]
    pub fn record_n(&mut self, ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        if ns > HOUR_NS {
            self.overflowed += times;
        }
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.counts.saturating_record_n(ns.min(HOUR_NS), times);
    }

    /// For a tally, whose values over an hour are in its top bucket already.
    pub(crate) fn add_overflowed(&mut self, times: u64) {
        self.overflowed += times;
    }

    pub fn merge(&mut self, other: &Self) {
        // Cannot fail: both have the same layout.
        if self.counts.add(&other.counts).is_ok() {
            self.min = self.min.min(other.min);
            self.max = self.max.max(other.max);
            self.overflowed += other.overflowed;
        }
    }

    /// Narrows the smallest and largest value to the exact ones, where they are known from elsewhere.
    pub fn set_exact_range(&mut self, min_ns: u64, max_ns: u64) {
        if !self.is_empty() {
            self.min = min_ns;
            self.max = max_ns;
        }
    }

    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many values were longer than an hour; they are counted as an hour.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// The smallest value; after decoding, the smallest of its bucket. `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// The largest value; after decoding, the largest of its bucket. `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// The value at a quantile (0 to 1), by the rule above; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        // Half a place below the rank, so that the library's ceiling of q·n is the rank whatever the rounding.
        let place = (rank(q, self.count()) as f64 - 0.5) / self.count() as f64;
        Some(self.counts.value_at_quantile(place).min(self.max).max(self.min))
    }

    /// The bucket that holds the value at a quantile (0 to 1); `None` when empty. Does not allocate.
    pub fn bucket_at(&self, q: f64) -> Option<Bucket> {
        let value = self.quantile(q)?;
        Some(Bucket {
            low_ns: self.counts.lowest_equivalent(value).max(self.min),
            high_ns: self.counts.highest_equivalent(value).min(self.max),
            count: self.counts.count_at(value),
        })
    }

    /// Values that must lie beyond a quantile for a figure to be given, in every document and table.
    pub const BEYOND: u64 = 10;

    /// A quantile with at least `beyond` values beyond it, above for q of 0.5 and more, else below; fewer would be chance.
    pub fn quantile_if_supported(&self, q: f64, beyond: u64) -> Option<u64> {
        let count = self.count();
        let rank = rank(q, count);
        let outside = if q >= 0.5 { count.saturating_sub(rank) } else { rank - 1 };
        if count == 0 || outside < beyond { None } else { self.quantile(q) }
    }

    /// How many values a quantile needs, so that [`Histogram::BEYOND`] lie beyond it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    pub fn needed(q: f64) -> u64 {
        let each = |share: f64| (Self::BEYOND as f64 / share).round() as u64;
        if q >= 0.5 { each(1.0 - q) } else { each(q) + 1 }
    }

    /// How many values lie in buckets above that of `ns`.
    pub fn count_above(&self, ns: u64) -> u64 {
        let top = self.counts.highest_equivalent(ns.min(HOUR_NS));
        self.iter_recorded().filter(|bucket| bucket.low_ns > top).map(|bucket| bucket.count).sum()
    }

    /// The buckets that hold values, in ascending order.
    pub fn iter_recorded(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.counts.iter_recorded().map(|bucket| Bucket {
            low_ns: self.counts.lowest_equivalent(bucket.value_iterated_to()),
            high_ns: self.counts.highest_equivalent(bucket.value_iterated_to()),
            count: bucket.count_since_last_iteration(),
        })
    }

    /// What an open loop would have seen, by HdrHistogram's rule: v counts for v, v - i, v - 2i … down to i (`interval_ns`).
    pub fn corrected(&self, interval_ns: u64) -> Corrected {
        let buckets = self.iter_recorded().map(|bucket| (bucket.high_ns.min(self.max), bucket.count)).collect();
        Corrected { buckets, interval_ns: interval_ns.max(1) }
    }

    /// HdrHistogram's V2 format, compressed (zlib), as base64: what its tools and interval logs read. Errors: [`StatsError::Encode`];
    /// only for counts above 2⁶³.
    pub fn to_base64_v2(&self) -> Result<String, StatsError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.counts, &mut bytes)
            .map_err(|error| StatsError::Encode { why: one_line(&error) })?;
        Ok(STANDARD.encode(bytes))
    }

    /// Reads what [`Histogram::to_base64_v2`] or another HdrHistogram tool wrote, compressed or not. A histogram of
    /// another range or precision is brought to ours. Errors: [`StatsError::Base64`], [`StatsError::Decode`], [`StatsError::TooLong`].
    pub fn from_base64_v2(text: &str) -> Result<Self, StatsError> {
        let mut histogram = Self::new();
        Decoder::new().each_as_written(text, |bucket| histogram.record_n(bucket.low_ns, bucket.count))?;
        if !histogram.is_empty() {
            histogram.max = histogram.counts.highest_equivalent(histogram.max.min(HOUR_NS));
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn as_many_as_needed_support_a_quantile_and_one_fewer_do_not() {
        for q in [0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999] {
            let needed = Histogram::needed(q);
            let supports = |count: u64| {
                let mut all = Histogram::new();
                all.record_n(1000, count);
                all.quantile_if_supported(q, Histogram::BEYOND).is_some()
            };
            assert!(supports(needed) && !supports(needed - 1), "{q}: {needed}");
        }
    }

    #[test]
    fn nearest_rank() {
        let histogram = of(1..=1000);
        assert_eq!(histogram.quantile(0.5), Some(500));
        assert_eq!(histogram.quantile(0.99), Some(990));
        assert_eq!(histogram.quantile(0.0), Some(1));
        assert_eq!(histogram.quantile(1.0), Some(1000));
        assert_eq!(histogram.quantile(0.9991), Some(1000));
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn ten_beyond() {
        let histogram = of(1..=1000);
        assert_eq!(histogram.quantile_if_supported(0.99, 10), Some(990));
        assert_eq!(of(1..=999).quantile_if_supported(0.99, 10), None);
        assert_eq!(histogram.quantile_if_supported(0.999, 10), None);
        assert_eq!(histogram.quantile_if_supported(0.001, 10), None);
        assert_eq!(histogram.quantile_if_supported(0.5, 500), Some(500));
        assert_eq!(histogram.quantile_if_supported(0.5, 501), None);
    }

    #[test]
    fn longer_than_an_hour_is_counted() {
        let histogram = of([HOUR_NS + 1, u64::MAX, 5]);
        assert_eq!(histogram.count(), 3);
        assert_eq!(histogram.overflowed(), 2);
        assert_eq!(histogram.max(), Some(u64::MAX));
        assert_eq!(histogram.count_above(5), 2);
        assert!(histogram.quantile(1.0).unwrap() >= HOUR_NS);
    }

    #[test]
    fn recording_and_merging_do_not_allocate() {
        let mut histogram = Histogram::new();
        let other = of(1..=100);
        let info = allocation_counter::measure(|| {
            for value in 0..100_000_u64 {
                histogram.record(value * value * 1000);
            }
            histogram.merge(&other);
        });
        assert_eq!(info.count_total, 0);
        assert_eq!(histogram.count(), 100_100);
    }

    #[test]
    fn there_and_back() {
        let histogram = of((0..10_000_u64).map(|value| value * value));
        let text = histogram.to_base64_v2().unwrap();
        assert!(text.starts_with("HISTFAAA"), "the cookie of compressed V2 in base64: {text}");
        let back = Histogram::from_base64_v2(&text).unwrap();
        assert!(back.iter_recorded().eq(histogram.iter_recorded()));
        assert!(Histogram::from_base64_v2(&Histogram::new().to_base64_v2().unwrap()).unwrap().is_empty());
    }

    #[test]
    fn a_corrected_histogram_is_that_of_the_library() {
        // The library adds the values one by one; so does the definition.
        let values = [(10_000_u64, 5000_u64), (11_000, 3000), (35_000, 4), (200_000, 2), (7_003_000, 1)];
        for interval_ns in [1_000, 10_000, 10_500, 50_000] {
            let mut expected = Hdr::<u64>::new_with_bounds(1, HOUR_NS, 3).unwrap();
            let mut plain = Histogram::new();
            for (value, count) in values {
                plain.record_n(value, count);
                for _ in 0..count {
                    expected.record_correct(value, interval_ns).unwrap();
                }
            }
            let corrected = plain.corrected(interval_ns);
            assert_eq!(corrected.count(), expected.len(), "{interval_ns}");
            for q in [0.5, 0.9, 0.99, 0.999] {
                let (found, exact) = (corrected.quantile_if_supported(q), expected.value_at_quantile(q));
                let Some(found) = found else { continue };
                assert!(
                    found.abs_diff(exact) <= exact / 200 + interval_ns / 100,
                    "{interval_ns} {q}: {found} for {exact}"
                );
            }
        }
    }

    #[test]
    fn correcting_long_stalls_takes_no_time_and_few_values_give_no_quantile() {
        let mut plain = Histogram::new();
        plain.record_n(1_000, 1_000_000);
        plain.record_n(HOUR_NS / 2, 3);
        let corrected = plain.corrected(1_000);
        assert!(corrected.count() > 5_000_000_000);
        assert!(corrected.quantile_if_supported(0.5).unwrap() > HOUR_NS / 8);
        assert_eq!(Histogram::new().corrected(5).quantile_if_supported(0.5), None);
        assert_eq!(of(100..105).corrected(100).quantile_if_supported(0.99), None);
    }

    #[test]
    fn damaged_text_is_refused() {
        assert!(matches!(Histogram::from_base64_v2("!!"), Err(StatsError::Base64 { .. })));
        assert!(matches!(Histogram::from_base64_v2("AAAA"), Err(StatsError::Decode { .. })));
        let long = "A".repeat(crate::decode::LONGEST_TEXT + 4);
        assert!(matches!(Histogram::from_base64_v2(&long), Err(StatsError::TooLong { .. })));
        let text = of(1..100).to_base64_v2().unwrap();
        assert!(Histogram::from_base64_v2(&text[..text.len() / 8 * 4]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn quantiles_agree_with_sorting(mut values in prop::collection::vec(0_u64..HOUR_NS, 1..400), q in 0.0_f64..=1.0) {
            let histogram = of(values.iter().copied());
            values.sort_unstable();
            let exact = values[usize::try_from(rank(q, values.len() as u64)).unwrap() - 1];
            let found = histogram.quantile(q).unwrap();
            prop_assert!(found >= exact && found - exact <= exact / 1000, "{found} for {exact}");
        }
    }
}
