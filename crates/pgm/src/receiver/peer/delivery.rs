//! Complete messages, in order, as the application gets them.

use super::{Peer, ReceiverContext, State};
use crate::receiver::Message;

impl Peer {
    /// Whether a whole message is at the front; parts of one that cannot become whole are dropped.
    pub(super) fn has_message(&mut self, with: &mut ReceiverContext) -> Option<u32> {
        loop {
            self.settle(with);
            if self.base == self.end {
                debug_assert!(self.free.is_empty() || self.free.len() == self.slots.len(), "all places are free again");
                return None;
            }
            match self.whole() {
                FrontMessage::NotYet => return None,
                FrontMessage::Never { packets } => {
                    with.counts.parts_dropped += u64::from(packets);
                    self.pass(packets);
                }
                FrontMessage::Packets { packets } => return Some(packets),
            }
        }
    }

    /// The next whole message in order (section 6.1), copied into `out`.
    pub(in crate::receiver) fn next_message(&mut self, out: &mut [u8], with: &mut ReceiverContext) -> Option<Message> {
        let packets = self.has_message(with)?;
        let message = self.copy(packets, out);
        self.pass(packets);
        with.counts.messages += 1;
        self.settle(with);
        Some(message)
    }

    /// The packets at the front are done with.
    pub(super) fn pass(&mut self, packets: u32) {
        for _ in 0..packets {
            let at = self.slot_mut(self.base).at.take();
            self.free.extend(at);
            self.base = self.base.next();
        }
    }

    fn whole(&self) -> FrontMessage {
        let first = self.slot(self.base);
        if first.state != State::Have {
            return FrontMessage::NotYet;
        }
        let Some(fragment) = first.fragment else { return FrontMessage::Packets { packets: 1 } };
        if fragment.first != self.base || fragment.offset != 0 {
            // Its beginning was sent before we came, or is lost.
            return FrontMessage::Never { packets: 1 };
        }
        let mut length = 0;
        for ahead in 0..self.capacity() {
            let sqn = self.base.plus(ahead);
            if sqn == self.end {
                return FrontMessage::NotYet;
            }
            let slot = self.slot(sqn);
            match slot.state {
                State::Have => {}
                State::Missing(_) => return FrontMessage::NotYet,
                State::Lost | State::Empty | State::Skipped => return FrontMessage::Never { packets: ahead.max(1) },
            }
            let fits = slot.fragment.is_some_and(|part| {
                part.first == fragment.first && part.length == fragment.length && part.offset as usize == length
            });
            length += slot.length;
            if !fits || length > fragment.length as usize {
                return FrontMessage::Never { packets: ahead.max(1) };
            }
            if length == fragment.length as usize {
                return FrontMessage::Packets { packets: ahead + 1 };
            }
        }
        // Longer than the window: it cannot come together.
        FrontMessage::Never { packets: self.capacity() }
    }

    pub(super) fn copy(&self, packets: u32, out: &mut [u8]) -> Message {
        let mut message = Message { tsi: self.tsi, first: self.base, length: 0, received_ns: 0, repair: None };
        for ahead in 0..packets {
            let sqn = self.base.plus(ahead);
            let slot = self.slot(sqn);
            let begin = self.begin(sqn, slot.at);
            let bytes = self.bytes.get(begin..begin + slot.length).unwrap_or_default();
            let room = out.get_mut(message.length..).unwrap_or_default();
            let fits = bytes.len().min(room.len());
            if let (Some(room), Some(bytes)) = (room.get_mut(..fits), bytes.get(..fits)) {
                room.copy_from_slice(bytes);
            }
            message.length += slot.length;
            message.received_ns = message.received_ns.max(slot.repair.data_ns);
            if slot.was_missing && message.repair.is_none_or(|repair| repair.data_ns < slot.repair.data_ns) {
                message.repair = Some(slot.repair);
            }
        }
        message
    }
}

enum FrontMessage {
    NotYet,
    Packets { packets: u32 },
    Never { packets: u32 },
}
