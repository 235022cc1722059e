//! PGM in captured packets: which are PGM, whose they are, and which of our own messages their data hold.
//!
//! IP protocol 113 is PGM. UDP datagrams are where the port says so: the two that others use unless they are told
//! otherwise, those that the caller names, and those on which two packets of one source were found that are PGM in every
//! byte: a right checksum, lengths that add up and addresses of known families. Other bytes pass that twice about once
//! in 2^64 times. One SPM is enough that names the address it came from, as all do that passed no router of PGM.

use super::{FlowId, Packet, Transport};
use crate::data::{FarStamps, PROVE_BYTES, PROVE_MAGIC};
use pgm::Tsi;
use pgm::packet::{Body, IP_PROTOCOL, ObservedPacket, Sum};
use std::collections::{BTreeMap, BTreeSet};

/// The UDP ports of PGM that implementations agree on: unicast and multicast.
pub const PGM_PORTS: [u16; 2] = [3055, 3056];
/// Sources that are told apart.
const MOST_SOURCES: usize = 1 << 12;
/// Ports that may be about to be learned.
const MOST_GUESSES: usize = 1 << 10;
/// Messages with one tag and rising numbers that make a source's data ours.
const ENOUGH: u8 = 2;
/// How far numbers may rise from one such message to the next: repairs come late.
const NEAR: u64 = 4096;
/// Sessions whose tags are remembered.
const MOST_TAGS: usize = 1 << 10;

/// Our own header in the data of a PGM packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The message's number.
    pub seq: u64,
    /// The session's tag.
    pub tag: u64,
    /// An answer: another source began this session.
    pub answer: bool,
    /// What the reflector wrote into it.
    pub far: Option<FarStamps>,
}

#[derive(Debug, Default)]
struct SourceState {
    id: u32,
    tag: Option<u64>,
    /// A token came, and the first message of its session has not.
    proved: bool,
    /// The last number and tag, and how many before fitted.
    guess: Option<(u64, u64, u8)>,
}

/// A PGM packet, put to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighted<'a> {
    /// Its source, by the order of first sight.
    pub source: FlowId,
    pub packet: ObservedPacket<'a>,
    /// Our own header in it.
    pub carried: Option<Carried>,
    /// Its data are the token that proves a path its client's.
    pub proof: bool,
}

/// The memory over the PGM packets of a capture.
#[derive(Debug)]
pub(super) struct Sources {
    named: BTreeSet<u16>,
    learned: BTreeSet<u16>,
    guesses: BTreeMap<u16, Tsi>,
    sources: BTreeMap<(Tsi, u16), SourceState>,
    /// Which source began a session.
    sessions: BTreeMap<u64, u32>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            named: PGM_PORTS.into(),
            learned: BTreeSet::new(),
            guesses: BTreeMap::new(),
            sources: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }
}

impl Sources {
    pub(super) fn name(&mut self, ports: &[u16]) {
        self.named.extend(ports);
    }

    /// The PGM packet that this one is; `guess` where ports that nobody named may be learned.
    pub(super) fn look<'a>(&mut self, packet: &Packet<'a>, guess: bool) -> Option<Sighted<'a>> {
        let observed = match packet.transport {
            Transport::Other(IP_PROTOCOL) => {
                let sent = (!packet.first_fragment).then_some(packet.payload_bytes);
                ObservedPacket::read(packet.payload, sent).ok()?
            }
            Transport::Udp => self.in_datagram(packet, guess)?,
            _ => return None,
        };
        let known = self.sources.len();
        let key = (observed.head.tsi, observed.head.data_port);
        if known >= MOST_SOURCES && !self.sources.contains_key(&key) {
            return Some(Sighted { source: FlowId::OTHERS, packet: observed, carried: None, proof: false });
        }
        let source = self
            .sources
            .entry(key)
            .or_insert_with(|| SourceState { id: u32::try_from(known).unwrap_or(u32::MAX), ..SourceState::default() });
        let payload = message(&observed);
        let proof = payload.is_some_and(|payload| payload.starts_with(&PROVE_MAGIC))
            && usize::from(observed.head.payload_bytes) == PROVE_BYTES;
        source.proved |= proof;
        let carried = payload.filter(|_| !proof).and_then(|payload| source.carried(payload, &mut self.sessions));
        Some(Sighted { source: FlowId(source.id), packet: observed, carried, proof })
    }

    fn in_datagram<'a>(&mut self, packet: &Packet<'a>, guess: bool) -> Option<ObservedPacket<'a>> {
        let ports = [packet.destination.port(), packet.source.port()];
        let whole = packet.payload.len() == packet.payload_bytes;
        // UDP tells the whole length, whatever IP cut it into.
        let observed = ObservedPacket::read(packet.payload, Some(packet.payload_bytes)).ok()?;
        // Damage is shown where somebody said that there is PGM.
        let plausible = observed.head.version == 0 && observed.head.name().is_some();
        if ports.iter().any(|port| self.named.contains(port)) {
            return plausible.then_some(observed);
        }
        let sound = observed.packet.is_ok() && matches!(observed.sum, Sum::Good | Sum::Cut | Sum::Absent);
        if ports.iter().any(|port| self.learned.contains(port)) {
            return sound.then_some(observed);
        }
        if !guess || !whole || observed.packet.is_err() || observed.sum != Sum::Good {
            return None;
        }
        let port = packet.destination.port();
        let from_its_path = matches!(observed.packet, Ok(inside)
            if matches!(inside.body, Body::Spm(spm) if spm.path == packet.source.ip()));
        let certain = from_its_path && packet.destination.ip().is_multicast();
        if certain || self.guesses.get(&port) == Some(&observed.head.tsi) {
            self.guesses.remove(&port);
            self.learned.insert(port);
            return Some(observed);
        }
        if self.guesses.len() < MOST_GUESSES || self.guesses.contains_key(&port) {
            self.guesses.insert(port, observed.head.tsi);
        }
        None
    }
}

/// The start of a message: parity and later fragments have none.
fn message<'a>(observed: &ObservedPacket<'a>) -> Option<&'a [u8]> {
    let packet = observed.packet.ok().filter(|_| observed.sum != Sum::Bad)?;
    let first = packet.options.fragment.is_none_or(|fragment| fragment.offset == 0);
    match packet.body {
        Body::Odata(data) | Body::Rdata(data) if first && !packet.options.parity => Some(data.payload),
        _ => None,
    }
}

impl SourceState {
    fn carried(&mut self, payload: &[u8], sessions: &mut BTreeMap<u64, u32>) -> Option<Carried> {
        let (seq, tag) = super::recognise::whole(payload)?;
        if self.tag != Some(tag) {
            // A tag that another source's messages have already is no accident.
            if !self.proved && !sessions.contains_key(&tag) && !self.guess(seq, tag) {
                return None;
            }
            self.tag = Some(tag);
            self.proved = false;
            if sessions.len() < MOST_TAGS {
                sessions.entry(tag).or_insert(self.id);
            }
        }
        let answer = sessions.get(&tag).is_some_and(|first| *first != self.id);
        Some(Carried { seq, tag, answer, far: super::recognise::far(payload).filter(|_| answer) })
    }

    fn guess(&mut self, seq: u64, tag: u64) -> bool {
        let hits = match self.guess {
            Some((last, known, hits)) if known == tag && (1..=NEAR).contains(&seq.wrapping_sub(last)) => hits + 1,
            // A repair comes late, and a second copy again: neither tells against it.
            Some((last, known, hits)) if known == tag && last.wrapping_sub(seq) <= NEAR => hits,
            _ => 0,
        };
        let seq = self.guess.filter(|(_, known, _)| *known == tag).map_or(seq, |(last, ..)| last.max(seq));
        self.guess = Some((seq, tag, hits));
        hits >= ENOUGH
    }
}

#[cfg(test)]
mod tests;
