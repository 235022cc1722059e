//! One packet as a line.

use super::pgm_lines;
use dump::{Content, Record};
use exchange::{FrameError, Framing, Header};
use record::timeline::{MessageNotes, Order, Span};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use wire::data::FarStamps;
use wire::dissect::{Message, Packet, Recognised, Transport};

/// Above the first line. The second column compares messages of one flow, direction and way.
pub(super) const HEADING: &str = "#  since start s  since last µs way  from > to\n";

pub(super) fn text(record: &Record<'_>, line: &mut String) {
    let delta_ns = match &record.content {
        Content::Message { notes, .. } => notes.and_then(|notes| notes.delta_ns),
        Content::Pgm { notes, .. } => notes.delta_ns,
        Content::Exchange { notes, .. } => notes.delta_ns,
        Content::Undecoded(_) => None,
    };
    head(record, delta_ns, line);
    match &record.content {
        Content::Message { packet, found, notes, .. } => {
            let _ =
                write!(line, "{} {} B  {}", protocol(packet.transport), packet.payload_bytes, message(packet, found));
            message_text(found, *notes, line);
        }
        Content::Pgm { packet, sighted, notes } => pgm_lines::text(packet, sighted, notes, line),
        Content::Exchange { packet, framing, header, notes } => {
            let _ = write!(line, "udp {} B  exchange {framing}", packet.payload_bytes);
            exchange_text(*framing, *header, line);
            order_text(notes.order, line);
        }
        Content::Undecoded(why) => {
            let _ = writeln!(line, "{} B, not decoded: {why}", record.frame.sent_bytes);
            return;
        }
    }
    if let Some(comment) = record.frame.comment {
        let _ = write!(line, "  # {}", model::text::visible_line(comment));
    }
    line.push('\n');
}

/// Time since the first packet in seconds, to the message before in µs, the direction, and both ends.
fn head(record: &Record<'_>, delta_ns: Option<i64>, line: &mut String) {
    let since = record.frame.time_ns.zip(record.first_ns).map(|(now, first)| i128::from(now) - i128::from(first));
    let since = since.map_or_else(|| "-".to_owned(), |ns| format!("{:.9}", ns as f64 / 1e9));
    let delta = delta_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:+.3}", ns as f64 / 1e3));
    let _ = write!(line, "{since:>15} {delta:>13} {:<3}  ", direction(record.frame.leaving, "-"));
    if let Content::Message { packet, .. } | Content::Pgm { packet, .. } | Content::Exchange { packet, .. } =
        &record.content
    {
        let _ = write!(line, "{} > {}  ", end(packet.source), end(packet.destination));
        if let Some(vlan) = packet.vlan {
            let _ = write!(line, "vlan {vlan} ");
        }
    }
}

pub(super) fn json(record: &Record<'_>) -> Value {
    let frame = record.frame;
    let mut line = Map::new();
    line.insert("type".to_owned(), "packet".into());
    line.insert("time_ns".to_owned(), frame.time_ns.into());
    line.insert("interface".to_owned(), frame.interface.into());
    line.insert("leaving".to_owned(), frame.leaving.into());
    let (packet, delta_ns) = match &record.content {
        Content::Message { packet, found, notes, .. } => {
            let notes = notes.unwrap_or_default();
            line.insert("flow".to_owned(), found.flow.0.into());
            line.insert("forward".to_owned(), found.forward.into());
            line.insert("message".to_owned(), kind(&found.message).into());
            message_json(found, notes, &mut line);
            (packet, notes.delta_ns)
        }
        Content::Pgm { packet, sighted, notes } => {
            line.insert("message".to_owned(), "pgm".into());
            line.insert("pgm".to_owned(), pgm_lines::json(sighted, notes));
            (packet, notes.delta_ns)
        }
        Content::Exchange { packet, framing, header, notes } => {
            line.insert("message".to_owned(), "exchange".into());
            line.insert("exchange".to_owned(), exchange_json(*framing, *header));
            order_json(notes.order, &mut line);
            (packet, notes.delta_ns)
        }
        Content::Undecoded(why) => {
            line.insert("bytes".to_owned(), frame.sent_bytes.into());
            line.insert("message".to_owned(), "undecoded".into());
            line.insert("why".to_owned(), why.to_string().into());
            return line.into();
        }
    };
    line.insert("from".to_owned(), end(packet.source).into());
    line.insert("to".to_owned(), end(packet.destination).into());
    line.insert("protocol".to_owned(), protocol(packet.transport).into());
    line.insert("bytes".to_owned(), packet.payload_bytes.into());
    line.insert("delta_ns".to_owned(), delta_ns.into());
    put(&mut line, "vlan", packet.vlan);
    put(&mut line, "comment", frame.comment);
    line.into()
}

/// Adds a field that is there.
pub(super) fn put(line: &mut Map<String, Value>, name: &str, field: Option<impl Into<Value>>) {
    if let Some(field) = field {
        line.insert(name.to_owned(), field.into());
    }
}

fn message_text(found: &Recognised<'_>, notes: Option<MessageNotes>, line: &mut String) {
    if found.again {
        line.push_str("  [sent again]");
    }
    if let Some(notes) = notes {
        order_text(notes.order, line);
        answer_text(notes.answer, line);
    }
    if let Message::Data { far, .. } = found.message {
        far_text(far, line);
    }
}

pub(super) fn order_text(order: Order, line: &mut String) {
    match order {
        Order::Next => {}
        Order::Gap(missing) => drop(write!(line, "  [{missing} missing before]")),
        Order::Late => line.push_str("  [late]"),
        Order::Repeated => line.push_str("  [number seen before]"),
        Order::Jump => line.push_str("  [numbers begin anew]"),
    }
}

const CUT: &str = "cut by the capture";

fn exchange_text(framing: Framing, header: Option<Result<Header, FrameError>>, line: &mut String) {
    let _ = match header {
        Some(Ok(Header { topic, sequence, layout, .. })) if !framing.is_native() => {
            write!(line, " topic {topic:08x} version {layout:08x} seq {sequence}")
        }
        Some(Ok(Header { quality, is_last, topic, publisher, sequence, cycle, .. })) => {
            let last = if is_last { ", the last" } else { "" };
            write!(line, " topic {topic} from {publisher} seq {sequence} cycle {cycle} {quality}{last}")
        }
        Some(Err(why)) => write!(line, ", damaged: {why}"),
        None => write!(line, ", {CUT}"),
    };
}

fn exchange_json(framing: Framing, header: Option<Result<Header, FrameError>>) -> Value {
    let name = framing.to_string();
    match header {
        Some(Ok(h)) if !framing.is_native() => {
            json!({ "framing": name, "topic": h.topic, "layout": h.layout, "seq": h.sequence, "sent_ns": h.sent_ns })
        }
        Some(Ok(h)) => {
            json!({ "framing": name, "topic": h.topic, "layout": h.layout, "seq": h.sequence, "sent_ns": h.sent_ns,
                "publisher": h.publisher, "epoch": h.epoch, "cycle": h.cycle, "scheduled_ns": h.scheduled_ns,
                "quality": h.quality.to_string(), "last": h.is_last })
        }
        Some(Err(why)) => json!({ "framing": name, "damaged": why.to_string() }),
        None => json!({ "framing": name, "damaged": CUT }),
    }
}

fn message_json(found: &Recognised<'_>, notes: MessageNotes, line: &mut Map<String, Value>) {
    put(line, "again", found.again.then_some(true));
    match &found.message {
        Message::Data { seq, tag, far, .. } => {
            put(line, "seq", *seq);
            put(line, "tag", tag.map(|tag| format!("{tag:016x}")));
            far_json(*far, line);
        }
        Message::Control(names) => put(line, "control", Some(json!(names))),
        _ => {}
    }
    order_json(notes.order, line);
    answer_json(notes.answer, line);
}

pub(super) fn order_json(order: Order, line: &mut Map<String, Value>) {
    match order {
        Order::Next => {}
        Order::Gap(missing) => put(line, "missing_before", Some(missing)),
        Order::Late => put(line, "late", Some(true)),
        Order::Repeated => put(line, "repeated", Some(true)),
        Order::Jump => put(line, "jump", Some(true)),
    }
}

pub(super) fn answer_text(answer: Option<(Span, u64)>, line: &mut String) {
    if let Some((span, ns)) = answer {
        let what = match span {
            Span::RoundTrip => "RTT",
            Span::Turnaround => "turned around in",
        };
        let _ = write!(line, "  {what} {}", us(ns));
    }
}

pub(super) fn answer_json(answer: Option<(Span, u64)>, line: &mut Map<String, Value>) {
    if let Some((span, ns)) = answer {
        line.insert(format!("{}_ns", span_name(span)), ns.into());
    }
}

/// How long the reflector held a message.
pub(super) fn far_text(far: Option<FarStamps>, line: &mut String) {
    let Some(far) = far else { return };
    let _ = match far.sent_ns {
        0 => write!(line, "  held {} ticks", far.tx.saturating_sub(far.rx)),
        sent_ns => write!(line, "  held {}", us(sent_ns.saturating_sub(far.received_ns))),
    };
}

pub(super) fn far_json(far: Option<FarStamps>, line: &mut Map<String, Value>) {
    put(line, "held_ticks", far.map(|far| far.tx.saturating_sub(far.rx)));
    let stamped = far.filter(|far| far.sent_ns > 0);
    put(line, "held_ns", stamped.map(|far| far.sent_ns.saturating_sub(far.received_ns)));
}

/// What a time at the capture is called in JSON.
pub(super) fn span_name(span: Span) -> &'static str {
    match span {
        Span::RoundTrip => "rtt",
        Span::Turnaround => "turnaround",
    }
}

/// Which way a packet went, seen from the capture.
pub(super) fn direction(leaving: Option<bool>, unknown: &'static str) -> &'static str {
    match leaving {
        Some(true) => "out",
        Some(false) => "in",
        None => unknown,
    }
}

pub(super) fn us(ns: u64) -> String {
    format!("{:.3} µs", ns as f64 / 1e3)
}

fn protocol(transport: Transport) -> String {
    match transport {
        Transport::Udp => "udp".to_owned(),
        Transport::Tcp(_) => "tcp".to_owned(),
        Transport::Fragment => "fragment".to_owned(),
        Transport::Other(number) => format!("ip-{number}"),
    }
}

fn kind(message: &Message<'_>) -> &'static str {
    match message {
        Message::Nothing => "none",
        Message::Proof => "proof",
        Message::Control(_) => "control",
        Message::Data { .. } => "data",
        Message::More => "more",
        Message::Pgm(_) => "pgm",
        Message::Foreign => "other",
    }
}

fn message(packet: &Packet<'_>, found: &Recognised<'_>) -> String {
    match (&found.message, packet.transport) {
        (Message::Nothing, Transport::Tcp(head)) => format!("[{}]", head.letters()),
        (Message::Nothing, _) => "empty".to_owned(),
        (Message::Proof, _) => "proof of the path".to_owned(),
        (Message::Control(names), _) if names.is_empty() => "control, more of a message".to_owned(),
        (Message::Control(names), _) => format!("control: {}", names.join(", ")),
        (Message::Data { seq: Some(seq), .. }, _) => format!("message {seq}"),
        (Message::Data { seq: None, .. }, _) => "message".to_owned(),
        (Message::More, _) => "more of a message".to_owned(),
        (Message::Pgm(_), _) => "PGM".to_owned(),
        (Message::Foreign, _) => "not Windhover's".to_owned(),
    }
}

pub(super) fn end(address: std::net::SocketAddr) -> String {
    if address.port() == 0 { address.ip().to_string() } else { address.to_string() }
}
