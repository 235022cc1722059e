//! What happened beside messages, kept in memory of fixed size.

use pgm::Sqn;
use pgm::receiver::{Repair, SessionEvent};

/// Bytes of a message that a note keeps.
pub(crate) const HEAD: usize = 32;

/// A message that was repaired, or came in time and had to wait for one that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairNote {
    /// Its source, by its place in [`crate::PgmSocket::set_peers`]; without peers, by the order in which they were heard.
    pub from: u16,
    /// Its first bytes, so that its owner can find out which it is; 0 beyond its end.
    pub head: [u8; HEAD],
    /// Its length in bytes.
    pub bytes: u32,
    /// How it was repaired; absent: it came by itself and waited for another.
    pub repair: Option<Repair>,
    /// When its last packet came.
    pub received_ns: u64,
    /// When it was delivered.
    pub delivered_ns: u64,
}

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct EventNote {
    /// When, in ns of [`crate::PgmSocket::now_ns`].
    pub at_ns: u64,
    /// The source that it is about, numbered as in [`RepairNote::from`]; `u16::MAX`: the own source. Of
    /// [`EventKind::NakReceived`] the peer from whose address the NAK came; `u16::MAX`: from that of none or of several.
    pub from: u16,
    pub what: EventKind,
}

/// The numbers of a NAK, an NCF or a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Numbers {
    pub first: Sqn,
    /// How many; with parity, of how many groups.
    pub count: u32,
    /// Whether it is about parity. The number of a repair is then one of its group's; each number of a NAK or an NCF is a
    /// group's, and its low bits are how many packets less one.
    pub parity: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Numbers were asked for.
    NakSent(Numbers),
    /// Somebody asks the own source for numbers.
    NakReceived(Numbers),
    /// The own source confirmed that.
    NcfSent(Numbers),
    /// A source confirmed a NAK, whoever sent it.
    NcfReceived(Numbers),
    /// The own source repaired.
    RepairSent(Numbers),
    /// A repair came, needed here or not.
    RepairReceived(Numbers),
    /// What happened to the session of a source that is heard.
    Session(SessionEvent),
}

/// Notes of one thread. What finds no room is counted.
#[derive(Debug)]
pub(crate) struct Notes<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) dropped: u64,
}

impl<T: Clone> Notes<T> {
    /// Room for `room` notes, filled once with a note that is not all zeros, so that each page is mapped.
    pub(crate) fn new(room: usize, filling: T) -> Self {
        let mut entries = vec![filling; room];
        entries.clear();
        Self { entries, dropped: 0 }
    }

    pub(crate) fn push(&mut self, note: T) {
        if self.entries.len() < self.entries.capacity() {
            self.entries.push(note);
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.dropped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut notes = Notes::new(2, 0);
        assert!(notes.entries.is_empty());
        (1..=3).for_each(|note| notes.push(note));
        assert_eq!((&notes.entries[..], notes.dropped), (&[1, 2][..], 1));
        notes.clear();
        notes.push(4);
        assert_eq!((&notes.entries[..], notes.dropped), (&[4][..], 0));
    }
}
