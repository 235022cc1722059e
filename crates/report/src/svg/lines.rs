//! Line charts of a time against message size, with a band for the range over repetitions.

use super::frame::{Plot, apart, fitted, text_width, time_axis_y};
use super::scale::{Domain, size_position};
use super::{Anchor, Svg, series_class, xy};
use crate::units::size;
use std::collections::BTreeSet;

/// One point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) bytes: u64,
    pub(crate) ns: f64,
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

/// A chart of times against message size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineChart {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) domain: Domain,
    pub(crate) series: Vec<Series>,
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 330.0;

impl LineChart {
    pub(crate) fn svg(&self) -> String {
        let mut svg = Svg::new(&self.id, WIDTH, HEIGHT, &self.title, &self.description);
        let longest = self.series.iter().map(|series| text_width(&series.label)).fold(0.0, f64::max);
        let room = longest.min(170.0);
        let plot = Plot { left: 62.0, top: 14.0, right: WIDTH - room - 18.0, bottom: HEIGHT - 48.0 };
        time_axis_y(&mut svg, &plot, &self.domain);
        let sizes: BTreeSet<u64> =
            self.series.iter().flat_map(|series| &series.points).map(|point| point.bytes).collect();
        let (low, high) = match (sizes.first(), sizes.last()) {
            (Some(first), Some(last)) => (size_position(*first), size_position(*last)),
            _ => (0.0, 1.0),
        };
        let at = |bytes: u64| {
            let share = if high > low { (size_position(bytes) - low) / (high - low) } else { 0.5 };
            // A little room on both sides keeps signs off the frame.
            plot.x(0.02 + 0.96 * share)
        };
        size_axis(&mut svg, &plot, &sizes, at);
        for series in &self.series {
            self.draw(&mut svg, &plot, series, at);
        }
        let ends: Vec<f64> = self
            .series
            .iter()
            .map(|series| series.points.last().map_or(plot.top, |p| plot.y(self.domain.at(p.ns))))
            .collect();
        for (series, y) in self.series.iter().zip(apart(&ends, 15.0, plot.top + 4.0, plot.bottom - 2.0)) {
            let class = format!("name {}", series_class(series.style));
            svg.text(&class, plot.right + 6.0, y + 4.0, Anchor::Start, &fitted(&series.label, room + 8.0));
        }
        svg.finish()
    }

    fn draw(&self, svg: &mut Svg, plot: &Plot, series: &Series, at: impl Fn(u64) -> f64) {
        let class = series_class(series.style);
        let y = |ns: f64| plot.y(self.domain.at(ns).clamp(0.0, 1.0));
        svg.open(&format!("series {class}"), &series.label);
        let banded: Vec<&Point> = series.points.iter().filter(|point| point.range.is_some()).collect();
        if banded.len() > 1 {
            let upper = banded.iter().map(|p| (at(p.bytes), y(p.range.map_or(p.ns, |range| range.1))));
            let lower = banded.iter().rev().map(|p| (at(p.bytes), y(p.range.map_or(p.ns, |range| range.0))));
            let outline: Vec<String> = upper.chain(lower).map(|(x, y)| format!("{} {}", xy(x), xy(y))).collect();
            svg.path("band", &format!("M{}Z", outline.join("L")));
        } else {
            for point in &banded {
                let (low, high) = point.range.unwrap_or((point.ns, point.ns));
                svg.line("whisker", at(point.bytes), y(low), at(point.bytes), y(high));
            }
        }
        let middle: Vec<String> =
            series.points.iter().map(|point| format!("{} {}", xy(at(point.bytes)), xy(y(point.ns)))).collect();
        if middle.len() > 1 {
            svg.path("curve", &format!("M{}", middle.join("L")));
        }
        for point in &series.points {
            let class = if point.trusted { "dot" } else { "dot untrusted" };
            svg.marker(class, series.style, at(point.bytes), y(point.ns), &point.tip);
        }
        svg.close();
    }
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
        let point = |bytes, ns: f64, trusted| Point {
            bytes,
            ns,
            range: Some((ns * 0.9, ns * 1.1)),
            trusted,
            tip: format!("<{bytes}>"),
        };
        let series = |label: &str, style, by: f64| Series {
            label: label.into(),
            style,
            points: vec![
                point(0, 5_000.0 * by, true),
                point(32, 5_200.0 * by, style == 0),
                point(1024, 6_000.0 * by, true),
            ],
        };
        let chart = LineChart {
            id: "time-0".into(),
            title: "Mean RTT/2 & more".into(),
            description: "two lines".into(),
            domain: Domain::of([4_500.0, 200_000.0].into_iter()).unwrap(),
            series: vec![series("no load", 0, 1.0), series("load <build>", 8, 20.0)],
        };
        assert_eq!(chart.svg(), chart.svg());
        insta::with_settings!({ snapshot_path => "../../tests/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("line_chart", chart.svg());
        });
    }
}
