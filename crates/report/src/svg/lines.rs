//! Line charts of a quantity against message size or rate, with a band for the range over repetitions.

use super::frame::{Plot, axis_x, axis_y, text_width};
use super::key::{Name, Names, ROOM};
use super::scale::{Domain, size_position};
use super::{Anchor, Svg, series_class, xy};
use crate::units::{count_tick, size, tick};
use std::collections::BTreeSet;

/// One point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// Bytes, or messages a second.
    pub(crate) x: f64,
    /// ns, or messages a second.
    pub(crate) y: f64,
    /// Smallest and largest value over the repetitions.
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) trusted: bool,
    pub(crate) tip: String,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) style: usize,
    pub(crate) points: Vec<Point>,
}

/// What a chart is drawn against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Across {
    /// Message size in bytes, log2.
    Size,
    /// Messages a second asked for.
    Rate(Domain),
}

/// What a chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Times in ns.
    Time,
    /// Messages a second, with a line where as many were sent as were asked for.
    Rate,
}

/// A chart of a quantity against message size or rate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineChart {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) across: Across,
    pub(crate) shown: Shown,
    pub(crate) domain: Domain,
    pub(crate) series: Vec<Series>,
}

const WIDTH: f64 = 600.0;
const PLOT: f64 = 268.0;
const TOP: f64 = 14.0;

impl LineChart {
    pub(crate) fn svg(&self) -> String {
        let labels = self.series.iter().map(|series| series.label.as_str());
        let names = Names::of(labels, ROOM, PLOT, WIDTH - 62.0);
        let height = TOP + PLOT + names.height(self.series.len());
        let mut svg = Svg::new(&self.id, WIDTH, height, &self.title, &self.description);
        let plot = Plot { left: 62.0, top: TOP, right: WIDTH - names.beside() - 8.0, bottom: TOP + PLOT };
        let word: fn(f64) -> String = if self.shown == Shown::Time { tick } else { count_tick };
        axis_y(&mut svg, &plot, &self.domain, word);
        let sizes: BTreeSet<u64> = self.series.iter().flat_map(|series| &series.points).map(|p| bytes(p.x)).collect();
        let (low, high) = match (sizes.first(), sizes.last()) {
            (Some(first), Some(last)) => (size_position(*first), size_position(*last)),
            _ => (0.0, 1.0),
        };
        let at = |x: f64| match &self.across {
            Across::Size => {
                let share = if high > low { (size_position(bytes(x)) - low) / (high - low) } else { 0.5 };
                // A little room on both sides keeps signs off the frame.
                plot.x(0.02 + 0.96 * share)
            }
            Across::Rate(domain) => plot.x(domain.at(x).clamp(0.0, 1.0)),
        };
        match &self.across {
            Across::Size => size_axis(&mut svg, &plot, &sizes, |size| at(size as f64)),
            Across::Rate(domain) => {
                axis_x(&mut svg, &plot, domain, count_tick);
                let scale = if domain.log { ", log scale" } else { "" };
                let name = format!("messages a second asked for{scale} (k = 1000)");
                svg.text("axis-name", plot.x(0.5), plot.bottom + 38.0, Anchor::Middle, &name);
            }
        }
        if let (Shown::Rate, Across::Rate(domain)) = (self.shown, &self.across) {
            self.diagonal(&mut svg, &plot, domain);
        }
        for series in &self.series {
            self.draw(&mut svg, &plot, series, at);
        }
        let ends: Vec<Name<'_>> = self
            .series
            .iter()
            .map(|series| {
                let end = series.points.last();
                let end = end.map(|p| (at(p.x), plot.y(self.domain.at(p.y).clamp(0.0, 1.0))));
                (series.label.as_str(), series.style, end.unwrap_or((plot.right, plot.top)))
            })
            .collect();
        names.draw(&mut svg, &plot, WIDTH, &ends);
        svg.finish()
    }

    /// Where as many were sent as were asked for: straight, as both axes have the same scale.
    fn diagonal(&self, svg: &mut Svg, plot: &Plot, domain: &Domain) {
        let (low, high) = (domain.low.max(self.domain.low), domain.high.min(self.domain.high));
        let at = |value: f64| (plot.x(domain.at(value)), plot.y(self.domain.at(value)));
        let ((x1, y1), (x2, y2)) = (at(low), at(high));
        svg.line("axis ideal", x1, y1, x2, y2);
    }

    fn draw(&self, svg: &mut Svg, plot: &Plot, series: &Series, at: impl Fn(f64) -> f64) {
        let class = series_class(series.style);
        let y = |value: f64| plot.y(self.domain.at(value).clamp(0.0, 1.0));
        svg.open(&format!("series {class}"), &series.label);
        let banded: Vec<&Point> = series.points.iter().filter(|point| point.range.is_some()).collect();
        if banded.len() > 1 {
            let upper = banded.iter().map(|p| (at(p.x), y(p.range.map_or(p.y, |range| range.1))));
            let lower = banded.iter().rev().map(|p| (at(p.x), y(p.range.map_or(p.y, |range| range.0))));
            let outline: Vec<String> = upper.chain(lower).map(|(x, y)| format!("{} {}", xy(x), xy(y))).collect();
            svg.path("band", &format!("M{}Z", outline.join("L")));
        } else {
            for point in &banded {
                let (low, high) = point.range.unwrap_or((point.y, point.y));
                svg.line("whisker", at(point.x), y(low), at(point.x), y(high));
            }
        }
        let middle: Vec<String> =
            series.points.iter().map(|point| format!("{} {}", xy(at(point.x)), xy(y(point.y)))).collect();
        if middle.len() > 1 {
            svg.path("curve", &format!("M{}", middle.join("L")));
        }
        for point in &series.points {
            let class = if point.trusted { "dot" } else { "dot untrusted" };
            svg.marker(class, series.style, at(point.x), y(point.y), &point.tip);
        }
        svg.close();
    }
}

/// A size as it was given; positions of points are numbers of all kinds.
fn bytes(x: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes; `as` saturates")]
    let bytes = x.round().max(0.0) as u64;
    bytes
}

fn size_axis(svg: &mut Svg, plot: &Plot, sizes: &BTreeSet<u64>, at: impl Fn(u64) -> f64) {
    let mut free = f64::NEG_INFINITY;
    // Powers of two first: 1472 and 1473 bytes may find no room beside 1k and 2k.
    let mut wanted: Vec<u64> = sizes.iter().copied().filter(|bytes| *bytes == 0 || bytes.is_power_of_two()).collect();
    if wanted.len() < 3 {
        wanted = sizes.iter().copied().collect();
    }
    for bytes in wanted {
        let x = at(bytes);
        svg.line("mark", x, plot.bottom, x, plot.bottom + 4.0);
        let label = size(bytes);
        let half = text_width(&label) / 2.0;
        if x - half >= free {
            svg.text("tick", x, plot.bottom + 18.0, Anchor::Middle, &label);
            free = x + half + 6.0;
        }
    }
    svg.text(
        "axis-name",
        plot.x(0.5),
        plot.bottom + 38.0,
        Anchor::Middle,
        "message size in bytes, log₂ scale (k = 1024)",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_chart_byte_for_byte() {
        let point =
            |x: f64, y: f64, trusted| Point { x, y, range: Some((y * 0.9, y * 1.1)), trusted, tip: format!("<{x}>") };
        let series = |label: &str, style, by: f64| Series {
            label: label.into(),
            style,
            points: vec![
                point(0.0, 5_000.0 * by, true),
                point(32.0, 5_200.0 * by, style == 0),
                point(1024.0, 6_000.0 * by, true),
            ],
        };
        let chart = LineChart {
            id: "time-0".into(),
            title: "Mean RTT/2 & more".into(),
            description: "two lines".into(),
            across: Across::Size,
            shown: Shown::Time,
            domain: Domain::of([4_500.0, 200_000.0].into_iter()).unwrap(),
            series: vec![series("no load", 0, 1.0), series("load <build>", 8, 20.0)],
        };
        assert_eq!(chart.svg(), chart.svg());
        insta::with_settings!({ snapshot_path => "../../tests/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("line_chart", chart.svg());
        });
    }

    #[test]
    fn long_names_stand_below_and_nothing_is_cut() {
        let long = "load a-command-of-its-own-with-many-words · no shield · fifo:50;fifo:50";
        let point = |x: f64| Point { x, y: x, range: None, trusted: true, tip: String::new() };
        let series =
            |label: &str, style| Series { label: label.into(), style, points: vec![point(10_000.0), point(40_000.0)] };
        let chart = LineChart {
            id: "r".into(),
            title: "t".into(),
            description: "d".into(),
            across: Across::Rate(Domain::of([10_000.0, 40_000.0].into_iter()).unwrap()),
            shown: Shown::Rate,
            domain: Domain::of([10_000.0, 40_000.0].into_iter()).unwrap(),
            series: vec![series(long, 0), series("b", 1)],
        };
        let svg = chart.svg();
        assert!(svg.contains(&format!(">{long}</text>")) && !svg.contains('…'), "{svg}");
        assert!(svg.contains("class=\"axis ideal\"") && svg.contains(">40k</text>"), "{svg}");
    }
}
