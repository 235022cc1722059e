//! The random generator of everything that must come out the same again: orders, schedules, permutations, back-off times,
//! simulated networks, test series.

/// splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014): the same numbers for the same
/// seed on every machine and in every version. Not for secrets.
#[derive(Debug, Clone, Default)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Any seed is as good as any other.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below 1, of 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }

    /// A number below `bound`, each equally likely: draws from the last, incomplete stretch are dropped. 0 where `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let last_whole = u64::MAX - u64::MAX % bound;
        loop {
            let drawn = self.next_u64();
            if drawn < last_whole {
                return drawn % bound;
            }
        }
    }

    /// A number below `bound` in one step, some likelier by `bound` / 2^64: for timers and simulations. 0 where `bound` is 0.
    #[inline]
    pub fn scaled(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True in `share` of all cases, from 0 to 1.
    #[inline]
    pub fn happens(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Fisher-Yates: every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let drawn = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(drawn).unwrap_or(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // The first outputs of splitmix64 for seed 1234567, as published with the reference implementation.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!([random.next_u64(), random.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn every_place_is_reached() {
        let mut seen = [[0u32; 4]; 4];
        for seed in 0..4000 {
            let mut items = [0usize, 1, 2, 3];
            SplitMix64::new(seed).shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                seen[item][place] += 1;
            }
        }
        // 1000 expected; 6 standard deviations of a binomial with p = 1/4 are 164.
        assert!(seen.iter().flatten().all(|&count| (836..1164).contains(&count)), "{seen:?}");
    }
}
