//! The tables of all cells as data for the template.

use super::FigureCell;
use super::table::spread;
use crate::combine::middle;
use crate::document::{CellInfo, Document, PaceInfo, RateInfo, Spread};
use crate::units::{grouped, us, us_or_dash};
use crate::{Report, svg};
use minijinja::Value;
use model::{FlowReport, Latency, ResultDocument, StreamReport};
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Serialize)]
struct CellRow {
    /// Where its page is.
    anchor: String,
    size: String,
    repetitions: String,
    count: String,
    figures: Vec<FigureCell>,
    lost: String,
    sign: &'static str,
    /// Words of the findings.
    found: String,
    /// Their evidence.
    evidence: String,
    rate: Option<RateRow>,
    pace: Option<PaceRow>,
    mdev: String,
}

#[derive(Serialize)]
struct PaceRow {
    asked: String,
    achieved: String,
    /// Whether so little of the rate was reached that it has to be seen.
    short: bool,
    saturated: String,
    /// p50, p99, p99.9 and the largest.
    actual: [String; 4],
    intended: [String; 4],
    /// p50, p99 and the largest.
    lateness: [String; 3],
}

#[derive(Serialize)]
struct RateRow {
    per_second: String,
    interval: String,
    response: String,
    initiator: [String; 4],
    reflector: [String; 4],
}

#[derive(Serialize)]
pub(super) struct CellGroup {
    label: String,
    probe: String,
    protocol: String,
    kind: &'static str,
    swatch: Value,
    rows: Vec<CellRow>,
}

pub(super) fn groups(document: &Document, probe: &str) -> Vec<CellGroup> {
    let mut out: Vec<CellGroup> = Vec::new();
    let mut last: Option<(usize, &str)> = None;
    for (number, info) in document.cells.iter().enumerate().filter(|(_, info)| info.probe == probe) {
        let key = (info.row, info.protocol.as_str());
        if last != Some(key) {
            out.push(CellGroup {
                label: info.label.clone(),
                probe: info.probe.clone(),
                protocol: info.protocol.to_uppercase(),
                kind: info.kind.title(),
                swatch: Value::from_safe_string(if matches!(probe, "pingpong" | "pace") {
                    svg::swatch(info.colour)
                } else {
                    String::new()
                }),
                rows: Vec::new(),
            });
            last = Some(key);
        }
        if let Some(group) = out.last_mut() {
            group.rows.push(cell_row(number, info));
        }
    }
    out
}

fn cell_row(number: usize, info: &CellInfo) -> CellRow {
    let figure = |ns: Option<f64>, range: Option<Spread>| FigureCell {
        text: ns.map_or_else(|| "–".to_owned(), us),
        sign: "",
        tip: if ns.is_none() { "fewer than 10 messages lie beyond this quantile".to_owned() } else { spread(range) },
        first: false,
    };
    let repetitions = match info.left_out {
        0 => info.repetitions.to_string(),
        left_out => format!("{} of {}", info.repetitions, info.repetitions + left_out),
    };
    CellRow {
        anchor: format!("cell-{number}"),
        size: grouped(info.size_bytes),
        repetitions,
        count: grouped(info.count),
        figures: vec![
            figure(info.mean_ns, info.mean_range),
            figure(info.stdev_ns, info.stdev_range),
            figure(info.min_ns, None),
            figure(info.p50_ns, info.p50_range),
            figure(info.p90_ns, None),
            figure(info.p99_ns, None),
            figure(info.p99_9_ns, None),
            figure(info.p99_99_ns, None),
            figure(info.p99_999_ns, None),
            figure(info.max_ns, None),
        ],
        lost: grouped(info.lost),
        sign: info.mark.sign(),
        found: found(info),
        evidence: evidence(info),
        rate: info.rate.as_ref().map(rate_row),
        pace: info.pace.as_ref().map(|pace| pace_row(info, pace)),
        mdev: info.mdev_ns.map_or_else(|| "–".to_owned(), us),
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

/// Microseconds for a crowded table: decimals only where they say something.
fn short_us(ns: Option<f64>) -> String {
    let Some(us) = ns.map(|ns| ns / 1000.0) else { return "–".to_owned() };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times are positive and at most an hour"
    )]
    let whole = us.round().max(0.0) as u64;
    match us {
        us if us < 99.95 => format!("{us:.2}"),
        us if us < 999.5 => format!("{us:.1}"),
        _ => grouped(whole),
    }
}

fn pace_row(actual: &CellInfo, pace: &PaceInfo) -> PaceRow {
    let intended = pace.intended.unwrap_or_default();
    let lateness = pace.lateness.unwrap_or_default();
    let rate = |rate: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rates are positive and at most 1e8"
        )]
        let whole = rate.round() as u64;
        if rate < 100.0 { format!("{rate:.1}") } else { grouped(whole) }
    };
    // Four distributions beside each other leave room for three to five digits.
    PaceRow {
        actual: [actual.p50_ns, actual.p99_ns, actual.p99_9_ns, actual.max_ns].map(short_us),
        asked: rate(pace.asked_pps),
        achieved: rate(pace.achieved_pps),
        short: pace.achieved_pps < pace.asked_pps * 0.997,
        saturated: pace.saturated.clone().unwrap_or_default(),
        intended: [intended.p50_ns, intended.p99_ns, intended.p99_9_ns, intended.max_ns].map(short_us),
        lateness: [lateness.p50_ns, lateness.p99_ns, lateness.max_ns].map(short_us),
    }
}

/// One direction of a cell of `stream`.
#[derive(Serialize)]
pub(super) struct StreamRow {
    anchor: String,
    label: String,
    what: String,
    size: String,
    repetitions: usize,
    mbit: FigureCell,
    datagrams: String,
    lost: String,
    reordered: String,
    jitter: String,
    retransmits: String,
    tcp_rtt: String,
    demand: String,
    idle: String,
    working: String,
    sign: &'static str,
    evidence: String,
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
    let grid = crate::pgm::table(document)?;
    let mut heads: Vec<Vec<String>> = grid.columns.iter().map(|column| column.heading.clone()).collect();
    for (first, last, text) in grid.bands.iter().flatten() {
        for head in heads.get_mut(*first..=*last).into_iter().flatten() {
            head.insert(0, text.clone());
        }
    }
    heads.iter_mut().for_each(|head| head.retain(|line| !line.is_empty()));
    Some(Plain { heads, rows: grid.rows })
}

/// The streams, a row a direction; means over the repetitions.
pub(super) fn streams(report: &Report) -> Vec<StreamRow> {
    let mut rows = Vec::new();
    for (number, cell) in report.cells.iter().enumerate().filter(|(_, cell)| cell.info.probe == "stream") {
        let Some(run) = report.inputs.get(cell.run) else { continue };
        let results: Vec<&ResultDocument> = cell.members.iter().filter_map(|member| run.results.get(*member)).collect();
        let trusted: Vec<&ResultDocument> = results.iter().copied().filter(|result| result.verdict.trusted).collect();
        let used = if trusted.is_empty() { results } else { trusted };
        let streams: Vec<&StreamReport> = used.iter().filter_map(|result| result.stream.as_ref()).collect();
        let directions: BTreeSet<&str> =
            streams.iter().flat_map(|stream| &stream.flows).map(|flow| flow.direction.as_str()).collect();
        // Up before down.
        for direction in directions.into_iter().rev() {
            let flows: Vec<&FlowReport> =
                streams.iter().flat_map(|stream| &stream.flows).filter(|flow| flow.direction == direction).collect();
            rows.push(stream_row(number, &cell.info, direction, &flows, &streams));
        }
    }
    rows
}

fn stream_row(
    number: usize,
    info: &CellInfo,
    direction: &str,
    flows: &[&FlowReport],
    streams: &[&StreamReport],
) -> StreamRow {
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let of = |pick: &dyn Fn(&FlowReport) -> Option<f64>| -> Vec<f64> {
        flows.iter().filter_map(|flow| pick(flow)).collect()
    };
    let count = |pick: &dyn Fn(&FlowReport) -> Option<u64>| {
        let values: Vec<u64> = flows.iter().filter_map(|flow| pick(flow)).collect();
        if values.is_empty() { "–".to_owned() } else { grouped(values.iter().sum()) }
    };
    let rates = of(&|flow| Some(flow.bits_per_second / 1e6));
    let many = flows.iter().map(|flow| flow.flows).max().unwrap_or(1);
    let flows_word = if many > 1 { format!(", {many} flows") } else { String::new() };
    let demand = |pick: fn(&StreamReport) -> Option<f64>| {
        mean(streams.iter().filter_map(|stream| pick(stream)).collect())
            .map_or_else(|| "–".to_owned(), |us| format!("{us:.3}"))
    };
    let latency = |pick: fn(&StreamReport) -> Option<&Latency>| {
        let all: Vec<&Latency> = streams.iter().filter_map(|stream| pick(stream)).collect();
        let figure = |pick: fn(&Latency) -> Option<u64>| {
            us_or_dash(middle(&all.iter().filter_map(|latency| pick(latency).map(|ns| ns as f64)).collect::<Vec<_>>()))
        };
        if all.is_empty() { "–".to_owned() } else { format!("{} | {}", figure(|l| l.p50_ns), figure(|l| l.p99_ns)) }
    };
    let digits = |value: f64| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    StreamRow {
        anchor: format!("cell-{number}"),
        label: info.label.clone(),
        what: format!("{} {direction}{flows_word}", info.protocol.to_uppercase()),
        size: grouped(info.size_bytes),
        repetitions: info.repetitions,
        mbit: FigureCell {
            text: mean(rates.clone()).map_or_else(|| "–".to_owned(), digits),
            sign: "",
            tip: crate::combine::spread(&rates)
                .map(|range| format!("repetitions {} to {} Mbit/s", digits(range.low_ns), digits(range.high_ns)))
                .unwrap_or_default(),
            first: false,
        },
        datagrams: mean(of(&|flow| flow.datagrams_per_second))
            .map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}")),
        lost: count(&|flow| flow.lost),
        reordered: count(&|flow| flow.reordered),
        jitter: us_or_dash(mean(of(&|flow| flow.rfc3550_jitter_ns))),
        retransmits: count(&|flow| flow.retransmits),
        tcp_rtt: us_or_dash(mean(of(&|flow| flow.tcp_rtt_mean_ns.map(|ns| ns as f64)))),
        demand: format!(
            "{} | {}",
            demand(|stream| stream.initiator_us_per_kib),
            demand(|stream| stream.reflector_us_per_kib)
        ),
        idle: latency(|stream| stream.idle_latency.as_ref()),
        working: latency(|stream| stream.working_latency.as_ref()),
        sign: info.mark.sign(),
        evidence: evidence(info),
    }
}

fn rate_row(rate: &RateInfo) -> RateRow {
    let figure =
        |value: Option<f64>, digits: usize| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
    RateRow {
        per_second: format!("{:.0}", rate.per_second),
        interval: figure(rate.ci95_percent, 1),
        response: grouped(u64::from(rate.response_bytes)),
        initiator: [
            figure(rate.initiator_machine_percent, 0),
            figure(rate.initiator_service_demand_us, 2),
            figure(rate.initiator_process_us, 2),
            figure(rate.initiator_softirq_us, 2),
        ],
        reflector: [
            figure(rate.reflector_machine_percent, 0),
            figure(rate.reflector_service_demand_us, 2),
            figure(rate.reflector_process_us, 2),
            figure(rate.reflector_softirq_us, 2),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_of_both_ends_is_named_once() {
        assert_eq!(each_once(["other-tasks", "steal", "other-tasks"].into_iter()), ["other-tasks", "steal"]);
    }
}
