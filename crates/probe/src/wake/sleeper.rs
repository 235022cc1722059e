//! The measured loop: sleep until a deadline, read the clock, note both. Between its first and last line nothing is allocated,
//! locked, printed or logged, and no system call is made beside the sleep.

use super::{EndUsage, UsageSampler};
use crate::pace::ring::Producer;
use crate::pace::threads::StartBarrier;
use crate::{ProbeError, driver};
use model::Policy;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use task::Class;

/// A wake-up: the deadline that was slept until, and when the thread noticed, both in ns of CLOCK_MONOTONIC.
pub(super) type Entry = [u64; ENTRY_WORDS];
pub(super) const ENTRY_WORDS: usize = 2;

/// Stack that is touched before the loop.
const STACK: usize = 128 << 10;
/// Wake-ups between two looks at the CPU that the thread is on.
const BATCH: u64 = 1024;
/// From the end of the warm-up to the first measured deadline: time for the figures that are read before it.
const PAUSE_NS: u64 = 10_000_000;

pub(super) struct Sleeper<'a> {
    pub policy: Policy,
    pub slack_ns: Option<u32>,
    pub interval_ns: u64,
    /// Untimed deadlines.
    pub warm_up: u64,
    /// Measured ones.
    pub deadlines: u64,
    pub halt: &'a AtomicBool,
    pub barrier: &'a StartBarrier,
}

#[derive(Debug, Clone, Default)]
pub(super) struct SleeperReport {
    /// Absent where it never began.
    pub usage: Option<EndUsage>,
    /// Timer slack in force.
    pub slack_ns: u64,
    /// Policy at the end; absent where it never began.
    pub policy: Option<Policy>,
    /// Wake-ups that found no room.
    pub dropped: u64,
}

impl Sleeper<'_> {
    /// The first measured deadline, when the warm-up begins at this time.
    pub(super) fn first(&self, begin: u64) -> u64 {
        begin.saturating_add(self.warm_up.saturating_mul(self.interval_ns)).saturating_add(PAUSE_NS)
    }

    /// Places the calling thread, waits for the others, and sleeps until the last deadline.
    pub(super) fn run(
        &self,
        number: usize,
        cpu: Option<u32>,
        mut ring: Producer<'_, ENTRY_WORDS>,
    ) -> Result<SleeperReport, ProbeError> {
        let placed = self.place(cpu);
        let begin = self.barrier.arrive(number, placed.is_ok());
        let slack_ns = placed?;
        let Some(begin) = begin else { return Ok(SleeperReport::default()) };
        let first = self.first(begin);
        self.sleep_through(begin, begin.saturating_add(self.warm_up.saturating_mul(self.interval_ns)), &mut |_| {});
        let mut usage = UsageSampler::start(cpu);
        let end = first.saturating_add(self.deadlines.saturating_mul(self.interval_ns));
        let mut count = 0_u64;
        self.sleep_through(first, end, &mut |entry| {
            ring.push(entry);
            count += 1;
            if count.is_multiple_of(BATCH) {
                usage.observe_cpu();
            }
        });
        let usage = Some(usage.finish());
        let policy = task::attributes(0)?.and_then(|own| match own.class {
            Class::Plain(policy) => Some(policy),
            Class::Deadline { .. } => None,
        });
        Ok(SleeperReport { usage, slack_ns, policy, dropped: ring.dropped })
    }

    /// Returns the timer slack in force.
    fn place(&self, cpu: Option<u32>) -> Result<u64, ProbeError> {
        task::prefault_stack(STACK);
        if let Some(ns) = self.slack_ns {
            task::set_timer_slack(Duration::from_nanos(u64::from(ns)))?;
        }
        driver::place_thread(cpu, self.policy, None)?;
        Ok(task::timer_slack_ns()?)
    }

    /// Sleeps until each deadline from `due` on that has not passed yet, and before `end`.
    #[inline]
    fn sleep_through(&self, mut due: u64, end: u64, note: &mut impl FnMut(Entry)) {
        while due < end {
            let slept = clock::sleep_until(due);
            let now = clock::monotonic_ns();
            if self.halt.load(Ordering::Relaxed) {
                break;
            }
            // A signal of others: the deadline is still to come.
            if slept == clock::SleepEnd::Interrupted && now < due {
                continue;
            }
            note([due, now]);
            due = next(due, now, self.interval_ns);
        }
    }
}

#[inline]
fn next(due: u64, now: u64, interval_ns: u64) -> u64 {
    due + interval_ns * (now.saturating_sub(due) / interval_ns + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::ring::Ring;

    #[test]
    fn deadlines_that_have_passed_are_left_to_the_counter() {
        assert_eq!(next(1000, 1000, 100), 1100);
        assert_eq!(next(1000, 1099, 100), 1100);
        assert_eq!(next(1000, 1100, 100), 1200, "a deadline that is now is not slept until");
        assert_eq!(next(1000, 1950, 100), 2000);
    }

    #[test]
    fn the_loop_allocates_nothing_and_notes_each_wake_up_after_its_deadline() {
        let (halt, barrier) = (AtomicBool::new(false), StartBarrier::new(1));
        let sleeper = Sleeper {
            policy: Policy::Other,
            slack_ns: None,
            interval_ns: 500_000,
            warm_up: 0,
            deadlines: 20,
            halt: &halt,
            barrier: &barrier,
        };
        let mut ring = Ring::<ENTRY_WORDS>::new(64);
        let (mut producer, mut consumer) = ring.ends();
        let begin = clock::monotonic_ns() + 1_000_000;
        let end = begin + 20 * 500_000;
        let counted = allocation_counter::measure(|| {
            sleeper.sleep_through(begin, end, &mut |entry| producer.push(entry));
        });
        assert_eq!(counted.count_total, 0);
        let until = consumer.written();
        let entries: Vec<Entry> = std::iter::from_fn(|| consumer.pop(until)).collect();
        assert!(!entries.is_empty() && entries.len() <= 20);
        assert!(
            entries.iter().all(|[due, now]| due <= now && (due - begin).is_multiple_of(500_000) && *due < end),
            "{entries:?}"
        );
        assert!(entries.windows(2).all(|pair| pair[0][1] < pair[1][0]), "none is slept until after it has passed");
        halt.store(true, Ordering::Relaxed);
        sleeper.sleep_through(clock::monotonic_ns(), u64::MAX, &mut |_| panic!("halted"));
    }
}
