//! The statistics of a distribution.

use crate::{Latency, Signed, result::LatencyCorrected};

words! {
    "figure";
    /// One statistic of a distribution.
    pub enum Statistic {
        /// Median.
        P50 = "p50" | "median",
        /// 90th percentile.
        P90 = "p90",
        /// 99th percentile.
        P99 = "p99",
        /// 99.9th percentile.
        P99_9 = "p99.9",
        /// 99.99th percentile.
        P99_99 = "p99.99",
        /// 99.999th percentile.
        P99_999 = "p99.999",
        /// Smallest.
        Min = "min",
        /// Largest.
        Max = "max",
        /// Mean.
        Mean = "mean",
        /// Sample standard deviation: jitter.
        Stdev = "stdev" | "jitter",
    }
}

impl Statistic {
    /// All of them in the order of tables.
    pub const IN_TABLES: [Self; 10] = [
        Self::Mean,
        Self::Stdev,
        Self::Min,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P99_9,
        Self::P99_99,
        Self::P99_999,
        Self::Max,
    ];

    /// The share of messages that a percentile is the upper end of; `None` for what is no percentile.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P99_9 => Some(0.999),
            Self::P99_99 => Some(0.9999),
            Self::P99_999 => Some(0.99999),
            Self::Min | Self::Max | Self::Mean | Self::Stdev => None,
        }
    }

    /// The figure in ns, in the kind that the summary has; `None` where it is not known.
    pub fn of(self, latency: &Latency) -> Option<f64> {
        let whole = |ns: Option<u64>| ns.map(|ns| ns as f64);
        match self {
            Self::P50 => whole(latency.p50_ns),
            Self::P90 => whole(latency.p90_ns),
            Self::P99 => whole(latency.p99_ns),
            Self::P99_9 => whole(latency.p99_9_ns),
            Self::P99_99 => whole(latency.p99_99_ns),
            Self::P99_999 => whole(latency.p99_999_ns),
            Self::Min => whole(latency.min_ns),
            Self::Max => whole(latency.max_ns),
            Self::Mean => latency.mean_ns,
            Self::Stdev => latency.stdev_ns,
        }
    }

    /// The same of what an open loop would see: percentiles alone.
    pub fn of_corrected(self, times: &LatencyCorrected) -> Option<f64> {
        let whole = match self {
            Self::P50 => times.p50_ns,
            Self::P90 => times.p90_ns,
            Self::P99 => times.p99_ns,
            Self::P99_9 => times.p99_9_ns,
            Self::P99_99 => times.p99_99_ns,
            Self::P99_999 => times.p99_999_ns,
            Self::Min | Self::Max | Self::Mean | Self::Stdev => None,
        };
        whole.map(|ns| ns as f64)
    }

    /// The same of one-way times, which have fewer quantiles.
    pub fn of_signed(self, times: &Signed) -> Option<f64> {
        let whole = |ns: Option<i64>| ns.map(|ns| ns as f64);
        match self {
            Self::P50 => whole(times.p50_ns),
            Self::P99 => whole(times.p99_ns),
            Self::P99_9 => whole(times.p99_9_ns),
            Self::Min => whole(Some(times.min_ns)),
            Self::Max => whole(Some(times.max_ns)),
            Self::Mean => Some(times.mean_ns),
            Self::Stdev => times.stdev_ns,
            Self::P90 | Self::P99_99 | Self::P99_999 => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for statistic in Statistic::ALL {
            assert_eq!(statistic.word().parse::<Statistic>().unwrap(), statistic);
        }
        assert_eq!("jitter".parse::<Statistic>().unwrap(), Statistic::Stdev);
        for wrong in ["", "p98", "P99", "p99 "] {
            assert!(wrong.parse::<Statistic>().unwrap_err().to_string().contains("p99.9"));
        }
    }
}
