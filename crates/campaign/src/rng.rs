//! A small random generator that gives the same order for the same seed on every machine and in every version.

/// splitmix64 (Steele, Lea, Flood 2014): a counter in steps of the golden ratio, mixed. Not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which is above 0), each equally likely: draws from the last, incomplete stretch are
    /// thrown away.
    fn below(&mut self, bound: u64) -> u64 {
        let last_whole = u64::MAX - u64::MAX % bound;
        loop {
            let drawn = self.next();
            if drawn < last_whole {
                return drawn % bound;
            }
        }
    }

    /// Fisher-Yates: every order is equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
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
        let mut rng = Rng::new(1_234_567);
        assert_eq!([rng.next(), rng.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn every_place_is_reached() {
        let mut seen = [[0u32; 4]; 4];
        for seed in 0..4000 {
            let mut items = [0usize, 1, 2, 3];
            Rng::new(seed).shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                seen[item][place] += 1;
            }
        }
        // 1000 expected; 6 standard deviations of a binomial with p = 1/4 are 164.
        assert!(seen.iter().flatten().all(|&count| (836..1164).contains(&count)), "{seen:?}");
    }
}
