//! What a whole capture held.

use super::lines::{direction, span_name};
use super::pgm_summary;
use dump::{FlowSummary, Summary};
use model::text::counted;
use record::timeline::{Span, StreamFigures};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(super) fn text(summary: &Summary) -> String {
    let mut out = String::new();
    for comment in &summary.comments {
        let _ = writeln!(out, "# {}", model::text::visible_line(comment));
    }
    let (packets, messages) = (counted(summary.packets, "packet"), counted(summary.messages, "message"));
    let _ = write!(out, "{packets}, {messages} in {} of Windhover's", counted(summary.flows.len(), "flow"));
    if !summary.sources.is_empty() {
        let _ = write!(out, ", {}", counted(summary.sources.len(), "PGM source"));
    }
    let others = [
        (summary.exchange, "frames of exchanges"),
        (summary.exchange_damaged, "of them damaged or cut"),
        (summary.others, "packets of others"),
        (summary.fragments, "later fragments"),
        (summary.filtered, "left out by --port and --host"),
        (summary.undecoded, "not decoded"),
        (summary.cut, "of them cut inside a header"),
        (summary.dropped, "lost by the capture"),
    ];
    more_text(&others, &mut out);
    out.push('\n');
    for (number, count) in &summary.unknown_links {
        let _ = writeln!(out, "{count} packets have link type {number}, which is not decoded");
    }
    if summary.flows.is_empty() && summary.sources.is_empty() && summary.exchange == 0 && summary.others > 0 {
        out.push_str("no flow is known for Windhover's: name its port (--port), or see all packets (--all)\n");
    }
    for flow in &summary.flows {
        flow_text(flow, &mut out);
    }
    for source in &summary.sources {
        pgm_summary::text(source, &mut out);
    }
    out
}

pub(super) fn json(summary: &Summary) -> Value {
    fields!(summary; comments, packets, messages, exchange, exchange_damaged, others, fragments, filtered, undecoded, cut, dropped;
        "type": "summary",
        "flows": summary.flows.iter().map(flow_json).collect::<Vec<_>>(),
        "pgm": summary.sources.iter().map(pgm_summary::json).collect::<Vec<_>>(),
    )
}

/// What there is more than none of, behind other counts.
pub(super) fn more_text(counts: &[(u64, &str)], out: &mut String) {
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(out, ", {count} {what}");
    }
}

fn flow_text(flow: &FlowSummary, out: &mut String) {
    let _ = write!(out, "\n{} {} > {}", protocol(flow), flow.from, flow.to);
    for (count, what) in [(flow.proofs, "proof"), (flow.control, "control message"), (flow.again, "repeated segment")] {
        if count > 0 {
            let _ = write!(out, ", {}", counted(count, what));
        }
    }
    out.push('\n');
    for stream in &flow.streams {
        stream_text(stream, out);
    }
    for answer in &flow.answers {
        answer_text(answer.span, &answer.times, out);
    }
}

fn flow_json(flow: &FlowSummary) -> Value {
    fields!(flow; flow, proofs, control, again;
        "protocol": protocol(flow),
        "from": flow.from.to_string(),
        "to": flow.to.to_string(),
        "directions": flow.streams.iter().map(stream_json).collect::<Vec<_>>(),
        "answers": flow.answers.iter().map(|answer| answer_json(answer.span, &answer.times)).collect::<Vec<_>>(),
    )
}

fn protocol(flow: &FlowSummary) -> &'static str {
    if flow.udp { "udp" } else { "tcp" }
}

fn stream_text(stream: &StreamFigures, out: &mut String) {
    let rate = stream.per_second().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let way = format!("{} {}", if stream.forward { ">" } else { "<" }, direction(stream.leaving, ""));
    let (way, StreamFigures { messages, bytes, lost, late, repeated, .. }) = (way.trim_end(), stream);
    let _ = writeln!(
        out,
        "  {way}: {messages} messages, {bytes} bytes, {rate}/s, {lost} numbers missing, {late} late, {repeated} seen before"
    );
    let _ = writeln!(out, "    between two, µs: {}", quantiles(&stream.between));
}

fn stream_json(stream: &StreamFigures) -> Value {
    fields!(stream; forward, leaving, messages, bytes, span_ns, late, repeated;
        "missing": stream.lost, "per_second": stream.per_second(), "between": figures(&stream.between),
    )
}

pub(super) fn answer_text(span: Span, times: &stats::Histogram, out: &mut String) {
    let name = match span {
        Span::RoundTrip => "RTT",
        Span::Turnaround => "turnaround",
    };
    let _ = writeln!(out, "  {name} at the capture, µs: {}", quantiles(times));
}

pub(super) fn answer_json(span: Span, times: &stats::Histogram) -> Value {
    let mut value = figures(times);
    value["kind"] = span_name(span).into();
    value
}

pub(super) fn quantiles(times: &stats::Histogram) -> String {
    let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e3));
    let [min, p50, p99, max] = shown(times).map(us);
    format!("{} times, min {min}, p50 {p50}, p99 {p99}, max {max}", times.count())
}

/// Smallest, median, p99 and largest in ns; of a quantile none that too few times lie beyond.
fn shown(times: &stats::Histogram) -> [Option<u64>; 4] {
    let [p50, p99] = [0.5, 0.99].map(|q| times.quantile_if_supported(q, stats::Histogram::BEYOND));
    [times.min(), p50, p99, times.max()]
}

pub(super) fn figures(times: &stats::Histogram) -> Value {
    let [min, p50, p99, max] = shown(times);
    json!({ "count": times.count(), "min_ns": min, "p50_ns": p50, "p99_ns": p99, "max_ns": max })
}
