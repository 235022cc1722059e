//! The results of `stream` typed by hand: second by second and in all, as readers of iperf expect, then the CPU that it
//! cost and the latency beside it.

use crate::layout::{Column, Grid};
use crate::result_tables::times;
use crate::single::{KEYS, Part, cpu};
use crate::units::{commas, plain};
use model::quantity::Group;
use model::{FlowReport, ResultDocument, StreamReport};
use std::fmt::Write as _;

/// The heading: what was streamed.
pub(crate) fn heading(first: &ResultDocument) -> String {
    let factor = |name: &str| first.factor(name).map(|word| plain(&word));
    let load = factor("load").filter(|load| load != "none").map(|load| format!(", load {load}")).unwrap_or_default();
    let mut words = Vec::new();
    words.extend(factor("flows").filter(|flows| flows != "1").map(|flows| format!("{flows} flows")));
    words.extend(factor("batch").filter(|batch| batch != "1").map(|batch| format!("{batch} datagrams a call")));
    words.extend(factor("gso").map(|_| "GSO".to_owned()));
    words.extend(factor("gro").map(|_| "GRO".to_owned()));
    let how = if words.is_empty() { String::new() } else { format!("; {}", words.join(", ")) };
    format!("stream {}{load}: payload as the receiving end counts it{how}", factor("protocol").unwrap_or_default())
}

/// A sentence a direction.
pub(crate) fn summary(results: &[ResultDocument]) -> Vec<String> {
    results.iter().flat_map(|result| flows(result).iter().map(|flow| sentence(result, flow))).collect()
}

fn report(result: &ResultDocument) -> StreamReport {
    result.stream.clone().unwrap_or_default()
}

fn flows(result: &ResultDocument) -> &[FlowReport] {
    result.stream.as_ref().map_or(&[], |stream| stream.flows.as_slice())
}

fn sentence(result: &ResultDocument, flow: &FlowReport) -> String {
    let stream = report(result);
    let size = result.size().unwrap_or(0);
    let asked = match (stream.asked_pps, stream.asked_bps) {
        (Some(pps), Some(bps)) => format!(" ({} Mbit/s, {pps:.0} datagrams/s asked)", mbit(bps)),
        (None, Some(bps)) => format!(" ({} Mbit/s asked)", mbit(bps)),
        _ => String::new(),
    };
    let mut text = format!("{}: {} Mbit/s{asked}", plain(&flow.direction), mbit(flow.bits_per_second));
    if let (Some(received), Some(rate)) = (flow.received, flow.datagrams_per_second) {
        let lost = match (flow.lost.unwrap_or(0), flow.sent) {
            (0, _) => "none lost".to_owned(),
            (lost, Some(sent)) => format!("{} of {} lost ({})", commas(lost), commas(sent), percent(lost, sent)),
            (lost, None) => format!("{} lost", commas(lost)),
        };
        let _ = write!(text, ", {rate:.0} datagrams/s of {size} B; {} came, {lost}", commas(received));
        if let Some(jitter) = flow.rfc3550_jitter_ns {
            let _ = write!(text, "; RFC 3550 jitter {:.1} µs", jitter / 1e3);
        }
    } else {
        let again = flow.retransmits.map(|count| format!("; {} segments sent again", commas(count)));
        let rtt = flow.tcp_rtt_mean_ns.map(|ns| format!(", TCP's RTT {:.0} µs", ns as f64 / 1e3));
        let control = flow.congestion.as_deref().map(|name| format!(" ({})", plain(name)));
        text.extend([again, rtt, control].into_iter().flatten());
    }
    text.push('.');
    text
}

fn mbit(bits: f64) -> String {
    if bits < 1e6 { format!("{:.3}", bits / 1e6) } else { format!("{:.1}", bits / 1e6) }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "– %".to_owned() } else { format!("{:.3} %", 100.0 * part as f64 / whole as f64) }
}

/// All tables.
pub(crate) fn parts(results: &[ResultDocument]) -> Vec<Part> {
    let mut parts = Vec::new();
    for result in results {
        for flow in flows(result) {
            let sizes = if results.len() > 1 { format!(", {} B", result.size().unwrap_or(0)) } else { String::new() };
            let title = format!("{}{sizes}, as the {} saw it", plain(&flow.direction), receiver(flow));
            parts.push(Part { title, grid: seconds(result, flow), words: Vec::new() });
        }
    }
    let title = "CPU (netperf's service demand: all busy time of the machine, whoever caused it, for a KiB)".to_owned();
    let cost = cpu(results, &["machine", "us-per-kib", "own-time", "softirq-time"]);
    parts.push(Part { title, grid: cost, words: Vec::new() });
    let latencies = times(results, KEYS, &[Group::Working]);
    if !latencies.rows.is_empty() {
        let title = "latency of a UDP ping-pong beside it: RTT in µs, 32 B, one at a time".to_owned();
        parts.push(Part { title, grid: latencies, words: Vec::new() });
    }
    parts
}

fn receiver(flow: &FlowReport) -> &'static str {
    if flow.direction == "down" { "initiator" } else { "reflector" }
}

/// One interval of one direction, from the series.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    from_s: f64,
    to_s: f64,
    bytes: f64,
    received: Option<f64>,
    lost: Option<f64>,
    reordered: Option<f64>,
    duplicated: Option<f64>,
    jitter_ns: Option<f64>,
    retransmits: Option<f64>,
    rtt_ns: Option<f64>,
}

fn intervals(result: &ResultDocument, flow: &FlowReport) -> Vec<Second> {
    let host = receiver(flow);
    let find = |quantity: &str| result.series.iter().find(|series| series.quantity == quantity && series.host == host);
    let Some(bytes) = find("bytes") else { return Vec::new() };
    let length = bytes.interval_ns as f64 / 1e9;
    let whole = flow.elapsed_ns as f64 / 1e9;
    let at =
        |quantity: &str, index: usize| find(quantity).and_then(|series| series.values.get(index).copied().flatten());
    (0..bytes.values.len())
        .map(|index| {
            let from_s = index as f64 * length;
            let last = index + 1 == bytes.values.len();
            Second {
                from_s,
                to_s: if last && whole > from_s { whole.min(from_s + length) } else { from_s + length },
                bytes: at("bytes", index).unwrap_or(0.0),
                received: at("received", index),
                lost: at("lost", index),
                reordered: at("reordered", index),
                duplicated: at("duplicated", index),
                jitter_ns: at("rfc3550_jitter_ns", index),
                retransmits: at("retransmits", index),
                rtt_ns: at("tcp_rtt_ns", index),
            }
        })
        .collect()
}

/// The whole of a direction as one interval.
fn total(flow: &FlowReport) -> Second {
    let float = |count: Option<u64>| count.map(|count| count as f64);
    Second {
        from_s: 0.0,
        to_s: flow.elapsed_ns as f64 / 1e9,
        bytes: flow.bytes as f64,
        received: float(flow.received),
        lost: float(flow.lost),
        reordered: float(flow.reordered),
        duplicated: float(flow.duplicated),
        jitter_ns: flow.rfc3550_jitter_ns,
        retransmits: float(flow.retransmits),
        rtt_ns: float(flow.tcp_rtt_mean_ns),
    }
}

impl Second {
    /// An amount a second. The last interval is what was left: of some ms no rate can be told, because what arrives at
    /// once is not spread over them.
    fn per_second(&self, amount: f64) -> Option<f64> {
        const SHORTEST_S: f64 = 0.05;
        let length = self.to_s - self.from_s;
        (length >= SHORTEST_S).then(|| amount / length)
    }
}

const UDP: [(&str, &str); 9] = [
    ("transfer", "MiB"),
    ("bitrate", "Mbit/s"),
    ("datagrams", ""),
    ("rate", "1/s"),
    ("lost", ""),
    ("lost", "%"),
    ("late", ""),
    ("twice", ""),
    ("jitter", "µs"),
];
const TCP: [(&str, &str); 4] = [("transfer", "MiB"), ("bitrate", "Mbit/s"), ("sent again", ""), ("RTT", "µs")];

fn seconds(result: &ResultDocument, flow: &FlowReport) -> Grid {
    let datagrams = flow.received.is_some();
    let mut grid = Grid { columns: vec![Column::words("interval"), Column::words("")], ..Grid::default() };
    let heads: &[(&str, &str)] = if datagrams { &UDP } else { &TCP };
    grid.columns.extend(heads.iter().map(|(title, unit)| Column::figures(title, unit)));
    let all = intervals(result, flow);
    grid.rows.extend(all.iter().map(|second| cells(second, "", datagrams)));
    grid.rows.push(cells(&total(flow), "total", datagrams));
    grid
}

fn count(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"))
}

fn cells(second: &Second, name: &str, datagrams: bool) -> Vec<String> {
    let none = || "–".to_owned();
    let mut row = vec![
        format!("{:.2}–{:.2} s", second.from_s, second.to_s),
        name.to_owned(),
        format!("{:.2}", second.bytes / f64::from(1 << 20)),
        second.per_second(second.bytes * 8.0).map_or_else(none, mbit),
    ];
    if datagrams {
        let (received, lost) = (second.received.unwrap_or(0.0), second.lost.unwrap_or(0.0));
        let share = if received + lost > 0.0 { 100.0 * lost / (received + lost) } else { 0.0 };
        let rate = second.per_second(received).map_or_else(none, |rate| format!("{rate:.0}"));
        row.extend([count(second.received), rate, count(second.lost)]);
        row.push(if lost == 0.0 { "0".to_owned() } else { format!("{share:.3}") });
        row.extend([count(second.reordered), count(second.duplicated)]);
        row.push(second.jitter_ns.map_or_else(|| "–".to_owned(), |ns| format!("{:.1}", ns / 1e3)));
    } else {
        row.push(count(second.retransmits));
        row.push(second.rtt_ns.map_or_else(|| "–".to_owned(), |ns| format!("{:.0}", ns / 1e3)));
    }
    row
}

/// One row an interval and direction, and one for the whole of it; times in seconds since the first arrival.
pub(crate) fn csv(results: &[ResultDocument]) -> String {
    let mut out = String::from(
        "protocol,size,direction,row,from_s,to_s,bytes,bits_per_second,sent,received,lost,reordered,duplicated,rfc3550_jitter_ns,retransmits,tcp_rtt_ns\n",
    );
    for result in results {
        let head = format!("{},{}", result.factor("protocol").unwrap_or_default(), result.size().unwrap_or(0));
        for flow in flows(result) {
            for second in intervals(result, flow) {
                push_csv(&mut out, &head, flow, "interval", &second, None);
            }
            push_csv(&mut out, &head, flow, "total", &total(flow), flow.sent);
        }
    }
    out
}

fn push_csv(out: &mut String, head: &str, flow: &FlowReport, row: &str, second: &Second, sent: Option<u64>) {
    let maybe = |value: Option<f64>| value.map(|value| format!("{value:.0}")).unwrap_or_default();
    let sent = sent.map(|sent| sent.to_string()).unwrap_or_default();
    let _ = writeln!(
        out,
        "{head},{},{row},{:.3},{:.3},{:.0},{},{sent},{},{},{},{},{},{},{}",
        flow.direction,
        second.from_s,
        second.to_s,
        second.bytes,
        maybe(second.per_second(second.bytes * 8.0)),
        maybe(second.received),
        maybe(second.lost),
        maybe(second.reordered),
        maybe(second.duplicated),
        maybe(second.jitter_ns),
        maybe(second.retransmits),
        maybe(second.rtt_ns)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_of_some_ms_has_no_rate() {
        let of = |to_s: f64| cells(&Second { from_s: 2.0, to_s, bytes: 31_250.0, ..Second::default() }, "", true);
        assert_eq!((of(3.0)[3].as_str(), of(3.0)[5].as_str()), ("0.250", "0"));
        // What came at once at the end of a stream: not 1,250 Mbit/s.
        assert_eq!((of(2.000_2)[3].as_str(), of(2.000_2)[5].as_str()), ("–", "–"));
        assert_eq!(of(2.1)[3], "2.5");
    }
}
