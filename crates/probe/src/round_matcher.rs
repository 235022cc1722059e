//! Which round an answer belongs to: the current one, one that had been given up (*late*), or one answered already (*duplicate*).
//!
//! Short messages carry only low bytes of the number; an answer is then of the youngest round that fits. With one byte a
//! straggler from 256 rounds ago looks like the current answer. Nothing here allocates: it is part of the measured loop.

/// Lost rounds that are remembered for late answers; answers of older ones count as duplicates.
const REMEMBERED: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct PendingRound {
    /// Its number on the wire.
    number: u64,
    /// Its number among the timed rounds.
    seq: u64,
    /// When it was sent, in ticks.
    sent: u64,
    /// Answers that have not come; 0: the entry is free.
    missing: u32,
    timed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It belongs to the round in flight, and more answers are to come.
    Part,
    /// It is the last one that the round in flight waited for.
    Whole,
    /// It completes a round that had been counted as lost.
    Late {
        seq: u64,
        sent: u64,
        reordered: bool,
        timed: bool,
    },
    /// It belongs to a lost round that still misses other answers.
    LatePart,
    Duplicate,
}

#[derive(Debug)]
pub(crate) struct RoundMatcher {
    mask: u64,
    current: PendingRound,
    answered: Option<u64>,
    lost: [PendingRound; REMEMBERED],
    next: usize,
}

impl RoundMatcher {
    /// For messages that carry the low `bytes` bytes of the number, 0 to 8; with 0 every answer is the current round's.
    pub(crate) fn new(bytes: usize) -> Self {
        let mask = match bytes {
            0 => 0,
            1..=7 => (1u64 << (8 * bytes)) - 1,
            _ => u64::MAX,
        };
        Self {
            mask,
            current: PendingRound::default(),
            answered: None,
            lost: [PendingRound::default(); REMEMBERED],
            next: 0,
        }
    }

    pub(crate) fn numbered(&self) -> bool {
        self.mask != 0
    }

    /// A round goes out: `number` on the wire, `seq` among the timed ones, and `answers` to come.
    #[inline]
    pub(crate) fn begin(&mut self, number: u64, seq: u64, answers: u32, timed: bool) {
        self.current = PendingRound { number, seq, sent: 0, missing: answers, timed };
    }

    /// An answer came whose number, as far as it is carried, is `got`.
    #[inline]
    pub(crate) fn answer(&mut self, got: u64) -> Answer {
        if got & self.mask == self.current.number & self.mask && self.current.missing > 0 {
            self.current.missing -= 1;
            if self.current.missing > 0 {
                return Answer::Part;
            }
            self.answered = Some(self.current.number);
            return Answer::Whole;
        }
        self.match_earlier(got)
    }

    /// The current round is given up; `sent` is when it was sent.
    pub(crate) fn lose(&mut self, sent: u64) {
        if self.mask == 0 {
            return;
        }
        self.current.sent = sent;
        self.lost[self.next] = self.current;
        self.next = (self.next + 1) % REMEMBERED;
        self.current.missing = 0;
    }

    #[cold]
    fn match_earlier(&mut self, got: u64) -> Answer {
        // Youngest first: with few bytes several rounds fit.
        for back in 1..=REMEMBERED {
            let entry = &mut self.lost[(self.next + REMEMBERED - back) % REMEMBERED];
            if entry.missing == 0 || entry.number & self.mask != got & self.mask {
                continue;
            }
            entry.missing -= 1;
            if entry.missing > 0 {
                return Answer::LatePart;
            }
            let reordered = self.answered.is_some_and(|answered| answered > entry.number);
            return Answer::Late { seq: entry.seq, sent: entry.sent, reordered, timed: entry.timed };
        }
        Answer::Duplicate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_turn_are_whole() {
        let mut matcher = RoundMatcher::new(8);
        for number in 0..5 {
            matcher.begin(number, number, 1, true);
            assert_eq!(matcher.answer(number), Answer::Whole);
        }
    }

    #[test]
    fn a_second_answer_is_a_duplicate() {
        let mut matcher = RoundMatcher::new(2);
        matcher.begin(7, 0, 1, true);
        assert_eq!(matcher.answer(7), Answer::Whole);
        matcher.begin(8, 1, 1, true);
        assert_eq!(matcher.answer(7), Answer::Duplicate);
        assert_eq!(matcher.answer(8), Answer::Whole);
    }

    #[test]
    fn a_lost_round_answered_later_is_late_once() {
        let mut matcher = RoundMatcher::new(4);
        matcher.begin(3, 30, 1, true);
        matcher.lose(99);
        matcher.begin(4, 31, 1, true);
        assert_eq!(matcher.answer(3), Answer::Late { seq: 30, sent: 99, reordered: false, timed: true });
        assert_eq!(matcher.answer(3), Answer::Duplicate);
        assert_eq!(matcher.answer(4), Answer::Whole);
    }

    #[test]
    fn late_after_a_later_answer_is_reordered() {
        let mut matcher = RoundMatcher::new(8);
        matcher.begin(3, 3, 1, true);
        matcher.lose(9);
        matcher.begin(4, 4, 1, false);
        assert_eq!(matcher.answer(4), Answer::Whole);
        matcher.begin(5, 5, 1, true);
        assert_eq!(matcher.answer(3), Answer::Late { seq: 3, sent: 9, reordered: true, timed: true });
    }

    #[test]
    fn several_answers_make_one_round() {
        let mut matcher = RoundMatcher::new(1);
        matcher.begin(300, 0, 3, true);
        assert_eq!(matcher.answer(300 & 0xff), Answer::Part);
        assert_eq!(matcher.answer(300 & 0xff), Answer::Part);
        matcher.lose(1);
        matcher.begin(301, 1, 3, true);
        assert_eq!(matcher.answer(300 & 0xff), Answer::Late { seq: 0, sent: 1, reordered: false, timed: true });
    }

    #[test]
    fn without_numbers_every_answer_is_the_current_one() {
        let mut matcher = RoundMatcher::new(0);
        matcher.begin(1, 0, 1, true);
        matcher.lose(5);
        matcher.begin(2, 1, 1, true);
        assert_eq!(matcher.answer(0), Answer::Whole);
    }

    #[test]
    fn the_youngest_fitting_round_is_taken() {
        let mut matcher = RoundMatcher::new(1);
        for number in [1u64, 257] {
            matcher.begin(number, number, 1, true);
            matcher.lose(number);
        }
        matcher.begin(258, 258, 1, true);
        assert_eq!(matcher.answer(1), Answer::Late { seq: 257, sent: 257, reordered: false, timed: true });
        assert_eq!(matcher.answer(1), Answer::Late { seq: 1, sent: 1, reordered: false, timed: true });
    }
}
