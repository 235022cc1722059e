//! A distribution of times, and its summary in the kind that was asked for.

use model::{Latency, LatencyKind};
use stats::{BatchIntervals, Histogram, Moments};

/// One distribution being recorded. [`Distribution::record`] does not allocate.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    /// Exact moments, in ns.
    pub moments: Moments,
    /// Counts by bucket, in ns.
    pub histogram: Histogram,
    /// Batches in order of time.
    pub batches: BatchIntervals,
}

impl Distribution {
    /// Counts one time in ns.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.moments.add(ns);
        self.histogram.record(ns);
        self.batches.push(ns);
    }

    pub fn summary(&self, kind: LatencyKind) -> Latency {
        latency(kind, &self.moments, &self.histogram, &self.batches)
    }
}

/// The summary of recorded RTTs (or one-way times). For [`LatencyKind::RttHalf`] the finished figures are halved
/// (integers rounded half up), never the single times. A quantile with fewer than 10 values beyond it is `None`.
pub fn latency(kind: LatencyKind, moments: &Moments, histogram: &Histogram, batches: &BatchIntervals) -> Latency {
    let half = kind == LatencyKind::RttHalf;
    let whole = |ns: u64| if half { ns / 2 + ns % 2 } else { ns };
    let fraction = |ns: f64| if half { ns / 2.0 } else { ns };
    let quantile = |q: f64| histogram.quantile_if_supported(q, Histogram::BEYOND).map(whole);
    let median = histogram.quantile_if_supported(0.5, Histogram::BEYOND);
    let interval = median.and_then(|_| batches.median_interval(|q| histogram.bucket_at(q)).ok());
    let p50_ci95_ns = interval.map(|[low, high]| [low / if half { 2 } else { 1 }, whole(high)]);
    Latency {
        kind,
        count: moments.count(),
        mean_ns: moments.mean().map(fraction),
        stdev_ns: moments.stdev().map(fraction),
        min_ns: moments.min().map(whole),
        p50_ns: median.map(whole),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p99_9_ns: quantile(0.999),
        p99_99_ns: quantile(0.9999),
        p99_999_ns: quantile(0.99999),
        max_ns: moments.max().map(whole),
        p50_ci95_ns,
        mean_ci95_ns: batches.mean_interval().map(|interval| interval.map(fraction)),
    }
}
