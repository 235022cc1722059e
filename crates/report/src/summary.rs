//! What the data say, in a few sentences computed from the figures and never stronger than them: a difference is
//! called one only where the ranges over the repetitions do not overlap, and with a single repetition none is.

use crate::cells::Cell;
use crate::combine::{middle, spread};
use crate::document::{CellInfo, Document, Mark, Spread};
use crate::names::{is_baseline, label_word, measured_on, rank};
use crate::summary_pace;
use crate::units::{commas, counted, list, span, spans};
use model::Substrate;
use std::collections::{BTreeMap, BTreeSet};

const MOST_COMPARISONS: usize = 3;

/// Three to nine sentences.
pub(crate) fn sentences(document: &Document, cells: &[Cell]) -> Vec<String> {
    if cells.is_empty() {
        return vec!["No cell has a result yet.".to_owned()];
    }
    let mut out = vec![opening(document)];
    out.extend(summary_pace::sentences(document));
    let told = comparisons(document, cells);
    out.extend(told);
    out.extend(tail(document));
    out.extend(holes(cells));
    out.push(verdicts(document));
    out
}

fn opening(document: &Document) -> String {
    let cells = &document.cells;
    let repetitions: BTreeSet<usize> = cells.iter().map(|info| info.repetitions + info.left_out).collect();
    let times = match (repetitions.first(), repetitions.last()) {
        (Some(1), Some(1)) => "measured once each".to_owned(),
        (Some(low), Some(high)) if low == high => format!("measured {low} times each"),
        (Some(low), Some(high)) => format!("measured {low} to {high} times each"),
        _ => "measured".to_owned(),
    };
    let substrates: BTreeSet<Substrate> = cells.iter().map(|info| info.substrate).collect();
    let places: Vec<String> = substrates.iter().map(|substrate| measured_on(*substrate).to_owned()).collect();
    let wire = if substrates.iter().all(|substrate| matches!(substrate, Substrate::Netns | Substrate::Loopback)) {
        "; no message crossed a wire, so the figures are those of the kernel's path and not of a network card"
    } else {
        ""
    };
    let mixed = if substrates.len() > 1 {
        " Figures of different substrates stand in separate tables and are not compared."
    } else {
        ""
    };
    let runs = if document.runs.len() > 1 { format!(" in {} runs", document.runs.len()) } else { String::new() };
    format!("{} {times}{runs}, {}{wire}.{mixed}", counted(cells.len(), "cell"), list(&places))
}

/// How two sets of repetitions lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Rose,
    Fell,
    Within,
    Unknown,
}

fn outcome(before: &[f64], after: &[f64]) -> Outcome {
    match (spread(before), spread(after)) {
        (Some(a), Some(b)) if b.low_ns > a.high_ns => Outcome::Rose,
        (Some(a), Some(b)) if b.high_ns < a.low_ns => Outcome::Fell,
        (Some(_), Some(_)) => Outcome::Within,
        _ => Outcome::Unknown,
    }
}

struct Pair<'a> {
    axis: &'a str,
    before: &'a Cell,
    after: &'a Cell,
}

/// Pairs of ping-pong cells of the table's size that differ in nothing but one axis, from its baseline (else its first
/// value) to each other value.
fn pairs<'a>(document: &'a Document, cells: &'a [Cell]) -> Vec<Pair<'a>> {
    let fit = |cell: &&Cell| {
        let info = &cell.info;
        let untrusted = info.mark == Mark::Invalid && info.left_out == 0;
        info.probe == "pingpong" && info.size_bytes == document.size_bytes && !untrusted && !cell.medians.is_empty()
    };
    let cells: Vec<&Cell> = cells.iter().filter(fit).collect();
    let mut out = Vec::new();
    for axis in ordered(&document.axes) {
        let mut groups: BTreeMap<_, Vec<&Cell>> = BTreeMap::new();
        for cell in &cells {
            let mut others = cell.info.factors.clone();
            if others.remove(axis).is_some() {
                let key = (rank("protocol", &cell.info.protocol), cell.info.substrate, others);
                groups.entry(key).or_default().push(cell);
            }
        }
        for mut group in groups.into_values() {
            let value = |cell: &Cell| cell.info.factors.get(axis).cloned().unwrap_or_default();
            group.sort_by_key(|cell| (!is_baseline(axis, &value(cell)), rank(axis, &value(cell))));
            if let Some((before, rest)) = group.split_first() {
                out.extend(rest.iter().map(|after| Pair { axis, before, after }));
            }
        }
    }
    out
}

/// What a reader asks first comes first.
fn ordered(axes: &[String]) -> Vec<&str> {
    let mut axes: Vec<&str> = axes.iter().map(String::as_str).filter(|axis| *axis != "run").collect();
    let first = ["load", "os", "shield", "policy", "stack", "receive", "nic"];
    axes.sort_by_key(|axis| first.iter().position(|name| name == axis).unwrap_or(first.len()));
    axes
}

fn comparisons(document: &Document, cells: &[Cell]) -> Vec<String> {
    let pairs = pairs(document, cells);
    let axes: BTreeSet<&str> = pairs.iter().map(|pair| pair.axis).collect();
    let each = if axes.len() > 1 { 1 } else { 2 };
    let mut out = Vec::new();
    for axis in ordered(&document.axes) {
        let of_axis: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.axis == axis).collect();
        let mut protocols: BTreeSet<&str> = BTreeSet::new();
        // UDP is told first: it has no acknowledgements of its own in the figure. What a setting is worth is told under
        // load where there is one; otherwise the table's order decides, so that nobody picks the finest difference.
        let idle = |cell: &Cell| cell.info.factors.get("load").is_some_and(|load| is_baseline("load", load));
        let mut told: Vec<&&Pair<'_>> = of_axis.iter().collect();
        told.sort_by_key(|pair| {
            (
                pair.after.info.protocol != "udp",
                axis != "load" && idle(pair.before),
                pair.before.info.row,
                pair.after.info.row,
            )
        });
        told.retain(|pair| protocols.insert(pair.after.info.protocol.as_str()));
        for pair in told.into_iter().take(each) {
            if out.len() < MOST_COMPARISONS {
                out.push(comparison(document, pair));
            }
        }
        if axis == "load" && of_axis.len() > 2 && out.len() < MOST_COMPARISONS {
            out.push(tally(document, &of_axis));
        }
    }
    out
}

fn condition(document: &Document, pair: &Pair<'_>) -> String {
    let value = |cell: &Cell| cell.info.factors.get(pair.axis).cloned().unwrap_or_default();
    let (before, after) = (value(pair.before), value(pair.after));
    let head = match pair.axis {
        "load" if is_baseline("load", &before) => format!("Under load {after}"),
        "os" | "nic" => format!("On {after} instead of {before}"),
        "cpu" => format!("On CPU {after} instead of {before}"),
        "shield" if is_baseline("shield", &before) => format!("With shield {after}"),
        "knob" if is_baseline("knob", &before) => format!("With {after}"),
        axis => format!("With {axis} {after} instead of {before}"),
    };
    let others: Vec<String> = document
        .axes
        .iter()
        .filter(|axis| axis.as_str() != pair.axis && varies(document, axis))
        .filter_map(|axis| pair.after.info.factors.get(axis).map(|value| label_word(axis, value)))
        .collect();
    if others.is_empty() { head } else { format!("{head} ({})", others.join(", ")) }
}

fn varies(document: &Document, axis: &str) -> bool {
    document.cells.iter().map(|info| info.factors.get(axis)).collect::<BTreeSet<_>>().len() > 1
}

fn range(range: Spread) -> String {
    spans(range.low_ns, "to", range.high_ns)
}

fn comparison(document: &Document, pair: &Pair<'_>) -> String {
    let (before, after) = (pair.before, pair.after);
    let info = &after.info;
    let what = format!("{} {} at {} bytes", info.protocol.to_uppercase(), info.kind.title(), document.size_bytes);
    let middles = |cell: &Cell| middle(&cell.medians).or(cell.info.p50_ns).unwrap_or_default();
    let (a, b) = (middles(before), middles(after));
    let (to, and) = (spans(a, "to", b), spans(a, "and", b));
    let median = match outcome(&before.medians, &after.medians) {
        Outcome::Rose => format!("the median of {what} rose from {to}"),
        Outcome::Fell => format!("the median of {what} fell from {to}"),
        Outcome::Within => format!("the median of {what} stayed within the spread of the repetitions ({and})"),
        Outcome::Unknown => format!("the median of {what} was {}, against {}", span(b), span(a)),
    };
    let evidence = match (spread(&before.medians), spread(&after.medians)) {
        (Some(low), Some(high)) => {
            let (n, m) = (before.medians.len(), after.medians.len());
            let repetitions = if n == m { format!("{n} repetitions each") } else { format!("{n} and {m} repetitions") };
            let overlap = match outcome(&before.medians, &after.medians) {
                Outcome::Within => "ranges overlap",
                _ => "ranges do not overlap",
            };
            format!("{repetitions}, {overlap}: {} and {}", range(low), range(high))
        }
        _ => "too few repetitions to say how far such figures scatter".to_owned(),
    };
    let jitter = match (middle(&before.stdevs), middle(&after.stdevs)) {
        (Some(a), Some(b)) => {
            let (to, and) = (spans(a, "to", b), spans(a, "and", b));
            match outcome(&before.stdevs, &after.stdevs) {
                Outcome::Rose => format!("; its jitter (standard deviation) rose from {to}"),
                Outcome::Fell => format!("; its jitter (standard deviation) fell from {to}"),
                Outcome::Within => format!("; its jitter (standard deviation) stayed within the spread ({and})"),
                Outcome::Unknown => format!("; its jitter (standard deviation) was {}, against {}", span(b), span(a)),
            }
        }
        _ => String::new(),
    };
    let tail = if pair.axis == "shield" { tails(before, after) } else { String::new() };
    format!("{} {median} ({evidence}){jitter}{tail}.", condition(document, pair))
}

/// What a shield is there for: the few messages that take long.
fn tails(before: &Cell, after: &Cell) -> String {
    let mut text = String::new();
    if let (Some(a), Some(b)) = (middle(&before.tails), middle(&after.tails)) {
        let (to, and) = (spans(a, "to", b), spans(a, "and", b));
        text.push_str(&match outcome(&before.tails, &after.tails) {
            Outcome::Rose => format!("; its p99.9 rose from {to}"),
            Outcome::Fell => format!("; its p99.9 fell from {to}"),
            Outcome::Within => format!("; its p99.9 stayed within the spread ({and})"),
            Outcome::Unknown => format!("; its p99.9 was {}, against {}", span(b), span(a)),
        });
    }
    if let (Some(a), Some(b)) = (before.info.p99_99_ns, after.info.p99_99_ns) {
        text.push_str(&format!(
            "; over all repetitions together one message in ten thousand took longer than {}, against {}",
            span(b),
            span(a)
        ));
    }
    text
}

/// What holes of throttling were seen under real-time policies, and whether a shield had any.
fn holes(cells: &[Cell]) -> Option<String> {
    let real_time = |cell: &&Cell| {
        cell.info.factors.get("policy").is_some_and(|policy| policy.contains("fifo") || policy.contains("rr:"))
    };
    let shielded = |cell: &Cell| cell.info.factors.get("shield").is_some_and(|shield| !is_baseline("shield", shield));
    let cells: Vec<&Cell> = cells.iter().filter(real_time).collect();
    let with: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.holes > 0).collect();
    if with.is_empty() {
        return None;
    }
    let (behind, open): (Vec<&Cell>, Vec<&Cell>) = with.iter().copied().partition(|cell| shielded(cell));
    let shields = cells.iter().filter(|cell| shielded(cell)).count();
    let beside = match (shields, behind.len()) {
        (0, _) => String::new(),
        (1, 0) => "; the one with a shield shows none".to_owned(),
        (all, 0) => format!("; none of the {all} with a shield shows one"),
        (all, some) => format!("; so do {some} of the {all} with a shield"),
    };
    let all = cells.len() - shields;
    if open.is_empty() {
        return Some(format!(
            "Under real-time policies {} of {} with a shield {} messages of about 50 ms there and back (25 ms as RTT/2), as \
             wide as the hole that RT throttling or the fair server leaves on a CPU that real-time threads keep busy.",
            behind.len(),
            counted(shields, "cell"),
            if behind.len() == 1 { "shows" } else { "show" }
        ));
    }
    Some(format!(
        "Under real-time policies {} of {} without a shield {} messages of about 50 ms there and back (25 ms as RTT/2), as \
         wide as the hole that RT throttling or the fair server leaves on a CPU that real-time threads keep busy{beside}.",
        open.len(),
        counted(all, "cell"),
        if open.len() == 1 { "shows" } else { "show" }
    ))
}

fn tally(document: &Document, pairs: &[&Pair<'_>]) -> String {
    let count = |wanted: Outcome| {
        pairs.iter().filter(|pair| outcome(&pair.before.medians, &pair.after.medians) == wanted).count()
    };
    format!(
        "Of all {} comparisons with and without load at {} bytes, the median rose in {}, fell in {} and stayed within the \
         spread of the repetitions in {}.",
        pairs.len(),
        document.size_bytes,
        count(Outcome::Rose),
        count(Outcome::Fell),
        count(Outcome::Within) + count(Outcome::Unknown)
    )
}

fn place(info: &CellInfo) -> String {
    format!("{} {}, {}", info.protocol.to_uppercase(), info.probe, info.label)
}

fn tail(document: &Document) -> Option<String> {
    let fit = |info: &&CellInfo| info.probe == "pingpong" && !(info.mark == Mark::Invalid && info.left_out == 0);
    let at_size: Vec<&CellInfo> = document
        .cells
        .iter()
        .filter(fit)
        .filter(|info| info.size_bytes == document.size_bytes && info.p99_9_ns.is_some())
        .collect();
    let by_tail = |a: &&&CellInfo, b: &&&CellInfo| a.p99_9_ns.unwrap_or(0.0).total_cmp(&b.p99_9_ns.unwrap_or(0.0));
    let least = at_size.iter().min_by(by_tail)?;
    let most = at_size.iter().max_by(by_tail)?;
    let largest = document
        .cells
        .iter()
        .filter(fit)
        .filter(|info| info.max_ns.is_some())
        .max_by(|a, b| a.max_ns.unwrap_or(0.0).total_cmp(&b.max_ns.unwrap_or(0.0)))?;
    let kind = document.kind.title();
    let mut text = if at_size.len() > 1 {
        format!(
            "One message in a thousand took longer (p99.9 of {kind} at {} bytes) than {} in the best row ({}) and than {} in the worst ({})",
            document.size_bytes,
            span(least.p99_9_ns?),
            place(least),
            span(most.p99_9_ns?),
            place(most)
        )
    } else {
        format!(
            "One message in a thousand took longer than {} (p99.9 of {kind} at {} bytes, {})",
            span(most.p99_9_ns?),
            document.size_bytes,
            place(most)
        )
    };
    text.push_str(&format!(
        "; the longest of all took {} ({}, {} bytes).",
        span(largest.max_ns?),
        place(largest),
        largest.size_bytes
    ));
    Some(text)
}

fn verdicts(document: &Document) -> String {
    let cells = &document.cells;
    let words = |invalid: bool| {
        let ids: BTreeSet<String> =
            document.notes.iter().filter(|note| note.invalid == invalid).map(|note| note.id.clone()).collect();
        list(&ids.into_iter().collect::<Vec<_>>())
    };
    let of = |mark: Mark| cells.iter().filter(|info| info.mark == mark).count();
    let (invalid, disturbed) = (of(Mark::Invalid), of(Mark::Disturbed));
    let mut parts = Vec::new();
    if invalid > 0 {
        parts.push(format!(
            "{invalid} of {} had repetitions that cannot be trusted ({}; marked !)",
            counted(cells.len(), "cell"),
            words(true)
        ));
    }
    if disturbed > 0 {
        let rest = if invalid > 0 {
            format!("{disturbed} more")
        } else {
            format!("{disturbed} of {}", counted(cells.len(), "cell"))
        };
        let verb = if disturbed == 1 { "was" } else { "were" };
        parts.push(format!("{rest} {verb} disturbed ({}; marked *)", words(false)));
    }
    if parts.is_empty() {
        parts.push("Nothing was found that disturbed a cell or makes one untrustworthy".to_owned());
    }
    let (sent, lost) = cells.iter().fold((0, 0), |(sent, lost), info| (sent + info.sent, lost + info.lost));
    parts.push(match lost {
        0 => "no message was lost".to_owned(),
        _ => format!("{} of {} messages were lost", commas(lost), commas(sent)),
    });
    format!("{}.", parts.join("; "))
}
