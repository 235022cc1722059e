//! The limit of messages a second that an endpoint's owner sets.

use model::TickRate;

/// The owner's limit of messages a second: the generic cell rate algorithm (ITU-T I.371) with a second of tolerance, so
/// that bursts and catching up are answered within the mean.
#[derive(Debug)]
pub struct RateBudget {
    /// Ticks that a message is worth, and the part of one below it, in 1/2^32.
    cost: u64,
    part: u64,
    carried: u64,
    second: u64,
    /// When the messages answered so far would have come at the limit.
    due: u64,
}

impl RateBudget {
    /// Of `pps` messages a second, in ticks of this rate.
    pub fn new(rate: TickRate, pps: u32) -> Self {
        let second = rate.ticks(1_000_000_000);
        let wide = (u128::from(second) << 32) / u128::from(pps.max(1));
        let cost = u64::try_from(wide >> 32).unwrap_or(u64::MAX);
        let part = u64::try_from(wide & u128::from(u32::MAX)).unwrap_or(0);
        Self { cost, part, carried: 0, second, due: 0 }
    }

    /// Whether a message that came at `now` may be answered.
    #[inline]
    pub fn allows(&mut self, now: u64) -> bool {
        let from = self.due.max(now.saturating_sub(self.second));
        if from > now {
            return false;
        }
        self.carried += self.part;
        self.due = from + self.cost + (self.carried >> 32);
        self.carried &= u64::from(u32::MAX);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_saved_for_a_second_at_most() {
        // A limit that a pause lifts for ever, or one that is kept by dropping everything.
        let mut budget = RateBudget::new(TickRate::NANOSECONDS, 10);
        let second = 1_000_000_000;
        let allowed = |budget: &mut RateBudget, now| (0..100).filter(|_| budget.allows(now)).count();
        assert_eq!(allowed(&mut budget, 5 * second), 11);
        assert_eq!(allowed(&mut budget, 5 * second + second / 2), 5);
        assert_eq!(allowed(&mut budget, 500 * second), 11);
    }
}
