//! Quantities against message size and against the rate asked for, with a band for the range over repetitions.

use super::{Panel, Picture, Plotted, panels};
use crate::draw::chart::{Chart, Domain, Dot, Series, Ticks};
use crate::units::{count_tick, counted, figure, size, tick};
use digest::cells::Cell;
use digest::names::rate_word;
use digest::{CellInfo, Mark};
use model::quantity::{self, Quantity, Unit};
use model::{LatencyKind, Probe};
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    /// Message size of ping-pong in bytes, log2.
    Size,
    /// The rate asked for of `pace` in messages a second.
    Rate,
}

/// A quantity of `pingpong` against message size, one panel a protocol, all on one scale. Empty with fewer than two sizes.
pub(crate) fn by_size(plotted: &Plotted<'_>, id: &str) -> Vec<Picture> {
    charts(plotted, Against::Size, id)
}

/// What a schedule does, one panel a quantity, protocol and size. Empty with fewer than two rates.
pub(crate) fn by_rate(plotted: &Plotted<'_>) -> Vec<Picture> {
    let ids = ["p50", "intended.p99", "stdev", "lateness.p99", "achieved"];
    ids.into_iter().flat_map(|id| charts(plotted, Against::Rate, id)).collect()
}

impl Against {
    fn value(self, info: &CellInfo) -> Option<f64> {
        match self {
            Self::Size => (info.probe == Probe::Pingpong).then_some(info.size_bytes as f64),
            Self::Rate if info.probe == Probe::Pace => info.value("asked").filter(|rate| *rate > 0.0),
            Self::Rate => None,
        }
    }

    fn word(self, value: f64) -> String {
        match self {
            Self::Size => format!("{value} bytes"),
            Self::Rate => rate_word(&value.to_string()),
        }
    }
}

/// What a value is drawn against, the value, its range over repetitions, the cell.
type Point<'a> = (f64, f64, Option<[f64; 2]>, &'a CellInfo);

struct Points<'a> {
    name: String,
    style: usize,
    points: Vec<Point<'a>>,
}

fn charts(plotted: &Plotted<'_>, against: Against, id: &str) -> Vec<Picture> {
    let Some(quantity) = quantity::find(id) else { return Vec::new() };
    let apart = |info: &CellInfo| match against {
        Against::Size => Vec::new(),
        Against::Rate => vec![("size", info.size_bytes.to_string())],
    };
    let mut panels = panels(plotted.cells, |info| against.value(info).is_some(), apart);
    panels.retain(|panel| panel.lines.values().any(|cells| cells.len() > 1));
    let shown = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let values = shown().flat_map(|cell| {
        let range = cell.info.range(id).into_iter().flatten();
        cell.info.value(id).into_iter().chain(range)
    });
    let rates = shown().filter_map(|cell| Against::Rate.value(&cell.info));
    // What was sent and what was asked for on one scale: where both are the same is a straight line.
    let same = quantity.unit == Unit::PerSecond;
    let (domain, across) = if same {
        let both = Domain::of(values.chain(rates));
        (both, both)
    } else {
        (Domain::of(values), Domain::of(rates))
    };
    let Some(domain) = domain else { return Vec::new() };
    let kind = if against == Against::Size { plotted.kind } else { LatencyKind::Rtt };
    let name = quantity.name(kind);
    let draw = |panel: &Panel<'_>| {
        let lines: Vec<Points<'_>> =
            panel.lines.iter().map(|(style, cells)| points(panel, *style, cells, against, id)).collect();
        let sizes = lines.iter().flat_map(|line| &line.points).map(|(.., info)| info.size_bytes);
        let x =
            across.filter(|_| against == Against::Rate).map_or_else(|| Across::Sizes(sizes.collect()), Across::Rates);
        let (against_words, name_x) = match &x {
            Across::Sizes(_) => ("message size", "message size in bytes, log₂ scale (k = 1024)".to_owned()),
            Across::Rates(domain) => {
                ("the rate asked for", format!("messages a second asked for{} (k = 1000)", domain.scale()))
            }
        };
        let scale = if domain.log { "logarithmic scale" } else { "scale from 0" };
        let chart = Chart {
            title: format!("{name} against {against_words}, {}", panel.heading),
            description: describe(&lines, quantity, against),
            height: 268.0,
            ticks_x: x.ticks(),
            grid_x: matches!(x, Across::Rates(_)),
            name_x,
            ticks_y: domain.labelled(if same { count_tick } else { tick }),
            reference: if same { vec![(0.0, 0.0), (1.0, 1.0)] } else { Vec::new() },
            series: lines.iter().map(|line| series(line, quantity, &name, &x, domain)).collect(),
        };
        // What tells the pictures of a kind apart comes first.
        let heading = match against {
            Against::Size => format!("{} · {name}, {scale}", panel.heading),
            Against::Rate => format!("{name} · {}, {scale}", panel.heading),
        };
        Picture { heading, figure: chart.figure() }
    };
    panels.iter().map(draw).collect()
}

enum Across {
    Sizes(BTreeSet<u64>),
    Rates(Domain),
}

impl Across {
    fn at(&self, value: f64) -> f64 {
        match self {
            Self::Sizes(sizes) => {
                // 0 bytes stand one step left of 1 byte.
                let log2 = |bytes: f64| if bytes > 0.0 { bytes.log2() } else { -1.0 };
                let [low, high] = [sizes.first(), sizes.last()].map(|end| end.map_or(0.0, |bytes| log2(*bytes as f64)));
                let share = if high > low { (log2(value) - low) / (high - low) } else { 0.5 };
                // A little room on both sides keeps signs off the frame.
                0.02 + 0.96 * share
            }
            Self::Rates(domain) => domain.at(value).clamp(0.0, 1.0),
        }
    }

    fn ticks(&self) -> Ticks {
        match self {
            Self::Rates(domain) => domain.labelled(count_tick),
            Self::Sizes(sizes) => {
                // Powers of two first: 1472 and 1473 bytes may find no room beside 1k and 2k.
                let power = |bytes: &&u64| **bytes == 0 || bytes.is_power_of_two();
                let few = sizes.iter().filter(power).count() < 3;
                let wanted = sizes.iter().filter(|bytes| few || power(bytes));
                wanted.map(|bytes| (self.at(*bytes as f64), size(*bytes))).collect()
            }
        }
    }
}

fn points<'a>(panel: &Panel<'_>, style: usize, cells: &[&'a Cell], against: Against, id: &str) -> Points<'a> {
    let point = |cell: &&'a Cell| {
        let info = &cell.info;
        Some((against.value(info)?, info.value(id).filter(|value| *value > 0.0)?, info.range(id), info))
    };
    let mut points: Vec<_> = cells.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Points { name: cells.first().map(|cell| panel.label(cell)).unwrap_or_default(), style, points }
}

fn series(line: &Points<'_>, quantity: &Quantity, name: &str, across: &Across, domain: Domain) -> Series {
    let at = |x: f64, y: f64| (across.at(x), domain.at(y).clamp(0.0, 1.0));
    let words = |value: f64| figure(quantity.unit, value);
    let dot = |(x, y, range, info): &Point<'_>| {
        let spread = range.map(|[low, high]| format!(", repetitions {} to {}", words(low), words(high)));
        let trusted = info.mark != Mark::Invalid;
        let doubt = if trusted { "" } else { " (!)" };
        let (label, bytes, spread) = (&info.label, info.size_bytes, spread.unwrap_or_default());
        Dot { at: at(*x, *y), trusted, tip: format!("{label}: {bytes} B, {name} {}{spread}{doubt}", words(*y)) }
    };
    let ranges: Vec<_> = line.points.iter().filter_map(|(x, _, range, _)| Some((*x, (*range)?))).collect();
    let upper = ranges.iter().map(|(x, [_, high])| at(*x, *high));
    let lower = ranges.iter().rev().map(|(x, [low, _])| at(*x, *low));
    let dots: Vec<Dot> = line.points.iter().map(dot).collect();
    let curve: Vec<(f64, f64)> = dots.iter().map(|dot| dot.at).collect();
    Series {
        name: line.name.clone(),
        style: line.style,
        tip: line.name.clone(),
        band: upper.chain(lower).collect(),
        end: curve.last().copied().unwrap_or((1.0, 1.0)),
        curve,
        dots,
        thin: Vec::new(),
    }
}

fn describe(lines: &[Points<'_>], quantity: &Quantity, against: Against) -> String {
    let word = |(x, y, ..): &Point<'_>| format!("{} at {}", figure(quantity.unit, *y), against.word(*x));
    let words = lines.iter().filter_map(|line| {
        Some(format!("{}: {}, {}", line.name, word(line.points.first()?), word(line.points.last()?)))
    });
    format!("{}. {}.", counted(lines.len(), "line"), words.collect::<Vec<_>>().join("; "))
}
