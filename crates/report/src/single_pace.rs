//! The results of `pace` typed by hand, as text and Markdown: a summary in sentences first, then rates, latencies from
//! both send times, one-way times, segments and reflectors.

use crate::layout::{Column, Grid};
use crate::single::{Part, messages_of};
use crate::units::{commas, plain, span, us_or_dash, us_short};
use model::result::Latency;
use model::{OneWay, ResultDocument, Signed};

/// The heading: what the columns are.
pub(crate) fn heading(first: &ResultDocument) -> String {
    let protocol = first.factor("protocol").map(|word| plain(&word)).unwrap_or_default();
    let load = first.factor("load").filter(|load| load != "none").map(|load| format!(", load {}", plain(&load)));
    let schedule = schedule_words(first);
    let schedule = if schedule.is_empty() { String::new() } else { format!("; {}", schedule.join(", ")) };
    format!("pace {protocol}{}: RTT (round trip) in µs{schedule}", load.unwrap_or_default())
}

/// `pacer sleep, shape poisson, 1 in 10 answered …`, as far as the factors tell.
fn schedule_words(result: &ResultDocument) -> Vec<String> {
    let factor = |name: &str| result.factor(name).map(|word| plain(&word));
    let mut words = Vec::new();
    words.extend(factor("pacer").map(|word| format!("pacer {word}")));
    words.extend(factor("shape").map(|word| format!("shape {word}")));
    words.extend(factor("every").map(|word| format!("1 message in {word} answered")));
    words.extend(factor("receive_cpu").map(|word| format!("received on CPU {word}")));
    words.extend(factor("stamps").map(|word| format!("{word} time stamps")));
    words
}

/// What is said before any table: a few sentences for a result, one or two for each of several.
pub(crate) fn summary(results: &[ResultDocument]) -> Vec<String> {
    results.iter().flat_map(|result| sentences(result, results.len() == 1)).collect()
}

fn sentences(result: &ResultDocument, alone: bool) -> Vec<String> {
    let mut out = Vec::new();
    let from = |latency: &Option<Latency>| latency.as_ref().map(quantiles).filter(|text| !text.is_empty());
    if alone {
        out.push(reached(result));
        if let Some(actual) = from(&result.latency) {
            let intended = from(&result.latency_intended);
            let intended = intended.map(|text| format!("; from the intended send {text}")).unwrap_or_default();
            out.push(format!("RTT {actual}{intended}."));
        }
        out.extend(late(result));
        out.extend(crate::pgm::sentence(result));
    } else {
        let p99 = |latency: &Option<Latency>| latency.as_ref().and_then(|latency| latency.p99_ns).map(at);
        let mut text = reached(result);
        if let (Some(actual), Some(intended)) = (p99(&result.latency), p99(&result.latency_intended)) {
            text.push_str(&format!(" RTT p99 {actual}, from the intended send {intended}."));
        }
        out.push(text);
    }
    out.extend(result.rate.as_ref().and_then(|rate| rate.saturated.as_ref()).map(|saturated| {
        let who = plain(&saturated.who);
        format!("What could not keep up: the {who} ({}).", plain(&saturated.why))
    }));
    out
}

/// `p50 11.0 µs, p99 39.0 µs, max 1.74 ms`.
fn quantiles(latency: &Latency) -> String {
    let words = PICKS.iter().filter_map(|(name, pick)| Some(format!("{name} {}", at(pick(latency)?))));
    words.collect::<Vec<_>>().join(", ")
}

type Pick = fn(&Latency) -> Option<u64>;

const PICKS: [(&str, Pick); 3] =
    [("p50", |latency| latency.p50_ns), ("p99", |latency| latency.p99_ns), ("max", |latency| latency.max_ns)];

fn at(ns: u64) -> String {
    span(ns as f64)
}

/// `20,000/s asked, 19,998/s reached (99.99 %); 200,000 messages of 1000 B, none lost.`
fn reached(result: &ResultDocument) -> String {
    let size = result.size().map(|size| format!(" of {size} B")).unwrap_or_default();
    let messages = &result.messages;
    let lost = match messages.lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost ({})", commas(lost), percent(lost as f64, messages.sent as f64)),
    };
    let rest = format!("{} messages{size}, {lost}.", commas(messages.sent));
    let Some(rate) = &result.rate else { return rest };
    format!(
        "{}/s asked, {}/s reached ({}); {rest}",
        pps(rate.asked_pps),
        pps(rate.achieved_pps),
        percent(rate.achieved_pps, rate.asked_pps)
    )
}

/// How the sender kept its schedule, and what that means for the figures.
fn late(result: &ResultDocument) -> Option<String> {
    let (lateness, rate) = (result.lateness.as_ref()?, result.rate.as_ref()?);
    let mut text = format!("The sender was late by {}", quantiles(lateness));
    if rate.behind > 0 {
        text.push_str(&format!(
            "; {} messages left more than an interval late, at most {} were due at once",
            commas(rate.behind),
            commas(rate.most_behind)
        ));
    }
    text.push('.');
    // Where the sender stalls, only the intended times show what its user would have waited.
    let p99 = |latency: &Option<Latency>| latency.as_ref().and_then(|latency| latency.p99_ns);
    if let (Some(actual), Some(intended)) = (p99(&result.latency), p99(&result.latency_intended))
        && intended >= actual.saturating_mul(2)
    {
        text.push_str(
            " Read the figures from the intended send: they hold what waiting for the sender costs its user.",
        );
    }
    Some(text)
}

/// A rate in words: whole with groups, small ones with their fraction.
fn pps(rate: f64) -> String {
    if rate < 100.0 && rate.fract() != 0.0 {
        return format!("{rate:.2}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let whole = rate.round() as u64;
    commas(whole)
}

/// A share in percent with as many digits as tell it from none and from all.
fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return "– %".to_owned();
    }
    let percent = 100.0 * part / whole;
    let digits = (2..=6_usize).find(|&digits| {
        let shown = format!("{percent:.digits$}").parse::<f64>().unwrap_or(percent);
        (shown == 0.0) == (part == 0.0) && (shown == 100.0) == ((part - whole).abs() < f64::EPSILON * whole)
    });
    let digits = digits.unwrap_or(2);
    format!("{percent:.digits$} %")
}

/// All tables, each with the line above it.
pub(crate) fn parts(results: &[ResultDocument]) -> Vec<Part> {
    let mut parts = vec![
        Part { title: "Rate".to_owned(), grid: rates(results), words: Vec::new() },
        Part {
            title: "RTT from the actual and from the intended send time, and the lateness between them (stdev is the jitter)".to_owned(),
            grid: latencies(results),
            words: Vec::new(),
        },
    ];
    parts.extend(one_way(results));
    parts.extend(segments(results));
    parts.extend(crate::pgm::parts(results, keys, key));
    parts.extend(reflectors(results));
    parts
}

/// The columns that tell results apart.
fn keys() -> Vec<Column> {
    vec![Column::figures("rate", "1/s"), Column::figures("size", "B")]
}

fn key(result: &ResultDocument) -> Vec<String> {
    let rate = result.rate.as_ref().map(|rate| rate.asked_pps);
    let rate = rate.or_else(|| result.factors.get("rate").and_then(serde_json::Value::as_f64));
    vec![rate.map_or_else(|| "–".to_owned(), pps), result.size().map(|size| size.to_string()).unwrap_or_default()]
}

fn figures(columns: &[(&str, &str)]) -> Vec<Column> {
    columns.iter().map(|(title, unit)| Column::figures(title, unit)).collect()
}

fn rates(results: &[ResultDocument]) -> Grid {
    let lines = results.iter().any(|result| result.rate.as_ref().is_some_and(|rate| rate.line_pps.is_some()));
    let trusted = results.iter().all(|result| result.verdict.trusted);
    let mut grid = Grid { columns: keys(), keys: 2, ..Grid::default() };
    grid.columns.extend(figures(&[("reached", "1/s"), ("of asked", "%")]));
    if lines {
        grid.columns.extend(figures(&[("line rate", "1/s")]));
    }
    grid.columns.extend(figures(&[("sent", ""), ("behind", ""), ("at once", "")]));
    grid.columns.extend(figures(&[("answered", ""), ("lost", ""), ("lost", "%"), ("twice", ""), ("disorder", "")]));
    if !trusted {
        grid.columns.push(Column::words(""));
    }
    for result in results {
        let rate = result.rate.as_ref();
        let dash = || "–".to_owned();
        let mut row = key(result);
        row.push(rate.map_or_else(dash, |rate| pps(rate.achieved_pps)));
        row.push(rate.map_or_else(dash, |rate| bare_percent(rate.achieved_pps, rate.asked_pps)));
        if lines {
            row.push(rate.and_then(|rate| rate.line_pps).map_or_else(dash, pps));
        }
        row.push(result.messages.sent.to_string());
        row.push(rate.map_or_else(dash, |rate| rate.behind.to_string()));
        row.push(rate.map_or_else(dash, |rate| rate.most_behind.to_string()));
        row.extend(messages_of(&result.messages));
        if !trusted {
            row.push(if result.verdict.trusted { String::new() } else { "!".to_owned() });
        }
        grid.rows.push(row);
    }
    grid
}

fn bare_percent(part: f64, whole: f64) -> String {
    percent(part, whole).trim_end_matches(" %").to_owned()
}

/// Further percentiles are in the other forms: a terminal has no room for them.
const LATENCY: [(&str, &str); 8] = [
    ("count", ""),
    ("mean", "µs"),
    ("stdev", "µs"),
    ("min", "µs"),
    ("p50", "µs"),
    ("p99", "µs"),
    ("p99.9", "µs"),
    ("max", "µs"),
];

fn latency_cells(latency: &Latency) -> Vec<String> {
    let picks: [Pick; 5] = [
        |latency| latency.min_ns,
        |latency| latency.p50_ns,
        |latency| latency.p99_ns,
        |latency| latency.p99_9_ns,
        |latency| latency.max_ns,
    ];
    let mut cells = vec![latency.count.to_string(), us_or_dash(latency.mean_ns), us_or_dash(latency.stdev_ns)];
    cells.extend(picks.map(|pick| us_or_dash(pick(latency).map(|ns| ns as f64))));
    cells
}

fn latencies(results: &[ResultDocument]) -> Grid {
    let mut grid = Grid { columns: keys(), merged: 2, ..Grid::default() };
    grid.columns.push(Column::words("what"));
    grid.columns.extend(figures(&LATENCY));
    for result in results {
        let rows = [
            ("RTT actual", &result.latency),
            ("RTT intended", &result.latency_intended),
            ("lateness", &result.lateness),
        ];
        for (what, latency) in rows {
            if let Some(latency) = latency {
                let mut row = key(result);
                row.push(what.to_owned());
                row.extend(latency_cells(latency));
                grid.rows.push(row);
            }
        }
    }
    grid
}

fn signed_cells(signed: &Signed) -> Vec<String> {
    let time = |ns: Option<i64>| us_or_dash(ns.map(|ns| ns as f64));
    vec![
        signed.count.to_string(),
        us_or_dash(Some(signed.mean_ns)),
        us_or_dash(signed.stdev_ns),
        time(Some(signed.min_ns)),
        time(signed.p50_ns),
        time(signed.p99_ns),
        time(signed.p99_9_ns),
        time(Some(signed.max_ns)),
    ]
}

fn one_way(results: &[ResultDocument]) -> Option<Part> {
    let mut grid = Grid { columns: keys(), merged: 2, ..Grid::default() };
    grid.columns.push(Column::words("way"));
    grid.columns.extend(figures(&LATENCY));
    grid.columns.push(Column::figures("error", "± µs"));
    let mut words: Vec<String> = Vec::new();
    for result in results {
        let Some(way) = &result.one_way else { continue };
        for (name, signed) in [("there", &way.out), ("back", &way.back)] {
            let mut row = key(result);
            row.push(name.to_owned());
            row.extend(signed_cells(signed));
            row.push(us_or_dash(Some(way.error_ns as f64)));
            grid.rows.push(row);
        }
        let text = bound(way);
        if !words.contains(&text) {
            words.push(text);
        }
    }
    (!grid.rows.is_empty()).then(|| Part { title: "One-way times (signed)".to_owned(), grid, words })
}

/// What one-way times are worth.
fn bound(way: &OneWay) -> String {
    match way.method.as_str() {
        "same-clock" => "Both ends read one clock, so one-way times are exact.".to_owned(),
        "min-rtt" => format!(
            "The clocks' offset ({} µs at the start, {:.3} ppm drift) is estimated from the fastest round trips between {}: \
             the true one-way times lie within ± {} of the figures, all of them to the same side.{}",
            us_or_dash(Some(way.offset_ns as f64)),
            way.drift_ppm,
            plain(stamps_words(&way.stamps)),
            span(way.error_ns as f64),
            relations(way)
        ),
        other => format!("One-way times by {}: ± {}.", plain(other), span(way.error_ns as f64)),
    }
}

/// Which stamps an offset is from.
fn stamps_words(stamps: &str) -> &str {
    match stamps {
        "application" => "the applications' own time stamps",
        "kernel" => "time stamps of the kernels (driver and stack)",
        "hardware" => "time stamps of the NICs",
        other => other,
    }
}

/// What NICs' clocks are worth.
fn relations(way: &OneWay) -> String {
    let of = |clock: &model::StampClock| {
        let relation = clock.relation.as_ref()?;
        Some(format!("{} (± {})", plain(relation), span(clock.error_ns as f64)))
    };
    let all: Vec<String> = way.clocks.iter().filter_map(of).collect();
    if all.is_empty() {
        return String::new();
    }
    format!(" NICs' clocks are related to the wall clock by {}, which is in that.", all.join(" and "))
}

/// What a part of the round trip is.
fn segment_words(name: &str) -> &'static str {
    match name {
        "send" => "send call to the driver's stamp, here",
        "wire" => "both ways and all that the others do not hold",
        "far-kernel" => "the far stack to its application",
        "far-application" => "the far application, receive to send",
        "near-kernel" => "the stack here to the application",
        _ => "",
    }
}

fn segments(results: &[ResultDocument]) -> Option<Part> {
    let mut grid = Grid { columns: keys(), merged: 2, ..Grid::default() };
    grid.columns.extend([Column::words("part"), Column::words("stamps")]);
    let mut words: Vec<String> = Vec::new();
    grid.columns.extend(figures(&LATENCY));
    for result in results {
        for segment in &result.segments {
            let mut row = key(result);
            row.extend([plain(&segment.name), plain(&segment.stamps)]);
            let text = format!("{}: {}", plain(&segment.name), segment_words(&segment.name));
            if !segment_words(&segment.name).is_empty() && !words.contains(&text) {
                words.push(text);
            }
            row.extend(latency_cells(&segment.latency));
            grid.rows.push(row);
        }
    }
    let title = "Parts of the round trip, each between two stamps of one host".to_owned();
    (!grid.rows.is_empty()).then(|| Part { title, grid, words: vec![format!("{}.", words.join("; "))] })
}

/// What such a figure in the column of NAKs means.
const HEARD: &str = "NAKs are for packets that the reflector missed: so many of so many arrived here.";

fn reflectors(results: &[ResultDocument]) -> Option<Part> {
    let mut grid = Grid { columns: keys(), merged: 3, ..Grid::default() };
    grid.columns.extend([Column::words("reflector"), Column::words("RTT from")]);
    grid.columns.extend(figures(&[("mean", "µs"), ("p50", "µs"), ("p99", "µs"), ("max", "µs")]));
    grid.columns.extend(figures(&[("answered", ""), ("lost", ""), ("lost", "%"), ("twice", ""), ("disorder", "")]));
    let pgm = results.iter().any(|result| result.pgm.is_some());
    grid.columns.extend(pgm.then(|| Column::figures("NAKs", "")));
    let mut words = Vec::new();
    for result in results {
        for reflector in &result.reflectors {
            let rows = [("actual", &reflector.latency), ("intended", &reflector.latency_intended)];
            for (what, latency) in rows {
                let mut row = key(result);
                row.extend([plain(&reflector.host), what.to_owned()]);
                let latency = latency.as_ref();
                row.push(us_short(latency.and_then(|latency| latency.mean_ns)));
                row.extend(PICKS.map(|(_, pick)| us_short(latency.and_then(pick).map(|ns| ns as f64))));
                row.extend(messages_of(&reflector.messages));
                let naks = crate::pgm::naks_of(result, &reflector.host);
                if naks.as_ref().is_some_and(|naks| naks.contains(' ')) && !words.iter().any(|text| text == HEARD) {
                    words.push(HEARD.to_owned());
                }
                row.extend(pgm.then(|| naks.unwrap_or_else(|| "–".to_owned())));
                grid.rows.push(row);
            }
            if let Some(way) = &reflector.one_way {
                let median = |signed: &Signed| signed.p50_ns.map_or_else(|| "–".to_owned(), |ns| span(ns as f64));
                let worth = if way.error_ns == 0 { "exact".to_owned() } else { format!("± {}", at(way.error_ns)) };
                words.push(format!(
                    "{}: one way p50 there {}, back {} ({worth}).",
                    plain(&reflector.host),
                    median(&way.out),
                    median(&way.back)
                ));
            }
        }
    }
    (!grid.rows.is_empty()).then(|| Part { title: "Each reflector".to_owned(), grid, words })
}
