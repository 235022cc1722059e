//! How fast packets may follow each other: a token bucket and a leaky bucket (section 5.1.2).
//!
//! NAKs are limited, too (section 6.3): forged packets must not make a receiver flood an address. A source earns NAK
//! bytes by its data packets, so NAKs never exceed the stream; a small constant rate remains without data.

const SECOND: u128 = 1_000_000_000;
/// The longest NAK in bytes: 63 numbers, IPv6 addresses.
const NAK_BYTES: usize = 316;

/// Both buckets. Exact: what is left is kept in bytes times nanoseconds, so no rate loses anything to rounding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limiter {
    rate: u128,
    peak: u64,
    /// Bucket size and content, in bytes x 10⁹. The content may go below nothing, as far down as the size: by NCFs.
    size: i128,
    tokens: i128,
    filled_ns: u64,
    /// When the leaky bucket is empty again.
    free_ns: u64,
}

fn signed(value: u128) -> i128 {
    i128::try_from(value).unwrap_or(i128::MAX)
}

impl Limiter {
    pub(crate) fn new(rate: u64, peak: u64, burst: u64, now_ns: u64) -> Self {
        let size = signed(u128::from(burst) * SECOND);
        Self { rate: u128::from(rate), peak, size, tokens: size, filled_ns: now_ns, free_ns: now_ns }
    }

    /// For NAKs to one source: a window of 8192 numbers at once (131 NAKs of 63 numbers, IPv4), then 8 KiB each second.
    pub(crate) fn naks_to_one() -> Self {
        Self::new(8 << 10, u64::MAX, 40 << 10, 0)
    }

    /// For NAKs to all sources together.
    pub(crate) fn naks_to_all() -> Self {
        Self::new(32 << 10, u64::MAX, 160 << 10, 0)
    }

    /// Credit for data packets of `bytes`.
    #[inline]
    pub(crate) fn earn(&mut self, bytes: usize) {
        // It is full as long as nothing is lost.
        if self.tokens < self.size {
            self.tokens = self.tokens.saturating_add(signed(bytes as u128 * SECOND)).min(self.size);
        }
    }

    /// When a NAK may go out, as far as is known now.
    pub(crate) fn nak_ready_ns(&self) -> u64 {
        self.when(self.filled_ns, NAK_BYTES, self.tokens)
    }

    /// Whether a NAK may go out.
    pub(crate) fn allows_nak(&mut self, now_ns: u64) -> bool {
        self.earliest(now_ns, NAK_BYTES) <= now_ns
    }

    fn fill(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.filled_ns);
        if elapsed == 0 {
            return;
        }
        self.filled_ns = now_ns;
        self.tokens = self.tokens.saturating_add(signed(u128::from(elapsed) * self.rate)).min(self.size);
    }

    /// When a packet of `bytes` may go out; `now_ns` or before: at once.
    pub(crate) fn earliest(&mut self, now_ns: u64, bytes: usize) -> u64 {
        self.fill(now_ns);
        self.when(now_ns, bytes, self.tokens)
    }

    /// When an urgent packet may go out. It borrows up to one more bucket: no interval has more than two and the rate.
    pub(crate) fn earliest_urgent(&mut self, now_ns: u64, bytes: usize) -> u64 {
        self.fill(now_ns);
        self.when(now_ns, bytes, self.tokens.saturating_add(self.size))
    }

    fn when(&self, now_ns: u64, bytes: usize, tokens: i128) -> u64 {
        let missing = signed(bytes as u128 * SECOND).saturating_sub(tokens);
        if missing <= 0 {
            return now_ns.max(self.free_ns);
        }
        let wait = u128::try_from(missing).unwrap_or(0).div_ceil(self.rate.max(1));
        let by_tokens = now_ns.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        by_tokens.max(self.free_ns)
    }

    /// A packet of `bytes` goes out, whether it should have waited or not.
    pub(crate) fn take(&mut self, now_ns: u64, bytes: usize) {
        self.fill(now_ns);
        self.tokens = self.tokens.saturating_sub(signed(bytes as u128 * SECOND));
        // Rounded down: a peak above a byte a nanosecond is none.
        let lasts = (bytes as u64).saturating_mul(1_000_000_000) / self.peak.max(1);
        self.free_ns = self.free_ns.max(now_ns).saturating_add(lasts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        // 1000 bytes a second, 300 at once, no peak to speak of.
        let mut limiter = Limiter::new(1000, 1_000_000_000, 300, 0);
        for _ in 0..3 {
            assert_eq!(limiter.earliest(1000, 100), 1000.max(limiter.free_ns));
            limiter.take(1000, 100);
        }
        assert!(limiter.earliest(1000, 100) > 99_000_000);
        let next = limiter.earliest(1000, 100);
        assert!(limiter.earliest(next, 100) <= next);
    }

    #[test]
    fn the_peak_keeps_neighbours_apart() {
        let mut limiter = Limiter::new(1_000_000, 1_000_000, 100_000, 5);
        limiter.take(5, 1000);
        assert_eq!(limiter.earliest(5, 1000), 5 + 1_000_000);
    }

    #[test]
    fn what_is_urgent_borrows_one_bucket_more() {
        let mut limiter = Limiter::new(1000, 1_000_000_000, 300, 0);
        limiter.take(0, 300);
        assert!(limiter.earliest(1000, 100) > 99_000_000);
        for _ in 0..3 {
            assert!(limiter.earliest_urgent(1000, 100) <= 1300);
            limiter.take(1000, 100);
        }
        assert!(limiter.earliest_urgent(1000, 100) > 99_000_000);
    }

    #[test]
    fn credit_for_naks_is_spent_earned_and_comes_back_with_time() {
        let mut limiter = Limiter { tokens: 400 * 1_000_000_000, ..Limiter::new(1000, u64::MAX, 1000, 0) };
        assert!(limiter.allows_nak(0) && limiter.nak_ready_ns() == 0);
        limiter.take(0, 400);
        assert!(!limiter.allows_nak(0));
        assert_eq!(limiter.nak_ready_ns(), 316_000_000);
        assert!(!limiter.allows_nak(315_000_000) && limiter.allows_nak(316_000_000));
        limiter.take(316_000_000, 316);
        limiter.earn(316);
        assert!(limiter.allows_nak(316_000_000));
        limiter.earn(1_000_000_000);
        limiter.take(316_000_000, 700);
        assert!(!limiter.allows_nak(316_000_000), "credit has a bound");
    }

    proptest! {
        /// Section 5.1.2: over any interval no more than the bucket and the rate times the interval.
        #[test]
        fn no_interval_has_more(
            rate in 1_u64..1_000_000_000,
            burst in 1500_u64..100_000,
            packets in proptest::collection::vec((1_usize..1500, 0_u64..100_000_000), 1..60),
        ) {
            let mut limiter = Limiter::new(rate, rate.saturating_mul(10), burst, 0);
            let mut now = 0;
            let mut sent: Vec<(u64, u128)> = Vec::new();
            for (bytes, idle) in packets {
                now = limiter.earliest(now + idle, bytes).max(now + idle);
                limiter.take(now, bytes);
                sent.push((now, bytes as u128));
            }
            for from in 0..sent.len() {
                let mut total = 0;
                for &(at, bytes) in &sent[from..] {
                    total += bytes;
                    let allowed = u128::from(burst) * SECOND + u128::from(rate) * u128::from(at - sent[from].0);
                    prop_assert!(total * SECOND <= allowed, "{} bytes", total);
                }
            }
        }
    }
}
