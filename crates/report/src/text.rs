//! The papers' table and the table of all cells as aligned plain text.

use crate::causes::{self, Hints};
use crate::cell_tables::{self, Lead};
use crate::columns::{self, Room};
use crate::document::{AnswerRow, Block, Document, Note, TableRow};
use crate::layout::{Column, Columns, Grid, paragraph};
use crate::papers::{self, FIGURES, FigureColumn, caption};
use crate::units::list;
use crate::{Report, compare};
use digest::names::{axis_title, label_word};
use digest::{CellInfo, Mark};
use std::collections::BTreeSet;

/// A mean with its mark, `!` with the numbers of its notes; jitter has none.
fn marked(column: &FigureColumn, row: &TableRow, document: &Document) -> String {
    let figure = column.text(row);
    let Some(headline) = column.headline(row).filter(|_| !column.is_jitter) else { return figure };
    let is_own = |note: &&Note| note.invalid && headline.notes.contains(&note.number);
    let notes: Vec<String> = match headline.mark {
        Mark::Invalid => document.notes.iter().filter(is_own).map(|note| note.number.to_string()).collect(),
        _ => Vec::new(),
    };
    format!("{figure}{}{}", headline.mark.sign(), notes.join(","))
}

/// Makes the digits of a column stand below each other: marks get room of their own.
fn align_marks(cells: &mut [&mut String]) {
    let figures = |text: &str| text.find(['!', '*']).unwrap_or(text.len());
    let widest = cells.iter().map(|text| text.len() - figures(text)).max().unwrap_or(0);
    for text in cells {
        let mark = text.len() - figures(text);
        if !text.is_empty() {
            text.push_str(&" ".repeat(widest - mark));
        }
    }
}

pub(crate) fn grid(block: &Block, document: &Document) -> Grid {
    let first = document.axes.len();
    let mut grid = Columns::none()
        .each(&document.axes, |columns, axis| columns.words(&axis_title(axis), |row: &&TableRow| row.word(axis)))
        .each(&FIGURES, |columns, figure| {
            let title = if figure.is_jitter { "stdev" } else { document.kind.title() };
            columns.figures(title, "µs", |row| marked(figure, row, document))
        })
        .grid(&block.rows);
    for column in first..grid.columns.len() {
        let mut cells: Vec<&mut String> = grid.rows.iter_mut().filter_map(|row| row.get_mut(column)).collect();
        align_marks(&mut cells);
    }
    let lines = papers::bands(&FIGURES.each_ref()).map(|line| {
        let mut next = first;
        let band = |(text, columns): (&str, usize)| {
            next += columns;
            (next - columns, next - 1, text.to_owned())
        };
        line.into_iter().map(band).collect()
    });
    Grid { bands: lines.into(), merged: first, keys: first, ..grid }
}

/// What every cell shares, as one line; empty when nothing is.
pub(crate) fn fixed_line(document: &Document) -> String {
    let word = |(axis, value): (&String, &String)| {
        let word = match axis.as_str() {
            "cpu" if value == "any" => "any CPU".to_owned(),
            "cpu" => label_word(axis, value),
            _ => format!("{axis} {value}"),
        };
        // What only some probes have is theirs.
        let (with, without): (Vec<&CellInfo>, Vec<&CellInfo>) =
            document.cells.iter().partition(|cell| cell.factors.contains_key(axis));
        let probes: BTreeSet<String> = with.iter().map(|cell| cell.probe.to_string()).collect();
        let probes = list(&probes.into_iter().collect::<Vec<_>>());
        if without.is_empty() || probes.is_empty() { word } else { format!("{word} ({probes})") }
    };
    let words: Vec<String> = document.fixed.iter().map(word).collect();
    if words.is_empty() { String::new() } else { format!("Every cell: {}.", words.join(", ")) }
}

impl Report {
    /// The first screen as plain text within `width` columns: title, what was measured, the table, sentences, and commands.
    pub fn answer_text(&self, width: usize) -> String {
        let (document, answer) = (&self.document, &self.document.answer);
        let mut out = paragraph("", &document.title, width);
        out.push_str(&paragraph("", &answer.measured, width));
        if !answer.rows.is_empty() {
            out.push('\n');
            out.push_str(&answer_grid(document).text(width));
        }
        out.push_str(&below(&answer.sentences, width));
        for (number, command) in answer.next.iter().enumerate() {
            let lead = if number == 0 { "Next: " } else { "      " };
            out.push_str(&format!("{lead}{command}\n"));
        }
        out
    }

    /// The first screen, then the papers' table and its notes, within `width` columns where the figures allow it.
    pub fn table_text(&self, width: usize) -> String {
        let document = &self.document;
        let mut out = self.answer_text(width);
        out.push_str("\nDetails\n");
        if !document.blocks.is_empty() {
            out.push_str(&paragraph("", &format!("{}.", caption(document)), width));
        }
        let fixed = fixed_line(document);
        if !fixed.is_empty() {
            out.push_str(&paragraph("", &fixed, width));
        }
        let blocks = document.blocks.iter().map(|block| (block.heading.clone(), grid(block, document)));
        let tables = blocks.chain(cell_tables::all(document)).chain(causes::of_cells(&document.cells, Hints::Below));
        tables.for_each(|(heading, grid)| {
            out.push('\n');
            out.push_str(&(paragraph("", &heading, width) + &grid.text(width)));
        });
        out + &notes(document, width) + &below(&document.summary, width)
    }

    /// All cells with figures and findings, a table for cells that differ only in size; notes are those of [`Report::table_text`].
    pub fn cells_text(&self, width: usize) -> String {
        let same = |a: &CellInfo, b: &CellInfo| (a.row, a.probe, &a.protocol) == (b.row, b.probe, &b.protocol);
        let table = |group: &[CellInfo]| {
            let first = group.first()?;
            let heading = format!(
                "{} {} · {} · {} in µs, geometric mean of the repetitions · measured {}",
                first.probe,
                first.protocol,
                first.label,
                first.kind.title(),
                digest::names::measured_on(first.substrate)
            );
            Some(paragraph("", &heading, width) + &cell_grid(group).text(width))
        };
        self.document.cells.chunk_by(same).filter_map(table).collect::<Vec<_>>().join("\n")
    }
}

/// Sentences below an empty line; nothing where there are none.
fn below(sentences: &[String], width: usize) -> String {
    let blank = if sentences.is_empty() { "" } else { "\n" };
    sentences.iter().fold(blank.to_owned(), |out, sentence| out + &paragraph("", sentence, width))
}

pub(crate) fn answer_grid(document: &Document) -> Grid {
    let answer = &document.answer;
    let cells: Vec<Option<&CellInfo>> = answer.rows.iter().map(|row| document.cells.get(row.cell)).collect();
    let kind = cells.iter().flatten().find(|cell| cell.value("p50").is_some()).map_or("", |cell| cell.kind.title());
    let grid = Columns::none()
        .words(kind, |(row, _): &(&AnswerRow, Option<&CellInfo>)| row.label.clone())
        .each(&answer.columns, |columns, id| {
            let head = if *id == "max" { "worst" } else { compare::title(id) };
            let column = Column { right: true, ..Column::words(head) };
            let read = |cell: &CellInfo| columns::cell(&cell.figures, id, Room::Units);
            columns.column(column, move |(_, cell)| cell.map(read).unwrap_or_default())
        })
        .words("", |(_, cell)| cell.map_or("", |cell| cell.mark.sign()).to_owned())
        .grid(answer.rows.iter().zip(cells));
    Grid { keys: 1, ..grid }
}

fn notes(document: &Document, width: usize) -> String {
    let mut out = String::new();
    if !document.notes.is_empty() || !document.remarks.is_empty() {
        out.push('\n');
    }
    let (invalid, disturbed): (Vec<&Note>, Vec<&Note>) = document.notes.iter().partition(|note| note.invalid);
    out.push_str(if invalid.is_empty() { "" } else { "! invalid:\n" });
    out.extend(invalid.iter().map(|note| paragraph(&format!("  !{} ", note.number), &note.text, width)));
    out.push_str(if disturbed.is_empty() { "" } else { "* disturbed; part of the truth:\n" });
    out.extend(disturbed.iter().map(|note| paragraph("  ", &note.text, width)));
    out.extend(document.remarks.iter().map(|remark| paragraph("", remark, width)));
    out
}

fn cell_grid(group: &[CellInfo]) -> Grid {
    let leads: [Lead; 2] = [
        (Column::figures("size", "B"), |info| info.size_bytes.to_string()),
        (Column::figures("rep", ""), |info| info.repetitions.to_string()),
    ];
    let found = |info: &CellInfo| {
        let ids: Vec<&str> = info.findings.iter().filter(|one| one.invalid).map(|one| one.id.as_str()).collect();
        format!("{} {}", info.mark.sign(), ids.join(", ")).trim().to_owned()
    };
    cell_tables::of_all(group, false, &leads, &(Column::words(""), found))
}
