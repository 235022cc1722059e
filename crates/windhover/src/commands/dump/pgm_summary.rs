//! What a whole capture held of PGM: its sources, and what became of their numbers.

use super::lines::{direction, end};
use super::pgm_lines::carrier;
use super::summary::{answer_json, answer_text, figures, more_text, quantiles};
use dump::SourceSummary;
use record::repairs::{PointFigures, Repair, SourceFigures};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Repairs that a table lists, the slowest first.
const MOST_ROWS: usize = 16;

pub(super) fn text(source: &SourceSummary, out: &mut String) {
    let _ = write!(out, "\n{} {} port {}", carrier(source.udp), source.tsi, source.data_port);
    if let Some((from, to)) = source.ends {
        let _ = write!(out, ", {} > {}", end(from), end(to));
    }
    let _ = write!(out, ", {} messages", source.messages);
    for (sum, count) in source.sums.iter().filter(|(_, count)| *count > 0) {
        let _ = write!(out, ", {count} checksums {}", sum.word());
    }
    for (seen, what) in [(source.fin, "ended (FIN)"), (source.reset, "reset (RST)")] {
        if seen {
            let _ = write!(out, ", {what}");
        }
    }
    more_text(&[(source.damaged, "damaged")], out);
    out.push('\n');
    if let Some(figures) = &source.figures {
        source_text(figures, out);
    }
}

pub(super) fn json(source: &SourceSummary) -> Value {
    let figures = source.figures.as_ref();
    let sums: Map<String, Value> =
        source.sums.iter().map(|(sum, count)| (sum.word().to_owned(), (*count).into())).collect();
    let answers = |one: &SourceFigures| one.answers.iter().map(|(span, times)| answer_json(*span, times)).collect();
    fields!(source; data_port, messages, damaged, fin, reset;
        "source_number": source.number,
        "tsi": source.tsi.to_string(),
        "protocol": if source.udp { "udp" } else { "ip-113" },
        "from": source.ends.map(|(from, _)| end(from)),
        "to": source.ends.map(|(_, to)| end(to)),
        "checksums": sums,
        "points": figures.map(|one| one.points.iter().map(point_json).collect::<Vec<_>>()),
        "repair": figures.map(repair_json),
        "answers": figures.map(answers).map(|all: Vec<Value>| all),
    )
}

fn source_text(figures: &SourceFigures, out: &mut String) {
    for point in &figures.points {
        point_text(point, out);
    }
    for (span, times) in &figures.answers {
        answer_text(*span, times, out);
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
    let _ = write!(out, "  {}:", direction(point.leaving, "seen"));
    for (at, (kind, count)) in point.packets.iter().enumerate() {
        let _ = write!(out, "{} {count} {}", if at == 0 { "" } else { "," }, kind.word());
    }
    if let Some(rate) = point.per_second() {
        let _ = write!(out, ", {} bytes, {rate:.1}/s", point.bytes);
    }
    let counts = [
        (point.gaps, "numbers in gaps"),
        (point.missing, "missing at the end"),
        (point.late, "late"),
        (point.repeated, "seen before"),
        (point.filled, "repairs filled a gap"),
        (point.unneeded, "repairs of numbers seen before"),
        (point.parity, "of parity"),
        (point.rebuilt, "rebuilt by parity"),
    ];
    more_text(&counts, out);
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
        let [data, nak, ncf, rdata, parity] =
            [one.data_ns, one.nak_ns, one.ncf_ns, one.rdata_ns, one.rebuilt_ns].map(since);
        let _ = writeln!(
            out,
            "    {:>10} {data:>12} {nak:>12} {ncf:>12} {rdata:>12} {parity:>12} {:>5} {:>5} {:>5}",
            one.number, one.naks, one.ncfs, one.rdatas
        );
    }
    if figures.forgotten > 0 {
        let _ = writeln!(out, "    {} more found no room here", figures.forgotten);
    }
}

fn point_json(point: &PointFigures) -> Value {
    let packets: BTreeMap<&str, u64> = point.packets.iter().map(|(kind, count)| (kind.word(), *count)).collect();
    fields!(point; leaving, bytes, span_ns, gaps, missing, late, repeated, filled, unneeded, parity, rebuilt;
        "packets": packets,
        "per_second": point.per_second(),
        "between": figures(&point.between),
        "between_spms": figures(&point.between_spms),
    )
}

fn repair_json(source: &SourceFigures) -> Value {
    let number = |one: &Repair| {
        fields!(one; data_ns, gap_ns, nak_ns, naks, ncf_ns, ncfs, rdata_ns, last_rdata_ns, rdatas, rebuilt_ns;
            "sqn": one.number)
    };
    fields!(source; asked, asked_again, unrepaired, forgotten;
        "nak_to_ncf": figures(&source.nak_to_ncf),
        "ncf_to_rdata": figures(&source.ncf_to_rdata),
        "nak_to_rdata": figures(&source.nak_to_rdata),
        "gap_to_rdata": figures(&source.gap_to_rdata),
        "gap_to_rebuilt": figures(&source.gap_to_rebuilt),
        "numbers": source.repairs.iter().map(number).collect::<Vec<_>>(),
    )
}
