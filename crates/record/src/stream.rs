//! What the receiving end of a stream counts, and what becomes of both ends' counts.
//!
//! A [`FlowCounter`] keeps the highest number and a window of the last [`WINDOW`] ones, so each datagram is new, late (after a
//! later one) or come again. A late one is no longer lost in the interval of its number, so loss is never negative.

mod merge;
mod report;
mod sink;

pub use merge::{from_intervals, merge};
pub use report::{FlowEnds, asked, findings, flow_report, series};
pub use sink::FlowSink;

use model::stream::{StreamInterval, StreamReceived};

/// Numbers behind the highest one for which it is known whether they came.
pub const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;
/// Intervals at most; beyond, neighbours are joined two by two.
const MOST: usize = 4096;
/// Length of an interval to begin with.
const SECOND_NS: u64 = 1_000_000_000;

/// One interval of one flow; what is lost in it is known at the end.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    counts: StreamInterval,
    /// Datagrams whose number belongs to it that came, whenever.
    came: u64,
    /// One more than the highest number when it ended.
    next: u64,
}

impl Slot {
    fn join(self, later: Self) -> Self {
        let mut counts = StreamInterval { jitter_ns: later.counts.jitter_ns, ..self.counts };
        add(&mut counts, &later.counts);
        Self { counts, came: self.came + later.came, next: later.next }
    }
}

/// Adds up all but jitter.
fn add(sum: &mut StreamInterval, one: &StreamInterval) {
    sum.bytes += one.bytes;
    sum.received += one.received;
    sum.lost += one.lost;
    sum.reordered += one.reordered;
    sum.duplicated += one.duplicated;
}

/// Interarrival jitter, RFC 3550 section 6.4.1: J += (|D| - J) / 16, D the difference of two transit times.
#[derive(Debug, Clone, Copy, Default)]
struct Jitter {
    transit: Option<u64>,
    value: f64,
    max: f64,
}

impl Jitter {
    #[inline]
    fn add(&mut self, sent_ns: u64, arrived_ns: u64) {
        let transit = arrived_ns.wrapping_sub(sent_ns);
        if let Some(before) = self.transit {
            // As a signed difference: a clock difference larger than either time makes transit times wrap.
            let apart = transit.wrapping_sub(before).cast_signed().unsigned_abs();
            self.value += (apart as f64 - self.value) / 16.0;
            self.max = self.max.max(self.value);
        }
        self.transit = Some(transit);
    }
}

/// Counts one flow at its receiving end. All memory is taken in [`FlowCounter::new`].
#[derive(Debug, Default)]
pub struct FlowCounter {
    window: Box<[u64]>,
    /// `passed` is one more than the highest number seen; what is known at the end alone is filled in then.
    counts: StreamReceived,
    jitter: Jitter,
    /// No jitter: the kernel joins datagrams, so their arrivals are not apart.
    joined: bool,
    stamped: bool,
    /// Arrival of the first and of the latest datagram, in ns of the receiver's clock.
    first_ns: Option<u64>,
    last_ns: u64,
    now_ns: u64,
    /// End of the open interval.
    end_ns: u64,
    closed: Vec<Slot>,
    most: usize,
    open: Slot,
}

impl FlowCounter {
    /// A counter for a stream of about `longest_ms`. `joined`: with UDP_GRO.
    pub fn new(longest_ms: u32, joined: bool) -> Self {
        let most = (longest_ms as usize / 1000 + 8).clamp(16, MOST) / 2 * 2;
        Self {
            window: vec![0; WORDS].into_boxed_slice(),
            counts: StreamReceived { interval_ns: SECOND_NS, ..StreamReceived::default() },
            joined,
            end_ns: u64::MAX,
            closed: crate::outliers::touched(most),
            most,
            ..Self::default()
        }
    }

    /// Whether anything came yet.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.first_ns.is_some()
    }

    /// The stream's first arrival over all flows. Call it once, before the first [`FlowCounter::arrived`].
    pub fn begin(&mut self, origin_ns: u64, now_ns: u64) {
        self.first_ns = Some(now_ns);
        self.end_ns = origin_ns.saturating_add(self.counts.interval_ns);
    }

    /// A call returned at this time; what it brought follows.
    #[inline]
    pub fn arrived(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if now_ns >= self.end_ns {
            self.advance(now_ns);
        }
    }

    #[cold]
    fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.end_ns {
            self.close();
            self.closed.push(std::mem::take(&mut self.open));
            if self.closed.len() >= self.most {
                for at in 0..self.most / 2 {
                    self.closed[at] = self.closed[2 * at].join(self.closed[2 * at + 1]);
                }
                self.closed.truncate(self.most / 2);
                self.counts.interval_ns = self.counts.interval_ns.saturating_mul(2);
            }
            self.end_ns = self.end_ns.saturating_add(self.counts.interval_ns);
        }
    }

    /// The open interval ends here.
    fn close(&mut self) {
        self.open.next = self.counts.passed;
        self.open.counts.jitter_ns = (self.stamped && !self.joined).then_some(self.jitter.value);
    }

    #[inline]
    pub fn bytes(&mut self, bytes: u64) {
        self.counts.bytes += bytes;
        self.open.counts.bytes += bytes;
        self.last_ns = self.now_ns;
    }

    /// A datagram of ours.
    #[inline]
    pub fn datagram(&mut self, seq: u64, sent_ns: Option<u64>, bytes: u64) {
        // A number that no sender reaches is nobody's; it would turn the sums over.
        if seq >= u64::MAX / 2 {
            self.counts.ignored += 1;
            return;
        }
        if seq >= self.counts.passed {
            self.pass(seq);
            self.open.came += 1;
        } else if !self.fill(seq) {
            return;
        }
        self.counts.received += 1;
        self.open.counts.received += 1;
        self.counts.bytes += bytes;
        self.open.counts.bytes += bytes;
        self.last_ns = self.now_ns;
        if let Some(sent_ns) = sent_ns.filter(|_| !self.joined) {
            self.stamped = true;
            self.jitter.add(sent_ns, self.now_ns);
        }
    }

    /// A datagram that is none of ours.
    #[inline]
    pub fn ignored(&mut self) {
        self.counts.ignored += 1;
    }

    /// The highest number yet: those between it and the one before are missing for now.
    #[inline]
    fn pass(&mut self, seq: u64) {
        let gap = seq - self.counts.passed;
        if gap >= WINDOW {
            self.window.fill(0);
        } else {
            for missing in self.counts.passed..seq {
                *self.word(missing) &= !bit(missing);
            }
        }
        *self.word(seq) |= bit(seq);
        self.counts.passed = seq + 1;
    }

    /// A number behind the highest one; whether it came for the first time.
    #[cold]
    fn fill(&mut self, seq: u64) -> bool {
        if self.counts.passed - seq > WINDOW {
            self.counts.too_late += 1;
            return false;
        }
        let place = self.word(seq);
        if *place & bit(seq) != 0 {
            self.counts.duplicated += 1;
            self.open.counts.duplicated += 1;
            return false;
        }
        *place |= bit(seq);
        self.counts.reordered += 1;
        self.open.counts.reordered += 1;
        let owner = self.closed.partition_point(|slot| slot.next <= seq);
        self.closed.get_mut(owner).unwrap_or(&mut self.open).came += 1;
        true
    }

    #[inline]
    fn word(&mut self, seq: u64) -> &mut u64 {
        let index = (seq % WINDOW / 64) as usize;
        &mut self.window[index]
    }

    /// Datagrams that are missing so far: what is seen while it runs. A late one may still come.
    #[inline]
    pub fn missing(&self) -> u64 {
        self.counts.passed - self.counts.received
    }

    /// Closes the last interval.
    pub fn finish(mut self) -> FlowCounted {
        self.close();
        let held = self.open;
        if held.counts.bytes > 0 || held.came > 0 || held.counts.duplicated > 0 {
            self.closed.push(held);
        } else if let Some(last) = self.closed.last_mut() {
            last.next = held.next;
        }
        let mut before = 0;
        let intervals = self.closed.iter().map(|slot| {
            let passed = slot.next - std::mem::replace(&mut before, slot.next);
            StreamInterval { lost: passed - slot.came, ..slot.counts }
        });
        let intervals: Vec<StreamInterval> = intervals.collect();
        let known = self.stamped && !self.joined;
        let counts = StreamReceived {
            jitter_first_ns: intervals.first().and_then(|first| first.jitter_ns),
            jitter_ns: known.then_some(self.jitter.value),
            jitter_max_ns: known.then_some(self.jitter.max),
            intervals,
            ..self.counts
        };
        FlowCounted { counts, first_ns: self.first_ns, last_ns: self.last_ns }
    }
}

#[inline]
fn bit(seq: u64) -> u64 {
    1 << (seq % 64)
}

/// What one flow's receiving end counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowCounted {
    /// The counts and intervals, without the time from the first arrival to the last.
    pub counts: StreamReceived,
    /// First arrival in ns of the receiver's clock.
    pub first_ns: Option<u64>,
    /// Last arrival.
    pub last_ns: u64,
}

#[cfg(test)]
mod tests;
