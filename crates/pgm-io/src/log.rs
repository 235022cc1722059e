//! What happened beside messages, kept in memory of fixed size that one thread writes while others may read.

use pgm::Sqn;
use pgm::receiver::Repair;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
pub struct EventNote {
    /// When, in ns of [`crate::PgmSocket::now_ns`].
    pub at_ns: u64,
    /// The source that it is about, numbered as in [`RepairNote::from`]; `u16::MAX`: the own source. Of
    /// [`EventKind::NakReceived`] the peer from whose address the NAK came; `u16::MAX`: from that of none or of several.
    pub from: u16,
    /// What.
    pub what: EventKind,
}

/// The numbers of a NAK or an NCF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// The first.
    pub first: Sqn,
    /// How many; with parity, of how many groups.
    pub count: u32,
    /// Whether it is about parity: then each number is a group's, and its low bits are how many packets less one.
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
    RepairSent {
        /// The number.
        sqn: Sqn,
        /// Whether it is parity that was asked for: its number is then one of its group's.
        parity: bool,
    },
    /// A repair came, needed here or not.
    RepairReceived {
        /// The number.
        sqn: Sqn,
        /// Whether it is parity that was asked for: its number is then one of its group's.
        parity: bool,
    },
    /// Data that will not come.
    Lost {
        /// The first number.
        first: Sqn,
        /// How many.
        count: u32,
    },
    /// A source was heard for the first time.
    SourceFound,
    /// A source ended its session, and all was delivered or lost.
    Finished,
    /// A source gave up.
    Reset {
        /// Its reason.
        code: u8,
    },
    /// A source was silent for too long, or while another needed its place.
    Expired,
    /// Another session of a source that was heard before.
    Restarted,
    /// A source was not taken: as many as may be are heard.
    Refused,
}

const EVENT_WORDS: usize = 3;
const REPAIR_WORDS: usize = 12;

impl EventNote {
    /// In the byte of the kind.
    const PARITY: u64 = 0x80;

    fn words(&self) -> [u64; EVENT_WORDS] {
        let mark = |parity: bool| if parity { Self::PARITY } else { 0 };
        let of = |kind: u64, numbers: Numbers| (kind | mark(numbers.parity), numbers.first.0, numbers.count);
        let (kind, first, count) = match self.what {
            EventKind::NakSent(numbers) => of(0, numbers),
            EventKind::NakReceived(numbers) => of(1, numbers),
            EventKind::NcfSent(numbers) => of(2, numbers),
            EventKind::NcfReceived(numbers) => of(3, numbers),
            EventKind::RepairSent { sqn, parity } => (4 | mark(parity), sqn.0, 1),
            EventKind::RepairReceived { sqn, parity } => (5 | mark(parity), sqn.0, 1),
            EventKind::Lost { first, count } => (6, first.0, count),
            EventKind::SourceFound => (7, 0, 0),
            EventKind::Finished => (8, 0, 0),
            EventKind::Reset { code } => (9, 0, u32::from(code)),
            EventKind::Expired => (10, 0, 0),
            EventKind::Restarted => (11, 0, 0),
            EventKind::Refused => (12, 0, 0),
        };
        [self.at_ns, kind | u64::from(self.from) << 8, u64::from(first) << 32 | u64::from(count)]
    }

    fn read([at_ns, kind, range]: [u64; EVENT_WORDS]) -> Self {
        let (first, count) = (Sqn(high(range)), low(range));
        let parity = kind & Self::PARITY != 0;
        let numbers = Numbers { first, count, parity };
        let what = match kind & 0x7f {
            0 => EventKind::NakSent(numbers),
            1 => EventKind::NakReceived(numbers),
            2 => EventKind::NcfSent(numbers),
            3 => EventKind::NcfReceived(numbers),
            4 => EventKind::RepairSent { sqn: first, parity },
            5 => EventKind::RepairReceived { sqn: first, parity },
            6 => EventKind::Lost { first, count },
            7 => EventKind::SourceFound,
            8 => EventKind::Finished,
            9 => EventKind::Reset { code: u8::try_from(count).unwrap_or(u8::MAX) },
            10 => EventKind::Expired,
            11 => EventKind::Restarted,
            _ => EventKind::Refused,
        };
        Self { at_ns, from: u16::try_from(kind >> 8 & 0xffff).unwrap_or(u16::MAX), what }
    }
}

fn high(word: u64) -> u32 {
    u32::try_from(word >> 32).unwrap_or(u32::MAX)
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

impl RepairNote {
    const REPAIRED: u64 = 1 << 16;
    const ASKED: u64 = 1 << 17;
    const CONFIRMED: u64 = 1 << 18;
    const PARITY: u64 = 1 << 19;

    fn words(&self) -> [u64; REPAIR_WORDS] {
        let repair = self.repair.unwrap_or_default();
        let mut flags = u64::from(self.from) | u64::from(repair.naks) << 32;
        for (is, flag) in [
            (self.repair.is_some(), Self::REPAIRED),
            (repair.nak_ns.is_some(), Self::ASKED),
            (repair.ncf_ns.is_some(), Self::CONFIRMED),
            (repair.parity, Self::PARITY),
        ] {
            flags |= if is { flag } else { 0 };
        }
        let mut words = [0; REPAIR_WORDS];
        let (head, times) = words.split_at_mut(HEAD / 8);
        for (word, bytes) in head.iter_mut().zip(self.head.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let values = [
            flags,
            u64::from(self.bytes),
            self.received_ns,
            self.delivered_ns,
            repair.gap_ns,
            repair.nak_ns.unwrap_or(0),
            repair.ncf_ns.unwrap_or(0),
            repair.data_ns,
        ];
        times.copy_from_slice(&values);
        words
    }

    fn read(words: [u64; REPAIR_WORDS]) -> Self {
        let [a, b, c, d, flags, bytes, received_ns, delivered_ns, gap_ns, nak_ns, ncf_ns, data_ns] = words;
        let mut head = [0; HEAD];
        for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip([a, b, c, d]) {
            *bytes = word.to_ne_bytes();
        }
        let has = |flag| flags & flag != 0;
        let repair = Repair {
            gap_ns,
            nak_ns: has(Self::ASKED).then_some(nak_ns),
            ncf_ns: has(Self::CONFIRMED).then_some(ncf_ns),
            data_ns,
            naks: high(flags),
            parity: has(Self::PARITY),
        };
        Self {
            from: u16::try_from(flags & 0xffff).unwrap_or(u16::MAX),
            head,
            bytes: low(bytes),
            repair: has(Self::REPAIRED).then_some(repair),
            received_ns,
            delivered_ns,
        }
    }
}

/// Entries that one thread appends and others may read meanwhile. What finds no room is counted.
#[derive(Debug)]
struct Notes<const WORDS: usize> {
    entries: Vec<[AtomicU64; WORDS]>,
    written: AtomicUsize,
    dropped: AtomicU64,
}

impl<const WORDS: usize> Notes<WORDS> {
    fn new(room: usize) -> Self {
        let entries = (0..room).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        Self { entries, written: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }

    fn push(&self, words: [u64; WORDS]) {
        let at = self.written.load(Ordering::Relaxed);
        let Some(entry) = self.entries.get(at) else {
            self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        };
        for (to, from) in entry.iter().zip(words) {
            to.store(from, Ordering::Relaxed);
        }
        self.written.store(at + 1, Ordering::Release);
    }

    fn from(&self, first: usize) -> impl Iterator<Item = [u64; WORDS]> + '_ {
        let written = self.written.load(Ordering::Acquire);
        let entries = self.entries.get(first.min(written)..written).unwrap_or_default();
        entries
            .iter()
            .map(|entry| std::array::from_fn(|at| entry.get(at).map_or(0, |word| word.load(Ordering::Relaxed))))
    }

    fn clear(&self) {
        self.written.store(0, Ordering::Release);
        self.dropped.store(0, Ordering::Relaxed);
    }
}

/// Repairs and events of a way. It can be read while the way is used, from any thread.
#[derive(Debug)]
pub struct PgmSocketLog {
    repairs: Notes<REPAIR_WORDS>,
    /// Written by the receiving half, and by whoever holds the source.
    received: Notes<EVENT_WORDS>,
    sent: Notes<EVENT_WORDS>,
}

impl PgmSocketLog {
    pub(crate) fn new(room: usize) -> Self {
        Self { repairs: Notes::new(room), received: Notes::new(room), sent: Notes::new(room) }
    }

    pub(crate) fn repair(&self, note: &RepairNote) {
        self.repairs.push(note.words());
    }

    /// By the receiving half.
    pub(crate) fn received(&self, note: EventNote) {
        self.received.push(note.words());
    }

    /// By whoever holds the source.
    pub(crate) fn sent(&self, note: EventNote) {
        self.sent.push(note.words());
    }

    pub(crate) fn clear(&self) {
        self.repairs.clear();
        self.received.clear();
        self.sent.clear();
    }

    /// Notes of repaired messages and of those behind them from number `first` on, in the order of delivery.
    #[must_use]
    pub fn repairs_from(&self, first: usize) -> Vec<RepairNote> {
        self.repairs.from(first).map(RepairNote::read).collect()
    }

    /// All events so far by time.
    #[must_use]
    pub fn events(&self) -> Vec<EventNote> {
        let mut all: Vec<EventNote> = self.received.from(0).chain(self.sent.from(0)).map(EventNote::read).collect();
        all.sort_by_key(|note| note.at_ns);
        all
    }

    /// Notes of repairs and of events that found no room.
    #[must_use]
    pub fn dropped(&self) -> (u64, u64) {
        let of = |dropped: &AtomicU64| dropped.load(Ordering::Relaxed);
        (of(&self.repairs.dropped), of(&self.received.dropped) + of(&self.sent.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let log = PgmSocketLog::new(4);
        let repair = Repair { gap_ns: 1, nak_ns: None, ncf_ns: Some(0), data_ns: 9, naks: 3, parity: true };
        let note = RepairNote {
            from: 65_535,
            head: std::array::from_fn(|at| u8::try_from(at).unwrap()),
            bytes: 1448,
            repair: Some(repair),
            received_ns: 9,
            delivered_ns: 10,
        };
        let held = RepairNote { repair: None, from: 0, ..note };
        log.repair(&note);
        log.repair(&held);
        assert_eq!(log.repairs_from(0), [note, held]);
        assert_eq!(log.repairs_from(1), [held]);
        assert!(log.repairs_from(7).is_empty());
        let first = Sqn(u32::MAX);
        let all = [
            EventKind::NakSent(Numbers { first, count: 63, parity: true }),
            EventKind::NakReceived(Numbers { first, count: 1, parity: false }),
            EventKind::NcfSent(Numbers { first, count: 2, parity: true }),
            EventKind::NcfReceived(Numbers { first, count: 3, parity: false }),
            EventKind::RepairSent { sqn: first, parity: false },
            EventKind::RepairReceived { sqn: first, parity: true },
            EventKind::Lost { first, count: u32::MAX },
            EventKind::SourceFound,
            EventKind::Finished,
            EventKind::Reset { code: 63 },
            EventKind::Expired,
            EventKind::Restarted,
            EventKind::Refused,
        ];
        for what in all {
            let note = EventNote { at_ns: 5, from: 300, what };
            assert_eq!(EventNote::read(note.words()), note);
        }
    }

    #[test]
    fn both_halves_meet_by_time_and_what_finds_no_room_is_counted() {
        let log = PgmSocketLog::new(2);
        for at_ns in [4, 2, 6] {
            log.received(EventNote { at_ns, from: 1, what: EventKind::Expired });
        }
        log.sent(EventNote { at_ns: 3, from: u16::MAX, what: EventKind::RepairSent { sqn: Sqn(1), parity: false } });
        let times: Vec<u64> = log.events().iter().map(|note| note.at_ns).collect();
        assert_eq!((times, log.dropped()), (vec![2, 3, 4], (0, 1)));
        log.clear();
        assert!(log.events().is_empty());
        assert_eq!(log.dropped(), (0, 0));
    }
}
