//! The tables of all cells as data for the template.

use super::{FigureCell, data};
use crate::cell_tables::{self, CellRow, CellTable, Page, Part, Place};
use crate::columns::{Room, heading, text};
use crate::document::Document;
use crate::draw::chart;
use crate::layout::Grid;
use crate::say::summary_pace::REACHED;
use crate::units::{each_once, figure, grouped, spans};
use crate::{beside, boot_tables};
use digest::{CellInfo, FindingCount};
use minijinja::{Value, context};
use model::Probe;
use model::quantity::{self, Unit};

pub(super) fn tables(document: &Document) -> Vec<Value> {
    let of = |(table, page): (&CellTable, &Page)| {
        let (rows, probe) = (table.rows(document), table.probe?);
        let title = if page.title.is_empty() { probe.word() } else { page.title };
        let kind = rows.first()?.cell.kind.title();
        let band = |part: &Part| (part.band(Place::Page), part.ids(Place::Page).collect::<Vec<_>>());
        let bands: Vec<(&str, Vec<&str>)> = page.parts.iter().map(band).collect();
        let ids: Vec<&str> = bands.iter().flat_map(|(_, ids)| ids.clone()).collect();
        // The words above the table say the unit of times, which would make every column wider.
        let head = |id: &str, banded| {
            let [title, unit] = heading(id, banded, Room::Wide);
            [title, if unit == "µs" { "" } else { unit }]
        };
        let heads = bands.iter().flat_map(|(band, ids)| ids.iter().map(move |id| head(id, !band.is_empty())));
        Some(context! {
            title,
            about => format!("{}; {kind} and times in µs", page.about.unwrap_or(probe.about())),
            // Whether it needs the whole width of the window.
            wide => ids.len() > 12,
            bands => data(bands.iter().map(|(band, ids)| (band, ids.len())).collect::<Vec<_>>()),
            heads => data(heads.collect::<Vec<_>>()),
            rows => rows.iter().map(|one| row(one, &ids)).collect::<Vec<_>>(),
        })
    };
    let tables = cell_tables::ALL.iter().filter(|table| !table.is_plain());
    tables.flat_map(|table| table.pages.iter().map(move |page| (table, page))).filter_map(of).collect()
}

fn row(row: &CellRow<'_>, ids: &[&str]) -> Value {
    let info = row.cell;
    let many = Some(info.count(&format!("{}.flows", row.about))).filter(|flows| *flows > 1);
    let many = many.map(|flows| format!(", {flows} flows")).unwrap_or_default();
    let is_drawn = matches!(info.probe, Probe::Pingpong | Probe::Pace | Probe::Wake | Probe::Cycle);
    let (protocol, size) = match info.probe.has_peer() {
        true => (info.protocol.to_uppercase(), grouped(info.size_bytes)),
        false => (String::new(), "–".to_owned()),
    };
    context! {
        anchor => format!("cell-{}", row.number),
        // Its colour in charts.
        swatch => Value::from_safe_string(if is_drawn { chart::swatch(info.colour) } else { String::new() }),
        label => &info.label,
        what => format!("{protocol} {}{many}", row.about).trim(),
        size,
        repetitions => match info.left_out {
            0 => info.repetitions.to_string(),
            left_out => format!("{} of {}", info.repetitions, info.repetitions + left_out),
        },
        figures => data(ids.iter().map(|id| figure_cell(info, &row.id(id))).collect::<Vec<_>>()),
        sign => info.mark.sign(),
        found => found(info),
        evidence => evidence(info),
    }
}

/// A figure with its range over the repetitions, or why there is none.
fn figure_cell(info: &CellInfo, id: &str) -> FigureCell {
    let Some(quantity) = quantity::find(id) else { return FigureCell::default() };
    let value = info.value(id);
    let range = info.range(id).map(|[low, high]| match quantity.unit {
        Unit::Ns => format!("repetitions {}", spans(low, "to", high)),
        unit => format!("repetitions {} to {}", figure(unit, low), figure(unit, high)),
    });
    let is_percentile = quantity.statistic().is_some_and(|(_, statistic)| statistic.quantile().is_some());
    let none = (value.is_none() && is_percentile).then(|| "fewer than 10 messages lie beyond this quantile".to_owned());
    let short = id == "achieved" && info.value("reached").is_some_and(|share| share < REACHED);
    let saturated = info.words.get("saturated").filter(|_| short).cloned();
    FigureCell {
        text: match (quantity.unit, value) {
            (Unit::Count, Some(count)) => grouped(crate::units::whole(count)),
            (unit, value) => text(unit, value, Room::Wide),
        },
        sign: "",
        tip: [none, range, saturated].into_iter().flatten().collect::<Vec<_>>().join("\n"),
        first: false,
        short,
    }
}

fn found(info: &CellInfo) -> String {
    // The same may be found at both ends, with others in between.
    each_once(info.findings.iter().map(|finding| finding.id.as_str())).join(", ")
}

fn evidence(info: &CellInfo) -> String {
    let line = |finding: &FindingCount| {
        let (name, times) = finding.words(info);
        let times = times.map(|times| format!(" ({times})")).unwrap_or_default();
        format!("{}{name}{times}: {}", if finding.invalid { "! " } else { "" }, finding.detail)
    };
    info.findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Tables as text has them: one-way times, what PGM repaired, round trips beside wake-ups, and the boots of each cell.
pub(super) fn grids(document: &Document) -> Vec<Value> {
    let of = |one: &CellTable| {
        let (page, grid) = (one.pages.first()?, one.grid(document)?);
        Some(table([page.title, page.about.unwrap_or_default()], grid))
    };
    let of_cells = cell_tables::ALL.iter().filter(|table| table.is_plain()).filter_map(of);
    let told = |(title, mut grid): (String, Grid)| {
        grid.drop_empty();
        table(title.split_once(": ").unwrap_or((&title, "")).into(), grid)
    };
    let others = beside::table(&document.cells).into_iter().chain(boot_tables::table(&document.boots)).map(told);
    of_cells.chain(others).collect()
}

fn table([name, about]: [&str; 2], grid: Grid) -> Value {
    let grid = grid.unbanded();
    let lines = |heading: Vec<String>| heading.into_iter().filter(|line| !line.is_empty()).collect();
    let heads: Vec<Vec<String>> = grid.columns.into_iter().map(|column| lines(column.heading)).collect();
    context! { name, about, heads, rows => grid.rows }
}
