//! One packet of PGM as a line, in the words of RFC 3208.

use super::lines::{answer_json, answer_text, far_json, far_text, order_json, order_text, put, us};
use pgm::packet::{Body, ObservedPacket, Options, RawOption};
use record::repairs::PacketNotes;
use record::timeline::Order;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use wire::dissect::{Packet, Sighted, Transport};

/// What a source's packets travel in.
pub(super) fn carrier(udp: bool) -> &'static str {
    if udp { "pgm/udp" } else { "pgm/ip" }
}

pub(super) fn text(packet: &Packet<'_>, sighted: &Sighted<'_>, notes: &PacketNotes, line: &mut String) {
    let observed = &sighted.packet;
    let carrier = carrier(packet.transport == Transport::Udp);
    let (name, head) = (type_name(observed), &observed.head);
    let _ = write!(line, "{carrier} {} B  {name} of {} port {}", packet.payload_bytes, head.tsi, head.data_port);
    match &observed.packet {
        Ok(packet) => {
            let options = &packet.options;
            match packet.body {
                Body::Spm(spm) if spm.has_no_window() => {
                    let _ = write!(line, " sqn {}, no window, path {}", spm.sqn, spm.path);
                }
                _ => body_fields(&packet.body, options, head.payload_bytes).iter().for_each(|field| field.text(line)),
            }
            for option in observed.options() {
                let _ = write!(line, ", {}", option_name(&option));
                for (name, value) in option_fields(options, &option) {
                    let _ = write!(line, " {name} {}", shown(&value));
                }
            }
            for (set, name) in [(options.parity, "parity"), (options.variable_length, "variable length")] {
                if set {
                    let _ = write!(line, ", {name}");
                }
            }
        }
        Err(why) => drop(write!(line, ", damaged: {why}")),
    }
    let _ = write!(line, ", checksum {}", observed.sum.word());
    if sighted.proof {
        line.push_str("  proof of the path");
    }
    if let Some(carried) = sighted.carried {
        let _ = write!(line, "  {} {}", if carried.answer { "answer" } else { "message" }, carried.seq);
        answer_text(notes.answer, line);
        far_text(carried.far, line);
    }
    notes_text(observed, notes, line);
}

fn notes_text(observed: &ObservedPacket<'_>, notes: &PacketNotes, line: &mut String) {
    let body = observed.packet.as_ref().map(|packet| packet.body);
    let repair = matches!(body, Ok(Body::Rdata(_)));
    match notes.order {
        Order::Gap(missing) if matches!(body, Ok(Body::Spm(_))) => drop(write!(line, "  [{missing} missing]")),
        Order::Late if repair => line.push_str("  [fills a gap]"),
        Order::Repeated if repair => {}
        order => order_text(order, line),
    }
    if notes.rebuilt > 0 {
        let _ = write!(line, "  [{} rebuilt by parity]", notes.rebuilt);
    }
    if notes.times_before > 0 {
        let _ = write!(line, "  [again, {} before]", notes.times_before);
    }
    let since = [
        (notes.since_ncf_ns, "NCF"),
        (notes.since_nak_ns, "NAK"),
        (notes.since_gap_ns, "gap"),
        (notes.since_data_ns, "data"),
    ];
    let since = since.into_iter().filter_map(|(ns, what)| Some((ns?, what)));
    for (at, (ns, what)) in since.enumerate() {
        let _ = write!(line, "{} {} after the {what}", if at == 0 { " " } else { "," }, us(ns));
    }
}

pub(super) fn json(sighted: &Sighted<'_>, notes: &PacketNotes) -> Value {
    let observed = &sighted.packet;
    let mut line = Map::new();
    line.insert("tsi".to_owned(), observed.head.tsi.to_string().into());
    line.insert("data_port".to_owned(), observed.head.data_port.into());
    line.insert("kind".to_owned(), type_name(observed).into());
    line.insert("checksum".to_owned(), observed.sum.word().into());
    line.insert("source_number".to_owned(), sighted.source.0.into());
    match &observed.packet {
        Ok(packet) => {
            for field in body_fields(&packet.body, &packet.options, observed.head.payload_bytes) {
                line.insert(field.name.to_owned(), field.value);
            }
            let options: Vec<Value> = observed.options().map(|option| option_json(&packet.options, &option)).collect();
            put(&mut line, "options", (!options.is_empty()).then_some(options));
            put(&mut line, "parity", packet.options.parity.then_some(true));
            put(&mut line, "variable_length", packet.options.variable_length.then_some(true));
        }
        Err(why) => put(&mut line, "damaged", Some(why.to_string())),
    }
    order_json(notes.order, &mut line);
    put(&mut line, "rebuilt", (notes.rebuilt > 0).then_some(notes.rebuilt));
    put(&mut line, "times_before", (notes.times_before > 0).then_some(notes.times_before));
    put(&mut line, "since_gap_ns", notes.since_gap_ns);
    put(&mut line, "since_nak_ns", notes.since_nak_ns);
    put(&mut line, "since_ncf_ns", notes.since_ncf_ns);
    put(&mut line, "since_data_ns", notes.since_data_ns);
    put(&mut line, "proof", sighted.proof.then_some(true));
    if let Some(carried) = sighted.carried {
        put(&mut line, "seq", Some(carried.seq));
        put(&mut line, "tag", Some(format!("{:016x}", carried.tag)));
        put(&mut line, "answer", Some(carried.answer));
        answer_json(notes.answer, &mut line);
        far_json(carried.far, &mut line);
    }
    line.into()
}

fn type_name(observed: &ObservedPacket<'_>) -> String {
    observed.head.name().map_or_else(|| format!("type {:#04x}", observed.head.kind), str::to_owned)
}

struct Field {
    /// In JSON.
    name: &'static str,
    /// In text; empty: it is not shown there.
    label: &'static str,
    value: Value,
    /// Behind its value in text, or [`HEX`].
    unit: &'static str,
}

/// The unit of 32 bits, which text shows in hexadecimal.
const HEX: &str = "hex";

impl Field {
    fn text(&self, line: &mut String) {
        let label = self.label;
        let _ = match (self.unit, self.value.as_u64()) {
            _ if label.is_empty() => Ok(()),
            (HEX, Some(bits)) => write!(line, " {label} {bits:#010x}"),
            (unit, _) => write!(line, " {label} {}{unit}", shown(&self.value)),
        };
    }
}

/// A value without quotes; a list with commas.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn body_fields(body: &Body<'_>, options: &Options<'_>, tsdu: u16) -> Vec<Field> {
    let with = |name, label, value, unit| Field { name, label, value, unit };
    let field = |name, label, value| with(name, label, value, "");
    match body {
        Body::Spm(spm) => vec![
            field("spm_sqn", "sqn", json!(spm.sqn.0)),
            field("trail", "trail", json!(spm.trail.0)),
            field("lead", "lead", json!(spm.lead.0)),
            field("path", "path", json!(spm.path)),
        ],
        Body::Odata(data) | Body::Rdata(data) => vec![
            field("sqn", "sqn", json!(data.sqn.0)),
            field("trail", "trail", json!(data.trail.0)),
            with("tsdu_bytes", "tsdu", json!(tsdu), " B"),
        ],
        Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => vec![
            field("sqn", "", json!(nak.sqn.0)),
            field("sqns", "sqn", options.numbers(nak).collect()),
            field("source", "source", json!(nak.source)),
            field("group", "group", json!(nak.group)),
        ],
        Body::Spmr => Vec::new(),
        Body::Poll(poll) => vec![
            field("poll_sqn", "sqn", json!(poll.sqn.0)),
            field("round", "round", json!(poll.round)),
            field("sub_type", "sub-type", json!(poll.sub_type)),
            field("path", "path", json!(poll.path)),
            with("back_off_us", "back-off", json!(poll.back_off_us), " µs"),
            with("random", "random", json!(poll.random), HEX),
            with("mask", "mask", json!(poll.mask), HEX),
        ],
        Body::Polr(polr) => {
            vec![field("poll_sqn", "sqn", json!(polr.sqn.0)), field("round", "round", json!(polr.round))]
        }
        Body::Ack(ack) => {
            vec![field("rx_max", "rx_max", json!(ack.newest.0)), with("bitmap", "bitmap", json!(ack.bitmap), HEX)]
        }
    }
}

/// The fields of an option by their names; those that are not known have their bytes.
fn option_fields(options: &Options<'_>, option: &RawOption<'_>) -> Vec<(&'static str, Value)> {
    match option.kind {
        0x01 => options.fragment.map_or_else(Vec::new, |fragment| {
            let (first, offset, apdu) = (fragment.first.0, fragment.offset, fragment.length);
            vec![("first", json!(first)), ("offset", json!(offset)), ("apdu", json!(apdu))]
        }),
        0x02 => vec![("count", json!(options.nak_list.len()))],
        0x03 => options.join.map_or_else(Vec::new, |first| vec![("first", json!(first.0))]),
        0x04 => options.nak_back_off.map_or_else(Vec::new, |back_off| {
            vec![("interval_us", json!(back_off.interval_us)), ("poll", json!(back_off.poll.0))]
        }),
        0x05 => options
            .nak_back_off_range
            .map_or_else(Vec::new, |range| vec![("max_us", json!(range.max_us)), ("min_us", json!(range.min_us))]),
        0x07 => options.redirect.map_or_else(Vec::new, |address| vec![("repairer", json!(address))]),
        0x08 => options.parity_parameters.map_or_else(Vec::new, |parity| {
            vec![
                ("proactive", json!(parity.proactive)),
                ("on_demand", json!(parity.on_demand)),
                ("group_size", json!(parity.group_size)),
            ]
        }),
        0x09 => options.parity_group.map_or_else(Vec::new, |group| vec![("group", json!(group))]),
        0x0a => options.current_group_size.map_or_else(Vec::new, |size| vec![("group_size", json!(size))]),
        0x0f => options.reset.map_or_else(Vec::new, |reset| {
            vec![("naks_unanswered", json!(reset.naks_unanswered)), ("code", json!(reset.code))]
        }),
        _ if !option.value.is_empty() => {
            let bytes: String = option.value.iter().map(|byte| format!("{byte:02x}")).collect();
            vec![("bytes", json!(bytes))]
        }
        _ => Vec::new(),
    }
}

fn option_name(option: &RawOption<'_>) -> String {
    option.name().map_or_else(|| format!("OPT_{:#04x}", option.kind), |name| format!("OPT_{name}"))
}

fn option_json(options: &Options<'_>, option: &RawOption<'_>) -> Value {
    let mut value = Map::new();
    value.insert("option".to_owned(), option_name(option).into());
    value.extend(option_fields(options, option).into_iter().map(|(name, field)| (name.to_owned(), field)));
    Value::Object(value)
}
