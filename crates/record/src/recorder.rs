//! Batches of samples in, results out.

use model::result::{Outlier, Series};
use model::{ClockMap, Latency, LatencyKind, Messages, OutlierRule, Sample, TickRate};
use stats::{Histogram, Moments};

/// What a recorder must know before the first sample.
#[derive(Debug, Clone, Copy)]
pub struct RecorderConfig {
    /// The initiator's ticks.
    pub rate: TickRate,
    /// What `latency` is reported as.
    pub kind: LatencyKind,
    /// The longest the size may run, in ms; buffers of intervals are made for it, up to a cap (merged beyond).
    pub max_ms: u32,
    /// Length of an interval of the series, in ns.
    pub interval_ns: u64,
    /// Which messages are kept one by one.
    pub outliers: OutlierRule,
    /// How many raw samples there is room for; 0: none are kept.
    pub raw_capacity: usize,
    /// Whether messages carry a header, so that duplicates and order are known.
    pub has_header: bool,
    /// Whether sends follow a schedule, so that latency from the intended time and lateness are kept too.
    pub has_schedule: bool,
}

impl RecorderConfig {
    /// Intervals of 100 ms, the default outliers, no raw samples, header known, no schedule.
    #[must_use]
    pub fn new(rate: TickRate, kind: LatencyKind, max_ms: u32) -> Self {
        Self {
            rate,
            kind,
            max_ms,
            interval_ns: 100_000_000,
            outliers: OutlierRule::default(),
            raw_capacity: 0,
            has_header: true,
            has_schedule: false,
        }
    }
}

/// Takes samples between timed rounds. All memory is taken and touched in [`Recorder::new`].
#[derive(Debug)]
pub struct Recorder {
    config: RecorderConfig,
}

/// What one size left behind.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Latency from the actual send time, in the kind asked for.
    pub latency: Latency,
    /// Latency from the intended send time, where there is a schedule.
    pub latency_intended: Option<Latency>,
    /// Actual less intended send time, where there is a schedule.
    pub lateness: Option<Latency>,
    /// Mean deviation as ping prints it (sqrt of mean square less square of mean), RTT in ns.
    pub mdev_ns: Option<f64>,
    /// How many messages went and came.
    pub messages: Messages,
    /// `received`, `lost`, `rtt_p50_ns`, `rtt_max_ns` over time.
    pub series: Vec<Series>,
    /// The worst, those over the threshold and the lost ones, in order of sending.
    pub outliers: Vec<Outlier>,
    /// RTT in ns.
    pub histogram: Histogram,
    /// Exact moments of RTT in ns.
    pub moments: Moments,
    /// HdrHistogram interval log (V2), tag `rtt`, an interval a second.
    pub hlog: String,
    /// Stalls with a known signature or a period.
    pub stalls: Vec<stats::stalls::Stall>,
    /// Messages slower than 20 medians and 1 ms: send time since the first timed message, RTT, in ns.
    pub slow: Vec<(u64, u64)>,
    /// Raw samples, when asked for.
    pub raw: Option<Vec<Sample>>,
    /// Raw samples that found no room.
    pub raw_overrun: u64,
    /// Waits that a signal interrupted.
    pub interrupted: u64,
    /// Tick of the first timed send; 0 when there was none.
    pub first_tick: u64,
    /// Wall clock at the first timed send, since 1970; 0 without a clock map.
    pub started_ns: u64,
    /// From the first timed send to the last answer (or time-out).
    pub elapsed_ns: u64,
}

impl Recorder {
    /// Takes and touches all memory that recording needs.
    #[must_use]
    pub fn new(config: RecorderConfig) -> Self {
        Self { config }
    }

    /// Takes samples in the order that their rounds ended. Does not allocate.
    pub fn ingest(&mut self, samples: &[Sample]) {
        let _ = samples;
    }

    /// Answers counted in the latency so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        0
    }

    /// Messages lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        0
    }

    /// Full width of the 95 % confidence interval of the median so far, in percent of the median: what the stop rule's
    /// `interval_percent` is compared with. `None` while there are too few messages. Does not allocate.
    #[must_use]
    pub fn interval_percent(&self) -> Option<f64> {
        None
    }

    /// Makes figures of all samples. With a clock map, outliers and the log get wall-clock times.
    #[must_use]
    pub fn finish(self, clock: Option<&ClockMap>) -> Recorded {
        let _ = (clock, self.config);
        unreachable!()
    }
}
