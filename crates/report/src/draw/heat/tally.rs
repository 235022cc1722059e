//! What one column is summed in, in memory that is taken once a thread.

use super::map::Column;
use super::{Layout, TOP_2011_NS};
use stats::{Bucket, HOUR_NS};

/// Linear rows at most; what lies above is counted in the last.
const LINEAR_ROWS: usize = 1 << 16;

/// How many messages of a bucket lie at a time or below it, were they spread evenly; whole messages.
fn up_to(bucket: &Bucket, ns: u64) -> u64 {
    let width = u128::from(bucket.high_ns - bucket.low_ns) + 1;
    let below = (u128::from(ns) + 1).saturating_sub(u128::from(bucket.low_ns)).min(width);
    u64::try_from((u128::from(bucket.count) * below + width / 2) / width).unwrap_or(bucket.count)
}

#[derive(Default)]
struct RowCounts {
    counts: Vec<u64>,
    low: usize,
    end: usize,
}

impl RowCounts {
    fn add(&mut self, row: usize, count: u64) {
        if row >= self.counts.len() {
            self.counts.resize(row + 1, 0);
        }
        if let Some(sum) = self.counts.get_mut(row) {
            *sum += count;
        }
        self.low = if self.end == 0 { row } else { self.low.min(row) };
        self.end = self.end.max(row + 1);
    }

    /// The rows that hold messages, ascending; empty again afterwards.
    fn take(&mut self) -> Vec<(u32, u64)> {
        let counts = self.counts.get_mut(self.low..self.end).unwrap_or_default();
        let first = u32::try_from(self.low).unwrap_or(u32::MAX);
        let rows = (first..).zip(counts).map(|(row, count)| (row, std::mem::take(count)));
        let rows = rows.filter(|(_, count)| *count > 0).collect();
        (self.low, self.end) = (0, 0);
        rows
    }
}

pub(super) struct Tally {
    linear_step_ns: Option<u64>,
    log: RowCounts,
    linear: RowCounts,
    column: Column,
}

impl Tally {
    pub(super) fn new(linear_step_ns: Option<u64>) -> Self {
        let mut log = RowCounts::default();
        log.counts.resize(Layout::Log.row(HOUR_NS) as usize + 1, 0);
        Self { linear_step_ns, log, linear: RowCounts::default(), column: Column::default() }
    }

    /// Adds a bucket of a log, which lies within one row of the log layout.
    pub(super) fn add(&mut self, bucket: Bucket) {
        self.log.add(Layout::Log.row(bucket.low_ns) as usize, bucket.count);
        self.column.count += bucket.count;
        if bucket.high_ns > TOP_2011_NS {
            self.column.above_2011 += bucket.count - up_to(&bucket, TOP_2011_NS);
        }
        if let Some(step_ns) = self.linear_step_ns {
            self.add_linear(bucket, step_ns);
        }
    }

    pub(super) fn add_max(&mut self, ns: u64) {
        self.column.max_ns = self.column.max_ns.max(Some(ns));
    }

    /// A bucket that several rows share is spread over them evenly, to whole messages: else rows would differ by the
    /// number of buckets that end in them.
    fn add_linear(&mut self, bucket: Bucket, step_ns: u64) {
        let layout = Layout::Linear { step_ns };
        let place = |ns: u64| (layout.row(ns) as usize).min(LINEAR_ROWS - 1);
        let (first, last) = (place(bucket.low_ns), place(bucket.high_ns));
        let mut given = 0;
        for row in first..=last {
            let end = (row as u64 + 1).saturating_mul(step_ns);
            let upto = if row == last { bucket.count } else { up_to(&bucket, end) };
            self.linear.add(row, upto.saturating_sub(given));
            given = given.max(upto);
        }
    }

    /// The column with its rows of the log layout and of the linear one, and the tally empty again.
    pub(super) fn take(&mut self) -> Summed {
        Summed { column: std::mem::take(&mut self.column), log: self.log.take(), linear: self.linear.take() }
    }
}

pub(super) struct Summed {
    pub(super) column: Column,
    pub(super) log: Vec<(u32, u64)>,
    pub(super) linear: Vec<(u32, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_lie_within_rows() {
        let mut histogram = stats::Histogram::new();
        (0..2_000_000_u64).step_by(37).for_each(|ns| histogram.record(ns * ns / 1000 + ns));
        for bucket in histogram.iter_recorded() {
            assert_eq!(Layout::Log.row(bucket.low_ns), Layout::Log.row(bucket.high_ns), "{bucket:?}");
        }
    }

    #[test]
    fn buckets_are_spread_over_linear_rows_to_the_last_message() {
        let mut tally = Tally::new(Some(10_000));
        // 8 µs wide from 1,024 µs on: four of each five rows of 10 µs would hold one bucket, the fifth two of them.
        for number in 0..100_u64 {
            let low_ns = 1_024_000 + number * 8_000;
            tally.add(Bucket { low_ns, high_ns: low_ns + 7_999, count: 80 });
        }
        tally.add(Bucket { low_ns: 5_000, high_ns: 5_000, count: 1 });
        let summed = tally.take();
        for rows in [&summed.log, &summed.linear] {
            assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 8_001);
        }
        let inner: Vec<u64> =
            summed.linear.iter().filter(|(row, _)| (110..180).contains(row)).map(|(_, count)| *count).collect();
        assert!(inner.len() == 70 && inner.iter().all(|count| count.abs_diff(100) <= 1), "{inner:?}");
        assert_eq!(summed.linear[0], (0, 1));
        let empty = tally.take();
        assert!(empty.log.is_empty() && empty.linear.is_empty() && empty.column == Column::default());
    }
}
