//! Which sequence numbers have arrived: the highest, and each of the 1024 up to it.

/// Words of the window's bits.
const WORDS: usize = 16;
/// How far behind the highest number a late one is still told from a duplicate.
const WIDTH: u64 = WORDS as u64 * 64;

/// What a sequence number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Higher than all before; so many between them have not arrived.
    Ahead(u64),
    /// Arrived after a higher one, for the first time. Counted as missing before.
    Late,
    /// As above, lower than the first number that arrived: never counted as missing.
    Before,
    Duplicate,
    /// Too far behind to tell.
    Ancient,
}

#[derive(Debug, Clone)]
pub(crate) struct Window {
    bits: [u64; WORDS],
    highest: u64,
    floor: u64,
}

impl Window {
    /// Begins with number `floor`: of those below nothing is known. `first` has arrived.
    pub(crate) fn new(floor: u64, first: u64) -> Self {
        let mut window = Self { bits: [0; WORDS], highest: first, floor };
        window.mark(first);
        window
    }

    fn bit(number: u64) -> (usize, u64) {
        let at = number % WIDTH;
        let word = (at / 64) as usize;
        (word, 1 << (at % 64))
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = Self::bit(number);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    #[inline]
    pub(crate) fn offer(&mut self, number: u64) -> Seen {
        if number > self.highest {
            let between = number - self.highest - 1;
            if between >= WIDTH {
                self.bits = [0; WORDS];
            } else {
                for passed in self.highest + 1..=number {
                    let (word, bit) = Self::bit(passed);
                    if let Some(word) = self.bits.get_mut(word) {
                        *word &= !bit;
                    }
                }
            }
            self.highest = number;
            self.mark(number);
            return Seen::Ahead(between);
        }
        if self.highest - number >= WIDTH {
            return Seen::Ancient;
        }
        let (word, bit) = Self::bit(number);
        if self.bits.get(word).is_some_and(|word| word & bit != 0) {
            return Seen::Duplicate;
        }
        self.mark(number);
        if number < self.floor { Seen::Before } else { Seen::Late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart_within_the_window() {
        let mut window = Window::new(10, 10);
        let told = [12, 11, 11, 9, 9, 10, 12, 2000, 977, 976, 12].map(|number| window.offer(number));
        use Seen::{Ahead, Ancient, Before, Duplicate, Late};
        assert_eq!(
            told,
            [Ahead(1), Late, Duplicate, Before, Duplicate, Duplicate, Duplicate, Ahead(1987), Late, Ancient, Ancient]
        );
        assert_eq!(window.offer(u64::MAX), Ahead(u64::MAX - 2001));
        assert_eq!(window.offer(u64::MAX), Duplicate);
    }
}
