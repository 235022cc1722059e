//! The clock of the loops and how a sender waits for its time; scripted in tests.

use clock::Clock;
use host::RunQueueWait;
use model::Pacer;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long before its time a hybrid sender wakes up to spin: how late a SCHED_FIFO sleep is at worst, with room.
pub(crate) const HYBRID_NS: u64 = 50_000;
/// Spins between two looks at the halt flag.
const SPINS: u32 = 64;

pub(crate) trait LoopClock {
    /// The present time in ticks.
    fn now(&self) -> u64;

    /// The wall clock, in ns since 1970.
    fn realtime_ns(&self) -> u64;

    /// Time in ns that the calling thread was ready and had no CPU; `None` where the kernel does not count it.
    fn run_queue_wait_ns(&self) -> Option<u64>;

    /// Waits until a tick; `false` when it was halted meanwhile.
    fn wait_until(&mut self, tick: u64, halt: &AtomicBool) -> bool;
}

#[derive(Debug)]
pub(crate) struct SystemClock {
    clock: Clock,
    run_queue: RunQueueWait,
    /// Ticks before the time at which sleeping ends and spinning begins: none for sleepers, all for spinners.
    spin: u64,
}

impl SystemClock {
    /// Called on the thread that uses it.
    pub(crate) fn new(clock: Clock, pacer: Pacer) -> Self {
        let spin = match pacer {
            Pacer::Sleep => 0,
            Pacer::Hybrid => clock.ticks(HYBRID_NS),
            Pacer::Spin => u64::MAX,
        };
        Self { clock, run_queue: RunQueueWait::of_this_thread(), spin }
    }
}

impl LoopClock for SystemClock {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    #[inline]
    fn realtime_ns(&self) -> u64 {
        clock::realtime_ns()
    }

    fn run_queue_wait_ns(&self) -> Option<u64> {
        self.run_queue.ns()
    }

    #[inline]
    fn wait_until(&mut self, tick: u64, halt: &AtomicBool) -> bool {
        let asleep_until = tick.saturating_sub(self.spin);
        loop {
            if halt.load(Ordering::Relaxed) {
                return false;
            }
            // Timers follow CLOCK_MONOTONIC, whose rate is steered. A preemption in between wakes us too early, never too late.
            let monotonic_ns = clock::monotonic_ns();
            let now = self.clock.now();
            if now >= asleep_until {
                break;
            }
            // However it ended, the clock decides.
            let _ = clock::sleep_until(monotonic_ns.saturating_add(self.clock.ns(asleep_until - now)));
        }
        loop {
            for _ in 0..SPINS {
                if self.clock.now() >= tick {
                    return true;
                }
                std::hint::spin_loop();
            }
            if halt.load(Ordering::Relaxed) {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pacer_wakes_at_or_after_its_time() {
        let clock = Clock::calibrate().unwrap();
        let halt = AtomicBool::new(false);
        for pacer in Pacer::ALL {
            let mut time = SystemClock::new(clock, pacer);
            let due = time.now() + clock.ticks(2_000_000);
            assert!(time.wait_until(due, &halt));
            assert!(time.now() >= due, "{pacer}");
            halt.store(true, Ordering::Relaxed);
            assert!(!time.wait_until(u64::MAX, &halt), "{pacer}: a halt ends it");
            halt.store(false, Ordering::Relaxed);
        }
    }
}
