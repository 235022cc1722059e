//! The first screen: what was measured, the few figures that matter, at most five sentences (effects with intervals, what is
//! known of the cause, how far to trust them), and commands to go on with. Nothing is computed here.

mod cause;
mod effect;
pub(crate) mod late;

use crate::compare::p_word;
use crate::document::{Answer, AnswerRow, Document};
use crate::say::Facts;
use crate::units::{counted, each_once, list, range};
use digest::cells::Cell;
use digest::compare::{CellComparison, Comparisons, Outcome, repetitions_needed};
use digest::names::{asked_first, is_baseline, measured_on, value_word, varying};
use digest::{Mark, RunInput};
use model::{Substrate, quantity};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the first table: fewer are filled up from the other cells.
const FEWEST_ROWS: usize = 3;
const MOST_ROWS: usize = 6;
const MOST_COMMANDS: usize = 2;
const MOST_SENTENCES: usize = 5;
/// What the first table shows of latency, and of what has none.
const LATENCY: [&str; 4] = ["p50", "stdev", "p99.9", "max"];
const OTHERS: [&str; 6] = ["bits", "transactions", "achieved", "loss", "up.bits", "down.bits"];

/// What the first screen is about: the facts, the cells of its table, and what tells these apart.
struct Screen<'a> {
    facts: &'a Facts<'a>,
    shown: Vec<&'a Cell>,
    labels: Labels,
}

pub(crate) fn of(facts: &Facts<'_>) -> Answer {
    if facts.cells.is_empty() {
        return Answer { measured: "No cell has a result yet.".to_owned(), ..Answer::default() };
    }
    let places = rows(facts);
    let shown: Vec<&Cell> = places.iter().filter_map(|place| facts.cells.get(*place)).collect();
    let labels = Labels::of(&shown, facts.compared.first());
    let screen = Screen { facts, shown, labels };
    let has = |id: &&str| screen.shown.iter().any(|cell| cell.info.value(id).is_some());
    let latency: Vec<&'static str> = LATENCY.into_iter().filter(has).collect();
    let columns = if latency.is_empty() { OTHERS.into_iter().filter(has).take(4).collect() } else { latency };
    let room = MOST_SENTENCES - 1;
    let mut sentences = match &facts.without_meaning() {
        Some(why) => vec![why.clone()],
        None => effect::sentences(&screen),
    };
    if sentences.len() < room && facts.without_meaning().is_none() {
        sentences.extend(cause::sentences(&screen));
    }
    sentences.truncate(room);
    sentences.push(trust(facts));
    let row = |(cell, place): (&&Cell, &usize)| AnswerRow { label: screen.labels.row(cell), cell: *place };
    Answer {
        measured: measured(&screen),
        columns,
        rows: screen.shown.iter().zip(&places).map(row).collect(),
        sentences,
        next: next(facts),
    }
}

/// The cells that the primary comparisons are about, in their order, filled up with cells of the same message.
fn rows(facts: &Facts<'_>) -> Vec<usize> {
    let cells = facts.cells;
    let sides = facts.compared.first().into_iter().flat_map(|all| &all.comparisons).flat_map(|comparison| {
        let of_cell = |pair| [&comparison.a, &comparison.b].map(|side| facts.place_of(pair, side));
        comparison.cells.iter().flat_map(of_cell).flatten().collect::<Vec<_>>()
    });
    // One heading stands above all rows.
    let kind = |place: usize| cells.get(place).map(|cell| cell.info.kind);
    let mut places = each_once(sides);
    let first = places.first().copied().unwrap_or(0);
    places.retain(|place| kind(*place) == kind(first));
    places.truncate(MOST_ROWS);
    let message =
        |place: usize| cells.get(place).map(|cell| (cell.info.probe, cell.info.protocol.clone(), cell.info.size_bytes));
    let alike = (0..cells.len()).filter(|place| message(*place) == message(first));
    for place in alike.chain(0..cells.len()).filter(|place| kind(*place) == kind(first)) {
        if places.len() < FEWEST_ROWS && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

struct Labels {
    /// Names of the factors in which rows differ, those that a reader asks first in front.
    varying: Vec<String>,
    /// The axes that are asked about: their values are always named.
    asked: BTreeSet<String>,
}

/// All factors of a cell, those of its message among them, if it has one.
fn factors(cell: &Cell) -> BTreeMap<String, String> {
    let info = &cell.info;
    let mut factors = info.factors.clone();
    factors.insert("probe".to_owned(), info.probe.word().to_owned());
    for (name, value) in [("protocol", info.protocol.clone()), ("size", info.size_bytes.to_string())] {
        factors.remove(name);
        factors.extend(info.probe.has_peer().then(|| (name.to_owned(), value)));
    }
    factors
}

impl Labels {
    fn of(shown: &[&Cell], primary: Option<&Comparisons>) -> Self {
        let all: Vec<BTreeMap<String, String>> = shown.iter().map(|cell| factors(cell)).collect();
        let mut varying: Vec<String> = varying(all.iter()).into_iter().collect();
        let message = ["probe", "protocol", "size"];
        varying.sort_by_key(|name| match message.iter().position(|known| known == name) {
            Some(place) => (0, place),
            None => (1, asked_first(name)),
        });
        let axes = primary.iter().flat_map(|all| &all.comparisons).flat_map(|one| one.a.factors.keys().cloned());
        // The first question's values are said in each row; of the others a baseline goes without saying.
        let asked = axes.take(1).collect();
        Self { varying, asked }
    }

    /// Whether a value is named: what others are compared with is named below the table, once.
    fn is_named(&self, name: &str, value: &str) -> bool {
        self.asked.contains(name) || !is_baseline(name, value)
    }

    fn row(&self, cell: &Cell) -> String {
        let all = factors(cell);
        let values = self.varying.iter().filter_map(|name| Some((name, all.get(name)?)));
        let words =
            values.filter(|(name, value)| self.is_named(name, value)).map(|(name, value)| value_word(name, value));
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        if words.is_empty() { cell.info.label.clone() } else { words.join(" · ") }
    }

    /// The baselines that rows leave out.
    fn unnamed(&self, shown: &[&Cell]) -> Vec<String> {
        let left_out = |name: &String| {
            let of_row = |cell: &&&Cell| factors(cell).get(name).cloned();
            shown
                .iter()
                .filter_map(|cell| of_row(&cell))
                .find(|value| !self.is_named(name, value))
                .map(|value| value_word(name, &value))
        };
        self.varying.iter().filter_map(left_out).collect()
    }

    /// The conditions of a comparison that are worth a word: what varies, and is no baseline.
    fn conditions(&self, pair: &CellComparison) -> Vec<String> {
        let values = self.varying.iter().filter_map(|name| Some((name, pair.factors.get(name)?)));
        let values = values.filter(|(name, value)| !is_baseline(name, value));
        let phrase = |(name, value): (&String, &String)| {
            let preposition = match name.as_str() {
                "load" => "under",
                "protocol" => "over",
                "size" | "rate" => "at",
                _ => "with",
            };
            format!("{preposition} {}", value_word(name, value))
        };
        values.filter(|(name, value)| !value_word(name, value).is_empty()).map(phrase).collect()
    }
}

fn measured(Screen { facts, shown, labels }: &Screen<'_>) -> String {
    let document = facts.document;
    let messages = each_once(shown.iter().map(|cell| {
        let info = &cell.info;
        let size = if info.probe.has_peer() {
            format!(" {} {} B", info.protocol.to_uppercase(), info.size_bytes)
        } else {
            String::new()
        };
        let kind = info.value("p50").map(|_| format!("{} of ", info.kind.title())).unwrap_or_default();
        format!("{kind}{}{size}", info.probe)
    }));
    let mut parts = vec![list(&messages.into_iter().take(3).collect::<Vec<_>>())];
    let places: BTreeSet<Substrate> = document.cells.iter().map(|info| info.substrate).collect();
    parts.push(list(&places.iter().map(|place| measured_on(*place).to_owned()).collect::<Vec<_>>()));
    let repetitions = range(shown.iter().map(|cell| cell.info.repetitions + cell.info.left_out));
    let seconds = seconds(shown, facts.runs).map(|seconds| format!(" of {seconds:.1} s")).unwrap_or_default();
    parts.push(match repetitions.as_str() {
        "1" => format!("once each{}", seconds.replace(" of", ",")),
        several => format!("{several} repetitions{seconds} each"),
    });
    let unnamed = labels.unnamed(shown);
    let unnamed = if unnamed.is_empty() { String::new() } else { format!("; {} unless named", list(&unnamed)) };
    let all = document.cells.len();
    let more = if all > shown.len() { format!("; {} of {all} cells", shown.len()) } else { String::new() };
    let (results, steps) =
        document.runs.iter().fold((0, 0), |(results, steps), run| (results + run.results, steps + run.steps));
    let partly = if results < steps { format!("; {results} of {steps} measurements done") } else { String::new() };
    format!("{}{unnamed}{more}{partly}.", parts.join(", "))
}

/// How long one repetition of the rows took, where all took about as long.
fn seconds(shown: &[&Cell], runs: &[RunInput]) -> Option<f64> {
    let of_cell = |cell: &&Cell| {
        let run = runs.get(cell.run)?;
        let elapsed = |member: &usize| run.results.get(*member).map(|result| result.elapsed_ns as f64 / 1e9);
        digest::combine::middle(&cell.members.iter().filter_map(elapsed).collect::<Vec<_>>())
    };
    let all: Vec<f64> = shown.iter().filter_map(of_cell).collect();
    let [low, high] = [f64::min, f64::max].map(|pick| all.iter().copied().reduce(pick));
    low.zip(high).filter(|(low, high)| *low > 0.0 && high / low < 1.1).map(|(low, _)| low)
}

/// How far the comparisons can be trusted, and what the figures are no evidence of.
fn trust(facts: &Facts<'_>) -> String {
    let document = facts.document;
    let mut parts: Vec<String> = facts.primary().and_then(tests).into_iter().collect();
    let of = |mark: Mark| document.cells.iter().filter(|info| info.mark == mark).count();
    let all = counted(document.cells.len(), "cell");
    match of(Mark::Invalid) {
        0 => {}
        invalid => {
            let ids = document.notes.iter().filter(|note| note.invalid).map(|note| note.id.clone());
            let ids: Vec<String> = ids.collect::<BTreeSet<_>>().into_iter().collect();
            parts.push(format!("{invalid} of {all} had repetitions that cannot be trusted ({}; !)", list(&ids)));
        }
    }
    if parts.is_empty() {
        parts.push(match of(Mark::Disturbed) {
            0 => "No cell was disturbed".to_owned(),
            disturbed => format!("{disturbed} of {all} were disturbed (*)"),
        });
    }
    let places: BTreeSet<Substrate> = document.cells.iter().map(|info| info.substrate).collect();
    if places.len() > 1 {
        parts.push("figures of different substrates are not compared".to_owned());
    } else if places.contains(&Substrate::SimulatedTime) {
        parts.push("simulated time counts instructions: it compares, and is no performance of any hardware".to_owned());
    }
    format!("{}.", parts.join("; "))
}

/// What the tests came to: how many were decided, and how surely.
fn tests(primary: &Comparisons) -> Option<String> {
    let pairs = || primary.comparisons.iter().flat_map(|one| &one.cells);
    let figures = || pairs().flat_map(|cell| &cell.metrics);
    // What no repetition has is an open question, too.
    let lacking: usize = pairs().map(|cell| cell.lacking.len()).sum();
    let all = figures().count() + lacking;
    let claims = figures().filter(|figure| figure.outcome.is_claim()).count();
    let alike = figures().filter(|figure| figure.outcome.is_decided()).count() - claims;
    if all == 0 {
        return None;
    }
    let largest = figures().filter(|figure| figure.outcome.is_claim()).filter_map(|figure| figure.p_corrected);
    let largest = largest.reduce(f64::max).map(p_word).unwrap_or_default();
    let corrected = if all > 1 { " after correction" } else { "" };
    let sure =
        if largest.is_empty() { String::new() } else { format!(" ({}{corrected})", largest.replace(" = ", " ≤ ")) };
    let how = if primary.comparisons.iter().all(|one| one.interleaved) { ", measured interleaved" } else { "" };
    let (one, verb) = match all {
        1 => ("The comparison".to_owned(), "is"),
        2 => ("Both comparisons".to_owned(), "are"),
        _ => (format!("All {all} comparisons"), "are"),
    };
    let few = figures().filter(|figure| figure.outcome == Outcome::TooFew && !figure.incomplete).count();
    Some(match (claims, alike, all - claims - alike) {
        (0, 0, _) if few > 0 && few + lacking == all => {
            let few = figures().next().map_or(0, |figure| figure.a_values.len().min(figure.b_values.len()));
            let needed = repetitions_needed(primary.comparisons.iter().map(|one| one.cells.len()).sum());
            let word = primary.comparisons.first().map_or("repetition", |one| one.sample.word());
            format!("{} a side cannot decide, {needed} can", counted(few, word))
        }
        (_, 0, 0) => format!("{one} {verb} decided{sure}{how}"),
        (_, _, open) => {
            let differ = format!("{claims} of {} show a difference{sure}", counted(all, "comparison"));
            let alike = if alike > 0 { format!(", {alike} show none") } else { String::new() };
            let open = if open > 0 { format!(", {open} open") } else { String::new() };
            format!("{differ}{alike}{open}{how}")
        }
    })
}

/// Commands to go on with: what decides more, what a person does with the answer, and the rest of the evidence.
fn next(facts: &Facts<'_>) -> Vec<String> {
    let document = facts.document;
    let [run] = facts.runs else { return Vec::new() };
    let path = run.folder.as_ref().map_or_else(|| run.name.clone(), |folder| folder.display().to_string());
    let path = pasted(&path);
    let comparisons = || facts.primary_comparisons();
    let figures = || comparisons().flat_map(|one| &one.cells).flat_map(|cell| &cell.metrics);
    let mut out = Vec::new();
    // What was cut short goes on where it was.
    let is_whole = document.runs.iter().all(|run| run.results >= run.steps);
    out.extend(path.as_ref().filter(|_| !is_whole).map(|path| format!("windhover campaign resume {path}")));
    if let (true, true, Some(path)) = (is_whole, run.folder.is_some(), &path)
        && figures().any(|figure| figure.outcome == Outcome::TooFew && !figure.incomplete)
    {
        let needed = repetitions_needed(comparisons().map(|one| one.cells.len()).sum());
        // A boot is one sample with all its repetitions.
        let each = comparisons().flat_map(|one| &one.cells).map(|cell| {
            let samples = cell.metrics.first().map_or(0, |figure| figure.a_values.len());
            cell.a.repetitions.checked_div(samples).unwrap_or(1).max(1)
        });
        let needed = needed * each.max().unwrap_or(1);
        out.push(format!("windhover campaign run {path}/plan.toml --repetitions {needed}"));
    }
    // What gains from a setting is worth doing; the command that does it stands with the axis.
    let gains = comparisons().filter(|one| {
        let is_from_baseline = one.a.factors.iter().all(|(axis, value)| is_baseline(axis, value));
        let mut figures = one.cells.iter().flat_map(|cell| &cell.metrics);
        is_from_baseline
            && figures.any(|figure| match figure.quantity.0.better {
                quantity::Better::Lower => figure.outcome == Outcome::Lower,
                quantity::Better::Higher => figure.outcome == Outcome::Higher,
                quantity::Better::Neither => false,
            })
    });
    let commands = gains.flat_map(|one| one.b.factors.iter().filter_map(|(axis, value)| does(axis, value, document)));
    out.extend(each_once(commands));
    out.truncate(MOST_COMMANDS - 1);
    out.extend(path.map(|path| format!("windhover show {path} --cells")));
    out
}

/// A path as a shell takes it, and no command takes for a flag; `None` where a terminal would not show it as it is.
fn pasted(path: &str) -> Option<String> {
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    if path.chars().all(|c| c.is_alphanumeric() || "/._-+:@=,".contains(c)) {
        return Some(path);
    }
    let is_shown = path.chars().all(|c| !c.is_control() && c != '\'');
    is_shown.then(|| format!("'{path}'"))
}

/// The command that does outside a plan what a value of an axis does in it.
fn does(axis: &str, value: &str, document: &Document) -> Option<String> {
    let cpu = document.fixed.get("cpu").filter(|cpu| cpu.parse::<u32>().is_ok());
    Some(match axis {
        "shield" => format!("windhover shield --all {}", cpu.map_or("CPUS", String::as_str)),
        "policy" => match value.split_once(':') {
            Some((policy, priority)) => format!("windhover run -s {policy} -P {priority} PROGRAM"),
            None => format!("windhover run -s {value} PROGRAM"),
        },
        "stack" if ["spin", "xdp"].contains(&value) => format!("windhover bypass run --stack {value} PROGRAM"),
        "knob" => "windhover tune show".to_owned(),
        _ => return None,
    })
}
