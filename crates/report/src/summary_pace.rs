//! What the data of `pace` say: whether the rates were reached, how the tail lies, and where only the intended send time
//! shows what messages had to wait.

use crate::document::{CellInfo, Document, Mark, PaceInfo};
use crate::units::{commas, counted, span};

/// So little of the rate may be missing.
const REACHED: f64 = 0.997;
/// From this ratio on the sender's own waiting is worth a sentence.
const WAITED: f64 = 2.0;

/// None to three sentences.
pub(crate) fn sentences(document: &Document) -> Vec<String> {
    let cells: Vec<(&CellInfo, &PaceInfo)> =
        document.cells.iter().filter_map(|info| Some((info, info.pace.as_ref()?))).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let mut out = vec![rates(&cells)];
    let trusted: Vec<(&CellInfo, &PaceInfo)> =
        cells.iter().copied().filter(|(info, _)| !(info.mark == Mark::Invalid && info.left_out == 0)).collect();
    out.extend(tail(&trusted, cells.len() - trusted.len()));
    out.extend(waiting(&trusted));
    out.extend(crate::pgm::summary(document));
    out
}

fn place(info: &CellInfo) -> String {
    if info.label == "all cells" { info.protocol.to_uppercase() } else { info.label.clone() }
}

fn rate(pps: f64) -> String {
    if pps < 100.0 {
        return format!("{pps:.1}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive and at most 1e8")]
    let whole = pps.round() as u64;
    commas(whole)
}

fn rates(cells: &[(&CellInfo, &PaceInfo)]) -> String {
    let share = |pace: &PaceInfo| if pace.asked_pps > 0.0 { pace.achieved_pps / pace.asked_pps } else { 1.0 };
    let short: Vec<&(&CellInfo, &PaceInfo)> = cells.iter().filter(|(_, pace)| share(pace) < REACHED).collect();
    let low = cells.iter().map(|(_, pace)| pace.asked_pps).fold(f64::INFINITY, f64::min);
    let high = cells.iter().map(|(_, pace)| pace.asked_pps).fold(0.0, f64::max);
    let span_of = if low < high { format!("{} to {}", rate(low), rate(high)) } else { rate(low) };
    let Some((info, pace)) = short.iter().min_by(|a, b| share(a.1).total_cmp(&share(b.1))) else {
        return format!(
            "The rate asked for ({span_of} messages a second) was reached within 0.3 % in {} of {}.",
            cells.len(),
            counted(cells.len(), "cell")
        );
    };
    let why = pace.saturated.as_ref().map(|why| format!(": {}", why.trim_end_matches('.'))).unwrap_or_default();
    format!(
        "The rate asked for ({span_of} messages a second) was reached within 0.3 % in {} of {}; furthest from it was {} with {} \
         of {}{why}.",
        cells.len() - short.len(),
        counted(cells.len(), "cell"),
        place(info),
        rate(pace.achieved_pps),
        rate(pace.asked_pps)
    )
}

/// One in a thousand by the intended send, which leaves nothing out; `left_out` cells cannot be trusted.
fn tail(cells: &[(&CellInfo, &PaceInfo)], left_out: usize) -> Option<String> {
    let figures: Vec<(f64, &CellInfo)> =
        cells.iter().filter_map(|(info, pace)| Some((pace.intended?.p99_9_ns?, *info))).collect();
    let (least, best) = figures.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (most, worst) = figures.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let longest = cells
        .iter()
        .filter_map(|(info, pace)| Some((pace.intended?.max_ns?, *info)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(ns, info)| format!("; the longest of all took {} ({})", span(ns), place(info)))
        .unwrap_or_default();
    let among = match left_out {
        0 => "One round trip".to_owned(),
        _ => format!("Of the {} that can be trusted: one round trip", counted(cells.len(), "cell")),
    };
    Some(if figures.len() > 1 {
        format!(
            "{among} in a thousand took longer (p99.9 of RTT from the intended send) than {} in the best cell ({}) and \
             than {} in the worst ({}){longest}.",
            span(*least),
            place(best),
            span(*most),
            place(worst)
        )
    } else {
        format!(
            "{among} in a thousand took longer (p99.9 of RTT from the intended send) than {}{longest}.",
            span(*most)
        )
    })
}

/// Where the time from the actual send leaves out what the sender made messages wait.
fn waiting(cells: &[(&CellInfo, &PaceInfo)]) -> Option<String> {
    let ratios: Vec<(f64, f64, f64, &CellInfo)> = cells
        .iter()
        .filter_map(|(info, pace)| {
            let (sent, intended) = (info.p99_ns?, pace.intended?.p99_ns?);
            (sent > 0.0).then_some((intended / sent, sent, intended, *info))
        })
        .filter(|(ratio, ..)| *ratio > WAITED)
        .collect();
    let (_, sent, intended, info) = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let rest = if ratios.len() > 1 {
        format!("; {} in all differ by more than twice", counted(ratios.len(), "cell"))
    } else {
        String::new()
    };
    Some(format!(
        "The sender itself made messages wait: with {} p99 is {} counted from the actual send and {} from the intended one, and \
         only the latter is what a user of the schedule sees{rest}.",
        place(info),
        span(*sent),
        span(*intended)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Quantiles;

    fn cell() -> CellInfo {
        CellInfo {
            run: String::new(),
            row: 0,
            colour: 0,
            label: "fifo:1".to_owned(),
            substrate: model::Substrate::Netns,
            factors: std::collections::BTreeMap::new(),
            probe: "pace".to_owned(),
            protocol: "udp".to_owned(),
            size_bytes: 1000,
            kind: model::LatencyKind::Rtt,
            repetitions: 1,
            left_out: 0,
            count: 1,
            mean_ns: None,
            stdev_ns: None,
            min_ns: None,
            p50_ns: None,
            p90_ns: None,
            p99_ns: None,
            p99_9_ns: None,
            p99_99_ns: None,
            p99_999_ns: None,
            max_ns: None,
            mean_range: None,
            stdev_range: None,
            p50_range: None,
            mdev_ns: None,
            sent: 1,
            lost: 0,
            rate: None,
            pace: None,
            stream: None,
            mark: Mark::Clean,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn pace(asked: f64, achieved: f64) -> PaceInfo {
        PaceInfo { asked_pps: asked, achieved_pps: achieved, ..PaceInfo::default() }
    }

    #[test]
    fn a_rate_that_was_missed_is_named() {
        let cell = cell();
        let (good, bad) = (pace(10_000.0, 9_999.0), pace(40_000.0, 31_000.0));
        let text = rates(&[(&cell, &good), (&cell, &bad)]);
        assert!(text.contains("in 1 of 2 cells") && text.contains("31,000 of 40,000"), "{text}");
        let text = rates(&[(&cell, &good)]);
        assert!(text.contains("10,000 messages a second") && text.contains("in 1 of 1 cell"), "{text}");
    }

    #[test]
    fn the_tail_says_which_cells_it_is_about() {
        let cell = cell();
        let with = |p99_9: f64| PaceInfo {
            intended: Some(Quantiles { p99_9_ns: Some(p99_9), ..Quantiles::default() }),
            ..pace(1.0, 1.0)
        };
        let (a, b) = (with(90_000.0), with(4_000_000.0));
        let text = tail(&[(&cell, &a), (&cell, &b)], 0).unwrap();
        assert!(text.starts_with("One round trip") && text.contains("90.0 µs") && text.contains("4.00 ms"), "{text}");
        let text = tail(&[(&cell, &a)], 3).unwrap();
        assert!(text.starts_with("Of the 1 cell that can be trusted: one round trip in a thousand"), "{text}");
    }

    #[test]
    fn waiting_is_told_only_where_it_matters() {
        let mut cell = cell();
        cell.p99_ns = Some(70_000.0);
        let with = |p99: f64| PaceInfo {
            intended: Some(Quantiles { p99_ns: Some(p99), p99_9_ns: Some(p99), ..Quantiles::default() }),
            ..pace(1.0, 1.0)
        };
        assert_eq!(waiting(&[(&cell, &with(90_000.0))]), None);
        let text = waiting(&[(&cell, &with(41_000_000.0))]).unwrap();
        assert!(text.contains("70.0 µs") && text.contains("41.0 ms"), "{text}");
    }
}
