//! What was sent and can be sent again.

use crate::Sqn;
use crate::packet::Fragment;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    begin: usize,
    length: usize,
    pub(super) fragment: Option<Fragment>,
    /// Waits for its repair to go out.
    pub(super) repair: bool,
    /// No packet has this number: its group was ended before it (section 11.2).
    pub(super) skipped: bool,
    /// When its last NCF went out; absent: never.
    pub(super) ncf_ns: Option<u64>,
    /// When its last repair went out; absent: never.
    pub(super) repaired_ns: Option<u64>,
}

/// A ring of packets by number. All memory is taken at the start.
#[derive(Debug)]
pub(super) struct Window {
    slots: Vec<Slot>,
    /// A ring of payloads, close together for the cache. One more than slots fits, as none wraps around the end.
    bytes: Vec<u8>,
    /// Where the next one begins, if it finds room before the end.
    free: usize,
    /// How many packets leave the window at once: a transmission group, or 1.
    group: u32,
    /// The oldest that can be repaired.
    trail: Sqn,
    /// The number that the next packet from the application gets.
    next: Sqn,
    /// The number that goes out next: all before it were sent.
    unsent: Sqn,
    /// The newest that was sent; one before the trail when nothing was.
    newest: Sqn,
}

impl Window {
    /// `group` and `packets` are powers of two, and `first` begins a group. No payload is above `most_bytes`.
    pub(super) fn new(first: Sqn, packets: u32, most_bytes: usize, group: u32) -> Self {
        let packets = packets as usize;
        Self {
            slots: vec![Slot::default(); packets],
            bytes: vec![0; (packets + 1) * most_bytes],
            free: 0,
            group,
            trail: first,
            next: first,
            unsent: first,
            newest: first.previous(),
        }
    }

    fn place(&self, sqn: Sqn) -> usize {
        sqn.0 as usize & (self.slots.len() - 1)
    }

    pub(super) fn trail(&self) -> Sqn {
        self.trail
    }

    pub(super) fn lead(&self) -> Sqn {
        self.newest
    }

    pub(super) fn waiting(&self) -> u32 {
        self.next.distance_from(self.unsent)
    }

    /// Whether `packets` more find room. Those that were sent make room, those that were not do not, and neither do
    /// others of their group nor what comes from `kept` on. Half of the window stays for what was sent: who publishes as fast
    /// as there is room would else leave nothing that can be repaired.
    pub(super) fn has_room(&self, packets: usize, kept: Option<Sqn>) -> bool {
        let oldest = kept.unwrap_or(self.unsent);
        let oldest = oldest.plus((oldest.0 & (self.group - 1)).wrapping_neg());
        self.next.distance_from(oldest) as usize + packets <= self.slots.len()
            && self.waiting() as usize + packets <= self.slots.len() / 2
    }

    pub(super) fn next(&self) -> Sqn {
        self.next
    }

    pub(super) fn push(&mut self, payload: &[u8], fragment: Option<Fragment>) -> Sqn {
        let sqn = self.next;
        let held = self.next.distance_from(self.trail) as usize;
        if held == self.slots.len() {
            self.trail = self.trail.plus(self.group);
        }
        let begin = if self.free + payload.len() <= self.bytes.len() { self.free } else { 0 };
        self.free = begin + payload.len();
        if let Some(bytes) = self.bytes.get_mut(begin..self.free) {
            bytes.copy_from_slice(payload);
        }
        *self.slot(sqn) = Slot { begin, length: payload.len(), fragment, ..Slot::default() };
        self.next = self.next.next();
        sqn
    }

    /// What was not sent yet is taken back.
    pub(super) fn forget_unsent(&mut self) {
        if let Some(sqn) = self.first_unsent() {
            self.free = self.slot(sqn).begin;
        }
        self.next = self.unsent;
    }

    /// Passes over the numbers up to one that begins the next group: no packet gets them.
    pub(super) fn skip_to(&mut self, until: Sqn) {
        let all_sent = self.waiting() == 0;
        while self.next.is_before(until) {
            *self.slot(self.next) = Slot { skipped: true, ..Slot::default() };
            self.next = self.next.next();
        }
        if all_sent {
            self.unsent = self.next;
        }
    }

    pub(super) fn has(&self, sqn: Sqn) -> bool {
        self.spans(sqn) && !self.slots[self.place(sqn)].skipped
    }

    /// Whether a number was passed over, and its group is still there.
    pub(super) fn has_skipped(&self, sqn: Sqn) -> bool {
        self.spans(sqn) && self.slots[self.place(sqn)].skipped
    }

    fn spans(&self, sqn: Sqn) -> bool {
        sqn.distance_from(self.trail) < self.unsent.distance_from(self.trail)
    }

    pub(super) fn first_unsent(&self) -> Option<Sqn> {
        (self.waiting() > 0).then_some(self.unsent)
    }

    pub(super) fn sent(&mut self) {
        self.newest = self.unsent;
        self.unsent = self.unsent.next();
        while self.unsent != self.next && self.slots[self.place(self.unsent)].skipped {
            self.unsent = self.unsent.next();
        }
    }

    pub(super) fn slot(&mut self, sqn: Sqn) -> &mut Slot {
        let place = self.place(sqn);
        &mut self.slots[place]
    }

    pub(super) fn payload(&self, sqn: Sqn) -> (&[u8], Option<Fragment>) {
        let slot = &self.slots[self.place(sqn)];
        (self.bytes.get(slot.begin..slot.begin + slot.length).unwrap_or_default(), slot.fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the lengths, nothing that is in the window is written over.
        #[test]
        fn what_it_holds_stays(
            group in proptest::sample::select(vec![1_u32, 4]),
            steps in proptest::collection::vec((0_usize..=20, 0_u32..12), 0..200),
        ) {
            let mut window = Window::new(Sqn(0), 8, 20, group);
            let mut pushed: Vec<Vec<u8>> = Vec::new();
            for (at, (length, what)) in steps.into_iter().enumerate() {
                let payload = vec![u8::try_from(at).unwrap(); length];
                match what {
                    0 => {
                        window.forget_unsent();
                        pushed.truncate(window.next().0 as usize);
                    }
                    1..5 if window.first_unsent().is_some() => window.sent(),
                    _ if window.has_room(1, None) => {
                        window.push(&payload, None);
                        pushed.push(payload);
                    }
                    _ => {}
                }
                for number in window.trail().0..window.next().0 {
                    prop_assert_eq!(window.payload(Sqn(number)).0, &pushed[number as usize][..]);
                }
            }
        }
    }
}
