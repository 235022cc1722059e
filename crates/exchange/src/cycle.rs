//! When a publisher's cycles are due, and what happens to those that it was too late for.

/// What a publisher does about cycles that passed while it was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overrun {
    /// Leaves them out: the next cycle is the first one in the future.
    #[default]
    Skip,
    /// Sends them one after the other until it is in time again.
    CatchUp,
}

/// A schedule of absolute times: cycle `n` is due `n` periods after the first one, so roundings and delays do not add up.
#[derive(Debug, Clone)]
pub struct Cycle {
    period_ns: u64,
    first_ns: u64,
    number: u64,
    overrun: Overrun,
    /// Cycles that were still busy when the next one was due.
    pub overruns: u64,
    /// Cycles left out.
    pub skipped: u64,
}

impl Cycle {
    /// Begins at or after `not_before_ns`, `phase_ns` behind a whole multiple of the period on a common time line. That line is
    /// `common_offset_ns` ahead of the local clock, so that the phases of nodes with a common clock relate to each other.
    pub fn new(period_ns: u64, phase_ns: u64, not_before_ns: u64, common_offset_ns: u64, overrun: Overrun) -> Self {
        let period_ns = period_ns.max(1);
        let phase_ns = phase_ns % period_ns;
        let since = (common_offset_ns.saturating_add(not_before_ns) % period_ns + period_ns - phase_ns) % period_ns;
        let first_ns = not_before_ns.saturating_add(if since == 0 { 0 } else { period_ns - since });
        Self { period_ns, first_ns, number: 0, overrun, overruns: 0, skipped: 0 }
    }

    /// The present cycle's number, 0 for the first.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the present cycle is due, in ns of the local clock.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.first_ns.saturating_add(self.number.saturating_mul(self.period_ns))
    }

    /// Ends the present cycle at `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.number += 1;
        let late_ns = now_ns.saturating_sub(self.due_ns());
        if late_ns == 0 {
            return;
        }
        self.overruns += 1;
        if self.overrun == Overrun::Skip {
            let passed = late_ns.div_ceil(self.period_ns);
            self.skipped += passed;
            self.number += passed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cycles_begin_at_their_phase_of_the_common_time() {
        let cycle = Cycle::new(1000, 300, 10_050, 7, Overrun::Skip);
        assert_eq!((cycle.due_ns() + 7) % 1000, 300);
        assert_eq!(cycle.due_ns(), 10_293);
        assert_eq!(Cycle::new(1000, 0, 5000, 0, Overrun::Skip).due_ns(), 5000, "a time that fits is taken");
    }

    #[test]
    fn what_was_too_late_is_skipped_or_caught_up_and_counted() {
        for (overrun, due, skipped) in [(Overrun::Skip, 4000, 3), (Overrun::CatchUp, 1000, 0)] {
            let mut cycle = Cycle::new(1000, 0, 0, 0, overrun);
            cycle.advance(900);
            assert_eq!((cycle.due_ns(), cycle.overruns), (1000, 0), "in time");
            let mut cycle = Cycle::new(1000, 0, 0, 0, overrun);
            cycle.advance(3001);
            assert_eq!((cycle.due_ns(), cycle.overruns, cycle.skipped), (due, 1, skipped), "{overrun:?}");
            assert_eq!(cycle.number(), due / 1000);
        }
        let mut exact = Cycle::new(1000, 0, 0, 0, Overrun::Skip);
        exact.advance(1000);
        assert_eq!((exact.number(), exact.overruns), (1, 0), "due just now is not late");
    }

    proptest! {
        #[test]
        fn every_cycle_is_run_or_skipped(busy in prop::collection::vec(0_u64..5000, 1..200), skips in any::<bool>()) {
            let overrun = if skips { Overrun::Skip } else { Overrun::CatchUp };
            let mut cycle = Cycle::new(1000, 0, 0, 0, overrun);
            let mut now = 0;
            for busy in &busy {
                now = u64::max(now, cycle.due_ns()) + busy;
                cycle.advance(now);
                prop_assert!(overrun == Overrun::CatchUp || cycle.due_ns() >= now);
            }
            prop_assert_eq!(cycle.number(), busy.len() as u64 + cycle.skipped);
        }
    }
}
