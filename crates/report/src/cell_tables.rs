//! Tables of cells: which quantities stand in them, in which order. Titles, units and values come from the catalogue.

use crate::columns::{self, Room, heading};
use crate::document::Document;
use crate::layout::{Band, Column, Columns, Grid};
use crate::{beside, boot_tables};
use digest::{CellInfo, Figures};
use model::Probe;
use model::quantity::{self, Group};

/// Quantities side by side, below a band where it has a name.
pub(crate) type Part = (&'static str, &'static [&'static str]);

/// What the rows of a cell are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows {
    Whole,
    /// The whole and each reflector by itself, as far as they have any of some groups.
    Reflectors(&'static [Group]),
    /// Each direction of a stream; ids that begin with `up.` are those of the direction.
    Directions,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CellTable {
    pub(crate) title: &'static str,
    /// The probe that it is about; `None` of all.
    pub(crate) probe: Option<Probe>,
    pub(crate) rows: Rows,
    pub(crate) parts: &'static [Part],
    pub(crate) room: Room,
    /// Whether a column marks what cannot be trusted.
    pub(crate) marked: bool,
}

pub(crate) struct CellRow<'a> {
    pub(crate) number: usize,
    pub(crate) cell: &'a CellInfo,
    /// The reflector, or the direction; empty where it is about the whole.
    pub(crate) about: &'a str,
    figures: &'a Figures,
}

impl CellRow<'_> {
    pub(crate) fn id(&self, id: &str) -> String {
        if self.about == "down" { id.replace("up.", "down.") } else { id.to_owned() }
    }
}

impl CellTable {
    pub(crate) fn rows<'a>(&self, document: &'a Document) -> Vec<CellRow<'a>> {
        let of_cell = |(number, cell): (usize, &'a CellInfo)| -> Vec<CellRow<'a>> {
            let row = move |about, figures| CellRow { number, cell, about, figures };
            match self.rows {
                Rows::Whole => vec![row("", &cell.figures)],
                Rows::Reflectors(groups) => {
                    let of_group = |group: &Group| quantity::of_group(*group);
                    let has = |figures: &Figures| {
                        groups.iter().flat_map(of_group).any(|one| figures.0.contains_key(one.id.as_str()))
                    };
                    let each = cell.reflectors.iter().map(|one| (one.host.as_str(), &one.figures));
                    let all = std::iter::once(("", &cell.figures)).chain(each);
                    all.filter(|(_, figures)| has(figures)).map(|(host, figures)| row(host, figures)).collect()
                }
                Rows::Directions => {
                    let has = |direction: &&str| cell.value(&format!("{direction}.bits")).is_some();
                    ["up", "down"].into_iter().filter(has).map(|direction| row(direction, &cell.figures)).collect()
                }
            }
        };
        let is_of_probe = |cell: &CellInfo| self.probe.is_none_or(|probe| cell.probe == probe);
        document.cells.iter().enumerate().filter(|(_, cell)| is_of_probe(cell)).flat_map(of_cell).collect()
    }

    /// The ids of its columns, and whether they stand below a band.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.parts.iter().flat_map(|(band, ids)| ids.iter().map(move |id| (*id, !band.is_empty())))
    }

    /// As text; `None` without a row. What tells cells apart leads: protocol and size only where they differ, of streams
    /// always.
    pub(crate) fn grid(&self, document: &Document) -> Option<Grid> {
        let rows = self.rows(document);
        let is_stream = matches!(self.rows, Rows::Directions);
        let differs = |pick: fn(&CellInfo) -> String| rows.windows(2).any(|two| pick(two[0].cell) != pick(two[1].cell));
        let protocols = is_stream || differs(|cell| cell.protocol.clone());
        let sizes = is_stream || differs(|cell| cell.size_bytes.to_string());
        let name = |row: &CellRow<'_>| {
            let about = if is_stream { "" } else { row.about };
            [row.cell.label.as_str(), about].join(", ").trim_end_matches(", ").to_owned()
        };
        let protocol = |cell: &CellInfo| if is_stream { cell.protocol.to_uppercase() } else { cell.protocol.clone() };
        let columns = Columns::none()
            .words("cell", name)
            .when(protocols, |columns| columns.words("protocol", |row| protocol(row.cell)))
            .when(sizes, |columns| columns.figures("size", "B", |row| row.cell.size_bytes.to_string()))
            .when(is_stream, |columns| columns.words("way", |row| row.about.to_owned()));
        let mut bands: Vec<Band> = Vec::new();
        let mut first = columns.count();
        for (band, ids) in self.parts {
            bands.extend((!band.is_empty()).then(|| (first, first + ids.len() - 1, (*band).to_owned())));
            first += ids.len();
        }
        let mut grid = columns
            .each(self.ids(), |columns, (id, banded)| {
                let [title, unit] = heading(id, banded, self.room);
                columns.figures(title, unit, move |row| columns::cell(row.figures, &row.id(id), self.room))
            })
            .when(self.marked, |columns| columns.words("", |row| row.cell.mark.sign().to_owned()))
            .grid(rows);
        grid.bands.extend((!bands.is_empty()).then_some(bands));
        (!grid.rows.is_empty()).then_some(grid)
    }
}

const PACED: CellTable = CellTable {
    title: "Messages at a rate, geometric mean of the repetitions: RTT from the actual send, from the intended send, and lateness",
    probe: Some(Probe::Pace),
    rows: Rows::Whole,
    parts: &[
        ("", &["reached", "lost"]),
        ("RTT, actual send", &["p50", "p99", "p99.9", "max"]),
        ("intended", &["intended.p99", "intended.p99.9"]),
        ("late", &["lateness.p99"]),
    ],
    room: Room::Narrow,
    marked: true,
};

/// One-way times and the parts of the round trip. Only the figures of these are stored, and no histograms.
const ONE_WAY: CellTable = CellTable {
    title: "",
    probe: None,
    rows: Rows::Reflectors(&[Group::OneWay, Group::Segments]),
    parts: &[
        ("", &["out.p50", "out.p99", "back.p50", "back.p99", "one-way-error"]),
        ("", &["send.p50", "wire.p50", "far-kernel.p50", "far-application.p50", "near-kernel.p50"]),
    ],
    room: Room::Wide,
    marked: false,
};

/// What PGM repaired. Of the few messages that are repaired there is often no p99.
pub(crate) const PGM: CellTable = CellTable {
    title: "PGM: loss and repair apart from the rest, RTT from the actual send (untouched: scheduling and the path alone)",
    rows: Rows::Reflectors(&[Group::Fates]),
    parts: &[
        ("untouched", &["untouched.messages", "untouched.p50", "untouched.p99", "untouched.max"]),
        ("held", &["held.messages", "held.p50", "held.max"]),
        ("repaired", &["repaired.messages", "repaired.p50", "repaired.max"]),
        ("", &["pgm.missing", "pgm.naks-sent", "pgm.lost"]),
    ],
    marked: false,
    ..PACED
};

const STREAMS: CellTable = CellTable {
    title: "Streams: payload and datagrams delivered, and RTT of a ping-pong beside them",
    probe: Some(Probe::Stream),
    rows: Rows::Directions,
    parts: &[
        ("", &["up.bits", "up.datagrams", "up.loss", "up.reordered", "up.rfc3550-jitter", "up.retransmits"]),
        ("", &["up.tcp-rtt", "up.tcp-rtt-max", "idle.p50", "working.p50", "working.p99"]),
    ],
    room: Room::Units,
    marked: true,
};

const WAKE: CellTable = CellTable {
    title: "Timer wake-ups, geometric mean of the repetitions: how late sleeping threads woke up",
    probe: Some(Probe::Wake),
    rows: Rows::Whole,
    parts: &[("", &["count", "mean", "stdev", "min", "p50", "p99", "p99.9", "p99.99", "max", "wake.missed"])],
    room: Room::Narrow,
    marked: true,
};

fn one_way_title(document: &Document) -> String {
    let rows = ONE_WAY.rows(document);
    let has = |id: &str| rows.iter().any(|row| row.figures.value(id).is_some());
    let parts = ONE_WAY.parts.iter().skip(1).flat_map(|(_, ids)| *ids).any(|id| has(id));
    let figures = if has("out.p99") || has("back.p99") { "p50 and p99" } else { "p50" };
    let what = match (has("out.mean"), parts) {
        (true, true) => format!("One-way times ({figures}) and parts of the round trip (p50)"),
        (true, false) => format!("One-way times ({figures})"),
        _ => "Parts of the round trip (p50)".to_owned(),
    };
    let several = document.cells.iter().any(|cell| cell.value("asked").is_some() && cell.repetitions > 1);
    format!("{what} in µs{}", if several { ", geometric mean of the repetitions" } else { "" })
}

/// The tables of what is no ping-pong, each with the line above it.
pub(crate) fn all(document: &Document) -> Vec<(String, Grid)> {
    let title = |table: &CellTable| match table.title {
        "" => one_way_title(document),
        title => title.to_owned(),
    };
    let tables = [PACED, ONE_WAY, PGM, STREAMS, WAKE];
    let of_cells = tables.iter().filter_map(|table| Some((title(table), table.grid(document)?)));
    of_cells.chain(beside::table(&document.cells)).chain(boot_tables::table(&document.boots)).collect()
}

/// The quantities of a table of all cells: behind those of all probes the rate of `rr`.
fn whole(cells: &[CellInfo], wide: bool) -> Vec<&'static str> {
    let mut ids = vec!["count", "mean", "stdev", "min", "p50", "p99", "p99.9"];
    ids.extend(wide.then_some("p99.99"));
    ids.extend(["max", "lost"]);
    ids.extend(cells.iter().any(|cell| cell.value("transactions").is_some()).then_some("transactions"));
    ids
}

/// A column of words or figures about a cell.
pub(crate) type Lead = (Column, fn(&CellInfo) -> String);

/// A row a cell: what leads it, the quantities of [`whole`], and what ends it.
pub(crate) fn of_all(cells: &[CellInfo], wide: bool, leads: &[Lead], end: &Lead) -> Grid {
    Columns::none()
        .each(leads, |columns, (column, read)| columns.column(column.clone(), |info: &&CellInfo| read(info)))
        .each(whole(cells, wide), |columns, id| {
            let [title, unit] = heading(id, true, Room::Wide);
            columns.figures(title, unit, move |info| columns::cell(&info.figures, id, Room::Wide))
        })
        .column(end.0.clone(), |info| end.1(info))
        .grid(cells)
}
