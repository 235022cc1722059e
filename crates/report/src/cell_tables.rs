//! Tables of cells: which quantities stand in them, in which order. Titles, units and values come from the catalogue.

use crate::document::{CellInfo, Document, Figures};
use crate::layout::{Band, Column, Grid};
use crate::units::{self, bits, commas, span, three_digits, us_or_dash, us_short};
use model::quantity::{self, Group, Unit};

/// Quantities side by side, below a band where it has a name.
pub(crate) type Part = (&'static str, &'static [&'static str]);

/// How much room a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Four significant digits in µs.
    Wide,
    /// A decimal in µs.
    Narrow,
    /// Each with its unit: figures of very different size.
    Units,
}

/// The heading of a quantity: two lines. Below a band nobody need say which distribution it is of.
pub(crate) fn heading(id: &str, banded: bool, room: Room) -> [&'static str; 2] {
    let Some(quantity) = quantity::find(id) else { return ["", ""] };
    match quantity.statistic() {
        Some((distribution, statistic)) if !banded && !distribution.id.is_empty() => {
            [distribution.title, statistic.word()]
        }
        _ => [quantity.title, if room == Room::Units { "" } else { unit(quantity.unit) }],
    }
}

/// The unit below a heading.
pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns | Unit::Us => "µs",
        Unit::Share | Unit::Percent => "%",
        Unit::PerSecond => "1/s",
        Unit::Bits => "Mbit/s",
        Unit::PerMillion => "ppm",
        Unit::Bytes => "B",
        Unit::Count | Unit::Number => "",
    }
}

/// A figure below such a heading; a dash where it is not known.
pub(crate) fn text(unit: Unit, value: Option<f64>, room: Room) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match (unit, room) {
        (Unit::Ns, Room::Wide) => us_or_dash(Some(value)),
        (Unit::Ns, Room::Narrow) => us_short(Some(value)),
        (Unit::Ns, Room::Units) => span(value),
        (Unit::Bits, Room::Units) => bits(value),
        (Unit::Share, Room::Units) => format!("{} %", three_digits(100.0 * value)),
        (Unit::Count | Unit::PerSecond, Room::Units) => commas(units::whole(value)),
        (Unit::Share, Room::Narrow) => format!("{:.2}", 100.0 * value),
        (Unit::Share, Room::Wide) if value == 0.0 => "0".to_owned(),
        (Unit::Share, Room::Wide) => units::percent(value, 1.0).trim_end_matches(" %").to_owned(),
        (Unit::Bits, _) => format!("{:.2}", value / 1e6),
        (Unit::Us | Unit::Number, _) => format!("{value:.2}"),
        (Unit::Percent, _) => format!("{value:.1}"),
        (Unit::PerSecond, _) if value < 100.0 && value.fract() != 0.0 => format!("{value:.2}"),
        (Unit::Count | Unit::Bytes | Unit::PerSecond | Unit::PerMillion, _) => format!("{value:.0}"),
    }
}

/// A quantity of some figures as text.
pub(crate) fn cell(figures: &Figures, id: &str, room: Room) -> String {
    quantity::find(id).map_or_else(String::new, |quantity| text(quantity.unit, figures.value(id), room))
}

/// The columns of some parts behind those that a grid has, and their bands.
pub(crate) fn columns(grid: &mut Grid, parts: &[Part], room: Room) {
    let mut bands: Vec<Band> = Vec::new();
    for (band, ids) in parts {
        let first = grid.columns.len();
        grid.columns.extend(ids.iter().map(|id| {
            let [title, unit] = heading(id, !band.is_empty(), room);
            Column::figures(title, unit)
        }));
        if !band.is_empty() {
            bands.push((first, grid.columns.len() - 1, (*band).to_owned()));
        }
    }
    if !bands.is_empty() {
        grid.bands = vec![bands];
    }
}

/// The figures below them.
pub(crate) fn cells(figures: &Figures, parts: &[Part], room: Room) -> Vec<String> {
    parts.iter().flat_map(|(_, ids)| ids.iter().map(|id| cell(figures, id, room))).collect()
}

/// The columns that say what a row of some cells is about, as far as they differ.
struct Keys {
    protocols: bool,
    sizes: bool,
}

impl Keys {
    fn of(cells: &[&CellInfo]) -> Self {
        let differs = |pick: fn(&CellInfo) -> String| cells.windows(2).any(|pair| pick(pair[0]) != pick(pair[1]));
        Self { protocols: differs(|cell| cell.protocol.clone()), sizes: differs(|cell| cell.size_bytes.to_string()) }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::words("cell")];
        columns.extend(self.protocols.then(|| Column::words("protocol")));
        columns.extend(self.sizes.then(|| Column::figures("size", "B")));
        columns
    }

    fn cells(&self, cell: &CellInfo, host: Option<&str>) -> Vec<String> {
        let mut row = vec![host.map_or_else(|| cell.label.clone(), |host| format!("{}, {host}", cell.label))];
        row.extend(self.protocols.then(|| cell.protocol.clone()));
        row.extend(self.sizes.then(|| cell.size_bytes.to_string()));
        row
    }
}

/// The whole of a cell and each reflector by itself, as far as they have any of some groups.
fn hosts<'a>(cell: &'a CellInfo, groups: &[Group]) -> Vec<(Option<&'a str>, &'a Figures)> {
    let has = |figures: &&Figures| groups.iter().any(|group| has(figures, *group));
    let own = cell.reflectors.iter().map(|one| (Some(one.host.as_str()), &one.figures));
    std::iter::once((None, &cell.figures)).chain(own).filter(|(_, figures)| has(figures)).collect()
}

/// Whether some figures have any of a group.
fn has(figures: &Figures, group: Group) -> bool {
    quantity::of_group(group).any(|quantity| figures.0.contains_key(quantity.id.as_str()))
}

/// What is above the cells of `pace`.
pub(crate) const PACED: &str =
    "Messages at a rate, all repetitions together: RTT from the actual send, from the intended send, and lateness";

/// The cells of `pace`: what of the rate was reached, RTT from both send times, and lateness.
pub(crate) fn paced(document: &Document) -> Option<Grid> {
    const PARTS: [Part; 4] = [
        ("", &["reached", "lost"]),
        ("RTT, actual send", &["p50", "p99", "p99.9", "max"]),
        ("intended", &["intended.p99", "intended.p99.9"]),
        ("late", &["lateness.p99"]),
    ];
    let all: Vec<&CellInfo> = document.cells.iter().filter(|cell| cell.value("asked").is_some()).collect();
    let keys = Keys::of(&all);
    let mut grid = Grid { columns: keys.columns(), ..Grid::default() };
    columns(&mut grid, &PARTS, Room::Narrow);
    grid.columns.push(Column::words(""));
    for cell in all {
        let mut row = keys.cells(cell, None);
        row.extend(cells(&cell.figures, &PARTS, Room::Narrow));
        row.push(cell.mark.sign().to_owned());
        grid.rows.push(row);
    }
    (!grid.rows.is_empty()).then_some(grid)
}

const ONE_WAY: [&str; 4] = ["out.p50", "out.p99", "back.p50", "back.p99"];
const SEGMENTS: [&str; 5] = ["send.p50", "wire.p50", "far-kernel.p50", "far-application.p50", "near-kernel.p50"];

/// The groups of the table of one-way times and parts.
const STAMPED: [Group; 2] = [Group::OneWay, Group::Segments];

/// What stands above the table of one-way times and parts: what it has. Only the figures of these are stored, and no
/// histograms.
pub(crate) fn one_way_heading(document: &Document) -> String {
    let all: Vec<&Figures> = document.cells.iter().flat_map(|cell| hosts(cell, &STAMPED)).map(|(_, all)| all).collect();
    let has = |id: &str| all.iter().any(|figures| figures.value(id).is_some());
    let (one_way, parts) = (has("out.mean"), SEGMENTS.iter().any(|id| has(id)));
    let figures = if has("out.p99") || has("back.p99") { "p50 and p99" } else { "p50" };
    let what = match (one_way, parts) {
        (true, true) => format!("One-way times ({figures}) and parts of the round trip (p50)"),
        (true, false) => format!("One-way times ({figures})"),
        _ => "Parts of the round trip (p50)".to_owned(),
    };
    let several = document.cells.iter().any(|cell| cell.value("asked").is_some() && cell.repetitions > 1);
    format!("{what} in µs{}", if several { ", of the middle repetition" } else { "" })
}

/// One-way times and the parts of the round trip, a row a cell and reflector; `None` where no cell has any of it.
pub(crate) fn one_way(document: &Document) -> Option<Grid> {
    let rows: Vec<_> = document
        .cells
        .iter()
        .flat_map(|cell| hosts(cell, &STAMPED).into_iter().map(move |(host, figures)| (cell, host, figures)))
        .collect();
    let has = |id: &str| rows.iter().any(|(.., figures)| figures.value(id).is_some());
    let mut ids: Vec<&str> = Vec::new();
    if has("out.mean") {
        ids.extend(ONE_WAY);
    }
    // Between clocks of one machine there is no error to tell.
    if rows.iter().any(|(.., figures)| figures.count("one-way-error") > 0) {
        ids.push("one-way-error");
    }
    ids.extend(SEGMENTS.iter().filter(|id| has(id)));
    let keys = Keys::of(&rows.iter().map(|(cell, ..)| *cell).collect::<Vec<_>>());
    let mut grid = Grid { columns: keys.columns(), ..Grid::default() };
    grid.columns.extend(ids.iter().map(|id| {
        let [title, unit] = heading(id, false, Room::Wide);
        Column::figures(title, unit)
    }));
    for (cell, host, figures) in rows {
        let mut row = keys.cells(cell, host);
        row.extend(ids.iter().map(|id| {
            let exact = *id == "one-way-error" && figures.count(id) == 0;
            if exact { "–".to_owned() } else { self::cell(figures, id, Room::Wide) }
        }));
        grid.rows.push(row);
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// What stands above the table of PGM.
pub(crate) const PGM: &str =
    "PGM: loss and repair apart from the rest, RTT from the actual send (untouched: scheduling and the path alone)";

/// What PGM repaired, a row a cell and reflector; `None` without PGM. Of the few messages that are repaired there is often
/// no p99.
pub(crate) fn pgm(document: &Document) -> Option<Grid> {
    const PARTS: [Part; 4] = [
        ("untouched", &["untouched.messages", "untouched.p50", "untouched.p99", "untouched.max"]),
        ("held", &["held.messages", "held.p50", "held.max"]),
        ("repaired", &["repaired.messages", "repaired.p50", "repaired.max"]),
        ("", &["pgm.missing", "pgm.naks-sent", "pgm.lost"]),
    ];
    let all: Vec<&CellInfo> = document.cells.iter().filter(|cell| cell.value("pgm.missing").is_some()).collect();
    let keys = Keys { protocols: false, ..Keys::of(&all) };
    let mut grid = Grid { columns: keys.columns(), ..Grid::default() };
    columns(&mut grid, &PARTS, Room::Narrow);
    for cell in all {
        for (host, figures) in hosts(cell, &[Group::Fates]) {
            let mut row = keys.cells(cell, host);
            row.extend(cells(figures, &PARTS, Room::Narrow));
            grid.rows.push(row);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// What stands above the table of streams.
pub(crate) const STREAMS: &str = "Streams: payload and datagrams delivered, and RTT of a ping-pong beside them";

const FLOWS: [&str; 8] =
    ["bits", "datagrams", "loss", "reordered", "rfc3550-jitter", "retransmits", "tcp-rtt", "tcp-rtt-max"];
const BESIDE: [&str; 3] = ["idle.p50", "working.p50", "working.p99"];

/// The directions of the streams, a row each; `None` without a stream.
pub(crate) fn streams(document: &Document) -> Option<Grid> {
    let all: Vec<&CellInfo> = document.cells.iter().filter(|cell| cell.probe == "stream").collect();
    let asks = all.iter().any(|cell| cell.value("working.p50").is_some());
    let beside: &[&str] = if asks { &BESIDE } else { &[] };
    let mut grid = Grid::default();
    grid.columns.extend(["cell", "protocol"].map(Column::words));
    grid.columns.push(Column::figures("size", "B"));
    grid.columns.push(Column::words("way"));
    let own = FLOWS.map(|id| format!("up.{id}"));
    grid.columns.extend(own.iter().map(String::as_str).chain(beside.iter().copied()).map(|id| {
        let [title, unit] = heading(id, false, Room::Units);
        Column::figures(title, unit)
    }));
    grid.columns.push(Column::words(""));
    for cell in all {
        for direction in ["up", "down"].into_iter().filter(|way| cell.value(&format!("{way}.bits")).is_some()) {
            let mut row = vec![
                cell.label.clone(),
                cell.protocol.to_uppercase(),
                cell.size_bytes.to_string(),
                direction.to_owned(),
            ];
            let ids = FLOWS.map(|id| format!("{direction}.{id}"));
            let ids = ids.iter().map(String::as_str).chain(beside.iter().copied());
            row.extend(ids.map(|id| self::cell(&cell.figures, id, Room::Units)));
            row.push(cell.mark.sign().to_owned());
            grid.rows.push(row);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// The quantities of a table of all cells: behind those of all probes the rate of `rr`.
pub(crate) fn whole(cells: &[CellInfo], wide: bool) -> Vec<&'static str> {
    let mut ids = vec!["count", "mean", "stdev", "min", "p50", "p99", "p99.9"];
    ids.extend(wide.then_some("p99.99"));
    ids.extend(["max", "lost"]);
    ids.extend(cells.iter().any(|cell| cell.value("transactions").is_some()).then_some("transactions"));
    ids
}

/// Their columns and cells.
pub(crate) fn whole_columns(ids: &[&str]) -> impl Iterator<Item = Column> {
    ids.iter().map(|id| heading(id, true, Room::Wide)).map(|[title, unit]| Column::figures(title, unit))
}
