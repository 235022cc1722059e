//! Why messages were late, of explained cells: the causes of the row that lost most, and what makes two rows different.

use super::Screen;
use crate::causes::samples;
use crate::units::{plain, span};
use digest::causes::{ClassLoss, by_class, lost_ns};
use digest::compare::{CellComparison, Comparison, MetricComparison};
use model::factor::capitalised;
use model::{CauseClass, Explanation, LatencyKind};

/// A class with a smaller share of the time lost is not named, unless it is the first.
const WORTH_A_WORD: f64 = 0.1;
const MOST_CLASSES: usize = 3;
/// A quantile that would fall to more than this share of itself is not worth a word.
const MATTERS: f64 = 0.9;
/// A class that costs less than this share of what it cost on the other side is removed.
const REMOVED: f64 = 0.1;
/// A class makes the difference if it is at least this share of it.
const MOST_OF_IT: f64 = 0.5;

/// At most two sentences.
pub(super) fn sentences(screen: &Screen<'_>) -> Vec<String> {
    let difference = || screen.facts.primary_comparisons().find_map(|one| difference(screen, one));
    worst(screen).into_iter().chain(difference()).collect()
}

/// `Late messages of policy other: 74 % of the time lost is run-queue behind cc1, 12 % steal; without run-queue RTT p99 would be …`.
fn worst(screen: &Screen<'_>) -> Option<String> {
    let explained = screen.shown.iter().filter_map(|cell| Some((*cell, cell.info.explanation.as_ref()?)));
    let lost = explained.filter(|(_, explanation)| lost_ns(explanation) > 0);
    let (cell, explanation) = lost.max_by(|a, b| a_message(a.1).total_cmp(&a_message(b.1)))?;
    let of = if screen.shown.len() > 1 { format!(" of {}", screen.labels.row(cell)) } else { String::new() };
    let without = by_class(explanation).first().and_then(|loss| without(loss, explanation)).unwrap_or_default();
    Some(format!("Late {}{of}: {}{without}.", samples(explanation), shares(explanation)))
}

/// `74 % of the time lost is run-queue behind cc1, 12 % steal`; empty where none was lost.
pub(crate) fn shares(explanation: &Explanation) -> String {
    let losses = by_class(explanation);
    let named = losses.iter().enumerate().filter(|(place, loss)| *place == 0 || loss.share >= WORTH_A_WORD);
    let parts: Vec<String> = named
        .take(MOST_CLASSES)
        .map(|(place, loss)| {
            let of = if place == 0 { " of the time lost is" } else { "" };
            format!("{:.0} %{of} {}", 100.0 * loss.share, words(loss))
        })
        .collect();
    parts.join(", ")
}

/// What messages lost, per message of the explaining passes.
fn a_message(explanation: &Explanation) -> f64 {
    lost_ns(explanation) as f64 / explanation.messages.max(1) as f64
}

/// `run-queue behind cc1 and 3 others`.
pub(crate) fn words(loss: &ClassLoss<'_>) -> String {
    let names = loss.names();
    let names = match names.as_slice() {
        [] => return loss.class.to_string(),
        [one] => plain(one),
        [one, other] => format!("{} and {}", plain(one), plain(other)),
        [one, others @ ..] => format!("{} and {} others", plain(one), others.len()),
    };
    let joint = match loss.class {
        CauseClass::RunQueue | CauseClass::Preempted | CauseClass::LowerTask => " behind ",
        _ => " of ",
    };
    format!("{}{joint}{names}", loss.class)
}

/// What the p99 would be without the class. Of several causes only a bound is known.
fn without(loss: &ClassLoss<'_>, explanation: &Explanation) -> Option<String> {
    let (with, without) = (explanation.p99_ns? as f64, loss.p99_without_ns()? as f64);
    let most = if loss.causes.len() > 1 { "at most " } else { "" };
    (without < MATTERS * with).then(|| {
        let of = explanation.kind.title();
        format!("; without {} {of} p99 would be {most}{} instead of {}", loss.class, span(without), span(with))
    })
}

/// What makes the difference between the sides of a comparison: `Fifo:10 removes run-queue: 970 µs of the 1.02 ms that a message lost …`.
fn difference(screen: &Screen<'_>, comparison: &Comparison) -> Option<String> {
    comparison.cells.iter().find_map(|pair| {
        let figure = pair.metrics.iter().find(|figure| ["p99.9", "stdev"].contains(&figure.metric.as_str()))?;
        of_pair(screen, comparison, pair, figure)
    })
}

fn of_pair(
    screen: &Screen<'_>,
    comparison: &Comparison,
    pair: &CellComparison,
    figure: &MetricComparison,
) -> Option<String> {
    let causes = pair.causes.as_ref()?;
    let is_worse = figure.b > figure.a;
    let (worse_over_ns, better_over_ns) = match is_worse {
        true => (causes.b_over_ns, causes.a_over_ns),
        false => (causes.a_over_ns, causes.b_over_ns),
    };
    // A better side that counts fewer messages as late would seem to lose less than it does.
    if better_over_ns > worse_over_ns {
        return None;
    }
    let less = |difference_ns: f64| if is_worse { difference_ns } else { -difference_ns };
    let all = less(causes.b_ns - causes.a_ns);
    let largest = causes.classes.iter().max_by(|x, y| less(x.difference_ns).total_cmp(&less(y.difference_ns)))?;
    let class = largest.class;
    if !class.is_known() || less(largest.difference_ns) < MOST_OF_IT * all || all <= 0.0 {
        return None;
    }
    let is_removed = largest.a_ns.min(largest.b_ns) < REMOVED * largest.a_ns.max(largest.b_ns);
    let verb = match (is_worse, is_removed) {
        (false, true) => "removes",
        (false, false) => "lowers",
        (true, true) => "brings",
        (true, false) => "raises",
    };
    let kind = screen.shown.iter().find_map(|cell| cell.info.explanation.as_ref()).map(|of| of.kind);
    let is_timer = kind == Some(LatencyKind::WakeUp);
    let conditions = screen.labels.conditions(pair);
    let conditions = if conditions.is_empty() { String::new() } else { format!("{}, ", conditions.join(", ")) };
    let [[first, of_first], [second, of_second]] =
        [[largest.a_ns, causes.a_ns], [largest.b_ns, causes.b_ns]].map(|costs| costs.map(span));
    let (name, other) = (&comparison.b.name, &comparison.a.name);
    let lead = match figure.outcome.is_claim() {
        true => format!("{conditions}{name} {verb} {class}"),
        false => format!("{conditions}{class}"),
    };
    Some(format!(
        "{}: {first} of the {of_first} that a {} lost on average with {other}, {second} of {of_second} with {name}.",
        capitalised(&lead),
        if is_timer { "wake-up" } else { "message" }
    ))
}
