//! What a subscriber concludes from the frames of one topic that arrive.
//!
//! Deadlines are judged by the schedule where the subscriber's clock is said to be that of the publisher: a cycle is missed when its
//! frame arrives later than the deadline after it was due, or never. Without such a clock they are judged by arrivals: a value is due
//! each period, and each period that ends without a new value, by more than the deadline, is one miss.
//!
//! What a framing does not carry is not judged: frames without a schedule by arrivals, and those without numbers are all new.

use crate::window::{Seen, Window};
use crate::{Framing, Header, Topic};
use stats::Histogram;

/// A publisher that was silent for so many periods may begin with a lower epoch: its clock was set back.
const SILENT_PERIODS: u64 = 16;

/// What a monitor has to know.
#[derive(Debug, Clone, Copy)]
pub struct MonitorConfig {
    pub framing: Framing,
    /// The node that publishes the topic; 0 where frames do not carry it.
    pub publisher: u16,
    /// As frames carry it.
    pub layout: u64,
    pub data_bytes: usize,
    pub period_ns: u64,
    pub deadline_ns: u64,
    /// Whether times of the publisher may be compared with those of this host.
    pub has_common_clock: bool,
}

impl MonitorConfig {
    pub fn new(topic: &Topic, publisher: u16, has_common_clock: bool) -> Self {
        let framing = topic.framing;
        Self {
            framing,
            publisher: if framing.is_native() { publisher } else { 0 },
            layout: topic.frame_layout(),
            data_bytes: topic.bytes(),
            period_ns: topic.period_ns().max(1),
            deadline_ns: topic.deadline_ns(),
            has_common_clock: has_common_clock && framing.is_native(),
        }
    }
}

/// When a frame was received, by both clocks of the host, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub monotonic_ns: u64,
    /// Since 1970.
    pub real_ns: u64,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The newest value.
    New,
    /// A further frame of a sequence number that arrived before.
    Duplicate,
    /// Arrived after a newer one: its value is of no use any more.
    Late,
    /// The publisher's last frame, which has no value.
    Ended,
    /// Not of this publisher's present epoch, or of another layout: not counted as received.
    Refused,
}

/// Totals since the monitor began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Frames of the topic's publisher, layout and epoch.
    pub received: u64,
    /// Frames that brought a newer value.
    pub fresh: u64,
    /// Times at which sequence numbers were passed over.
    pub gaps: u64,
    /// Sequence numbers that did not arrive, up to now.
    pub missing: u64,
    pub duplicates: u64,
    /// Frames that arrived after one with a higher number.
    pub reordered: u64,
    /// Frames more than 1023 numbers behind: late or duplicates.
    pub ancient: u64,
    /// New epochs of the publisher.
    pub restarts: u64,
    /// Frames of an epoch before the present one.
    pub old_epoch: u64,
    /// Frames of another publisher.
    pub other_publisher: u64,
    /// Frames with another layout hash or length.
    pub layout_errors: u64,
    /// Frames that arrived before they were due by the publisher's clock.
    pub negative_ages: u64,
    /// Cycles whose deadline was missed.
    pub misses: u64,
    /// Runs of missed cycles, one after the other.
    pub miss_runs: u64,
    pub longest_run: u64,
}

/// The first missed deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FirstMiss {
    /// The cycle of the frame that ended the wait; absent where none came, and where frames carry none.
    pub cycle: Option<u64>,
    /// How late it was, in ns after the deadline. By the schedule 0 where earlier cycles were lost and this one was in time.
    pub late_ns: u64,
    /// CLOCK_MONOTONIC when it was noticed.
    pub at_ns: u64,
}

#[derive(Debug, Clone)]
struct Epoch {
    number: u64,
    window: Window,
    heard_ns: u64,
    begun_ns: u64,
    fresh_ns: u64,
    /// Send times of its first and its newest frame.
    begun_sent_ns: u64,
    sent_ns: u64,
}

impl Epoch {
    /// The epoch of a frame that carries none. A counter that did not rise is of a publisher that started again where it was sent later
    /// than the newest frame, or nothing new arrived for long. One that rose but was sent before a restart is of before it.
    fn number_of(&self, header: &Header, now_ns: u64, silence_ns: u64) -> u64 {
        let is_silent = |since_ns: u64| now_ns.saturating_sub(since_ns) > silence_ns;
        if header.sequence <= self.window.highest() {
            let is_restart = header.sent_ns > self.sent_ns || is_silent(self.fresh_ns);
            return self.number + u64::from(is_restart);
        }
        let is_before = header.sent_ns < self.begun_sent_ns && !is_silent(self.begun_ns);
        self.number.saturating_sub(u64::from(is_before))
    }
}

/// The newest frame.
#[derive(Debug, Clone, Copy)]
struct Newest {
    cycle: u64,
    scheduled_ns: u64,
    arrived_ns: u64,
}

/// One topic at one subscriber. Nothing here allocates after [`Monitor::new`].
#[derive(Debug, Clone)]
pub struct Monitor {
    config: MonitorConfig,
    pub counters: Counters,
    /// Times between fresh values.
    pub intervals: Histogram,
    /// From when a cycle was due to the arrival of its value; empty without a common clock.
    pub ages: Histogram,
    pub first_miss: Option<FirstMiss>,
    run: u64,
    epoch: Option<Epoch>,
    /// Absent before the first value and after the publisher's last frame: nothing is due.
    newest: Option<Newest>,
}

impl Monitor {
    pub fn new(config: MonitorConfig) -> Self {
        Self {
            config,
            counters: Counters::default(),
            intervals: Histogram::new(),
            ages: Histogram::new(),
            first_miss: None,
            run: 0,
            epoch: None,
            newest: None,
        }
    }

    /// Takes a frame of the topic.
    #[inline]
    pub fn on_frame(&mut self, header: &Header, data: &[u8], at: Arrival) -> Outcome {
        if header.publisher != self.config.publisher {
            self.counters.other_publisher += 1;
            return Outcome::Refused;
        }
        if header.layout != self.config.layout || data.len() != self.config.data_bytes {
            self.counters.layout_errors += 1;
            return Outcome::Refused;
        }
        let (seen, is_restart) = self.offer(header, at.monotonic_ns);
        let Some(seen) = seen else {
            self.counters.old_epoch += 1;
            return Outcome::Refused;
        };
        self.counters.received += 1;
        match seen {
            Seen::Ahead(between) => {
                self.counters.gaps += u64::from(between > 0);
                self.counters.missing = self.counters.missing.saturating_add(between);
            }
            Seen::Late => {
                self.counters.missing = self.counters.missing.saturating_sub(1);
                self.counters.reordered += 1;
                return Outcome::Late;
            }
            Seen::Before => {
                self.counters.reordered += 1;
                return Outcome::Late;
            }
            Seen::Duplicate => {
                self.counters.duplicates += 1;
                return Outcome::Duplicate;
            }
            Seen::Ancient => {
                self.counters.ancient += 1;
                return Outcome::Late;
            }
        }
        if header.is_last {
            self.lost_before(header, is_restart, at);
            (self.newest, self.run) = (None, 0);
            return Outcome::Ended;
        }
        self.counters.fresh += 1;
        self.time(header, is_restart, at);
        Outcome::New
    }

    /// What the frame's number is in its epoch, and whether the epoch began with it; nothing for an epoch that is over.
    #[inline]
    fn offer(&mut self, header: &Header, now_ns: u64) -> (Option<Seen>, bool) {
        let framing = self.config.framing;
        if !framing.is_numbered() {
            return (Some(Seen::Ahead(0)), false);
        }
        let silence_ns = self.config.period_ns.saturating_mul(SILENT_PERIODS);
        let number = match &self.epoch {
            Some(epoch) if !framing.is_native() => epoch.number_of(header, now_ns, silence_ns),
            _ => header.epoch,
        };
        match &mut self.epoch {
            Some(epoch) if epoch.number == number => {
                epoch.heard_ns = now_ns;
                let seen = epoch.window.offer(header.sequence);
                if matches!(seen, Seen::Ahead(_)) {
                    (epoch.fresh_ns, epoch.sent_ns) = (now_ns, header.sent_ns);
                }
                (Some(seen), false)
            }
            Some(epoch) if epoch.number > number && now_ns.saturating_sub(epoch.heard_ns) <= silence_ns => {
                (None, false)
            }
            other => {
                let is_restart = other.is_some();
                // A restarted publisher begins with 0, and this end was listening. Of one that ran before, and of others' counters,
                // nothing is known.
                let floor = if is_restart && framing.is_native() { 0 } else { header.sequence };
                *other = Some(Epoch {
                    number,
                    window: Window::new(floor, header.sequence),
                    heard_ns: now_ns,
                    begun_ns: now_ns,
                    fresh_ns: now_ns,
                    begun_sent_ns: header.sent_ns,
                    sent_ns: header.sent_ns,
                });
                self.counters.restarts += u64::from(is_restart);
                (Some(Seen::Ahead(header.sequence - floor)), is_restart)
            }
        }
    }

    fn time(&mut self, header: &Header, is_restart: bool, at: Arrival) {
        let MonitorConfig { framing, period_ns, deadline_ns, has_common_clock, .. } = self.config;
        if has_common_clock {
            self.lost_before(header, is_restart, at);
            let age_ns = at.real_ns.checked_sub(header.scheduled_ns);
            self.counters.negative_ages += u64::from(age_ns.is_none());
            let age_ns = age_ns.inspect(|age| self.ages.record(*age)).unwrap_or(0);
            if age_ns > deadline_ns {
                self.miss(1, Some(header.cycle), age_ns - deadline_ns, at);
            } else {
                self.run = 0;
            }
        }
        if let Some(newest) = self.newest {
            let interval_ns = at.monotonic_ns.saturating_sub(newest.arrived_ns);
            self.intervals.record(interval_ns);
            if !has_common_clock {
                let late_ns = interval_ns.saturating_sub(period_ns.saturating_add(deadline_ns));
                if late_ns > 0 {
                    let cycle = framing.is_native().then_some(header.cycle);
                    self.miss(late_ns.div_ceil(period_ns), cycle, late_ns, at);
                } else {
                    self.run = 0;
                }
            }
        }
        let (cycle, scheduled_ns) = (header.cycle, header.scheduled_ns);
        self.newest = Some(Newest { cycle, scheduled_ns, arrived_ns: at.monotonic_ns });
    }

    /// By the schedule, the cycles between the newest value and this frame are missed.
    fn lost_before(&mut self, header: &Header, is_restart: bool, at: Arrival) {
        let Some(newest) = self.newest.filter(|_| self.config.has_common_clock) else { return };
        let passed = if is_restart {
            let period_ns = self.config.period_ns;
            header.scheduled_ns.saturating_sub(newest.scheduled_ns).saturating_add(period_ns / 2) / period_ns
        } else {
            header.cycle.saturating_sub(newest.cycle)
        };
        self.miss(passed.saturating_sub(1), Some(header.cycle), 0, at);
    }

    fn miss(&mut self, cycles: u64, cycle: Option<u64>, late_ns: u64, at: Arrival) {
        if cycles == 0 {
            return;
        }
        let counters = &mut self.counters;
        counters.miss_runs += u64::from(self.run == 0);
        self.run = self.run.saturating_add(cycles);
        counters.misses = counters.misses.saturating_add(cycles);
        counters.longest_run = counters.longest_run.max(self.run);
        self.first_miss.get_or_insert(FirstMiss { cycle, late_ns, at_ns: at.monotonic_ns });
    }

    /// Ends the monitor before a cycle that is not awaited: those before it that did not come are missed.
    pub fn finish_before(&mut self, cycle: u64, at: Arrival) {
        if let Some(newest) = self.newest.take().filter(|_| self.config.has_common_clock) {
            self.miss(cycle.saturating_sub(newest.cycle).saturating_sub(1), None, 0, at);
        }
    }

    /// Ends the monitor at this time: what was due and did not come is missed.
    pub fn finish(&mut self, at: Arrival) {
        let MonitorConfig { period_ns, deadline_ns, has_common_clock, .. } = self.config;
        let Some(newest) = self.newest.take() else { return };
        let since_ns = if has_common_clock {
            at.real_ns.saturating_sub(newest.scheduled_ns)
        } else {
            at.monotonic_ns.saturating_sub(newest.arrived_ns)
        };
        let late_ns = since_ns.saturating_sub(period_ns.saturating_add(deadline_ns));
        self.miss(late_ns.div_ceil(period_ns), None, late_ns, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use random::SplitMix64;
    use std::collections::BTreeSet;

    const PERIOD: u64 = 1_000_000;
    const DEADLINE: u64 = 400_000;
    const START: u64 = 1_000_000_000;

    fn monitor(has_common_clock: bool) -> Monitor {
        framed(Framing::Native, has_common_clock)
    }

    fn framed(framing: Framing, has_common_clock: bool) -> Monitor {
        let (period_ns, deadline_ns) = (PERIOD, DEADLINE);
        let publisher = u16::from(framing.is_native());
        let layout = if framing.is_numbered() { 9 } else { 0 };
        let config =
            MonitorConfig { framing, publisher, layout, data_bytes: 2, period_ns, deadline_ns, has_common_clock };
        Monitor::new(config)
    }

    /// The frame of a cycle, whose number is its sequence number.
    fn frame(epoch: u64, cycle: u64) -> Header {
        let scheduled_ns = START + cycle * PERIOD;
        Header { publisher: 1, layout: 9, epoch, sequence: cycle, cycle, scheduled_ns, ..Header::default() }
    }

    /// A clock of this host for which cycle 0 is due at 0.
    fn at(ns: u64) -> Arrival {
        Arrival { monotonic_ns: 500 + ns, real_ns: START + ns }
    }

    fn take(monitor: &mut Monitor, epoch: u64, cycle: u64, late_ns: u64) -> Outcome {
        monitor.on_frame(&frame(epoch, cycle), b"ab", at(cycle * PERIOD + late_ns))
    }

    #[test]
    fn what_is_not_of_this_topic_is_counted_and_nothing_else() {
        let mut monitor = monitor(true);
        let right = frame(1, 0);
        for (header, data) in
            [(Header { publisher: 2, ..right }, &b"ab"[..]), (Header { layout: 8, ..right }, b"ab"), (right, b"abc")]
        {
            assert_eq!(monitor.on_frame(&header, data, at(0)), Outcome::Refused);
        }
        assert_eq!(take(&mut monitor, 5, 0, 10), Outcome::New);
        assert_eq!(take(&mut monitor, 4, 1, 10), Outcome::Refused);
        let expected = Counters {
            received: 1,
            fresh: 1,
            other_publisher: 1,
            layout_errors: 2,
            old_epoch: 1,
            ..Counters::default()
        };
        assert_eq!(monitor.counters, expected);
    }

    #[test]
    fn misses_by_the_schedule() {
        let mut monitor = monitor(true);
        let misses = |monitor: &Monitor| {
            let Counters { misses, miss_runs, longest_run, .. } = monitor.counters;
            [misses, miss_runs, longest_run]
        };
        for cycle in 100..110 {
            let _ = take(&mut monitor, 1, cycle, DEADLINE);
        }
        assert_eq!(misses(&monitor), [0, 0, 0], "at the deadline is in time");
        let _ = take(&mut monitor, 1, 110, DEADLINE + 7);
        assert_eq!(
            monitor.first_miss,
            Some(FirstMiss { cycle: Some(110), late_ns: 7, at_ns: 500 + 110 * PERIOD + DEADLINE + 7 })
        );
        let _ = take(&mut monitor, 1, 113, DEADLINE + 1);
        assert_eq!(misses(&monitor), [4, 1, 4], "two lost and two late, one after the other");
        let _ = take(&mut monitor, 1, 114, 0);
        let _ = take(&mut monitor, 1, 116, 0);
        assert_eq!(misses(&monitor), [5, 2, 4]);
        // It started again three cycles later.
        let restarted = Header { epoch: 2, sequence: 0, cycle: 0, scheduled_ns: START + 120 * PERIOD, ..frame(2, 0) };
        assert_eq!(monitor.on_frame(&restarted, b"ab", at(120 * PERIOD)), Outcome::New);
        assert_eq!(misses(&monitor), [8, 3, 4]);
        monitor.finish(at(121 * PERIOD + DEADLINE));
        assert_eq!(misses(&monitor), [8, 3, 4]);
        assert_eq!(monitor.ages.count(), 15);
    }

    #[test]
    fn misses_by_arrivals() {
        let mut monitor = monitor(false);
        for ns in [0, PERIOD + DEADLINE, 3 * PERIOD + 2 * DEADLINE, 4 * PERIOD, 9 * PERIOD] {
            let cycle = monitor.counters.fresh;
            let _ = monitor.on_frame(&frame(1, cycle), b"ab", at(ns));
        }
        // 2 periods and the deadline is one miss, and 5 periods are four (due after 1.4, 2.4, 3.4 and 4.4).
        let Counters { misses, miss_runs, longest_run, negative_ages, .. } = monitor.counters;
        assert_eq!([misses, miss_runs, longest_run, negative_ages], [5, 2, 4, 0]);
        assert_eq!((monitor.intervals.count(), monitor.ages.count()), (4, 0), "ages need a common clock");
        monitor.finish(at(9 * PERIOD + 2 * PERIOD + DEADLINE + 1));
        assert_eq!(monitor.counters.misses, 7);
    }

    #[test]
    fn data_without_a_header_have_arrivals_alone() {
        let mut monitor = framed(Framing::Raw, false);
        for ns in [0, PERIOD, PERIOD, 2 * PERIOD, 5 * PERIOD] {
            assert_eq!(monitor.on_frame(&Header::default(), b"ab", at(ns)), Outcome::New);
        }
        assert_eq!(monitor.on_frame(&Header::default(), b"abc", at(5 * PERIOD)), Outcome::Refused);
        let mut expected = Counters { received: 5, fresh: 5, layout_errors: 1, ..Counters::default() };
        // Three periods are two misses.
        (expected.misses, expected.miss_runs, expected.longest_run) = (2, 1, 2);
        assert_eq!(monitor.counters, expected);
        assert_eq!(monitor.first_miss.unwrap().cycle, None);
        assert_eq!((monitor.intervals.count(), monitor.ages.count()), (4, 0));
    }

    #[test]
    fn restarts_are_known_from_counter_and_send_time() {
        let mut monitor = framed(Framing::Sdn, false);
        let mut now_ns = 0;
        let mut take = |sequence, sent_ns| {
            now_ns += PERIOD;
            monitor.on_frame(&Header { layout: 9, sequence, sent_ns, ..Header::default() }, b"ab", at(now_ns))
        };
        use Outcome::{Duplicate, Late, New, Refused};
        assert_eq!([take(40, 100), take(42, 102), take(41, 101), take(42, 102)], [New, New, Late, Duplicate]);
        // It starts again, and two frames of before are late.
        assert_eq!([take(1, 110), take(43, 103), take(2, 111), take(42, 102)], [New, Refused, New, Refused]);
        // Its clock is set back while it runs, which changes nothing; then while it starts again, which is known after 16 periods.
        assert!((3..=20).all(|sequence| take(sequence, 109 + sequence) == New));
        assert_eq!(take(21, 20), New);
        let outcomes: Vec<Outcome> = (0..SILENT_PERIODS + 2).map(|at| take(1 + at / 9, 5)).collect();
        assert_eq!(outcomes.iter().position(|outcome| *outcome == New), Some(16), "{outcomes:?}");
        let Counters { received, fresh, gaps, missing, restarts, old_epoch, .. } = monitor.counters;
        assert_eq!((gaps, missing, restarts, old_epoch), (1, 0, 2, 2));
        assert_eq!((received, fresh), (43, 24));
    }

    /// Catches: cycles at the end whose values did not come and that are not missed, and later ones that are.
    #[test]
    fn an_end_by_its_number_misses_what_was_due_before_it() {
        for (end, missed) in [(5, 0), (8, 3)] {
            let mut monitor = monitor(true);
            for cycle in 0..5 {
                let _ = take(&mut monitor, 1, cycle, 10);
            }
            monitor.finish_before(end, at(5 * PERIOD));
            assert_eq!((monitor.counters.misses, monitor.counters.longest_run), (missed, missed));
        }
    }

    #[test]
    fn a_publisher_that_ends_in_order_misses_nothing() {
        for has_common_clock in [true, false] {
            let mut monitor = monitor(has_common_clock);
            for cycle in 0..3 {
                let _ = take(&mut monitor, 1, cycle, 5);
            }
            let last = Header { is_last: true, ..frame(1, 3) };
            assert_eq!(monitor.on_frame(&last, b"ab", at(3 * PERIOD)), Outcome::Ended);
            assert_eq!(take(&mut monitor, 2, 0, 900 * PERIOD), Outcome::New);
            // Without a clock it was in time; by its schedule it is late.
            assert_eq!(monitor.counters.misses, u64::from(has_common_clock), "{has_common_clock}");
            assert_eq!((monitor.counters.restarts, monitor.counters.fresh), (1, 4));
        }
    }

    #[test]
    fn a_lower_epoch_is_old_unless_the_publisher_was_silent() {
        let mut monitor = monitor(false);
        let mut take = |epoch, ns| monitor.on_frame(&frame(epoch, 0), b"ab", at(ns));
        assert_eq!(take(9, 0), Outcome::New);
        assert_eq!(take(8, SILENT_PERIODS * PERIOD), Outcome::Refused);
        assert_eq!(take(8, SILENT_PERIODS * PERIOD + 1), Outcome::New, "its clock was set back");
        assert_eq!((monitor.counters.restarts, monitor.counters.old_epoch), (1, 1));
    }

    #[test]
    fn times_before_their_schedule_are_counted() {
        let mut monitor = monitor(true);
        let _ = monitor.on_frame(&frame(1, 5), b"ab", at(5 * PERIOD - 1));
        let _ = monitor.on_frame(&frame(1, 6), b"ab", at(6 * PERIOD));
        assert_eq!((monitor.counters.negative_ages, monitor.ages.count(), monitor.counters.misses), (1, 1, 0));
    }

    #[test]
    fn nothing_is_allocated_for_a_frame() {
        let mut monitor = monitor(true);
        let info = allocation_counter::measure(|| {
            for cycle in (0..10_000).filter(|cycle| cycle % 7 != 0) {
                let _ = take(&mut monitor, 1 + cycle / 5000, cycle, cycle % 500_000);
            }
        });
        assert_eq!(info.count_total, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Frames that a network dropped, doubled, displaced, and a publisher that restarted: counted against what was done.
        #[test]
        fn injected_faults_are_counted_exactly(seed in any::<u64>(), count in 2_u64..600, epochs in 1_u64..4) {
            let mut random = SplitMix64::new(seed);
            let mut expected = Counters { restarts: epochs - 1, ..Counters::default() };
            let mut monitor = monitor(false);
            for epoch in 1..=epochs {
                let mut sent: Vec<u64> = Vec::new();
                // The first frame arrives, so that each epoch is heard of from its start.
                for sequence in 0..count {
                    if sequence > 0 && random.happens(0.1) {
                        continue;
                    }
                    let at = sent.len() - usize::try_from(random.below(8).min(sent.len() as u64)).unwrap();
                    let at = if random.happens(0.2) && sequence > 0 { at.max(1) } else { sent.len() };
                    sent.insert(at, sequence);
                    if random.happens(0.1) {
                        sent.push(sequence);
                    }
                }
                let (mut highest, mut seen) = (None, BTreeSet::new());
                for &sequence in &sent {
                    expected.received += 1;
                    let outcome = monitor.on_frame(&Header { epoch, sequence, cycle: sequence, ..frame(1, 0) }, b"ab", at(0));
                    if !seen.insert(sequence) {
                        expected.duplicates += 1;
                        prop_assert_eq!(outcome, Outcome::Duplicate);
                    } else if highest.is_some_and(|highest| highest > sequence) {
                        expected.reordered += 1;
                        prop_assert_eq!(outcome, Outcome::Late);
                    } else {
                        expected.gaps += u64::from(sequence > highest.map_or(0, |highest: u64| highest + 1));
                        highest = Some(sequence);
                        expected.fresh += 1;
                        prop_assert_eq!(outcome, Outcome::New);
                    }
                }
                expected.missing += highest.unwrap() + 1 - seen.len() as u64;
            }
            prop_assert_eq!(monitor.counters, expected);
        }
    }
}
