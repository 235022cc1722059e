//! What the data say, in a few sentences computed from the figures and never stronger than them: whether two cells differ is
//! said by the comparison of both (`compare`), in its words, and by nothing else. What is above a bare frame (`summary_floors`) is a
//! plain difference, which claims nothing.

use crate::RunInput;
use crate::cells::Cell;
use crate::compare::{CellComparison, Comparisons, MetricComparison, Outcome, brief, varying};
use crate::document::{CellInfo, Document, Mark};
use crate::idle::faster_under_load;
use crate::names::{asked_first, is_baseline, label_word, measured_on, rank};
use crate::units::{commas, counted, figure, list, range, span};
use crate::{known, summary_floors, summary_kernels, summary_pace};
use model::{FindingId, LatencyKind, Substrate, source};
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
    let mut out = summary_kernels::sentences(runs, document.kind == LatencyKind::Rtt);
    out.push(opening(document));
    out.extend(summary_pace::sentences(document));
    let pairs = pairs(document, cells, compared);
    out.extend(comparisons(document, &pairs));
    out.extend(summary_floors::sentences(&document.cells, document.size_bytes));
    let explained = |one| runs.first().and_then(|run| faster_under_load(run, one));
    out.extend(compared.iter().flat_map(|all| &all.comparisons).find_map(explained));
    out.extend(tail(document));
    out.extend(stalls(cells));
    out.extend(known::sentences(cells, runs));
    out.push(verdicts(document));
    out
}

fn opening(document: &Document) -> String {
    let cells = &document.cells;
    let times = match range(cells.iter().map(|info| info.repetitions + info.left_out)) {
        once if once == "1" => "measured once each".to_owned(),
        several => format!("measured {several} times each"),
    };
    let substrates: BTreeSet<Substrate> = cells.iter().map(|info| info.substrate).collect();
    let places: Vec<String> = substrates.iter().map(|substrate| measured_on(*substrate).to_owned()).collect();
    let by_kernel = |info: &CellInfo| {
        !["frame", "shm"].contains(&info.protocol.as_str())
            && info.factors.get("stack").is_none_or(|stack| is_baseline("stack", stack))
    };
    let wire = match substrates.iter().all(|substrate| matches!(substrate, Substrate::Netns | Substrate::Loopback)) {
        false => "",
        true if cells.iter().all(by_kernel) => {
            "; no message crossed a wire, so the figures are those of the kernel's path and not of a network card"
        }
        true => "; no message crossed a wire, so no network card is part of the figures",
    };
    let mixed = if substrates.len() > 1 {
        " Figures of different substrates stand in separate tables and are not compared."
    } else {
        ""
    };
    let counted_time = if substrates.contains(&Substrate::SimulatedTime) {
        " Simulated time counts instructions and knows no cache: its figures compare kernels and settings with each other, and are \
         no performance of any hardware."
    } else {
        ""
    };
    let others: BTreeSet<String> =
        cells.iter().filter_map(|info| info.factors.get(source::FACTOR)).map(|one| source::in_words(one)).collect();
    let of_others = if others.is_empty() {
        String::new()
    } else {
        let others = list(&others.into_iter().collect::<Vec<_>>());
        format!(" Not measured by Windhover itself: {others}; what the source does not tell is left out.")
    };
    let runs = if document.runs.len() > 1 { format!(" in {} runs", document.runs.len()) } else { String::new() };
    format!("{} {times}{runs}, {}{wire}.{mixed}{counted_time}", counted(cells.len(), "cell"), list(&places))
        + &of_others
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
        let is_of_table = info.probe == "pingpong" && info.size_bytes == document.size_bytes;
        is_of_table && is_trusted(&info) && info.value("p50").is_some()
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
    let each = if pairs.iter().any(|pair| pair.axis != pairs[0].axis) { 1 } else { 2 };
    let mut out = Vec::new();
    for axis in ordered(&document.axes) {
        let of_axis: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.axis == axis).collect();
        let mut protocols: BTreeSet<&str> = BTreeSet::new();
        // UDP comes first: its figure includes no acknowledgements. What a setting is worth is shown under load where there
        // is one; otherwise the table's order decides, so that nobody picks the finest difference.
        let idle = |cell: &Cell| cell.info.factors.get("load").is_some_and(|load| is_baseline("load", load));
        let mut shown: Vec<&&Pair<'_>> = of_axis.iter().collect();
        shown.sort_by_key(|pair| {
            let [before, after] = [pair.before, pair.after].map(|cell| &cell.info);
            (after.protocol != "udp", axis != "load" && idle(pair.before), before.row, after.row)
        });
        shown.retain(|pair| protocols.insert(pair.after.info.protocol.as_str()));
        // Stacks are measured to be compared with the kernel: all of them, whatever else there is.
        let room = if axis == "stack" { 2 } else { each.min(MOST_COMPARISONS.saturating_sub(out.len())) };
        out.extend(shown.into_iter().take(room).map(|pair| match axis {
            "stack" => several(document, pair, &of_axis),
            _ => comparison(document, pair),
        }));
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
    format!("{head}{}", other_factors(document, pair))
}

/// The factors that both cells of a pair share and others do not, in brackets.
fn other_factors(document: &Document, pair: &Pair<'_>) -> String {
    let varying = varying(document.cells.iter().map(|info| &info.factors));
    let others: Vec<String> = document
        .axes
        .iter()
        .filter(|axis| axis.as_str() != pair.axis && varying.contains(*axis))
        .filter_map(|axis| pair.after.info.factors.get(axis).map(|value| label_word(axis, value)))
        .collect();
    if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) }
}

/// What the figures of a comparison are, beside those of the tables.
fn of_what(pair: &Pair<'_>) -> String {
    match range(pair.compared.iter().flat_map(|cell| [cell.a.repetitions, cell.b.repetitions])).as_str() {
        "" | "1" => "one repetition each".to_owned(),
        several => {
            format!("geometric means over {several} repetitions; the tables are over all messages together")
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

/// What the figures of a pair are of.
fn measured(document: &Document, pair: &Pair<'_>) -> String {
    let info = &pair.after.info;
    format!("{} {} at {} bytes", info.protocol.to_uppercase(), info.kind.title(), document.size_bytes)
}

/// All values of an axis beside the first one, each with the verdict of its comparison.
fn several(document: &Document, first: &Pair<'_>, of_axis: &[&Pair<'_>]) -> String {
    let compared = of_axis.iter().filter(|pair| std::ptr::eq(pair.before, first.before));
    let compared: Vec<_> = compared.filter_map(|pair| Some((*pair, pair.figure("p50")?))).collect();
    if compared.len() < 2 {
        return comparison(document, first);
    }
    let value = |cell: &Cell| cell.info.factors.get(first.axis).cloned().unwrap_or_default();
    let words: Vec<String> =
        compared.iter().map(|(pair, p50)| format!("{} {}", value(pair.after), brief(p50))).collect();
    let kernel = figure(compared[0].1.quantity.unit(), compared[0].1.a);
    format!(
        "p50 against {} {}{}, {} ({}): {kernel}; {}.",
        first.axis,
        value(first.before),
        other_factors(document, first),
        measured(document, first),
        of_what(first),
        words.join("; ")
    )
}

/// Two cells in the words of their comparison.
fn comparison(document: &Document, pair: &Pair<'_>) -> String {
    let what = measured(document, pair);
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
        text.push_str(&format!(" p99.99 over all repetitions together: {} against {}.", span(b), span(a)));
    }
    text
}

/// What stalls of throttling were seen under real-time policies, without a shield and with one.
fn stalls(cells: &[Cell]) -> Option<String> {
    let is_real_time = |cell: &&Cell| {
        cell.info.factors.get("policy").is_some_and(|policy| policy.contains("fifo") || policy.contains("rr:"))
    };
    let is_shielded = |cell: &&Cell| {
        cell.info.factors.get("shield").is_some_and(|shield| shield != "N/A" && !is_baseline("shield", shield))
    };
    let (with, without): (Vec<&Cell>, Vec<&Cell>) = cells.iter().filter(is_real_time).partition(is_shielded);
    let stalled = |cells: &[&Cell]| cells.iter().filter(|cell| cell.stalls > 0).count();
    if stalled(&with) + stalled(&without) == 0 {
        return None;
    }
    let words = [(without, "without a shield"), (with, "with a shield")]
        .into_iter()
        .filter(|(cells, _)| !cells.is_empty())
        .map(|(cells, what)| format!("{} of {} {what}", stalled(&cells), counted(cells.len(), "cell")));
    Some(format!(
        "Under real-time policies {} have messages with an RTT of about 50 ms (RTT/2 25 ms): the stall that RT throttling or \
         the fair server causes on a CPU that real-time threads keep busy.",
        list(&words.collect::<Vec<_>>())
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

/// Whether any repetition of a cell can be trusted.
pub(crate) fn is_trusted(info: &&CellInfo) -> bool {
    info.mark != Mark::Invalid || info.left_out > 0
}

fn tail(document: &Document) -> Option<String> {
    let size = document.size_bytes;
    let all = || document.cells.iter().filter(|info| info.probe == "pingpong").filter(is_trusted);
    let place = |info: &CellInfo| match info.size_bytes {
        other if other != size => format!("{}, {other} bytes", place(info)),
        _ => place(info),
    };
    let what = format!("p99.9 of {} at {size} bytes over all repetitions together", document.kind.title());
    extremes(&what, all().filter(|info| info.size_bytes == size), "p99.9", all(), "max", place)
}

/// The best and the worst figure of some cells, and the largest of all: `p99.9 of RTT/2: 87.0 µs (best: …) to 1.07 ms
/// (worst: …); maximum 4.97 ms (…).`
pub(crate) fn extremes<'a>(
    what: &str,
    cells: impl Iterator<Item = &'a CellInfo>,
    id: &str,
    all: impl Iterator<Item = &'a CellInfo>,
    max: &str,
    place: impl Fn(&CellInfo) -> String,
) -> Option<String> {
    let mut figures: Vec<(f64, &CellInfo)> = cells.filter_map(|info| Some((info.value(id)?, info))).collect();
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let figures = match figures.as_slice() {
        [] => return None,
        [(one, info)] => format!("{} ({})", span(*one), place(info)),
        [(least, best), .., (most, worst)] => {
            format!("{} (best: {}) to {} (worst: {})", span(*least), place(best), span(*most), place(worst))
        }
    };
    let longest = all.filter_map(|info| Some((info.value(max)?, info))).max_by(|a, b| a.0.total_cmp(&b.0));
    let longest = longest.map(|(ns, info)| format!("; maximum {} ({})", span(ns), place(info))).unwrap_or_default();
    Some(format!("{what}: {figures}{longest}."))
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
    let all = counted(cells.len(), "cell");
    let mut parts = Vec::new();
    if invalid > 0 {
        parts.push(format!("{invalid} of {all} had repetitions that cannot be trusted ({}; marked !)", words(true)));
    }
    if disturbed > 0 {
        let rest = if invalid > 0 { format!("{disturbed} more") } else { format!("{disturbed} of {all}") };
        let verb = if disturbed == 1 { "was" } else { "were" };
        parts.push(format!("{rest} {verb} disturbed ({}; marked *)", words(false)));
    }
    if parts.is_empty() {
        parts.push("No finding disturbed or invalidated a cell".to_owned());
    }
    let few = FindingId::FewSamples.word();
    let short = cells.iter().filter(|info| info.findings.iter().any(|found| found.id == few)).count();
    if short > 0 {
        parts.push(format!("{short} of {all} had too few messages for a quantile ({few})"));
    }
    let (sent, lost) =
        cells.iter().fold((0, 0), |(sent, lost), info| (sent + info.count("sent"), lost + info.count("lost")));
    parts.push(match lost {
        0 => "no message was lost".to_owned(),
        _ => format!("{} of {} messages were lost", commas(lost), commas(sent)),
    });
    format!("{}.", parts.join("; "))
}
