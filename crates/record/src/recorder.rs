//! Batches of samples in, results out.

use crate::hlog::Log;
use crate::latency::latency;
use crate::outliers::{OutlierCandidate, Outliers, touched};
use crate::paced::{PaceFigures, RateEvidence, saturated};
use crate::series::IntervalSeries;
use crate::shared::{MessageCounts, RawSamples, ScheduleTimes, Times};
use model::result::{Outlier, Series};
use model::{ClockMap, Latency, LatencyKind, Messages, OutlierRule, Sample, SampleFlags, TickRate};
use stats::{BatchIntervals, Block, Histogram, Moments};
use std::cmp::Reverse;

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
    /// How many raw samples there is room for, at most 4 Mi; 0: none are kept.
    pub raw_capacity: usize,
    /// Whether messages carry a header, so that duplicates and order are known.
    pub has_header: bool,
    /// Whether sends follow a schedule, so that latency from the intended time and lateness are kept too.
    pub has_schedule: bool,
}

impl RecorderConfig {
    /// Intervals of 100 ms, the default outliers, no raw samples, header known, no schedule.
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

/// Messages slower than this many medians, and at least [`SLOW_NS`], are candidates for stalls.
pub(crate) const SLOW_MEDIANS: u64 = 20;
/// No faster message is a candidate for a stall.
pub(crate) const SLOW_NS: u64 = 1_000_000;
/// Candidates at most; later ones are not looked at.
pub(crate) const MOST_SLOW: usize = 4096;
/// Messages after which the median is first looked at.
pub(crate) const FIRST_LOOK: u64 = 64;

/// Takes samples between timed rounds. All memory is taken and touched in [`Recorder::new`].
#[derive(Debug)]
pub struct Recorder {
    config: RecorderConfig,
    moments: Moments,
    batches: BatchIntervals,
    series: IntervalSeries,
    outliers: Outliers,
    slow: Vec<(u64, u64)>,
    slow_from: u64,
    /// Messages at least this slow go through [`Recorder::look_at`].
    notable_from: u64,
    /// Tick at which the open interval of the timeline ends; 0 before the first sample.
    interval_end: u64,
    first: Option<u64>,
    last: u64,
    counts: MessageCounts,
    /// Ticks that the lost ones were waited for.
    timed_out: u64,
    scheduled: Option<Box<ScheduleRecorder>>,
    raw: RawSamples,
}

#[derive(Debug, Default)]
struct ScheduleRecorder {
    times: ScheduleTimes,
    /// When the round before was over, in ticks; 0 before the first.
    free_from: u64,
}

impl ScheduleRecorder {
    /// A timed round, answered or lost.
    fn sent(&mut self, sample: &Sample, rate: TickRate) {
        self.times.lateness.record(rate.ns(sample.sent.saturating_sub(sample.intended)));
        let could = sample.intended.max(self.free_from);
        self.times.own_lateness.record(rate.ns(sample.sent.saturating_sub(could)));
        self.free_from = sample.received;
    }
}

/// What a schedule adds, in ns: the whole distributions.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// RTT from the intended send time.
    pub intended: Histogram,
    /// Actual less intended send time.
    pub lateness: Histogram,
    /// Send time less the intended time, or the end of the round before if that was later: what the sender alone delayed.
    pub own_lateness: Histogram,
}

/// What one size left behind.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Latency from the actual send time, in the kind asked for.
    pub latency: Latency,
    /// Latency from the intended send time, where there is a schedule.
    pub latency_intended: Option<Latency>,
    /// Actual less intended send time of all messages, the lost ones too, where there is a schedule.
    pub lateness: Option<Latency>,
    /// The same, for the verdict: all lateness, and the part of it that was the sender's own.
    pub schedule: Option<Schedule>,
    /// Mean deviation as ping prints it (sqrt of mean square less square of mean), RTT in ns.
    pub mdev_ns: Option<f64>,
    /// How many messages went and came.
    pub messages: Messages,
    /// `received`, `lost`, and of RTT or wake-up latency median and maximum over time.
    pub series: Vec<Series>,
    /// The worst, and up to 10,000 of those over the threshold and the lost ones, in order of sending.
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
    /// The part of it that went into rounds which were not answered in time, one in flight at a time; 0 for an open loop.
    pub timed_out_ns: u64,
    pub pace: Option<Box<PaceFigures>>,
}

impl Recorded {
    /// Says in the rate's report who could not keep up, if the rate was not held; does nothing where there is none.
    pub fn judge_rate(&mut self, evidence: &RateEvidence<'_>) {
        let saturated = saturated(self, evidence);
        if let Some(pace) = &mut self.pace {
            pace.rate.saturated = saturated;
        }
    }
}

impl Recorder {
    /// Takes and touches all memory that recording needs.
    pub fn new(config: RecorderConfig) -> Self {
        let mut recorder = Self {
            config,
            moments: Moments::new(),
            batches: BatchIntervals::new(),
            series: IntervalSeries::new(config.max_ms, config.interval_ns),
            outliers: Outliers::new(config.outliers),
            slow: touched(MOST_SLOW),
            slow_from: SLOW_NS,
            notable_from: 0,
            interval_end: 0,
            first: None,
            last: 0,
            counts: MessageCounts::default(),
            timed_out: 0,
            scheduled: config.has_schedule.then(Box::default),
            raw: RawSamples::new(config.raw_capacity),
        };
        recorder.set_notable();
        recorder
    }

    /// Takes samples in the order that their rounds ended. Does not allocate. Samples flagged WARMUP are passed over.
    pub fn ingest(&mut self, mut samples: &[Sample]) {
        while !samples.is_empty() {
            let (next, rest) = samples.split_at(samples.len().min(self.batches.until_block()));
            if !next.first_chunk().is_some_and(|block| self.ingest_block(block)) {
                self.ingest_each(next);
            }
            samples = rest;
        }
    }

    /// Takes samples together, where all are messages of one interval that have come back and none is notable; else takes none.
    fn ingest_block(&mut self, samples: &[Sample; Block::LENGTH]) -> bool {
        let looks = self.moments.count()..self.moments.count() + samples.len() as u64;
        if self.scheduled.is_some() || self.raw.are_kept() || looks.contains(&(FIRST_LOOK - 1)) {
            return false;
        }
        let (mut last, mut plain) = (self.last, true);
        let ticks = samples.each_ref().map(|sample| {
            plain &= sample.flags == SampleFlags::default() && sample.sent < self.interval_end;
            last = last.max(sample.received);
            sample.received.saturating_sub(sample.sent)
        });
        let block = self.config.rate.short_ns(ticks).filter(|_| plain).and_then(Block::new);
        let Some(block) = block.filter(|block| block.max() < self.notable_from) else { return false };
        self.last = last;
        self.moments.add_block(&block);
        self.batches.push_block(&block);
        self.series.received_block(&block);
        true
    }

    fn ingest_each(&mut self, samples: &[Sample]) {
        for sample in samples {
            if sample.flags != SampleFlags::default() && self.is_done_with(sample) {
                continue;
            }
            if sample.sent >= self.interval_end {
                self.enter_interval(sample.sent);
            }
            if self.raw.are_kept() {
                self.raw.keep(*sample);
            }
            let rtt_ns = self.config.rate.ns(sample.received.saturating_sub(sample.sent));
            self.last = self.last.max(sample.received);
            self.moments.add(rtt_ns);
            self.batches.push(rtt_ns);
            self.series.received(rtt_ns);
            if rtt_ns >= self.notable_from {
                self.look_at(sample, rtt_ns);
            }
            if let Some(scheduled) = &mut self.scheduled {
                let rate = self.config.rate;
                scheduled.times.intended.record(rate.ns(sample.received.saturating_sub(sample.intended)));
                scheduled.sent(sample, rate);
            }
            if self.moments.count() == FIRST_LOOK {
                self.set_slow();
            }
        }
    }

    /// Counts what the flags say; whether the sample is no latency.
    #[cold]
    fn is_done_with(&mut self, sample: &Sample) -> bool {
        let flags = sample.flags;
        if flags.has(SampleFlags::WARMUP) {
            return true;
        }
        let only_counted = self.counts.count(flags);
        let lost = flags.has(SampleFlags::LOST);
        self.counts.lost += u64::from(lost);
        if lost {
            if sample.sent >= self.interval_end {
                self.enter_interval(sample.sent);
            }
            self.last = self.last.max(sample.received);
            let waited = sample.received.saturating_sub(sample.sent);
            self.timed_out = self.timed_out.saturating_add(waited);
            self.series.lost();
            // It was sent like any other, and the wait for it holds the next ones up.
            if let Some(scheduled) = &mut self.scheduled {
                scheduled.sent(sample, self.config.rate);
            }
            self.outliers.offer(self.kept(sample, self.rtt_ns(sample), true));
        }
        let done = lost || only_counted;
        if done && self.raw.are_kept() {
            self.raw.keep(*sample);
        }
        done
    }

    fn rtt_ns(&self, sample: &Sample) -> u64 {
        self.config.rate.ns(sample.received.saturating_sub(sample.sent))
    }

    fn kept(&self, sample: &Sample, rtt_ns: u64, lost: bool) -> OutlierCandidate {
        let lateness_ns = self.config.rate.ns(sample.sent.saturating_sub(sample.intended));
        OutlierCandidate { worth_ns: rtt_ns, seq: Reverse(sample.seq), sent: sample.sent, lateness_ns, lost, more: () }
    }

    #[cold]
    fn look_at(&mut self, sample: &Sample, rtt_ns: u64) {
        self.outliers.offer(self.kept(sample, rtt_ns, false));
        // Deadlines that a thread slept through are part of one stall.
        if rtt_ns >= self.slow_from && self.slow.len() < MOST_SLOW && !sample.flags.has(SampleFlags::PASSED) {
            self.slow.push((self.since_first(sample.sent), rtt_ns));
        }
        self.set_notable();
    }

    fn set_notable(&mut self) {
        self.notable_from = self.outliers.notable_from().min(self.slow_from);
    }

    fn set_slow(&mut self) {
        if let Some(median) = self.batches.recent_median() {
            self.slow_from = median.saturating_mul(SLOW_MEDIANS).max(SLOW_NS);
            self.set_notable();
        }
    }

    fn since_first(&self, tick: u64) -> u64 {
        self.config.rate.ns(tick.saturating_sub(self.first.unwrap_or(tick)))
    }

    #[cold]
    fn enter_interval(&mut self, tick: u64) {
        let first = *self.first.get_or_insert(tick);
        self.series.advance(self.since_first(tick));
        self.set_slow();
        // The first tick that is not before the end.
        let end_ns = self.series.end_ns();
        let ticks = self.config.rate.ticks(end_ns);
        let ticks = ticks.saturating_add(u64::from(self.config.rate.ns(ticks) < end_ns));
        self.interval_end = first.saturating_add(ticks);
    }

    pub fn received(&self) -> u64 {
        self.moments.count()
    }

    pub fn lost(&self) -> u64 {
        self.counts.lost
    }

    /// Median and 99th percentile of the messages of the latest whole interval, in ns; 0 before there is one.
    pub fn latest_interval(&self) -> [u64; 2] {
        self.series.latest()
    }

    /// Full width of the 95 % interval of the median so far, in percent of it: what `interval_percent` is compared with. `None`
    /// with too few messages. Does not allocate; takes some tens of µs.
    pub fn interval_percent(&self) -> Option<f64> {
        let [low, high] = self.batches.median_interval(|q| self.series.bucket_at(q)).ok()?;
        let median = self.series.bucket_at(0.5)?.high_ns;
        (median > 0).then(|| (high - low) as f64 * 100.0 / median as f64)
    }

    /// Makes figures of all samples. With a clock map, outliers and the log get wall-clock times.
    pub fn finish(self, clock: Option<&ClockMap>) -> Recorded {
        let kind = self.config.kind;
        let times = Times::new(self.config.rate, self.first, clock);
        let elapsed_ns = times.since_first(self.last);
        // Where messages have no numbers, the path must be silent for a time-out more before the next round.
        let waits = if self.config.has_header { 1 } else { 2 };
        let timed_out_ns = times.rate.ns(self.timed_out).saturating_mul(waits).min(elapsed_ns);
        let mut done = self.series.finish(kind);
        if let (Some(min), Some(max)) = (self.moments.min(), self.moments.max()) {
            done.histogram.set_exact_range(min, max);
        }
        let mut log = Log::new(times.started_ns);
        let tag = if kind == LatencyKind::WakeUp { "wake_up" } else { "rtt" };
        for (start_ns, histogram) in &done.columns {
            log.add(tag, *start_ns, done.column_ns.min(elapsed_ns.saturating_sub(*start_ns)), histogram);
        }
        if let Some(scheduled) = &self.scheduled {
            log.add("rtt_intended", 0, elapsed_ns, &scheduled.times.intended.histogram);
            log.add("lateness", 0, elapsed_ns, &scheduled.times.lateness.histogram);
        }
        let kept = self.outliers.finish();
        let received = self.moments.count();
        let counts = MessageCounts { sent: received + self.counts.lost, received, ..self.counts };
        let (latency_intended, lateness, schedule) = match self.scheduled {
            Some(scheduled) => {
                let (intended, lateness, schedule) = scheduled.times.finish(kind);
                (Some(intended), Some(lateness), Some(schedule))
            }
            None => (None, None, None),
        };
        let (raw, raw_overrun) = self.raw.finish();
        Recorded {
            latency: latency(kind, &self.moments, &done.histogram, &self.batches),
            latency_intended,
            lateness,
            schedule,
            mdev_ns: self.moments.mdev(),
            // One is in flight at a time, so the depth of reordering says nothing.
            messages: Messages { reorder_depth: None, ..counts.messages(self.config.has_header) },
            series: done.series,
            outliers: kept.iter().map(|kept| times.outlier(kept, kept.worth_ns)).collect(),
            histogram: done.histogram,
            moments: self.moments,
            hlog: log.text(),
            stalls: stats::stalls::find(&self.slow),
            slow: self.slow,
            raw,
            raw_overrun,
            interrupted: counts.interrupted,
            first_tick: times.first_tick,
            started_ns: times.started_ns,
            elapsed_ns,
            timed_out_ns,
            pace: None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
