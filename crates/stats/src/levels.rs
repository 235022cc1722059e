//! Levels that values are counted between, with a quick way to a value's place among them.

use crate::Tally;

pub(crate) const LEVELS: usize = 31;

/// What shares are counted at: ends of buckets of a tally, so that a value's bucket says which it is above.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    /// Ascending.
    levels: [u64; LEVELS],
    /// By a value's bucket: how many levels are below the bucket.
    below: Box<[u8]>,
}

impl Levels {
    /// Of which each value is below all.
    pub(crate) fn new() -> Self {
        let mut below = vec![1; Tally::BUCKETS].into_boxed_slice();
        std::hint::black_box(&mut below).fill(0);
        Self { levels: [u64::MAX; LEVELS], below }
    }

    /// Levels at the ends of the buckets that hold some values.
    pub(crate) fn set(&mut self, values: impl Iterator<Item = u64>) {
        for (slot, value) in self.levels.iter_mut().zip(values) {
            *slot = Tally::bucket_end(value);
        }
        self.levels.sort_unstable();
        let mut rest = 0;
        for (number, level) in (0..).zip(&self.levels) {
            let after = Tally::bucket(*level) + 1;
            self.below[rest..after].fill(number);
            self.below[after..].fill(number + 1);
            rest = after;
        }
    }

    #[inline]
    pub(crate) fn below(&self, bucket: usize) -> usize {
        self.below.get(bucket).map_or(LEVELS, |below| usize::from(*below))
    }

    pub(crate) fn all(&self) -> &[u64; LEVELS] {
        &self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HOUR_NS, SplitMix64};

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
                let value = value.min(HOUR_NS);
                let searched = levels.levels.partition_point(|level| *level < value);
                assert_eq!(levels.below(Tally::bucket(value)), searched, "{value}: {:?}", levels.levels);
            }
        }
    }
}
