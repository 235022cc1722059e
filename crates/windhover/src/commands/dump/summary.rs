//! What a whole capture held.

use super::lines::plain;
use super::pgm_summary::PgmSources;
use record::repairs::{PacketNotes, SourceFigures};
use record::timeline::{AnswerFigures, Span, StreamFigures};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use wire::dissect::{FlowId, Message, Packet, Recognised, Sighted, Transport, Undecoded};

/// Flows that are listed by name.
const MOST_FLOWS: usize = 256;

/// One of Windhover's flows.
struct Flow {
    protocol: &'static str,
    from: SocketAddr,
    to: SocketAddr,
    control: u64,
    proofs: u64,
    again: u64,
}

/// Counts over the capture.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) packets: u64,
    /// Data messages.
    pub(super) messages: u64,
    /// Packets that --port and --host left out.
    pub(super) filtered: u64,
    /// Packets that the capture itself lost.
    pub(super) dropped: u64,
    /// A packet behind --seconds came.
    pub(super) late: bool,
    others: u64,
    fragments: u64,
    undecoded: u64,
    cut: u64,
    comments: Vec<String>,
    strange_links: BTreeMap<u32, u64>,
    flows: BTreeMap<FlowId, Flow>,
    sources: PgmSources,
}

impl Summary {
    /// Counts one packet; says whether it is Windhover's.
    pub(super) fn count(&mut self, packet: &Packet<'_>, found: &Recognised<'_>) -> bool {
        let ours = match found.message {
            Message::Data { .. } | Message::Control(_) | Message::Proof => true,
            Message::More | Message::Nothing => self.flows.contains_key(&found.flow),
            Message::Pgm(_) | Message::Foreign => false,
        };
        if !ours {
            let counter = if packet.transport == Transport::Fragment { &mut self.fragments } else { &mut self.others };
            *counter += 1;
            return false;
        }
        if self.flows.len() < MOST_FLOWS || self.flows.contains_key(&found.flow) {
            let (from, to) =
                if found.forward { (packet.source, packet.destination) } else { (packet.destination, packet.source) };
            let protocol = if packet.transport == Transport::Udp { "udp" } else { "tcp" };
            let flow =
                self.flows.entry(found.flow).or_insert(Flow { protocol, from, to, control: 0, proofs: 0, again: 0 });
            flow.again += u64::from(found.again);
            match &found.message {
                Message::Control(names) => flow.control += names.len() as u64,
                Message::Proof => flow.proofs += 1,
                _ => {}
            }
        }
        self.messages += u64::from(matches!(found.message, Message::Data { .. }) && !found.again);
        true
    }

    /// Counts one packet of PGM.
    pub(super) fn pgm(&mut self, packet: &Packet<'_>, sighted: &Sighted<'_>, told: &PacketNotes) {
        self.messages += u64::from(self.sources.count(packet, sighted, told));
    }

    pub(super) fn undecoded(&mut self, why: Undecoded) {
        self.undecoded += 1;
        self.cut += u64::from(matches!(why, Undecoded::Cut(_)));
    }

    pub(super) fn comment(&mut self, text: String) {
        const MOST: usize = 16;
        if self.comments.len() < MOST {
            self.comments.push(text);
        }
    }

    pub(super) fn strange_link(&mut self, number: u32) {
        self.undecoded += 1;
        *self.strange_links.entry(number).or_default() += 1;
    }

    pub(super) fn text(
        &self,
        streams: &[StreamFigures],
        answers: &[AnswerFigures],
        sources: &[SourceFigures],
        out: &mut String,
    ) {
        for comment in &self.comments {
            let _ = writeln!(out, "# {}", plain(comment));
        }
        let mut line = format!(
            "{}, {} in {} of Windhover's",
            counted(self.packets, "packet"),
            counted(self.messages, "message"),
            counted(self.flows.len() as u64, "flow")
        );
        if self.sources.len() > 0 {
            let _ = write!(line, ", {}", counted(self.sources.len() as u64, "PGM source"));
        }
        for (count, what) in [
            (self.others, "packets of others"),
            (self.fragments, "later fragments"),
            (self.filtered, "left out by --port and --host"),
            (self.undecoded, "not decoded"),
            (self.cut, "of them cut inside a header"),
            (self.dropped, "lost by the capture"),
        ] {
            if count > 0 {
                let _ = write!(line, ", {count} {what}");
            }
        }
        let _ = writeln!(out, "{line}");
        for (number, count) in &self.strange_links {
            let _ = writeln!(out, "{count} packets have link type {number}, which is not decoded");
        }
        if self.flows.is_empty() && self.sources.len() == 0 && self.others > 0 {
            let _ =
                writeln!(out, "no flow is known for Windhover's: name its port (--port), or see all packets (--all)");
        }
        for (id, flow) in &self.flows {
            let _ = write!(out, "\n{} {} > {}", flow.protocol, flow.from, flow.to);
            for (count, what) in
                [(flow.proofs, "proof"), (flow.control, "control message"), (flow.again, "repeated segment")]
            {
                if count > 0 {
                    let _ = write!(out, ", {}", counted(count, what));
                }
            }
            out.push('\n');
            for stream in streams.iter().filter(|stream| stream.flow == id.0) {
                stream_text(stream, out);
            }
            for answer in answers.iter().filter(|answer| answer.flow == id.0) {
                let name = match answer.span {
                    Span::RoundTrip => "RTT at the capture",
                    Span::Turnaround => "turnaround at the capture",
                };
                let _ = writeln!(out, "  {name}, µs: {}", quantiles(&answer.times));
            }
        }
        self.sources.text(sources, out);
    }

    pub(super) fn json(
        &self,
        streams: &[StreamFigures],
        answers: &[AnswerFigures],
        sources: &[SourceFigures],
        out: &mut String,
    ) {
        let flows: Vec<_> = self
            .flows
            .iter()
            .map(|(id, flow)| {
                let streams: Vec<_> = streams.iter().filter(|stream| stream.flow == id.0).map(stream_json).collect();
                let answers: Vec<_> = answers
                    .iter()
                    .filter(|answer| answer.flow == id.0)
                    .map(|answer| {
                        let kind = match answer.span {
                            Span::RoundTrip => "rtt",
                            Span::Turnaround => "turnaround",
                        };
                        let mut value = figures(&answer.times);
                        value["kind"] = kind.into();
                        value
                    })
                    .collect();
                json!({
                    "flow": id.0,
                    "protocol": flow.protocol,
                    "from": flow.from.to_string(),
                    "to": flow.to.to_string(),
                    "proofs": flow.proofs,
                    "control": flow.control,
                    "again": flow.again,
                    "directions": streams,
                    "answers": answers,
                })
            })
            .collect();
        let value = json!({
            "type": "summary",
            "comments": self.comments,
            "packets": self.packets,
            "messages": self.messages,
            "others": self.others,
            "fragments": self.fragments,
            "filtered": self.filtered,
            "undecoded": self.undecoded,
            "cut": self.cut,
            "dropped": self.dropped,
            "flows": flows,
            "pgm": self.sources.json(sources),
        });
        let _ = writeln!(out, "{value}");
    }
}

/// A count and its word, in the plural where it is one.
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Which way, seen where.
fn direction(stream: &StreamFigures) -> String {
    let way = if stream.forward { ">" } else { "<" };
    match stream.leaving {
        Some(true) => format!("{way} out"),
        Some(false) => format!("{way} in"),
        None => way.to_owned(),
    }
}

fn stream_text(stream: &StreamFigures, out: &mut String) {
    let rate = stream.per_second().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let _ = writeln!(
        out,
        "  {}: {} messages, {} bytes, {rate}/s, {} numbers missing, {} late, {} seen before",
        direction(stream),
        stream.messages,
        stream.bytes,
        stream.lost,
        stream.late,
        stream.repeated,
    );
    let _ = writeln!(out, "    between two, µs: {}", quantiles(&stream.between));
}

fn stream_json(stream: &StreamFigures) -> serde_json::Value {
    json!({
        "forward": stream.forward,
        "leaving": stream.leaving,
        "messages": stream.messages,
        "bytes": stream.bytes,
        "span_ns": stream.span_ns,
        "per_second": stream.per_second(),
        "missing": stream.lost,
        "late": stream.late,
        "repeated": stream.repeated,
        "between": figures(&stream.between),
    })
}

pub(super) fn quantiles(times: &stats::Histogram) -> String {
    let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e3));
    format!(
        "{} times, min {}, p50 {}, p99 {}, max {}",
        times.count(),
        us(times.min()),
        us(times.quantile_if_supported(0.5, stats::Histogram::BEYOND)),
        us(times.quantile_if_supported(0.99, stats::Histogram::BEYOND)),
        us(times.max()),
    )
}

pub(super) fn figures(times: &stats::Histogram) -> serde_json::Value {
    json!({
        "count": times.count(),
        "min_ns": times.min(),
        "p50_ns": times.quantile_if_supported(0.5, stats::Histogram::BEYOND),
        "p99_ns": times.quantile_if_supported(0.99, stats::Histogram::BEYOND),
        "max_ns": times.max(),
    })
}
