//! Comparisons of cells and of runs as data for the template.

use super::data;
use crate::Report;
use crate::compare::{self, Comparison, MetricComparison, Outcome};
use minijinja::{Value, context};

/// All comparisons that a report makes of its runs: an entry an axis, or several runs against the first.
pub(super) fn of(report: &Report) -> Vec<Value> {
    let all = report.compared.iter();
    all.map(|one| {
        let sides: Vec<Value> = one.comparisons.iter().map(sides).collect();
        context! { title => &one.title, tests => one.tests, sides }
    })
    .collect()
}

fn sides(comparison: &Comparison) -> Value {
    // Cells together are shown at once; cell by cell they are folded where there are many.
    let mut together: Vec<Value> = comparison.sets().map(figures).collect();
    let cells = together.split_off(comparison.overall.len());
    context! {
        heading => format!("{} against {}", comparison.b.name, comparison.a.name),
        summary => &comparison.summary,
        unmatched => &comparison.unmatched,
        differences => comparison.differences.iter().map(compare::difference).collect::<Vec<_>>(),
        heads => data(compare::heads(comparison)),
        together,
        cells,
    }
}

fn figures(set: compare::Set<'_>) -> Value {
    let row = |figure: &MetricComparison| {
        // Whether a difference is claimed.
        let claim = match figure.outcome {
            Outcome::Higher => "higher",
            Outcome::Lower => "lower",
            _ => "",
        };
        context! { cells => compare::figure_row(figure), sentence => &figure.sentence, claim }
    };
    let rows: Vec<Value> = set.metrics.iter().map(row).collect();
    context! { label => set.label, kind => set.kind.title(), excluded => set.excluded, rows }
}
