//! One packet as a line.

use super::Seen;
use record::timeline::{MessageNotes, Order, Span};
use serde_json::{Value, json};
use std::fmt::Write as _;
use wire::dissect::{Message, Packet, Recognised, Transport, Undecoded};

/// Everything known of one packet.
pub(super) struct Line<'a> {
    pub(super) first_ns: Option<u64>,
    pub(super) seen: &'a Seen<'a>,
    pub(super) packet: &'a Packet<'a>,
    pub(super) found: &'a Recognised<'a>,
    pub(super) told: Option<MessageNotes>,
}

/// Above the first line. The second column compares messages of one flow, direction and way.
pub(super) const HEADING: &str = "#  since start s  since last µs way  from > to\n";

/// Time since the first packet in seconds, and the way.
pub(super) fn head(first_ns: Option<u64>, seen: &Seen<'_>, delta_ns: Option<i64>, line: &mut String) {
    let since = seen.time_ns.zip(first_ns).map(|(now, first)| i128::from(now) - i128::from(first));
    let since = since.map_or_else(|| "-".to_owned(), |ns| format!("{:.9}", ns as f64 / 1e9));
    let delta = delta_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:+.3}", ns as f64 / 1e3));
    let way = match seen.leaving {
        Some(true) => "out",
        Some(false) => "in",
        None => "-",
    };
    let _ = write!(line, "{since:>15} {delta:>13} {way:<3}");
}

impl Line<'_> {
    pub(super) fn text(&self, line: &mut String) {
        let Self { seen, packet, found, told, .. } = self;
        head(self.first_ns, seen, told.and_then(|told| told.delta_ns), line);
        let _ = write!(line, "  {} > {}  ", end(packet.source), end(packet.destination));
        if let Some(vlan) = packet.vlan {
            let _ = write!(line, "vlan {vlan} ");
        }
        let _ = write!(line, "{} {} B  {}", self.protocol(), packet.payload_bytes, self.message());
        if found.again {
            line.push_str("  [sent again]");
        }
        if let Some(told) = told {
            match told.order {
                Order::Next => {}
                Order::Gap(missing) => drop(write!(line, "  [{missing} missing before]")),
                Order::Late => line.push_str("  [late]"),
                Order::Repeated => line.push_str("  [number seen before]"),
                Order::Jump => line.push_str("  [numbers begin anew]"),
            }
            match told.answer {
                Some((Span::RoundTrip, ns)) => drop(write!(line, "  RTT {:.3} µs", ns as f64 / 1e3)),
                Some((Span::Turnaround, ns)) => drop(write!(line, "  turned around in {:.3} µs", ns as f64 / 1e3)),
                None => {}
            }
        }
        if let Message::Data { far: Some(far), .. } = &found.message {
            if far.sent_ns > 0 {
                let held = far.sent_ns.saturating_sub(far.received_ns);
                let _ = write!(line, "  held {:.3} µs", held as f64 / 1e3);
            } else {
                let _ = write!(line, "  held {} ticks", far.tx.saturating_sub(far.rx));
            }
        }
        if let Some(comment) = seen.comment {
            let _ = write!(line, "  # {}", plain(comment));
        }
        line.push('\n');
    }

    pub(super) fn json(&self, line: &mut String) {
        let Self { seen, packet, found, told, .. } = self;
        let told = told.unwrap_or_default();
        let mut value = json!({
            "type": "packet",
            "time_ns": seen.time_ns,
            "interface": seen.interface,
            "leaving": seen.leaving,
            "from": end(packet.source),
            "to": end(packet.destination),
            "protocol": self.protocol(),
            "bytes": packet.payload_bytes,
            "flow": found.flow.0,
            "forward": found.forward,
            "message": self.kind(),
            "delta_ns": told.delta_ns,
        });
        let mut put = |name: &str, field: Value| {
            if let Some(object) = value.as_object_mut().filter(|_| !field.is_null()) {
                object.insert(name.to_owned(), field);
            }
        };
        put("vlan", json!(packet.vlan));
        put("comment", json!(seen.comment));
        if found.again {
            put("again", json!(true));
        }
        match &found.message {
            Message::Data { seq, tag, far, .. } => {
                put("seq", json!(seq));
                put("tag", json!(tag.map(|tag| format!("{tag:016x}"))));
                if let Some(far) = far {
                    put("held_ticks", json!(far.tx.saturating_sub(far.rx)));
                    if far.sent_ns > 0 {
                        put("held_ns", json!(far.sent_ns.saturating_sub(far.received_ns)));
                    }
                }
            }
            Message::Control(names) => put("control", json!(names)),
            _ => {}
        }
        match told.order {
            Order::Next => {}
            Order::Gap(missing) => put("missing_before", json!(missing)),
            Order::Late => put("late", json!(true)),
            Order::Repeated => put("repeated", json!(true)),
            Order::Jump => put("jump", json!(true)),
        }
        match told.answer {
            Some((Span::RoundTrip, ns)) => put("rtt_ns", json!(ns)),
            Some((Span::Turnaround, ns)) => put("turnaround_ns", json!(ns)),
            None => {}
        }
        let _ = writeln!(line, "{value}");
    }

    fn protocol(&self) -> String {
        match self.packet.transport {
            Transport::Udp => "udp".to_owned(),
            Transport::Tcp(_) => "tcp".to_owned(),
            Transport::Fragment => "fragment".to_owned(),
            Transport::Other(number) => format!("ip-{number}"),
        }
    }

    fn kind(&self) -> &'static str {
        match self.found.message {
            Message::Nothing => "none",
            Message::Proof => "proof",
            Message::Control(_) => "control",
            Message::Data { .. } => "data",
            Message::More => "more",
            Message::Pgm(_) => "pgm",
            Message::Foreign => "other",
        }
    }

    fn message(&self) -> String {
        match (&self.found.message, self.packet.transport) {
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
}

/// An address with its port, where there is one.
pub(super) fn end(address: std::net::SocketAddr) -> String {
    if address.port() == 0 { address.ip().to_string() } else { address.to_string() }
}

/// A file's text on one line of a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

pub(super) fn undecoded_text(first_ns: Option<u64>, seen: &Seen<'_>, why: Undecoded, line: &mut String) {
    head(first_ns, seen, None, line);
    let _ = writeln!(line, "  {} B, not decoded: {why}", seen.sent_bytes);
}

pub(super) fn undecoded_json(seen: &Seen<'_>, why: Undecoded, line: &mut String) {
    let value = json!({
        "type": "packet",
        "time_ns": seen.time_ns,
        "interface": seen.interface,
        "leaving": seen.leaving,
        "bytes": seen.sent_bytes,
        "message": "undecoded",
        "why": why.to_string(),
    });
    let _ = writeln!(line, "{value}");
}
