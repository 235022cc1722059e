//! The tables of all cells as data for the template.

use super::FigureCell;
use crate::cell_tables::{Part, Room, heading, text};
use crate::chart;
use crate::document::{CellInfo, Document};
use crate::units::{figure, grouped, spans};
use minijinja::Value;
use model::quantity::{self, Unit};
use serde::Serialize;

/// So little of a rate may be missing.
const REACHED: f64 = 0.997;

/// The cells of one probe.
#[derive(Serialize)]
pub(super) struct CellTable {
    title: &'static str,
    about: String,
    /// Whether it needs the whole width of the window.
    wide: bool,
    /// Words above some columns, and over how many.
    bands: Vec<(&'static str, usize)>,
    /// Title and unit of each column.
    heads: Vec<[&'static str; 2]>,
    rows: Vec<CellRow>,
}

#[derive(Serialize)]
struct CellRow {
    /// Where its page is.
    anchor: String,
    /// Its colour in charts.
    swatch: Value,
    label: String,
    what: String,
    size: String,
    repetitions: String,
    figures: Vec<FigureCell>,
    sign: &'static str,
    /// Words of the findings.
    found: String,
    /// Their evidence.
    evidence: String,
}

const TIMES: &[&str] =
    &["count", "mean", "stdev", "min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max", "lost"];

/// What stands in a table.
fn parts(title: &str) -> &'static [Part] {
    match title {
        "rr" => &[
            ("", &["response", "transactions", "transactions-ci95"]),
            ("latency", &["mean", "stdev", "p50", "p99", "max"]),
        ],
        "rr: CPU" => &[
            ("initiator", &["initiator.machine", "initiator.demand", "initiator.process", "initiator.softirq"]),
            ("reflector", &["reflector.machine", "reflector.demand", "reflector.process", "reflector.softirq"]),
        ],
        "ping" => &[("", &["count", "min", "mean", "max", "mdev", "p50", "p99", "p99.9", "lost"])],
        "pace" => &[
            ("messages a second", &["asked", "achieved"]),
            ("RTT from actual send", &["p50", "p99", "p99.9", "max"]),
            ("RTT from intended send", &["intended.p50", "intended.p99", "intended.p99.9", "intended.max"]),
            ("lateness", &["lateness.p50", "lateness.p99", "lateness.max"]),
            ("", &["lost", "gaps"]),
        ],
        "stream" => &[
            ("", &["up.bits", "up.datagrams", "up.lost", "up.reordered", "up.rfc3550-jitter", "up.retransmits"]),
            ("TCP's RTT", &["up.tcp-rtt", "up.tcp-rtt-max"]),
        ],
        "stream: CPU and RTT" => &[
            ("CPU at both ends", &["initiator.us-per-kib", "reflector.us-per-kib"]),
            ("RTT idle", &["idle.p50", "idle.p99"]),
            ("RTT under load", &["working.p50", "working.p99"]),
        ],
        _ => &[("", TIMES)],
    }
}

/// The tables, a probe each; of a stream a row a direction.
pub(super) fn tables(document: &Document) -> Vec<CellTable> {
    [
        ("pingpong", "pingpong", "one message at a time"),
        ("rr", "rr", "request/response as netperf measures it"),
        ("rr", "rr: CPU", "what a transaction costs at both ends"),
        ("ping", "ping", "ICMP echo, answered by the far kernel"),
        ("pace", "pace", "messages at a fixed rate, the whole round trip"),
        ("stream", "stream", "bulk data"),
        ("stream", "stream: CPU and RTT", "what a KiB costs at both ends, and a ping-pong before and beside it"),
    ]
    .into_iter()
    .filter_map(|(probe, title, about)| {
        let cells: Vec<(usize, &CellInfo)> =
            document.cells.iter().enumerate().filter(|(_, info)| info.probe == probe).collect();
        let kind = cells.first()?.1.kind.title();
        let parts = parts(title);
        let ids = || parts.iter().flat_map(|(band, ids)| ids.iter().map(move |id| (*id, !band.is_empty())));
        let rows = |(number, info): (usize, &CellInfo)| -> Vec<CellRow> {
            let own: Vec<&str> = ids().map(|(id, _)| id).collect();
            let directions: Vec<&str> =
                ["up", "down"].into_iter().filter(|way| info.value(&format!("{way}.bits")).is_some()).collect();
            if directions.is_empty() {
                return vec![row(number, info, &own, "")];
            }
            let of = |way: &str| {
                let ids: Vec<String> = own.iter().map(|id| id.replace("up.", &format!("{way}."))).collect();
                row(number, info, &ids.iter().map(String::as_str).collect::<Vec<_>>(), way)
            };
            directions.into_iter().map(of).collect()
        };
        Some(CellTable {
            title,
            about: format!("{about}; {kind} and times in µs"),
            wide: ids().count() > 12,
            bands: parts.iter().map(|(band, ids)| (*band, ids.len())).collect(),
            // The words above the table say the unit of times, which would make every column wider.
            heads: ids()
                .map(|(id, banded)| heading(id, banded, Room::Wide))
                .map(|[title, unit]| [title, if unit == "µs" { "" } else { unit }])
                .collect(),
            rows: cells.iter().copied().flat_map(rows).collect(),
        })
    })
    .collect()
}

fn row(number: usize, info: &CellInfo, ids: &[&str], direction: &str) -> CellRow {
    let many = Some(info.count(&format!("{direction}.flows"))).filter(|flows| *flows > 1);
    let many = many.map(|flows| format!(", {flows} flows")).unwrap_or_default();
    CellRow {
        anchor: format!("cell-{number}"),
        swatch: Value::from_safe_string(if matches!(info.probe.as_str(), "pingpong" | "pace") {
            chart::swatch(info.colour)
        } else {
            String::new()
        }),
        label: info.label.clone(),
        what: format!("{} {direction}{many}", info.protocol.to_uppercase()).trim().to_owned(),
        size: grouped(info.size_bytes),
        repetitions: match info.left_out {
            0 => info.repetitions.to_string(),
            left_out => format!("{} of {}", info.repetitions, info.repetitions + left_out),
        },
        figures: ids.iter().map(|id| figure_cell(info, id)).collect(),
        sign: info.mark.sign(),
        found: found(info),
        evidence: evidence(info),
    }
}

/// A figure with its range over the repetitions, or why there is none.
fn figure_cell(info: &CellInfo, id: &str) -> FigureCell {
    let Some(quantity) = quantity::find(id) else { return FigureCell::default() };
    let value = info.value(id);
    let range = info.range(id).map(|[low, high]| match quantity.unit {
        Unit::Ns => format!("repetitions {}", spans(low, "to", high)),
        unit => format!("repetitions {} to {}", figure(unit, low), figure(unit, high)),
    });
    let is_percentile = quantity.statistic().is_some_and(|(_, statistic)| statistic.quantile().is_some());
    let none = (value.is_none() && is_percentile).then(|| "fewer than 10 messages lie beyond this quantile".to_owned());
    let short = id == "achieved" && info.value("reached").is_some_and(|share| share < REACHED);
    let saturated = info.words.get("saturated").filter(|_| short).cloned();
    FigureCell {
        text: match (quantity.unit, value) {
            (Unit::Count, Some(count)) => grouped(crate::units::whole(count)),
            (unit, value) => text(unit, value, Room::Wide),
        },
        sign: "",
        tip: [none, range, saturated].into_iter().flatten().collect::<Vec<_>>().join("\n"),
        first: false,
        short,
    }
}

/// Words of the findings; dashes in the row already tell of too few messages.
pub(super) fn found(info: &CellInfo) -> String {
    let few = model::FindingId::FewSamples.word();
    each_once(info.findings.iter().map(|finding| finding.id.as_str()).filter(|id| *id != few)).join(", ")
}

/// Ids in the order found. The same may be found at both ends, with others in between.
fn each_once<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    for id in ids {
        if !kept.contains(&id) {
            kept.push(id);
        }
    }
    kept
}

fn evidence(info: &CellInfo) -> String {
    let total = info.repetitions + info.left_out;
    let lines: Vec<String> = info
        .findings
        .iter()
        .map(|finding| {
            let at = finding.end.as_deref().map(|end| format!(" at the {end}")).unwrap_or_default();
            let times = if total > 1 { format!(" ({} of {total})", finding.repetitions) } else { String::new() };
            let sign = if finding.invalid { "! " } else { "" };
            format!("{sign}{}{at}{times}: {}", finding.id, finding.detail)
        })
        .collect();
    lines.join("\n")
}

/// A table whose columns are not known beforehand.
#[derive(Serialize)]
pub(super) struct Plain {
    /// Lines of each heading.
    heads: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
}

/// What PGM repaired, apart from the rest; nothing without it.
pub(super) fn pgm(document: &Document) -> Option<Plain> {
    let grid = crate::cell_tables::pgm(document)?;
    let mut heads: Vec<Vec<String>> = grid.columns.iter().map(|column| column.heading.clone()).collect();
    for (first, last, text) in grid.bands.iter().flatten() {
        for head in heads.get_mut(*first..=*last).into_iter().flatten() {
            head.insert(0, text.clone());
        }
    }
    heads.iter_mut().for_each(|head| head.retain(|line| !line.is_empty()));
    Some(Plain { heads, rows: grid.rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_of_both_ends_is_named_once() {
        assert_eq!(each_once(["other-tasks", "steal", "other-tasks"].into_iter()), ["other-tasks", "steal"]);
    }
}
