//! The results of one measurement typed by hand: text, Markdown and CSV. Figures are in the kind that the results have.

use crate::cell_tables::{Room, text, unit};
use crate::layout::{Column, Grid, paragraph};
use crate::markdown::{filled_table, quote};
use crate::result_tables::Keys;
use crate::units::plain;
use crate::{single_pace, single_stream};
use model::quantity::{self, Quantity};
use model::result::EndReport;
use model::{ClockSource, LatencyKind, Probe, ResultDocument};

/// A table with the line above it, and what has to be said below it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) grid: Grid,
    pub(crate) words: Vec<String>,
}

/// What a probe other than the closed loops says in its own way: the heading, sentences, and tables.
struct Sections {
    heading: String,
    summary: Vec<String>,
    parts: Vec<Part>,
}

fn sections(results: &[ResultDocument]) -> Option<Sections> {
    let first = results.first()?;
    match first.probe {
        Probe::Pace => Some(Sections {
            heading: single_pace::heading(first),
            summary: single_pace::summary(results),
            parts: single_pace::parts(results),
        }),
        Probe::Stream => Some(Sections {
            heading: single_stream::heading(first),
            summary: single_stream::summary(results),
            parts: single_stream::parts(results),
        }),
        Probe::Pingpong | Probe::Rr | Probe::Ping => None,
    }
}

/// What a person reads: a heading with the unit and RTT or RTT/2, one row a size, then the verdict. `rr` adds the CPU
/// that transactions cost at both ends, `ping` the summary lines of iputils. No line is longer than `width` columns where
/// a table can be that narrow.
#[must_use]
pub fn single_text(results: &[ResultDocument], width: usize) -> String {
    let Some(first) = results.first() else { return "No size was measured.\n".to_owned() };
    let told = sections(results);
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
    if results.iter().any(|result| result.transactions.is_some()) {
        let title = "CPU (netperf's service demand is all busy time of the machine, whoever caused it)";
        out.push_str(&format!("\n{}", paragraph("", title, width)));
        out.push_str(&cpu(results, &OF_RATES).text(width));
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

/// What tells sizes apart.
pub(crate) const KEYS: Keys = (
    || vec![Column::figures("size", "B")],
    |result| vec![result.size().map(|size| size.to_string()).unwrap_or_default()],
);

/// The columns of all probes; `rr` has its rate in place of the smallest value and the interval.
fn figures(results: &[ResultDocument]) -> Grid {
    let rates = results.iter().any(|result| result.transactions.is_some());
    let ids: &[&str] = if rates {
        &[
            "response",
            "transactions",
            "transactions-ci95",
            "count",
            "mean",
            "stdev",
            "p50",
            "p99",
            "p99.9",
            "max",
            "lost",
        ]
    } else {
        &["count", "mean", "stdev", "min", "p50", "p50.low", "p50.high", "p99", "p99.9", "max", "lost"]
    };
    let trusted = results.iter().all(|result| result.verdict.trusted);
    let quantities: Vec<&Quantity> = ids.iter().filter_map(|id| quantity::find(id)).collect();
    let mut grid = Grid { columns: (KEYS.0)(), ..Grid::default() };
    grid.columns.extend(quantities.iter().map(|one| Column::figures(one.title, unit(one.unit))));
    grid.columns.extend((!trusted).then(|| Column::words("")));
    grid.rows = results
        .iter()
        .map(|result| {
            let mut row = (KEYS.1)(result);
            row.extend(quantities.iter().map(|one| text(one.unit, one.of(result), Room::Wide)));
            row.extend((!trusted).then(|| if result.verdict.trusted { String::new() } else { "!".to_owned() }));
            row
        })
        .collect();
    grid
}

/// What each end cost: a row an end, a column a quantity.
pub(crate) fn cpu(results: &[ResultDocument], ids: &[&str]) -> Grid {
    let mut grid = Grid { columns: vec![Column::words("end")], ..Grid::default() };
    grid.columns.extend((KEYS.0)());
    for result in results {
        for role in ["initiator", "reflector"].into_iter().filter(|role| quantity::end(result, role).is_some()) {
            let own = ids.iter().filter_map(|id| quantity::find(&format!("{role}.{id}")));
            let own: Vec<&Quantity> = own.collect();
            if grid.columns.len() == 2 {
                grid.columns.extend(own.iter().map(|one| Column::figures(one.title, unit(one.unit))));
            }
            let mut row = vec![role.to_owned()];
            row.extend((KEYS.1)(result));
            row.extend(own.iter().map(|one| text(one.unit, one.of(result), Room::Wide)));
            grid.rows.push(row);
        }
    }
    grid
}

/// What transactions cost.
const OF_RATES: [&str; 4] = ["machine", "demand", "process", "softirq"];

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
    let told = sections(results);
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
            out.push_str(&format!("{}\n\n{}", quote(&part.title), filled_table(&part.grid)));
            for words in &part.words {
                out.push_str(&format!("\n{}\n", quote(words)));
            }
            out.push('\n');
        }
    } else {
        let grid = figures(results);
        out.push_str(&filled_table(&grid));
        if results.iter().any(|result| result.transactions.is_some()) {
            out.push('\n');
            out.push_str(&filled_table(&cpu(results, &OF_RATES)));
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
}
