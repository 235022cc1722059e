//! Shares of messages against latency, as steps: the share that took longer on a logarithmic scale (the tail, where each
//! percentile with one more nine is one step down), or the share that took no longer on a linear one (the distribution
//! function). Where fewer than 10 messages lie beyond, a tail is thin: such a figure is chance.

use super::frame::{Plot, axis_x};
use super::key::{Name, Names, ROOM};
use super::scale::Domain;
use super::{Anchor, Svg, series_class, xy};
use crate::units::tick;

/// One distribution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) style: usize,
    /// Latency in ns and messages with it, ascending.
    pub(crate) counts: Vec<(f64, u64)>,
    pub(crate) tip: String,
}

/// Which share is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shares {
    /// That of the messages that took longer, down to this power of ten (6: one in a million).
    Longer(u32),
    /// That of the messages that took no longer.
    Within,
}

/// A chart of shares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TailChart {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    /// What the figures are: `RTT/2`, `RTT`.
    pub(crate) quantity: String,
    pub(crate) domain: Domain,
    pub(crate) shares: Shares,
    pub(crate) curves: Vec<Curve>,
}

const WIDTH: f64 = 600.0;
const PLOT: f64 = 298.0;
const TOP: f64 = 14.0;
/// Room for `p99.9999`.
const LEFT: f64 = 70.0;
const SUPPORT: u64 = 10;

impl TailChart {
    pub(crate) fn svg(&self) -> String {
        let labels = self.curves.iter().map(|curve| curve.label.as_str());
        let names = Names::of(labels, ROOM, PLOT, WIDTH - LEFT);
        let height = TOP + PLOT + names.height(self.curves.len());
        let mut svg = Svg::new(&self.id, WIDTH, height, &self.title, &self.description);
        let plot = Plot { left: LEFT, top: TOP, right: WIDTH - names.beside() - 14.0, bottom: TOP + PLOT };
        let ticks: Vec<(f64, String)> = match self.shares {
            Shares::Longer(depth) => {
                (0..=depth).map(|power| (1.0 - f64::from(power) / f64::from(depth.max(1)), percentile(power))).collect()
            }
            Shares::Within => (0..=4).map(|part| (f64::from(part) / 4.0, format!("{} %", part * 25))).collect(),
        };
        for (at, word) in ticks {
            let y = plot.y(at);
            svg.line("grid", plot.left, y, plot.right, y);
            svg.text("tick", plot.left - 8.0, y + 4.0, Anchor::End, &word);
        }
        axis_x(&mut svg, &plot, &self.domain, tick);
        let scale = if self.domain.log { ", log scale" } else { "" };
        let name = format!("{}{scale}", self.quantity);
        svg.text("axis-name", plot.x(0.5), plot.bottom + 38.0, Anchor::Middle, &name);
        let mut ends: Vec<Name<'_>> = Vec::new();
        for (curve, share) in self.curves.iter().zip(self.apart()) {
            let end = match self.shares {
                Shares::Longer(depth) => self.tail(&mut svg, &plot, curve, depth),
                Shares::Within => self.within(&mut svg, &plot, curve, share),
            };
            ends.push((&curve.label, curve.style, end));
        }
        names.draw(&mut svg, &plot, WIDTH, &ends);
        svg.finish()
    }

    /// Where each distribution function has its name: all of them end in one corner, so that each has a share of its own,
    /// the fastest the largest.
    fn apart(&self) -> Vec<f64> {
        let median = |curve: &Curve| {
            let total: u64 = curve.counts.iter().map(|(_, count)| count).sum();
            let mut seen = 0;
            let reached = |(_, count): &&(f64, u64)| {
                seen += count;
                2 * seen >= total
            };
            curve.counts.iter().find(reached).map_or(f64::INFINITY, |(ns, _)| *ns)
        };
        let medians: Vec<f64> = self.curves.iter().map(median).collect();
        let faster = |own: usize| {
            let before =
                |(place, ns): &(usize, &f64)| medians.get(own).is_some_and(|median| (**ns, *place) < (*median, own));
            medians.iter().enumerate().filter(before).count() as f64
        };
        let parts = self.curves.len() as f64 + 1.0;
        (0..self.curves.len()).map(|own| 1.0 - (faster(own) + 1.0) / parts).collect()
    }

    /// The share that took no longer; what lies beyond the right edge is left to the tail. Returns where it passes a share.
    fn within(&self, svg: &mut Svg, plot: &Plot, curve: &Curve, share: f64) -> (f64, f64) {
        let class = series_class(curve.style);
        let total: u64 = curve.counts.iter().map(|(_, count)| count).sum();
        let mut steps = Steps::default();
        let mut seen = 0;
        let y = |seen: u64| plot.y(seen as f64 / total.max(1) as f64);
        let (mut middle, mut passes, mut edge) = (None, None, (plot.left, plot.bottom));
        for (index, (ns, count)) in curve.counts.iter().enumerate() {
            if self.domain.at(*ns) > 1.0 {
                break;
            }
            let x = plot.x(self.domain.at(*ns).max(0.0));
            if index == 0 {
                steps.begin(x, y(0));
            }
            seen += count;
            steps.step(x, y(seen));
            edge = (x, y(seen));
            if passes.is_none() && seen as f64 >= share * total as f64 {
                passes = Some((x, plot.y(share)));
            }
            if middle.is_none() && 2 * seen >= total {
                middle = Some((x, plot.y(0.5)));
            }
        }
        if !steps.data.is_empty() {
            // To the edge, as the share stays until the next message.
            steps.data.push_str(&format!("H{}", xy(plot.right.max(edge.0))));
        }
        svg.open(&format!("series {class}"), &curve.tip);
        svg.path("curve", &steps.data);
        if let Some((x, y)) = middle {
            svg.marker("dot", curve.style, x, y, &format!("{}: median", curve.label));
        }
        svg.close();
        passes.unwrap_or((plot.right, edge.1))
    }

    /// The share that took longer. Returns where it ends.
    fn tail(&self, svg: &mut Svg, plot: &Plot, curve: &Curve, depth: u32) -> (f64, f64) {
        let class = series_class(curve.style);
        let total: u64 = curve.counts.iter().map(|(_, count)| count).sum();
        let share = |left: u64| left as f64 / total.max(1) as f64;
        let y = |left: u64| {
            let at = 1.0 + share(left).max(1e-12).log10() / f64::from(depth.max(1));
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
        last
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
            shares: Shares::Longer(4),
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

    #[test]
    fn a_distribution_function_rises_to_the_edge() {
        let chart = TailChart {
            id: "t".into(),
            title: "t".into(),
            description: "d".into(),
            quantity: "RTT".into(),
            domain: Domain::between(1_000.0, 5_000.0),
            shares: Shares::Within,
            curves: vec![Curve {
                label: "c".into(),
                style: 0,
                counts: vec![(2_000.0, 50), (4_000.0, 49), (900_000.0, 1)],
                tip: String::new(),
            }],
        };
        let svg = chart.svg();
        // Half at 2 µs and 99 % at 4 µs; the one far away does not squeeze the rest.
        assert!(svg.contains(">50 %</text>") && !svg.contains("900 µs"), "{svg}");
        assert_eq!(svg.matches("<path class=\"curve\"").count(), 1, "{svg}");
    }

    #[test]
    fn names_of_few_curves_stand_at_their_lines() {
        let chart = |shares, curves: u32| TailChart {
            id: "t".into(),
            title: "t".into(),
            description: "d".into(),
            quantity: "RTT".into(),
            domain: Domain::log(1_000.0, 100_000.0),
            shares,
            curves: (0..curves)
                .map(|number| Curve {
                    label: format!("policy {number}"),
                    style: number as usize,
                    counts: vec![(2_000.0 + f64::from(number) * 400.0, 900), (9_000.0, 100)],
                    tip: String::new(),
                })
                .collect(),
        };
        for shares in [Shares::Longer(4), Shares::Within] {
            let (few, many) = (chart(shares, 8).svg(), chart(shares, 9).svg());
            assert!((0..8).all(|number| few.contains(&format!(">policy {number}</text>"))), "{few}");
            assert!(!few.contains("h26\""), "no key: {few}");
            assert!(few.matches("class=\"leader s").count() >= 7, "all end at one place: {few}");
            assert_eq!((many.matches("h26\"").count(), many.matches("leader").count()), (9, 0), "{many}");
        }
        // Functions end in one corner: their names are joined to them at different heights.
        let apart = chart(Shares::Within, 4).apart();
        assert!(apart.iter().zip([0.8, 0.6, 0.4, 0.2]).all(|(is, wanted)| (is - wanted).abs() < 1e-9), "{apart:?}");
    }
}
