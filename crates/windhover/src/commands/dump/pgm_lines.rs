//! One packet of PGM as a line, in the words of RFC 3208.

use super::Seen;
use super::lines::{end, head, plain};
use pgm::packet::{Body, Nak, Observed, Options, RawOption, Sum};
use record::repairs::{CapturedPacket, CarriedMessage, GroupOptions, PacketKind, PacketNotes, Repairs};
use record::timeline::{Order, Span};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use wire::dissect::{Packet, Sighted, Transport};

/// A NAK or NCF: its own number and 62 of a list.
const MOST_NUMBERS: usize = 63;

/// What the packets before say of this one. Packets with a wrong checksum tell nothing.
pub(super) fn see(repairs: &mut Repairs, seen: &Seen<'_>, sighted: &Sighted<'_>) -> PacketNotes {
    let observed = &sighted.packet;
    let mut numbers = [0; MOST_NUMBERS];
    let (kind, count, parity, group, bytes) = match observed.packet {
        Ok(packet) if observed.sum != Sum::Bad => {
            let mut found = |listed: &mut dyn Iterator<Item = u32>| {
                numbers.iter_mut().zip(listed).map(|(place, number)| *place = number).count()
            };
            let options = &packet.options;
            let nak = |nak: &Nak| std::iter::once(nak.sqn.0).chain(options.nak_list.iter().map(|sqn| sqn.0)).collect();
            let (kind, listed): (PacketKind, Vec<u32>) = match &packet.body {
                Body::Odata(data) => (PacketKind::Odata, vec![data.sqn.0]),
                Body::Rdata(data) => (PacketKind::Rdata, vec![data.sqn.0]),
                Body::Spm(spm) => (PacketKind::Spm, vec![spm.trail.0, spm.lead.0]),
                Body::Nak(one) => (PacketKind::Nak, nak(one)),
                Body::Ncf(one) => (PacketKind::Ncf, nak(one)),
                Body::Nnak(one) => (PacketKind::Nnak, nak(one)),
                Body::Spmr => (PacketKind::Spmr, Vec::new()),
                Body::Poll(_) => (PacketKind::Poll, Vec::new()),
                Body::Polr(_) => (PacketKind::Polr, Vec::new()),
                Body::Ack(_) => (PacketKind::Ack, Vec::new()),
            };
            let count = found(&mut listed.into_iter());
            let group = GroupOptions {
                packets: options.parity_parameters.map(|told| told.group_size),
                round: options.parity_group.unwrap_or(0),
                short: options.current_group_size,
            };
            (kind, count, options.parity, group, u64::from(observed.head.payload_bytes))
        }
        _ => (PacketKind::Other, 0, false, GroupOptions::default(), 0),
    };
    repairs.see(&CapturedPacket {
        source: sighted.source.0,
        kind,
        numbers: numbers.get(..count).unwrap_or_default(),
        parity,
        group,
        bytes,
        leaving: seen.leaving,
        clock: seen.interface,
        time_ns: seen.time_ns,
        carried: sighted.carried.map(|one| CarriedMessage { seq: one.seq, tag: one.tag, answer: one.answer }),
    })
}

/// Everything known of one packet.
pub(super) struct PgmLine<'a> {
    pub(super) first_ns: Option<u64>,
    pub(super) seen: &'a Seen<'a>,
    pub(super) packet: &'a Packet<'a>,
    pub(super) sighted: &'a Sighted<'a>,
    pub(super) told: PacketNotes,
}

pub(super) fn sum_name(sum: Sum) -> &'static str {
    match sum {
        Sum::Good => "good",
        Sum::Bad => "bad",
        Sum::Absent => "none",
        Sum::Cut => "unknown",
    }
}

fn us(ns: u64) -> String {
    format!("{:.3} µs", ns as f64 / 1e3)
}

impl PgmLine<'_> {
    pub(super) fn text(&self, line: &mut String) {
        let Self { seen, packet, sighted, told, .. } = self;
        let observed = &sighted.packet;
        head(self.first_ns, seen, told.delta_ns, line);
        let _ = write!(line, "  {} > {}  ", end(packet.source), end(packet.destination));
        if let Some(vlan) = packet.vlan {
            let _ = write!(line, "vlan {vlan} ");
        }
        let carrier = if packet.transport == Transport::Udp { "pgm/udp" } else { "pgm/ip" };
        let name = type_name(observed);
        let _ = write!(line, "{carrier} {} B  {name} of {}", packet.payload_bytes, observed.head.tsi);
        let _ = write!(line, " port {}", observed.head.data_port);
        match &observed.packet {
            Ok(packet) => {
                body_text(&packet.body, &packet.options, observed.head.payload_bytes, line);
                for option in observed.options() {
                    option_text(&packet.options, &option, line);
                }
                for (set, name) in
                    [(packet.options.parity, "parity"), (packet.options.variable_length, "variable length")]
                {
                    if set {
                        let _ = write!(line, ", {name}");
                    }
                }
            }
            Err(why) => drop(write!(line, ", damaged: {why}")),
        }
        let _ = write!(line, ", checksum {}", sum_name(observed.sum));
        self.carried_text(line);
        self.told_text(line);
        if let Some(comment) = seen.comment {
            let _ = write!(line, "  # {}", plain(comment));
        }
        line.push('\n');
    }

    fn carried_text(&self, line: &mut String) {
        if self.sighted.proof {
            line.push_str("  proof of the path");
        }
        let Some(carried) = self.sighted.carried else { return };
        let what = if carried.answer { "answer" } else { "message" };
        let _ = write!(line, "  {what} {}", carried.seq);
        match self.told.answer {
            Some((Span::RoundTrip, ns)) => drop(write!(line, "  RTT {}", us(ns))),
            Some((Span::Turnaround, ns)) => drop(write!(line, "  turned around in {}", us(ns))),
            None => {}
        }
        if let Some(far) = carried.far {
            if far.sent_ns > 0 {
                let _ = write!(line, "  held {}", us(far.sent_ns.saturating_sub(far.received_ns)));
            } else {
                let _ = write!(line, "  held {} ticks", far.tx.saturating_sub(far.rx));
            }
        }
    }

    fn told_text(&self, line: &mut String) {
        let told = &self.told;
        let body = self.sighted.packet.packet.as_ref().map(|packet| packet.body);
        let repair = matches!(body, Ok(Body::Rdata(_)));
        match told.order {
            Order::Gap(missing) if matches!(body, Ok(Body::Spm(_))) => drop(write!(line, "  [{missing} missing]")),
            Order::Gap(missing) => drop(write!(line, "  [{missing} missing before]")),
            Order::Late if repair => line.push_str("  [fills a gap]"),
            Order::Late => line.push_str("  [late]"),
            Order::Repeated if !repair => line.push_str("  [number seen before]"),
            Order::Jump => line.push_str("  [numbers begin anew]"),
            Order::Next | Order::Repeated => {}
        }
        if told.rebuilt > 0 {
            let _ = write!(line, "  [{} rebuilt by parity]", told.rebuilt);
        }
        if told.times_before > 0 {
            let _ = write!(line, "  [again, {} before]", told.times_before);
        }
        let since = [
            (told.since_ncf_ns, "NCF"),
            (told.since_nak_ns, "NAK"),
            (told.since_gap_ns, "gap"),
            (told.since_data_ns, "data"),
        ];
        let mut first = true;
        for (ns, what) in since {
            if let Some(ns) = ns {
                let _ = write!(line, "{} {} after the {what}", if first { " " } else { "," }, us(ns));
                first = false;
            }
        }
    }

    pub(super) fn json(&self, line: &mut String) {
        let Self { seen, packet, sighted, told, .. } = self;
        let observed = &sighted.packet;
        let mut value = Map::new();
        let mut put = |name: &str, field: Value| {
            if !field.is_null() {
                value.insert(name.to_owned(), field);
            }
        };
        put("tsi", json!(observed.head.tsi.to_string()));
        put("data_port", json!(observed.head.data_port));
        put("kind", json!(type_name(observed)));
        put("checksum", json!(sum_name(observed.sum)));
        put("source_number", json!(sighted.source.0));
        match &observed.packet {
            Ok(packet) => {
                body_json(&packet.body, &packet.options, observed.head.payload_bytes, &mut put);
                let options: Vec<Value> =
                    observed.options().map(|option| option_json(&packet.options, &option)).collect();
                put("options", if options.is_empty() { Value::Null } else { json!(options) });
                put("parity", json!(packet.options.parity.then_some(true)));
                put("variable_length", json!(packet.options.variable_length.then_some(true)));
            }
            Err(why) => put("damaged", json!(why.to_string())),
        }
        match told.order {
            Order::Next => {}
            Order::Gap(missing) => put("missing_before", json!(missing)),
            Order::Late => put("late", json!(true)),
            Order::Repeated => put("repeated", json!(true)),
            Order::Jump => put("jump", json!(true)),
        }
        put("rebuilt", json!((told.rebuilt > 0).then_some(told.rebuilt)));
        put("times_before", json!((told.times_before > 0).then_some(told.times_before)));
        put("since_gap_ns", json!(told.since_gap_ns));
        put("since_nak_ns", json!(told.since_nak_ns));
        put("since_ncf_ns", json!(told.since_ncf_ns));
        put("since_data_ns", json!(told.since_data_ns));
        put("proof", json!(sighted.proof.then_some(true)));
        if let Some(carried) = sighted.carried {
            put("seq", json!(carried.seq));
            put("tag", json!(format!("{:016x}", carried.tag)));
            put("answer", json!(carried.answer));
            match told.answer {
                Some((Span::RoundTrip, ns)) => put("rtt_ns", json!(ns)),
                Some((Span::Turnaround, ns)) => put("turnaround_ns", json!(ns)),
                None => {}
            }
            if let Some(far) = carried.far {
                put("held_ticks", json!(far.tx.saturating_sub(far.rx)));
                if far.sent_ns > 0 {
                    put("held_ns", json!(far.sent_ns.saturating_sub(far.received_ns)));
                }
            }
        }
        let mut all = json!({
            "type": "packet",
            "time_ns": seen.time_ns,
            "interface": seen.interface,
            "leaving": seen.leaving,
            "from": end(packet.source),
            "to": end(packet.destination),
            "protocol": if packet.transport == Transport::Udp { "udp" } else { "ip-113" },
            "bytes": packet.payload_bytes,
            "message": "pgm",
            "delta_ns": told.delta_ns,
            "pgm": value,
        });
        if let Some(all) = all.as_object_mut() {
            for (name, field) in [("vlan", json!(packet.vlan)), ("comment", json!(seen.comment))] {
                if !field.is_null() {
                    all.insert(name.to_owned(), field);
                }
            }
        }
        let _ = writeln!(line, "{all}");
    }
}

fn type_name(observed: &Observed<'_>) -> String {
    observed.head.name().map_or_else(|| format!("type {:#04x}", observed.head.kind), str::to_owned)
}

fn numbers(nak: &Nak, options: &Options<'_>) -> Vec<u32> {
    std::iter::once(nak.sqn.0).chain(options.nak_list.iter().map(|sqn| sqn.0)).collect()
}

fn body_text(body: &Body<'_>, options: &Options<'_>, tsdu: u16, line: &mut String) {
    let _ = match body {
        Body::Spm(spm) if spm.has_no_window() => write!(line, " sqn {}, no window, path {}", spm.sqn, spm.path),
        Body::Spm(spm) => write!(line, " sqn {} trail {} lead {} path {}", spm.sqn, spm.trail, spm.lead, spm.path),
        Body::Odata(data) | Body::Rdata(data) => {
            write!(line, " sqn {} trail {} tsdu {tsdu} B", data.sqn, data.trail)
        }
        Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => {
            let all: Vec<String> = numbers(nak, options).iter().map(ToString::to_string).collect();
            write!(line, " sqn {} source {} group {}", all.join(","), nak.source, nak.group)
        }
        Body::Spmr => Ok(()),
        Body::Poll(poll) => write!(
            line,
            " sqn {} round {} sub-type {} path {} back-off {} µs random {:#010x} mask {:#010x}",
            poll.sqn, poll.round, poll.sub_type, poll.path, poll.back_off_us, poll.random, poll.mask
        ),
        Body::Polr(polr) => write!(line, " sqn {} round {}", polr.sqn, polr.round),
        Body::Ack(ack) => write!(line, " rx_max {} bitmap {:#010x}", ack.newest, ack.bitmap),
    };
}

fn body_json(body: &Body<'_>, options: &Options<'_>, tsdu: u16, put: &mut dyn FnMut(&str, Value)) {
    match body {
        Body::Spm(spm) => {
            put("spm_sqn", json!(spm.sqn.0));
            put("trail", json!(spm.trail.0));
            put("lead", json!(spm.lead.0));
            put("path", json!(spm.path.to_string()));
        }
        Body::Odata(data) | Body::Rdata(data) => {
            put("sqn", json!(data.sqn.0));
            put("trail", json!(data.trail.0));
            put("tsdu_bytes", json!(tsdu));
        }
        Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => {
            put("sqn", json!(nak.sqn.0));
            put("sqns", json!(numbers(nak, options)));
            put("source", json!(nak.source.to_string()));
            put("group", json!(nak.group.to_string()));
        }
        Body::Spmr => {}
        Body::Poll(poll) => {
            put("poll_sqn", json!(poll.sqn.0));
            put("round", json!(poll.round));
            put("sub_type", json!(poll.sub_type));
            put("path", json!(poll.path.to_string()));
            put("back_off_us", json!(poll.back_off_us));
            put("random", json!(poll.random));
            put("mask", json!(poll.mask));
        }
        Body::Polr(polr) => {
            put("poll_sqn", json!(polr.sqn.0));
            put("round", json!(polr.round));
        }
        Body::Ack(ack) => {
            put("rx_max", json!(ack.newest.0));
            put("bitmap", json!(ack.bitmap));
        }
    }
}

/// The fields of an option by their names; those that are not known have their bytes.
fn fields(options: &Options<'_>, option: &RawOption<'_>) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    match option.kind {
        0x01 => {
            if let Some(fragment) = options.fragment {
                all.push(("first", json!(fragment.first.0)));
                all.push(("offset", json!(fragment.offset)));
                all.push(("apdu", json!(fragment.length)));
            }
        }
        0x02 => all.push(("count", json!(options.nak_list.len()))),
        0x03 => all.extend(options.join.map(|first| ("first", json!(first.0)))),
        0x04 => {
            if let Some(back_off) = options.nak_back_off {
                all.push(("interval_us", json!(back_off.interval_us)));
                all.push(("poll", json!(back_off.poll.0)));
            }
        }
        0x05 => {
            if let Some(range) = options.nak_back_off_range {
                all.push(("max_us", json!(range.max_us)));
                all.push(("min_us", json!(range.min_us)));
            }
        }
        0x07 => all.extend(options.redirect.map(|address| ("repairer", json!(address.to_string())))),
        0x08 => {
            if let Some(parity) = options.parity_parameters {
                all.push(("proactive", json!(parity.proactive)));
                all.push(("on_demand", json!(parity.on_demand)));
                all.push(("group_size", json!(parity.group_size)));
            }
        }
        0x09 => all.extend(options.parity_group.map(|group| ("group", json!(group)))),
        0x0a => all.extend(options.current_group_size.map(|size| ("group_size", json!(size)))),
        0x0f => {
            if let Some(reset) = options.reset {
                all.push(("naks_unanswered", json!(reset.naks_unanswered)));
                all.push(("code", json!(reset.code)));
            }
        }
        _ if !option.value.is_empty() => {
            let bytes: String = option.value.iter().map(|byte| format!("{byte:02x}")).collect();
            all.push(("bytes", json!(bytes)));
        }
        _ => {}
    }
    all
}

fn option_name(option: &RawOption<'_>) -> String {
    option.name().map_or_else(|| format!("OPT_{:#04x}", option.kind), |name| format!("OPT_{name}"))
}

fn option_text(options: &Options<'_>, option: &RawOption<'_>, line: &mut String) {
    let _ = write!(line, ", {}", option_name(option));
    for (name, value) in fields(options, option) {
        let _ = match value {
            Value::String(text) => write!(line, " {name} {text}"),
            value => write!(line, " {name} {value}"),
        };
    }
}

fn option_json(options: &Options<'_>, option: &RawOption<'_>) -> Value {
    let mut value = Map::new();
    value.insert("option".to_owned(), json!(option_name(option)));
    value.extend(fields(options, option).into_iter().map(|(name, field)| (name.to_owned(), field)));
    Value::Object(value)
}
