//! The retransmission time-out (RFC 6298).

use crate::TcpOptions;
use crate::time::{MS, SECOND};

/// Smoothed round-trip time and its variation, in ns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    /// SRTT; 0 before the first measurement.
    pub(crate) smoothed: u64,
    /// RTTVAR.
    pub(crate) variation: u64,
    /// The time-out before the first measurement.
    initial: u64,
    /// A higher floor: the other end acknowledges later than the floor of the options allows for.
    pub(crate) patience: u64,
    /// Measurements since a retransmission was not needed, or since the patience was halved.
    calm: u8,
}

/// The longest delay of acknowledgments that patience covers: that of Linux in its usual mode, and some.
const LONGEST_PATIENCE: u64 = 50 * MS;
/// Measurements after which patience is halved.
const CALM: u8 = 16;

impl RoundTrip {
    pub(crate) fn new(initial: u64) -> Self {
        Self { initial, ..Self::default() }
    }

    /// Takes a measurement of a segment that was sent once (Karn's algorithm is the caller's).
    pub(crate) fn measured(&mut self, sample: u64) {
        let sample = sample.max(1);
        if self.smoothed == 0 {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            // beta 1/4, alpha 1/8.
            self.variation = self.variation - self.variation / 4 + self.smoothed.abs_diff(sample) / 4;
            self.smoothed = (self.smoothed - self.smoothed / 8 + sample / 8).max(1);
        }
        if self.patience > 0 {
            self.calm += 1;
            if self.calm == CALM {
                (self.patience, self.calm) = (self.patience / 2, 0);
            }
        }
    }

    /// The SYN was sent more than once: nothing was measured, data begin with 3 s (section 5.7).
    pub(crate) fn syn_was_lost(&mut self) {
        if self.smoothed == 0 {
            self.initial = self.initial.saturating_mul(3).min(3 * SECOND).max(self.initial);
        }
    }

    /// RTO without back-off; `delayed`: the other end may delay its acknowledgment. The floor is added to SRTT as Linux does it,
    /// because what it has to cover, the delay of acknowledgments at the other end, adds to the time on the path.
    pub(crate) fn timeout(&self, options: &TcpOptions, delayed: bool) -> u64 {
        if self.smoothed == 0 {
            return self.initial;
        }
        let patience = if delayed { self.patience } else { 0 };
        (self.smoothed + (4 * self.variation).max(options.rto_min_ns).max(patience)).min(options.rto_max_ns)
    }

    /// A retransmission of what may be acknowledged late was not needed: the other end had the segment, and its acknowledgment
    /// was late or lost. The first makes the next one needless too, so patience grows; the second does not, so it wanes.
    pub(crate) fn was_impatient(&mut self, options: &TcpOptions) {
        self.patience = (2 * self.patience.max(options.rto_min_ns)).min(LONGEST_PATIENCE);
        self.calm = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_rfc_6298() {
        let options = TcpOptions { rto_min_ns: 1, ..TcpOptions::default() };
        let mut round_trip = RoundTrip::new(SECOND);
        assert_eq!(round_trip.timeout(&options, true), SECOND);
        round_trip.measured(100 * MS);
        assert_eq!((round_trip.smoothed, round_trip.variation), (100 * MS, 50 * MS));
        assert_eq!(round_trip.timeout(&options, true), 300 * MS);
        round_trip.measured(200 * MS);
        // RTTVAR <- 3/4 * 50 + 1/4 * 100; SRTT <- 7/8 * 100 + 1/8 * 200.
        assert_eq!((round_trip.smoothed, round_trip.variation), (112 * MS + MS / 2, 62 * MS + MS / 2));
        let floor = TcpOptions { rto_min_ns: 500 * MS, ..options };
        assert_eq!(round_trip.timeout(&floor, true), 612 * MS + MS / 2);
        assert_eq!(round_trip.timeout(&TcpOptions { rto_max_ns: 200 * MS, ..floor }, true), 200 * MS);
    }

    #[test]
    fn a_lost_syn_makes_three_seconds() {
        let mut round_trip = RoundTrip::new(SECOND);
        round_trip.syn_was_lost();
        assert_eq!(round_trip.timeout(&TcpOptions::default(), true), 3 * SECOND);
    }

    #[test]
    fn patience_grows_by_needless_retransmissions_and_wanes_without() {
        let options = TcpOptions { rto_min_ns: 5 * MS, ..TcpOptions::default() };
        let mut round_trip = RoundTrip::new(SECOND);
        round_trip.measured(MS);
        let floor = |round_trip: &RoundTrip| (round_trip.timeout(&options, true) - round_trip.smoothed) / MS;
        assert_eq!(floor(&round_trip), 5);
        for expected in [10, 20, 40, 50, 50] {
            round_trip.was_impatient(&options);
            assert_eq!(floor(&round_trip), expected);
        }
        for expected in [25, 12, 6, 5, 5] {
            for _ in 0..16 {
                round_trip.measured(MS);
            }
            assert_eq!(floor(&round_trip), expected);
        }
        // It never adds to a floor that is longer.
        let usual = TcpOptions::default();
        round_trip.was_impatient(&usual);
        assert_eq!((round_trip.timeout(&usual, true) - round_trip.smoothed) / MS, 200);
    }
}
