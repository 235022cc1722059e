//! The histograms of an interval log, summed by the columns and rows of a heat map, in memory that is taken once.

use crate::decode::{self, Decoder};
use crate::rows::Layout;
use crate::{Bucket, CoarseTally, HOUR_NS, StatsError};
use std::collections::BTreeMap;

/// Linear rows at most; what lies above is counted in the last.
const LINEAR_ROWS: usize = 1 << 16;

/// How many values of a bucket lie at a time or below it, were they spread evenly; whole values.
fn up_to(bucket: &Bucket, ns: u64) -> u64 {
    let width = bucket.high_ns - bucket.low_ns + 1;
    let below = ns.saturating_add(1).saturating_sub(bucket.low_ns).min(width);
    match bucket.count.checked_mul(below).and_then(|share| share.checked_add(width / 2)) {
        Some(share) => share / width,
        None => {
            let (count, below, width) = (u128::from(bucket.count), u128::from(below), u128::from(width));
            u64::try_from((count * below + width / 2) / width).unwrap_or(bucket.count)
        }
    }
}

#[derive(Default)]
struct Counts {
    counts: Vec<u64>,
    low: usize,
    end: usize,
}

impl Counts {
    #[inline]
    fn add(&mut self, place: usize, count: u64) {
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        if let Some(sum) = self.counts.get_mut(place) {
            *sum += count;
        }
        self.low = if self.end == 0 { place } else { self.low.min(place) };
        self.end = self.end.max(place + 1);
    }

    /// The places that hold values, ascending; empty again afterwards.
    fn take(&mut self) -> Vec<(u32, u64)> {
        let counts = self.counts.get_mut(self.low..self.end).unwrap_or_default();
        let first = u32::try_from(self.low).unwrap_or(u32::MAX);
        let found = (first..).zip(counts).map(|(place, count)| (place, std::mem::take(count)));
        let found = found.filter(|(_, count)| *count > 0).collect();
        (self.low, self.end) = (0, 0);
        found
    }
}

/// What one column holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnCounts {
    pub count: u64,
    pub max_ns: Option<u64>,
    /// Values above the limit of [`RowTally::new`].
    pub above: u64,
    /// Rows of the log layout that hold values, ascending.
    pub log: Vec<(u32, u64)>,
    /// Those of the linear layout, where one was asked for.
    pub linear: Vec<(u32, u64)>,
}

/// Rows of two columns added up, ascending.
fn merge(rows: &mut Vec<(u32, u64)>, others: Vec<(u32, u64)>) {
    if rows.is_empty() {
        *rows = others;
        return;
    }
    let mut sums: BTreeMap<u32, u64> = rows.drain(..).collect();
    others.into_iter().for_each(|(row, count)| *sums.entry(row).or_default() += count);
    rows.extend(sums);
}

impl ColumnCounts {
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.above += other.above;
        merge(&mut self.log, other.log);
        merge(&mut self.linear, other.linear);
    }
}

struct Sums {
    linear_step_ns: Option<u64>,
    limit_ns: u64,
    count: u64,
    max_ns: Option<u64>,
    above: u64,
    log: Counts,
    linear: Counts,
}

impl Sums {
    fn linear_rows(&self, bucket: &Bucket) -> Option<(usize, usize)> {
        let layout = Layout::Linear { step_ns: self.linear_step_ns? };
        let place = |ns: u64| (layout.row(ns) as usize).min(LINEAR_ROWS - 1);
        Some((place(bucket.low_ns), place(bucket.high_ns)))
    }

    /// Whether nothing of a bucket is rounded: its values of several histograms may be added up first.
    fn is_whole(&self, bucket: &Bucket) -> bool {
        let is_split = bucket.low_ns <= self.limit_ns && bucket.high_ns > self.limit_ns;
        !is_split && self.linear_rows(bucket).is_none_or(|(first, last)| first == last)
    }

    /// Adds a bucket of a log, which lies within one row of the log layout.
    fn add(&mut self, bucket: Bucket) {
        self.log.add(Layout::Log.row(bucket.low_ns) as usize, bucket.count);
        self.count += bucket.count;
        if bucket.high_ns > self.limit_ns {
            self.above += bucket.count - up_to(&bucket, self.limit_ns);
        }
        if let (Some(rows), Some(step_ns)) = (self.linear_rows(&bucket), self.linear_step_ns) {
            self.add_linear(&bucket, rows, step_ns);
        }
    }

    /// A bucket that several rows share is spread over them evenly, to whole values, lest rows differ by their ends of buckets.
    fn add_linear(&mut self, bucket: &Bucket, (first, last): (usize, usize), step_ns: u64) {
        let mut given = 0;
        for row in first..=last {
            let end = (row as u64 + 1).saturating_mul(step_ns);
            let upto = if row == last { bucket.count } else { up_to(bucket, end) };
            self.linear.add(row, upto.saturating_sub(given));
            given = given.max(upto);
        }
    }
}

/// Sums histograms into columns of rows: those of the logs' layout bucket by bucket, which become rows once a column.
pub struct RowTally {
    decoder: Decoder,
    sums: Sums,
    /// Of the layout of [`CoarseTally`].
    coarse: Counts,
    /// Which of its buckets may be added up before they become rows.
    whole: Box<[bool]>,
    /// The column that is summed.
    column: usize,
    done: BTreeMap<usize, ColumnCounts>,
}

impl RowTally {
    /// Rows of the log layout, and linear ones of a width, with what lies above a limit counted apart.
    pub fn new(linear_step_ns: Option<u64>, limit_ns: u64) -> Self {
        let mut log = Counts::default();
        log.counts.resize(Layout::Log.row(HOUR_NS) as usize + 1, 0);
        let linear = Counts::default();
        let sums = Sums { linear_step_ns, limit_ns, count: 0, max_ns: None, above: 0, log, linear };
        let bucket = |at| decode::Layout::COARSE.bucket(at, 0);
        let whole = (0..CoarseTally::BUCKETS as u64).map(|at| sums.is_whole(&bucket(at))).collect();
        let coarse = Counts { counts: vec![0; CoarseTally::BUCKETS], low: 0, end: 0 };
        Self { decoder: Decoder::new(), sums, coarse, whole, column: 0, done: BTreeMap::new() }
    }

    /// Adds a histogram of a log to a column, with the largest value that the log names, which a wrong one must not move out
    /// of its bucket; values over an hour count as an hour. Nothing of a damaged one is added. Text as
    /// [`crate::Histogram::from_base64_v2`] reads it. It is fast where columns follow each other. Errors: as
    /// [`crate::Histogram::from_base64_v2`].
    pub fn add(&mut self, column: usize, text: &str, max_ns: u64) -> Result<(), StatsError> {
        if column != self.column {
            self.end_column();
            self.column = column;
        }
        let (layout, counts) = self.decoder.read(text)?;
        let is_coarse = layout == decode::Layout::COARSE;
        for &(at, count) in counts {
            let place = usize::try_from(at).unwrap_or(usize::MAX);
            if is_coarse && self.whole.get(place) == Some(&true) {
                self.coarse.add(place, count);
            } else {
                self.sums.add(layout.bucket(at, count));
            }
        }
        if let Some((top, _)) = counts.last() {
            let top = layout.bucket(*top, 0);
            self.sums.max_ns = self.sums.max_ns.max(Some(max_ns.clamp(top.low_ns, top.high_ns)));
        }
        Ok(())
    }

    fn end_column(&mut self) {
        let counts = self.take();
        if counts.count > 0 {
            self.done.entry(self.column).or_default().merge(counts);
        }
    }

    /// The columns that hold values.
    pub fn columns(mut self) -> BTreeMap<usize, ColumnCounts> {
        self.end_column();
        self.done
    }

    /// What was added since the last column.
    fn take(&mut self) -> ColumnCounts {
        for (at, count) in self.coarse.take() {
            self.sums.add(decode::Layout::COARSE.bucket(at.into(), count));
        }
        let sums = &mut self.sums;
        ColumnCounts {
            count: std::mem::take(&mut sums.count),
            max_ns: sums.max_ns.take(),
            above: std::mem::take(&mut sums.above),
            log: sums.log.take(),
            linear: sums.linear.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_NS: u64 = 2_000_000;

    #[test]
    fn buckets_lie_within_rows() {
        let mut histogram = crate::Histogram::new();
        (0..2_000_000_u64).step_by(37).for_each(|ns| histogram.record(ns * ns / 1000 + ns));
        for bucket in histogram.iter_recorded() {
            assert_eq!(Layout::Log.row(bucket.low_ns), Layout::Log.row(bucket.high_ns), "{bucket:?}");
        }
    }

    #[test]
    fn buckets_are_spread_over_linear_rows_to_the_last_value() {
        let mut tally = RowTally::new(Some(10_000), LIMIT_NS);
        // 8 µs wide from 1,024 µs on: four of each five rows of 10 µs would hold one bucket, the fifth two of them.
        for number in 0..100_u64 {
            let low_ns = 1_024_000 + number * 8_000;
            tally.sums.add(Bucket { low_ns, high_ns: low_ns + 7_999, count: 80 });
        }
        tally.sums.add(Bucket { low_ns: 5_000, high_ns: 5_000, count: 1 });
        let column = tally.take();
        for rows in [&column.log, &column.linear] {
            assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 8_001);
        }
        let inner: Vec<u64> =
            column.linear.iter().filter(|(row, _)| (110..180).contains(row)).map(|(_, count)| *count).collect();
        assert!(inner.len() == 70 && inner.iter().all(|count| count.abs_diff(100) <= 1), "{inner:?}");
        assert_eq!(column.linear[0], (0, 1));
        assert_eq!(tally.take(), ColumnCounts::default());
    }

    /// Catches: buckets that are rounded added up first, and buckets that are not counted.
    #[test]
    fn a_column_is_the_sum_of_its_histograms_bucket_by_bucket() {
        let mut random = crate::SplitMix64::new(7);
        let (mut tally, mut direct) = (RowTally::new(Some(10_000), LIMIT_NS), RowTally::new(Some(10_000), LIMIT_NS));
        let (mut encoder, mut coarse, mut fine) = (crate::Encoder::new(), CoarseTally::new(), crate::Tally::new());
        let mut coarse_end = 0;
        for round in 0..40_u64 {
            for _ in 0..300 {
                let draw = random.next_u64();
                let ns = draw % (1 << (1 + draw.rotate_left(17) % 43));
                coarse.record(ns);
                fine.record(ns);
            }
            let mut texts = [String::new(), String::new()];
            encoder.base64_v2(&coarse, &mut texts[0]).unwrap();
            encoder.base64_v2(&fine, &mut texts[1]).unwrap();
            let text = &texts[usize::from(round % 4 == 3)];
            tally.add(usize::from(round % 3 == 0), text, round).unwrap();
            assert!(tally.add(0, &text[..text.len() / 8 * 4], u64::MAX).is_err());
            coarse_end = coarse_end.max(tally.coarse.end);
            let (layout, counts) = direct.decoder.read(text).unwrap();
            counts.iter().for_each(|(at, count)| direct.sums.add(layout.bucket(*at, *count)));
            let top = counts.last().map(|(at, _)| layout.bucket(*at, 0).low_ns);
            direct.sums.max_ns = direct.sums.max_ns.max(top);
            coarse.clear();
            fine.clear();
        }
        assert!(coarse_end > 1000, "most buckets are added up first");
        // Columns in turns, which become one.
        let mut columns = tally.columns().into_values();
        let mut column = columns.next().unwrap();
        assert_ne!(column.count, 40 * 300);
        columns.for_each(|other| column.merge(other));
        assert!(column.above > 0 && column.log.len() > 300);
        assert_eq!((column.count, &column), (40 * 300, &direct.take()));
    }
}
