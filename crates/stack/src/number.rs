//! Numbers: sequence numbers of TCP, narrowing without surprise, and randomness that can be replayed.

/// A sequence number of TCP (RFC 9293, section 3.4): arithmetic modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Seq(pub(crate) u32);

impl Seq {
    pub(crate) const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    pub(crate) const fn minus(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }

    /// Numbers from `earlier` to this one.
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    pub(crate) const fn before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) >= 1 << 31
    }

    pub(crate) const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    pub(crate) const fn at_least(self, other: Self) -> bool {
        !self.before(other)
    }

    pub(crate) const fn at_most(self, other: Self) -> bool {
        !other.before(self)
    }

    pub(crate) const fn later(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    pub(crate) const fn earlier(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

/// A length as 32 bits. Lengths here are bounded by buffers, which are shorter.
pub(crate) fn long(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A length as 16 bits. Lengths here are bounded by frames, which are shorter.
pub(crate) fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
pub(crate) const fn low(number: u64) -> u32 {
    number as u32
}

/// The low 64 bits folded with the high ones.
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
pub(crate) const fn fold(wide: u128) -> u64 {
    (wide as u64) ^ ((wide >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_are_ordered_across_the_wrap() {
        let (late, early) = (Seq(5), Seq(u32::MAX - 5));
        assert!(early.before(late) && late.after(early) && !early.after(late));
        assert_eq!((late.since(early), early.later(late), early.earlier(late)), (11, late, early));
        assert!(late.at_least(late) && late.at_most(late) && !late.before(late));
    }
}
