//! What a schedule does against its rate: RTT, jitter, lateness, and the rate that was really sent.

use super::{Panel, Picture, panels};
use crate::Report;
use crate::cells::Cell;
use crate::document::{CellInfo, Mark};
use crate::names::rate_word;
use crate::svg::{Across, Domain, LineChart, Point, Series, Shown};
use crate::units::{count_tick, counted, span};

/// What a chart against rate shows.
#[derive(PartialEq, Eq)]
struct Shows {
    /// The id of the quantity.
    id: &'static str,
    /// In names of files.
    word: &'static str,
    name: &'static str,
}

const ALL: [Shows; 5] = [
    Shows { id: "p50", word: "rate-median", name: "Median RTT" },
    Shows { id: "intended.p99", word: "rate-intended", name: "p99 of RTT from the intended send time" },
    Shows { id: "stdev", word: "rate-jitter", name: "Jitter (standard deviation of RTT)" },
    Shows { id: "lateness.p99", word: "rate-lateness", name: "p99 of lateness (actual less intended send time)" },
    Shows { id: "achieved", word: "rate-achieved", name: "Messages a second sent" },
];

impl Shows {
    /// Whether it is a rate, and no time.
    fn is_rate(&self) -> bool {
        self.id == "achieved"
    }

    fn figure(&self, value: f64) -> String {
        if self.is_rate() { format!("{}/s", count_tick(value)) } else { span(value) }
    }
}

fn asked(info: &CellInfo) -> Option<f64> {
    info.value("asked").filter(|rate| *rate > 0.0)
}

/// The charts against rate, one panel a quantity, protocol and size. Empty with fewer than two rates.
pub(crate) fn by_rate(report: &Report) -> Vec<Picture> {
    let panels: Vec<Panel<'_>> = panels(
        &report.cells,
        |info| info.probe == "pace" && asked(info).is_some(),
        |info| vec![("size", info.size_bytes.to_string())],
    )
    .into_iter()
    .filter(|panel| panel.lines.values().any(|cells| cells.len() > 1))
    .collect();
    let shown = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let mut out = Vec::new();
    for quantity in &ALL {
        let values = shown().flat_map(|cell| {
            let range = cell.info.range(quantity.id);
            cell.info.value(quantity.id).into_iter().chain(range.into_iter().flatten())
        });
        // Both axes of the rate on one scale, so that what was asked for is a straight line.
        let rates = shown().filter_map(|cell| asked(&cell.info));
        let (domain, across) = if quantity.is_rate() {
            let both = Domain::of(values.chain(rates));
            (both, both)
        } else {
            (Domain::of(values), Domain::of(rates))
        };
        let (Some(domain), Some(across)) = (domain, across) else { continue };
        out.extend(panels.iter().enumerate().map(|(number, panel)| chart(panel, number, quantity, domain, across)));
    }
    out
}

fn chart(panel: &Panel<'_>, number: usize, quantity: &Shows, domain: Domain, across: Domain) -> Picture {
    let series: Vec<Series> = panel.lines.iter().map(|(style, cells)| line(panel, *style, cells, quantity)).collect();
    let scale = if domain.log { "logarithmic scale" } else { "scale from 0" };
    let words: Vec<String> = series
        .iter()
        .filter_map(|series| {
            let (first, last) = (series.points.first()?, series.points.last()?);
            let word = |point: &Point| format!("{} at {}", quantity.figure(point.y), rate_word(&point.x.to_string()));
            Some(format!("{}: {}, {}", series.label, word(first), word(last)))
        })
        .collect();
    let chart = LineChart {
        id: format!("{}-{number}", quantity.word),
        title: format!("{} against the rate asked for, {}", quantity.name, panel.heading),
        description: format!("{}. {}.", counted(series.len(), "line"), words.join("; ")),
        across: Across::Rate(across),
        shown: if quantity.is_rate() { Shown::Rate } else { Shown::Time },
        domain,
        series,
    };
    Picture { heading: format!("{} · {}, {scale}", panel.heading, quantity.name), svg: chart.svg() }
}

fn line(panel: &Panel<'_>, style: usize, cells: &[&Cell], quantity: &Shows) -> Series {
    let mut points: Vec<Point> = cells
        .iter()
        .filter_map(|cell| {
            let info = &cell.info;
            let (value, range) = (info.value(quantity.id), info.range(quantity.id));
            let (x, y) = (asked(info)?, value.filter(|value| *value > 0.0)?);
            let spread = range
                .map(|[low, high]| format!(", repetitions {} to {}", quantity.figure(low), quantity.figure(high)))
                .unwrap_or_default();
            let doubt = if info.mark == Mark::Invalid { " (!)" } else { "" };
            let (name, figure) = (quantity.name, quantity.figure(y));
            Some(Point {
                x,
                y,
                range: range.map(Into::into),
                trusted: info.mark != Mark::Invalid,
                tip: format!("{}: {name} {figure}{spread}{doubt}", info.label),
            })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let label = cells.first().map(|cell| panel.label(cell)).unwrap_or_default();
    Series { label, style, points }
}
