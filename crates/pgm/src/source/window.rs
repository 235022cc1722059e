//! What was sent and can be sent again.

use crate::Sqn;
use crate::packet::Fragment;

/// One packet's place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) length: usize,
    pub(super) fragment: Option<Fragment>,
    /// Waits for its repair to go out.
    pub(super) repair: bool,
    /// When its last NCF went out; absent: never.
    pub(super) ncf_ns: Option<u64>,
}

/// A ring of packets by number. All memory is taken at the start.
#[derive(Debug)]
pub(super) struct Window {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    slot_bytes: usize,
    /// The oldest that can be repaired.
    trail: Sqn,
    /// The number that the next packet from the application gets.
    next: Sqn,
    /// The number that goes out next: all before it were sent.
    unsent: Sqn,
}

impl Window {
    pub(super) fn new(first: Sqn, packets: u32, slot_bytes: usize) -> Self {
        let packets = packets as usize;
        Self {
            slots: vec![Slot::default(); packets],
            bytes: vec![0; packets * slot_bytes],
            slot_bytes,
            trail: first,
            next: first,
            unsent: first,
        }
    }

    fn place(&self, sqn: Sqn) -> usize {
        sqn.0 as usize & (self.slots.len() - 1)
    }

    pub(super) fn trail(&self) -> Sqn {
        self.trail
    }

    /// The newest that was sent; one before the trail when nothing was.
    pub(super) fn lead(&self) -> Sqn {
        self.unsent.previous()
    }

    /// Packets that wait to be sent for the first time.
    pub(super) fn waiting(&self) -> u32 {
        self.next.distance_from(self.unsent)
    }

    /// Whether so many packets more find room. Those that were sent make room, those that were not do not.
    pub(super) fn has_room(&self, packets: usize) -> bool {
        self.waiting() as usize + packets <= self.slots.len()
    }

    /// The number that the next packet gets.
    pub(super) fn next(&self) -> Sqn {
        self.next
    }

    pub(super) fn push(&mut self, payload: &[u8], fragment: Option<Fragment>) -> Sqn {
        let sqn = self.next;
        let held = self.next.distance_from(self.trail) as usize;
        if held == self.slots.len() {
            self.trail = self.trail.next();
        }
        let place = self.place(sqn);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = Slot { length: payload.len(), fragment, repair: false, ncf_ns: None };
        }
        let begin = place * self.slot_bytes;
        if let Some(bytes) = self.bytes.get_mut(begin..begin + payload.len()) {
            bytes.copy_from_slice(payload);
        }
        self.next = self.next.next();
        sqn
    }

    /// Whether a packet was sent and is still there.
    pub(super) fn has(&self, sqn: Sqn) -> bool {
        sqn.distance_from(self.trail) < self.unsent.distance_from(self.trail)
    }

    /// The number that goes out next, if there is one.
    pub(super) fn first_unsent(&self) -> Option<Sqn> {
        (self.waiting() > 0).then_some(self.unsent)
    }

    pub(super) fn sent(&mut self) {
        self.unsent = self.unsent.next();
    }

    pub(super) fn slot(&mut self, sqn: Sqn) -> Option<&mut Slot> {
        let place = self.place(sqn);
        self.slots.get_mut(place)
    }

    pub(super) fn payload(&self, sqn: Sqn) -> (&[u8], Option<Fragment>) {
        let place = self.place(sqn);
        let Some(slot) = self.slots.get(place) else { return (&[], None) };
        let begin = place * self.slot_bytes;
        (self.bytes.get(begin..begin + slot.length).unwrap_or_default(), slot.fragment)
    }
}
