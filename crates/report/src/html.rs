//! The report as one HTML file: the data for the template. All text is escaped by the template engine, except the SVG,
//! which escapes its own.

use crate::document::{CellInfo, Document, Headline, RateInfo, Spread};
use crate::environment::{self, Environment};
use crate::names::{axis_title, cell_word};
use crate::papers::{caption, columns};
use crate::plots::{self, Picture, Quantity};
use crate::text::fixed_line;
use crate::units::{grouped, spans, us};
use crate::{Report, ReportError, glance, svg};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment as Templates, Value, context};
use serde::Serialize;

const TEMPLATE: &str = include_str!("templates/report.html");

#[derive(Serialize)]
struct HeadCell {
    text: String,
    rows: usize,
}

/// One figure of a table.
#[derive(Serialize, Default)]
struct FigureCell {
    text: String,
    /// `!` or `*`.
    sign: &'static str,
    /// What rests under the pointer.
    tip: String,
}

#[derive(Serialize)]
struct PaperRow {
    heads: Vec<HeadCell>,
    figures: Vec<FigureCell>,
    /// Whether a line is drawn above it.
    first: bool,
}

#[derive(Serialize)]
struct PaperBlock {
    heading: String,
    published: bool,
    rows: Vec<PaperRow>,
}

#[derive(Serialize)]
struct CellRow {
    size: String,
    repetitions: String,
    count: String,
    figures: Vec<FigureCell>,
    lost: String,
    sign: &'static str,
    /// Words of the findings.
    found: String,
    /// Their evidence.
    evidence: String,
    rate: Option<RateRow>,
    mdev: String,
}

#[derive(Serialize)]
struct RateRow {
    per_second: String,
    interval: String,
    response: String,
    initiator: [String; 4],
    reflector: [String; 4],
}

#[derive(Serialize)]
struct CellGroup {
    label: String,
    probe: String,
    protocol: String,
    kind: &'static str,
    swatch: Value,
    rows: Vec<CellRow>,
}

#[derive(Serialize)]
struct PictureView {
    heading: String,
    svg: Value,
}

#[derive(Serialize)]
struct LegendEntry {
    swatch: Value,
    label: String,
}

/// The whole file.
pub(crate) fn report(report: &Report) -> Result<String, ReportError> {
    let document = &report.document;
    let mut templates = Templates::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates.add_template("report", TEMPLATE)?;
    let environments: Vec<Environment> = environment::of(&report.inputs);
    let blocks: Vec<PaperBlock> = blocks(document);
    let probes = |probe: &str| groups(document, probe);
    let rendered = templates.get_template("report")?.render(context! {
        title => data(&document.title),
        subtitle => data(subtitle(document)),
        summary => data(&document.summary),
        kind => data(document.kind.title()),
        size => data(document.size_bytes),
        axes => data(document.axes.iter().map(|axis| axis_title(axis)).collect::<Vec<_>>()),
        caption => data(caption(document)),
        fixed => data(fixed_line(document)),
        blocks => data(blocks),
        notes => data(&document.notes),
        remarks => data(&document.remarks),
        legend => data(legend(document)),
        glance => glance::strips(report).map_or(Value::from(()), Value::from_safe_string),
        times => data(pictures(plots::by_size(report, Quantity::Time))),
        jitters => data(pictures(plots::by_size(report, Quantity::Jitter))),
        tails => data(pictures(plots::tails(report))),
        pingpong => data(probes("pingpong")),
        rr => data(probes("rr")),
        ping => data(probes("ping")),
        runs => data(&document.runs),
        environments => data(environments),
    })?;
    Ok(rendered)
}

fn data(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}

fn subtitle(document: &Document) -> Vec<String> {
    document
        .runs
        .iter()
        .map(|run| format!("{}, measured {} ({}), {}", run.name, run.measured_on, run.substrate, run.started))
        .collect()
}

fn pictures(pictures: Vec<Picture>) -> Vec<PictureView> {
    pictures
        .into_iter()
        .map(|picture| PictureView { heading: picture.heading, svg: Value::from_safe_string(picture.svg) })
        .collect()
}

fn legend(document: &Document) -> Vec<LegendEntry> {
    let mut rows: Vec<(usize, &str)> = document
        .cells
        .iter()
        .filter(|info| info.probe == "pingpong")
        .map(|info| (info.row, info.label.as_str()))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    rows.into_iter()
        .map(|(row, label)| LegendEntry { swatch: Value::from_safe_string(svg::swatch(row)), label: label.to_owned() })
        .collect()
}

fn blocks(document: &Document) -> Vec<PaperBlock> {
    document
        .blocks
        .iter()
        .map(|block| {
            let values: Vec<Vec<String>> = block
                .rows
                .iter()
                .map(|row| {
                    let word = |axis: &String| row.factors.get(axis).map(|value| cell_word(axis, value));
                    document.axes.iter().map(|axis| word(axis).unwrap_or_default()).collect()
                })
                .collect();
            let rows = block
                .rows
                .iter()
                .enumerate()
                .map(|(index, row)| PaperRow {
                    heads: heads(&values, index),
                    figures: figures(&columns(&row.headlines), document),
                    first: index > 0
                        && values.get(index).map(|row| row.first()) != values.get(index - 1).map(|row| row.first()),
                })
                .collect();
            PaperBlock { heading: block.heading.clone(), published: block.published.is_some(), rows }
        })
        .collect()
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

fn spread(range: Option<Spread>) -> String {
    range.map(|range| format!("repetitions {}", spans(range.low_ns, "to", range.high_ns))).unwrap_or_default()
}

fn figures(columns: &[Option<&Headline>; 4], document: &Document) -> Vec<FigureCell> {
    let mut out = Vec::new();
    for (index, headline) in columns.iter().enumerate() {
        let pair = index >= 2;
        let Some(headline) = headline else {
            out.extend((0..=usize::from(pair)).map(|_| FigureCell::default()));
            continue;
        };
        let notes = notes_of(&headline.notes, document);
        let tip = [spread(headline.mean_range), notes].join("\n").trim().to_owned();
        out.push(FigureCell { text: us(headline.mean_ns), sign: headline.mark.sign(), tip });
        if pair {
            out.push(FigureCell {
                text: headline.stdev_ns.map(us).unwrap_or_default(),
                sign: "",
                tip: spread(headline.stdev_range),
            });
        }
    }
    out
}

fn groups(document: &Document, probe: &str) -> Vec<CellGroup> {
    let mut out: Vec<CellGroup> = Vec::new();
    let mut last: Option<(usize, &str)> = None;
    for info in document.cells.iter().filter(|info| info.probe == probe) {
        let key = (info.row, info.protocol.as_str());
        if last != Some(key) {
            out.push(CellGroup {
                label: info.label.clone(),
                probe: info.probe.clone(),
                protocol: info.protocol.to_uppercase(),
                kind: info.kind.title(),
                swatch: Value::from_safe_string(if probe == "pingpong" {
                    svg::swatch(info.row)
                } else {
                    String::new()
                }),
                rows: Vec::new(),
            });
            last = Some(key);
        }
        if let Some(group) = out.last_mut() {
            group.rows.push(cell_row(info));
        }
    }
    out
}

fn cell_row(info: &CellInfo) -> CellRow {
    let figure = |ns: Option<f64>, range: Option<Spread>| FigureCell {
        text: ns.map_or_else(|| "–".to_owned(), us),
        sign: "",
        tip: if ns.is_none() { "fewer than 10 messages lie beyond this quantile".to_owned() } else { spread(range) },
    };
    let repetitions = match info.left_out {
        0 => info.repetitions.to_string(),
        left_out => format!("{} of {}", info.repetitions, info.repetitions + left_out),
    };
    CellRow {
        size: grouped(info.size_bytes),
        repetitions,
        count: grouped(info.count),
        figures: vec![
            figure(info.mean_ns, info.mean_range),
            figure(info.stdev_ns, info.stdev_range),
            figure(info.min_ns, None),
            figure(info.p50_ns, info.p50_range),
            figure(info.p90_ns, None),
            figure(info.p99_ns, None),
            figure(info.p99_9_ns, None),
            figure(info.p99_99_ns, None),
            figure(info.p99_999_ns, None),
            figure(info.max_ns, None),
        ],
        lost: grouped(info.lost),
        sign: info.mark.sign(),
        found: found(info),
        evidence: evidence(info),
        rate: info.rate.as_ref().map(rate_row),
        mdev: info.mdev_ns.map_or_else(|| "–".to_owned(), us),
    }
}

/// Words of the findings; dashes in the row already tell of too few messages.
fn found(info: &CellInfo) -> String {
    let few = model::FindingId::FewSamples.word();
    each_once(info.findings.iter().map(|finding| finding.id.as_str()).filter(|id| *id != few)).join(", ")
}

/// Ids in the order found. The same may be found at both ends, with others in between.
fn each_once<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    for id in ids {
        if !kept.contains(&id) {
            kept.push(id);
        }
    }
    kept
}

fn evidence(info: &CellInfo) -> String {
    let total = info.repetitions + info.left_out;
    let lines: Vec<String> = info
        .findings
        .iter()
        .map(|finding| {
            let at = finding.end.as_deref().map(|end| format!(" at the {end}")).unwrap_or_default();
            let times = if total > 1 { format!(" ({} of {total})", finding.repetitions) } else { String::new() };
            let sign = if finding.invalid { "! " } else { "" };
            format!("{sign}{}{at}{times}: {}", finding.id, finding.detail)
        })
        .collect();
    lines.join("\n")
}

fn rate_row(rate: &RateInfo) -> RateRow {
    let figure =
        |value: Option<f64>, digits: usize| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
    RateRow {
        per_second: format!("{:.0}", rate.per_second),
        interval: figure(rate.ci95_percent, 1),
        response: grouped(u64::from(rate.response_bytes)),
        initiator: [
            figure(rate.initiator_machine_percent, 0),
            figure(rate.initiator_service_demand_us, 2),
            figure(rate.initiator_process_us, 2),
            figure(rate.initiator_softirq_us, 2),
        ],
        reflector: [
            figure(rate.reflector_machine_percent, 0),
            figure(rate.reflector_service_demand_us, 2),
            figure(rate.reflector_process_us, 2),
            figure(rate.reflector_softirq_us, 2),
        ],
    }
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
    fn a_finding_of_both_ends_is_named_once() {
        assert_eq!(each_once(["other-tasks", "steal", "other-tasks"].into_iter()), ["other-tasks", "steal"]);
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
