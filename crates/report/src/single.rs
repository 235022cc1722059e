//! The results of one measurement typed by hand: text, Markdown and CSV. Figures are in the kind that the results have.

use crate::layout::{Column, Grid, paragraph};
use crate::markdown::{quote, row};
use crate::units::{plain, us, us_or_dash};
use crate::{single_pace, single_stream};
use model::result::EndReport;
use model::{ClockSource, Latency, LatencyKind, Messages, Probe, ResultDocument};

/// A table with the line above it, and what has to be said below it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) grid: Grid,
    pub(crate) words: Vec<String>,
}

/// What a probe other than the closed loops says in its own way: the heading, sentences, and tables.
struct Told {
    heading: String,
    summary: Vec<String>,
    parts: Vec<Part>,
}

fn told(results: &[ResultDocument]) -> Option<Told> {
    let first = results.first()?;
    match first.probe {
        Probe::Pace => Some(Told {
            heading: single_pace::heading(first),
            summary: single_pace::summary(results),
            parts: single_pace::parts(results),
        }),
        Probe::Stream => Some(Told {
            heading: single_stream::heading(first),
            summary: single_stream::summary(results),
            parts: single_stream::parts(results),
        }),
        Probe::Pingpong | Probe::Rr | Probe::Ping => None,
    }
}

/// Answered, lost, lost in percent, twice, out of order.
pub(crate) fn messages_of(messages: &Messages) -> Vec<String> {
    let known = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), |count| count.to_string());
    let asked = messages.received.saturating_add(messages.lost);
    let share = if asked == 0 { 0.0 } else { 100.0 * messages.lost as f64 / asked as f64 };
    let share = if messages.lost == 0 { "0".to_owned() } else { format!("{share:.4}") };
    vec![
        messages.received.to_string(),
        messages.lost.to_string(),
        share,
        known(messages.duplicated),
        known(messages.reordered) + &depth(messages),
    ]
}

/// How far behind a later answer some came, where some did.
pub(crate) fn depth(messages: &Messages) -> String {
    messages.reorder_depth.filter(|depth| *depth > 0).map_or_else(String::new, |depth| format!(" (depth {depth})"))
}

/// What a person reads: a heading with the unit and RTT or RTT/2, one row a size, then the verdict. `rr` adds the CPU
/// that transactions cost at both ends, `ping` the summary lines of iputils. No line is longer than `width` columns where
/// a table can be that narrow.
#[must_use]
pub fn single_text(results: &[ResultDocument], width: usize) -> String {
    let Some(first) = results.first() else { return "No size was measured.\n".to_owned() };
    let told = told(results);
    let mut out = paragraph("", &told.as_ref().map_or_else(|| heading(first), |told| told.heading.clone()), width);
    for (role, end) in [("initiator", Some(&first.ends.initiator)), ("reflector", first.ends.reflector.as_ref())] {
        if let Some(end) = end.filter(|_| first.probe != Probe::Ping || role == "initiator") {
            out.push_str(&paragraph(&format!("  {role} "), &end_words(end), width));
        }
    }
    if let Some(told) = told {
        out.push('\n');
        for sentence in &told.summary {
            out.push_str(&paragraph("", sentence, width));
        }
        for part in told.parts {
            out.push_str(&format!("\n{}", paragraph("", &part.title, width)));
            out.push_str(&part.grid.text(width));
            for words in &part.words {
                out.push_str(&paragraph("", words, width));
            }
        }
        return closed(out, results, first, width);
    }
    out.push('\n');
    out.push_str(&figures(results).text(width));
    let rates: Vec<&ResultDocument> = results.iter().filter(|result| result.transactions.is_some()).collect();
    if !rates.is_empty() {
        let title = "CPU (netperf's service demand is all busy time of the machine, whoever caused it)";
        out.push_str(&format!("\n{}", paragraph("", title, width)));
        out.push_str(&cpu(&rates).text(width));
    }
    if first.probe == Probe::Ping {
        for result in results {
            out.push_str(&ping_summary(result));
        }
    }
    closed(out, results, first, width)
}

/// The verdict and the tool's own cost, below everything.
fn closed(mut out: String, results: &[ResultDocument], first: &ResultDocument, width: usize) -> String {
    out.push('\n');
    out.push_str(&verdict(results, width));
    out.push_str(&paragraph("", &own_cost(first), width));
    out
}

fn kind(result: &ResultDocument) -> LatencyKind {
    let whole = matches!(result.probe, Probe::Ping | Probe::Pace);
    let default = if whole { LatencyKind::Rtt } else { LatencyKind::RttHalf };
    result.latency.as_ref().map_or(default, |latency| latency.kind)
}

/// `pingpong udp: RTT/2 in µs (round trip divided by two)`.
fn heading(result: &ResultDocument) -> String {
    let protocol = result.factor("protocol").map(|word| plain(&word)).unwrap_or_default();
    let explained = match kind(result) {
        LatencyKind::RttHalf => "RTT/2 (round trip divided by two) in µs",
        LatencyKind::Rtt => "RTT (round trip) in µs",
        LatencyKind::OneWay => "one-way time in µs",
    };
    let load = result.factor("load").filter(|load| load != "none").map(|load| format!(", load {}", plain(&load)));
    format!("{} {protocol}{}: {explained}; stdev is the jitter", result.probe, load.unwrap_or_default())
}

fn end_words(end: &EndReport) -> String {
    let mut words = Vec::new();
    words.extend(end.host.as_deref().map(plain));
    words.extend(end.address.as_deref().map(plain));
    words.push(format!("receive {}", end.spec.receive));
    words.push(format!("policy {}", end.spec.policy));
    words.push(end.spec.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}")));
    words.extend(end.spec.busy_poll_us.map(|us| format!("busy poll {us} µs")));
    words.extend(end.spec.device.as_deref().map(|device| format!("device {}", plain(device))));
    let idle = end.spec.idle.total();
    if idle > 0 {
        words.push(format!("{idle} idle descriptors"));
    }
    words.extend(end.stack_environment.iter().map(|(name, value)| format!("{}={}", plain(name), plain(value))));
    words.join(", ")
}

fn interval(latency: &Latency) -> String {
    latency.p50_ci95_ns.map_or_else(|| "–".to_owned(), |[low, high]| format!("{}–{}", us(low as f64), us(high as f64)))
}

/// Columns of all probes; `rr` has its rate in place of the smallest value and the interval.
fn figures(results: &[ResultDocument]) -> Grid {
    let rates = results.iter().any(|result| result.transactions.is_some());
    let trusted = results.iter().all(|result| result.verdict.trusted);
    let mut grid = Grid::default();
    let mut heads = vec![("size", "B")];
    if rates {
        heads.extend([("reply", "B"), ("trans", "1/s"), ("±95 %", "%")]);
    }
    heads.extend([("count", ""), ("mean", "µs"), ("stdev", "µs")]);
    if !rates {
        heads.push(("min", "µs"));
    }
    heads.push(("p50", "µs"));
    if !rates {
        heads.push(("p50 95 %", "µs"));
    }
    heads.extend([("p99", "µs"), ("p99.9", "µs"), ("max", "µs"), ("lost", "")]);
    grid.columns.extend(heads.into_iter().map(|(title, unit)| Column::figures(title, unit)));
    if !trusted {
        grid.columns.push(Column::words(""));
    }
    grid.rows = results.iter().map(|result| cells(result, rates, trusted)).collect();
    grid
}

fn cells(result: &ResultDocument, rates: bool, trusted: bool) -> Vec<String> {
    let latency = result.latency.as_ref();
    let time = |pick: fn(&Latency) -> Option<u64>| us_or_dash(latency.and_then(pick).map(|ns| ns as f64));
    let dash = || "–".to_owned();
    let mut row = vec![result.size().map(|size| size.to_string()).unwrap_or_default()];
    if rates {
        let rate = result.transactions.as_ref();
        row.push(rate.map_or_else(dash, |rate| rate.response_bytes.to_string()));
        row.push(rate.map_or_else(dash, |rate| format!("{:.0}", rate.per_second)));
        row.push(rate.and_then(|rate| rate.ci95_percent).map_or_else(dash, |percent| format!("{percent:.1}")));
    }
    row.push(latency.map_or(0, |latency| latency.count).to_string());
    row.push(us_or_dash(latency.and_then(|latency| latency.mean_ns)));
    row.push(us_or_dash(latency.and_then(|latency| latency.stdev_ns)));
    if !rates {
        row.push(time(|latency| latency.min_ns));
    }
    row.push(time(|latency| latency.p50_ns));
    if !rates {
        row.push(latency.map_or_else(dash, interval));
    }
    row.push(time(|latency| latency.p99_ns));
    row.push(time(|latency| latency.p99_9_ns));
    row.push(time(|latency| latency.max_ns));
    row.push(result.messages.lost.to_string());
    if !trusted {
        row.push(if result.verdict.trusted { String::new() } else { "!".to_owned() });
    }
    row
}

const CPU: [(&str, &str); 5] =
    [("size", "B"), ("machine", "%"), ("demand", "µs/trans"), ("process", "µs/trans"), ("softirq", "µs/trans")];

fn cpu_rows(result: &ResultDocument) -> Vec<(&'static str, [String; 5])> {
    let ends = [("initiator", Some(&result.ends.initiator)), ("reflector", result.ends.reflector.as_ref())];
    let size = result.size().map(|size| size.to_string()).unwrap_or_default();
    ends.into_iter()
        .filter_map(|(role, end)| {
            let usage = &end?.usage;
            let per = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |us| format!("{us:.2}"));
            let count = result.messages.received;
            let percent = usage.machine_percent().map_or_else(|| "–".to_owned(), |percent| format!("{percent:.1}"));
            let rest = [usage.service_demand_us(count), usage.process_us(count), usage.softirq_us(count)].map(per);
            let [demand, process, softirq] = rest;
            Some((role, [size.clone(), percent, demand, process, softirq]))
        })
        .collect()
}

fn cpu(results: &[&ResultDocument]) -> Grid {
    let mut grid = Grid { columns: vec![Column::words("end")], ..Grid::default() };
    grid.columns.extend(CPU.map(|(title, unit)| Column::figures(title, unit)));
    for result in results {
        for (role, figures) in cpu_rows(result) {
            grid.rows.push(std::iter::once(role.to_owned()).chain(figures).collect());
        }
    }
    grid
}

/// The two lines that ping of iputils ends with; milliseconds.
fn ping_summary(result: &ResultDocument) -> String {
    let peer = result.ends.reflector.as_ref().and_then(|end| end.address.as_deref().or(end.host.as_deref()));
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

/// What tells results of one measurement apart: their sizes, or of `pace` their rates when these vary.
#[derive(Clone, Copy)]
struct Apart {
    rates: bool,
}

impl Apart {
    fn of(results: &[ResultDocument]) -> Self {
        Self { rates: results.windows(2).any(|pair| rate(&pair[0]) != rate(&pair[1])) }
    }

    /// Which of them a result is.
    fn value(self, result: &ResultDocument) -> u64 {
        if self.rates { rate(result).unwrap_or(0) } else { result.size().unwrap_or(0) }
    }

    fn words(self) -> (&'static str, &'static str) {
        if self.rates { ("rates", "/s") } else { ("sizes", " B") }
    }

    fn list(self, found: &[u64], all: usize) -> String {
        let (word, unit) = self.words();
        let mut apart = found.to_vec();
        apart.sort_unstable();
        apart.dedup();
        match apart.as_slice() {
            _ if found.len() == all => String::new(),
            [one] => format!(" ({one}{unit})"),
            [first, .., last] => format!(" ({} {word}, {first} to {last}{unit})", apart.len()),
            [] => String::new(),
        }
    }
}

/// The rate asked for, in whole messages a second.
fn rate(result: &ResultDocument) -> Option<u64> {
    let rate = result.rate.as_ref()?.asked_pps;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    Some(rate.round() as u64)
}

/// Findings of the sizes, each told once: whether it invalidates, and the sentence.
fn findings(results: &[ResultDocument]) -> Vec<(bool, String)> {
    struct Once {
        invalid: bool,
        id: String,
        end: Option<String>,
        detail: String,
        sizes: Vec<u64>,
    }
    let apart = Apart::of(results);
    let mut told: Vec<Once> = Vec::new();
    for result in results {
        for finding in result.verdict.iter() {
            let (id, size) = (finding.id.word(), apart.value(result));
            match told.iter_mut().find(|told| told.id == id && told.end == finding.end) {
                Some(told) => {
                    if told.sizes.last() != Some(&size) {
                        told.sizes.push(size);
                    }
                }
                None => told.push(Once {
                    invalid: finding.id.is_invalid(),
                    id,
                    end: finding.end.clone(),
                    detail: finding.detail.clone(),
                    sizes: vec![size],
                }),
            }
        }
    }
    told.sort_by_key(|told| !told.invalid);
    told.into_iter()
        .map(|told| {
            let at = told.end.map(|end| format!(", {}", plain(&end))).unwrap_or_default();
            let sizes = apart.list(&told.sizes, results.len());
            (told.invalid, format!("{}{at}{sizes}: {}", told.id, plain(&told.detail)))
        })
        .collect()
}

fn verdict_head(results: &[ResultDocument]) -> String {
    match results.iter().filter(|result| !result.verdict.trusted).count() {
        0 => match results.iter().filter(|result| result.interrupted).count() {
            0 => "verdict: trusted".to_owned(),
            _ => "verdict: INTERRUPTED; what was measured until then is trusted".to_owned(),
        },
        n if n == results.len() => "verdict: NOT TO BE TRUSTED".to_owned(),
        n => {
            let (word, _) = Apart::of(results).words();
            format!("verdict: {n} of {} {word} NOT TO BE TRUSTED (marked !)", results.len())
        }
    }
}

/// `verdict: trusted`, then the findings.
fn verdict(results: &[ResultDocument], width: usize) -> String {
    let mut out = verdict_head(results);
    out.push('\n');
    for (invalid, text) in findings(results) {
        out.push_str(&paragraph(if invalid { "  invalid:   " } else { "  disturbed: " }, &text, width));
    }
    out
}

fn own_cost(result: &ResultDocument) -> String {
    let cost = &result.self_cost;
    let clock = result.clock.as_ref().map_or("", |clock| match clock.source {
        ClockSource::Tsc => "tsc, ",
        ClockSource::Cntvct => "cntvct, ",
        ClockSource::Raw => "CLOCK_MONOTONIC_RAW, ",
    });
    if result.probe == Probe::Stream {
        return format!("own cost: clock {clock}{:.0} ns a read, one read a call", cost.clock_read_ns);
    }
    format!(
        "own cost: clock {clock}{:.0} ns a read; loop {:.0} ns a round, included above; recording {:.0} ns a message, outside the timed part",
        cost.clock_read_ns, cost.loop_ns, cost.record_ns
    )
}

/// The same as Markdown.
#[must_use]
pub fn single_markdown(results: &[ResultDocument]) -> String {
    let Some(first) = results.first() else { return "No size was measured.\n".to_owned() };
    let told = told(results);
    let head = told.as_ref().map_or_else(|| heading(first), |told| told.heading.clone());
    let mut out = format!("**{}**\n\n", quote(&head));
    for (role, end) in [("initiator", Some(&first.ends.initiator)), ("reflector", first.ends.reflector.as_ref())] {
        if let Some(end) = end.filter(|_| first.probe != Probe::Ping || role == "initiator") {
            out.push_str(&format!("- {role}: {}\n", quote(&end_words(end))));
        }
    }
    out.push('\n');
    if let Some(told) = told {
        for sentence in &told.summary {
            out.push_str(&format!("{}\n\n", quote(sentence)));
        }
        for part in &told.parts {
            out.push_str(&format!("{}\n\n{}", quote(&part.title), markdown_grid(&part.grid)));
            for words in &part.words {
                out.push_str(&format!("\n{}\n", quote(words)));
            }
            out.push('\n');
        }
    } else {
        let grid = figures(results);
        out.push_str(&markdown_grid(&grid));
        let rates: Vec<&ResultDocument> = results.iter().filter(|result| result.transactions.is_some()).collect();
        if !rates.is_empty() {
            out.push('\n');
            out.push_str(&markdown_grid(&cpu(&rates)));
        }
        out.push('\n');
    }
    out.push_str(&format!("- {}\n", quote(&verdict_head(results))));
    for (invalid, text) in findings(results) {
        out.push_str(&format!("  - {}: {}\n", if invalid { "invalid" } else { "disturbed" }, quote(&text)));
    }
    out.push_str(&format!("- {}\n", quote(&own_cost(first))));
    out
}

pub(crate) fn markdown_grid(grid: &Grid) -> String {
    let mut grid = grid.clone();
    grid.drop_empty();
    let heads: Vec<String> = grid.columns.iter().map(|column| quote(column.heading.join(" ").trim())).collect();
    let rules: Vec<String> =
        grid.columns.iter().map(|column| if column.right { "---:" } else { "---" }.to_owned()).collect();
    let mut out = row(&heads);
    out.push_str(&row(&rules));
    for cells in &grid.rows {
        out.push_str(&row(&cells.iter().map(|cell| quote(cell)).collect::<Vec<_>>()));
    }
    out
}

/// One row a result, with a heading; the columns are those of [`store::csv`].
///
/// # Errors
/// [`store::StoreError::Encode`].
pub fn single_csv(results: &[ResultDocument]) -> Result<String, store::StoreError> {
    if results.first().is_some_and(|first| first.probe == Probe::Stream) {
        return Ok(single_stream::csv(results));
    }
    store::csv(results.iter().map(store::CsvRow::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(single_text(&[], 100), "No size was measured.\n");
        assert_eq!(single_markdown(&[]), "No size was measured.\n");
    }

    #[test]
    fn disorder_has_its_depth() {
        let last = |reordered, reorder_depth| {
            let messages = Messages { received: 9, reordered, reorder_depth, ..Messages::default() };
            messages_of(&messages).pop().unwrap_or_default()
        };
        assert_eq!([last(Some(3), Some(2)), last(Some(0), Some(0)), last(None, None)], ["3 (depth 2)", "0", "–"]);
    }
}
