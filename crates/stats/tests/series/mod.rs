//! Synthetic series of times, and how often the interval of their median covers the truth.

use windhover_stats::{BatchIntervals, Histogram, NoInterval, SplitMix64};

/// What a series draws.
#[derive(Debug, Clone)]
pub(crate) struct Random(SplitMix64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Normal, by the sum of four uniform values: its tails are short, its centre is what a median sees.
    fn normal(&mut self) -> f64 {
        (self.unit() + self.unit() + self.unit() + self.unit() - 2.0) * 3.0_f64.sqrt()
    }
}

/// A series of times about 10 µs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Series {
    /// Independent, with this spread (standard deviation as a share of the median).
    Independent(f64),
    /// First-order autoregressive with this coefficient and a spread of 10 %.
    Autoregressive(f64),
    /// 2 % spread; for one time in 20,000 a stall begins, whose 300 messages take ten times as long.
    Stalls,
    /// 2 % spread about 10 or about 14 µs. The first state lasts 3,000 messages at the mean, the second 2,000.
    TwoStates,
}

/// All that are looked at.
pub(crate) const ALL: [Series; 9] = [
    Series::Independent(0.02),
    Series::Independent(0.1),
    Series::Independent(0.3),
    Series::Autoregressive(0.9),
    Series::Autoregressive(0.99),
    Series::Autoregressive(0.999),
    Series::Autoregressive(0.9999),
    Series::Stalls,
    Series::TwoStates,
];

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Independent(spread) => write!(f, "independent, {} % spread", spread * 100.0),
            Self::Autoregressive(by) => write!(f, "AR(1), {by}"),
            Self::Stalls => f.write_str("stalls"),
            Self::TwoStates => f.write_str("two states"),
        }
    }
}

/// A series as it goes on.
struct Going {
    series: Series,
    random: Random,
    last: f64,
    left: f64,
    /// Whether it has been in all of its states.
    has_seen_all: bool,
}

impl Going {
    fn new(series: Series, seed: u64) -> Self {
        let mut random = Random(SplitMix64::new(seed.wrapping_mul(0x1234_5678_9abc_def1)));
        let (last, left) = match series {
            Series::TwoStates => (f64::from(u8::from(random.unit() < 0.4)), 0.0),
            _ => (random.normal(), 0.0),
        };
        Self { series, random, last, left, has_seen_all: !matches!(series, Series::TwoStates) }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    fn next(&mut self) -> u64 {
        let noise = self.random.normal();
        let ns = match self.series {
            Series::Independent(spread) => 10_000.0 * (1.0 + spread * noise),
            Series::Autoregressive(by) => {
                self.last = by * self.last + (1.0 - by * by).sqrt() * noise;
                10_000.0 * (1.0 + 0.1 * self.last)
            }
            Series::Stalls => {
                self.left -= 1.0;
                if self.left < 0.0 && self.random.unit() < 1.0 / 20_000.0 {
                    self.left = 300.0;
                }
                10_000.0 * (1.0 + 0.02 * noise) * if self.left > 0.0 { 10.0 } else { 1.0 }
            }
            Series::TwoStates => {
                let lasts = if self.last > 0.5 { 2_000.0 } else { 3_000.0 };
                if self.random.unit() < 1.0 / lasts {
                    self.last = 1.0 - self.last;
                    self.has_seen_all = true;
                }
                10_000.0 * (1.0 + 0.02 * noise) * (1.0 + 0.4 * self.last)
            }
        };
        ns.max(1.0) as u64
    }
}

/// The median of a series, from its definition where it is symmetric and from a long piece of it where it is not.
pub(crate) fn median(series: Series) -> f64 {
    match series {
        Series::Independent(_) | Series::Autoregressive(_) => 10_000.0,
        Series::Stalls | Series::TwoStates => {
            let mut histogram = Histogram::new();
            for seed in 0..40 {
                let mut going = Going::new(series, 1_000_000 + seed);
                (0..1_000_000).for_each(|_| histogram.record(going.next()));
            }
            let bucket = histogram.bucket_at(0.5).map_or((0, 0), |bucket| (bucket.low_ns, bucket.high_ns));
            f64::midpoint(bucket.0 as f64, bucket.1 as f64)
        }
    }
}

/// What became of the intervals of many runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coverage {
    /// Runs.
    pub(crate) runs: u32,
    /// Of them, those that were in a single one of two states all the time. Nothing in such a run shows that there is another,
    /// so it is like an independent series and is counted nowhere else.
    pub(crate) blind: u32,
    /// Of the others, those that had an interval.
    pub(crate) known: u32,
    /// Of these, those that covered the median of the series.
    pub(crate) covered: u32,
    /// Sum of their widths as shares of the median.
    pub(crate) width: f64,
}

impl Coverage {
    /// Share of the intervals that covered the truth.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.known.max(1))
    }

    /// Share of the runs that had an interval, of those that were in all states.
    pub(crate) fn given(&self) -> f64 {
        f64::from(self.known) / f64::from((self.runs - self.blind).max(1))
    }

    /// Share of all runs that had an interval which did not cover the truth, those in one state left aside.
    pub(crate) fn wrong(&self) -> f64 {
        f64::from(self.known - self.covered) / f64::from(self.runs.max(1))
    }
}

/// Makes `runs` runs of `count` values and asks each for the interval of its median.
pub(crate) fn coverage(series: Series, truth: f64, count: u32, runs: u32) -> Coverage {
    let mut out = Coverage { runs, ..Coverage::default() };
    for seed in 0..runs {
        let mut going = Going::new(series, u64::from(seed) + 1);
        let (mut batches, mut histogram) = (BatchIntervals::new(), Histogram::new());
        for _ in 0..count {
            let ns = going.next();
            batches.push(ns);
            histogram.record(ns);
        }
        if !going.has_seen_all {
            out.blind += 1;
            continue;
        }
        match batches.median_interval(|q| histogram.bucket_at(q)) {
            Ok([low, high]) => {
                out.known += 1;
                // A bucket's upper end is the last whole ns in it.
                out.covered += u32::from(low as f64 <= truth && truth <= high as f64 + 1.0);
                out.width += (high - low) as f64 / truth;
            }
            Err(NoInterval::Short | NoInterval::Few) => {}
        }
    }
    out
}
