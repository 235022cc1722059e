//! Tables of cells: their quantities and order, for text and the page. Titles, units and values come from the catalogue.

use crate::columns::{self, Room, heading};
use crate::document::Document;
use crate::layout::{Band, Column, Columns, Grid};
use crate::{beside, boot_tables, causes};
use digest::{CellInfo, Figures};
use model::Probe;
use model::quantity::{self, Group};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Text,
    Page,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The band above them in text and on the page; empty: none.
    bands: [&'static str; 2],
    /// Ids of quantities, a column each: `(id)` is shown on the page only, `[id]` in text only.
    ids: &'static str,
}

impl Part {
    pub(crate) fn band(&self, place: Place) -> &'static str {
        self.bands[place as usize]
    }

    pub(crate) fn ids(&self, place: Place) -> impl Iterator<Item = &'static str> + use<> {
        let left_out = if place == Place::Text { '(' } else { '[' };
        let shown = self.ids.split_whitespace().filter(move |id| !id.starts_with(left_out));
        shown.map(|id| id.trim_matches(['(', ')', '[', ']']))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Empty: the probe's name.
    pub(crate) title: &'static str,
    /// What it is about, where that is not what the probe measures.
    pub(crate) about: Option<&'static str>,
    pub(crate) parts: &'static [Part],
}

impl Page {
    const fn of(parts: &'static [Part]) -> Self {
        Self { title: "", about: None, parts }
    }
}

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
    /// The line above it in text; `None`: text has these figures in the table of all cells.
    title: Option<fn(&Document) -> String>,
    /// The probe that it is about; `None` of all.
    pub(crate) probe: Option<Probe>,
    pub(crate) rows: Rows,
    /// The tables on the page, which text has as one.
    pub(crate) pages: &'static [Page],
    room: Room,
    /// Whether a column marks what cannot be trusted.
    marked: bool,
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

    fn parts(&self) -> impl Iterator<Item = &'static Part> + use<> {
        self.pages.iter().flat_map(|page| page.parts)
    }

    /// Whether the page has it as text does: without links to the cells.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.rows, Rows::Reflectors(_))
    }

    /// As text; `None` without a row. Protocol and size lead only where they differ, of streams always.
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
        let mut ids: Vec<(&str, bool)> = Vec::new();
        for part in self.parts() {
            let (band, first) = (part.band(Place::Text), columns.count() + ids.len());
            ids.extend(part.ids(Place::Text).map(|id| (id, !band.is_empty())));
            bands.extend((!band.is_empty()).then(|| (first, columns.count() + ids.len() - 1, band.to_owned())));
        }
        let mut grid = columns
            .each(ids, |columns, (id, banded)| {
                let [title, unit] = heading(id, banded, self.room);
                columns.figures(title, unit, move |row| columns::cell(row.figures, &row.id(id), self.room))
            })
            .when(self.marked, |columns| columns.words("", |row| row.cell.mark.sign().to_owned()))
            .grid(rows);
        grid.bands.extend((!bands.is_empty()).then_some(bands));
        (!grid.rows.is_empty()).then_some(grid)
    }
}

const fn plain(ids: &'static str) -> Part {
    Part { bands: ["", ""], ids }
}

const fn banded(band: &'static str, ids: &'static str) -> Part {
    Part { bands: [band, band], ids }
}

/// What a round trip at a time shows, and the columns of the table of all cells.
const CLOSED: CellTable = CellTable {
    title: None,
    probe: Some(Probe::Pingpong),
    rows: Rows::Whole,
    pages: &[Page::of(&[plain("count mean stdev min p50 (p90) p99 p99.9 p99.99 (p99.999) max lost [transactions]")])],
    room: Room::Wide,
    marked: true,
};

const RR: CellTable = CellTable {
    probe: Some(Probe::Rr),
    pages: &[
        Page::of(&[plain("response transactions transactions-ci95"), banded("latency", "mean stdev p50 p99 max")]),
        Page {
            title: "rr: CPU",
            about: Some("what a transaction costs at both ends"),
            parts: &[
                banded("initiator", "initiator.machine initiator.demand initiator.process initiator.softirq"),
                banded("reflector", "reflector.machine reflector.demand reflector.process reflector.softirq"),
            ],
        },
    ],
    ..CLOSED
};

const PING: CellTable = CellTable {
    probe: Some(Probe::Ping),
    pages: &[Page::of(&[plain("count min mean max mdev p50 p99 p99.9 lost")])],
    ..CLOSED
};

const PACED: CellTable = CellTable {
    title: Some(|_| {
        "Messages at a rate, geometric mean of the repetitions: RTT from the actual send, from the intended send, and lateness"
            .to_owned()
    }),
    probe: Some(Probe::Pace),
    pages: &[Page::of(&[
        Part { bands: ["", "messages a second"], ids: "(asked) (achieved) [reached] [lost]" },
        Part { bands: ["RTT, actual send", "RTT from actual send"], ids: "p50 p99 p99.9 max" },
        Part {
            bands: ["intended", "RTT from intended send"],
            ids: "(intended.p50) intended.p99 intended.p99.9 (intended.max)",
        },
        Part { bands: ["late", "lateness"], ids: "(lateness.p50) lateness.p99 (lateness.max)" },
        plain("(lost) (gaps)"),
    ])],
    room: Room::Narrow,
    ..CLOSED
};

/// One-way times and the parts of the round trip. Only the figures of these are stored, and no histograms.
const ONE_WAY: CellTable = CellTable {
    title: Some(one_way_title),
    probe: None,
    rows: Rows::Reflectors(&[Group::OneWay, Group::Segments]),
    pages: &[Page {
        title: "One-way times and parts of the round trip",
        about: Some("times in µs"),
        parts: &[
            plain("out.p50 out.p99 back.p50 back.p99 one-way-error"),
            plain("send.p50 wire.p50 far-kernel.p50 far-application.p50 near-kernel.p50"),
        ],
    }],
    room: Room::Wide,
    marked: false,
};

/// What PGM repaired. Of the few messages that are repaired there is often no p99.
const PGM: CellTable = CellTable {
    title: Some(|_| {
        "PGM: loss and repair apart from the rest, RTT from the actual send (untouched: scheduling and the path alone)"
            .to_owned()
    }),
    rows: Rows::Reflectors(&[Group::Fates]),
    pages: &[Page {
        title: "PGM: loss and repair apart from the rest",
        about: Some(
            "RTT from the actual send in µs. Untouched: scheduling and the path alone. Held: arrived in time, and waited behind a repair",
        ),
        parts: &[
            banded("untouched", "untouched.messages untouched.p50 untouched.p99 untouched.max"),
            banded("held", "held.messages held.p50 held.max"),
            banded("repaired", "repaired.messages repaired.p50 repaired.max"),
            plain("pgm.missing pgm.naks-sent pgm.lost"),
        ],
    }],
    marked: false,
    ..PACED
};

const STREAMS: CellTable = CellTable {
    title: Some(|_| "Streams: payload and datagrams delivered, and RTT of a ping-pong beside them".to_owned()),
    probe: Some(Probe::Stream),
    rows: Rows::Directions,
    pages: &[
        Page::of(&[
            plain("up.bits up.datagrams (up.lost) up.loss up.reordered up.rfc3550-jitter up.retransmits"),
            Part { bands: ["", "TCP's RTT"], ids: "up.tcp-rtt up.tcp-rtt-max" },
        ]),
        Page {
            title: "stream: CPU and RTT",
            about: Some("what a KiB costs at both ends, and a ping-pong before and beside it"),
            parts: &[
                Part { bands: ["", "CPU at both ends"], ids: "(initiator.us-per-kib) (reflector.us-per-kib)" },
                Part { bands: ["", "RTT idle"], ids: "idle.p50 (idle.p99)" },
                Part { bands: ["", "RTT under load"], ids: "working.p50 working.p99" },
            ],
        },
    ],
    room: Room::Units,
    ..CLOSED
};

const WAKE: CellTable = CellTable {
    title: Some(|_| "Timer wake-ups, geometric mean of the repetitions: how late sleeping threads woke up".to_owned()),
    probe: Some(Probe::Wake),
    pages: &[Page::of(&[plain("count mean stdev min p50 (p90) p99 p99.9 p99.99 (p99.999) max wake.missed")])],
    room: Room::Narrow,
    ..CLOSED
};

const CYCLE: CellTable = CellTable {
    title: Some(|_| {
        "Cycles: missed deadlines of all repetitions, and geometric means of RTT from when a cycle was due and of wake-ups".to_owned()
    }),
    probe: Some(Probe::Cycle),
    pages: &[
        Page::of(&[
            plain("(cycle.cycles) cycle.misses cycle.longest-run (cycle.skipped) lost"),
            Part {
                bands: ["from due", "RTT from when it was due"],
                ids: "intended.p50 intended.p99 intended.p99.9 intended.max",
            },
            Part { bands: ["wake-up", "wake-up"], ids: "(lateness.p50) lateness.p99 (lateness.max)" },
        ]),
        Page {
            title: "cycle: CPU",
            about: Some("what a cycle costs at both ends"),
            parts: &[
                Part { bands: ["", "initiator"], ids: "(initiator.machine) (initiator.process) (initiator.softirq)" },
                Part { bands: ["", "reflector"], ids: "(reflector.machine) (reflector.process) (reflector.softirq)" },
            ],
        },
    ],
    room: Room::Narrow,
    ..CLOSED
};

/// In the order of text and of the page.
pub(crate) const ALL: [CellTable; 9] = [CLOSED, RR, PING, PACED, ONE_WAY, PGM, STREAMS, WAKE, CYCLE];

fn one_way_title(document: &Document) -> String {
    let rows = ONE_WAY.rows(document);
    let has = |id: &str| rows.iter().any(|row| row.figures.value(id).is_some());
    let parts = ONE_WAY.parts().skip(1).flat_map(|part| part.ids(Place::Text)).any(has);
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
    let of_cells = ALL.iter().filter_map(|table| Some((table.title?(document), table.grid(document)?)));
    of_cells.chain(beside::table(&document.cells)).chain(boot_tables::table(&document.boots)).collect()
}

/// A column of words or figures about a cell.
pub(crate) type Lead = (Column, fn(&CellInfo) -> String);

/// A row a cell of any probe: what leads it, the columns of [`CLOSED`], and what ends it. `wide`: with p99.99.
pub(crate) fn of_all(cells: &[CellInfo], wide: bool, leads: &[Lead], end: &Lead) -> Grid {
    let ids = CLOSED.parts().flat_map(|part| part.ids(Place::Text)).filter(|id| wide || *id != "p99.99");
    Columns::none()
        .each(leads, |columns, (column, read)| columns.column(column.clone(), |info: &&CellInfo| read(info)))
        .each(ids, |columns, id| {
            let [title, unit] = heading(id, true, Room::Wide);
            let columns = columns.figures(title, unit, move |info| columns::cell(&info.figures, id, Room::Wide));
            columns.when(id == "stdev", |columns| columns.words("mostly late by", |info| causes::mostly(info)))
        })
        .column(end.0.clone(), |info| end.1(info))
        .grid(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv_columns;
    use std::collections::BTreeSet;

    /// Catches: a figure that only one form has, and a misspelt id.
    #[test]
    fn every_column_is_in_csv_and_on_the_page() {
        let ids = |place| ALL.into_iter().flat_map(move |table| table.parts().flat_map(move |part| part.ids(place)));
        let (columns, on_page): (_, BTreeSet<&str>) = (csv_columns(), ids(Place::Page).collect());
        let (directions, text) = (["up.", "down."], ids(Place::Text).collect::<Vec<_>>());
        assert!(text.contains(&"wake.missed") && on_page.contains("wake.missed"));
        // The page has both rates of which `reached` is the share, and no room for it.
        let is_on_page = |id: &&str| on_page.contains(id) || (*id == "reached" && on_page.contains("achieved"));
        assert!(text.iter().all(is_on_page), "{text:?} and on the page {on_page:?}");
        for id in text.into_iter().chain(on_page).flat_map(|id| directions.map(|name| id.replace("up.", name))) {
            let quantity = quantity::find(&id).unwrap_or_else(|| panic!("no quantity {id}"));
            assert!(columns.contains(&quantity.csv_cells), "{id} has no column in csv-cells");
        }
    }
}
