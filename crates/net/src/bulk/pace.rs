//! When the next message is due.
//!
//! A *rate* is a schedule: message k is due k intervals after the first, and a late sender catches up. A *limit* is a
//! ceiling: unused time is lost, so that no stretch of [`SLACK_NS`] or more exceeds it. Waiting sleeps until shortly
//! before, then spins; intervals below [`SLEEP_FROM_NS`] are spun through, as a timer would bunch them.

use clock::Clock;
use model::StreamSpec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Messages a second.
    pub per_second: f64,
    /// When the first one is due, as a share of an interval: so that several flows do not send at the same moments.
    pub phase: f64,
}

impl Rate {
    /// As a specification asks for it at one size, of one flow among the others; absent: as fast as the flow can.
    pub fn new(spec: &StreamSpec, size: u32, flow: u32) -> Option<Self> {
        let flows = spec.flows.max(1);
        let phase = f64::from(flow % flows) / f64::from(flows);
        spec.flow_pps(size).map(|per_second| Self { per_second, phase })
    }
}

/// Waits until all that take part are ready; `false`: stopped before.
pub fn wait_for_go(go: &AtomicBool, stop: &AtomicBool) -> bool {
    while !go.load(Ordering::Acquire) {
        if stop.load(Ordering::Acquire) {
            return false;
        }
        std::thread::sleep(GO_LOOK);
    }
    true
}

/// Between two looks whether all are ready.
const GO_LOOK: Duration = Duration::from_micros(100);
/// Waits shorter than this are spun.
const SLEEP_FROM_NS: u64 = 80_000;
/// So long before the time a sleep ends: what a timer and a wake-up cost.
const WAKE_NS: u64 = 60_000;
/// Longest single sleep, so that a stop is noticed.
const LONGEST_NS: u64 = 20_000_000;
/// How far behind its limit a sender may be and still catch up.
const SLACK_NS: u64 = 1_000_000;

/// Waits until a tick; `false` when the stop flag was set first.
pub(super) fn wait_until(clock: Clock, tick: u64, stop: &AtomicBool) -> bool {
    loop {
        let now = clock.now();
        if now >= tick {
            return true;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = clock.ns(tick - now);
        if left >= SLEEP_FROM_NS {
            std::thread::sleep(Duration::from_nanos((left - WAKE_NS).min(LONGEST_NS)));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// A schedule that nothing moves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    clock: Clock,
    began: u64,
    ticks_each: f64,
    phase: f64,
    sent: u64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; times are positive")]
impl Schedule {
    pub(super) fn new(clock: Clock, rate: Rate) -> Self {
        let ticks_each = clock.ticks(1_000_000_000) as f64 / rate.per_second.max(1e-6);
        Self { clock, began: clock.now(), ticks_each, phase: rate.phase.clamp(0.0, 1.0), sent: 0 }
    }

    /// Messages due at a tick and not sent yet. One multiplication for k intervals, so that no rounding adds up.
    pub(super) fn due(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.began) as f64 / self.ticks_each - self.phase;
        if passed < 0.0 { 0 } else { (passed as u64 + 1).saturating_sub(self.sent) }
    }

    fn next(&self) -> u64 {
        self.began.saturating_add(((self.sent as f64 + self.phase) * self.ticks_each).ceil() as u64)
    }

    /// Waits until at least one message is due, and returns how many are, 0 when stopped.
    pub(super) fn wait(&self, stop: &AtomicBool) -> u64 {
        if wait_until(self.clock, self.next(), stop) { self.due(self.clock.now()).max(1) } else { 0 }
    }

    pub(super) fn took(&mut self, messages: u64) {
        self.sent += messages;
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    clock: Clock,
    ticks_each: f64,
    slack: u64,
    /// Nothing more before this tick.
    free: u64,
    rest: f64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; times are positive")]
impl Limit {
    /// So many messages (or bytes) a second.
    pub(super) fn new(clock: Clock, per_second: f64) -> Self {
        let ticks_each = clock.ticks(1_000_000_000) as f64 / per_second.max(1e-6);
        Self { clock, ticks_each, slack: clock.ticks(SLACK_NS), free: clock.now(), rest: 0.0 }
    }

    /// Waits until something may be sent or taken; `false` when stopped.
    pub(super) fn wait(&self, stop: &AtomicBool) -> bool {
        wait_until(self.clock, self.free, stop)
    }

    pub(super) fn took(&mut self, amount: u64) {
        let floor = self.clock.now().saturating_sub(self.slack);
        let ticks = amount as f64 * self.ticks_each + self.rest;
        self.rest = ticks.fract();
        self.free = self.free.max(floor).saturating_add(ticks as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_never_moves() {
        let clock = Clock::raw();
        let mut schedule = Schedule::new(clock, Rate { per_second: 1000.0, phase: 0.5 });
        let at = |us: u64| schedule.began + clock.ticks(us * 1000);
        assert_eq!((schedule.due(at(0)), schedule.due(at(400)), schedule.due(at(600))), (0, 0, 1));
        assert_eq!(schedule.due(at(10_600)), 11);
        let late = at(1_000_000_000_600);
        let next = at(11_500);
        schedule.took(11);
        assert!(schedule.next().abs_diff(next) <= clock.ticks(2), "{} {next}", schedule.next());
        // After eleven days the thousandth of a message is still right.
        schedule.took(1_000_000_000 - 11);
        assert_eq!(schedule.due(late), 1);
    }

    #[test]
    fn a_limit_forgives_no_more_than_its_slack() {
        let clock = Clock::raw();
        let mut limit = Limit::new(clock, 1000.0);
        limit.free = clock.now() - clock.ticks(10_000_000_000);
        limit.took(5);
        // Ten idle seconds do not let a burst of ten thousand through: five messages are 5 ms, of which 1 ms is given.
        let ahead = clock.ns(limit.free.saturating_sub(clock.now()));
        assert!((3_000_000..=4_000_000).contains(&ahead), "{ahead}");
    }

    #[test]
    fn flows_share_the_rate_and_take_turns() {
        let spec = StreamSpec { flows: 4, rate_pps: Some(1000.0), ..StreamSpec::default() };
        let phases = [0, 1, 3, 5].map(|flow| Rate::new(&spec, 100, flow).unwrap());
        assert_eq!(phases.map(|rate| rate.phase), [0.0, 0.25, 0.75, 0.25]);
        assert!(phases.iter().all(|rate| (rate.per_second - 250.0).abs() < 1e-9));
        assert_eq!(Rate::new(&StreamSpec::default(), 100, 0), None);
    }

    #[test]
    fn who_is_stopped_does_not_go() {
        let (yes, no) = (AtomicBool::new(true), AtomicBool::new(false));
        assert!(!wait_for_go(&no, &yes));
        assert!(wait_for_go(&yes, &no));
    }

    #[test]
    fn a_stop_ends_a_wait() {
        let clock = Clock::raw();
        let stop = AtomicBool::new(true);
        assert!(!wait_until(clock, clock.now() + clock.ticks(60_000_000_000), &stop));
        assert!(wait_until(clock, clock.now(), &stop));
        let before = clock.now();
        stop.store(false, Ordering::Relaxed);
        assert!(wait_until(clock, before + clock.ticks(200_000), &stop));
        assert!(clock.now() >= before + clock.ticks(200_000));
    }
}
