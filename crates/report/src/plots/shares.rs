//! Distributions: by their tail, and whole.

use super::{Apart, Panel, Picture, panels, tip};
use crate::Report;
use crate::cells::Cell;
use crate::document::CellInfo;
use crate::svg::{Curve, Domain, Shares, TailChart};

/// A distribution as counts, ascending.
type Counts = Vec<(f64, u64)>;

fn counts(cell: &Cell) -> Counts {
    cell.points.iter().map(|(ns, count)| (*ns as f64 * cell.of_rtt, *count)).collect()
}

/// The value below which a share of the messages lies.
fn quantile(counts: &Counts, share: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    counts.iter().find_map(|(ns, count)| {
        seen += count;
        (seen as f64 >= share * total as f64).then_some(*ns)
    })
}

/// Ping-pong at the table's size, or all cells of `pace`, each of their sizes and rates apart.
fn groups<'a>(report: &'a Report, probe: &str) -> (Vec<Panel<'a>>, &'static str) {
    let size = report.document.size_bytes;
    let keep = |info: &CellInfo| info.probe == probe && (probe == "pace" || info.size_bytes == size);
    let apart = |info: &CellInfo| -> Apart {
        if probe != "pace" {
            return Vec::new();
        }
        let rate = info.factors.get("rate").cloned().unwrap_or_default();
        vec![("size", info.size_bytes.to_string()), ("rate", rate)]
    };
    let mut found = panels(&report.cells, keep, apart);
    found.retain(|panel| panel.lines.values().flatten().any(|cell| !cell.points.is_empty()));
    (found, if probe == "pace" { "RTT" } else { report.document.kind.title() })
}

/// The tail of the distributions, one panel a protocol (of `pace` a size and rate too), all of a probe on one scale.
pub(crate) fn tails(report: &Report) -> Vec<Picture> {
    ["pingpong", "pace"].into_iter().flat_map(|probe| tails_of(report, probe)).collect()
}

fn tails_of(report: &Report, probe: &str) -> Vec<Picture> {
    let (panels, kind) = groups(report, probe);
    let shown = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let low = shown().filter_map(|cell| counts(cell).first().map(|(ns, _)| *ns)).reduce(f64::min);
    let high = shown().filter_map(|cell| counts(cell).last().map(|(ns, _)| *ns)).reduce(f64::max);
    let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
    let domain = Domain::log(low.max(1.0), high.max(low.max(1.0) * 1.5));
    let most = shown().map(|cell| cell.points.iter().map(|(_, count)| count).sum::<u64>()).max().unwrap_or(1);
    let depth = most.max(10).ilog10() + u32::from(!is_power_of_ten(most.max(10)));
    let what = format!("share of messages that took longer{}", at_size(report, probe));
    draw(&panels, probe, "tail", &format!("Tail of {kind}"), kind, domain, Shares::Longer(depth), &what)
}

/// The distribution functions of the same, up to the largest p99.9: what lies beyond is the tail's.
pub(crate) fn functions(report: &Report) -> Vec<Picture> {
    ["pingpong", "pace"].into_iter().flat_map(|probe| functions_of(report, probe)).collect()
}

fn functions_of(report: &Report, probe: &str) -> Vec<Picture> {
    let (panels, kind) = groups(report, probe);
    let shown = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let low = shown().filter_map(|cell| quantile(&counts(cell), 0.001)).reduce(f64::min);
    // One cell far beyond the others must not squeeze these into a wall: it leaves at the right edge.
    let mut highs: Vec<f64> = shown().filter_map(|cell| quantile(&counts(cell), 0.99)).collect();
    highs.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (low, highs.last().copied()) else { return Vec::new() };
    let domain = if high > low * 6.0 { Domain::log(low.max(1.0), high) } else { Domain::between(low, high) };
    let what = format!("share of messages that took no longer, up to the largest p99{}", at_size(report, probe));
    draw(&panels, probe, "function", &format!("Distribution function of {kind}"), kind, domain, Shares::Within, &what)
}

fn at_size(report: &Report, probe: &str) -> String {
    if probe == "pace" { String::new() } else { format!(", {} bytes", report.document.size_bytes) }
}

#[expect(clippy::too_many_arguments, reason = "what two kinds of picture have in common")]
fn draw(
    panels: &[Panel<'_>],
    probe: &str,
    word: &str,
    name: &str,
    kind: &str,
    domain: Domain,
    shares: Shares,
    what: &str,
) -> Vec<Picture> {
    panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            let curves: Vec<Curve> = panel
                .lines
                .iter()
                .filter_map(|(style, cells)| {
                    let cell = cells.iter().find(|cell| !cell.points.is_empty())?;
                    Some(Curve { label: panel.label(cell), style: *style, counts: counts(cell), tip: tip(&cell.info) })
                })
                .collect();
            let words: Vec<String> = curves.iter().map(|curve| curve.tip.clone()).collect();
            let id = if probe == "pingpong" { format!("{word}-{number}") } else { format!("{word}-{probe}-{number}") };
            let chart = TailChart {
                id,
                title: format!("{name}, {}", panel.heading),
                description: format!("{}.", words.join("; ")),
                quantity: kind.to_owned(),
                domain,
                shares,
                curves,
            };
            Picture { heading: format!("{} · {what}", panel.heading), svg: chart.svg() }
        })
        .collect()
}

fn is_power_of_ten(value: u64) -> bool {
    10u64.checked_pow(value.max(1).ilog10()) == Some(value)
}
