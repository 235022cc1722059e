//! The report as one HTML file: the data for the template. All text is escaped by the template engine, except the SVG,
//! which escapes its own.

use crate::document::Document;
use crate::environment::{self, Environment};
use crate::names::axis_title;
use crate::papers::caption;
use crate::plots::{self, Picture, Quantity};
use crate::text::fixed_line;
use crate::{Report, ReportError, glance, svg};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment as Templates, Value, context};
use serde::Serialize;

mod cells;
mod table;

const TEMPLATE: &str = include_str!("../templates/report.html");

/// One figure of a table.
#[derive(Serialize, Default)]
pub(crate) struct FigureCell {
    text: String,
    /// `!` or `*`.
    sign: &'static str,
    /// What rests under the pointer.
    tip: String,
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
    let probes = |probe: &str| cells::groups(document, probe);
    let rendered = templates.get_template("report")?.render(context! {
        title => data(&document.title),
        subtitle => data(subtitle(document)),
        summary => data(&document.summary),
        kind => data(document.kind.title()),
        size => data(document.size_bytes),
        axes => data(document.axes.iter().map(|axis| axis_title(axis)).collect::<Vec<_>>()),
        caption => data(caption(document)),
        fixed => data(fixed_line(document)),
        blocks => data(table::blocks(document)),
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
