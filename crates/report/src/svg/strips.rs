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
/// Room for names: as much as the longest needs between these; what is longer still takes several lines.
const NAMES: (f64, f64) = (330.0, 540.0);
/// Left and right of a name.
const BESIDE: f64 = 24.0;
/// Distance of the lines of a name.
const LINE: f64 = 15.0;
const FIGURES: f64 = 200.0;

impl Strips {
    pub(crate) fn svg(&self) -> String {
        let strips = || self.groups.iter().flat_map(|group| &group.strips);
        let longest = strips().map(|strip| text_width(&strip.label)).fold(0.0, f64::max);
        let names = (longest + BESIDE).clamp(NAMES.0, NAMES.1);
        let rows: f64 = strips().map(|strip| row(&strip.label, names)).sum();
        let body = self.groups.len() as f64 * HEAD + rows;
        let height = body + 56.0;
        let mut svg = Svg::new(&self.id, WIDTH, height, &self.title, &self.description);
        let plot = Plot { left: names, top: 6.0, right: WIDTH - FIGURES, bottom: body + 8.0 };
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
                let high = row(&strip.label, names);
                self.draw(&mut svg, &plot, strip, y + high / 2.0, high);
                y += high;
            }
        }
        svg.finish()
    }

    fn draw(&self, svg: &mut Svg, plot: &Plot, strip: &Strip, y: f64, high: f64) {
        let class = series_class(strip.style);
        let x = |ns: f64| plot.x(self.domain.at(ns).clamp(0.0, 1.0));
        let name = lines(&strip.label, plot.left - BESIDE);
        let mut below = y + 4.0 - LINE * (name.len() - 1) as f64 / 2.0;
        for line in &name {
            svg.text("label", 12.0, below, Anchor::Start, line);
            below += LINE;
        }
        svg.open(&format!("series {class}"), &strip.tip);
        // A wide invisible target makes the strip easy to point at.
        svg.rect("target", plot.left, y - high / 2.0, plot.right - plot.left, high);
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

/// About how wide a name is: of 13 px, where ticks have 12.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.0
}

/// A name in as many lines as it needs; never none.
fn lines(name: &str, width: f64) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match all.last_mut() {
            Some(line) if text_width(line) + text_width(word) + text_width(" ") <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => all.push(word.to_owned()),
        }
    }
    // A single word without end is cut.
    all.iter()
        .map(|line| if text_width(line) <= width { line.clone() } else { fitted(line, width * 12.0 / 13.0) })
        .collect()
}

/// How high the row of a name is.
fn row(name: &str, names: f64) -> f64 {
    ROW + LINE * (lines(name, names - BESIDE).len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(label: &str) -> String {
        let strip = Strip {
            label: label.to_owned(),
            style: 0,
            min: 1e3,
            p50: 2e3,
            mean: 3e3,
            p99: None,
            p99_9: None,
            max: 9e3,
            figures: String::new(),
            tip: String::new(),
        };
        let groups = vec![StripGroup { heading: "UDP".to_owned(), strips: vec![strip] }];
        let (id, title, description) = ("x".to_owned(), String::new(), String::new());
        let domain = Domain::log(1e3, 1e4);
        Strips { id, title, description, quantity: "RTT/2".to_owned(), domain, groups }.svg()
    }

    #[test]
    fn names_are_never_shortened() {
        let name = "receive spin · policy fifo:50 · load build · nic tuned for latency";
        assert!(drawn(name).contains(name), "{}", drawn(name));
        let longer = [name, name, "end"].join(" · ");
        let svg = drawn(&longer);
        assert!(!svg.contains('…'), "{svg}");
        for word in longer.split(' ') {
            assert!(svg.contains(word), "{word}");
        }
        assert_eq!(lines(&longer, NAMES.1 - BESIDE).join(" "), longer);
        assert!(drawn(&"x".repeat(300)).contains('…'), "one word without end is");
    }
}
