//! Stalls of an open loop. Messages go on falling due meanwhile, so many of them see one stall: those that overlap are one.

use crate::recorder::{MOST_SLOW, SLOW_MEDIANS, SLOW_NS};

/// Joined times in the order of their ends. Memory is bounded: later stalls than the first 4096 are not kept.
#[derive(Debug)]
pub(super) struct Stalls {
    /// Times shorter than this need not be offered.
    pub(super) threshold_ns: u64,
    open: Option<(u64, u64)>,
    found: Vec<(u64, u64)>,
}

impl Default for Stalls {
    fn default() -> Self {
        Self { threshold_ns: SLOW_NS, open: None, found: Vec::new() }
    }
}

impl Stalls {
    /// Sets the threshold by the median that is usual.
    pub(super) fn judge_by(&mut self, median_ns: u64) {
        self.threshold_ns = median_ns.saturating_mul(SLOW_MEDIANS).max(SLOW_NS);
    }

    /// A message that was due at `at_ns` took `took_ns`.
    #[cold]
    pub(super) fn offer(&mut self, start_ns: u64, width_ns: u64) {
        let end_ns = start_ns.saturating_add(width_ns);
        match &mut self.open {
            Some((start, end)) if start_ns <= *end => {
                *start = (*start).min(start_ns);
                *end = (*end).max(end_ns);
            }
            _ => {
                self.close();
                self.open = Some((start_ns, end_ns));
            }
        }
    }

    fn close(&mut self) {
        if let Some((start, end)) = self.open.take()
            && self.found.len() < MOST_SLOW
        {
            self.found.push((start, end - start));
        }
    }

    /// Start and length of each.
    pub(super) fn finish(mut self) -> Vec<(u64, u64)> {
        self.close();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_one_stall() {
        let mut stalls = Stalls::default();
        // 50 ms from 100 ms on, seen by messages each 10 ms; the last ones were answered out of order.
        for due in [100, 110, 130, 120, 140] {
            stalls.offer(due, 150 - due);
        }
        stalls.offer(400, 7);
        assert_eq!(stalls.finish(), [(100, 50), (400, 7)]);
    }

    #[test]
    fn the_median_sets_the_threshold() {
        let mut stalls = Stalls::default();
        assert_eq!(stalls.threshold_ns, 1_000_000);
        stalls.judge_by(1000);
        assert_eq!(stalls.threshold_ns, 1_000_000);
        stalls.judge_by(300_000);
        assert_eq!(stalls.threshold_ns, 6_000_000);
    }
}
