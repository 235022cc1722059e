//! A bound on NAKs (RFC 3208, section 6.3 and its cautions on traffic): whoever forges packets of a source must not make
//! a receiver flood the address that they name.
//!
//! Credit is in bytes. A source earns as many as its data packets have, so NAKs never take more than the stream itself,
//! and a busy stream with heavy losses is asked for all it lost. Without data a small constant rate is left, for a source
//! that stands still and for a loss at its end.

/// The longest NAK in bytes: 63 numbers, IPv6 addresses.
pub(super) const NAK_BYTES: u64 = 316;

/// Credit for NAKs of one source, or of all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    credit_bytes: u64,
    most_bytes: u64,
    bytes_per_second: u64,
    /// Credit up to this time is in `credit_bytes`.
    at_ns: u64,
}

impl Budget {
    /// Of one source: a whole window of 8192 numbers can be asked for at once (131 NAKs of 63 numbers, IPv4), then 64 KiB
    /// each second.
    pub(super) const SOURCE: Self = Self::new(64 << 10);
    /// Of all sources together.
    pub(super) const ALL: Self = Self::new(256 << 10);

    const fn new(bytes: u64) -> Self {
        Self { credit_bytes: bytes, most_bytes: bytes, bytes_per_second: bytes, at_ns: 0 }
    }

    /// Data packets came that have so many bytes.
    #[inline]
    pub(super) fn earn(&mut self, bytes: usize) {
        self.credit_bytes = self.credit_bytes.saturating_add(bytes as u64).min(self.most_bytes);
    }

    /// When there is credit for a NAK; 0: it is there already.
    pub(super) fn ready_ns(&self) -> u64 {
        let short = u128::from(NAK_BYTES.saturating_sub(self.credit_bytes));
        if short == 0 {
            return 0;
        }
        let wait = (short * 1_000_000_000).div_ceil(u128::from(self.bytes_per_second));
        self.at_ns.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Whether there is credit for a NAK.
    pub(super) fn allows(&mut self, now_ns: u64) -> bool {
        let passed = u128::from(now_ns.saturating_sub(self.at_ns));
        let earned = passed * u128::from(self.bytes_per_second) / 1_000_000_000;
        // Less than a byte stays for later.
        if earned > 0 {
            let earned = u64::try_from(earned).unwrap_or(u64::MAX);
            self.credit_bytes = self.credit_bytes.saturating_add(earned).min(self.most_bytes);
            self.at_ns = now_ns;
        }
        self.credit_bytes >= NAK_BYTES
    }

    /// A NAK of so many bytes goes out.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.credit_bytes = self.credit_bytes.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_spent_earned_and_comes_back_with_time() {
        let mut budget = Budget { credit_bytes: 400, most_bytes: 1000, bytes_per_second: 1000, at_ns: 0 };
        assert!(budget.allows(0) && budget.ready_ns() == 0);
        budget.spend(400);
        assert!(!budget.allows(0));
        assert_eq!(budget.ready_ns(), 316_000_000);
        assert!(!budget.allows(315_000_000) && budget.allows(316_000_000));
        budget.spend(316);
        budget.earn(316);
        assert!(budget.allows(316_000_000));
        budget.earn(usize::MAX);
        budget.spend(700);
        assert!(!budget.allows(316_000_000), "credit has a bound");
    }
}
