//! Captured packets, from a file or an interface: each decoded with what the packets before it say of it, and a summary
//! of all. Nothing is printed here.
//!
//! Floor 2: no unsafe code, no settings of the system, no processes.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod repairs;
mod summary;

pub use summary::{FlowSummary, SourceSummary, Summary};

use exchange::{FrameError, Framing, Header};
use net::capture::{CaptureError, Direction, Entry, Live, Reader};
use record::repairs::{PacketNotes, Repairs};
use record::timeline::{CapturedMessage, MessageNotes, Timeline};
use std::io::Read;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::dissect::{self, Link, Message, Packet, Recognised, Recogniser, Sighted, Transport, Undecoded};

/// How often a live capture checks whether it is to end.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Which packets are decoded, and when to stop.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Messages after which to stop.
    pub count: Option<u64>,
    /// Seconds after the first packet at which to stop; of an interface, after the start.
    pub seconds: Option<f64>,
    /// Only packets from or to these ports, whose UDP datagrams are taken for data messages; empty: all.
    pub ports: Vec<u16>,
    /// Further UDP ports of PGM.
    pub pgm_ports: Vec<u16>,
    /// Only packets from or to these addresses; empty: all.
    pub hosts: Vec<IpAddr>,
}

#[derive(Debug)]
pub struct Frame<'a> {
    /// The capture's interface.
    pub interface: u32,
    /// Link type, by its number in pcap files.
    pub link: u32,
    /// When, in ns since 1970; absent in captures without times.
    pub time_ns: Option<u64>,
    /// Whether it left the machine, where that is known.
    pub leaving: Option<bool>,
    /// Its length on the wire.
    pub sent_bytes: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// VLAN, where the capture tells it beside the frame.
    pub vlan: Option<u16>,
    pub comment: Option<&'a str>,
}

#[derive(Debug)]
pub struct Record<'a> {
    /// Time of the first frame, in ns since 1970.
    pub first_ns: Option<u64>,
    pub frame: &'a Frame<'a>,
    pub content: Content<'a>,
}

#[derive(Debug)]
pub enum Content<'a> {
    /// A packet of Windhover's, or of others.
    Message {
        packet: &'a Packet<'a>,
        found: &'a Recognised<'a>,
        /// What the messages before say of this one; absent where it is no message, or a repeated one.
        notes: Option<MessageNotes>,
        /// Whether it is Windhover's.
        ours: bool,
    },
    Pgm {
        packet: &'a Packet<'a>,
        sighted: &'a Sighted<'a>,
        /// What the packets before say of this one.
        notes: PacketNotes,
    },
    /// A frame of an exchange, native or of SDN, known by its magic number.
    Exchange {
        packet: &'a Packet<'a>,
        framing: Framing,
        /// Absent where the capture cut it.
        header: Option<Result<Header, FrameError>>,
        /// What the frames of its flow before say of this one.
        notes: MessageNotes,
    },
    Undecoded(Undecoded),
}

/// Takes records as they are decoded. [`ControlFlow::Break`] ends the capture.
pub trait Sink {
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()>;
    /// No record is waiting: the time to write what was kept back.
    fn idle(&mut self) -> ControlFlow<()>;
}

#[derive(Debug)]
pub struct Decoder {
    selection: Selection,
    recogniser: Recogniser,
    timeline: Timeline,
    repairs: Repairs,
    counts: summary::Counts,
    first_ns: Option<u64>,
    /// The sink takes no more.
    over: bool,
}

impl Decoder {
    pub fn new(selection: Selection) -> Self {
        Self {
            recogniser: Recogniser::new(selection.ports.clone()).with_pgm_ports(&selection.pgm_ports),
            selection,
            timeline: Timeline::default(),
            repairs: Repairs::default(),
            counts: summary::Counts::default(),
            first_ns: None,
            over: false,
        }
    }

    /// Decodes a file to its end, or until `stop` is set. Errors: the file is damaged; what was decoded before counts.
    pub fn file(
        &mut self,
        reader: &mut Reader<impl Read>,
        stop: &AtomicBool,
        sink: &mut dyn Sink,
    ) -> Result<(), CaptureError> {
        while let Some(entry) = reader.next_entry()? {
            match entry {
                Entry::Packet(record) => {
                    let frame = Frame {
                        interface: record.interface,
                        link: record.link,
                        time_ns: record.time_ns,
                        leaving: record.leaving,
                        sent_bytes: record.sent_bytes,
                        bytes: &record.frame,
                        vlan: None,
                        comment: record.comment.as_deref(),
                    };
                    self.decode(&frame, sink);
                }
                Entry::Comment(text) => self.counts.comment(text),
                Entry::Dropped(packets) => self.counts.summary.dropped += packets,
            }
            if stop.load(Ordering::Relaxed) || self.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Decodes what passes an interface until `stop` is set.
    pub fn live(&mut self, live: &mut Live, stop: &AtomicBool, sink: &mut dyn Sink) {
        let link = live.link().link;
        let end = self.selection.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        while !stop.load(Ordering::Relaxed) && !self.is_over() {
            let left = end.map_or(STOP_CHECK, |end| end.saturating_duration_since(Instant::now()).min(STOP_CHECK));
            if left.is_zero() {
                break;
            }
            live.wait(left, &mut |taken| {
                let frame = Frame {
                    interface: u32::from(taken.hardware),
                    link,
                    time_ns: Some(taken.time_ns),
                    leaving: Some(taken.way == Direction::Out),
                    sent_bytes: taken.sent_bytes,
                    bytes: taken.frame,
                    vlan: taken.vlan.map(|(_, control)| control & 0x0fff),
                    comment: None,
                };
                if !self.is_over() {
                    self.decode(&frame, sink);
                }
            });
            self.over |= sink.idle().is_break();
        }
        self.counts.summary.dropped += live.dropped();
    }

    /// What the whole capture held.
    pub fn finish(self) -> Summary {
        self.counts.finish(self.timeline, self.repairs)
    }

    fn is_over(&self) -> bool {
        self.over
            || self
                .selection
                .count
                .is_some_and(|count| self.counts.summary.messages + self.counts.summary.exchange >= count)
    }

    fn decode(&mut self, frame: &Frame<'_>, sink: &mut dyn Sink) {
        let first_ns = self.first_ns.or(frame.time_ns);
        if let (Some(now), Some(first), Some(seconds)) = (frame.time_ns, first_ns, self.selection.seconds)
            && now.saturating_sub(first) as f64 > seconds * 1e9
        {
            self.over = true;
            return;
        }
        self.first_ns = first_ns;
        self.counts.summary.packets += 1;
        let mut give = |content| self.over |= sink.record(&Record { first_ns, frame, content }).is_break();
        let Some(link) = Link::from_number(frame.link) else { return self.counts.unknown_link(frame.link) };
        let sent = usize::try_from(frame.sent_bytes).unwrap_or(usize::MAX);
        let packet = match dissect::packet(link, frame.bytes, sent) {
            Ok(packet) => Packet { vlan: packet.vlan.or(frame.vlan), ..packet },
            Err(why) => {
                self.counts.undecoded(why);
                return give(Content::Undecoded(why));
            }
        };
        if !self.selection.takes(&packet) {
            self.counts.summary.filtered += 1;
            return;
        }
        let found = self.recogniser.look(&packet, frame.leaving);
        match &found.message {
            Message::Pgm(sighted) => {
                let notes = repairs::see(&mut self.repairs, frame, sighted);
                self.counts.pgm(&packet, sighted, &notes);
                give(Content::Pgm { packet: &packet, sighted, notes });
            }
            Message::Foreign
                if let Some(framing) =
                    Framing::recognise(packet.payload).filter(|_| packet.transport == Transport::Udp) =>
            {
                let is_whole = packet.payload.len() == packet.payload_bytes;
                let header = is_whole.then(|| framing.decode(packet.payload).map(|(header, _)| header));
                let known = header.and_then(Result::ok);
                let see = |header: Header| self.timeline.see(&captured(frame, &packet, &found, Some(header.sequence)));
                let notes = known.map(see).unwrap_or_default();
                self.counts.exchange(header);
                give(Content::Exchange { packet: &packet, framing, header, notes });
            }
            message => {
                let notes = match (message, found.again) {
                    (Message::Data { seq, .. }, false) => {
                        Some(self.timeline.see(&captured(frame, &packet, &found, *seq)))
                    }
                    _ => None,
                };
                let ours = self.counts.message(&packet, &found);
                give(Content::Message { packet: &packet, found: &found, notes, ours });
            }
        }
    }
}

fn captured(frame: &Frame<'_>, packet: &Packet<'_>, found: &Recognised<'_>, seq: Option<u64>) -> CapturedMessage {
    CapturedMessage {
        flow: found.flow.0,
        forward: found.forward,
        leaving: frame.leaving,
        clock: frame.interface,
        time_ns: frame.time_ns,
        seq,
        bytes: packet.payload_bytes as u64,
    }
}

impl Selection {
    fn takes(&self, packet: &Packet<'_>) -> bool {
        let ends = [packet.source, packet.destination];
        let of_port = self.ports.is_empty() || ends.iter().any(|end| self.ports.contains(&end.port()));
        of_port && (self.hosts.is_empty() || ends.iter().any(|end| self.hosts.contains(&end.ip())))
    }
}
