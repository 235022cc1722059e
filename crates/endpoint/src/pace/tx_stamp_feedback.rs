//! The time at which the driver sent an answer is known only afterwards, so a later answer carries it. Called in the measured
//! loop after each send: a call takes one stamp from the socket, and allocates nothing.

use net::stamps::SentStamps;
use std::collections::VecDeque;
use wire::data::TxStamp;

/// Answers whose ticks are remembered: more than a NIC stamps later, and than error queues hold.
const HELD: u64 = 4096;

/// Transmit time stamps of sent answers, to be reported by later answers.
#[derive(Debug)]
pub(crate) struct TxStampFeedback {
    stamps: Option<SentStamps>,
    notes: StampQueue,
}

impl TxStampFeedback {
    /// Without stamps nothing is reported.
    pub(crate) fn new(stamps: Option<SentStamps>) -> Self {
        let held = if stamps.is_some() { HELD } else { 0 };
        Self { stamps, notes: StampQueue::new(held) }
    }

    #[inline]
    pub(super) fn next(&mut self) -> TxStamp {
        self.notes.waiting.pop_front().unwrap_or_default()
    }

    /// An answer with this tick in it was sent.
    #[inline]
    pub(super) fn sent(&mut self, tx: u64) {
        if let Some(stamps) = &mut self.stamps {
            self.notes.sent(tx);
            // A stamp less is no reason to end.
            if let Ok(Some((number, ns))) = stamps.take() {
                self.notes.stamped(number, ns);
            }
        }
    }

    /// A send failed: whether the kernel counted it is unknown, so later stamps cannot be attributed.
    #[cold]
    pub(super) fn lose_count(&mut self) {
        self.stamps = None;
        self.notes.waiting.clear();
    }
}

#[derive(Debug)]
struct StampQueue {
    /// Ticks of the answers sent last, by their numbers.
    ticks: Vec<u64>,
    sent: u64,
    waiting: VecDeque<TxStamp>,
}

impl StampQueue {
    fn new(held: u64) -> Self {
        let held = usize::try_from(held).unwrap_or(0);
        // Filled with another value than zero, so that each page is really there.
        Self { ticks: vec![u64::MAX; held], sent: 0, waiting: VecDeque::with_capacity(held) }
    }

    fn held(&self) -> u64 {
        self.ticks.len() as u64
    }

    fn at(&mut self, number: u64) -> Option<&mut u64> {
        let at = number.checked_rem(self.held())?;
        self.ticks.get_mut(usize::try_from(at).ok()?)
    }

    #[inline]
    fn sent(&mut self, tx: u64) {
        let number = self.sent;
        if let Some(slot) = self.at(number) {
            *slot = tx;
        }
        self.sent += 1;
    }

    #[inline]
    fn stamped(&mut self, number: u64, driver_ns: u64) {
        if number >= self.sent || self.sent - number > self.held() || self.waiting.len() >= self.ticks.len() {
            return;
        }
        if let Some(&mut tx) = self.at(number) {
            self.waiting.push_back(TxStamp { tx, driver_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stamp_is_told_once_with_the_tick_of_its_answer() {
        let mut stamp_feedback = TxStampFeedback { stamps: None, notes: StampQueue::new(8) };
        assert_eq!(stamp_feedback.next(), TxStamp::default());
        for tx in 100..110 {
            stamp_feedback.notes.sent(tx);
        }
        stamp_feedback.notes.stamped(9, 5009);
        stamp_feedback.notes.stamped(2, 5002);
        // Longer ago than is remembered, and one that was never sent.
        stamp_feedback.notes.stamped(1, 5001);
        stamp_feedback.notes.stamped(10, 5010);
        assert_eq!(stamp_feedback.next(), TxStamp { tx: 109, driver_ns: 5009 });
        assert_eq!(stamp_feedback.next(), TxStamp { tx: 102, driver_ns: 5002 });
        assert_eq!(stamp_feedback.next(), TxStamp::default());
        for _ in 0..20 {
            stamp_feedback.notes.stamped(9, 1);
        }
        assert_eq!(stamp_feedback.notes.waiting.len(), 8, "no more than there is room for");
        stamp_feedback.lose_count();
        assert_eq!(stamp_feedback.next(), TxStamp::default());
    }

    #[test]
    fn without_stamps_nothing_is_told_and_nothing_taken() {
        let mut stamp_feedback = TxStampFeedback::new(None);
        stamp_feedback.sent(5);
        stamp_feedback.notes.stamped(0, 7);
        assert_eq!((stamp_feedback.next(), stamp_feedback.notes.ticks.capacity()), (TxStamp::default(), 0));
    }
}
