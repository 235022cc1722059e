//! What happened beside messages: noted in memory of fixed size while it happens, and an event of the result at the end.

use super::PgmFarEnd;
use model::Event;
use pgm::packet::Packet;
use pgm::receiver::SessionEvent;
use pgm::source::Class;
use pgm::{Sqn, packet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventNote {
    /// When, in ns of the engines' clock.
    pub at_ns: u64,
    /// The source that it is about, by its place among the peers, or [`EventNote::OWN`]. Of [`EventKind::NakReceived`] the peer from
    /// whose address the NAK came; with the value of `OWN` from that of none or of several.
    pub from: u16,
    pub what: EventKind,
}

/// The numbers of a NAK, an NCF or a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    pub first: Sqn,
    /// How many; with parity, of how many groups.
    pub count: u32,
    /// Whether it is about parity. The number of a repair is then one of its group's; each number of a NAK or an NCF is a
    /// group's, and its low bits are how many packets less one.
    pub parity: bool,
}

impl EventNote {
    /// [`EventNote::from`] of the own source.
    pub const OWN: u16 = u16::MAX;
    /// What a log is filled with before anything has happened.
    pub const NOTHING: Self =
        Self { at_ns: u64::MAX, from: Self::OWN, what: EventKind::Session(SessionEvent::Refused) };
}

impl Numbers {
    /// Those of a packet.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let packet = Packet::parse(bytes).ok()?;
        let more = u32::try_from(packet.options.nak_list.len()).unwrap_or(u32::MAX);
        Some(Self { first: packet.sqn()?, count: more.saturating_add(1), parity: packet.options.parity })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
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

impl EventKind {
    /// What the own source sent beside new data.
    #[cold]
    pub fn sent(class: Class, bytes: &[u8]) -> Option<Self> {
        match class {
            Class::Ncf => Numbers::of(bytes).map(Self::NcfSent),
            Class::Rdata => Numbers::of(bytes).map(Self::RepairSent),
            Class::Spm | Class::Odata => None,
        }
    }

    /// What the receiver sent: a NAK, or nothing that is noted. `kind` is the packet's.
    pub fn asked(kind: u8, bytes: &[u8]) -> Option<Self> {
        if kind == packet::kind::NAK { Numbers::of(bytes).map(Self::NakSent) } else { None }
    }

    /// What came from a source that is heard.
    pub fn came(kind: u8, bytes: &[u8]) -> Option<Self> {
        match kind {
            packet::kind::RDATA => Numbers::of(bytes).map(Self::RepairReceived),
            packet::kind::NCF => Numbers::of(bytes).map(Self::NcfReceived),
            _ => None,
        }
    }
}

impl EventNote {
    /// An event since `begin_ns`; nothing for earlier ones or others than losses. `host`: whom, among several.
    pub fn event(&self, begin_ns: u64, host: Option<String>) -> Option<Event> {
        let packets = |count: u32| if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") };
        let numbers = |count: u32, parity| match (parity, count) {
            (false, _) => packets(count),
            (true, 1) => "parity of 1 group".to_owned(),
            (true, _) => format!("parity of {count} groups"),
        };
        let (kind, detail) = match self.what {
            EventKind::NakSent(Numbers { count, parity, .. }) => {
                ("nak", format!("asked for {} of the answers", numbers(count, parity)))
            }
            EventKind::NakReceived(Numbers { count, parity, .. }) => {
                ("nak", format!("asked for {} of ours", numbers(count, parity)))
            }
            EventKind::NcfSent(Numbers { count, parity, .. }) => {
                ("ncf", format!("confirmed {} of ours", numbers(count, parity)))
            }
            EventKind::NcfReceived(Numbers { count, parity, .. }) => {
                ("ncf", format!("{} of the answers confirmed", numbers(count, parity)))
            }
            EventKind::RepairSent(Numbers { parity: true, .. }) => {
                ("repair", "parity sent for one of our groups".to_owned())
            }
            EventKind::RepairSent(_) => ("repair", "one of our packets repaired".to_owned()),
            EventKind::RepairReceived(Numbers { parity: true, .. }) => {
                ("repair", "parity of a group of the answers".to_owned())
            }
            EventKind::RepairReceived(_) => ("repair", "a packet of the answers repaired".to_owned()),
            EventKind::Session(what) => match what {
                SessionEvent::Lost { count, .. } => ("lost", format!("{} of the answers given up", packets(count))),
                SessionEvent::Reset { code } => ("reset", format!("the source gave up, reason {code}")),
                SessionEvent::Expired => ("expired", "the source was silent for too long".to_owned()),
                SessionEvent::Restarted => ("restarted", "another session of the same source began".to_owned()),
                SessionEvent::Found | SessionEvent::Finished | SessionEvent::Refused => return None,
            },
        };
        let at_ns = self.at_ns.checked_sub(begin_ns)?;
        Some(event(kind, Some(at_ns), host, detail))
    }
}

impl PgmFarEnd {
    /// The events of what was given up there. `at_ns`: when a tick of that end was, since the first message, where that is known.
    pub fn lost(&self, host: Option<String>, at_ns: impl Fn(u64) -> Option<u64>) -> impl Iterator<Item = Event> {
        self.losses.iter().map(move |(tick, count)| {
            event("lost", at_ns(*tick), host.clone(), format!("{count} of our packets given up there"))
        })
    }
}

fn event(kind: &str, at_ns: Option<u64>, host: Option<String>, detail: String) -> Event {
    Event { kind: kind.to_owned(), realtime_ns: None, at_ns, host, seq: None, detail }
}

/// Notes of one thread. What finds no room is counted.
#[derive(Debug)]
pub struct Notes<T> {
    /// In the order in which they came.
    pub entries: Vec<T>,
    /// Those that found no room.
    pub dropped: u64,
}

impl<T: Clone> Notes<T> {
    /// Room for `room` notes, filled once with a note that is not all zeros, so that each page is mapped.
    pub fn new(room: usize, filling: T) -> Self {
        let mut entries = vec![filling; room];
        entries.clear();
        Self { entries, dropped: 0 }
    }

    /// Keeps a note, or counts it.
    pub fn push(&mut self, note: T) {
        if self.entries.len() < self.entries.capacity() {
            self.entries.push(note);
        } else {
            self.dropped += 1;
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.dropped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgm::packet::{Body, Data, Nak, NakList, Options};
    use pgm::{Gsi, Tsi};

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

    #[test]
    fn events_are_told_from_the_first_message_on() {
        let note = |at_ns, what| EventNote { at_ns, from: 0, what };
        let nak = EventKind::NakReceived(Numbers { first: Sqn(4), count: 2, parity: false });
        assert_eq!(note(99, nak).event(100, None), None, "before the first message");
        let outcome = note(350, nak).event(100, None).unwrap();
        assert_eq!(
            (outcome.kind.as_str(), outcome.at_ns, outcome.detail.as_str()),
            ("nak", Some(250), "asked for 2 packets of ours")
        );
        let groups = EventKind::NcfReceived(Numbers { first: Sqn(9), count: 1, parity: true });
        assert_eq!(note(100, groups).event(100, None).unwrap().detail, "parity of 1 group of the answers confirmed");
        for (what, kind) in [
            (EventKind::NcfReceived(Numbers { first: Sqn(1), count: 1, parity: false }), Some("ncf")),
            (EventKind::RepairSent(Numbers { first: Sqn(1), count: 1, parity: false }), Some("repair")),
            (EventKind::Session(SessionEvent::Lost { first: Sqn(1), count: 3 }), Some("lost")),
            (EventKind::Session(SessionEvent::Found), None),
        ] {
            assert_eq!(note(100, what).event(100, None).map(|event| event.kind), kind.map(str::to_owned));
        }
    }

    #[test]
    fn numbers_are_those_of_naks_ncfs_and_data() {
        let mut buffer = [0; 200];
        let tsi = Tsi { gsi: Gsi([1; 6]), port: 7 };
        let nak = Nak { sqn: Sqn(7), source: "10.0.0.1".parse().unwrap(), group: "239.0.0.1".parse().unwrap() };
        let list = [Sqn(9), Sqn(11)];
        let options = Options { nak_list: NakList::Numbers(&list), ..Options::default() };
        let data = Data { sqn: Sqn(1), trail: Sqn(0), payload: b"x" };
        for (body, options, expected) in [
            (Body::Nak(nak), options, Some((7, 3))),
            (Body::Ncf(nak), options, Some((7, 3))),
            (Body::Rdata(data), Options::default(), Some((1, 1))),
            (Body::Spmr, Options::default(), None),
        ] {
            let packet = Packet { tsi, data_port: 7500, body, options };
            let length = packet.write(&mut buffer).unwrap();
            assert_eq!(Numbers::of(&buffer[..length]).map(|all| (all.first.0, all.count)), expected);
        }
    }
}
