//! Comparisons of cells and of runs as data for the template.

use crate::Report;
use crate::compare::{self, Comparison, MetricComparison, Outcome};
use serde::Serialize;

/// One entry of comparisons: an axis, or several runs against the first.
#[derive(Serialize)]
pub(super) struct Compared<'r> {
    title: &'r str,
    /// How its p-values are corrected.
    tests: usize,
    sides: Vec<Sides<'r>>,
}

#[derive(Serialize)]
struct Sides<'r> {
    heading: String,
    summary: &'r [String],
    unmatched: &'r [String],
    differences: Vec<String>,
    heads: [&'r str; 7],
    /// Cells together, shown at once.
    together: Vec<Figures<'r>>,
    /// Cell by cell, folded where there are many.
    cells: Vec<Figures<'r>>,
}

#[derive(Serialize)]
struct Figures<'r> {
    label: &'r str,
    kind: &'static str,
    excluded: Option<&'r str>,
    rows: Vec<FigureRow<'r>>,
}

#[derive(Serialize)]
struct FigureRow<'r> {
    cells: Vec<String>,
    sentence: &'r str,
    /// Whether a difference is claimed: `higher`, `lower`, or nothing.
    claim: &'static str,
}

/// All comparisons that a report makes of its runs.
pub(super) fn of(report: &Report) -> Vec<Compared<'_>> {
    let all = report.compared.iter();
    all.map(|one| Compared { title: &one.title, tests: one.tests, sides: one.comparisons.iter().map(sides).collect() })
        .collect()
}

fn sides(comparison: &Comparison) -> Sides<'_> {
    let mut together: Vec<Figures<'_>> = comparison.sets().map(figures).collect();
    let cells = together.split_off(comparison.overall.len());
    Sides {
        heading: format!("{} against {}", comparison.b.name, comparison.a.name),
        summary: &comparison.summary,
        unmatched: &comparison.unmatched,
        differences: comparison.differences.iter().map(compare::difference).collect(),
        heads: compare::heads(comparison),
        together,
        cells,
    }
}

fn figures(set: compare::Set<'_>) -> Figures<'_> {
    let claim = |figure: &MetricComparison| match figure.outcome {
        Outcome::Higher => "higher",
        Outcome::Lower => "lower",
        _ => "",
    };
    let rows = set.metrics.iter().map(|figure| FigureRow {
        cells: compare::figure_row(figure),
        sentence: &figure.sentence,
        claim: claim(figure),
    });
    Figures { label: set.label, kind: set.kind.title(), excluded: set.excluded, rows: rows.collect() }
}
