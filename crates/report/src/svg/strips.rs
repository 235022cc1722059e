//! Distributions side by side, one strip each: smallest to largest as a thin line, median to p99 as a bar, p99.9 as a
//! stroke, the median as a dot and the mean as a diamond.

use super::frame::{Plot, fitted, time_axis_x};
use super::scale::Domain;
use super::{Anchor, Svg, series_class};

/// One distribution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Strip {
    pub(crate) label: String,
    pub(crate) style: usize,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) mean: f64,
    pub(crate) p99: Option<f64>,
    pub(crate) p99_9: Option<f64>,
    pub(crate) max: f64,
    /// What stands at the right: the median and p99.9 in words.
    pub(crate) figures: String,
    pub(crate) tip: String,
}

/// Distributions under one heading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StripGroup {
    pub(crate) heading: String,
    pub(crate) strips: Vec<Strip>,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Strips {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) quantity: String,
    pub(crate) domain: Domain,
    pub(crate) groups: Vec<StripGroup>,
}

const WIDTH: f64 = 1120.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 30.0;
const NAMES: f64 = 330.0;
const FIGURES: f64 = 200.0;

impl Strips {
    pub(crate) fn svg(&self) -> String {
        let rows: usize = self.groups.iter().map(|group| group.strips.len()).sum();
        let body = self.groups.len() as f64 * HEAD + rows as f64 * ROW;
        let height = body + 56.0;
        let mut svg = Svg::new(&self.id, WIDTH, height, &self.title, &self.description);
        let plot = Plot { left: NAMES, top: 6.0, right: WIDTH - FIGURES, bottom: body + 8.0 };
        time_axis_x(&mut svg, &plot, &self.domain);
        svg.text(
            "axis-name",
            plot.x(0.5),
            plot.bottom + 38.0,
            Anchor::Middle,
            &format!("{}, log scale", self.quantity),
        );
        let mut y = 4.0;
        for group in &self.groups {
            svg.text("group", 0.0, y + 20.0, Anchor::Start, &group.heading);
            y += HEAD;
            for strip in &group.strips {
                self.draw(&mut svg, &plot, strip, y + ROW / 2.0);
                y += ROW;
            }
        }
        svg.finish()
    }

    fn draw(&self, svg: &mut Svg, plot: &Plot, strip: &Strip, y: f64) {
        let class = series_class(strip.style);
        let x = |ns: f64| plot.x(self.domain.at(ns).clamp(0.0, 1.0));
        svg.text("label", 12.0, y + 4.0, Anchor::Start, &fitted(&strip.label, NAMES - 24.0));
        svg.open(&format!("series {class}"), &strip.tip);
        // A wide invisible target makes the strip easy to point at.
        svg.rect("target", plot.left, y - ROW / 2.0, plot.right - plot.left, ROW);
        svg.line("reach", x(strip.min), y, x(strip.max), y);
        svg.line("reach", x(strip.max), y - 3.5, x(strip.max), y + 3.5);
        if let Some(p99) = strip.p99 {
            svg.rect("bar", x(strip.p50), y - 4.0, x(p99) - x(strip.p50), 8.0);
        }
        if let Some(p99_9) = strip.p99_9 {
            svg.line("stroke", x(p99_9), y - 6.5, x(p99_9), y + 6.5);
        }
        svg.marker("mean", 3, x(strip.mean), y, "");
        svg.marker("dot", 0, x(strip.p50), y, "");
        svg.close();
        svg.text("figures", WIDTH, y + 4.0, Anchor::End, &strip.figures);
    }
}
