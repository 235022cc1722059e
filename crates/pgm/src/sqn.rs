//! Sequence numbers.

use std::fmt;

/// The number of a data packet or an SPM: 32 bits that wrap around (RFC 3208, section 3.2).
///
/// Two numbers are ordered only when they are less than 2³¹ apart, the shorter way around the circle; a window never spans
/// more. There is deliberately no `Ord`: it would not be transitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sqn(pub u32);

impl Sqn {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The number before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// The number `count` later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Whether it lies before `other`. Of two numbers exactly 2³¹ apart neither lies before the other.
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead < 1 << 31
    }

    /// Whether it lies after `other`.
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// Of two numbers the one that does not lie before the other.
    pub(crate) fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Of two numbers the one that does not lie after the other.
    pub(crate) fn earlier(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }

    /// This number and those after it that lie before `end`.
    pub(crate) fn until(self, end: Self) -> impl Iterator<Item = Self> + use<> {
        let count = if self.is_before(end) { end.distance_from(self) } else { 0 };
        (0..count).map(move |at| self.plus(at))
    }

    /// Numbers from `earlier`, excluded, to this one: 0 when they are the same. Meant for one window, where it is below 2³¹.
    pub const fn distance_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl fmt::Display for Sqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_goes_around_the_circle() {
        let last = Sqn(u32::MAX);
        assert_eq!(last.next(), Sqn(0));
        assert_eq!(Sqn(0).previous(), last);
        assert!(last.is_before(Sqn(0)) && Sqn(0).is_after(last));
        assert!(Sqn(5).is_before(Sqn(6)) && !Sqn(6).is_before(Sqn(5)) && !Sqn(5).is_before(Sqn(5)));
        assert_eq!(Sqn(3).distance_from(Sqn(u32::MAX - 1)), 5);
        assert_eq!(Sqn(u32::MAX - 1).plus(5), Sqn(3));
        assert_eq!((last.later(Sqn(0)), last.earlier(Sqn(0))), (Sqn(0), last));
        assert_eq!(last.until(Sqn(1)).collect::<Vec<_>>(), [last, Sqn(0)]);
        assert_eq!(Sqn(1).until(last).count(), 0);
    }

    #[test]
    fn opposite_numbers_have_no_order() {
        let (here, there) = (Sqn(7), Sqn(7).plus(1 << 31));
        assert!(!here.is_before(there) && !there.is_before(here));
    }
}
