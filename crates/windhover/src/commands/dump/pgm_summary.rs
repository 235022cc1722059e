//! What a whole capture held of PGM: its sources, and what became of their numbers.

use super::lines::end;
use super::pgm_lines::sum_name;
use super::summary::{figures, quantiles};
use pgm::Tsi;
use pgm::packet::{Body, Sum};
use record::repairs::{PacketKind, PacketNotes, PointFigures, Repair, SourceFigures};
use record::timeline::{Order, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use wire::dissect::{FlowId, Packet, Sighted, Transport};

/// Sources that are listed.
const MOST_SOURCES: usize = 128;
/// Repairs that a table lists, the slowest first.
const MOST_ROWS: usize = 16;

/// What is known of a source besides its figures.
struct Source {
    tsi: Tsi,
    data_port: u16,
    udp: bool,
    /// Where its packets come from, and go to.
    ends: Option<(SocketAddr, SocketAddr)>,
    sums: [u64; 4],
    damaged: u64,
    messages: u64,
    fin: bool,
    reset: bool,
}

#[derive(Default)]
pub(super) struct PgmSources {
    sources: BTreeMap<FlowId, Source>,
}

const SUMS: [Sum; 4] = [Sum::Good, Sum::Bad, Sum::Absent, Sum::Cut];

impl PgmSources {
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Counts one packet; says whether a message begins in it.
    pub(super) fn count(&mut self, packet: &Packet<'_>, sighted: &Sighted<'_>, told: &PacketNotes) -> bool {
        if self.sources.len() >= MOST_SOURCES && !self.sources.contains_key(&sighted.source) {
            return false;
        }
        let observed = &sighted.packet;
        let source = self.sources.entry(sighted.source).or_insert_with(|| Source {
            tsi: observed.head.tsi,
            data_port: observed.head.data_port,
            udp: packet.transport == Transport::Udp,
            ends: None,
            sums: [0; 4],
            damaged: 0,
            messages: 0,
            fin: false,
            reset: false,
        });
        for (sum, count) in SUMS.iter().zip(&mut source.sums) {
            *count += u64::from(*sum == observed.sum);
        }
        let Ok(inside) = observed.packet else {
            source.damaged += 1;
            return false;
        };
        if observed.sum == Sum::Bad {
            return false;
        }
        if !inside.body.goes_to_source() {
            source.ends.get_or_insert((packet.source, packet.destination));
        }
        source.fin |= inside.options.fin;
        source.reset |= inside.options.reset.is_some();
        let begins = inside.options.fragment.is_none_or(|fragment| fragment.offset == 0);
        let new = matches!(inside.body, Body::Odata(_)) && told.order != Order::Repeated;
        let message = new && begins && !inside.options.parity;
        source.messages += u64::from(message);
        message
    }

    pub(super) fn text(&self, all: &[SourceFigures], out: &mut String) {
        for (id, source) in &self.sources {
            let carrier = if source.udp { "pgm/udp" } else { "pgm/ip" };
            let _ = write!(out, "\n{carrier} {} port {}", source.tsi, source.data_port);
            if let Some((from, to)) = source.ends {
                let _ = write!(out, ", {} > {}", end(from), end(to));
            }
            let _ = write!(out, ", {} messages", source.messages);
            for (sum, count) in SUMS.iter().zip(source.sums) {
                if count > 0 {
                    let _ = write!(out, ", {count} checksums {}", sum_name(*sum));
                }
            }
            for (told, what) in [(source.fin, "ended (FIN)"), (source.reset, "reset (RST)")] {
                if told {
                    let _ = write!(out, ", {what}");
                }
            }
            if source.damaged > 0 {
                let _ = write!(out, ", {} damaged", source.damaged);
            }
            out.push('\n');
            if let Some(figures) = all.iter().find(|figures| figures.source == id.0) {
                source_text(figures, out);
            }
        }
    }

    pub(super) fn json(&self, all: &[SourceFigures]) -> Vec<Value> {
        let one = |(id, source): (&FlowId, &Source)| {
            let figures = all.iter().find(|figures| figures.source == id.0);
            let [good, bad, none, unknown] = source.sums;
            json!({
                "source_number": id.0,
                "tsi": source.tsi.to_string(),
                "data_port": source.data_port,
                "protocol": if source.udp { "udp" } else { "ip-113" },
                "from": source.ends.map(|(from, _)| end(from)),
                "to": source.ends.map(|(_, to)| end(to)),
                "messages": source.messages,
                "checksums": {"good": good, "bad": bad, "none": none, "unknown": unknown},
                "damaged": source.damaged,
                "fin": source.fin,
                "reset": source.reset,
                "points": figures.map(|one| one.points.iter().map(point_json).collect::<Vec<_>>()),
                "repair": figures.map(repair_json),
                "answers": figures.map(|one| one.answers.iter().map(answer_json).collect::<Vec<_>>()),
            })
        };
        self.sources.iter().map(one).collect()
    }
}

fn kind_name(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Odata => "ODATA",
        PacketKind::Rdata => "RDATA",
        PacketKind::Spm => "SPM",
        PacketKind::Nak => "NAK",
        PacketKind::Ncf => "NCF",
        PacketKind::Nnak => "N-NAK",
        PacketKind::Spmr => "SPMR",
        PacketKind::Poll => "POLL",
        PacketKind::Polr => "POLR",
        PacketKind::Ack => "ACK",
        PacketKind::Other => "others",
    }
}

fn source_text(figures: &SourceFigures, out: &mut String) {
    for point in &figures.points {
        point_text(point, out);
    }
    for (span, times) in &figures.answers {
        let name = match span {
            Span::RoundTrip => "RTT at the capture",
            Span::Turnaround => "turnaround at the capture",
        };
        let _ = writeln!(out, "  {name}, µs: {}", quantiles(times));
    }
    if figures.asked > 0 {
        let _ = writeln!(
            out,
            "  {} numbers asked for, {} of them more than once, {} without a repair",
            figures.asked, figures.asked_again, figures.unrepaired
        );
    }
    for (name, times) in [
        ("NAK to NCF", &figures.nak_to_ncf),
        ("NCF to RDATA", &figures.ncf_to_rdata),
        ("NAK to RDATA", &figures.nak_to_rdata),
        ("gap to RDATA", &figures.gap_to_rdata),
        ("gap to rebuilt", &figures.gap_to_rebuilt),
    ] {
        if times.count() > 0 {
            let _ = writeln!(out, "    {name}, µs: {}", quantiles(times));
        }
    }
    rows_text(figures, out);
}

fn point_text(point: &PointFigures, out: &mut String) {
    let way = match point.leaving {
        Some(true) => "out",
        Some(false) => "in",
        None => "seen",
    };
    let _ = write!(out, "  {way}:");
    for (at, (kind, count)) in point.packets.iter().enumerate() {
        let _ = write!(out, "{} {count} {}", if at == 0 { "" } else { "," }, kind_name(*kind));
    }
    if let Some(rate) = point.per_second() {
        let _ = write!(out, ", {} bytes, {rate:.1}/s", point.bytes);
    }
    for (count, what) in [
        (point.gaps, "numbers in gaps"),
        (point.missing, "missing at the end"),
        (point.late, "late"),
        (point.repeated, "seen before"),
        (point.filled, "repairs filled a gap"),
        (point.unneeded, "repairs of numbers seen before"),
        (point.parity, "of parity"),
        (point.rebuilt, "rebuilt by parity"),
    ] {
        if count > 0 {
            let _ = write!(out, ", {count} {what}");
        }
    }
    out.push('\n');
    for (name, times) in [("ODATA", &point.between), ("SPM", &point.between_spms)] {
        if times.count() > 0 {
            let _ = writeln!(out, "    between two {name}, µs: {}", quantiles(times));
        }
    }
}

/// The slowest repairs, and those that never came.
fn rows_text(figures: &SourceFigures, out: &mut String) {
    let mut rows: Vec<&Repair> = figures.repairs.iter().filter(|one| one.naks > 0 || one.gap_ns.is_some()).collect();
    if rows.is_empty() {
        return;
    }
    // None, which never came, is the slowest of all.
    rows.sort_by_key(|one| (one.repaired_ns().is_some(), std::cmp::Reverse(one.latency_ns()), one.number));
    let shown = rows.len().min(MOST_ROWS);
    let _ = writeln!(out, "    the slowest {shown} of {} repairs, µs since the gap or the first NAK:", rows.len());
    let _ = writeln!(
        out,
        "    {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>5} {:>5} {:>5}",
        "sqn", "data", "NAK", "NCF", "RDATA", "parity", "NAKs", "NCFs", "RDATA"
    );
    for one in rows.iter().take(shown) {
        let from = one.gap_ns.into_iter().chain(one.nak_ns).min();
        let since = |ns: Option<u64>| match ns.zip(from) {
            Some((ns, from)) => format!("{:+.3}", (i128::from(ns) - i128::from(from)) as f64 / 1e3),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            out,
            "    {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>5} {:>5} {:>5}",
            one.number,
            since(one.data_ns),
            since(one.nak_ns),
            since(one.ncf_ns),
            since(one.rdata_ns),
            since(one.rebuilt_ns),
            one.naks,
            one.ncfs,
            one.rdatas
        );
    }
    if figures.forgotten > 0 {
        let _ = writeln!(out, "    {} more found no room here", figures.forgotten);
    }
}

fn point_json(point: &PointFigures) -> Value {
    let packets: BTreeMap<&str, u64> = point.packets.iter().map(|(kind, count)| (kind_name(*kind), *count)).collect();
    json!({
        "leaving": point.leaving,
        "packets": packets,
        "bytes": point.bytes,
        "span_ns": point.span_ns,
        "per_second": point.per_second(),
        "gaps": point.gaps,
        "missing": point.missing,
        "late": point.late,
        "repeated": point.repeated,
        "filled": point.filled,
        "unneeded": point.unneeded,
        "parity": point.parity,
        "rebuilt": point.rebuilt,
        "between": figures(&point.between),
        "between_spms": figures(&point.between_spms),
    })
}

fn repair_json(source: &SourceFigures) -> Value {
    let numbers: Vec<Value> = source
        .repairs
        .iter()
        .map(|one| {
            json!({
                "sqn": one.number,
                "data_ns": one.data_ns,
                "gap_ns": one.gap_ns,
                "nak_ns": one.nak_ns,
                "naks": one.naks,
                "ncf_ns": one.ncf_ns,
                "ncfs": one.ncfs,
                "rdata_ns": one.rdata_ns,
                "last_rdata_ns": one.last_rdata_ns,
                "rdatas": one.rdatas,
                "rebuilt_ns": one.rebuilt_ns,
            })
        })
        .collect();
    json!({
        "asked": source.asked,
        "asked_again": source.asked_again,
        "unrepaired": source.unrepaired,
        "nak_to_ncf": figures(&source.nak_to_ncf),
        "ncf_to_rdata": figures(&source.ncf_to_rdata),
        "nak_to_rdata": figures(&source.nak_to_rdata),
        "gap_to_rdata": figures(&source.gap_to_rdata),
        "gap_to_rebuilt": figures(&source.gap_to_rebuilt),
        "numbers": numbers,
        "forgotten": source.forgotten,
    })
}

fn answer_json((span, times): &(Span, stats::Histogram)) -> Value {
    let mut value = figures(times);
    value["kind"] = match span {
        Span::RoundTrip => "rtt",
        Span::Turnaround => "turnaround",
    }
    .into();
    value
}
