//! A cell's quantities over time as small charts: times on one axis, rates on another. What the heat maps show better
//! (quantiles of `pace`) is not drawn again.

use crate::svg::{Anchor, Domain, Name, Names, Plot, ROOM, Svg, series_class, time_axis_y, xy};
use crate::units::{counted, span};
use model::result::Series;
use model::{Probe, ResultDocument};
use std::collections::BTreeMap;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 190.0;
const TOP: f64 = 14.0;
const BELOW: f64 = 26.0;
/// Points that a line has at most: intervals are joined until they fit.
const POINTS: usize = 300;
/// Fewer intervals than this show nothing.
const LEAST: usize = 4;
/// Repetitions that are drawn.
const REPETITIONS: usize = 3;

/// How neighbouring intervals become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Largest,
    Sum,
    Middle,
}

/// What a quantity is drawn as: its chart, its name there, its unit and how intervals are joined.
fn kind(quantity: &str) -> Option<(Chart, &'static str, Join)> {
    Some(match quantity {
        "rtt_p50_ns" => (Chart::Times, "RTT p50", Join::Middle),
        "rtt_p99_ns" => (Chart::Times, "RTT p99", Join::Largest),
        "rtt_max_ns" => (Chart::Times, "RTT max", Join::Largest),
        "tcp_rtt_ns" => (Chart::Times, "TCP's RTT", Join::Middle),
        "rfc3550_jitter_ns" => (Chart::Times, "jitter (RFC 3550)", Join::Middle),
        "bytes" => (Chart::Bits, "Mbit/s", Join::Sum),
        "sent" => (Chart::Rates, "sent", Join::Sum),
        "received" => (Chart::Rates, "received", Join::Sum),
        "lost" => (Chart::Rates, "lost", Join::Sum),
        "reordered" => (Chart::Rates, "reordered", Join::Sum),
        "retransmits" => (Chart::Rates, "sent again", Join::Sum),
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Chart {
    Times,
    Bits,
    Rates,
}

struct Line {
    name: &'static str,
    /// Start and value.
    points: Vec<(f64, f64)>,
}

/// Heading and picture of each chart of a cell's repetitions.
pub(super) fn of(cell: usize, results: &[&ResultDocument]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for result in results.iter().take(REPETITIONS) {
        let mut hosts: Vec<&str> = result.series.iter().map(|series| series.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in &hosts {
            let mut charts: BTreeMap<Chart, Vec<Line>> = BTreeMap::new();
            for series in result.series.iter().filter(|series| series.host == *host && series.values.len() >= LEAST) {
                let Some((chart, name, join)) = kind(&series.quantity) else { continue };
                if result.probe == Probe::Pace && chart == Chart::Times {
                    continue;
                }
                let line = line(series, chart, name, join);
                // A line of zeros says nothing that the table does not.
                if line.points.iter().any(|(_, value)| *value > 0.0) {
                    charts.entry(chart).or_default().push(line);
                }
            }
            for (chart, lines) in charts {
                let mut words = vec![
                    match chart {
                        Chart::Times => "times over time",
                        Chart::Bits => "payload delivered, Mbit/s",
                        Chart::Rates => "messages a second",
                    }
                    .to_owned(),
                ];
                if hosts.len() > 1 {
                    words.push(crate::units::plain(host));
                }
                if let Some(repetition) = result.repetition.filter(|_| results.len() > 1) {
                    words.push(format!("repetition {repetition}"));
                }
                let heading = words.join(" · ");
                if let Some(svg) = draw(&format!("series-{cell}-{}", out.len()), &heading, chart, &lines) {
                    out.push((heading, svg));
                }
            }
        }
    }
    out
}

fn line(series: &Series, chart: Chart, name: &'static str, join: Join) -> Line {
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
            let value = if chart == Chart::Bits { value * 8.0 / 1e6 } else { value };
            Some((place as f64 * every as f64 * step, value))
        })
        .collect();
    Line { name, points }
}

fn draw(id: &str, heading: &str, chart: Chart, lines: &[Line]) -> Option<String> {
    let values = || lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
    let domain = Domain::of(values())?;
    // Rates are read from 0.
    let domain =
        if chart == Chart::Times { domain } else { Domain::of(std::iter::once(values().fold(0.0, f64::max)))? };
    let end = lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).fold(0.0, f64::max).max(1e-9);
    let words: Vec<String> = lines.iter().map(|line| describe(chart, line)).collect();
    let mut svg = Svg::new(id, WIDTH, HEIGHT, heading, &format!("{}.", words.join("; ")));
    let names = Names::of(lines.iter().map(|line| line.name), ROOM, HEIGHT - TOP - BELOW, WIDTH - 62.0);
    let plot = Plot { left: 62.0, top: TOP, right: WIDTH - names.beside() - 14.0, bottom: HEIGHT - BELOW };
    if chart == Chart::Times {
        time_axis_y(&mut svg, &plot, &domain);
    } else {
        for value in domain.ticks() {
            let y = plot.y(domain.at(value));
            svg.line("grid", plot.left, y, plot.right, y);
            svg.text("tick", plot.left - 8.0, y + 4.0, Anchor::End, &number(value));
        }
        svg.line("axis", plot.left, plot.bottom, plot.right, plot.bottom);
    }
    let mut ends: Vec<Name<'_>> = Vec::new();
    for (style, line) in lines.iter().enumerate() {
        let class = series_class(style);
        svg.open(&format!("series {class}"), &describe(chart, line));
        let place =
            |(at, value): &(f64, f64)| (plot.x(at / end), plot.y(domain.at(value.max(domain.low)).clamp(0.0, 1.0)));
        let path: Vec<String> = line.points.iter().map(place).map(|(x, y)| format!("{} {}", xy(x), xy(y))).collect();
        svg.path("curve", &format!("M{}", path.join("L")));
        svg.close();
        ends.push((line.name, style, line.points.last().map_or((plot.right, plot.bottom), place)));
    }
    names.draw(&mut svg, &plot, WIDTH, &ends);
    svg.text("tick", plot.left, plot.bottom + 18.0, Anchor::Start, "0 s");
    svg.text("tick", plot.right, plot.bottom + 18.0, Anchor::End, &format!("{} s", number(end)));
    Some(svg.finish())
}

/// A number of an axis.
fn number(value: f64) -> String {
    let text = if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn describe(chart: Chart, line: &Line) -> String {
    let low = line.points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let high = line.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let word = |value: f64| if chart == Chart::Times { span(value) } else { number(value) };
    format!("{}: {} to {} over {}", line.name, word(low), word(high), counted(line.points.len(), "point"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_the_ends_of_their_lines() {
        let line = |name, value: f64| Line { name, points: vec![(0.0, value), (1.0, 2.0 * value)] };
        let lines = [line("RTT p50", 10e3), line("RTT p99", 11e3), line("RTT max", 90e3)];
        let svg = draw("x", "times", Chart::Times, &lines).unwrap();
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
