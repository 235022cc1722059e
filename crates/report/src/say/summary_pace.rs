//! What the data of `pace` say: rates reached, the tail, waits that only the intended send time shows, and PGM's repairs.

use crate::document::Document;
use crate::pgm::{counted_packets, repaired};
use crate::units::{commas, counted, pps, span};
use digest::{CellInfo, Mark, is_trusted};

/// So little of the rate may be missing.
pub(crate) const REACHED: f64 = 0.997;
/// From this ratio on the sender's own waiting is worth a sentence.
const WAITED: f64 = 2.0;

pub(crate) fn sentences(document: &Document) -> Vec<String> {
    let cells: Vec<&CellInfo> = document.cells.iter().filter(|info| info.value("asked").is_some()).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let mut out = vec![rates(&cells)];
    let trusted: Vec<&CellInfo> = cells.iter().copied().filter(is_trusted).collect();
    out.extend(tail(&trusted, cells.len() - trusted.len()));
    out.extend(waiting(&trusted));
    out.extend(pgm(document));
    out
}

fn place(info: &CellInfo) -> String {
    if info.label == "all cells" { info.protocol.to_uppercase() } else { info.label.clone() }
}

fn rates(cells: &[&CellInfo]) -> String {
    let asked = |info: &CellInfo| info.value("asked").unwrap_or(0.0);
    let share = |info: &CellInfo| info.value("reached").unwrap_or(1.0);
    // A rate that was sent and not carried is not reached.
    let is_short = |info: &&CellInfo| share(info) < REACHED || info.words.contains_key("saturated");
    let short: Vec<&CellInfo> = cells.iter().copied().filter(is_short).collect();
    let low = cells.iter().map(|info| asked(info)).fold(f64::INFINITY, f64::min);
    let high = cells.iter().map(|info| asked(info)).fold(0.0, f64::max);
    let asked_for = if low < high { format!("{} to {}", pps(low), pps(high)) } else { pps(low) };
    let worst = short.iter().min_by(|a, b| share(a).total_cmp(&share(b))).map(|info| {
        let why = info.words.get("saturated").map(|why| format!(": {}", why.trim_end_matches('.'))).unwrap_or_default();
        let achieved = pps(info.value("achieved").unwrap_or(0.0));
        match share(info) < REACHED {
            true => format!("; furthest from it was {} with {achieved} of {}{why}", place(info), pps(asked(info))),
            false => format!("; {} was sent and not carried{why}", place(info)),
        }
    });
    format!(
        "The rate asked for ({asked_for} messages a second) was reached within 0.3 % in {} of {}{}.",
        cells.len() - short.len(),
        counted(cells.len(), "cell"),
        worst.unwrap_or_default()
    )
}

/// p99.9 by the intended send, which leaves nothing out: `p99.9 of RTT …: 87.0 µs (best: …) to 1.07 ms (worst: …); maximum 4.97 ms
/// (…).` `left_out` cells cannot be trusted.
fn tail(cells: &[&CellInfo], left_out: usize) -> Option<String> {
    let among = match left_out {
        0 => String::new(),
        _ => format!(" ({} that can be trusted)", counted(cells.len(), "cell")),
    };
    let of = |id| cells.iter().filter_map(move |info| Some((info.value(id)?, *info)));
    let mut figures: Vec<(f64, &CellInfo)> = of("intended.p99.9").collect();
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let figures = match figures.as_slice() {
        [] => return None,
        [(one, info)] => format!("{} ({})", span(*one), place(info)),
        [(least, best), .., (most, worst)] => {
            format!("{} (best: {}) to {} (worst: {})", span(*least), place(best), span(*most), place(worst))
        }
    };
    let longest = of("intended.max").max_by(|a, b| a.0.total_cmp(&b.0));
    let longest = longest.map(|(ns, info)| format!("; maximum {} ({})", span(ns), place(info))).unwrap_or_default();
    Some(format!("p99.9 of RTT from the intended send{among}: {figures}{longest}."))
}

/// Where the time from the actual send leaves out what the sender made messages wait.
fn waiting(cells: &[&CellInfo]) -> Option<String> {
    let ratios: Vec<(f64, f64, f64, &CellInfo)> = cells
        .iter()
        .filter_map(|info| {
            let (sent, intended) = (info.value("p99")?, info.value("intended.p99")?);
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
        "The sender delayed messages: with {} p99 is {} from the actual send and {} from the intended send, which is what a user \
         of the schedule sees{rest}.",
        place(info),
        span(*sent),
        span(*intended)
    ))
}

fn pgm(document: &Document) -> Vec<String> {
    let cells: Vec<&CellInfo> = document.cells.iter().filter(|cell| cell.value("pgm.missing").is_some()).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let sum = |id: &str| -> u64 { cells.iter().map(|cell| cell.count(id)).sum() };
    let (missing, recovered, lost) = (sum("pgm.missing"), sum("pgm.recovered"), sum("pgm.lost"));
    if missing == 0 {
        return vec![
            "PGM had nothing to repair: no packet was missed, so all latency is that of scheduling and the path."
                .to_owned(),
        ];
    }
    let mut out = vec![format!(
        "PGM missed {} in {}: {}.",
        counted_packets(missing),
        counted(cells.iter().filter(|cell| cell.count("pgm.missing") > 0).count(), "cell"),
        repaired(recovered, sum("pgm.rebuilt"), lost)
    )];
    // The cell in which repairs cost most, by what they are apart from.
    let worst = |cell: &CellInfo, fate: &str| {
        let of = |statistic: &str| cell.value(&format!("{fate}.{statistic}"));
        of("p99").or_else(|| of("max"))
    };
    let trusted = cells.iter().filter(|cell| cell.mark != Mark::Invalid);
    let costs = trusted.filter_map(|cell| {
        let messages = cell.count("repaired.messages");
        Some((worst(cell, "repaired")?, messages, cell.count("held.messages"), worst(cell, "untouched")?, *cell))
    });
    if let Some((repaired, messages, held, untouched, info)) = costs.max_by(|a, b| a.0.total_cmp(&b.0)) {
        let place = if info.label == "all cells" { "PGM".to_owned() } else { info.label.clone() };
        out.push(format!(
            "Loss and repair apart from scheduling ({place}): p99 is {} for the {} repaired {} and {} for those untouched; \
             {} arrived in time and waited behind a repair.",
            span(repaired),
            commas(messages),
            if messages == 1 { "message" } else { "messages" },
            span(untouched),
            commas(held)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest::{Figure, Figures, Mark};

    /// A cell with some figures.
    fn cell(figures: &[(&'static str, f64)]) -> CellInfo {
        let figures = figures.iter().map(|(id, value)| (*id, Figure { value: *value, range: None }));
        CellInfo {
            run: String::new(),
            row: 0,
            colour: 0,
            label: "fifo:1".to_owned(),
            substrate: model::Substrate::Netns,
            factors: std::collections::BTreeMap::new(),
            probe: model::Probe::Pace,
            protocol: "udp".to_owned(),
            size_bytes: 1000,
            kind: model::LatencyKind::Rtt,
            repetitions: 1,
            left_out: 0,
            figures: Figures(figures.collect()),
            reflectors: Vec::new(),
            words: std::collections::BTreeMap::new(),
            explanation: None,
            mark: Mark::Clean,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn pace(asked: f64, achieved: f64) -> CellInfo {
        cell(&[("asked", asked), ("achieved", achieved), ("reached", achieved / asked)])
    }

    /// Catches: a rate that counts as reached because all was sent, though the reflector answered a quarter of it.
    #[test]
    fn what_was_sent_and_not_carried_is_not_reached() {
        let (good, mut bad) = (pace(10_000.0, 10_000.0), pace(40_000.0, 40_000.0));
        bad.words.insert("saturated", "reflector: 3 of 4 answers are missing".to_owned());
        let said = rates(&[&good, &bad]);
        assert!(said.contains("in 1 of 2 cells") && said.contains("not carried: reflector: 3 of 4"), "{said}");
    }

    #[test]
    fn a_rate_that_was_missed_is_named() {
        let (good, bad) = (pace(10_000.0, 9_999.0), pace(40_000.0, 31_000.0));
        let text = rates(&[&good, &bad]);
        assert!(text.contains("in 1 of 2 cells") && text.contains("31,000 of 40,000"), "{text}");
        let text = rates(&[&good]);
        assert!(text.contains("10,000 messages a second") && text.contains("in 1 of 1 cell"), "{text}");
    }

    #[test]
    fn the_tail_says_which_cells_it_is_about() {
        let (a, b) = (cell(&[("intended.p99.9", 90_000.0)]), cell(&[("intended.p99.9", 4_000_000.0)]));
        let text = tail(&[&a, &b], 0).unwrap();
        assert!(text.contains("send: 90.0 µs (best: fifo:1) to 4.00 ms (worst: fifo:1)"), "{text}");
        let text = tail(&[&a], 3).unwrap();
        assert!(text.ends_with("(1 cell that can be trusted): 90.0 µs (fifo:1)."), "{text}");
    }

    #[test]
    fn waiting_is_told_only_where_it_matters() {
        let with = |p99: f64| cell(&[("p99", 70_000.0), ("intended.p99", p99), ("intended.p99.9", p99)]);
        assert_eq!(waiting(&[&with(90_000.0)]), None);
        let text = waiting(&[&with(41_000_000.0)]).unwrap();
        assert!(text.contains("70.0 µs") && text.contains("41.0 ms"), "{text}");
    }
}
