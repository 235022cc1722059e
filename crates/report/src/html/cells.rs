//! The tables of all cells as data for the template.

use super::FigureCell;
use super::table::spread;
use crate::document::{CellInfo, Document, RateInfo, Spread};
use crate::svg;
use crate::units::{grouped, us};
use minijinja::Value;
use serde::Serialize;

#[derive(Serialize)]
struct CellRow {
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
    mdev: String,
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
    for info in document.cells.iter().filter(|info| info.probe == probe) {
        let key = (info.row, info.protocol.as_str());
        if last != Some(key) {
            out.push(CellGroup {
                label: info.label.clone(),
                probe: info.probe.clone(),
                protocol: info.protocol.to_uppercase(),
                kind: info.kind.title(),
                swatch: Value::from_safe_string(if probe == "pingpong" {
                    svg::swatch(info.row)
                } else {
                    String::new()
                }),
                rows: Vec::new(),
            });
            last = Some(key);
        }
        if let Some(group) = out.last_mut() {
            group.rows.push(cell_row(info));
        }
    }
    out
}

fn cell_row(info: &CellInfo) -> CellRow {
    let figure = |ns: Option<f64>, range: Option<Spread>| FigureCell {
        text: ns.map_or_else(|| "–".to_owned(), us),
        sign: "",
        tip: if ns.is_none() { "fewer than 10 messages lie beyond this quantile".to_owned() } else { spread(range) },
    };
    let repetitions = match info.left_out {
        0 => info.repetitions.to_string(),
        left_out => format!("{} of {}", info.repetitions, info.repetitions + left_out),
    };
    CellRow {
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
        mdev: info.mdev_ns.map_or_else(|| "–".to_owned(), us),
    }
}

/// Words of the findings; dashes in the row already tell of too few messages.
fn found(info: &CellInfo) -> String {
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
