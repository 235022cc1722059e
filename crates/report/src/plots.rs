//! Which charts a report has, and what they show: time and jitter against message size, and the tail.

use crate::Report;
use crate::cells::Cell;
use crate::document::{CellInfo, Mark, Spread};
use crate::names::{label_word, measured_on, rank};
use crate::svg::{Curve, Domain, LineChart, Point, Series, TailChart};
use crate::units::{counted, span, spans};
use model::Substrate;
use std::collections::{BTreeMap, BTreeSet};

/// One picture with what stands above and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) heading: String,
    pub(crate) svg: String,
}

/// A panel with more lines than this is split by load.
const MOST_LINES: usize = 6;

/// Cells of one panel: what it shows, and its cells by row.
struct Panel<'a> {
    heading: String,
    protocol: String,
    /// The word that the heading says for all lines, so that labels need not.
    said: Option<String>,
    rows: BTreeMap<usize, Vec<&'a Cell>>,
}

/// The panels of ping-pong: one a substrate and protocol, and one a load where that is too many lines.
fn panels(cells: &[Cell], keep: impl Fn(&CellInfo) -> bool) -> Vec<Panel<'_>> {
    let mut groups: BTreeMap<(Substrate, (usize, String)), Vec<&Cell>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.info.probe == "pingpong" && keep(&cell.info)) {
        groups.entry((cell.info.substrate, rank("protocol", &cell.info.protocol))).or_default().push(cell);
    }
    let substrates: BTreeSet<Substrate> = groups.keys().map(|(substrate, _)| *substrate).collect();
    let mut out = Vec::new();
    for ((substrate, (_, protocol)), members) in groups {
        let rows: BTreeSet<usize> = members.iter().map(|cell| cell.info.row).collect();
        let load = |cell: &Cell| cell.info.factors.get("load").cloned().unwrap_or_default();
        let mut parts: BTreeMap<Option<(usize, String)>, Vec<&Cell>> = BTreeMap::new();
        for cell in members {
            let part = (rows.len() > MOST_LINES).then(|| rank("load", &load(cell)));
            parts.entry(part).or_default().push(cell);
        }
        for (part, members) in parts {
            let mut heading = protocol.to_uppercase();
            let said = part.map(|(_, load)| label_word("load", &load));
            if let Some(load) = &said {
                heading.push_str(&format!(", {load}"));
            }
            if substrates.len() > 1 {
                heading.push_str(&format!(", measured {}", measured_on(substrate)));
            }
            let mut rows: BTreeMap<usize, Vec<&Cell>> = BTreeMap::new();
            for cell in members {
                rows.entry(cell.info.row).or_default().push(cell);
            }
            out.push(Panel { heading, protocol: protocol.clone(), said, rows });
        }
    }
    out
}

impl Panel<'_> {
    /// A row's label without the word that the heading has.
    fn label(&self, info: &CellInfo) -> String {
        let words: Vec<&str> = info.label.split(" · ").filter(|word| Some(*word) != self.said.as_deref()).collect();
        if words.is_empty() { info.label.clone() } else { words.join(" · ") }
    }
}

/// What a size chart shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Time,
    Jitter,
}

impl Quantity {
    fn of(self, info: &CellInfo) -> (Option<f64>, Option<Spread>) {
        match self {
            Self::Time => (info.mean_ns, info.mean_range),
            Self::Jitter => (info.stdev_ns, info.stdev_range),
        }
    }
}

/// Time or jitter against message size, one panel a protocol, all on one scale. Empty with fewer than two sizes.
pub(crate) fn by_size(report: &Report, quantity: Quantity) -> Vec<Picture> {
    let kind = report.document.kind.title();
    let panels: Vec<Panel<'_>> = panels(&report.cells, |_| true)
        .into_iter()
        .filter(|panel| panel.rows.values().any(|cells| cells.len() > 1))
        .collect();
    let shown = || panels.iter().flat_map(|panel| panel.rows.values().flatten());
    let values = shown().flat_map(|cell| {
        let (value, range) = quantity.of(&cell.info);
        [value, range.map(|range| range.low_ns), range.map(|range| range.high_ns)].into_iter().flatten()
    });
    let Some(domain) = Domain::of(values) else { return Vec::new() };
    let (word, name) = match quantity {
        Quantity::Time => ("time", format!("Mean {kind}")),
        Quantity::Jitter => ("jitter", format!("Jitter (standard deviation of {kind})")),
    };
    panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            let series: Vec<Series> =
                panel.rows.iter().map(|(row, cells)| line(panel, *row, cells, quantity, kind)).collect();
            let scale = if domain.log { "logarithmic scale" } else { "scale from 0" };
            let chart = LineChart {
                id: format!("{word}-{number}"),
                title: format!("{name} against message size, {}", panel.heading),
                description: describe(&series, &panel.protocol),
                domain,
                series,
            };
            Picture { heading: format!("{} · {name}, {scale}", panel.heading), svg: chart.svg() }
        })
        .collect()
}

fn line(panel: &Panel<'_>, row: usize, cells: &[&Cell], quantity: Quantity, kind: &str) -> Series {
    let points = cells
        .iter()
        .filter_map(|cell| {
            let info = &cell.info;
            let (value, range) = quantity.of(info);
            let ns = value.filter(|ns| *ns > 0.0)?;
            let spread = range
                .map(|range| format!(", repetitions {}", spans(range.low_ns, "to", range.high_ns)))
                .unwrap_or_default();
            let doubt = if info.mark == Mark::Invalid { " (!)" } else { "" };
            Some(Point {
                bytes: info.size_bytes,
                ns,
                range: range.map(|range| (range.low_ns, range.high_ns)),
                trusted: info.mark != Mark::Invalid,
                tip: format!("{}: {} B, {kind} {}{spread}{doubt}", info.label, info.size_bytes, span(ns)),
            })
        })
        .collect();
    let label = cells.first().map(|cell| panel.label(&cell.info)).unwrap_or_default();
    Series { label, style: row, points }
}

/// The picture in words, for those who cannot see it.
fn describe(series: &[Series], protocol: &str) -> String {
    let lines: Vec<String> = series
        .iter()
        .filter_map(|series| {
            let (first, last) = (series.points.first()?, series.points.last()?);
            Some(format!(
                "{}: {} at {} bytes, {} at {} bytes",
                series.label,
                span(first.ns),
                first.bytes,
                span(last.ns),
                last.bytes
            ))
        })
        .collect();
    format!("{} over {}. {}.", counted(series.len(), "line"), protocol.to_uppercase(), lines.join("; "))
}

/// The tail of the distributions at the table's message size, one panel a protocol, all on one scale.
pub(crate) fn tails(report: &Report) -> Vec<Picture> {
    let size = report.document.size_bytes;
    let kind = report.document.kind.title();
    let panels: Vec<Panel<'_>> = panels(&report.cells, |info| info.size_bytes == size)
        .into_iter()
        .filter(|panel| panel.rows.values().flatten().any(|cell| !cell.points.is_empty()))
        .collect();
    let counts = |cell: &Cell| -> Vec<(f64, u64)> {
        cell.points.iter().map(|(ns, count)| (*ns as f64 * cell.of_rtt, *count)).collect()
    };
    let shown = || panels.iter().flat_map(|panel| panel.rows.values().flatten());
    let low = shown().filter_map(|cell| counts(cell).first().map(|(ns, _)| *ns)).reduce(f64::min);
    let high = shown().filter_map(|cell| counts(cell).last().map(|(ns, _)| *ns)).reduce(f64::max);
    let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
    let domain = Domain::log(low.max(1.0), high.max(low.max(1.0) * 1.5));
    let most = shown().map(|cell| cell.points.iter().map(|(_, count)| count).sum::<u64>()).max().unwrap_or(1);
    let depth = most.max(10).ilog10() + u32::from(!is_power_of_ten(most.max(10)));
    panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            let curves: Vec<Curve> = panel
                .rows
                .iter()
                .filter_map(|(row, cells)| {
                    let cell = cells.iter().find(|cell| !cell.points.is_empty())?;
                    Some(Curve {
                        label: panel.label(&cell.info),
                        style: *row,
                        counts: counts(cell),
                        tip: tip(&cell.info),
                    })
                })
                .collect();
            let words: Vec<String> = curves.iter().map(|curve| curve.tip.clone()).collect();
            let chart = TailChart {
                id: format!("tail-{number}"),
                title: format!("Tail of {kind} at {size} bytes, {}", panel.heading),
                description: format!("{}.", words.join("; ")),
                quantity: kind.to_owned(),
                domain,
                depth,
                curves,
            };
            Picture {
                heading: format!("{} · share of messages that took longer, {size} bytes", panel.heading),
                svg: chart.svg(),
            }
        })
        .collect()
}

fn is_power_of_ten(value: u64) -> bool {
    10u64.checked_pow(value.max(1).ilog10()) == Some(value)
}

/// One distribution in a line.
pub(crate) fn tip(info: &CellInfo) -> String {
    let figures = [
        ("p50", info.p50_ns),
        ("p99", info.p99_ns),
        ("p99.9", info.p99_9_ns),
        ("p99.99", info.p99_99_ns),
        ("max", info.max_ns),
    ];
    let words: Vec<String> =
        figures.iter().filter_map(|(name, ns)| ns.map(|ns| format!("{name} {}", span(ns)))).collect();
    format!("{}: {} {}", info.label, info.kind.title(), words.join(", "))
}
