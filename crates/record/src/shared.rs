//! What the recorders of closed and open loops share: counts, the distributions of a schedule, raw samples, wall-clock times.

use crate::latency::Distribution;
use crate::outliers::{OutlierCandidate, touched};
use crate::realtime::realtime_at;
use crate::recorder::Schedule;
use model::result::Outlier;
use model::{ClockMap, Latency, LatencyKind, Messages, Sample, SampleFlags, TickRate};
use stats::Histogram;

/// Raw samples at most, whatever is asked for (232 MB).
const MOST_RAW: usize = 4 << 20;

/// How many messages went and came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MessageCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    /// The furthest that one came behind a later one.
    pub(crate) reorder_depth: u64,
    pub(crate) late: u64,
    /// Waits that a signal interrupted.
    pub(crate) interrupted: u64,
}

impl MessageCounts {
    /// Counts the flags of a sample. Returns whether it is a duplicate or late, so that counting it is all.
    pub(crate) fn count(&mut self, flags: SampleFlags) -> bool {
        self.duplicated += u64::from(flags.has(SampleFlags::DUPLICATE));
        self.reordered += u64::from(flags.has(SampleFlags::REORDERED));
        self.late += u64::from(flags.has(SampleFlags::LATE));
        self.interrupted += u64::from(flags.has(SampleFlags::INTERRUPTED));
        flags.has(SampleFlags::DUPLICATE) || flags.has(SampleFlags::LATE)
    }

    /// For the document. Without a header duplicates and order are unknown.
    pub(crate) fn messages(&self, has_header: bool) -> Messages {
        let known = |count: u64| has_header.then_some(count);
        Messages {
            sent: self.sent,
            received: self.received,
            lost: self.lost,
            duplicated: known(self.duplicated),
            reordered: known(self.reordered),
            reorder_depth: known(self.reorder_depth),
            late: known(self.late),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.reorder_depth = self.reorder_depth.max(other.reorder_depth);
        self.late += other.late;
        self.interrupted += other.interrupted;
    }
}

#[derive(Debug, Default)]
pub(crate) struct ScheduleTimes {
    /// RTT from the intended send time.
    pub(crate) intended: Distribution,
    /// Actual less intended send time.
    pub(crate) lateness: Distribution,
    /// The sender's own part of it.
    pub(crate) own_lateness: Histogram,
}

impl ScheduleTimes {
    /// Summaries of the RTT from the intended time and of lateness, and the histograms.
    pub(crate) fn finish(self, kind: LatencyKind) -> (Latency, Latency, Schedule) {
        // Lateness is a one-way time at one end; it is never halved.
        let (intended, lateness) = (self.intended.summary(kind), self.lateness.summary(LatencyKind::OneWay));
        let schedule = Schedule {
            intended: self.intended.histogram,
            lateness: self.lateness.histogram,
            own_lateness: self.own_lateness,
        };
        (intended, lateness, schedule)
    }
}

/// Raw samples, in memory that was touched before.
#[derive(Debug)]
pub(crate) struct RawSamples {
    samples: Vec<Sample>,
    capacity: usize,
    overrun: u64,
}

impl RawSamples {
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(MOST_RAW);
        Self { samples: touched(capacity), capacity, overrun: 0 }
    }

    #[inline]
    pub(crate) fn are_kept(&self) -> bool {
        self.capacity > 0
    }

    pub(crate) fn keep(&mut self, sample: Sample) {
        if self.samples.len() < self.capacity {
            self.samples.push(sample);
        } else {
            self.overrun += 1;
        }
    }

    /// The samples, when they were asked for, and how many found no room.
    pub(crate) fn finish(self) -> (Option<Vec<Sample>>, u64) {
        ((self.capacity > 0).then_some(self.samples), self.overrun)
    }
}

/// Ticks since the first message, and as wall-clock times where there is a clock map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times<'a> {
    pub(crate) rate: TickRate,
    /// 0 when nothing was sent.
    pub(crate) first_tick: u64,
    /// Wall clock at the first message; 0 when unknown.
    pub(crate) started_ns: u64,
    clock: Option<&'a ClockMap>,
}

impl<'a> Times<'a> {
    pub(crate) fn new(rate: TickRate, first: Option<u64>, clock: Option<&'a ClockMap>) -> Self {
        let times = Self { rate, first_tick: first.unwrap_or(0), started_ns: 0, clock };
        Self { started_ns: first.and_then(|tick| times.wall(tick)).unwrap_or(0), ..times }
    }

    pub(crate) fn since_first(&self, tick: u64) -> u64 {
        self.rate.ns(tick.saturating_sub(self.first_tick))
    }

    fn wall(&self, tick: u64) -> Option<u64> {
        self.clock.and_then(|map| realtime_at(map, tick))
    }

    /// An outlier of the document, without what only `pace` has.
    pub(crate) fn outlier<T>(&self, kept: &OutlierCandidate<T>, rtt_ns: u64) -> Outlier {
        Outlier {
            seq: kept.seq.0,
            at_ns: self.since_first(kept.sent),
            realtime_ns: self.wall(kept.sent),
            rtt_ns,
            lateness_ns: kept.lateness_ns,
            lost: kept.lost,
            ..Outlier::default()
        }
    }
}
