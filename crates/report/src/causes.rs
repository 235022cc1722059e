//! Why messages were late: the table of causes of a result or a cell, and the way of one message.

use crate::layout::{Columns, Grid, paragraph};
use crate::parts::Part;
use crate::say::answer::late::shares;
use crate::units::{capital, commas, counted, each_once, percent, plain, span, three_digits, us, us_or_dash};
use digest::CellInfo;
use digest::causes::by_class;
use model::result::Outlier;
use model::{Blame, Cause, CauseClass, Explanation, LatencyKind, PathSegment, ResultDocument, SegmentTime};
use std::collections::BTreeSet;

/// Rows below an answer. `windhover explain` has all of them.
const FEW: usize = 8;
/// A cause below this share of the time lost gets no hint.
const WORTH_A_HINT: f64 = 0.1;
/// A recorder that makes the median longer by more than this is named in a sentence.
const USUAL_COST: f64 = 1.1;

/// The table of a result that was explained, below its figures.
pub(crate) fn part(result: &ResultDocument) -> Option<Part> {
    let explanation = result.explanation.as_ref()?;
    let mut words = sentences(explanation);
    if explanation.causes.len() > FEW {
        words.insert(0, format!("{} more causes cost less.", explanation.causes.len() - FEW));
    }
    Some(Part::new(&title(&size(result), explanation), table(explanation, FEW, Hints::Below)).with(words))
}

/// Where it is written what removes a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    /// In a column of the table.
    Beside,
    /// In sentences below, or nowhere.
    Below,
}

/// The tables of the cells that were explained, each with the line above it.
pub(crate) fn of_cells(cells: &[CellInfo], hints: Hints) -> Vec<(String, Grid)> {
    let of = |info: &CellInfo| {
        let explanation = info.explanation.as_ref()?;
        let lead = format!(" ({}, {})", digest::message(info.probe, &info.protocol, info.size_bytes), info.label);
        let grid = table(explanation, FEW, hints);
        let more = match explanation.causes.len().saturating_sub(FEW) {
            0 => String::new(),
            more => format!("; {} below these: windhover explain RUN", counted(more, "more cause")),
        };
        (!grid.rows.is_empty()).then(|| (title(&lead, explanation) + &more, grid))
    };
    cells.iter().filter_map(of).collect()
}

/// The class that cost most and its share of the time lost: `run-queue 74 %`; empty where nothing was explained.
pub(crate) fn mostly(info: &CellInfo) -> String {
    let first = info.explanation.as_ref().and_then(|explanation| by_class(explanation).into_iter().next());
    first.map(|loss| format!("{} {:.0} %", loss.class, 100.0 * loss.share)).unwrap_or_default()
}

/// All that is known of why the messages of a result were late, within `width` columns; `None` where it was not explained.
pub fn explained_text(result: &ResultDocument, width: usize) -> Option<String> {
    let explanation = result.explanation.as_ref()?;
    let mut out = paragraph("", &title(&size(result), explanation), width);
    out.push('\n');
    out.push_str(&table(explanation, usize::MAX, Hints::Below).text(width));
    out.push('\n');
    sentences(explanation).iter().for_each(|sentence| out.push_str(&paragraph("", sentence, width)));
    Some(out)
}

fn size(result: &ResultDocument) -> String {
    result.size().map(|size| format!(", {size} B")).unwrap_or_default()
}

/// `Why late: 74 % of the time lost is run-queue behind cc1. 152 of 15,000 messages took longer than RTT 708 µs; of the 34 ms that
/// they lost 96.1 % has a cause`.
pub(crate) fn title(of: &str, explanation: &Explanation) -> String {
    let lost_ns: u64 = explanation.causes.iter().map(|blame| blame.lost_ns).sum();
    if explanation.messages == 0 {
        return format!("Why late{of}: nothing was recorded");
    }
    let shares = shares(explanation);
    let shares = if shares.is_empty() { shares } else { shares + ". " };
    let counted = format!(
        "Why late{of}: {shares}{} of {} {} took longer than {} {}",
        commas(explanation.late),
        commas(explanation.messages),
        samples(explanation),
        explanation.kind.title(),
        span(explanation.over_ns as f64)
    );
    if lost_ns == 0 {
        return counted;
    }
    let known = percent(explanation.explained, 1.0);
    format!("{counted}; of the {} that they lost {known} has a cause", span(lost_ns as f64))
}

pub(crate) fn samples(explanation: &Explanation) -> &'static str {
    if explanation.kind == LatencyKind::WakeUp { "wake-ups" } else { "messages" }
}

/// A row a cause, that which cost most first. What removes a class is in its first row.
pub(crate) fn table(explanation: &Explanation, most: usize, hints: Hints) -> Grid {
    let of = capital(explanation.kind.title());
    let mut grid = Columns::none()
        .words("cause", |blame: &&Blame| blame.class.to_string())
        .words("name", |blame| blame.name.as_deref().map(plain).unwrap_or_default())
        .words("end", |blame| blame.host.clone())
        .figures("late", "", |blame| blame.messages.to_string())
        .figures("lost", "µs", |blame| us(blame.lost_ns as f64))
        .figures("share", "%", |blame| three_digits(100.0 * blame.share))
        .figures("worst", "µs", |blame| us(blame.worst_ns as f64))
        .figures(&format!("{of} p99"), "without it", |blame| us_or_dash(blame.p99_without_ns.map(|ns| ns as f64)))
        .figures(&format!("{of} p99.9"), "without it", |blame| us_or_dash(blame.p99_9_without_ns.map(|ns| ns as f64)))
        .when(hints == Hints::Beside, |columns| columns.words("hint", |blame| capital(blame.class.removal().hint())))
        .grid(explanation.causes.iter().take(most));
    let mut before = BTreeSet::new();
    for (row, blame) in grid.rows.iter_mut().zip(&explanation.causes) {
        if let (Hints::Beside, false, Some(hint)) = (hints, before.insert(blame.class), row.last_mut()) {
            hint.clear();
        }
    }
    grid
}

/// What removes the causes that cost most, what the recorder cost, and why less is known than could be.
pub(crate) fn sentences(explanation: &Explanation) -> Vec<String> {
    let costly = explanation.causes.iter().filter(|blame| blame.share >= WORTH_A_HINT).map(|blame| blame.class);
    let hint = |class: CauseClass| match class {
        CauseClass::Tracer => format!("{class}: {}; answers and bars leave it out.", class.removal().hint()),
        _ => format!("{class}: {}. {}.", class.meaning(), capital(class.removal().hint())),
    };
    let mut sentences: Vec<String> = each_once(costly).into_iter().map(hint).collect();
    let quantiles = [("p50", explanation.p50_ns), ("p99", explanation.p99_ns), ("p99.9", explanation.p99_9_ns)];
    let quantiles = quantiles.into_iter().filter_map(|(title, ns)| Some(format!("{title} {}", span(ns? as f64))));
    let quantiles: Vec<String> = quantiles.collect();
    if let (Some(with), Some(before)) = (explanation.p50_ns, explanation.p50_before_ns.filter(|ns| *ns > 0)) {
        let ratio = with as f64 / before as f64;
        let cost = format!(
            "In the explained pass {} {}: its median is {ratio:.2} times that of the measured one",
            explanation.kind.title(),
            quantiles.join(", ")
        );
        let much = if ratio > USUAL_COST { "; the recorder or the load changed the pass" } else { "" };
        sentences.push(format!("{cost}{much}."));
    }
    sentences.extend(explanation.limits.iter().map(|limit| format!("{}.", capital(&plain(limit)))));
    sentences
}

/// A row a message that was kept with its causes, the slowest first: the largest cause of each.
pub fn messages_text(messages: &[Outlier], width: usize) -> String {
    let mut slowest: Vec<&Outlier> = messages.iter().collect();
    slowest.sort_by_key(|message| std::cmp::Reverse(message.rtt_ns));
    slowest.truncate(FEW);
    let kind = slowest.first().map_or("RTT", |message| timed(message));
    let first =
        |message: &&Outlier, read: &dyn Fn(&Cause) -> String| message.causes.first().map(read).unwrap_or_default();
    let grid = Columns::none()
        .figures("message", "", |message: &&Outlier| message.seq.to_string())
        .figures(&capital(kind), "µs", |message| us(message.rtt_ns as f64))
        .words("first cause", move |message| first(message, &|cause| cause.class.to_string()))
        .words("name", move |message| first(message, &named))
        .words("segment", move |message| first(message, &|cause| cause.segment.to_string()))
        .figures("lost", "µs", move |message| first(message, &|cause| us(cause.ns as f64)))
        .grid(slowest);
    format!("The slowest messages; --message N has the way of one\n{}", grid.text(width))
}

/// The way of one late message: its segments in their order, and the causes of each.
pub fn message_text(message: &Outlier, width: usize) -> String {
    let excess_ns: u64 = message.causes.iter().map(|cause| cause.ns).sum();
    let explained =
        message.explained_percent.map(|percent| format!(", {percent} % of it explained")).unwrap_or_default();
    let head = format!(
        "Message {}: {} {}, {} longer than usual{explained}",
        message.seq,
        timed(message),
        span(message.rtt_ns as f64),
        span(excess_ns as f64)
    );
    let mut out = paragraph("", &head, width);
    out.push('\n');
    let rows = message.segments.iter().flat_map(|part| {
        let causes = message.causes.iter().filter(|cause| cause.segment == part.segment);
        let mut rows: Vec<(Option<&SegmentTime>, Option<&Cause>)> = causes.map(|cause| (None, Some(cause))).collect();
        match rows.first_mut() {
            Some(first) => first.0 = Some(part),
            None => rows.push((Some(part), None)),
        }
        rows
    });
    type Row<'a> = (Option<&'a SegmentTime>, Option<&'a Cause>);
    let part = |row: &Row<'_>, read: &dyn Fn(&SegmentTime) -> String| row.0.map(read).unwrap_or_default();
    let cause = |row: &Row<'_>, read: &dyn Fn(&Cause) -> String| row.1.map(read).unwrap_or_default();
    let grid = Columns::none()
        .words("segment", |row: &Row<'_>| part(row, &|part| part.segment.to_string()))
        .words("end", |row| part(row, &|part| part.host.clone()))
        .figures("CPU", "", |row| part(row, &|part| part.cpu.map(|cpu| cpu.to_string()).unwrap_or_default()))
        .figures("time", "µs", |row| part(row, &|part| us(part.ns as f64)))
        .figures("excess", "µs", |row| part(row, &|part| us(part.excess_ns as f64)))
        .words("cause", |row| cause(row, &|cause| cause.class.to_string()))
        .words("name", |row| cause(row, &|cause| named(cause)))
        .figures("lost", "µs", |row| cause(row, &|cause| us(cause.ns as f64)))
        .words("evidence", |row| cause(row, &|cause| plain(&cause.evidence)))
        .grid(rows);
    out.push_str(&grid.text(width));
    out
}

/// What the time of a message is: of a wake-up only the way of a timer is known.
pub(crate) fn timed(message: &Outlier) -> &'static str {
    let of_timer = message.segments.iter().any(|part| part.segment == PathSegment::Expiry);
    if of_timer { LatencyKind::WakeUp } else { LatencyKind::Rtt }.title()
}

/// `rustc/4711`.
fn named(cause: &Cause) -> String {
    let pid = cause.pid.map(|pid| format!("/{pid}")).unwrap_or_default();
    format!("{}{pid}", cause.name.as_deref().map(plain).unwrap_or_default())
}
