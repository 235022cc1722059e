//! The figures of each repetition of a cell, as tables.

use crate::draw::heat;
use crate::html::heat::CellMaps;
use crate::layout::{Column, Columns, Grid};
use crate::result_tables::{self, About, Keys, Shape, rows};
use crate::units::{commas, plain, span, us_or_dash};
use digest::RunInput;
use model::quantity::Group;
use model::result::Outlier;
use model::{OneWay, OneWayMethod, ResultDocument, Statistic};
use serde::Serialize;
use std::collections::BTreeMap;

const WORST: usize = 12;

#[derive(Serialize)]
pub(super) struct Table {
    caption: String,
    /// The heading of each column, and its class: `word`, `last` of words that end a row, or nothing.
    columns: Vec<(String, &'static str)>,
    pub(super) rows: Vec<Vec<String>>,
    /// Where the first word of each row leads.
    links: Vec<String>,
}

/// What tells the results of a cell apart: the number of the repetition.
const KEYS: Keys = (
    || vec![Column::words("rep.")],
    |result| {
        let sign = if result.verdict.trusted { "" } else { " !" };
        vec![result.repetition.map_or_else(|| format!("–{sign}"), |repetition| format!("{repetition}{sign}"))]
    },
);

impl Table {
    fn new(caption: &str, grid: Grid) -> Self {
        let words = grid.columns.iter().take_while(|column| !column.right).count();
        let class = |(place, column): (usize, &Column)| match column.right {
            true => "",
            false if place < words => "word",
            false => "last",
        };
        let heads = grid.columns.iter().map(|column| column.heading.join(" ").trim().to_owned());
        Self {
            caption: caption.to_owned(),
            columns: heads.zip(grid.columns.iter().enumerate().map(class)).collect(),
            rows: grid.rows,
            links: Vec::new(),
        }
    }

    /// The same as tables of few columns, each with the words that lead: a page is no wider than a window.
    fn narrow(self) -> Vec<Self> {
        const MOST: usize = 8;
        let words = self.columns.iter().take_while(|(_, class)| *class == "word").count();
        let figures: Vec<usize> = (words..self.columns.len()).collect();
        if figures.len() <= MOST || self.rows.is_empty() {
            return vec![self];
        }
        let each = figures.len().div_ceil(figures.len().div_ceil(MOST));
        let of = |(number, chosen): (usize, &[usize])| {
            let shown: Vec<usize> = (0..words).chain(chosen.iter().copied()).collect();
            Self {
                caption: if number == 0 { self.caption.clone() } else { format!("{}, continued", self.caption) },
                columns: shown.iter().map(|at| self.columns[*at].clone()).collect(),
                rows: self.rows.iter().map(|row| shown.iter().map(|at| row[*at].clone()).collect()).collect(),
                links: self.links.clone(),
            }
        };
        figures.chunks(each).enumerate().map(of).collect()
    }
}

const TIMES: [Group; 9] = [
    Group::Latency,
    Group::Intended,
    Group::Lateness,
    Group::Corrected,
    Group::Working,
    Group::OneWay,
    Group::Segments,
    Group::Fates,
    Group::Steps,
];

pub(super) fn distributions(results: &[&ResultDocument]) -> Table {
    let mut grid = Grid { columns: [(KEYS.0)(), vec![Column::words("")]].concat(), ..Grid::default() };
    grid.columns.push(Column::figures("messages", ""));
    grid.columns.extend(Statistic::IN_TABLES.map(|statistic| Column::figures(statistic.word(), "")));
    for result in results {
        for (host, distribution, times) in result_tables::distributions(result, &TIMES) {
            let mut name = distribution.heading(times.kind());
            match distribution.group() {
                Group::OneWay => name = format!("one way {name}{}", error_words(result)),
                Group::Segments => name.push_str(&stamps_words(result, distribution.id)),
                _ => {}
            }
            name.extend(host.map(|host| format!(", {}", plain(host))));
            let figures = result_tables::statistics(times, &Statistic::IN_TABLES);
            grid.rows.push([(KEYS.1)(result), vec![name], figures].concat());
        }
    }
    Table::new("All distributions, in µs", grid)
}

fn error_words(result: &ResultDocument) -> String {
    let one_way = result.one_way.as_ref().filter(|one_way| one_way.method != OneWayMethod::SameClock);
    let words = |one_way: &OneWay| format!(" (±{}, {} stamps)", span(one_way.error_ns as f64), one_way.stamps);
    one_way.map(words).unwrap_or_default()
}

fn stamps_words(result: &ResultDocument, name: &str) -> String {
    let segment = result.segments.iter().find(|segment| segment.name.word() == name);
    segment.map(|segment| format!(" ({} stamps)", segment.stamps)).unwrap_or_default()
}

/// What is counted: messages, the schedule, packets of PGM, streams, and what each end cost and dropped.
pub(super) fn counts(results: &[&ResultDocument]) -> Vec<Table> {
    const TABLES: [(&str, About, Group, bool); 6] = [
        ("Messages", About::WholeAndReflectors, Group::Messages, true),
        ("The schedule", About::Whole, Group::Schedule, true),
        ("PGM: packets at each end; what is 0 at all of them is left out", About::PgmEnds, Group::Pgm, false),
        ("Bulk data; jitter is that of RFC 3550", About::Directions, Group::Flows, true),
        ("CPU and scheduling of both ends", About::Ends, Group::Cpu, true),
        ("Dropped at both ends, as far as anything was", About::Ends, Group::Drops, false),
    ];
    let saturated = |result: &ResultDocument| {
        let found = result.rate.as_ref()?.saturated.as_ref()?;
        Some(plain(&format!("{}: {}", found.who, found.why)))
    };
    let table = |(caption, about, group, zeros): (&str, About, Group, bool)| {
        let shape = Shape { about, heading: "", zeros, marked: false };
        let mut grid = rows(results, KEYS, shape, &about.quantities(&[group]));
        if group == Group::Schedule && results.iter().any(|result| saturated(result).is_some()) {
            grid.columns.push(Column::words("could not keep up"));
            for (row, result) in grid.rows.iter_mut().zip(results.iter().filter(|result| result.rate.is_some())) {
                row.push(saturated(result).unwrap_or_else(|| "–".to_owned()));
            }
        }
        Table::new(caption, grid).narrow()
    };
    TABLES.into_iter().flat_map(table).collect()
}

/// The worst messages: of the repetitions that have maps from there, of others from the cell's file.
pub(super) fn worst(
    run: &RunInput,
    members: &[(usize, &ResultDocument)],
    maps: &[(&ResultDocument, &CellMaps)],
) -> Option<Table> {
    let mut all: Vec<Message<'_>> = Vec::new();
    for (result, of_result) in maps {
        all.extend(of_result.outliers.iter().map(|outlier| (*result, Some(of_result.id.as_str()), outlier.clone())));
    }
    if maps.is_empty() {
        let folder = run.folder.as_deref()?;
        for (member, result) in members {
            let Some(step) = run.steps.get(*member) else { continue };
            let kept = store::outliers(folder, step.index).unwrap_or_default();
            all.extend(kept.into_iter().map(|outlier| (*result, None, outlier)));
        }
    }
    let mut all = one_of_each_stall(all);
    all.sort_by_key(|((result, _, outlier), _)| {
        (
            outlier.lost,
            std::cmp::Reverse(outlier.rtt_ns.saturating_add(outlier.lateness_ns)),
            result.repetition,
            outlier.seq,
        )
    });
    let more = match all.len().saturating_sub(WORST) {
        0 => String::new(),
        left_out => format!("; {} more stalls in the run directory", commas(left_out as u64)),
    };
    all.truncate(WORST);
    type Row<'r, 'a> = &'r (Message<'a>, usize);
    let time = |ns: u64| format!("{:.6}", ns as f64 / 1e9);
    let grid = Columns::none()
        .words("message", |((.., outlier), _): &Row<'_, '_>| commas(outlier.seq))
        .figures("in its stall", "", |(_, messages)| commas(*messages as u64))
        .figures("rep.", "", |((result, ..), _)| (KEYS.1)(result).concat())
        .figures("intended", "", |((.., outlier), _)| time(outlier.at_ns.saturating_sub(outlier.lateness_ns)))
        .figures("sent", "", |((.., outlier), _)| time(outlier.at_ns))
        .figures("received", "", |((.., outlier), _)| match outlier.lost {
            true => "lost".to_owned(),
            false => time(outlier.at_ns.saturating_add(outlier.rtt_ns)),
        })
        .figures("RTT", "", |((.., outlier), _)| us_or_dash((!outlier.lost).then_some(outlier.rtt_ns as f64)))
        .figures("late", "", |((.., outlier), _)| us_or_dash(Some(outlier.lateness_ns as f64)))
        .words("parts", |((.., outlier), _)| {
            let parts = outlier.parts_ns.iter().map(|(name, ns)| format!("{} {}", plain(name), span(*ns as f64)));
            let host = outlier.host.as_deref().map(plain).unwrap_or_default();
            [parts.collect::<Vec<_>>().join(", "), host].join(" ").trim().to_owned()
        })
        .grid(&all);
    let caption =
        format!("Worst messages, one of each stall, times in s since the first message, RTT and lateness in µs{more}");
    let link = |map: &Option<&str>, outlier| map.map(|map| at_message(map, outlier)).unwrap_or_default();
    let links = all.iter().map(|((_, map, outlier), _)| link(map, outlier)).collect();
    Some(Table { links, ..Table::new(&caption, grid) })
}

/// A kept message: the result that it is of, the map that shows it.
type Message<'a> = (&'a ResultDocument, Option<&'a str>, Outlier);

/// The worst message of each stall, and how many were kept of that.
fn one_of_each_stall(all: Vec<Message<'_>>) -> Vec<(Message<'_>, usize)> {
    let mut worst: Vec<(Message<'_>, usize)> = Vec::new();
    let mut rest = all;
    while let Some((result, _, first)) = rest.first() {
        let (result, lost) = (std::ptr::from_ref(*result), first.lost);
        let (same, others) = rest.into_iter().partition(|(of, _, one)| std::ptr::eq(*of, result) && one.lost == lost);
        rest = others;
        let same: Vec<Message<'_>> = same;
        let stalls = heat::together(&same.iter().map(|(.., one)| heat::way(one)).collect::<Vec<_>>());
        let mut found: BTreeMap<usize, (Message<'_>, usize)> = BTreeMap::new();
        let ns =
            |outlier: &Outlier| (outlier.rtt_ns.saturating_add(outlier.lateness_ns), std::cmp::Reverse(outlier.seq));
        for (stall, message) in stalls.into_iter().zip(same) {
            match found.get_mut(&stall) {
                Some((known, count)) => {
                    *count += 1;
                    if ns(&message.2) > ns(&known.2) {
                        *known = message;
                    }
                }
                None => {
                    found.insert(stall, (message, 1));
                }
            }
        }
        worst.extend(found.into_values());
    }
    worst
}

/// The place of a message in the viewer: its neighbourhood, with the message picked.
fn at_message(map: &str, outlier: &Outlier) -> String {
    let at = outlier.at_ns.saturating_sub(outlier.lateness_ns) as f64 / 1e9;
    format!("#heat={map}&q=rtt_intended&t={:.3},{:.3}&pick={}", (at - 1.0).max(0.0), at + 1.0, outlier.seq)
}
