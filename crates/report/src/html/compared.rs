//! Comparisons of cells and of runs as data for the template.

use crate::Report;
use crate::compare::{self, Comparison, Comparisons, MetricComparison, Outcome};
use model::LatencyKind;
use serde::Serialize;

/// One entry of comparisons: an axis, or several runs against the first.
#[derive(Serialize)]
pub(super) struct Compared {
    title: String,
    /// How its p-values are corrected.
    tests: usize,
    level: f64,
    sides: Vec<Sides>,
}

#[derive(Serialize)]
struct Sides {
    heading: String,
    summary: Vec<String>,
    unmatched: Vec<String>,
    differences: Vec<String>,
    heads: Vec<String>,
    /// Cells together, shown at once.
    together: Vec<Figures>,
    /// Cell by cell, folded where there are many.
    cells: Vec<Figures>,
}

#[derive(Serialize)]
struct Figures {
    label: String,
    kind: &'static str,
    excluded: Option<String>,
    rows: Vec<FigureRow>,
}

#[derive(Serialize)]
struct FigureRow {
    cells: Vec<String>,
    sentence: String,
    /// Whether a difference is claimed: `higher`, `lower`, or nothing.
    claim: &'static str,
}

/// All comparisons that a report makes of its runs.
pub(super) fn of(report: &Report) -> Vec<Compared> {
    report.compared.iter().map(entry).collect()
}

fn entry(comparisons: &Comparisons) -> Compared {
    Compared {
        title: comparisons.title.clone(),
        tests: comparisons.tests,
        level: comparisons.level,
        sides: comparisons.comparisons.iter().map(sides).collect(),
    }
}

fn sides(comparison: &Comparison) -> Sides {
    Sides {
        heading: format!("{} against {}", comparison.b.name, comparison.a.name),
        summary: comparison.summary.clone(),
        unmatched: comparison.unmatched.clone(),
        differences: comparison.differences.iter().map(compare::difference).collect(),
        heads: compare::heads(comparison).to_vec(),
        together: comparison
            .overall
            .iter()
            .map(|overall| figures(&overall.label, overall.kind, None, &overall.metrics))
            .collect(),
        cells: comparison
            .cells
            .iter()
            .map(|cell| figures(&cell.label, cell.kind, cell.excluded.clone(), &cell.metrics))
            .collect(),
    }
}

fn figures(label: &str, kind: LatencyKind, excluded: Option<String>, metrics: &[MetricComparison]) -> Figures {
    let rows = metrics.iter().map(|metric| FigureRow {
        cells: compare::figure_row(metric),
        sentence: metric.sentence.clone(),
        claim: match metric.outcome {
            Outcome::Higher => "higher",
            Outcome::Lower => "lower",
            _ => "",
        },
    });
    Figures { label: label.to_owned(), kind: kind.title(), excluded, rows: rows.collect() }
}
