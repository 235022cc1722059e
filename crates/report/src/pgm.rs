//! Losses that PGM repaired, apart from everything else: over the repetitions of each cell, as one table and in sentences,
//! and the tables of single results.

use crate::document::{CellInfo, Document, Mark};
use crate::layout::{Column, Grid};
use crate::single::Part;
use crate::units::{commas, counted, plain, span, us_short};
use model::quantity::FATES;
use model::{Latency, PgmEnd, PgmFec, PgmReport, PgmSteps, ResultDocument};

/// One or two sentences on the cells.
pub(crate) fn summary(document: &Document) -> Vec<String> {
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
        "PGM missed {} in {}: {} repaired{}, {}.",
        counted_packets(missing),
        counted(cells.iter().filter(|cell| cell.count("pgm.missing") > 0).count(), "cell"),
        commas(recovered),
        by_parity(sum("pgm.rebuilt")),
        if lost == 0 { "none given up".to_owned() } else { format!("{} given up", commas(lost)) }
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
             {} came in time and waited behind a repair.",
            span(repaired),
            commas(messages),
            if messages == 1 { "message" } else { "messages" },
            span(untouched),
            commas(held)
        ));
    }
    out
}

/// How many of the repaired were never sent again.
fn by_parity(rebuilt: u64) -> String {
    if rebuilt > 0 { format!(" ({} by parity)", commas(rebuilt)) } else { String::new() }
}

fn counted_packets(count: u64) -> String {
    if count == 1 { "1 packet".to_owned() } else { format!("{} packets", commas(count)) }
}

/// A sentence on one result.
pub(crate) fn sentence(result: &ResultDocument) -> Option<String> {
    let pgm = result.pgm.as_ref()?;
    let (missing, recovered, lost) =
        (pgm.sum(|counts| counts.missing), pgm.sum(|counts| counts.recovered), pgm.sum(|counts| counts.lost));
    if missing == 0 {
        return Some("PGM had nothing to repair: all latency is that of scheduling and the path.".to_owned());
    }
    let of = |name: &str| {
        let fate = pgm.fate(name)?;
        let latency = fate.latency.as_ref()?;
        let worst = latency.p99_ns.map(|ns| ("p99", ns)).or(latency.max_ns.map(|ns| ("max", ns)))?;
        let p50 = latency.p50_ns.map(|ns| format!("p50 {}, ", span(ns as f64))).unwrap_or_default();
        Some(format!("{} ({p50}{} {})", commas(fate.messages), worst.0, span(worst.1 as f64)))
    };
    let given_up = if lost == 0 { "none given up".to_owned() } else { format!("{} given up", commas(lost)) };
    let words = FATES.iter().rev().filter_map(|(name, words)| Some(format!("{words} {}", of(name)?)));
    Some(format!(
        "PGM missed {}: {} repaired{}, {given_up}. Messages {}: the last is scheduling and the path alone.",
        counted_packets(missing),
        commas(recovered),
        by_parity(pgm.sum(|counts| counts.rebuilt)),
        words.collect::<Vec<_>>().join(", ")
    ))
}

/// The distributions of one result: the reflector where there are several (none: all of them), what it is, the times.
pub(crate) fn distributions(pgm: &PgmReport) -> Vec<(Option<&str>, String, &Latency)> {
    let mut out = Vec::new();
    for host in hosts(pgm) {
        for (name, words) in FATES {
            let fate = pgm.fates.iter().find(|fate| fate.host.as_deref() == host && fate.fate == name);
            if let Some(latency) = fate.and_then(|fate| fate.latency.as_ref()) {
                out.push((host, words.to_owned(), latency));
            }
            if let Some(latency) = fate.and_then(|fate| fate.in_repair.as_ref()) {
                out.push((host, format!("{name}: in repair"), latency));
            }
        }
    }
    for steps in &pgm.steps {
        for (name, latency) in parts_of(steps) {
            out.push((steps.host.as_deref(), format!("{} {name}", plain(&steps.way)), latency));
        }
    }
    out
}

fn hosts(pgm: &PgmReport) -> Vec<Option<&str>> {
    let mut hosts: Vec<Option<&str>> = pgm.fates.iter().map(|fate| fate.host.as_deref()).collect();
    hosts.dedup();
    hosts
}

fn parts_of(steps: &PgmSteps) -> impl Iterator<Item = (&'static str, &Latency)> {
    [
        ("gap to NAK", &steps.gap_to_nak),
        ("NAK to NCF", &steps.nak_to_ncf),
        ("NCF to repair", &steps.ncf_to_repair),
        ("gap to repair", &steps.gap_to_repair),
        ("held", &steps.held),
    ]
    .into_iter()
    .filter_map(|(name, latency)| Some((name, latency.as_ref()?)))
}

type Count = fn(&PgmEnd) -> Option<u64>;

/// What each end counted, by name: of its source, then of its receiver. `NAKs heard`: so many of those that it sent arrived.
const COUNTS: [(&str, Count); 12] = [
    ("ODATA sent", |end| Some(end.counts.odata_sent)),
    ("NAKs got", |end| Some(end.counts.naks_received)),
    ("NCFs sent", |end| Some(end.counts.ncfs_sent)),
    ("repairs sent", |end| Some(end.counts.rdata_sent)),
    ("delivered", |end| Some(end.counts.messages)),
    ("missed", |end| Some(end.counts.missing)),
    ("NAKs sent", |end| Some(end.counts.naks_sent)),
    ("NAKs heard", |end| end.naks_heard),
    ("NCFs got", |end| Some(end.counts.ncfs)),
    ("repaired", |end| Some(end.counts.recovered)),
    ("given up", |end| Some(end.counts.lost)),
    ("twice", |end| Some(end.counts.duplicates)),
];

/// The same of parity: packets sent by themselves and on demand, those that came and were of use, and what they repaired.
const PARITY: [(&str, Count); 4] = [
    ("parity unasked", |end| Some(end.counts.parity_unasked_sent)),
    ("parity asked", |end| Some(end.counts.parity_asked_sent)),
    ("parity got", |end| Some(end.counts.parity_received)),
    ("rebuilt", |end| Some(end.counts.rebuilt)),
];

/// What is told of each end in these results.
pub(crate) fn counts<'a>(results: impl IntoIterator<Item = &'a ResultDocument>) -> Vec<(&'static str, Count)> {
    let parity = results.into_iter().any(|result| result.pgm.as_ref().is_some_and(|pgm| pgm.fec.is_some()));
    COUNTS.into_iter().chain(PARITY.into_iter().filter(|_| parity)).collect()
}

/// NAKs of one of several reflectors: how many it sent, and how many of them arrived where some did not.
pub(crate) fn naks_of(result: &ResultDocument, host: &str) -> Option<String> {
    let end = result.pgm.as_ref()?.ends.iter().find(|end| end.host == host)?;
    let sent = end.counts.naks_sent;
    Some(match end.naks_heard {
        Some(heard) if heard < sent => format!("{heard} of {sent}"),
        _ => sent.to_string(),
    })
}

/// The tables of results typed by hand. `keys` and `key` are the columns that tell results apart.
pub(crate) fn parts(
    results: &[ResultDocument],
    keys: fn() -> Vec<Column>,
    key: fn(&ResultDocument) -> Vec<String>,
) -> Vec<Part> {
    let told = || results.iter().filter_map(|result| Some((result, result.pgm.as_ref()?)));
    if told().next().is_none() {
        return Vec::new();
    }
    let latency = |latency: &Latency| -> Vec<String> {
        let ns = |ns: Option<u64>| us_short(ns.map(|ns| ns as f64));
        vec![
            latency.count.to_string(),
            us_short(latency.mean_ns),
            ns(latency.p50_ns),
            ns(latency.p99_ns),
            ns(latency.p99_9_ns),
            ns(latency.max_ns),
        ]
    };
    // Of one reflector nobody need say whose they are.
    let several = told().any(|(_, pgm)| distributions(pgm).iter().any(|(host, ..)| host.is_some()));
    let mut times = Grid { columns: keys(), merged: 2 + usize::from(several), ..Grid::default() };
    times.columns.extend(several.then(|| Column::words("reflector")));
    times.columns.push(Column::words("RTT, and steps"));
    let heads = [("count", ""), ("mean", "µs"), ("p50", "µs"), ("p99", "µs"), ("p99.9", "µs"), ("max", "µs")];
    times.columns.extend(heads.map(|(name, unit)| Column::figures(name, unit)));
    // Ends side by side: there are fewer of them than counts.
    let mut ends: Vec<&str> = Vec::new();
    for end in told().flat_map(|(_, pgm)| &pgm.ends) {
        if !ends.contains(&end.host.as_str()) {
            ends.push(&end.host);
        }
    }
    let mut packets = Grid { columns: keys(), merged: 2, ..Grid::default() };
    packets.columns.push(Column::words("packets"));
    packets.columns.extend(ends.iter().map(|host| Column::figures(&plain(host), "")));
    for (result, pgm) in told() {
        for (host, name, one) in distributions(pgm) {
            let mut row = key(result);
            row.extend(several.then(|| host.map_or_else(|| "all".to_owned(), plain)));
            row.push(name);
            row.extend(latency(one));
            times.rows.push(row);
        }
        for (name, pick) in counts(results) {
            let mut row = key(result);
            row.push(name.to_owned());
            row.extend(ends.iter().map(|host| {
                let count = pgm.ends.iter().find(|end| end.host == *host).and_then(pick);
                count.map_or_else(|| "–".to_owned(), |count| count.to_string())
            }));
            packets.rows.push(row);
        }
    }
    let groups = told().map(|(_, pgm)| {
        format!(
            "Published on {}, answered on {}, over {}{}.",
            plain(&pgm.group),
            plain(&pgm.reply_group),
            plain(&pgm.carrier),
            pgm.fec.map(parity_words).unwrap_or_default()
        )
    });
    let mut words: Vec<String> = groups.collect();
    words.dedup();
    vec![
        Part {
            title: "PGM: what was lost and repaired, apart from the rest, and what repairs took step by step"
                .to_owned(),
            grid: times,
            words,
        },
        Part { title: "PGM: packets at each end".to_owned(), grid: packets, words: Vec::new() },
    ]
}

/// The parity that was used.
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
    use model::result::Ends;
    use model::{Messages, PgmCounts, PgmFate, Verdict};

    fn result() -> ResultDocument {
        serde_json::from_value(serde_json::json!({
            "format": 1, "probe": "pace", "started_ns": 0, "elapsed_ns": 0, "factors": {},
            "ends": Ends::default(), "messages": Messages::default(), "verdict": Verdict::default(),
        }))
        .unwrap()
    }

    fn latency(count: u64, p50: u64, max: u64) -> Latency {
        Latency {
            count,
            p50_ns: Some(p50),
            max_ns: Some(max),
            ..serde_json::from_str(r#"{"kind":"rtt","count":0}"#).unwrap()
        }
    }

    fn report() -> PgmReport {
        let fate = |name: &str, messages, p50, max| PgmFate {
            fate: name.to_owned(),
            host: None,
            messages,
            latency: Some(latency(messages, p50, max)),
            latency_intended: None,
            in_repair: None,
        };
        let counts = PgmCounts { missing: 30, recovered: 28, lost: 2, naks_sent: 31, ..PgmCounts::default() };
        PgmReport {
            ends: vec![PgmEnd { host: "initiator".to_owned(), counts, naks_heard: None }],
            fates: vec![
                fate("repaired", 28, 600_000, 9_000_000),
                fate("held", 70, 400_000, 8_000_000),
                fate("untouched", 900, 90_000, 400_000),
            ],
            ..serde_json::from_value(serde_json::json!({
                "carrier": "udp", "group": "239.192.0.1", "reply_group": "239.192.0.2", "ends": [], "fates": [],
            }))
            .unwrap()
        }
    }

    #[test]
    fn one_result_is_told_in_a_sentence() {
        let mut result = result();
        assert_eq!(sentence(&result), None);
        result.pgm = Some(report());
        let text = sentence(&result).unwrap();
        assert_eq!(
            text,
            "PGM missed 30 packets: 28 repaired, 2 given up. Messages repaired 28 (p50 600 µs, max 9.00 ms), held behind a \
             repair 70 (p50 400 µs, max 8.00 ms), untouched by repairs 900 (p50 90.0 µs, max 400 µs): the last is scheduling \
             and the path alone."
        );
        assert!(counts([&result]).iter().all(|(name, _)| *name != "rebuilt"));
        let mut rebuilt = report();
        rebuilt.ends[0].counts.rebuilt = 20;
        rebuilt.fec = Some(PgmFec { proactive_packets: 1, ..PgmFec::new(16) });
        result.pgm = Some(rebuilt);
        assert!(
            sentence(&result).unwrap().starts_with("PGM missed 30 packets: 28 repaired (20 by parity), 2 given up.")
        );
        let parts = parts(std::slice::from_ref(&result), Vec::new, |_| Vec::new());
        assert!(
            parts[0].words[0].ends_with("over udp, with 1 unasked parity packet to each group of 16, more on demand.")
        );
        assert_eq!(parts[1].grid.rows.last().unwrap(), &["rebuilt", "20"]);
        let quiet = PgmReport { ends: Vec::new(), ..report() };
        result.pgm = Some(quiet);
        assert!(sentence(&result).unwrap().contains("nothing to repair"));
    }
}
