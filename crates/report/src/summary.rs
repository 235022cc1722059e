//! What the data say, in a few sentences computed from the figures and never stronger than them: whether two cells differ is
//! said by the comparison of both (`compare`), in its words, and by nothing else.

use crate::RunInput;
use crate::cells::Cell;
use crate::compare::{CellComparison, Comparisons, MetricComparison, Outcome};
use crate::document::{CellInfo, Document, Mark};
use crate::idle::faster_under_load;
use crate::names::{asked_first, is_baseline, label_word, measured_on, rank};
use crate::summary_pace;
use crate::units::{commas, counted, list, span};
use model::{FindingId, Substrate};
use std::collections::{BTreeMap, BTreeSet};

const MOST_COMPARISONS: usize = 3;

/// Three to ten sentences. `compared`: the comparisons that the report makes of the same runs.
pub(crate) fn sentences(
    document: &Document,
    cells: &[Cell],
    compared: &[Comparisons],
    runs: &[RunInput],
) -> Vec<String> {
    if cells.is_empty() {
        return vec!["No cell has a result yet.".to_owned()];
    }
    let mut out = vec![opening(document)];
    out.extend(summary_pace::sentences(document));
    let pairs = pairs(document, cells, compared);
    out.extend(comparisons(document, &pairs));
    let explained = |one| runs.first().and_then(|run| faster_under_load(run, one));
    out.extend(compared.iter().flat_map(|all| &all.comparisons).find_map(explained));
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

struct Pair<'a> {
    axis: &'a str,
    before: &'a Cell,
    after: &'a Cell,
    /// The comparison of both; absent where the report makes none, as between cells of several runs.
    compared: Option<&'a CellComparison>,
}

impl<'a> Pair<'a> {
    fn figure(&self, metric: &str) -> Option<&'a MetricComparison> {
        self.compared?.metrics.iter().find(|figure| figure.metric == metric)
    }
}

/// The comparison of two cells that differ in one axis.
fn compared<'a>(axis: &str, before: &Cell, after: &Cell, all: &'a [Comparisons]) -> Option<&'a CellComparison> {
    let value = |cell: &Cell| cell.info.factors.get(axis).cloned();
    let info = &after.info;
    let message = [("probe", info.probe.clone()), ("protocol", info.protocol.clone())];
    let message = message.into_iter().chain([("size", info.size_bytes.to_string())]);
    let message: BTreeMap<&str, String> = message.collect();
    all.iter()
        .flat_map(|comparisons| &comparisons.comparisons)
        .filter(|one| {
            one.a.factors.get(axis) == value(before).as_ref() && one.b.factors.get(axis) == value(after).as_ref()
        })
        .flat_map(|one| &one.cells)
        .find(|cell| {
            cell.factors.iter().all(|(name, own)| {
                message.get(name.as_str()).or_else(|| info.factors.get(name)).is_none_or(|wanted| wanted == own)
            })
        })
}

/// Pairs of ping-pong cells of the table's size that differ in nothing but one axis, from its baseline (else its first
/// value) to each other value.
fn pairs<'a>(document: &'a Document, cells: &'a [Cell], all: &'a [Comparisons]) -> Vec<Pair<'a>> {
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
                out.extend(rest.iter().map(|after| {
                    let compared = compared(axis, before, after, all);
                    Pair { axis, before, after, compared }
                }));
            }
        }
    }
    out
}

/// What a reader asks first comes first.
fn ordered(axes: &[String]) -> Vec<&str> {
    let mut axes: Vec<&str> = axes.iter().map(String::as_str).filter(|axis| *axis != "run").collect();
    axes.sort_by_key(|axis| asked_first(axis));
    axes
}

fn comparisons(document: &Document, pairs: &[Pair<'_>]) -> Vec<String> {
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

/// What the figures of a comparison are, beside those of the tables.
fn of_what(pair: &Pair<'_>) -> String {
    let repetitions = pair.compared.map_or([1, 1], |cell| [cell.a.repetitions, cell.b.repetitions]);
    match repetitions {
        [1, 1] => "one repetition each".to_owned(),
        [a, b] => {
            let count = if a == b { a.to_string() } else { format!("{a} and {b}") };
            format!("geometric means over {count} repetitions; the tables are over all messages together")
        }
    }
}

/// Why two cells are not compared, and what does.
fn not_compared(document: &Document, pair: &Pair<'_>) -> String {
    let [before, after] = [pair.before, pair.after].map(|cell| cell.info.run.as_str());
    if before != after {
        return format!("these cells are of two runs and not compared: windhover compare {before} {after}");
    }
    let why = if document.runs.len() > 1 { ", as a report of several runs compares the runs" } else { "" };
    format!("these cells are not compared{why}: windhover compare {before} --axis {}", pair.axis)
}

/// Two cells in the words of their comparison.
fn comparison(document: &Document, pair: &Pair<'_>) -> String {
    let info = &pair.after.info;
    let what = format!("{} {} at {} bytes", info.protocol.to_uppercase(), info.kind.title(), document.size_bytes);
    let Some(figure) = pair.figure("p50") else {
        let figure = |cell: &Cell| cell.info.value("p50").map_or_else(|| "not known".to_owned(), span);
        return format!(
            "{}, p50 of {what} over all messages: {} against {}; {}.",
            condition(document, pair),
            figure(pair.after),
            figure(pair.before),
            not_compared(document, pair)
        );
    };
    let mut text = format!("{}, {what} ({}): {}", condition(document, pair), of_what(pair), figure.sentence);
    // What a shield is there for is the few messages that take long; of jitter only what is known is said.
    for metric in ["stdev", "p99.9"] {
        let wanted = |figure: &&MetricComparison| match metric {
            "stdev" => matches!(figure.outcome, Outcome::Higher | Outcome::Lower),
            _ => pair.axis == "shield",
        };
        if let Some(figure) = pair.figure(metric).filter(wanted) {
            text.push_str(&format!(" {}", figure.sentence));
        }
    }
    if let (true, Some(a), Some(b)) =
        (pair.axis == "shield", pair.before.info.value("p99.99"), pair.after.info.value("p99.99"))
    {
        text.push_str(&format!(
            " Over all repetitions together one message in ten thousand took longer than {}, against {}.",
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
    let outcomes: Vec<Outcome> = pairs.iter().filter_map(|pair| Some(pair.figure("p50")?.outcome)).collect();
    let count = |wanted: &[Outcome]| outcomes.iter().filter(|outcome| wanted.contains(outcome)).count();
    let (rose, fell, none) =
        (count(&[Outcome::Higher]), count(&[Outcome::Lower]), count(&[Outcome::NoDifference, Outcome::Same]));
    format!(
        "Of all {} comparisons of the median with and without load at {} bytes, {rose} are significantly higher under load, \
         {fell} are significantly lower, {none} show no difference and {} are inconclusive.",
        pairs.len(),
        document.size_bytes,
        pairs.len() - rose - fell - none
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
        .filter(|info| info.size_bytes == document.size_bytes && info.value("p99.9").is_some())
        .collect();
    let by_tail =
        |a: &&&CellInfo, b: &&&CellInfo| a.value("p99.9").unwrap_or(0.0).total_cmp(&b.value("p99.9").unwrap_or(0.0));
    let least = at_size.iter().min_by(by_tail)?;
    let most = at_size.iter().max_by(by_tail)?;
    let largest = document
        .cells
        .iter()
        .filter(fit)
        .filter(|info| info.value("max").is_some())
        .max_by(|a, b| a.value("max").unwrap_or(0.0).total_cmp(&b.value("max").unwrap_or(0.0)))?;
    let kind = document.kind.title();
    let mut text = if at_size.len() > 1 {
        format!(
            "One message in a thousand took longer (p99.9 of {kind} at {} bytes over all repetitions together) than {} in the best row ({}) and than {} in the worst ({})",
            document.size_bytes,
            span(least.value("p99.9")?),
            place(least),
            span(most.value("p99.9")?),
            place(most)
        )
    } else {
        format!(
            "One message in a thousand took longer than {} (p99.9 of {kind} at {} bytes over all repetitions together, {})",
            span(most.value("p99.9")?),
            document.size_bytes,
            place(most)
        )
    };
    text.push_str(&format!(
        "; the longest of all took {} ({}, {} bytes).",
        span(largest.value("max")?),
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
    let few = FindingId::FewSamples.word();
    let short = cells.iter().filter(|info| info.findings.iter().any(|found| found.id == few)).count();
    if short > 0 {
        parts.push(format!("{short} of {} had too few messages for a quantile ({few})", counted(cells.len(), "cell")));
    }
    let (sent, lost) =
        cells.iter().fold((0, 0), |(sent, lost), info| (sent + info.count("sent"), lost + info.count("lost")));
    parts.push(match lost {
        0 => "no message was lost".to_owned(),
        _ => format!("{} of {} messages were lost", commas(lost), commas(sent)),
    });
    format!("{}.", parts.join("; "))
}
