//! What the primary comparisons came to, a sentence each.

use super::Screen;
use crate::compare::{bounds, extent, most, size, title};
use crate::say::{summary_kernels, summary_pace};
use crate::units::{counted, figure as figure_of, spans};
use digest::compare::{CellComparison, Comparison, MetricComparison, Outcome};
use model::factor::capitalised;
use model::quantity::{self, Unit};

/// Comparisons of one axis that get a sentence each; of more the first and the last by their first figure.
const MOST_OF_AXIS: usize = 2;
const MOST_FIGURES: usize = 3;
/// A p50 that changes by less is not worth a word.
const SLIGHT: f64 = 1.1;
const MOST: usize = 3;

/// The first of these that has something to say does.
const RULES: [fn(&Screen<'_>) -> Vec<String>; 3] = [
    |screen| summary_kernels::sentences(screen.facts).into_iter().take(MOST).collect(),
    of_questions,
    |screen| summary_pace::sentences(screen.facts.document),
];

pub(super) fn sentences(screen: &Screen<'_>) -> Vec<String> {
    let mut out = RULES.iter().map(|rule| rule(screen)).find(|said| !said.is_empty()).unwrap_or_default();
    let more = out.len().saturating_sub(MOST);
    out.truncate(MOST);
    if let (Some(last), true) = (out.last_mut(), more > 0) {
        last.push_str(&format!(" {more} more below."));
    }
    out
}

/// The primary comparisons, question by question.
fn of_questions(screen: &Screen<'_>) -> Vec<String> {
    let comparisons: Vec<&Comparison> = screen.facts.primary_comparisons().collect();
    let of_question = |asked: &[&Comparison]| match asked.len() {
        0..=MOST_OF_AXIS => asked.iter().filter_map(|one| sentence(screen, one)).collect(),
        _ => extremes(screen, asked),
    };
    comparisons.chunk_by(|a, b| question(a) == question(b)).flat_map(of_question).collect()
}

/// What tells the comparisons of one question from those of another: only the same figures can be ranked.
fn question(one: &Comparison) -> (Vec<&String>, Vec<&String>) {
    let figures = one.cells.first().map(|pair| pair.metrics.iter().map(|figure| &figure.metric).chain(&pair.lacking));
    (one.a.factors.keys().collect(), figures.into_iter().flatten().collect())
}

/// The first pair of a comparison: `Under load build, shield auto lowers jitter by 99.4 % (95 % …), from 252 to 1.59 µs; …`.
fn sentence(screen: &Screen<'_>, comparison: &Comparison) -> Option<String> {
    let pair = comparison.cells.first()?;
    let conditions = screen.labels.conditions(pair);
    let conditions = if conditions.is_empty() { String::new() } else { format!("{}, ", conditions.join(", ")) };
    let subject = format!("{conditions}{}", comparison.b.name);
    if let Some(why) = &pair.excluded {
        return Some(capitalised(&format!("{subject}: nothing is claimed, as {why}.")));
    }
    let figures = asked(pair);
    let few =
        !figures.is_empty() && figures.iter().all(|figure| figure.outcome == Outcome::TooFew && !figure.incomplete);
    let mut parts: Vec<String> = figures.iter().map(|figure| clause(screen, comparison, pair, figure)).collect();
    parts.extend(pair.lacking.iter().map(|id| format!("{id} not known: too few messages for it")));
    parts.extend(typical(screen, comparison, pair));
    let more = comparison.cells.len() - 1;
    parts.extend((more > 0).then(|| format!("{} below", counted(more, "more pair"))));
    let parts = parts.join("; ");
    let against = &comparison.a.name;
    Some(match (few, parts.starts_with("raises") || parts.starts_with("lowers")) {
        (true, _) => {
            let times = pair.metrics.first().map_or(0, |figure| figure.a_values.len().min(figure.b_values.len()));
            let times = counted(times, comparison.sample.word());
            format!("Measured, not tested ({times}): {subject} against {against}: {parts}.")
        }
        (false, true) => capitalised(&format!("{subject} {parts}.")),
        (false, false) => capitalised(&format!("{subject} against {against}: {parts}.")),
    })
}

/// The figures that a sentence is about: those of the question or, where runs are compared in all figures, jitter and tail.
fn asked(pair: &CellComparison) -> Vec<&MetricComparison> {
    if pair.metrics.len() <= MOST_FIGURES {
        return pair.metrics.iter().collect();
    }
    let is_of_tail = |figure: &&MetricComparison| ["stdev", "p99.9"].contains(&figure.metric.as_str());
    let of_tail: Vec<&MetricComparison> = pair.metrics.iter().filter(is_of_tail).collect();
    let headline = || pair.metrics.iter().filter(|figure| figure.quantity.is_headline());
    if of_tail.is_empty() { headline().take(2).collect() } else { of_tail }
}

/// Of many values of an axis those with the smallest and the largest of the first figure that is compared.
fn extremes(screen: &Screen<'_>, comparisons: &[&Comparison]) -> Vec<String> {
    let first = |one: &&Comparison| one.cells.first()?.metrics.first()?.ratio;
    let mut ranked: Vec<(f64, &Comparison)> = comparisons.iter().filter_map(|one| Some((first(one)?, *one))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = ranked.first().into_iter().chain(ranked.last().filter(|_| ranked.len() > 1));
    ends.filter_map(|(_, one)| sentence(screen, one)).collect()
}

/// One figure: `raises jitter 98 times (95 % 45 to 188 times), from 10.8 µs to 1.02 ms`.
fn clause(screen: &Screen<'_>, comparison: &Comparison, pair: &CellComparison, figure: &MetricComparison) -> String {
    let unit = figure.quantity.unit();
    let name = name(figure);
    let both = from_to(unit, figure.a, figure.b);
    match figure.outcome {
        Outcome::Higher | Outcome::Lower => {
            let verb = if figure.difference > 0.0 { "raises" } else { "lowers" };
            let size = size(figure);
            let size = size.trim_start_matches(['+', '−']);
            let by = if size.ends_with(" times") { "" } else { "by " };
            let interval = extent(figure).map(|text| text.replace(" times", "").trim_end_matches(" %").to_owned());
            let interval = interval.map(|text| format!(" (95 % {text})")).unwrap_or_default();
            format!("{verb} {name} {by}{size}{interval}, {both}")
        }
        Outcome::NoDifference => {
            let most = most(figure).map(|most| format!(" larger than {most}")).unwrap_or_default();
            format!("no difference of {name} seen{most} ({})", both.replace("from ", ""))
        }
        Outcome::Same => format!("the same {name}, {}", figure_of(unit, figure.a)),
        // What not every repetition has is that of all messages together, as in the tables.
        _ if figure.incomplete => {
            let both = of_cells(screen, comparison, pair, &figure.metric).unwrap_or(both);
            let word = comparison.sample.word();
            format!("{name} {both}, not tested because a {word} has too few messages for it")
        }
        Outcome::Unclear => {
            let interval = bounds(figure).map(|text| format!(" (95 % {text})")).unwrap_or_default();
            format!("{name} not clear, {both}{interval}")
        }
        Outcome::TooFew | Outcome::NotTested | Outcome::Untrusted => format!("{name} {both}"),
    }
}

fn name(figure: &MetricComparison) -> &str {
    match figure.metric.as_str() {
        // The table's worst is the largest of all messages.
        "max" => "the worst of a repetition",
        other => title(other),
    }
}

fn from_to(unit: Unit, a: f64, b: f64) -> String {
    match unit {
        Unit::Ns => format!("from {}", spans(a, "to", b)),
        unit => format!("from {} to {}", figure_of(unit, a), figure_of(unit, b)),
    }
}

/// A figure of both cells, as tables have it.
fn of_cells(screen: &Screen<'_>, comparison: &Comparison, pair: &CellComparison, id: &str) -> Option<String> {
    let figure = |side| screen.facts.cell_of(pair, side)?.info.value(id);
    let unit = quantity::find(id)?.unit;
    Some(from_to(unit, figure(&comparison.a)?, figure(&comparison.b)?))
}

/// The typical message, which the question may not be about.
fn typical(screen: &Screen<'_>, comparison: &Comparison, pair: &CellComparison) -> Option<String> {
    let is_asked = pair.metrics.iter().any(|figure| figure.metric == "p50");
    let p50 = |side| screen.facts.cell_of(pair, side)?.info.value("p50");
    let ratio = p50(&comparison.b)? / p50(&comparison.a)?;
    // The table has it; words are for what changed.
    let matters = !(1.0 / SLIGHT..=SLIGHT).contains(&ratio);
    let both = of_cells(screen, comparison, pair, "p50").filter(|_| !is_asked && matters)?;
    Some(format!("p50 goes {both}"))
}
