//! The results of closed loops typed by hand: a row a size, what transactions cost, and the lines of ping.

use crate::parts::{KEYS, Part, cpu};
use crate::result_tables::{Shape, named, rows};
use crate::units::plain;
use model::{LatencyKind, ResultDocument, Role};

/// The columns of closed loops, and what transactions cost; `rr` has no smallest value and no interval but its rate.
const ROUNDS: [&str; 11] =
    ["count", "mean", "stdev", "min", "p50", "p50.low", "p50.high", "p99", "p99.9", "max", "lost"];
const TRANSACTIONS: [&str; 11] =
    ["response", "transactions", "transactions-ci95", "count", "mean", "stdev", "p50", "p99", "p99.9", "max", "lost"];

pub(crate) fn closed_loop(results: &[ResultDocument]) -> Vec<Part> {
    let rates = results.iter().any(|result| result.transactions.is_some());
    let figures = named(if rates { &TRANSACTIONS } else { &ROUNDS });
    let mut parts = vec![Part::new("", rows(results, KEYS, Shape::WHOLE, &figures))];
    if rates {
        let title = "CPU (netperf's service demand is all busy time of the machine, whoever caused it)";
        parts.push(Part::new(title, cpu(results, ["machine", "demand", "process", "softirq"])));
    }
    parts
}

/// The two lines that ping of iputils ends with; milliseconds.
pub(crate) fn ping_summary(result: &ResultDocument) -> String {
    let peer = result.ends.first(Role::Reflector).and_then(|end| end.address.as_deref().or(end.host.as_deref()));
    let messages = &result.messages;
    let loss = if messages.sent == 0 { 0.0 } else { 100.0 * messages.lost as f64 / messages.sent as f64 };
    let mut out = format!(
        "\n--- {} ping statistics ---\n{} packets transmitted, {} received, {} packet loss, time {}ms\n",
        plain(peer.unwrap_or("peer")),
        messages.sent,
        messages.received,
        if loss.fract() == 0.0 { format!("{loss:.0}%") } else { format!("{loss:.4}%") },
        result.elapsed_ns / 1_000_000
    );
    if let Some(latency) = &result.latency {
        let by = if latency.kind == LatencyKind::RttHalf { 2e-6 } else { 1e-6 };
        let figures = [
            latency.min_ns.map(|ns| ns as f64 * by),
            latency.mean_ns.map(|ns| ns * by),
            latency.max_ns.map(|ns| ns as f64 * by),
            result.mdev_ns.map(|ns| ns * 1e-6),
        ];
        let words = figures.map(|ms| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}")));
        out.push_str(&format!("rtt min/avg/max/mdev = {} ms\n", words.join("/")));
    }
    out
}
