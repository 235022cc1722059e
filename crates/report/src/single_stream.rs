//! The results of `stream` as text and Markdown: by second and in all, as iperf has it, the CPU, and the latency beside it.

use crate::layout::{Column, Grid};
use crate::parts::{KEYS, Part, cpu, setting};
use crate::result_tables::times;
use crate::units::{commas, plain};
use model::quantity::{self, Group};
use model::result::SeriesQuantity::{self, Bytes, Duplicated, Jitter, Lost, Received, Reordered, Retransmits, TcpRtt};
use model::{FlowReport, ResultDocument};
use std::fmt::Write as _;

/// What the heading says of the factors; `{}` is the value.
const SETTINGS: [(&str, &str); 4] =
    [("flows", "{} flows"), ("batch", "{} datagrams a call"), ("gso", "GSO"), ("gro", "GRO")];

/// The settings in the words of the heading. One flow and one datagram a call are what everybody expects.
pub(crate) fn settings(result: &ResultDocument) -> Vec<String> {
    let known = SETTINGS.iter().filter_map(|(name, words)| Some((words, setting(result, name)?)));
    known.filter(|(_, value)| value != "1").map(|(words, value)| words.replace("{}", &value)).collect()
}

pub(crate) fn sentences(results: &[ResultDocument]) -> Vec<String> {
    results.iter().flat_map(|result| flows(result).iter().map(|flow| sentence(result, flow))).collect()
}

fn flows(result: &ResultDocument) -> &[FlowReport] {
    result.stream.as_ref().map_or(&[], |stream| stream.flows.as_slice())
}

fn sentence(result: &ResultDocument, flow: &FlowReport) -> String {
    let size = result.size().unwrap_or(0);
    let asked = match result.stream.as_ref().map_or((None, None), |stream| (stream.asked_pps, stream.asked_bps)) {
        (Some(pps), Some(bps)) => format!(" ({} Mbit/s, {pps:.0} datagrams/s asked)", mbit(bps)),
        (None, Some(bps)) => format!(" ({} Mbit/s asked)", mbit(bps)),
        _ => String::new(),
    };
    let mut text = format!("{}: {} Mbit/s{asked}", flow.direction, mbit(flow.bits_per_second));
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
        let largest = flow.tcp_rtt_max_ns.map(|ns| format!(" (largest {:.0} µs)", ns as f64 / 1e3));
        let control = flow.congestion.as_deref().map(|name| format!(" ({})", plain(name)));
        text.extend([again, rtt, largest, control].into_iter().flatten());
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

pub(crate) fn parts(results: &[ResultDocument]) -> Vec<Part> {
    let mut parts = Vec::new();
    for result in results {
        for flow in flows(result) {
            let sizes = if results.len() > 1 { format!(", {} B", result.size().unwrap_or(0)) } else { String::new() };
            let title = format!("{}{sizes}, as the {} saw it", flow.direction, flow.direction.receiver().word());
            parts.push(Part::new(&title, seconds(result, flow)));
        }
    }
    let title = "CPU (netperf's service demand: all busy time of the machine, whoever caused it, for a KiB)";
    parts.push(Part::new(title, cpu(results, ["machine", "us-per-kib", "own-time", "softirq-time"])));
    let title = "latency of a UDP ping-pong beside it: RTT in µs, 32 B, one at a time";
    parts.push(Part::new(title, times(results, KEYS, &[Group::Working])));
    parts
}

/// What is known of an interval: its series, and the quantity of the whole direction.
const SERIES: [(SeriesQuantity, &str); 8] = [
    (Bytes, "bytes"),
    (Received, "received"),
    (Lost, "lost"),
    (Reordered, "reordered"),
    (Duplicated, "duplicated"),
    (Jitter, "rfc3550-jitter"),
    (Retransmits, "retransmits"),
    (TcpRtt, "tcp-rtt"),
];

/// One interval of one direction, or the whole of it; values in the order of [`SERIES`].
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    from_s: f64,
    to_s: f64,
    values: [Option<f64>; SERIES.len()],
}

fn intervals(result: &ResultDocument, flow: &FlowReport) -> Vec<Second> {
    let host = flow.direction.receiver().word();
    let find = |quantity| result.series.iter().find(|series| series.quantity == quantity && series.host == host);
    let Some(bytes) = find(Bytes) else { return Vec::new() };
    let length = bytes.interval_ns as f64 / 1e9;
    let whole = flow.elapsed_ns as f64 / 1e9;
    (0..bytes.values.len())
        .map(|index| {
            let from_s = index as f64 * length;
            let last = index + 1 == bytes.values.len();
            Second {
                from_s,
                to_s: if last && whole > from_s { whole.min(from_s + length) } else { from_s + length },
                values: SERIES.map(|(quantity, _)| find(quantity)?.values.get(index).copied().flatten()),
            }
        })
        .collect()
}

fn total(result: &ResultDocument, flow: &FlowReport) -> Second {
    let of = |(_, word)| quantity::find(&format!("{}.{word}", flow.direction))?.of(result);
    Second { from_s: 0.0, to_s: flow.elapsed_ns as f64 / 1e9, values: SERIES.map(of) }
}

impl Second {
    fn at(&self, quantity: SeriesQuantity) -> Option<f64> {
        SERIES.iter().zip(self.values).find(|((series, _), _)| *series == quantity)?.1
    }

    /// The value of a series by so many, without decimals.
    fn whole(&self, quantity: SeriesQuantity, by: f64) -> Option<String> {
        Some(format!("{:.0}", self.at(quantity)? / by))
    }

    /// An amount a second; of a last interval of some ms none, because what arrives at once is not spread over them.
    fn per_second(&self, amount: f64) -> Option<f64> {
        const SHORTEST_S: f64 = 0.05;
        let length = self.to_s - self.from_s;
        (length >= SHORTEST_S).then(|| amount / length)
    }
}

/// A column of the table of intervals: its title, its unit and its figure.
type Figure = (&'static str, &'static str, fn(&Second) -> Option<String>);

const BOTH: [Figure; 2] = [
    ("transfer", "MiB", |second| Some(format!("{:.2}", second.at(Bytes).unwrap_or(0.0) / f64::from(1 << 20)))),
    ("bitrate", "Mbit/s", |second| Some(mbit(second.per_second(second.at(Bytes).unwrap_or(0.0) * 8.0)?))),
];
const UDP: [Figure; 7] = [
    ("datagrams", "", |second| second.whole(Received, 1.0)),
    ("rate", "1/s", |second| Some(format!("{:.0}", second.per_second(second.at(Received).unwrap_or(0.0))?))),
    ("lost", "", |second| second.whole(Lost, 1.0)),
    ("lost", "%", |second| {
        let [received, lost] = [Received, Lost].map(|quantity| second.at(quantity).unwrap_or(0.0));
        Some(if lost == 0.0 { "0".to_owned() } else { format!("{:.3}", 100.0 * lost / (received + lost)) })
    }),
    ("late", "", |second| second.whole(Reordered, 1.0)),
    ("twice", "", |second| second.whole(Duplicated, 1.0)),
    ("jitter", "µs", |second| Some(format!("{:.1}", second.at(Jitter)? / 1e3))),
];
const TCP: [Figure; 2] =
    [("sent again", "", |second| second.whole(Retransmits, 1.0)), ("RTT", "µs", |second| second.whole(TcpRtt, 1e3))];

fn seconds(result: &ResultDocument, flow: &FlowReport) -> Grid {
    let own: &[Figure] = if flow.received.is_some() { &UDP } else { &TCP };
    let figures: Vec<&Figure> = BOTH.iter().chain(own).collect();
    let mut grid = Grid { columns: vec![Column::words("interval"), Column::words("")], ..Grid::default() };
    grid.columns.extend(figures.iter().map(|(title, unit, _)| Column::figures(title, unit)));
    let row = |second: &Second, name: &str| {
        let lead = [format!("{:.2}–{:.2} s", second.from_s, second.to_s), name.to_owned()];
        let cells = figures.iter().map(|(.., read)| read(second).unwrap_or_else(|| "–".to_owned()));
        lead.into_iter().chain(cells).collect()
    };
    grid.rows = intervals(result, flow).iter().map(|second| row(second, "")).collect();
    grid.rows.push(row(&total(result, flow), "total"));
    grid
}

/// One row an interval and direction, and one for the whole of it; times in seconds since the first arrival.
pub(crate) fn csv(results: &[ResultDocument]) -> String {
    let names = SERIES.map(|(quantity, _)| quantity.word())[1..].join(",");
    let mut out = format!("protocol,size,direction,row,from_s,to_s,bytes,bits_per_second,sent,{names}\n");
    let maybe = |value: Option<f64>| value.map(|value| format!("{value:.0}")).unwrap_or_default();
    for result in results {
        let head = format!("{},{}", result.factor("protocol").unwrap_or_default(), result.size().unwrap_or(0));
        for flow in flows(result) {
            let mut push = |row: &str, second: &Second, sent: Option<u64>| {
                let bytes = second.at(Bytes).unwrap_or(0.0);
                let [from_s, to_s] = [second.from_s, second.to_s].map(|s| format!("{s:.3}"));
                let rate = maybe(second.per_second(bytes * 8.0));
                let sent = sent.map(|sent| sent.to_string()).unwrap_or_default();
                let rest = second.values[1..].iter().map(|value| maybe(*value)).collect::<Vec<_>>().join(",");
                let way = flow.direction;
                let _ = writeln!(out, "{head},{way},{row},{from_s},{to_s},{bytes:.0},{rate},{sent},{rest}");
            };
            intervals(result, flow).iter().for_each(|second| push("interval", second, None));
            push("total", &total(result, flow), flow.sent);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_of_some_ms_has_no_rate() {
        let of = |to_s: f64| {
            let mut second = Second { from_s: 2.0, to_s, ..Second::default() };
            second.values[0] = Some(31_250.0);
            [BOTH[1], UDP[1]].map(|(.., read)| read(&second).unwrap_or("–".to_owned()))
        };
        assert_eq!(of(3.0), ["0.250", "0"]);
        // What came at once at the end of a stream: not 1,250 Mbit/s.
        assert_eq!(of(2.000_2), ["–", "–"]);
        assert_eq!(of(2.1)[0], "2.5");
    }
}
