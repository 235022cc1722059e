//! Which payloads are Windhover's: the memory over the packets of a capture.

use super::multicast::{Sighted, Sources};
use super::{Packet, Transport};
use crate::data::{self, FarStamps, PROVE_BYTES, PROVE_MAGIC, Tier};
use crate::frame::{CONTROL_LIMIT, MAC_BYTES, PREFIX_BYTES};
use crate::stream;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Flows that are told apart; those beyond are [`FlowId::OTHERS`].
const MOST_FLOWS: usize = 1 << 16;
/// How every control message begins behind its length.
const CONTROL_START: &[u8] = b"{\"type\":\"";
/// Messages with one tag and rising numbers that make a flow ours although its proof was not captured.
const ENOUGH: u8 = 2;
/// How far numbers may rise from one such message to the next.
const NEAR: u64 = 64;

/// The number of a flow in the order of first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// All flows that came when too many were known already.
    pub const OTHERS: Self = Self(u32::MAX);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// No payload: an acknowledgement, the start or the end of a connection.
    Nothing,
    /// The token that proves a data path its client's. The token itself is not kept.
    Proof,
    /// Control messages by their type; none for the middle of one.
    Control(Vec<String>),
    Data {
        /// What its header holds, by its size.
        tier: Tier,
        /// Its number, expanded where the header has only the low bytes.
        seq: Option<u64>,
        /// The session's tag.
        tag: Option<u64>,
        /// The reflector's stamps of an answer; absent where it has none, with wall-clock times of 0 likewise.
        far: Option<FarStamps>,
    },
    /// Bytes of a stream in the middle of a message, or a later fragment of a datagram.
    More,
    /// A packet of PGM, any. [`Recognised::flow`] numbers its source apart from flows; forward: from the source.
    Pgm(Box<Sighted<'a>>),
    /// Somebody else's.
    Foreign,
}

/// One packet, put into its flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognised<'a> {
    /// The flow: both directions between two addresses and ports.
    pub flow: FlowId,
    /// From the initiator to the reflector; where that is not known, from who was seen first.
    pub forward: bool,
    pub message: Message<'a>,
    /// A TCP segment whose bytes were seen before at this point.
    pub again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowKind {
    Unknown,
    Data,
    /// A flow of `stream`: datagrams with numbers, or a stream of bytes without.
    Bulk,
    Control,
}

/// State of one direction at one point of the machine: loopback shows each packet twice, leaving and arriving.
#[derive(Debug, Clone, Copy, Default)]
struct StreamPoint {
    /// The byte of the stream that comes next.
    next: Option<u32>,
    /// The last number and tag, and how many before fitted.
    guess: Option<(u64, u64, u8)>,
    highest: u64,
}

#[derive(Debug)]
struct Flow {
    id: FlowId,
    initiator: SocketAddr,
    kind: FlowKind,
    tag: Option<u64>,
    /// By direction, then by point: leaving, arriving, not known.
    seen: [[StreamPoint; 3]; 2],
}

/// Recognises Windhover's flows and messages, packet after packet.
#[derive(Debug, Default)]
pub struct Recogniser {
    flows: BTreeMap<(u8, SocketAddr, SocketAddr), Flow>,
    ports: Vec<u16>,
    sources: Sources,
}

impl Recogniser {
    /// `ports` are those whose UDP datagrams are taken for data messages without a proof.
    pub fn new(ports: Vec<u16>) -> Self {
        Self { ports, ..Self::default() }
    }

    /// `ports` are those whose UDP datagrams are PGM, besides [`super::PGM_PORTS`].
    #[must_use]
    pub fn with_pgm_ports(mut self, ports: &[u16]) -> Self {
        self.sources.name(ports);
        self
    }

    /// Puts one packet into its flow. `leaving`: whether it was captured on its way out, where that is known.
    pub fn look<'a>(&mut self, packet: &Packet<'a>, leaving: Option<bool>) -> Recognised<'a> {
        let number = match packet.transport {
            Transport::Udp => 17,
            Transport::Tcp(_) => 6,
            Transport::Fragment | Transport::Other(_) => {
                if let Some(found) = self.sources.look(packet, false) {
                    return found.into();
                }
                let message = if packet.transport == Transport::Fragment { Message::More } else { Message::Foreign };
                return Recognised { flow: FlowId::OTHERS, forward: true, message, again: false };
            }
        };
        let (from, to) = ends(packet);
        let key = if from <= to { (number, from, to) } else { (number, to, from) };
        if number == 17 {
            let guess = self.flows.get(&key).is_none_or(|flow| flow.kind == FlowKind::Unknown);
            if let Some(found) = self.sources.look(packet, guess) {
                return found.into();
            }
        }
        let known = self.flows.len();
        if known >= MOST_FLOWS && !self.flows.contains_key(&key) {
            return Recognised { flow: FlowId::OTHERS, forward: true, message: Message::Foreign, again: false };
        }
        let named = self.ports.contains(&from.port()) || self.ports.contains(&to.port());
        let flow = self.flows.entry(key).or_insert_with(|| Flow {
            id: FlowId(u32::try_from(known).unwrap_or(u32::MAX)),
            initiator: from,
            kind: if named && number == 17 { FlowKind::Data } else { FlowKind::Unknown },
            tag: None,
            seen: Default::default(),
        });
        let point = match leaving {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        };
        flow.look(packet, from, point)
    }
}

impl<'a> From<Sighted<'a>> for Recognised<'a> {
    fn from(found: Sighted<'a>) -> Self {
        let forward = found.packet.packet.is_ok_and(|packet| !packet.body.goes_to_source());
        Self { flow: found.source, forward, message: Message::Pgm(Box::new(found)), again: false }
    }
}

/// The ends of a flow. Answers to a multicast group come from other addresses: the group stands for both.
fn ends(packet: &Packet<'_>) -> (SocketAddr, SocketAddr) {
    let (mut from, to) = (packet.source, packet.destination);
    if to.ip().is_multicast() {
        from.set_ip(to.ip());
    }
    (from, to)
}

impl Flow {
    fn look<'a>(&mut self, packet: &Packet<'_>, from: SocketAddr, point: usize) -> Recognised<'a> {
        let payload = packet.payload;
        let again = match packet.transport {
            Transport::Tcp(head) => self.seen_before(from, point, head, packet.payload_bytes),
            _ => false,
        };
        let empty_segment = packet.payload_bytes == 0 && matches!(packet.transport, Transport::Tcp(_));
        let message = if empty_segment {
            Message::Nothing
        } else if let Some(kind) = proves(packet) {
            self.kind = kind;
            self.initiator = from;
            Message::Proof
        } else if let Some(names) = control_names(payload).filter(|_| matches!(packet.transport, Transport::Tcp(_))) {
            self.kind = FlowKind::Control;
            // The endpoint speaks first, and the capture may begin after the connection.
            match names.first().map(String::as_str) {
                Some("server-hello" | "welcome" | "opened" | "proved" | "started" | "stopped" | "refused") => {
                    self.initiator = ends(packet).1;
                }
                _ => self.initiator = from,
            }
            Message::Control(names)
        } else {
            if self.kind == FlowKind::Unknown {
                self.guess(packet, from, point);
            }
            match self.kind {
                FlowKind::Control => Message::Control(Vec::new()),
                FlowKind::Bulk if matches!(packet.transport, Transport::Tcp(_)) => Message::More,
                FlowKind::Data | FlowKind::Bulk => self.data(packet, from, point),
                FlowKind::Unknown => Message::Foreign,
            }
        };
        Recognised { flow: self.id, forward: from == self.initiator, message, again }
    }

    fn seen(&mut self, from: SocketAddr, point: usize) -> &mut StreamPoint {
        // Both indices are below the lengths.
        &mut self.seen[usize::from(from != self.initiator)][point.min(2)]
    }

    fn seen_before(&mut self, from: SocketAddr, point: usize, head: super::TcpHead, bytes: usize) -> bool {
        const SYN: u8 = 2;
        let seen = self.seen(from, point);
        // SYN takes a number of its own. Lengths of segments fit.
        let length = u32::try_from(bytes).unwrap_or(0).wrapping_add(u32::from(head.flags & SYN != 0));
        let end = head.seq.wrapping_add(length);
        let Some(next) = seen.next.filter(|_| head.flags & SYN == 0) else {
            seen.next = Some(end);
            return false;
        };
        // Half of all numbers lie behind, half before (RFC 9293, 3.4).
        let ahead = end.wrapping_sub(next);
        if ahead == 0 || ahead >= 1 << 31 {
            return length > 0;
        }
        seen.next = Some(end);
        false
    }

    /// Makes the flow ours once its numbers and tags have looked like ours for long enough.
    fn guess(&mut self, packet: &Packet<'_>, from: SocketAddr, point: usize) {
        let Some((seq, tag)) = whole(packet.payload).filter(|_| packet.transport == Transport::Udp) else { return };
        let seen = self.seen(from, point);
        let hits = match seen.guess {
            Some((last, known, hits)) if known == tag && (1..=NEAR).contains(&seq.wrapping_sub(last)) => hits + 1,
            _ => 0,
        };
        seen.guess = Some((seq, tag, hits));
        if hits >= ENOUGH {
            self.kind = FlowKind::Data;
        }
    }

    fn data<'a>(&mut self, packet: &Packet<'_>, from: SocketAddr, point: usize) -> Message<'a> {
        let stream = matches!(packet.transport, Transport::Tcp(_));
        let (payload, bytes) = (packet.payload, packet.payload_bytes);
        let tier = Tier::for_size(bytes);
        let tag = whole(payload).filter(|_| tier == Tier::Tagged).map(|(_, tag)| tag);
        if stream {
            // Only the start of a message has a header, and only the tag tells a start from the middle.
            match (self.tag, tag) {
                (Some(known), found) if found != Some(known) => return Message::More,
                (None, Some(found)) => self.tag = Some(found),
                _ => {}
            }
        }
        let kept = match tier {
            // The tag of the header itself, so that nothing counts as a stray.
            Tier::Tagged => whole(payload).map(|(seq, _)| seq),
            tier => data::read(tier, 0, payload),
        };
        let seen = self.seen(from, point);
        let seq = kept.map(|kept| data::expand(tier, kept, seen.highest));
        seen.highest = seen.highest.max(seq.unwrap_or(0));
        // A stream has its sender's time there.
        let far = if from == self.initiator || self.kind == FlowKind::Bulk { None } else { far(payload) };
        Message::Data { tier, seq, tag, far }
    }
}

/// The reflector's stamps, if the bytes can be some: no mark identifies them, others have zeros or payload there.
pub(super) fn far(payload: &[u8]) -> Option<FarStamps> {
    /// Longer than any reflector holds a message, in ticks.
    const LONGEST: u64 = 1 << 44;
    /// September 2001.
    const WALL: u64 = 1_000_000_000_000_000_000;
    let found = data::read_stamps(payload, true);
    if found.rx == 0 || found.tx.checked_sub(found.rx).is_none_or(|ticks| ticks >= LONGEST) {
        return None;
    }
    let wall = found.received_ns > WALL && found.sent_ns.checked_sub(found.received_ns).is_some_and(|ns| ns < LONGEST);
    Some(if wall { found } else { FarStamps { rx: found.rx, tx: found.tx, ..FarStamps::default() } })
}

/// What a flow carries when this packet is the proof that opens it.
fn proves(packet: &Packet<'_>) -> Option<FlowKind> {
    let is = |bytes, magic: &[u8]| packet.payload_bytes == bytes && packet.payload.starts_with(magic);
    if is(PROVE_BYTES, &PROVE_MAGIC) {
        return Some(FlowKind::Data);
    }
    is(stream::PROVE_BYTES, &stream::PROVE_MAGIC).then_some(FlowKind::Bulk)
}

/// Number and tag of a full header.
pub(super) fn whole(payload: &[u8]) -> Option<(u64, u64)> {
    let head: &[u8; 16] = payload.first_chunk()?;
    let number = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some((number(0)?, number(8)?))
}

/// The types of the control messages that begin in these bytes of a stream; `None` when none begins at the front.
fn control_names(payload: &[u8]) -> Option<Vec<String>> {
    let mut names = vec![control_name(payload)?];
    let mut rest = payload;
    while let Some((prefix, body)) = rest.split_first_chunk::<PREFIX_BYTES>() {
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        // Keyed sessions have a MAC between two frames.
        let next = [0, MAC_BYTES].into_iter().find_map(|mac| {
            let after = body.get(length.checked_add(mac)?..)?;
            Some((after, control_name(after)?))
        });
        let Some((after, name)) = next else { break };
        names.push(name);
        rest = after;
    }
    Some(names)
}

/// The type of the control message whose frame begins here; it may be cut.
fn control_name(frame: &[u8]) -> Option<String> {
    let (prefix, body) = frame.split_first_chunk::<PREFIX_BYTES>()?;
    let length = usize::try_from(u32::from_be_bytes(*prefix)).ok()?;
    if length <= CONTROL_START.len() || length > CONTROL_LIMIT {
        return None;
    }
    let word = body.strip_prefix(CONTROL_START)?;
    let end = word.iter().position(|byte| !(byte.is_ascii_lowercase() || *byte == b'-'))?;
    // A type that this version does not know is named all the same.
    (word.get(end) == Some(&b'"') && (1..=40).contains(&end))
        .then(|| String::from_utf8_lossy(word.get(..end).unwrap_or_default()).into_owned())
}
