//! What a whole capture held.

use exchange::{FrameError, Header};
use pgm::Tsi;
use pgm::packet::{Body, Sum};
use record::repairs::{PacketNotes, Repairs, SourceFigures};
use record::timeline::{AnswerFigures, Order, StreamFigures, Timeline};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wire::dissect::{FlowId, Message, Packet, Recognised, Sighted, Transport, Undecoded};

/// Flows that are listed by name.
const MOST_FLOWS: usize = 256;
/// Sources that are listed.
const MOST_SOURCES: usize = 128;
/// Comments of a file that are kept.
const MOST_COMMENTS: usize = 16;

/// Counts over a capture, its flows and its sources.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "what is not said follows from its name")]
pub struct Summary {
    /// Packets within the selected time.
    pub packets: u64,
    /// Data messages, each counted once.
    pub messages: u64,
    /// Frames of exchanges, and those of them that are damaged or cut.
    pub exchange: u64,
    pub exchange_damaged: u64,
    pub filtered: u64,
    pub dropped: u64,
    pub others: u64,
    /// IP fragments behind the first.
    pub fragments: u64,
    pub undecoded: u64,
    /// Those of them that were cut inside a header.
    pub cut: u64,
    pub comments: Vec<String>,
    /// Packets of link types that are not decoded, by the type's number.
    pub unknown_links: BTreeMap<u32, u64>,
    pub flows: Vec<FlowSummary>,
    pub sources: Vec<SourceSummary>,
}

/// One of Windhover's flows.
#[derive(Debug)]
#[expect(missing_docs, reason = "what is not said follows from its name")]
pub struct FlowSummary {
    pub flow: u32,
    /// Whether it is UDP; otherwise TCP.
    pub udp: bool,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub control: u64,
    pub proofs: u64,
    /// TCP segments that came again.
    pub again: u64,
    /// Its directions, by the point where they were seen.
    pub streams: Vec<StreamFigures>,
    /// Times to its answers.
    pub answers: Vec<AnswerFigures>,
}

#[derive(Debug)]
#[expect(missing_docs, reason = "what is not said follows from its name")]
pub struct SourceSummary {
    pub number: u32,
    pub tsi: Tsi,
    pub data_port: u16,
    /// Whether UDP carries it; otherwise IP protocol 113.
    pub udp: bool,
    /// Where its packets come from and go to, once one was seen.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Packets by their checksum.
    pub sums: [(Sum, u64); 4],
    pub damaged: u64,
    pub messages: u64,
    /// Whether it announced its end.
    pub fin: bool,
    /// Whether it gave up.
    pub reset: bool,
    /// What became of its numbers; absent where there was no room for it.
    pub figures: Option<SourceFigures>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) summary: Summary,
    flows: BTreeMap<FlowId, FlowSummary>,
    sources: BTreeMap<FlowId, SourceSummary>,
}

impl Counts {
    /// Counts one packet. Returns whether it is Windhover's.
    pub(crate) fn message(&mut self, packet: &Packet<'_>, found: &Recognised<'_>) -> bool {
        let ours = match found.message {
            Message::Data { .. } | Message::Control(_) | Message::Proof => true,
            Message::More | Message::Nothing => self.flows.contains_key(&found.flow),
            Message::Pgm(_) | Message::Foreign => false,
        };
        let summary = &mut self.summary;
        if !ours {
            let fragment = packet.transport == Transport::Fragment;
            *(if fragment { &mut summary.fragments } else { &mut summary.others }) += 1;
            return false;
        }
        if self.flows.len() < MOST_FLOWS || self.flows.contains_key(&found.flow) {
            let (from, to) =
                if found.forward { (packet.source, packet.destination) } else { (packet.destination, packet.source) };
            let flow = self.flows.entry(found.flow).or_insert_with(|| FlowSummary {
                flow: found.flow.0,
                udp: packet.transport == Transport::Udp,
                from,
                to,
                control: 0,
                proofs: 0,
                again: 0,
                streams: Vec::new(),
                answers: Vec::new(),
            });
            flow.again += u64::from(found.again);
            match &found.message {
                Message::Control(names) => flow.control += names.len() as u64,
                Message::Proof => flow.proofs += 1,
                _ => {}
            }
        }
        summary.messages += u64::from(matches!(found.message, Message::Data { .. }) && !found.again);
        true
    }

    pub(crate) fn pgm(&mut self, packet: &Packet<'_>, sighted: &Sighted<'_>, notes: &PacketNotes) {
        if self.sources.len() >= MOST_SOURCES && !self.sources.contains_key(&sighted.source) {
            return;
        }
        let observed = &sighted.packet;
        let source = self.sources.entry(sighted.source).or_insert_with(|| SourceSummary {
            number: sighted.source.0,
            tsi: observed.head.tsi,
            data_port: observed.head.data_port,
            udp: packet.transport == Transport::Udp,
            ends: None,
            sums: [Sum::Good, Sum::Bad, Sum::Absent, Sum::Cut].map(|sum| (sum, 0)),
            damaged: 0,
            messages: 0,
            fin: false,
            reset: false,
            figures: None,
        });
        for (sum, count) in &mut source.sums {
            *count += u64::from(*sum == observed.sum);
        }
        let Ok(inside) = observed.packet else {
            source.damaged += 1;
            return;
        };
        if observed.sum == Sum::Bad {
            return;
        }
        if !inside.body.goes_to_source() {
            source.ends.get_or_insert((packet.source, packet.destination));
        }
        source.fin |= inside.options.fin;
        source.reset |= inside.options.reset.is_some();
        let begins = inside.options.fragment.is_none_or(|fragment| fragment.offset == 0);
        let new = matches!(inside.body, Body::Odata(_)) && notes.order != Order::Repeated;
        let message = u64::from(new && begins && !inside.options.parity);
        source.messages += message;
        self.summary.messages += message;
    }

    pub(crate) fn exchange(&mut self, header: Option<Result<Header, FrameError>>) {
        self.summary.exchange += 1;
        self.summary.exchange_damaged += u64::from(!matches!(header, Some(Ok(_))));
    }

    pub(crate) fn undecoded(&mut self, why: Undecoded) {
        self.summary.undecoded += 1;
        self.summary.cut += u64::from(matches!(why, Undecoded::Cut(_)));
    }

    pub(crate) fn unknown_link(&mut self, number: u32) {
        self.summary.undecoded += 1;
        *self.summary.unknown_links.entry(number).or_default() += 1;
    }

    pub(crate) fn comment(&mut self, text: String) {
        if self.summary.comments.len() < MOST_COMMENTS {
            self.summary.comments.push(text);
        }
    }

    pub(crate) fn finish(mut self, timeline: Timeline, repairs: Repairs) -> Summary {
        let (streams, answers) = timeline.finish();
        for stream in streams {
            if let Some(flow) = self.flows.get_mut(&FlowId(stream.flow)) {
                flow.streams.push(stream);
            }
        }
        for answer in answers {
            if let Some(flow) = self.flows.get_mut(&FlowId(answer.flow)) {
                flow.answers.push(answer);
            }
        }
        for figures in repairs.finish() {
            if let Some(source) = self.sources.get_mut(&FlowId(figures.source)) {
                source.figures = Some(figures);
            }
        }
        self.summary.flows = self.flows.into_values().collect();
        self.summary.sources = self.sources.into_values().collect();
        self.summary
    }
}
