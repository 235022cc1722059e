//! The report as GitHub-flavoured Markdown.

use crate::document::{Document, Note};
use crate::layout::{Column, Grid};
use crate::papers::caption;
use crate::pgm::{self, PGM};
use crate::single;
use crate::streams::{STREAMS, streams};
use crate::text::{self, PACED, fixed_line, paced};
use crate::units::us_or_dash;
use crate::ways;

/// What came from outside must not become markup.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// One line of a table; the cells are Markdown already.
pub(crate) fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The whole report.
pub(crate) fn report(document: &Document) -> String {
    let mut out = format!("# {}\n\n", quote(&document.title));
    for sentence in &document.summary {
        out.push_str(&format!("- {}\n", quote(sentence)));
    }
    if !document.summary.is_empty() {
        out.push('\n');
    }
    for block in &document.blocks {
        out.push_str(&format!(
            "## {}\n\n{}. {}\n\n",
            quote(&block.heading),
            quote(&caption(document)),
            quote(&fixed_line(document))
        ));
        out.push_str(&single::markdown_grid(&unbanded(text::grid(block, document))));
        out.push('\n');
    }
    if let Some(grid) = paced(document) {
        out.push_str(&format!("## {}\n\n{}\n", quote(PACED), single::markdown_grid(&unbanded(grid))));
    }
    if let Some(grid) = ways::table(document) {
        out.push_str(&format!("## {}\n\n{}\n", quote(&ways::heading(document)), single::markdown_grid(&grid)));
    }
    if let Some(grid) = pgm::table(document) {
        out.push_str(&format!("## {}\n\n{}\n", quote(PGM), single::markdown_grid(&unbanded(grid))));
    }
    if let Some(grid) = streams(document) {
        out.push_str(&format!("## {}\n\n{}\n", quote(STREAMS), single::markdown_grid(&grid)));
    }
    for note in &document.notes {
        out.push_str(&note_line(note));
    }
    for remark in &document.remarks {
        out.push_str(&format!("- {}\n", quote(remark)));
    }
    if !document.notes.is_empty() || !document.remarks.is_empty() {
        out.push('\n');
    }
    out.push_str(&all_cells(document));
    out
}

/// Bands have no form here: the headings say it themselves.
fn unbanded(mut grid: Grid) -> Grid {
    for (first, last, text) in grid.bands.drain(..).rev().flatten() {
        for column in grid.columns.get_mut(first..=last).into_iter().flatten() {
            column.heading.insert(0, text.clone());
        }
    }
    grid
}

fn note_line(note: &Note) -> String {
    format!("- {} {}\n", if note.invalid { "**\\!**" } else { "\\*" }, quote(&note.text))
}

fn all_cells(document: &Document) -> String {
    if document.cells.is_empty() {
        return String::new();
    }
    let out = "## All cells\n\nTimes in µs over all messages of the repetitions together; each row says whether they are RTT or RTT/2.\n\n".to_owned();
    let mut grid = Grid::default();
    for (title, right) in [
        ("row", false),
        ("probe", false),
        ("protocol", false),
        ("size B", true),
        ("figures", false),
        ("repetitions", true),
        ("messages", true),
        ("mean", true),
        ("stdev", true),
        ("min", true),
        ("p50", true),
        ("p99", true),
        ("p99.9", true),
        ("p99.99", true),
        ("max", true),
        ("lost", true),
        ("trans/s", true),
        ("mark", false),
    ] {
        grid.columns.push(Column { heading: vec![title.to_owned()], right, max: None });
    }
    for info in &document.cells {
        let mut cells = vec![
            info.label.clone(),
            info.probe.clone(),
            info.protocol.clone(),
            info.size_bytes.to_string(),
            info.kind.title().to_owned(),
            info.repetitions.to_string(),
            info.count.to_string(),
        ];
        let figures = [
            info.mean_ns,
            info.stdev_ns,
            info.min_ns,
            info.p50_ns,
            info.p99_ns,
            info.p99_9_ns,
            info.p99_99_ns,
            info.max_ns,
        ];
        cells.extend(figures.map(us_or_dash));
        cells.push(info.lost.to_string());
        cells.push(info.rate.as_ref().map(|rate| format!("{:.0}", rate.per_second)).unwrap_or_default());
        cells.push(info.mark.sign().to_owned());
        grid.rows.push(cells);
    }
    out + &single::markdown_grid(&grid)
}
