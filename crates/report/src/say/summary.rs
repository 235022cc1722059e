//! What the data say beyond the first screen (`answer`): of the probes, above a bare frame (`summary_floors`, which claims
//! nothing), known changes of the kernel, and findings.

use crate::document::Document;
use crate::say::facts::{Facts, Rule};
use crate::say::{known, summary_floors, summary_kernels, summary_pace};
use crate::units::{commas, counted, list};
use digest::Mark;
use model::source;
use std::collections::BTreeSet;

/// What is said where times mean something, in this order.
const RULES: [Rule; 5] = [
    summary_kernels::sentences,
    |facts| summary_pace::sentences(facts.document),
    |facts| summary_floors::sentences(&facts.document.cells, facts.document.size_bytes),
    |facts| facts.faster_under_load().into_iter().collect(),
    |facts| known::sentences(facts).into_iter().map(|[_, whole]| whole).collect(),
];

/// Sentences below the answer; what it says is not said again.
pub(crate) fn sentences(facts: &Facts<'_>) -> Vec<String> {
    let document = facts.document;
    if document.cells.is_empty() {
        return Vec::new();
    }
    let without_meaning = facts.without_meaning();
    let rules = RULES.iter().filter(|_| without_meaning.is_none()).flat_map(|rule| rule(facts));
    let mut out: Vec<String> = without_meaning.iter().cloned().chain(rules).collect();
    out.extend(of_others(document));
    out.push(verdicts(document));
    out.retain(|sentence| !document.answer.sentences.contains(sentence));
    out
}

fn of_others(document: &Document) -> Option<String> {
    let others = document.cells.iter().filter_map(|info| info.factors.get(source::FACTOR));
    let others: BTreeSet<String> = others.map(|one| source::in_words(one)).collect();
    (!others.is_empty()).then(|| {
        let others = list(&others.into_iter().collect::<Vec<_>>());
        format!("Not measured by Windhover itself: {others}; what the source does not tell is left out.")
    })
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
    let (sent, lost) =
        cells.iter().fold((0, 0), |(sent, lost), info| (sent + info.count("sent"), lost + info.count("lost")));
    parts.push(match lost {
        0 => "no message was lost".to_owned(),
        _ => format!("{} of {} messages were lost", commas(lost), commas(sent)),
    });
    format!("{}.", parts.join("; "))
}
