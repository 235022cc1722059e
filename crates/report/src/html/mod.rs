//! The report as one HTML file: the data for the templates. The engine escapes all text but SVG, which escapes its own, the
//! page's scripts and styles, and heat maps' data, which have no bare `<`. What steers the direction of text is made visible.

mod causes;
mod cells;
mod compared;
mod heat;
mod pages;
mod series;
mod stills;
mod table;

use crate::document::Document;
use crate::draw::figure::Figure;
use crate::draw::plots::{self, Picture};
use crate::papers::{bands, caption};
use crate::text::{answer_grid, fixed_line};
use crate::{Page, Report, ReportError, environment};
use digest::names::axis_title;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment as Templates, Value, context};
use model::Probe;
use serde::Serialize;

/// Templates by name; `report` includes the others.
const TEMPLATES: [(&str, &str); 7] = [
    ("report", include_str!("../templates/report.html")),
    ("macros", include_str!("../templates/macros.html")),
    ("heat", include_str!("../templates/heat.html")),
    ("causes", include_str!("../templates/causes.html")),
    ("compared", include_str!("../templates/compared.html")),
    ("cells", include_str!("../templates/cells.html")),
    ("pages", include_str!("../templates/pages.html")),
];
const STYLE: &str = concat!(include_str!("../templates/page.css"), include_str!("../templates/heat.css"));
const SCRIPT: &str = include_str!("../templates/page.js");
/// The viewer, in parts that share one scope.
const VIEWER: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../templates/heat/data.js"),
    include_str!("../templates/heat/paint.js"),
    include_str!("../templates/heat/state.js"),
    include_str!("../templates/heat/draw.js"),
    include_str!("../templates/heat/input.js"),
    "})();\n"
);

#[derive(Serialize, Default)]
pub(crate) struct FigureCell {
    text: String,
    /// `!` or `*`.
    sign: &'static str,
    /// What rests under the pointer.
    tip: String,
    /// Whether a pair of columns begins with it.
    first: bool,
    /// Whether so little of a rate was reached that it has to be seen.
    short: bool,
}

impl Report {
    /// One self-contained HTML file: no network, no external font or script, readable without JavaScript. With it what of the
    /// runs' files is damaged, which the page says too. Errors: [`ReportError::Template`] when the template does not render.
    pub fn page(&self) -> Result<Page, ReportError> {
        let (report, document) = (self, &self.document);
        let mut templates = Templates::new();
        templates.set_auto_escape_callback(|_| AutoEscape::Html);
        templates.add_filter("prose", |text: String| crate::layout::with_bound_units(&text));
        for (name, text) in TEMPLATES {
            templates.add_template(name, text)?;
        }
        let maps = heat::page(report)?;
        let stills = stills::of(&maps.by_result);
        let has = |probe: Probe| document.cells.iter().any(|cell| cell.probe == probe);
        let mut remarks = document.remarks.clone();
        remarks.extend(maps.problems.iter().cloned());
        let rendered = templates.get_template("report")?.render(context! {
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
            viewer => Value::from_safe_string(VIEWER.to_owned()),
            heat_data => Value::from_safe_string(maps.data.clone()),
            panels => data(&maps.panels),
            causes => causes::of(report),
            pages => pages::of(report, &maps, &stills),
            all_maps => &stills.all,
            stills_left_out => stills.left_out,
            compared => compared::of(report),
            figures_are => crate::compare::FIGURES,
            title => &document.title,
            subtitle => subtitle(document),
            answer => answer(document),
            summary => &document.summary,
            kind => document.kind.title(),
            size => document.size_bytes,
            axes => data(table::axes(document).into_iter().map(|axis| axis_title(axis)).collect::<Vec<_>>()),
            caption => caption(document),
            fixed => fixed_line(document),
            bands => data(bands(&table::shown(document))),
            heads => data(table::heads(document)),
            blocks => table::blocks(document),
            notes => data(&document.notes),
            remarks,
            glance => plots::strips(&report.plotted()).map_or(Value::from(()), |figure| drawn(&figure)),
            times => pictures(plots::by_size(&report.plotted(), "mean")),
            jitters => pictures(plots::by_size(&report.plotted(), "stdev")),
            tails => pictures(plots::tails(&report.plotted())),
            functions => pictures(plots::functions(&report.plotted())),
            rates => pictures(plots::by_rate(&report.plotted())),
            tables => cells::tables(document),
            pingpong => has(Probe::Pingpong),
            pace => has(Probe::Pace),
            rr => has(Probe::Rr),
            streams => has(Probe::Stream),
            grids => cells::grids(document),
            runs => data(&document.runs),
            environments => data(environment::of(&self.inputs)),
        })?;
        Ok(Page { html: model::text::visible(&rendered).into_owned(), problems: maps.problems })
    }
}

fn data(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}

fn answer(document: &Document) -> Value {
    let answer = &document.answer;
    let grid = answer_grid(document);
    let mut heads = grid.columns.iter().map(|column| column.heading.join(" "));
    let (kind, columns) = (heads.next(), heads.take(answer.columns.len()).collect::<Vec<_>>());
    let row = |cells: &Vec<String>| {
        let (label, figures, sign) =
            (cells.first(), cells.get(1..=columns.len()).map(<[String]>::to_vec), cells.last());
        context! { label, figures, sign }
    };
    let rows: Vec<Value> = grid.rows.iter().map(row).collect();
    let (measured, sentences, next) = (&answer.measured, &answer.sentences, &answer.next);
    context! { measured, kind, columns, rows, sentences, next }
}

fn subtitle(document: &Document) -> Vec<String> {
    document
        .runs
        .iter()
        .map(|run| format!("{}, measured {} ({}), {}", run.name, run.measured_on, run.substrate, run.started))
        .collect()
}

fn drawn(figure: &Figure) -> Value {
    drawn_as(figure, "role=\"img\"")
}

fn drawn_as(figure: &Figure, attributes: &str) -> Value {
    Value::from_safe_string(figure.in_page(attributes))
}

fn pictures(pictures: Vec<Picture>) -> Vec<Value> {
    pictures.into_iter().map(|Picture { heading, figure }| context! { heading, svg => drawn(&figure) }).collect()
}
