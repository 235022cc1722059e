//! The papers' table as data for the template.

use super::{FigureCell, data};
use crate::document::{Block, Document, TableRow};
use crate::layout::{Columns, Grid, Span};
use crate::papers::{FIGURES, FigureColumn};
use crate::units::spans;
use minijinja::{Value, context};

/// The columns of figures: a probe that has no result has none.
pub(super) fn shown(document: &Document) -> Vec<&'static FigureColumn> {
    let has = |column: &&FigureColumn| {
        document.blocks.iter().flat_map(|block| &block.rows).any(|row| column.headline(row).is_some())
    };
    FIGURES.iter().filter(has).collect()
}

/// Their headings, and whether a pair of columns begins with it.
pub(super) fn heads(document: &Document) -> Vec<(&'static str, bool)> {
    let head = |column: &FigureColumn| match column.is_jitter {
        true => ("jitter stdev", false),
        false => (document.kind.title(), true),
    };
    shown(document).into_iter().map(head).collect()
}

pub(super) fn blocks(document: &Document) -> Vec<Value> {
    let (shown, axes) = (shown(document), axes(document));
    let view = |block: &Block| {
        let columns =
            Columns::none().each(&axes, |columns, axis| columns.words(axis, |row: &&TableRow| row.word(axis)));
        let grid = Grid { merged: axes.len(), ..columns.grid(&block.rows) };
        // A value that repeats below spans those rows.
        let spans: Vec<Vec<Span>> = (0..axes.len()).map(|column| grid.spans(column)).collect();
        let row = |(number, row): (usize, &TableRow)| {
            let begins = |span: &&Span| span.first == number;
            let head = |span: &Span| context! { text => span.lines.concat(), rows => span.last - span.first };
            context! {
                heads => spans.iter().flatten().filter(begins).map(head).collect::<Vec<_>>(),
                figures => data(figures(row, &shown, document)),
                // Whether a line is drawn above it.
                first => number > 0 && spans.first().is_some_and(|first| first.iter().any(|span| begins(&span))),
            }
        };
        let rows: Vec<Value> = block.rows.iter().enumerate().map(row).collect();
        context! { heading => &block.heading, published => block.published.is_some(), rows }
    };
    document.blocks.iter().map(view).collect()
}

/// The axes that have a value in any row: those of other probes than the papers' are left out.
pub(super) fn axes(document: &Document) -> Vec<&String> {
    let has = |axis: &&String| {
        let mut rows = document.blocks.iter().flat_map(|block| &block.rows);
        rows.any(|row| !matches!(row.word(axis).as_str(), "" | "–"))
    };
    document.axes.iter().filter(has).collect()
}

fn notes_of(numbers: &[usize], document: &Document) -> String {
    let texts: Vec<&str> =
        document.notes.iter().filter(|note| numbers.contains(&note.number)).map(|note| note.text.as_str()).collect();
    texts.join("\n")
}

fn spread(range: Option<[f64; 2]>) -> String {
    range.map(|[low, high]| format!("repetitions {}", spans(low, "to", high))).unwrap_or_default()
}

fn figures(row: &TableRow, shown: &[&FigureColumn], document: &Document) -> Vec<FigureCell> {
    let cell = |column: &&FigureColumn| {
        let (text, first) = (column.text(row), !column.is_jitter);
        let Some(headline) = column.headline(row) else { return FigureCell { first, ..FigureCell::default() } };
        let (sign, tip) = match column.is_jitter {
            true => ("", spread(headline.stdev_range)),
            false => {
                let lines = [spread(headline.mean_range), notes_of(&headline.notes, document)];
                (headline.mark.sign(), lines.join("\n").trim().to_owned())
            }
        };
        FigureCell { text, sign, tip, first, short: false }
    };
    shown.iter().map(cell).collect()
}
