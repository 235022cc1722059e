//! Congestion control: slow start and congestion avoidance of RFC 5681, with the initial window of RFC 6928 and byte
//! counting (RFC 3465). CUBIC differs from it only where the window is large and the round trip long (RFC 9438, section
//! 4.3), which a network of microseconds is not.

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Congestion {
    /// cwnd.
    pub(crate) window: u32,
    /// ssthresh.
    pub(crate) threshold: u32,
    /// Acknowledged bytes that have not yet widened the window in congestion avoidance.
    credit: u32,
}

impl Congestion {
    /// The window at the start, for full segments of this size.
    pub(crate) fn new(mss: u32) -> Self {
        Self { window: initial_window(mss), threshold: u32::MAX >> 1, credit: 0 }
    }

    /// The SYN was lost: the window begins with one segment (RFC 5681, section 3.1).
    pub(crate) fn syn_was_lost(&mut self, mss: u32) {
        self.window = mss;
    }

    /// New data were acknowledged. Without a full window it does not grow: it was not tried out (RFC 7661).
    pub(crate) fn acknowledged(&mut self, bytes: u32, mss: u32, was_full: bool, after_timeout: bool) {
        if !was_full {
            return;
        }
        if self.window < self.threshold {
            self.window += bytes.min(if after_timeout { mss } else { 2 * mss });
        } else {
            self.credit += bytes;
            if self.credit >= self.window {
                self.credit -= self.window;
                self.window += mss;
            }
        }
        self.window = self.window.min(1 << 30);
    }

    /// Segments were lost while so much was in flight.
    pub(crate) fn lost(&mut self, in_flight: u32, mss: u32) {
        self.threshold = (in_flight / 2).max(2 * mss);
        self.window = self.threshold;
        self.credit = 0;
    }

    /// The retransmission timer fired, for the first time or again.
    pub(crate) fn timed_out(&mut self, in_flight: u32, mss: u32, again: bool) {
        if !again {
            self.threshold = (in_flight / 2).max(2 * mss);
        }
        self.window = mss;
        self.credit = 0;
    }

    /// Nothing was sent for a while.
    pub(crate) fn restarted(&mut self, mss: u32) {
        self.window = self.window.min(initial_window(mss));
    }
}

fn initial_window(mss: u32) -> u32 {
    (10 * mss).min(14_600.max(2 * mss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_doubles_then_grows_by_a_segment_a_round() {
        let mut congestion = Congestion::new(1000);
        assert_eq!(congestion.window, 10_000);
        for _ in 0..10 {
            congestion.acknowledged(1000, 1000, true, false);
        }
        assert_eq!(congestion.window, 20_000);
        congestion.acknowledged(1000, 1000, false, false);
        assert_eq!(congestion.window, 20_000, "it was not full");
        congestion.lost(20_000, 1000);
        assert_eq!((congestion.window, congestion.threshold), (10_000, 10_000));
        for _ in 0..10 {
            congestion.acknowledged(1000, 1000, true, false);
        }
        assert_eq!(congestion.window, 11_000);
        congestion.timed_out(11_000, 1000, false);
        congestion.timed_out(1000, 1000, true);
        assert_eq!((congestion.window, congestion.threshold), (1000, 5500));
    }
}
