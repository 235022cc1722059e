//! Intervals over time: the series of the result, and the tallies of the interval log.

use crate::outliers::touched;
use model::result::{Series, SeriesQuantity};
use model::{LatencyKind, Role};
use stats::{Block, Histogram, Tally};

/// Intervals of the series at most (10 minutes of 100 ms); beyond, neighbours are joined two by two.
const MOST_SLOTS: usize = 6000;
/// Columns of the log at most (each takes 135 KB); beyond, neighbours are joined two by two.
const MOST_COLUMNS: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    received: u64,
    lost: u64,
    p50_ns: u64,
    max_ns: u64,
}

impl Slot {
    /// Two neighbours as one. The median of both lies between theirs; it is given as their mean weighted by messages.
    fn join(self, next: Self) -> Self {
        let received = self.received + next.received;
        let weighted =
            u128::from(self.p50_ns) * u128::from(self.received) + u128::from(next.p50_ns) * u128::from(next.received);
        Self {
            received,
            lost: self.lost + next.lost,
            p50_ns: u64::try_from(weighted / u128::from(received.max(1))).unwrap_or(u64::MAX),
            max_ns: self.max_ns.max(next.max_ns),
        }
    }
}

/// What happened when. Times are ns since the first timed send. All memory is taken and touched by [`IntervalSeries::new`].
#[derive(Debug)]
pub(crate) struct IntervalSeries {
    closed: Vec<Slot>,
    most: usize,
    length_ns: u64,
    open: Slot,
    tally: Tally,
    /// What the log has a line of each: intervals added up, so that a run of the planned length has 32 to 64 of them.
    columns: Vec<Tally>,
    column_ns: u64,
    total: Histogram,
    /// Median and 99th percentile of the interval with messages that was closed last, in ns; 0 before.
    latest: [u64; 2],
}

impl IntervalSeries {
    pub(crate) fn new(max_ms: u32, length_ns: u64) -> Self {
        let length_ns = length_ns.max(1_000_000);
        let max_ns = u64::from(max_ms) * 1_000_000;
        let most = usize::try_from(max_ns / length_ns + 2).unwrap_or(MOST_SLOTS).clamp(64, MOST_SLOTS);
        let mut column_ns = length_ns;
        while max_ns / column_ns + 2 > MOST_COLUMNS as u64 {
            column_ns *= 2;
        }
        let columns = usize::try_from(max_ns / column_ns + 2).unwrap_or(MOST_COLUMNS).max(4);
        Self {
            closed: touched(most),
            // An even number, so that joining leaves no half.
            most: most / 2 * 2,
            length_ns,
            open: Slot::default(),
            tally: Tally::new(),
            columns: (0..columns.next_multiple_of(2)).map(|_| Tally::new()).collect(),
            column_ns,
            total: Histogram::new(),
            latest: [0; 2],
        }
    }

    pub(crate) fn end_ns(&self) -> u64 {
        (self.closed.len() as u64 + 1).saturating_mul(self.length_ns)
    }

    #[inline]
    pub(crate) fn received(&mut self, rtt_ns: u64) {
        self.open.max_ns = self.open.max_ns.max(rtt_ns);
        self.tally.record(rtt_ns);
    }

    #[inline]
    pub(crate) fn received_block(&mut self, block: &Block) {
        self.open.max_ns = self.open.max_ns.max(block.max());
        self.tally.record_block(block);
    }

    pub(crate) fn lost(&mut self) {
        self.open.lost += 1;
    }

    /// Closes intervals until the open one holds `at_ns`. Does not allocate.
    pub(crate) fn advance(&mut self, at_ns: u64) {
        while at_ns >= self.end_ns() && self.end_ns() != u64::MAX {
            self.close();
        }
    }

    fn close(&mut self) {
        let start_ns = self.end_ns() - self.length_ns;
        if self.tally.total() > 0 {
            self.open.received = self.tally.total();
            self.latest = [0.5, 0.99].map(|q| self.tally.quantile(q).unwrap_or(0));
            self.open.p50_ns = self.latest[0];
            self.tally.add_to_histogram(&mut self.total);
            while start_ns / self.column_ns >= self.columns.len() as u64 {
                self.join_columns();
            }
            let at = usize::try_from(start_ns / self.column_ns).unwrap_or(0);
            if let Some(column) = self.columns.get_mut(at) {
                self.tally.add_to(column);
            }
            self.tally.clear();
        }
        if self.closed.len() == self.most {
            return;
        }
        self.closed.push(std::mem::take(&mut self.open));
        if self.closed.len() == self.most {
            for at in 0..self.most / 2 {
                self.closed[at] = self.closed[2 * at].join(self.closed[2 * at + 1]);
            }
            self.closed.truncate(self.most / 2);
            self.length_ns = self.length_ns.saturating_mul(2);
        }
    }

    fn join_columns(&mut self) {
        for at in 0..self.columns.len() / 2 {
            let (front, back) = self.columns.split_at_mut(2 * at + 1);
            if let (Some(left), Some(right)) = (front.last_mut(), back.first_mut()) {
                right.add_to(left);
                right.clear();
            }
            self.columns.swap(at, 2 * at);
        }
        self.column_ns = self.column_ns.saturating_mul(2);
    }

    /// Median and 99th percentile of the interval with messages that was closed last, in ns; 0 before there is one.
    pub(crate) fn latest(&self) -> [u64; 2] {
        self.latest
    }

    /// The bucket of a quantile of all values so far. Does not allocate.
    pub(crate) fn bucket_at(&self, q: f64) -> Option<stats::Bucket> {
        self.tally.bucket_beside(&self.total, q)
    }

    /// Closes the open interval and returns everything.
    pub(crate) fn finish(mut self, kind: LatencyKind) -> SeriesResult {
        if self.tally.total() > 0 || self.open.lost > 0 {
            self.close();
        }
        let series = |quantity: SeriesQuantity, value: fn(&Slot) -> Option<u64>| Series {
            quantity,
            host: Role::Initiator.to_string(),
            interval_ns: self.length_ns,
            values: self.closed.iter().map(|slot| value(slot).map(|value| value as f64)).collect(),
        };
        let (p50, max) = match kind {
            LatencyKind::WakeUp => (SeriesQuantity::WakeUpP50, SeriesQuantity::WakeUpMax),
            _ => (SeriesQuantity::RttP50, SeriesQuantity::RttMax),
        };
        let series = vec![
            series(SeriesQuantity::Received, |slot| Some(slot.received)),
            series(SeriesQuantity::Lost, |slot| Some(slot.lost)),
            series(p50, |slot| (slot.received > 0).then_some(slot.p50_ns)),
            series(max, |slot| (slot.received > 0).then_some(slot.max_ns)),
        ];
        let mut columns = Vec::new();
        for (at, tally) in self.columns.iter().enumerate().filter(|(_, tally)| tally.total() > 0) {
            let mut histogram = Histogram::new();
            tally.add_to_histogram(&mut histogram);
            columns.push((at as u64 * self.column_ns, histogram));
        }
        SeriesResult { series, histogram: self.total, columns, column_ns: self.column_ns }
    }
}

pub(crate) struct SeriesResult {
    pub(crate) series: Vec<Series>,
    pub(crate) histogram: Histogram,
    /// Start of each column of the log that holds messages, and its times.
    pub(crate) columns: Vec<(u64, Histogram)>,
    pub(crate) column_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(max_ms: u32, messages: impl Iterator<Item = (u64, u64)>) -> SeriesResult {
        let mut series = IntervalSeries::new(max_ms, 100_000_000);
        let mut end = series.end_ns();
        for (at, rtt) in messages {
            if at >= end {
                series.advance(at);
                end = series.end_ns();
            }
            series.received(rtt);
        }
        series.finish(LatencyKind::Rtt)
    }

    #[test]
    fn a_gap_is_seen_as_empty_intervals() {
        let done = fill(1000, [(0, 10), (50_000_000, 30), (350_000_000, 20)].into_iter());
        let values = |at: usize| done.series[at].values.clone();
        assert_eq!(values(0), [Some(2.0), Some(0.0), Some(0.0), Some(1.0)]);
        assert_eq!(values(2), [Some(10.0), None, None, Some(20.0)]);
        assert_eq!(values(3), [Some(30.0), None, None, Some(20.0)]);
    }

    #[test]
    fn a_run_longer_than_foreseen_loses_nothing() {
        // Foreseen 1 s, lasted 100 s: 1000 intervals of 100 ms do not fit into 64.
        let done = fill(1000, (0..1000).map(|at| (at * 100_000_000, 1000 + at)));
        assert_eq!(done.series[0].interval_ns, 1_600_000_000);
        assert_eq!(done.series[0].values.iter().flatten().sum::<f64>(), 1000.0);
        assert_eq!(done.histogram.count(), 1000);
        assert_eq!(done.column_ns, 12_800_000_000);
        let starts: Vec<u64> = done.columns.iter().map(|(start, _)| start / 100_000_000).collect();
        assert_eq!(starts, [0, 128, 256, 384, 512, 640, 768, 896]);
        let counts: Vec<u64> = done.columns.iter().map(|(_, histogram)| histogram.count()).collect();
        assert_eq!(counts, [128, 128, 128, 128, 128, 128, 128, 104]);
        assert_eq!(done.columns[1].1.quantile(0.0), Some(1128));
    }

    /// A map of two seconds had two columns.
    #[test]
    fn columns_are_fine_enough_for_the_length() {
        for max_ms in [2_000, 7_000, 10_000, 60_000, 3_600_000] {
            let done = fill(max_ms, (0..u64::from(max_ms) / 10).map(|at| (at * 10_000_000, 1000)));
            let least = (max_ms as usize / 100).min(31);
            assert!((least..=MOST_COLUMNS).contains(&done.columns.len()), "{max_ms}: {}", done.columns.len());
        }
    }

    #[test]
    fn the_latest_interval_says_its_median_and_p99_while_the_series_goes_on() {
        let mut series = IntervalSeries::new(1000, 100_000_000);
        (1..=100).for_each(|ns| series.received(ns * 10));
        assert_eq!(series.latest(), [0, 0], "it is open");
        series.advance(100_000_000);
        assert_eq!(series.latest(), [500, 990]);
        series.advance(500_000_000);
        assert_eq!(series.latest(), [500, 990], "silence says nothing new");
    }

    #[test]
    fn a_leap_to_the_end_of_time_ends() {
        let done = fill(1000, [(0, 10), (u64::MAX - 1, 10)].into_iter());
        assert_eq!(done.series[0].values.iter().flatten().sum::<f64>(), 2.0);
    }
}
