//! Losses that PGM repaired, apart from everything else, in the results of one measurement: a sentence and the tables.

use crate::layout::Grid;
use crate::parts::Part;
use crate::result_tables::{About, Keys, Shape, rows, times, turned};
use crate::units::{commas, each_once, plain, span};
use model::quantity::{FATES, Group};
use model::{PgmFec, ResultDocument};

/// What became of packets: `28 repaired (20 by parity), 2 given up`; those by parity were never sent again.
pub(crate) fn repaired(recovered: u64, rebuilt: u64, lost: u64) -> String {
    let by_parity = if rebuilt > 0 { format!(" ({} by parity)", commas(rebuilt)) } else { String::new() };
    let lost = if lost == 0 { "none".to_owned() } else { commas(lost) };
    format!("{} repaired{by_parity}, {lost} given up", commas(recovered))
}

pub(crate) fn counted_packets(count: u64) -> String {
    if count == 1 { "1 packet".to_owned() } else { format!("{} packets", commas(count)) }
}

pub(crate) fn sentence(result: &ResultDocument) -> Option<String> {
    let pgm = result.pgm.as_ref()?;
    let (missing, recovered, lost) =
        (pgm.sum(|counts| counts.missing), pgm.sum(|counts| counts.recovered), pgm.sum(|counts| counts.lost));
    if missing == 0 {
        return Some("PGM had nothing to repair: all latency is that of scheduling and the path.".to_owned());
    }
    let of = |fate| {
        let fate = pgm.fate(fate)?;
        let latency = fate.latency.as_ref()?;
        let worst = latency.p99_ns.map(|ns| ("p99", ns)).or(latency.max_ns.map(|ns| ("max", ns)))?;
        let p50 = latency.p50_ns.map(|ns| format!("p50 {}, ", span(ns as f64))).unwrap_or_default();
        Some(format!("{} ({p50}{} {})", commas(fate.messages), worst.0, span(worst.1 as f64)))
    };
    let words = FATES.iter().rev().filter_map(|&(fate, words)| Some(format!("{words} {}", of(fate)?)));
    Some(format!(
        "PGM missed {}: {}. Messages {}: the last is scheduling and the path alone.",
        counted_packets(missing),
        repaired(recovered, pgm.sum(|counts| counts.rebuilt), lost),
        words.collect::<Vec<_>>().join(", ")
    ))
}

/// The packets that each end counted: a row a count, a column an end. Ends side by side: there are fewer of them than counts.
fn packets(results: &[ResultDocument], keys: Keys) -> Grid {
    let shape = Shape { about: About::PgmEnds, zeros: false, marked: false, ..Shape::WHOLE };
    let quantities = shape.about.quantities(&[Group::Pgm]);
    let of = |result| turned(&rows(&[result], keys, shape, &quantities), keys.0().len(), "packets");
    let mut parts = results.iter().map(of).filter(|part| !part.rows.is_empty());
    let mut all = parts.next().unwrap_or_default();
    all.rows.extend(parts.flat_map(|part: Grid| part.rows));
    all
}

pub(crate) fn parts(results: &[ResultDocument], keys: Keys) -> Vec<Part> {
    let groups = results.iter().filter_map(|result| result.pgm.as_ref()).map(|pgm| {
        format!(
            "Published on {}, answered on {}, over {}{}.",
            plain(&pgm.group),
            plain(&pgm.reply_group),
            pgm.carrier,
            pgm.fec.map(parity_words).unwrap_or_default()
        )
    });
    let title = "PGM: what was lost and repaired, apart from the rest, and what repairs took step by step";
    let zeros = "What is 0 at all ends is left out.".to_owned();
    vec![
        Part::new(title, times(results, keys, &[Group::Fates, Group::Steps])).with(each_once(groups)),
        Part::new("PGM: packets at each end", packets(results, keys)).with(vec![zeros]),
    ]
}

fn parity_words(fec: PgmFec) -> String {
    let PgmFec { group_packets, proactive_packets: unasked, on_demand, .. } = fec;
    let more = if on_demand { ", more on demand" } else { "" };
    match unasked {
        0 => format!(", with parity over groups of {group_packets} on demand"),
        1 => format!(", with 1 unasked parity packet to each group of {group_packets}{more}"),
        _ => format!(", with {unasked} unasked parity packets to each group of {group_packets}{more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PgmCounts;
    use serde_json::json;

    fn result() -> ResultDocument {
        let fate = |fate: &str, messages: u64, p50: u64, max: u64| {
            let latency = json!({ "kind": "rtt", "count": messages, "p50_ns": p50, "max_ns": max });
            json!({ "fate": fate, "messages": messages, "latency": latency })
        };
        serde_json::from_value(json!({
            "format": 1, "probe": "pace", "started_ns": 0, "elapsed_ns": 0, "factors": {},
            "ends": model::Participants::default(), "messages": model::Messages::default(),
            "verdict": model::Verdict::default(),
            "pgm": {
                "carrier": "udp", "group": "239.192.0.1", "reply_group": "239.192.0.2",
                "ends": [{
                    "host": "initiator",
                    "counts": PgmCounts { missing: 30, recovered: 28, lost: 2, naks_sent: 31, ..PgmCounts::default() },
                }],
                "fates": [
                    fate("repaired", 28, 600_000, 9_000_000),
                    fate("held", 70, 400_000, 8_000_000),
                    fate("untouched", 900, 90_000, 400_000),
                ],
            },
        }))
        .unwrap()
    }

    #[test]
    fn one_result_is_told_in_a_sentence() {
        let mut result = result();
        let text = sentence(&result).unwrap();
        assert_eq!(
            text,
            "PGM missed 30 packets: 28 repaired, 2 given up. Messages repaired 28 (p50 600 µs, max 9.00 ms), held behind a \
             repair 70 (p50 400 µs, max 8.00 ms), untouched by repairs 900 (p50 90.0 µs, max 400 µs): the last is scheduling \
             and the path alone."
        );
        let pgm = result.pgm.as_mut().unwrap();
        pgm.ends[0].counts.rebuilt = 20;
        pgm.fec = Some(PgmFec { proactive_packets: 1, ..PgmFec::new(16) });
        assert!(
            sentence(&result).unwrap().starts_with("PGM missed 30 packets: 28 repaired (20 by parity), 2 given up.")
        );
        let parts = parts(std::slice::from_ref(&result), (Vec::new, |_| Vec::new()));
        assert!(
            parts[0].words[0].ends_with("over udp, with 1 unasked parity packet to each group of 16, more on demand.")
        );
        assert!(parts[1].grid.rows.contains(&vec!["rebuilt".to_owned(), "20".to_owned()]));
        result.pgm.as_mut().unwrap().ends.clear();
        assert!(sentence(&result).unwrap().contains("nothing to repair"));
        result.pgm = None;
        assert_eq!(sentence(&result), None);
    }
}
