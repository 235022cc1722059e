//! The report as GitHub-flavoured Markdown.

use crate::Report;
use crate::causes::{self, Hints};
use crate::cell_tables::{self, Lead};
use crate::document::{Document, Note};
use crate::layout::{Column, Grid};
use crate::papers::caption;
use crate::text::{self, fixed_line};
use crate::units::plain;

/// What came from outside must not become markup.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

/// One line of a table; the cells are Markdown already.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

pub(crate) fn table(grid: &Grid) -> String {
    let quoted = |cells: &[String]| row(&cells.iter().map(|cell| quote(cell)).collect::<Vec<_>>());
    let heads: Vec<String> = grid.columns.iter().map(|column| column.heading.join(" ").trim().to_owned()).collect();
    let rule = |column: &Column| if column.right { "---:" } else { "---" }.to_owned();
    let mut out = quoted(&heads) + &row(&grid.columns.iter().map(rule).collect::<Vec<_>>());
    out.extend(grid.rows.iter().map(|cells| quoted(cells)));
    out
}

/// A table without the columns that no row has a value in.
pub(crate) fn filled_table(grid: &Grid) -> String {
    let mut grid = grid.clone();
    grid.drop_empty();
    table(&grid)
}

impl Report {
    /// The summary, the papers' table, all cells and the notes as Markdown.
    pub fn markdown(&self) -> String {
        let document = &self.document;
        let mut out = format!("# {}\n\n", quote(&document.title));
        let answer = &document.answer;
        out.push_str(&format!("{}\n\n", quote(&answer.measured)));
        if !answer.rows.is_empty() {
            out.push_str(&format!("{}\n", filled_table(&text::answer_grid(document))));
        }
        out.extend(answer.sentences.iter().map(|sentence| format!("{}\n\n", quote(sentence))));
        if !answer.next.is_empty() {
            let commands: Vec<String> = answer.next.iter().map(|command| format!("    {}\n", plain(command))).collect();
            out.push_str(&format!("Next:\n\n{}\n", commands.concat()));
        }
        out.push_str("## Details\n\n");
        out.extend(document.summary.iter().map(|sentence| format!("- {}\n", quote(sentence))));
        if !document.summary.is_empty() {
            out.push('\n');
        }
        for block in &document.blocks {
            out.push_str(&format!("### {}\n\n", quote(&block.heading)));
            // Nothing of it holds for published rows.
            if block.published.is_none() {
                out.push_str(&format!("{}. {}\n\n", quote(&caption(document)), quote(&fixed_line(document))));
            }
            out.push_str(&filled_table(&text::grid(block, document).unbanded()));
            out.push('\n');
        }
        for (heading, grid) in
            cell_tables::all(document).into_iter().chain(causes::of_cells(&document.cells, Hints::Beside))
        {
            out.push_str(&format!("### {}\n\n{}\n", quote(&heading), filled_table(&grid.unbanded())));
        }
        let mark = |note: &Note| if note.invalid { "**\\!**" } else { "\\*" };
        out.extend(document.notes.iter().map(|note| format!("- {} {}\n", mark(note), quote(&note.text))));
        out.extend(document.remarks.iter().map(|remark| format!("- {}\n", quote(remark))));
        if !document.notes.is_empty() || !document.remarks.is_empty() {
            out.push('\n');
        }
        out.push_str(&all_cells(document));
        out
    }
}

fn all_cells(document: &Document) -> String {
    if document.cells.is_empty() {
        return String::new();
    }
    let out = "### All cells\n\nTimes in µs, the geometric mean of the repetitions; each row says whether they are RTT or RTT/2.\n\n".to_owned();
    let leads: [Lead; 6] = [
        (Column::words("row"), |info| info.label.clone()),
        (Column::words("probe"), |info| info.probe.word().to_owned()),
        (Column::words("protocol"), |info| info.protocol.clone()),
        (Column::figures("size", "B"), |info| info.size_bytes.to_string()),
        (Column::words("figures"), |info| info.kind.title().to_owned()),
        (Column::figures("rep", ""), |info| info.repetitions.to_string()),
    ];
    let mark: Lead = (Column::words("mark"), |info| info.mark.sign().to_owned());
    out + &filled_table(&cell_tables::of_all(&document.cells, true, &leads, &mark))
}
