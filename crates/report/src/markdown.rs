//! The report as GitHub-flavoured Markdown.

use crate::document::{Document, Headline, Mark, Note};
use crate::names::{axis_title, cell_word};
use crate::papers::{caption, columns};
use crate::pgm::{self, PGM};
use crate::single;
use crate::streams::{STREAMS, streams};
use crate::text::{PACED, fixed_line, paced};
use crate::units::{us, us_or_dash};
use crate::ways::{self, WAYS};

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

fn figure(headline: Option<&Headline>, ns: Option<f64>) -> String {
    let sign = match headline.map(|headline| headline.mark) {
        Some(Mark::Invalid) => " \\!",
        Some(Mark::Disturbed) => " \\*",
        _ => "",
    };
    ns.map(|ns| format!("{}{sign}", us(ns))).unwrap_or_default()
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
        let kind = document.kind.title();
        let mut heads: Vec<String> = document.axes.iter().map(|axis| quote(&axis_title(axis))).collect();
        heads.push(format!("netperf TCP {kind} µs"));
        heads.push(format!("netperf UDP {kind} µs"));
        for protocol in ["TCP", "UDP"] {
            heads.push(format!("pingpong {protocol} {kind} µs"));
            heads.push(format!("{protocol} jitter stdev µs"));
        }
        out.push_str(&row(&heads));
        let rules: Vec<String> =
            (0..heads.len()).map(|index| if index < document.axes.len() { "---" } else { "---:" }.to_owned()).collect();
        out.push_str(&row(&rules));
        for line in &block.rows {
            let mut cells: Vec<String> = document
                .axes
                .iter()
                .map(|axis| line.factors.get(axis).map(|value| quote(&cell_word(axis, value))).unwrap_or_default())
                .collect();
            for (index, headline) in columns(&line.headlines).into_iter().enumerate() {
                cells.push(figure(headline, headline.map(|headline| headline.mean_ns)));
                if index >= 2 {
                    cells.push(figure(None, headline.and_then(|headline| headline.stdev_ns)));
                }
            }
            out.push_str(&row(&cells));
        }
        out.push('\n');
    }
    if let Some(grid) = paced(document) {
        out.push_str(&format!("## {}\n\n{}\n", quote(PACED), single::markdown_grid(&unbanded(grid))));
    }
    if let Some(grid) = ways::table(document) {
        out.push_str(&format!("## {}\n\n{}\n", quote(WAYS), single::markdown_grid(&grid)));
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
fn unbanded(mut grid: crate::layout::Grid) -> crate::layout::Grid {
    for (first, last, text) in grid.bands.drain(..).flatten() {
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
    let mut out = "## All cells\n\nTimes in µs; each row says whether they are RTT or RTT/2.\n\n".to_owned();
    let heads = [
        "row",
        "probe",
        "protocol",
        "size B",
        "figures",
        "repetitions",
        "messages",
        "mean",
        "stdev",
        "min",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "lost",
        "trans/s",
        "mark",
    ];
    out.push_str(&row(&heads.map(str::to_owned)));
    out.push_str(&row(&std::array::from_fn::<_, 18, _>(|index| {
        if matches!(index, 0..=2 | 4 | 17) { "---" } else { "---:" }.to_owned()
    })));
    for info in &document.cells {
        let mut cells = vec![
            quote(&info.label),
            info.probe.clone(),
            quote(&info.protocol),
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
        cells.push(match info.mark {
            Mark::Clean => String::new(),
            mark => format!("\\{}", mark.sign()),
        });
        out.push_str(&row(&cells));
    }
    out
}
