//! The tables of `exchange`.

use crate::output::width;
use exchange::{Budget, NodeBudget, TopicBudget, Transport};
use exchange_io::{Address, BenchFigures, Connection, NodeReport, Published, Spread, Subscribed};
use report::{Column, Grid, commas};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

fn grid(columns: Vec<Column>, rows: Vec<Vec<String>>) -> String {
    Grid { columns, rows, merged: 1, keys: 2, ..Grid::default() }.text(width())
}

fn columns(words: &[&str], figures: &[(&str, &str)]) -> Vec<Column> {
    let words = words.iter().map(|title| Column::words(title));
    words.chain(figures.iter().map(|(title, unit)| Column::figures(title, unit))).collect()
}

fn us(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1000.0))
}

/// A dash where frames do not carry what is counted.
pub(super) fn count_or_dash(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), commas)
}

fn spread(spread: &Spread) -> [String; 3] {
    [us(spread.p50), us(spread.p99), us(spread.max)]
}

pub(super) fn budget(budget: &Budget) -> String {
    let head = columns(
        &["node", "topic", "role", "over"],
        &[
            ("data", "B"),
            ("wire", "B"),
            ("period", "µs"),
            ("deadline", "µs"),
            ("frames", "/s"),
            ("rate", "Mbit/s"),
            ("on link", "µs"),
            ("cycle", "%"),
        ],
    );
    let row = |node: &NodeBudget, topic: &TopicBudget| {
        let TopicBudget { topic: name, role, period_us, deadline_us, frames_per_s, mbps, wire_us, .. } = topic;
        let bytes = [topic.data_bytes, topic.wire_bytes].map(|bytes| bytes.to_string());
        let [period, deadline] = [period_us, deadline_us].map(ToString::to_string);
        let rate = format!("{frames_per_s:.0}");
        let cycle = format!("{:.1}", topic.cycle_share * 100.0);
        let words = [node.node.clone(), name.clone(), (*role).to_owned(), topic.transport.to_string()];
        let figures = [period, deadline, rate, format!("{mbps:.3}"), format!("{wire_us:.2}"), cycle];
        words.into_iter().chain(bytes).chain(figures).collect()
    };
    let rows = budget.nodes.iter().flat_map(|node| node.topics.iter().map(move |topic| row(node, topic)));
    let mut text = grid(head, rows.collect());
    text.push('\n');
    for node in &budget.nodes {
        let [out, into] = [node.out_share, node.in_share].map(|share| share * 100.0);
        let NodeBudget { node: name, link_mbps, cpus, .. } = node;
        let _ = writeln!(text, "{name}: {out:.2} % out and {into:.2} % in of {link_mbps} Mbit/s, {cpus:.3} CPUs");
    }
    text.push_str("CPU time is 10 µs a frame, without what threads spin.\n");
    let mut tcp = budget.nodes.iter().flat_map(|node| &node.topics).filter(|topic| topic.transport == Transport::Tcp);
    if let Some(topic) = tcp.next() {
        let bytes = topic.ack_bytes;
        let _ = writeln!(text, "Links carry an acknowledgement of {bytes} bytes in return for each frame over TCP.");
    }
    text
}

pub(super) fn reports(reports: &[NodeReport]) -> String {
    let parts = [answer(reports), published(reports), subscribed(reports), notes(reports)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Whether deadlines were kept.
fn answer(reports: &[NodeReport]) -> String {
    let mut text = String::new();
    let (mut values, mut topics) = (0, 0);
    for (node, one) in reports.iter().flat_map(|report| report.subscribed.iter().map(|one| (&report.node, one))) {
        let (topic, counters) = (&one.topic, &one.counters);
        (values, topics) = (values + counters.fresh, topics + 1);
        if counters.received == 0 {
            let _ = writeln!(text, "{node} {topic}: nothing was received");
        } else if counters.misses > 0 {
            let [misses, run, fresh] = [counters.misses, counters.longest_run, counters.fresh].map(commas);
            let _ = writeln!(
                text,
                "{node} {topic}: {misses} deadlines missed, at most {run} in a row; {fresh} values came"
            );
        }
    }
    if text.is_empty() && topics > 0 {
        let _ = writeln!(text, "No deadline was missed: {} values came.", commas(values));
    }
    text
}

fn published(reports: &[NodeReport]) -> String {
    let row = |node: &str, one: &Published| {
        let Published { topic, sent, targets, lost, overruns, skipped, wake_up_ns, .. } = one;
        let counts = [*sent, *targets as u64, *lost, *overruns, *skipped].map(commas);
        [node.to_owned(), topic.clone()].into_iter().chain(counts).chain(spread(wake_up_ns)).collect()
    };
    let rows: Vec<_> =
        reports.iter().flat_map(|report| report.published.iter().map(|one| row(&report.node, one))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let counts = [("sent", ""), ("targets", ""), ("lost", ""), ("overruns", ""), ("skipped", "")];
    let times = [("wake-up", "p50 µs"), ("", "p99 µs"), ("", "max µs")];
    grid(columns(&["node", "published"], &[&counts[..], &times].concat()), rows)
}

fn subscribed(reports: &[NodeReport]) -> String {
    let row = |node: &str, one: &Subscribed| {
        let counters = &one.counters;
        let numbered = |count: u64| one.framing.is_numbered().then_some(count);
        let counts = [
            Some(counters.received),
            numbered(counters.missing),
            numbered(counters.duplicates),
            numbered(counters.reordered),
            numbered(counters.restarts),
            Some(counters.misses),
            Some(counters.longest_run),
        ];
        let age = one.age_ns.as_ref().map_or_else(|| ["", "", ""].map(str::to_owned), spread);
        let words = [node.to_owned(), one.topic.clone()].into_iter().chain(counts.map(count_or_dash));
        words.chain(spread(&one.interval_ns)).chain(age).collect()
    };
    let rows: Vec<_> =
        reports.iter().flat_map(|report| report.subscribed.iter().map(|one| row(&report.node, one))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let counts = [
        ("received", ""),
        ("missing", ""),
        ("dupl.", ""),
        ("reord.", ""),
        ("restarts", ""),
        ("misses", ""),
        ("longest", "run"),
    ];
    let times =
        [("interval", "p50 µs"), ("", "p99 µs"), ("", "max µs"), ("age", "p50 µs"), ("", "p99 µs"), ("", "max µs")];
    grid(columns(&["node", "subscribed"], &[&counts[..], &times].concat()), rows)
}

/// The counters of a structure that are not 0, by name.
fn not_zero(counters: &impl Serialize) -> impl Iterator<Item = (String, String)> {
    let all = match serde_json::to_value(counters) {
        Ok(Value::Object(all)) => all,
        _ => serde_json::Map::new(),
    };
    all.into_iter()
        .filter_map(|(kind, count)| Some((kind, count.as_u64().filter(|count| *count > 0)?)))
        .map(|(kind, count)| (kind, commas(count)))
}

/// What no column has: errors, first misses, how deadlines were judged.
fn notes(reports: &[NodeReport]) -> String {
    let mut text = String::new();
    for report in reports {
        let node = &report.node;
        for one in &report.subscribed {
            let topic = &one.topic;
            let counters = &one.counters;
            const IN_NOTES: [&str; 5] = ["layout_errors", "other_publisher", "old_epoch", "ancient", "negative_ages"];
            for (kind, count) in not_zero(counters).filter(|(kind, _)| IN_NOTES.contains(&kind.as_str())) {
                let _ = writeln!(text, "{node} {topic}: {}: {count}", kind.replace('_', " "));
            }
            if let Some(first) = one.first_miss {
                let cycle = match first.cycle {
                    Some(cycle) => format!(" at cycle {cycle}"),
                    None if one.framing.is_native() => " at the end".to_owned(),
                    None => String::new(),
                };
                let late = if first.late_ns == 0 {
                    "lost cycles before it".to_owned()
                } else {
                    format!("{} µs late", us(Some(first.late_ns)))
                };
                let runs = commas(counters.miss_runs);
                let _ = writeln!(
                    text,
                    "{node} {topic}: deadline first missed{cycle}, {late}; runs of misses: {runs} (by {})",
                    one.deadline_by
                );
            }
        }
        for Published { topic, connections, .. } in &report.published {
            for Connection { to, connects, replaced, unsent } in connections {
                let [connects, replaced, unsent] = [connects, replaced, unsent].map(|count| commas(*count));
                let _ = writeln!(
                    text,
                    "{node} {topic}: to {to} over TCP: {connects} connections, {replaced} frames replaced, {unsent} not sent"
                );
            }
        }
        for Address { address, connections, repaired, rejects, .. } in &report.addresses {
            if let Some(repaired) = repaired.filter(|repaired| *repaired > 0) {
                let _ = writeln!(text, "{node} {address}: packets repaired by PGM: {}", commas(repaired));
            }
            let what = if connections.is_some() { "frames or connections" } else { "datagrams" };
            for (kind, count) in not_zero(rejects) {
                let _ = writeln!(text, "{node} {address}: {what} refused, {kind}: {count}");
            }
        }
    }
    let mut errors: Vec<u64> =
        reports.iter().flat_map(|report| &report.subscribed).filter_map(|one| one.clock_error_ns).collect();
    errors.sort_unstable();
    if let Some(error) = errors.last() {
        let _ = writeln!(
            text,
            "Ages and deadlines are by the schedule; the file says that clocks differ by at most {} µs.",
            us(Some(*error))
        );
    }
    text
}

pub(super) fn bench(figures: &BenchFigures) -> String {
    let BenchFigures { bytes, image_write_ns, image_read_ns, image_rtt_ns, raw_udp_rtt_ns, exchange_rtt_ns } = figures;
    let mut text = format!(
        "{bytes} bytes of data\nimage, uncontended: write {image_write_ns:.1} ns, read {image_read_ns:.1} ns\n\n"
    );
    let row = |name: &str, spread: &Spread| {
        let Spread { p50, p99, p999, max, .. } = *spread;
        let figures = [p50, p99, p999, max]
            .map(|ns| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns as f64 / 1000.0)));
        std::iter::once(name.to_owned()).chain(figures).chain([commas(spread.count)]).collect()
    };
    let rows = vec![
        row("images, both ends spin", image_rtt_ns),
        row("raw UDP over loopback, blocking", raw_udp_rtt_ns),
        row("frames over loopback, blocking", exchange_rtt_ns),
    ];
    let head = columns(&["RTT"], &[("p50", "µs"), ("p99", "µs"), ("p99.9", "µs"), ("max", "µs"), ("count", "")]);
    text.push_str(&Grid { columns: head, rows, ..Grid::default() }.text(width()));
    if let (Some(framed), Some(raw)) = (exchange_rtt_ns.p50, raw_udp_rtt_ns.p50.filter(|raw| *raw > 0)) {
        let _ = writeln!(text, "\nframes over raw UDP: {:.2} (p50)", framed as f64 / raw as f64);
    }
    text
}
