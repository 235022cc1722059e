//! Values that are recorded together.

use crate::Tally;

/// Neighbouring values, below [`Block::END`], and what each recorder needs of them, worked out once.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    pub(crate) values: [u32; Self::LENGTH],
    /// The bucket of each value in a [`Tally`].
    pub(crate) buckets: [u32; Self::LENGTH],
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) sum: u64,
    pub(crate) squares: u64,
}

impl Block {
    /// How many values it has.
    pub const LENGTH: usize = 32;
    /// Above its values, so that the sum of their squares fits into 64 bits: half a second in ns.
    pub const END: u64 = 1 << 29;

    /// `None` where a value is not below [`Block::END`].
    #[inline]
    pub fn new(values: [u64; Self::LENGTH]) -> Option<Self> {
        let all_bits = values.iter().fold(0, |all, value| all | value);
        if all_bits >= Self::END {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "they are below `END`")]
        let values = values.map(|value| value as u32);
        // Each a loop of its own, which a processor does several values of at a time.
        Some(Self {
            values,
            buckets: values.map(Tally::small_bucket),
            min: values.iter().copied().fold(u32::MAX, u32::min).into(),
            max: values.iter().copied().fold(0, u32::max).into(),
            sum: values.iter().copied().map(u64::from).sum(),
            squares: values.iter().map(|value| u64::from(*value).pow(2)).sum(),
        })
    }

    pub fn max(&self) -> u64 {
        self.max
    }
}
