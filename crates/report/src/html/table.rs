//! The papers' table as data for the template.

use super::{FigureCell, data};
use crate::document::{Block, Document, Headline, TableRow};
use crate::layout::{Column, Grid, Span};
use crate::papers::columns;
use crate::units::spans;
use digest::names::cell_word;
use minijinja::{Value, context};

/// Which of the four pairs of columns any row has a figure for: a probe that nobody ran has no column.
pub(super) fn shown(document: &Document) -> [bool; 4] {
    let mut shown = [false; 4];
    for row in document.blocks.iter().flat_map(|block| &block.rows) {
        for (slot, headline) in shown.iter_mut().zip(columns(&row.headlines)) {
            *slot |= headline.is_some();
        }
    }
    shown
}

pub(super) fn blocks(document: &Document) -> Vec<Value> {
    let (shown, axes) = (shown(document), axes(document));
    let view = |block: &Block| {
        let grid = Grid {
            columns: axes.iter().map(|axis| Column::words(axis)).collect(),
            rows: block.rows.iter().map(|row| row.words(axes.iter().copied())).collect(),
            merged: axes.len(),
            ..Grid::default()
        };
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
        rows.any(|row| row.factors.get(*axis).is_some_and(|value| !matches!(cell_word(axis, value).as_str(), "" | "–")))
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

fn figures(row: &TableRow, shown: &[bool; 4], document: &Document) -> Vec<FigureCell> {
    let pair = |(place, headline): (usize, Option<&Headline>)| {
        let mean = headline.map_or_else(FigureCell::default, |headline| FigureCell {
            text: row.us(headline.mean_ns),
            sign: headline.mark.sign(),
            tip: [spread(headline.mean_range), notes_of(&headline.notes, document)].join("\n").trim().to_owned(),
            ..FigureCell::default()
        });
        let jitter = headline.map_or_else(FigureCell::default, |headline| FigureCell {
            text: headline.stdev_ns.map(|ns| row.us(ns)).unwrap_or_default(),
            tip: spread(headline.stdev_range),
            ..FigureCell::default()
        });
        // netperf gives no jitter.
        [Some(FigureCell { first: true, ..mean }), (place >= 2).then_some(jitter)].into_iter().flatten()
    };
    let columns = columns(&row.headlines).into_iter().enumerate().filter(|(place, _)| shown[*place]);
    columns.flat_map(pair).collect()
}
