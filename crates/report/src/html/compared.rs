//! Comparisons of cells and of runs as data for the template.

use crate::layout::Grid;
use crate::{Report, compare};
use digest::compare::{Comparison, MetricComparison, Outcome, Set};
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
    let mut together: Vec<Value> = comparison.sets().map(|set| figures(comparison, set)).collect();
    let cells = together.split_off(comparison.overall.len());
    context! {
        heading => format!("{} against {}", comparison.b.name, comparison.a.name),
        summary => &comparison.summary,
        unmatched => &comparison.unmatched,
        differences => comparison.differences.iter().map(compare::difference).collect::<Vec<_>>(),
        together,
        cells,
    }
}

fn figures(comparison: &Comparison, set: Set<'_>) -> Value {
    let mut grid = compare::grid(comparison, set.metrics);
    grid.drop_empty();
    let heads = heads(&grid);
    let row = |(figure, cells): (&MetricComparison, &Vec<String>)| {
        // Whether a difference is claimed.
        let claim = match figure.outcome {
            Outcome::Higher => "higher",
            Outcome::Lower => "lower",
            _ => "",
        };
        context! { cells, sentence => &figure.sentence, claim }
    };
    let rows: Vec<Value> = set.metrics.iter().zip(&grid.rows).map(row).collect();
    let causes = compare::causes(comparison, &set).map(|(title, grid)| {
        let rows: Vec<Value> = grid.rows.iter().map(|cells| context! { cells }).collect();
        context! { label => title, heads => self::heads(&grid), rows }
    });
    context! { label => set.label, kind => set.kind.title(), excluded => set.excluded, heads, rows, causes }
}

fn heads(grid: &Grid) -> Vec<String> {
    grid.columns.iter().map(|column| column.heading.concat()).collect()
}
