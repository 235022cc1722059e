//! What is known of the cause of an effect: late messages, findings of its worse side, or the kernel; at most two sentences.

use super::{Screen, late};
use crate::say::known;
use crate::units::counted;
use digest::FindingCount;
use digest::compare::{CellComparison, Comparison, Outcome};
use model::quantity::Better;

/// The first of these that has something to say does.
const RULES: [fn(&Screen<'_>) -> Vec<String>; 5] = [
    late::sentences,
    |screen| screen.facts.primary_comparisons().find_map(|one| found(screen, one)).into_iter().collect(),
    |screen| stalls(screen).into_iter().collect(),
    |screen| known::sentences(screen.facts).into_iter().next().map(|[short, _]| short).into_iter().collect(),
    |screen| screen.facts.faster_under_load().into_iter().collect(),
];

pub(super) fn sentences(screen: &Screen<'_>) -> Vec<String> {
    RULES.iter().map(|rule| rule(screen)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// What was found on the worse side of a decided comparison, and not on the other one, most often.
fn found(screen: &Screen<'_>, comparison: &Comparison) -> Option<String> {
    comparison.cells.iter().find_map(|pair| {
        let is_worse = worse(pair)?;
        let (worse, better) = if is_worse { (&comparison.b, &comparison.a) } else { (&comparison.a, &comparison.b) };
        let (of_worse, of_better) =
            (&screen.facts.cell_of(pair, worse)?.info, &screen.facts.cell_of(pair, better)?.info);
        let times = |finding: &FindingCount| {
            let own = of_better.findings.iter().filter(|other| other.id == finding.id);
            own.map(|other| other.repetitions).max().unwrap_or(0)
        };
        let all = of_worse.repetitions + of_worse.left_out;
        // What marks both sides alike explains no difference between them.
        let own = of_worse.findings.iter().filter(|finding| 2 * finding.repetitions > all && 2 * times(finding) <= all);
        let finding = own.max_by_key(|finding| (explains(&finding.id), finding.repetitions))?;
        let (name, often) = finding.words(of_worse);
        let is_rare = finding.repetitions < all;
        let often = often.filter(|_| is_rare).map(|often| format!(", {often} repetitions")).unwrap_or_default();
        // What follows the evidence is the remedy.
        let evidence = finding.detail.split(": ").next().unwrap_or_default().trim_end_matches('.');
        let conditions = screen.labels.conditions(pair);
        let under = if conditions.is_empty() { String::new() } else { format!(" {}", conditions.join(" ")) };
        let (evidence, join) = evidence.strip_suffix(')').map_or((evidence, " ("), |evidence| (evidence, "; "));
        Some(format!("Seen with {}{under}: {evidence}{join}{name}{often}).", worse.name))
    })
}

/// Whether the second side is the worse one; `None` where nothing is decided.
fn worse(pair: &CellComparison) -> Option<bool> {
    pair.metrics.iter().find_map(|figure| {
        let is_larger = match figure.outcome {
            Outcome::Higher => true,
            Outcome::Lower => false,
            _ => return None,
        };
        match figure.quantity.0.better {
            Better::Lower => Some(is_larger),
            Better::Higher => Some(!is_larger),
            Better::Neither => None,
        }
    })
}

/// How directly a finding says what delayed messages: what a CPU did before what only shows that something did.
fn explains(id: &str) -> usize {
    const FROM_WEAK_TO_STRONG: [&str; 6] = ["faults", "steal", "softirq", "interrupts", "throttled", "other-tasks"];
    FROM_WEAK_TO_STRONG.iter().position(|known| *known == id).map_or(0, |place| place + 1)
}

/// Stalls of throttling among the cells of the first table.
fn stalls(screen: &Screen<'_>) -> Option<String> {
    let stalled = screen.shown.iter().filter(|cell| cell.stalls > 0).count();
    let verb = if stalled == 1 { "has" } else { "have" };
    (stalled > 0).then(|| {
        format!(
            "{} above {verb} messages with an RTT of about 50 ms (RTT/2 25 ms): the stall that RT throttling or the fair server causes \
             on a CPU that real-time threads keep busy.",
            counted(stalled, "cell")
        )
    })
}
