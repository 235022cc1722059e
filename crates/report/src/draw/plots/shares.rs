//! Shares of messages against latency, as steps: the share that took longer, logarithmic (the tail), or the share that took no
//! longer, linear (the distribution function). A tail with fewer than 10 messages beyond is thin: it is chance.

use super::{Apart, Panel, Picture, Plotted, panels, tip};
use crate::draw::chart::{Chart, Domain, Dot, Series, Ticks};
use crate::draw::figure::Polyline;
use crate::units::tick;
use digest::CellInfo;
use digest::cells::Cell;
use model::{LatencyKind, Probe};
use stats::Histogram;

type Counts = Vec<(f64, u64)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Pingpong,
    /// `pace`, from the actual send time.
    Sent,
    /// `pace`, from the intended send time: what waiting for the sender costs is in it.
    Intended,
    WakeUp,
    /// `cycle`, from when a cycle was due.
    Due,
}

impl Source {
    const ALL: [Self; 5] = [Self::Pingpong, Self::Sent, Self::Intended, Self::WakeUp, Self::Due];

    fn points(self, cell: &Cell) -> &[(u64, u64)] {
        if matches!(self, Self::Intended | Self::Due) { &cell.intended } else { &cell.points }
    }

    fn counts(self, cell: &Cell) -> Counts {
        self.points(cell).iter().map(|(ns, count)| (*ns as f64 * cell.of_rtt, *count)).collect()
    }

    fn kind(self, plotted: &Plotted<'_>) -> &'static str {
        match self {
            Self::Pingpong => plotted.kind.title(),
            Self::Sent => "RTT",
            Self::Intended => "RTT from the intended send",
            Self::WakeUp => LatencyKind::WakeUp.title(),
            Self::Due => "RTT from when a cycle was due",
        }
    }

    fn probe(self) -> Probe {
        match self {
            Self::Pingpong => Probe::Pingpong,
            Self::Sent | Self::Intended => Probe::Pace,
            Self::WakeUp => Probe::Wake,
            Self::Due => Probe::Cycle,
        }
    }

    /// What stands on one scale with it.
    fn beside(self) -> &'static [Self] {
        match self {
            Self::Pingpong => &[Self::Pingpong],
            Self::Sent | Self::Intended => &[Self::Sent, Self::Intended],
            Self::WakeUp => &[Self::WakeUp],
            Self::Due => &[Self::Due],
        }
    }
}

fn total(counts: &Counts) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

fn quantile(counts: &Counts, share: f64) -> Option<f64> {
    let (total, mut seen) = (total(counts), 0);
    counts.iter().find_map(|(ns, count)| {
        seen += count;
        (seen as f64 >= share * total as f64).then_some(*ns)
    })
}

/// Ping-pong at the table's size, all cells of `pace`, each of their sizes and rates apart, or all of `wake` or `cycle`, periods apart.
fn groups<'a>(plotted: &Plotted<'a>, of: Source) -> Vec<Panel<'a>> {
    let size = plotted.size_bytes;
    let probe = of.probe();
    let keep = |info: &CellInfo| info.probe == probe && (probe != Probe::Pingpong || info.size_bytes == size);
    let apart = |info: &CellInfo| -> Apart {
        let factor = |name: &str| info.factors.get(name).cloned().unwrap_or_default();
        match probe {
            Probe::Cycle => return vec![("interval_us", factor("interval_us"))],
            Probe::Pace => {}
            _ => return Vec::new(),
        }
        let rate = factor("rate");
        vec![("size", info.size_bytes.to_string()), ("rate", rate)]
    };
    let mut found = panels(plotted.cells, keep, apart);
    found.retain(|panel| panel.lines.values().flatten().any(|cell| !of.points(cell).is_empty()));
    found
}

/// What is drawn with `of` on one scale, as counts.
fn shown(panels: &[Panel<'_>], of: Source) -> Vec<Counts> {
    let cells = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let all = of.beside().iter().flat_map(|one| cells().map(|cell| one.counts(cell)));
    all.filter(|counts| !counts.is_empty()).collect()
}

/// The tail of the distributions, one panel a protocol (of `pace` a size and rate too), all of a probe on one scale.
pub(crate) fn tails(plotted: &Plotted<'_>) -> Vec<Picture> {
    Source::ALL.into_iter().flat_map(|of| tails_of(plotted, of).unwrap_or_default()).collect()
}

fn tails_of(plotted: &Plotted<'_>, of: Source) -> Option<Vec<Picture>> {
    let panels = groups(plotted, of);
    let shown = shown(&panels, of);
    let low = shown.iter().filter_map(|counts| counts.first().map(|(ns, _)| *ns)).reduce(f64::min)?.max(1.0);
    let high = shown.iter().filter_map(|counts| counts.last().map(|(ns, _)| *ns)).reduce(f64::max)?;
    let most = shown.iter().map(total).max()?.max(10);
    // Down to the last message of the largest one.
    let depth = (most - 1).ilog10() + 1;
    let percentiles = (0..=depth).map(|power| (1.0 - f64::from(power) / f64::from(depth), percentile(power)));
    let axes = Axes {
        domain: Domain::log(low, high.max(low * 1.5)),
        ticks: percentiles.collect(),
        title: "Tail",
        heading: "share of messages that took longer",
    };
    Some(axes.pictures(plotted, &panels, of, |counts, domain, _| tail(counts, domain, depth)))
}

/// The distribution functions of the same, up to the largest p99: what lies beyond is the tail's.
pub(crate) fn functions(plotted: &Plotted<'_>) -> Vec<Picture> {
    Source::ALL.into_iter().flat_map(|of| functions_of(plotted, of).unwrap_or_default()).collect()
}

fn functions_of(plotted: &Plotted<'_>, of: Source) -> Option<Vec<Picture>> {
    let panels = groups(plotted, of);
    let shown = shown(&panels, of);
    let low = shown.iter().filter_map(|counts| quantile(counts, 0.001)).reduce(f64::min)?;
    // One cell far beyond the others must not squeeze these into a wall: it leaves at the right edge.
    let high = shown.iter().filter_map(|counts| quantile(counts, 0.99)).reduce(f64::max)?;
    let axes = Axes {
        domain: if high > low * 2.0 { Domain::log(low.max(1.0), high) } else { Domain::between(low, high) },
        ticks: (0..=4).map(|part| (f64::from(part) / 4.0, format!("{} %", part * 25))).collect(),
        title: "Distribution function",
        heading: "share of messages that took no longer, up to the largest p99",
    };
    Some(axes.pictures(plotted, &panels, of, function))
}

struct Axes {
    domain: Domain,
    ticks: Ticks,
    title: &'static str,
    heading: &'static str,
}

impl Axes {
    /// `draw` makes a series of counts; it is handed the share at which the series should have its name.
    fn pictures(
        &self,
        plotted: &Plotted<'_>,
        panels: &[Panel<'_>],
        of: Source,
        draw: impl Fn(&Counts, Domain, f64) -> Series,
    ) -> Vec<Picture> {
        let which = match of {
            Source::Pingpong => format!(", {} bytes", plotted.size_bytes),
            Source::Sent | Source::WakeUp => String::new(),
            Source::Intended => ", from the intended send".to_owned(),
            Source::Due => ", from when a cycle was due".to_owned(),
        };
        let picture = |panel: &Panel<'_>| {
            let cells = panel.lines.iter().filter_map(|(style, cells)| {
                let cell = cells.iter().find(|cell| !of.points(cell).is_empty())?;
                Some((*style, *cell, of.counts(cell)))
            });
            let cells: Vec<(usize, &Cell, Counts)> = cells.collect();
            let shares = apart(&cells.iter().map(|(.., counts)| counts).collect::<Vec<_>>());
            let series = cells.iter().zip(shares).map(|((style, cell, counts), share)| {
                let mut series = draw(counts, self.domain, share);
                (series.name, series.style, series.tip) = (panel.label(cell), *style, tip(&cell.info));
                for dot in &mut series.dots {
                    dot.tip = format!("{}: {}", series.name, dot.tip);
                }
                series
            });
            let series: Vec<Series> = series.collect();
            let words: Vec<&str> = series.iter().map(|series| series.tip.as_str()).collect();
            let chart = Chart {
                title: format!("{} of {}, {}", self.title, of.kind(plotted), panel.heading),
                description: format!("{}.", words.join("; ")),
                height: 298.0,
                ticks_x: self.domain.labelled(tick),
                grid_x: true,
                name_x: format!("{}{}", of.kind(plotted), self.domain.scale()),
                ticks_y: self.ticks.clone(),
                reference: Vec::new(),
                series,
            };
            Picture { heading: format!("{} · {}{which}", panel.heading, self.heading), figure: chart.figure() }
        };
        panels.iter().map(picture).collect()
    }
}

/// Where each distribution function has its name: at a share of its own, as all end in one corner; the fastest at the largest.
fn apart(all: &[&Counts]) -> Vec<f64> {
    let medians: Vec<f64> = all.iter().map(|counts| quantile(counts, 0.5).unwrap_or(f64::INFINITY)).collect();
    let faster = |own: (usize, &f64)| {
        let before = |(place, ns): &(usize, &f64)| (**ns, *place) < (*own.1, own.0);
        medians.iter().enumerate().filter(before).count() as f64
    };
    let parts = all.len() as f64 + 1.0;
    medians.iter().enumerate().map(|own| 1.0 - (faster(own) + 1.0) / parts).collect()
}

/// The share that took no longer, with its name where it passes a share; what lies beyond the right edge is left to the tail.
fn function(counts: &Counts, domain: Domain, share: f64) -> Series {
    let all = total(counts).max(1) as f64;
    let (mut curve, mut seen) = (Polyline::new(), 0);
    let mut edge = (0.0, 0.0);
    for (ns, count) in counts.iter().take_while(|(ns, _)| domain.at(*ns) <= 1.0) {
        let x = domain.at(*ns).max(0.0);
        if curve.is_empty() {
            curve.push((x, 0.0));
        }
        seen += count;
        edge = (x, seen as f64 / all);
        step(&mut curve, edge);
    }
    if !curve.is_empty() {
        // To the edge, as the share stays until the next message.
        curve.push((1.0, edge.1));
    }
    let passes = |share: f64| {
        let x = quantile(counts, share).map(|ns| domain.at(ns)).filter(|x| *x <= 1.0)?;
        Some((x.max(0.0), share))
    };
    let dot = |at| Dot { at, trusted: true, tip: "median".to_owned() };
    let end = passes(share).unwrap_or((1.0, edge.1));
    Series { dots: passes(0.5).map(dot).into_iter().collect(), curve, end, ..Series::default() }
}

/// The share that took longer, on a scale of so many powers of ten.
fn tail(counts: &Counts, domain: Domain, depth: u32) -> Series {
    let all = total(counts);
    let place = |ns: f64, left: u64| {
        let share = (left as f64 / all.max(1) as f64).max(1e-12);
        (domain.at(ns).clamp(0.0, 1.0), (1.0 + share.log10() / f64::from(depth)).clamp(0.0, 1.0))
    };
    let (mut curve, mut thin) = (Polyline::new(), Polyline::new());
    let mut left = all;
    let mut end = (0.0, 1.0);
    for (index, (ns, count)) in counts.iter().enumerate() {
        let before = left;
        left = left.saturating_sub(*count);
        if index == 0 {
            curve.push(place(*ns, before));
        }
        // The last message has nothing beyond it: the curve ends at its own share, at its own latency.
        end = place(*ns, if left == 0 { before.min(*count) } else { left });
        if before > Histogram::BEYOND || index == 0 {
            step(&mut curve, end);
            if left <= Histogram::BEYOND {
                thin.push(end);
            }
        } else {
            step(&mut thin, end);
        }
    }
    let dots = if all > 0 { vec![Dot { at: end, trusted: true, tip: "longest".to_owned() }] } else { Vec::new() };
    Series { curve, thin, dots, end, ..Series::default() }
}

/// Goes on to a place, first across and then up or down; steps that no pixel shows are left out.
fn step(line: &mut Polyline, (x, y): (f64, f64)) {
    let Some((from_x, from_y)) = line.last().copied() else { return };
    if (x - from_x).abs() >= 0.0008 || (y - from_y).abs() >= 0.0013 {
        line.extend([(x, from_y), (x, y)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_as_many_nines_as_powers() {
        assert_eq!([0, 1, 2, 3, 5].map(percentile), ["all", "p90", "p99", "p99.9", "p99.999"]);
    }

    #[test]
    fn the_unsupported_end_is_thin() {
        let counts = vec![(2_000.0, 900), (4_000.0, 92), (9_000.0, 5), (50_000.0, 3)];
        let domain = Domain::log(1_000.0, 100_000.0);
        let series = tail(&counts, domain, 4);
        // One in ten is a quarter of the way down; 8 of 1000 took longer than 4 µs, which is too few to go on.
        assert_eq!(
            series.curve[..3],
            [(domain.at(2_000.0), 1.0), (domain.at(2_000.0), 1.0), (domain.at(2_000.0), 0.75)]
        );
        assert_eq!((series.thin[0].0, series.thin.first()), (domain.at(4_000.0), series.curve.last()));
        assert_eq!(series.end, *series.thin.last().unwrap());
        assert!((series.end.1 - (1.0 + 0.003_f64.log10() / 4.0)).abs() < 1e-9, "{series:?}");
        // What no pixel shows is left out.
        let many: Counts = (0..100_000).map(|number| (2_000.0 + f64::from(number) / 1e4, 1)).collect();
        assert!(tail(&many, domain, 5).curve.len() < 4_000);
    }

    #[test]
    fn a_distribution_function_rises_to_the_edge() {
        let counts = vec![(2_000.0, 50), (4_000.0, 49), (900_000.0, 1)];
        let series = function(&counts, Domain::between(1_000.0, 5_000.0), 0.8);
        // Half at 2 µs and 99 % at 4 µs; the one far away does not squeeze the rest.
        assert_eq!(series.curve, [(0.25, 0.0), (0.25, 0.0), (0.25, 0.5), (0.75, 0.5), (0.75, 0.99), (1.0, 0.99)]);
        assert_eq!((series.dots[0].at, series.end), ((0.25, 0.5), (0.75, 0.8)));
    }

    #[test]
    fn functions_that_end_in_one_corner_have_their_names_at_different_heights() {
        let all: Vec<Counts> =
            (0..4).map(|number| vec![(2_000.0 + f64::from(number) * 400.0, 900), (9_000.0, 100)]).collect();
        let apart = apart(&all.iter().collect::<Vec<_>>());
        assert!(apart.iter().zip([0.8, 0.6, 0.4, 0.2]).all(|(is, wanted)| (is - wanted).abs() < 1e-9), "{apart:?}");
    }
}
