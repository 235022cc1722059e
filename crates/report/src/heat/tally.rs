//! What one column is summed in: finer than the rows, in memory that is taken once a thread.

use super::map::Column;
use super::{Layout, TOP_2011_NS};
use stats::{Bucket, HOUR_NS};

/// Linear rows at most; what lies above is counted in the last.
const LINEAR_ROWS: usize = 1 << 16;

/// What one thread sums one column in: 128 buckets an octave.
pub(super) struct Fine {
    counts: Vec<u64>,
    low: usize,
    high: usize,
    linear: Vec<u64>,
    linear_high: usize,
    pub(super) max_ns: u64,
    total: u64,
    above_2011: u64,
}

const FINE: u32 = 7;

fn fine_place(ns: u64) -> usize {
    if ns < 1 << FINE {
        return usize::try_from(ns).unwrap_or(0);
    }
    let shift = ns.ilog2() - FINE;
    ((shift as usize) << FINE) + usize::try_from(ns >> shift).unwrap_or(0)
}

fn fine_low(place: usize) -> u64 {
    let shift = (place >> FINE).saturating_sub(1);
    ((place - (shift << FINE)) as u64) << shift
}

/// How many messages of a bucket lie at a time or below it, were they spread evenly; whole messages.
fn up_to(bucket: &Bucket, ns: u64) -> u64 {
    let width = u128::from(bucket.high_ns - bucket.low_ns) + 1;
    let below = (u128::from(ns) + 1).saturating_sub(u128::from(bucket.low_ns)).min(width);
    u64::try_from((u128::from(bucket.count) * below + width / 2) / width).unwrap_or(bucket.count)
}

impl Fine {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; fine_place(HOUR_NS) + 1],
            low: usize::MAX,
            high: 0,
            linear: Vec::new(),
            linear_high: 0,
            max_ns: 0,
            total: 0,
            above_2011: 0,
        }
    }

    pub(super) fn add(&mut self, bucket: Bucket, linear: Option<u64>) {
        let place = fine_place(bucket.low_ns);
        if let Some(count) = self.counts.get_mut(place) {
            *count += bucket.count;
        }
        self.low = self.low.min(place);
        self.high = self.high.max(place);
        self.total += bucket.count;
        if bucket.high_ns > TOP_2011_NS {
            self.above_2011 += bucket.count - up_to(&bucket, TOP_2011_NS);
        }
        if let Some(step_ns) = linear {
            self.add_linear(bucket, step_ns);
        }
    }

    /// A bucket that several rows share is spread over them evenly, to whole messages: else rows would differ by the
    /// number of buckets that end in them.
    fn add_linear(&mut self, bucket: Bucket, step_ns: u64) {
        let layout = Layout::Linear { step_ns };
        let place = |ns: u64| (layout.row(ns) as usize).min(LINEAR_ROWS - 1);
        let (first, last) = (place(bucket.low_ns), place(bucket.high_ns));
        if last >= self.linear.len() {
            self.linear.resize(last + 1, 0);
        }
        self.linear_high = self.linear_high.max(last);
        let mut given = 0;
        for row in first..=last {
            let end = (row as u64 + 1).saturating_mul(step_ns);
            let upto = if row == last { bucket.count } else { up_to(&bucket, end) };
            if let Some(count) = self.linear.get_mut(row) {
                *count += upto.saturating_sub(given);
            }
            given = given.max(upto);
        }
    }

    /// Rows and counts of the column, and the tally empty again.
    pub(super) fn take(&mut self, linear: bool) -> Summed {
        let mut rows: Vec<(u32, u64)> = Vec::new();
        if self.low <= self.high {
            let counts = self.counts.get_mut(self.low..=self.high).unwrap_or_default();
            for (place, count) in (self.low..).zip(counts) {
                let count = std::mem::take(count);
                if count == 0 {
                    continue;
                }
                let row = Layout::Log.row(fine_low(place));
                match rows.last_mut() {
                    Some((last, sum)) if *last == row => *sum += count,
                    _ => rows.push((row, count)),
                }
            }
        }
        let linear = linear.then(|| {
            let counts = self.linear.get_mut(..=self.linear_high).unwrap_or_default();
            let cells = (0_u32..).zip(counts).map(|(row, count)| (row, std::mem::take(count)));
            cells.filter(|(_, count)| *count > 0).collect()
        });
        let column = Column {
            count: self.total,
            lost: 0,
            max_ns: (self.total > 0).then_some(self.max_ns),
            above_2011: self.above_2011,
        };
        (self.low, self.high, self.linear_high) = (usize::MAX, 0, 0);
        (self.max_ns, self.total, self.above_2011) = (0, 0, 0);
        Summed { column, rows, linear }
    }
}

pub(super) struct Summed {
    pub(super) column: Column,
    pub(super) rows: Vec<(u32, u64)>,
    pub(super) linear: Option<Vec<(u32, u64)>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_buckets_lie_within_rows() {
        for place in 0..fine_place(HOUR_NS) {
            let (low, next) = (fine_low(place), fine_low(place + 1));
            assert_eq!(fine_place(low), place);
            assert_eq!(Layout::Log.row(low), Layout::Log.row(next - 1), "{low} to {next}");
        }
    }

    #[test]
    fn buckets_are_spread_over_linear_rows_to_the_last_message() {
        let mut fine = Fine::new();
        // 8 µs wide from 1,024 µs on: four of each five rows of 10 µs would hold one bucket, the fifth two of them.
        for number in 0..100_u64 {
            let low_ns = 1_024_000 + number * 8_000;
            fine.add(Bucket { low_ns, high_ns: low_ns + 7_999, count: 80 }, Some(10_000));
        }
        fine.add(Bucket { low_ns: 5_000, high_ns: 5_000, count: 1 }, Some(10_000));
        let rows = fine.take(true).linear.unwrap();
        assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 8_001);
        let inner: Vec<u64> =
            rows.iter().filter(|(row, _)| (110..180).contains(row)).map(|(_, count)| *count).collect();
        assert!(inner.len() == 70 && inner.iter().all(|count| count.abs_diff(100) <= 1), "{inner:?}");
        assert_eq!(rows[0], (0, 1));
        assert!(fine.take(true).linear.unwrap().is_empty());
    }
}
