//! Time and jitter of ping-pong against message size.

use super::{Panel, Picture, panels};
use crate::Report;
use crate::cells::Cell;
use crate::document::{CellInfo, Mark};
use crate::svg::{Across, Domain, LineChart, Point, Series, Shown};
use crate::units::{counted, span, spans};

/// What a size chart shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Time,
    Jitter,
}

impl Quantity {
    fn of(self, info: &CellInfo) -> (Option<f64>, Option<[f64; 2]>) {
        let id = if self == Self::Time { "mean" } else { "stdev" };
        (info.value(id), info.range(id))
    }
}

/// Time or jitter against message size, one panel a protocol, all on one scale. Empty with fewer than two sizes.
pub(crate) fn by_size(report: &Report, quantity: Quantity) -> Vec<Picture> {
    let kind = report.document.kind.title();
    let panels: Vec<Panel<'_>> = panels(&report.cells, |info| info.probe == "pingpong", |_| Vec::new())
        .into_iter()
        .filter(|panel| panel.lines.values().any(|cells| cells.len() > 1))
        .collect();
    let shown = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let values = shown().flat_map(|cell| {
        let (value, range) = quantity.of(&cell.info);
        value.into_iter().chain(range.into_iter().flatten())
    });
    let Some(domain) = Domain::of(values) else { return Vec::new() };
    let (word, name) = match quantity {
        Quantity::Time => ("time", format!("Mean {kind}")),
        Quantity::Jitter => ("jitter", format!("Jitter (standard deviation of {kind})")),
    };
    panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            let series: Vec<Series> =
                panel.lines.iter().map(|(style, cells)| line(panel, *style, cells, quantity, kind)).collect();
            let scale = if domain.log { "logarithmic scale" } else { "scale from 0" };
            let chart = LineChart {
                id: format!("{word}-{number}"),
                title: format!("{name} against message size, {}", panel.heading),
                description: describe(&series, &panel.protocol),
                across: Across::Size,
                shown: Shown::Time,
                domain,
                series,
            };
            Picture { heading: format!("{} · {name}, {scale}", panel.heading), svg: chart.svg() }
        })
        .collect()
}

fn line(panel: &Panel<'_>, style: usize, cells: &[&Cell], quantity: Quantity, kind: &str) -> Series {
    let points = cells
        .iter()
        .filter_map(|cell| {
            let info = &cell.info;
            let (value, range) = quantity.of(info);
            let y = value.filter(|ns| *ns > 0.0)?;
            let spread =
                range.map(|[low, high]| format!(", repetitions {}", spans(low, "to", high))).unwrap_or_default();
            let doubt = if info.mark == Mark::Invalid { " (!)" } else { "" };
            Some(Point {
                x: info.size_bytes as f64,
                y,
                range: range.map(Into::into),
                trusted: info.mark != Mark::Invalid,
                tip: format!("{}: {} B, {kind} {}{spread}{doubt}", info.label, info.size_bytes, span(y)),
            })
        })
        .collect();
    let label = cells.first().map(|cell| panel.label(cell)).unwrap_or_default();
    Series { label, style, points }
}

/// The picture in words, for those who cannot see it.
fn describe(series: &[Series], protocol: &str) -> String {
    let lines: Vec<String> = series
        .iter()
        .filter_map(|series| {
            let (first, last) = (series.points.first()?, series.points.last()?);
            Some(format!(
                "{}: {} at {} bytes, {} at {} bytes",
                series.label,
                span(first.y),
                first.x,
                span(last.y),
                last.x
            ))
        })
        .collect();
    format!("{} over {}. {}.", counted(series.len(), "line"), protocol.to_uppercase(), lines.join("; "))
}
