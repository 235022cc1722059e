//! The papers' table as data for the template.

use super::FigureCell;
use crate::document::{Document, Headline, TableRow};
use crate::names::cell_word;
use crate::papers::columns;
use crate::units::spans;
use serde::Serialize;

#[derive(Serialize)]
struct HeadCell {
    text: String,
    rows: usize,
}

#[derive(Serialize)]
struct PaperRow {
    heads: Vec<HeadCell>,
    figures: Vec<FigureCell>,
    /// Whether a line is drawn above it.
    first: bool,
}

#[derive(Serialize)]
pub(super) struct PaperBlock {
    heading: String,
    published: bool,
    rows: Vec<PaperRow>,
}

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

pub(super) fn blocks(document: &Document) -> Vec<PaperBlock> {
    let shown = shown(document);
    document
        .blocks
        .iter()
        .map(|block| {
            let values: Vec<Vec<String>> = block
                .rows
                .iter()
                .map(|row| {
                    let word = |axis: &String| row.factors.get(axis).map(|value| cell_word(axis, value));
                    axes(document).into_iter().map(|axis| word(axis).unwrap_or_default()).collect()
                })
                .collect();
            let rows = block
                .rows
                .iter()
                .enumerate()
                .map(|(index, row)| PaperRow {
                    heads: heads(&values, index),
                    figures: figures(row, &shown, document),
                    first: index > 0
                        && values.get(index).map(|row| row.first()) != values.get(index - 1).map(|row| row.first()),
                })
                .collect();
            PaperBlock { heading: block.heading.clone(), published: block.published.is_some(), rows }
        })
        .collect()
}

/// The axes that have a value in any row: those of other probes than the papers' are left out.
pub(super) fn axes(document: &Document) -> Vec<&String> {
    let has = |axis: &&String| {
        let mut rows = document.blocks.iter().flat_map(|block| &block.rows);
        rows.any(|row| row.factors.get(*axis).is_some_and(|value| !matches!(cell_word(axis, value).as_str(), "" | "–")))
    };
    document.axes.iter().filter(has).collect()
}

/// The head cells that begin in this row; a value that repeats below spans those rows, as long as all before it repeat.
/// A value that all rows share spans them all, as in the text table.
fn heads(values: &[Vec<String>], row: usize) -> Vec<HeadCell> {
    let Some(own) = values.get(row) else { return Vec::new() };
    let constant = |column: usize| values.iter().all(|other| other.get(column) == own.get(column));
    let same = |a: usize, b: usize, column: usize| {
        constant(column) || values.get(a).zip(values.get(b)).is_some_and(|(a, b)| a.get(..=column) == b.get(..=column))
    };
    own.iter()
        .enumerate()
        .filter(|(column, _)| row == 0 || !same(row - 1, row, *column))
        .map(|(column, text)| {
            let rows = (row..values.len()).take_while(|other| same(row, *other, column)).count();
            HeadCell { text: text.clone(), rows }
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(rows: &[&[&str]]) -> Vec<Vec<(String, usize)>> {
        let values: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|&word| word.to_owned()).collect()).collect();
        (0..values.len())
            .map(|row| heads(&values, row).into_iter().map(|cell| (cell.text, cell.rows)).collect())
            .collect()
    }

    #[test]
    fn a_head_that_all_rows_share_is_written_once() {
        let found = spans(&[&["veth", "no", "Debian"], &["veth", "build", "Debian"]]);
        assert_eq!(found[0], [("veth".to_owned(), 2), ("no".to_owned(), 1), ("Debian".to_owned(), 2)]);
        assert_eq!(found[1], [("build".to_owned(), 1)]);
    }

    #[test]
    fn a_head_below_another_group_is_written_again() {
        let found = spans(&[&["no", "RHEL"], &["yes", "RHEL"], &["yes", "MRG"]]);
        assert_eq!(found[1], [("yes".to_owned(), 2), ("RHEL".to_owned(), 1)]);
        assert_eq!(found[2], [("MRG".to_owned(), 1)]);
    }
}
