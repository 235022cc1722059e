//! Why messages were late: for each explained cell a bar, a table of causes, its late messages over time, the way of the worst.

use super::{data, drawn_as};
use crate::Report;
use crate::causes::{Hints, sentences, table, timed, title};
use crate::draw::plots::causes::{Bar, Part, shares, square, way};
use crate::draw::plots::late::over_time;
use crate::units::span;
use digest::RunInput;
use digest::cells::Cell;
use minijinja::{Value, context};
use model::result::Outlier;

/// Causes that a table shows.
const MOST: usize = 16;

/// Drawings of late messages on a page, in bytes.
const MOST_BYTES: usize = 2 << 20;

pub(super) fn of(report: &Report) -> Vec<Value> {
    let mut room = MOST_BYTES;
    let cells = report.cells.iter().enumerate();
    cells.filter_map(|(number, cell)| section(number, cell, report.inputs.get(cell.run)?, &mut room)).collect()
}

fn section(number: usize, cell: &Cell, run: &RunInput, room: &mut usize) -> Option<Value> {
    let info = &cell.info;
    let explanation = info.explanation.as_ref()?;
    let name = format!("{}, {}", digest::message(info.probe, &info.protocol, info.size_bytes), info.label);
    let grid = table(explanation, MOST, Hints::Beside).unbanded();
    let heads: Vec<(String, bool)> =
        grid.columns.iter().map(|column| (column.heading.join(" ").trim().to_owned(), column.right)).collect();
    let drawn = shares(explanation, format!("Classes of causes, {name}")).map(|of| bar(&of));
    let (pass, messages) = worst_pass(cell, run).unwrap_or_default();
    let worst = messages.iter().max_by_key(|message| message.rtt_ns).and_then(|message| {
        let heading = format!("The worst message: {}, {} {}", message.seq, timed(message), span(message.rtt_ns as f64));
        let drawn = bar(&way(message, heading.clone())?);
        Some(context! { heading, bar => drawn })
    });
    let heading = format!("The slowest late messages, {}{pass}", messages.len());
    let drawing = over_time(&messages, format!("{heading}, {name}"));
    let drawing = drawing.map(|drawn| (drawn_as(&drawn.figure, "role=\"img\""), legend(&drawn.parts)));
    let over_time = drawing.map(|(svg, parts)| {
        let bytes = svg.as_str().map_or(0, str::len);
        let is_shown = bytes <= *room;
        *room -= if is_shown { bytes } else { 0 };
        context! { heading, svg => is_shown.then_some(svg), parts }
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
        over_time,
        worst,
    })
}

fn bar(Bar { figure, parts }: &Bar) -> Value {
    let svg = drawn_as(figure, "class=\"bar\" role=\"img\" preserveAspectRatio=\"none\"");
    context! { svg, parts => legend(parts) }
}

fn legend(parts: &[Part]) -> Vec<Value> {
    let part = |Part { class, text }: &Part| {
        context! { text, square => class.map(|class| drawn_as(&square(class), "class=\"square\" aria-hidden=\"true\"")) }
    };
    parts.iter().map(part).collect()
}

/// The late messages that were kept of the repetition with the slowest one, and which that is, where there are several.
fn worst_pass(cell: &Cell, run: &RunInput) -> Option<(String, Vec<Outlier>)> {
    let folder = run.folder.as_deref()?;
    let slowest = |messages: &[Outlier]| messages.iter().map(|message| message.rtt_ns).max();
    // What cannot be read is named with the heat maps.
    let kept = |member: &usize| store::explained(folder, run.steps.get(*member)?.index).ok();
    let passes = cell.members.iter().filter_map(|member| Some((member, kept(member)?)));
    let (member, messages) = passes.max_by_key(|(_, messages)| slowest(messages))?;
    let repetition = run.results.get(*member).and_then(|result| result.repetition).filter(|_| cell.members.len() > 1);
    let words = repetition.map(|one| format!(" of repetition {one}, which has the worst")).unwrap_or_default();
    Some((words, messages))
}
