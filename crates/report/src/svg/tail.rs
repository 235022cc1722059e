//! The tail of distributions: the share of messages that took longer (logarithmic) against latency (logarithmic), as
//! steps. Where fewer than 10 messages lie beyond, the curve is thin: such a figure is chance.

use super::frame::{Plot, fitted, time_axis_x};
use super::scale::Domain;
use super::{Anchor, Svg, series_class, xy};

/// One distribution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) style: usize,
    /// Latency in ns and messages with it, ascending.
    pub(crate) counts: Vec<(f64, u64)>,
    pub(crate) tip: String,
}

/// A chart of tails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TailChart {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    /// What the figures are: `RTT/2`, `RTT`.
    pub(crate) quantity: String,
    pub(crate) domain: Domain,
    /// The lowest share shown, as a power of ten (6: one in a million).
    pub(crate) depth: u32,
    pub(crate) curves: Vec<Curve>,
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 360.0;
const SUPPORT: u64 = 10;

impl TailChart {
    pub(crate) fn svg(&self) -> String {
        let mut svg = Svg::new(&self.id, WIDTH, HEIGHT, &self.title, &self.description);
        let plot = Plot { left: 62.0, top: 14.0, right: WIDTH - 14.0, bottom: HEIGHT - 48.0 };
        let depth = self.depth.max(1);
        for power in 0..=depth {
            let y = plot.y(1.0 - f64::from(power) / f64::from(depth));
            svg.line("grid", plot.left, y, plot.right, y);
            svg.text("tick", plot.left - 8.0, y + 4.0, Anchor::End, &percentile(power));
        }
        time_axis_x(&mut svg, &plot, &self.domain);
        svg.text(
            "axis-name",
            plot.x(0.5),
            plot.bottom + 38.0,
            Anchor::Middle,
            &format!("{}, log scale", self.quantity),
        );
        let mut ends: Vec<(f64, &Curve)> = Vec::new();
        for curve in &self.curves {
            ends.push((self.draw(&mut svg, &plot, curve), curve));
        }
        // Curves fall from the upper left, so the upper right is free for the key: the longest tail first.
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut y = plot.top + 18.0;
        for (_, curve) in ends {
            let class = series_class(curve.style);
            let right = plot.right - 10.0;
            svg.text(&format!("name {class}"), right - 34.0, y + 4.0, Anchor::End, &fitted(&curve.label, 300.0));
            svg.path(&format!("curve {class}"), &format!("M{} {}h26", xy(right - 26.0), xy(y)));
            svg.marker(&format!("dot {class}"), curve.style, right - 13.0, y, "");
            y += 18.0;
        }
        svg.finish()
    }

    /// Draws one curve and says how far right it ends.
    fn draw(&self, svg: &mut Svg, plot: &Plot, curve: &Curve) -> f64 {
        let class = series_class(curve.style);
        let total: u64 = curve.counts.iter().map(|(_, count)| count).sum();
        let share = |left: u64| left as f64 / total.max(1) as f64;
        let y = |left: u64| {
            let at = 1.0 + share(left).max(1e-12).log10() / f64::from(self.depth.max(1));
            plot.y(at.clamp(0.0, 1.0))
        };
        let x = |ns: f64| plot.x(self.domain.at(ns).clamp(0.0, 1.0));
        let (mut sure, mut thin) = (Steps::default(), Steps::default());
        let mut left = total;
        let mut last = (plot.left, plot.top);
        for (index, (ns, count)) in curve.counts.iter().enumerate() {
            let before = left;
            left = left.saturating_sub(*count);
            if index == 0 {
                sure.begin(x(*ns), y(before));
            }
            let end = left == 0;
            // The last message has nothing beyond it: the curve ends at its own share, at its own latency.
            let to = if end { y(before.min(*count)) } else { y(left) };
            if before > SUPPORT || index == 0 {
                sure.step(x(*ns), to);
                if left <= SUPPORT {
                    thin.begin(x(*ns), to);
                }
            } else {
                thin.step(x(*ns), to);
            }
            last = (x(*ns), to);
        }
        svg.open(&format!("series {class}"), &curve.tip);
        svg.path("curve", &sure.data);
        if !thin.data.is_empty() {
            svg.path("curve thin", &thin.data);
        }
        if total > 0 {
            svg.marker("dot", curve.style, last.0, last.1, &format!("{}: longest", curve.label));
        }
        svg.close();
        last.0
    }
}

/// Which percentile has so many nines beyond it: `p90` for one in ten.
fn percentile(power: u32) -> String {
    match power {
        0 => "all".to_owned(),
        1 => "p90".to_owned(),
        2 => "p99".to_owned(),
        more => format!("p99.{}", "9".repeat(more as usize - 2)),
    }
}

/// A path of steps; steps that no pixel shows are left out.
#[derive(Default)]
struct Steps {
    data: String,
    at: (f64, f64),
}

impl Steps {
    fn begin(&mut self, x: f64, y: f64) {
        self.data = format!("M{} {}", xy(x), xy(y));
        self.at = (x, y);
    }

    fn step(&mut self, x: f64, y: f64) {
        if (x - self.at.0).abs() < 0.4 && (y - self.at.1).abs() < 0.4 {
            return;
        }
        self.data.push_str(&format!("H{}V{}", xy(x), xy(y)));
        self.at = (x, y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_as_many_nines_as_powers() {
        assert_eq!([0, 1, 2, 3, 5].map(percentile), ["all", "p90", "p99", "p99.9", "p99.999"]);
    }

    #[test]
    fn the_unsupported_end_is_thin() {
        let chart = TailChart {
            id: "t".into(),
            title: "t".into(),
            description: "d".into(),
            quantity: "RTT".into(),
            domain: Domain::log(1_000.0, 100_000.0),
            depth: 4,
            curves: vec![Curve {
                label: "c".into(),
                style: 0,
                counts: vec![(2_000.0, 900), (4_000.0, 92), (9_000.0, 5), (50_000.0, 3)],
                tip: String::new(),
            }],
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("curve thin").count(), 1, "{svg}");
        assert_eq!(svg, chart.svg());
        insta::with_settings!({ snapshot_path => "../../tests/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("tail_chart", svg);
        });
    }
}
