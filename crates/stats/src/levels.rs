//! Levels that values are counted between, with a quick way to a value's place among them.

use crate::{HOUR_NS, Tally};

/// How many there are.
pub(crate) const LEVELS: usize = 31;

/// What shares are counted at, with the way to a value's place among them.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    /// Ascending.
    levels: [u64; LEVELS],
    /// By a value's bucket in a tally: how many levels are below the bucket, or [`SEARCHED`].
    below: Box<[u8]>,
}

/// Of a bucket with several levels, and of those above the last level: values are looked up among the levels.
const SEARCHED: u8 = u8::MAX;

impl Levels {
    /// Of which each value is below all.
    pub(crate) fn new() -> Self {
        let mut below = vec![1; Tally::BUCKETS].into_boxed_slice();
        std::hint::black_box(&mut below).fill(0);
        Self { levels: [u64::MAX; LEVELS], below }
    }

    pub(crate) fn set(&mut self, levels: impl Iterator<Item = u64>) {
        for (slot, level) in self.levels.iter_mut().zip(levels) {
            *slot = level;
        }
        self.levels.sort_unstable();
        let mut rest = 0;
        for (number, level) in (0..).zip(&self.levels) {
            let at = Tally::bucket(*level);
            if at < rest {
                self.below[at] = SEARCHED;
            } else {
                self.below[rest..=at].fill(number);
                rest = at + 1;
            }
        }
        self.below[rest..].fill(SEARCHED);
    }

    /// How many levels are below a value.
    #[inline]
    pub(crate) fn below(&self, value: u64) -> usize {
        match self.below.get(Tally::bucket(value)) {
            Some(&below) if below != SEARCHED && value <= HOUR_NS => {
                let below = usize::from(below);
                below + usize::from(self.levels.get(below).is_some_and(|level| *level < value))
            }
            _ => self.levels.partition_point(|level| *level < value),
        }
    }

    /// In ascending order.
    pub(crate) fn all(&self) -> &[u64; LEVELS] {
        &self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    /// Catches: a value that is counted between other levels than those that it lies between.
    #[test]
    fn places_among_the_levels_are_those_of_a_search() {
        let mut random = SplitMix64::new(11);
        for spread in [3, 40, 5_000, 3_000_000, HOUR_NS * 3] {
            let mut levels = Levels::new();
            levels.set((0..LEVELS).map(|_| 9_000 + random.next_u64() % spread));
            let near = levels.levels.iter().flat_map(|level| [level - 1, *level, level + 1]).collect::<Vec<_>>();
            let far = (0..10_000).map(|_| random.next_u64() >> (random.next_u64() % 64));
            for value in near.into_iter().chain(far) {
                assert_eq!(
                    levels.below(value),
                    levels.levels.partition_point(|level| *level < value),
                    "{value}: {levels:?}"
                );
            }
        }
    }
}
