//! What a plan asks, in words.

use super::campaign::{place, word};
use crate::output::{Output, paragraph};
use campaign::QuestionCells;
use model::text::counted;
use model::{Cell, Plan};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) fn lines(plan: &Plan, cells: &[Cell]) -> String {
    let lead = if plan.ask.is_empty() { "asks by default: " } else { "asks: " };
    campaign::asked(plan, cells).iter().map(|asked| paragraph(lead, &line(asked))).collect()
}

/// `load none → build: stdev, p99.9 (udp, no shield, policy other), 7 repetitions each`
fn line(asked: &QuestionCells) -> String {
    let QuestionCells { question, values, pairs, repetitions } = asked;
    let (base, others) =
        values.split_first().map_or(("", String::new()), |(base, others)| (base.as_str(), others.join(", ")));
    let filter: BTreeMap<String, serde_json::Value> =
        question.filter.iter().map(|(axis, value)| (axis.clone(), value.as_str().into())).collect();
    let mut axes: Vec<&String> = filter.keys().collect();
    axes.sort_by_key(|axis| place(axis));
    let mut cells: Vec<String> = axes.into_iter().map(|axis| word(&filter, axis)).collect();
    if pairs.len() > values.len().saturating_sub(1) {
        cells.push(format!("{} pairs of cells", pairs.len()));
    }
    let cells = if cells.is_empty() { String::new() } else { format!(" ({})", cells.join(", ")) };
    let each = match repetitions {
        [fewest, most] if fewest == most => counted(*fewest, "repetition"),
        [fewest, most] => format!("{fewest} to {}", counted(*most, "repetition")),
    };
    format!("{} {base} → {others}: {}{cells}, {each} each", question.axis, question.quantity.join(", "))
}

/// Warns of what a plan asks and can never answer, with the remedy.
pub(crate) fn warn(plan: &Plan, cells: &[Cell], file: &Path, output: &Output) {
    if let Some(short) = campaign::unanswerable(plan, cells) {
        let (file, needed) = (file.display(), short.repetitions);
        // The flag would measure all cells so often.
        if plan.grid.iter().any(|grid| grid.repetitions.is_some()) {
            output.warning(format_args!("{short}: set repetitions = {needed} in the [[grid]] of these cells"));
        } else {
            output.warning(format_args!("{short}: type `windhover campaign run {file} --repetitions {needed}`"));
        }
    }
    if let Some(short) = campaign::too_short(plan, cells) {
        output.warning(format_args!("what this plan asks has no answer: {short}"));
    }
}
