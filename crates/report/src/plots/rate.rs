//! What a schedule does against its rate: RTT, jitter, lateness, and the rate that was really sent.

use super::{Panel, Picture, panels};
use crate::Report;
use crate::cells::Cell;
use crate::document::{CellInfo, Mark, Spread};
use crate::names::rate_word;
use crate::svg::{Across, Domain, LineChart, Point, Series, Shown};
use crate::units::{count_tick, counted, span};

/// What a chart against rate shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Median,
    Intended,
    Jitter,
    Lateness,
    Achieved,
}

impl Quantity {
    const ALL: [Self; 5] = [Self::Median, Self::Intended, Self::Jitter, Self::Lateness, Self::Achieved];

    fn id(self) -> &'static str {
        match self {
            Self::Median => "rate-median",
            Self::Intended => "rate-intended",
            Self::Jitter => "rate-jitter",
            Self::Lateness => "rate-lateness",
            Self::Achieved => "rate-achieved",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Median => "Median RTT",
            Self::Intended => "p99 of RTT from the intended send time",
            Self::Jitter => "Jitter (standard deviation of RTT)",
            Self::Lateness => "p99 of lateness (actual less intended send time)",
            Self::Achieved => "Messages a second sent",
        }
    }

    fn of(self, info: &CellInfo) -> (Option<f64>, Option<Spread>) {
        let pace = info.pace.as_ref();
        match self {
            Self::Median => (info.p50_ns, info.p50_range),
            Self::Jitter => (info.stdev_ns, info.stdev_range),
            Self::Intended => {
                let own = pace.and_then(|pace| pace.intended);
                (own.and_then(|own| own.p99_ns), own.and_then(|own| own.p99_range))
            }
            Self::Lateness => {
                let own = pace.and_then(|pace| pace.lateness);
                (own.and_then(|own| own.p99_ns), own.and_then(|own| own.p99_range))
            }
            Self::Achieved => {
                let range = pace.and_then(|pace| pace.achieved_range);
                let range = range.map(|[low, high]| Spread { low_ns: low, high_ns: high });
                (pace.map(|pace| pace.achieved_pps), range)
            }
        }
    }

    fn figure(self, value: f64) -> String {
        if self == Self::Achieved { format!("{}/s", count_tick(value)) } else { span(value) }
    }
}

fn asked(info: &CellInfo) -> Option<f64> {
    info.pace.as_ref().map(|pace| pace.asked_pps).filter(|rate| *rate > 0.0)
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
    for quantity in Quantity::ALL {
        let values = shown().flat_map(|cell| {
            let (value, range) = quantity.of(&cell.info);
            [value, range.map(|range| range.low_ns), range.map(|range| range.high_ns)].into_iter().flatten()
        });
        // Both axes of the rate on one scale, so that what was asked for is a straight line.
        let rates = shown().filter_map(|cell| asked(&cell.info));
        let (domain, across) = if quantity == Quantity::Achieved {
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

fn chart(panel: &Panel<'_>, number: usize, quantity: Quantity, domain: Domain, across: Domain) -> Picture {
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
        id: format!("{}-{number}", quantity.id()),
        title: format!("{} against the rate asked for, {}", quantity.name(), panel.heading),
        description: format!("{}. {}.", counted(series.len(), "line"), words.join("; ")),
        across: Across::Rate(across),
        shown: if quantity == Quantity::Achieved { Shown::Rate } else { Shown::Time },
        domain,
        series,
    };
    Picture { heading: format!("{} · {}, {scale}", panel.heading, quantity.name()), svg: chart.svg() }
}

fn line(panel: &Panel<'_>, style: usize, cells: &[&Cell], quantity: Quantity) -> Series {
    let mut points: Vec<Point> = cells
        .iter()
        .filter_map(|cell| {
            let info = &cell.info;
            let (value, range) = quantity.of(info);
            let (x, y) = (asked(info)?, value.filter(|value| *value > 0.0)?);
            let spread = range
                .map(|range| {
                    format!(", repetitions {} to {}", quantity.figure(range.low_ns), quantity.figure(range.high_ns))
                })
                .unwrap_or_default();
            let doubt = if info.mark == Mark::Invalid { " (!)" } else { "" };
            let (name, figure) = (quantity.name(), quantity.figure(y));
            Some(Point {
                x,
                y,
                range: range.map(|range| (range.low_ns, range.high_ns)),
                trusted: info.mark != Mark::Invalid,
                tip: format!("{}: {name} {figure}{spread}{doubt}", info.label),
            })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let label = cells.first().map(|cell| panel.label(cell)).unwrap_or_default();
    Series { label, style, points }
}
