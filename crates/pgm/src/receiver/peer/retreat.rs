//! Numbers that turn out not to have been sent are taken back.

use super::{MOST_PROMPT, Peer, ReceiverContext, Slot, State};
use crate::Sqn;

impl Peer {
    /// Numbers that an SPM announced and that the source has not sent, by a later one: the earlier SPM was forged.
    pub(super) fn withdraw(&mut self, end: Sqn, with: &mut ReceiverContext) {
        self.retreat(end, with);
        if self.announced != Some(self.end) || self.by_group(self.end) {
            return;
        }
        while self.end.is_after(end) && self.end.is_after(self.base) {
            let last = self.end.previous();
            if !matches!(self.slot(last).state, State::Missing(_)) {
                break;
            }
            self.timers.clear(self.place(last));
            *self.slot_mut(last) = Slot::default();
            with.counts.missing = with.counts.missing.saturating_sub(1);
            (self.end, self.announced) = (last, Some(last));
        }
    }

    /// The source sends its numbers in order. Two in a row, far before others that are known of, show that those were not sent.
    #[inline]
    pub(in crate::receiver) fn goes_on(&mut self, sqn: Sqn, with: &mut ReceiverContext) {
        let in_row = self.latest.replace(sqn).is_some_and(|last| last.next() == sqn);
        if in_row && self.started && self.end.is_after(sqn) && !sqn.is_before(self.base) {
            self.retreat(sqn.next(), with);
        }
    }

    /// Forgets numbers from here on if they are many and nearly all missing: they were forged, or the next packet shows them.
    fn retreat(&mut self, end: Sqn, with: &mut ReceiverContext) {
        let end = end.later(self.base);
        let beyond = self.end.distance_from(end);
        if !self.end.is_after(end) || beyond <= MOST_PROMPT || self.by_group(end) {
            return;
        }
        let have = end.until(self.end).filter(|sqn| self.state(*sqn) == State::Have).count();
        if have > beyond as usize / 8 {
            return;
        }
        for sqn in end.until(self.end) {
            let place = self.place(sqn);
            self.timers.clear(place);
            self.parity.vacate(place);
            let slot = std::mem::take(self.slot_mut(sqn));
            match slot.state {
                State::Missing(_) => with.counts.missing = with.counts.missing.saturating_sub(1),
                State::Lost => {
                    with.counts.missing = with.counts.missing.saturating_sub(1);
                    with.counts.lost = with.counts.lost.saturating_sub(1);
                }
                State::Empty | State::Have | State::Skipped => {}
            }
            self.free.extend(slot.at);
        }
        (self.end, self.announced) = (end, None);
        self.suspects = self.suspects.earlier(end);
    }
}
