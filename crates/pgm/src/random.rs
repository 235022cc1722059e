//! Randomness that can be replayed.

/// SplitMix64 (Steele, Lea & Flood, Fast Splittable Pseudorandom Number Generators, 2014): enough for back-off times, not for secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 when that is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // The high half of the product: no modulo, and a bias that no timer sees.
        let wide = u128::from(self.next()) * u128::from(limit);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}
