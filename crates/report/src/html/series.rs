//! A cell's quantities over time as small charts, but for the quantiles of `pace`, which heat maps show better.

use crate::draw::chart::{self, Chart, Domain};
use crate::draw::plots::Picture;
use crate::units::{counted, span, tick};
use model::result::{Series, SeriesQuantity};
use model::{Probe, ResultDocument};
use std::collections::BTreeMap;

/// Points that a line has at most: intervals are joined until they fit.
const POINTS: usize = 300;
/// Fewer intervals than this show nothing.
const LEAST: usize = 4;
const REPETITIONS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Largest,
    Sum,
    Middle,
}

/// What a quantity is drawn as: its chart, its name there and how intervals are joined; `None`: not at all.
fn drawn_as(quantity: SeriesQuantity) -> Option<(Content, &'static str, Join)> {
    Some(match quantity {
        SeriesQuantity::RttP50 => (Content::Times, "RTT p50", Join::Middle),
        SeriesQuantity::RttP99 => (Content::Times, "RTT p99", Join::Largest),
        SeriesQuantity::RttMax => (Content::Times, "RTT max", Join::Largest),
        SeriesQuantity::WakeUpP50 => (Content::Times, "wake-up latency p50", Join::Middle),
        SeriesQuantity::WakeUpMax => (Content::Times, "wake-up latency max", Join::Largest),
        SeriesQuantity::TcpRtt => (Content::Times, "TCP's RTT", Join::Middle),
        SeriesQuantity::Jitter => (Content::Times, "jitter (RFC 3550)", Join::Middle),
        SeriesQuantity::Bytes => (Content::Bits, "Mbit/s", Join::Sum),
        SeriesQuantity::Sent => (Content::Rates, "sent", Join::Sum),
        SeriesQuantity::Received => (Content::Rates, "received", Join::Sum),
        SeriesQuantity::Lost => (Content::Rates, "lost", Join::Sum),
        SeriesQuantity::Reordered => (Content::Rates, "reordered", Join::Sum),
        SeriesQuantity::Retransmits => (Content::Rates, "sent again", Join::Sum),
        SeriesQuantity::LatenessP99 | SeriesQuantity::Duplicated => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Times,
    Bits,
    Rates,
}

struct Curve {
    name: &'static str,
    /// Start in seconds and value.
    points: Vec<(f64, f64)>,
}

pub(super) fn of(results: &[&ResultDocument]) -> Vec<Picture> {
    let mut out = Vec::new();
    for result in results.iter().take(REPETITIONS) {
        let mut hosts: Vec<&str> = result.series.iter().map(|series| series.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in &hosts {
            let mut charts: BTreeMap<Content, Vec<Curve>> = BTreeMap::new();
            for series in result.series.iter().filter(|series| series.host == *host && series.values.len() >= LEAST) {
                let Some((content, name, join)) = drawn_as(series.quantity) else { continue };
                let (paced, wakes) = (result.probe == Probe::Pace, result.probe == Probe::Wake);
                // Deadlines come at one rate.
                if (paced && content == Content::Times) || (wakes && content == Content::Rates) {
                    continue;
                }
                let curve = curve(series, content, name, join);
                // A line of zeros says nothing that the table does not.
                if curve.points.iter().any(|(_, value)| *value > 0.0) {
                    charts.entry(content).or_default().push(curve);
                }
            }
            for (content, curves) in charts {
                let what = match content {
                    Content::Times => "times over time",
                    Content::Bits => "payload delivered, Mbit/s",
                    Content::Rates => "messages a second",
                };
                let repetition = result.repetition.filter(|_| results.len() > 1);
                let repetition = repetition.map(|repetition| format!("repetition {repetition}"));
                let words = [Some(what.to_owned()), (hosts.len() > 1).then(|| crate::units::plain(host)), repetition];
                let heading = words.into_iter().flatten().collect::<Vec<_>>().join(" · ");
                out.extend(draw(heading, content, &curves));
            }
        }
    }
    out
}

fn curve(series: &Series, content: Content, name: &'static str, join: Join) -> Curve {
    let every = series.values.len().div_ceil(POINTS).max(1);
    let step = series.interval_ns as f64 / 1e9;
    let points = series
        .values
        .chunks(every)
        .enumerate()
        .filter_map(|(place, values)| {
            let mut known: Vec<f64> =
                values.iter().filter_map(|value| *value).filter(|value| value.is_finite()).collect();
            if known.is_empty() {
                return None;
            }
            known.sort_by(f64::total_cmp);
            let seconds = values.len() as f64 * step;
            let value = match join {
                Join::Largest => known.last().copied().unwrap_or(0.0),
                Join::Middle => known.get(known.len() / 2).copied().unwrap_or(0.0),
                Join::Sum => known.iter().sum::<f64>() / seconds.max(1e-9),
            };
            let value = if content == Content::Bits { value * 8.0 / 1e6 } else { value };
            Some((place as f64 * every as f64 * step, value))
        })
        .collect();
    Curve { name, points }
}

fn draw(heading: String, content: Content, curves: &[Curve]) -> Option<Picture> {
    let values = || curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
    let domain = Domain::of(values())?;
    // Rates are read from 0.
    let domain =
        if content == Content::Times { domain } else { Domain::of(std::iter::once(values().fold(0.0, f64::max)))? };
    let end = curves.iter().flat_map(|curve| &curve.points).map(|(at, _)| *at).fold(0.0, f64::max).max(1e-9);
    let time = Domain { low: 0.0, high: end, log: false };
    let series = curves.iter().enumerate().map(|(style, curve)| {
        let place = |(at, value): &(f64, f64)| (time.at(*at), domain.at(value.max(domain.low)).clamp(0.0, 1.0));
        let points: Vec<(f64, f64)> = curve.points.iter().map(place).collect();
        chart::Series {
            name: curve.name.to_owned(),
            style,
            tip: describe(content, curve),
            end: points.last().copied().unwrap_or_default(),
            curve: points,
            ..chart::Series::default()
        }
    });
    let series: Vec<chart::Series> = series.collect();
    let words: Vec<&str> = series.iter().map(|series| series.tip.as_str()).collect();
    let chart = Chart {
        title: heading.clone(),
        description: format!("{}.", words.join("; ")),
        height: 150.0,
        ticks_x: time.labelled(|seconds| format!("{} s", number(seconds))),
        grid_x: true,
        ticks_y: domain.labelled(if content == Content::Times { tick } else { number }),
        series,
        ..Chart::default()
    };
    Some(Picture { heading, figure: chart.figure() })
}

fn number(value: f64) -> String {
    let text = if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn describe(content: Content, curve: &Curve) -> String {
    let low = curve.points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let high = curve.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let word = |value: f64| if content == Content::Times { span(value) } else { number(value) };
    format!("{}: {} to {} over {}", curve.name, word(low), word(high), counted(curve.points.len(), "point"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_the_ends_of_their_lines() {
        let curve = |name, value: f64| Curve { name, points: vec![(0.0, value), (1.0, 2.0 * value)] };
        let curves = [curve("RTT p50", 10e3), curve("RTT p99", 11e3), curve("RTT max", 90e3)];
        let svg = draw("times".into(), Content::Times, &curves).unwrap().figure.in_page("");
        let at = |name: &str| {
            let before = svg.split(&format!(">{name}</text>")).next().unwrap();
            let place = |axis: &str| before.rsplit(&format!(" {axis}=\"")).next().unwrap().split('"').next().unwrap();
            (place("x").parse::<f64>().unwrap(), place("y").parse::<f64>().unwrap())
        };
        let [p50, p99, max] = ["RTT p50", "RTT p99", "RTT max"].map(at);
        assert!(p50.0 > 400.0 && p50.0 == p99.0 && p99.0 == max.0, "beside the plot: {svg}");
        assert!(max.1 < p99.1 && p50.1 - p99.1 >= 14.0, "in the order of their ends, apart: {svg}");
    }
}
