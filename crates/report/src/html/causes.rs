//! Why messages were late: a bar of classes and a table of causes for each cell that was explained, and the way of its worst message.

use super::{data, drawn_as};
use crate::Report;
use crate::causes::{Hints, sentences, table, title};
use crate::draw::plots::causes::{Bar, Part, shares, square, way};
use crate::markdown::unbanded;
use crate::units::span;
use digest::RunInput;
use digest::cells::Cell;
use minijinja::{Value, context};
use model::result::Outlier;

/// Causes that a table shows.
const MOST: usize = 16;

pub(super) fn of(report: &Report) -> Vec<Value> {
    let cells = report.cells.iter().enumerate();
    cells.filter_map(|(number, cell)| section(number, cell, report.inputs.get(cell.run)?)).collect()
}

fn section(number: usize, cell: &Cell, run: &RunInput) -> Option<Value> {
    let info = &cell.info;
    let explanation = info.explanation.as_ref()?;
    let name = format!("{}, {}", digest::message(info.probe, &info.protocol, info.size_bytes), info.label);
    let grid = unbanded(table(explanation, MOST, Hints::Beside));
    let heads: Vec<(String, bool)> =
        grid.columns.iter().map(|column| (column.heading.join(" ").trim().to_owned(), column.right)).collect();
    let drawn = shares(explanation, format!("Classes of causes, {name}")).map(|of| bar(&of));
    let worst = worst(cell, run).and_then(|message| {
        let heading = format!("The worst message: {}, RTT {}", message.seq, span(message.rtt_ns as f64));
        let drawn = bar(&way(&message, heading.clone())?);
        Some(context! { heading, bar => drawn })
    });
    let more = explanation.causes.len().saturating_sub(MOST);
    Some(context! {
        anchor => format!("cell-{number}"),
        name,
        about => title("", explanation),
        bar => drawn,
        heads => data(heads),
        rows => grid.rows,
        more,
        sentences => sentences(explanation),
        worst,
    })
}

fn bar(Bar { figure, parts }: &Bar) -> Value {
    let part = |Part { class, text }: &Part| {
        context! { text, square => class.map(|class| drawn_as(&square(class), "class=\"square\" aria-hidden=\"true\"")) }
    };
    let svg = drawn_as(figure, "class=\"bar\" role=\"img\" preserveAspectRatio=\"none\"");
    context! { svg, parts => parts.iter().map(part).collect::<Vec<_>>() }
}

/// The slowest message of all repetitions that was kept with its way.
fn worst(cell: &Cell, run: &RunInput) -> Option<Outlier> {
    let folder = run.folder.as_deref()?;
    let steps = cell.members.iter().filter_map(|member| run.steps.get(*member));
    // What cannot be read is named with the heat maps.
    let kept = steps.flat_map(|step| store::explained(folder, step.index).unwrap_or_default());
    kept.max_by_key(|message| message.rtt_ns)
}
