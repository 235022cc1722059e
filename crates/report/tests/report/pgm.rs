//! What a report tells of one sender and two receivers over PGM: a row for each in the tables, columns in the CSV.

use crate::sample;
use crate::sample::{Recipe, Shape};
use digest::RunInput;
use model::{
    Fate, Latency, LatencyKind, PgmCounts, PgmEnd, PgmFate, PgmFec, PgmReport, Probe, ReflectorReport, ResultDocument,
    Substrate,
};
use windhover_report::{Options, Report, single_text};

const EMPTY: Recipe = Recipe {
    name: "a-20261121T214304Z",
    substrate: Substrate::Netns,
    protocols: &[],
    loads: &[],
    policies: &[],
    sizes: &[],
    repetitions: 0,
    messages: 100,
    rr: false,
    ping: false,
};

fn latency(count: u64, p50: u64) -> Latency {
    let none: Latency = serde_json::from_str(r#"{"kind":"rtt","count":0}"#).unwrap();
    Latency { count, p50_ns: Some(p50), p99_ns: (count > 1000).then_some(3 * p50), max_ns: Some(9 * p50), ..none }
}

/// 10,000 messages to `b`, which misses some of them, and to `c`, which misses more; a NAK of `c` gets lost.
fn result(repetition: u32) -> ResultDocument {
    let shape = Shape {
        probe: Probe::Pingpong,
        protocol: "pgm",
        load: "none",
        policy: "other",
        size: 1000,
        repetition,
        messages: 500,
    };
    let mut result = sample::result(&shape);
    result.probe = Probe::Pace;
    result.factors.insert("rate".into(), 20_000.into());
    result.latency.as_mut().unwrap().kind = LatencyKind::Rtt;
    result.rate = serde_json::from_value(serde_json::json!({
        "asked_pps": 20_000.0, "achieved_pps": 20_000.0, "intended": 10_000, "behind": 0, "most_behind": 0,
    }))
    .unwrap();
    let fate = |fate, host: Option<&str>, messages: u64, p50: u64| PgmFate {
        fate,
        host: host.map(str::to_owned),
        messages,
        latency: (messages > 0).then(|| latency(messages, p50)),
        latency_intended: None,
        in_repair: None,
    };
    let fates = |host: Option<&str>, repaired: u64, held: u64, all: u64| {
        [
            fate(Fate::Repaired, host, repaired, 400_000),
            fate(Fate::Held, host, held, 200_000),
            fate(Fate::Untouched, host, all - repaired - held, 60_000),
        ]
    };
    let end = |host: &str, naks_heard, counts: PgmCounts| PgmEnd { host: host.to_owned(), counts, naks_heard };
    let none = PgmCounts::default();
    let initiator =
        PgmCounts { odata_sent: 10_000, naks_received: 38, ncfs_sent: 38, rdata_sent: 36, messages: 20_000, ..none };
    let of = |missing, lost, naks_sent, duplicates| PgmCounts {
        odata_sent: 10_000,
        messages: 10_000 - lost,
        missing,
        recovered: missing - lost,
        lost,
        naks_sent,
        ncfs: 38,
        duplicates,
        ..none
    };
    result.pgm = Some(PgmReport {
        ends: vec![
            end("initiator", Some(0), initiator),
            end("b", Some(10), of(12, 0, 10, 20)),
            end("c", Some(28), of(30, 2, 29, 8)),
        ],
        fates: [fates(None, 40, 90, 19_998), fates(Some("b"), 12, 30, 10_000), fates(Some("c"), 28, 60, 9_998)]
            .concat(),
        ..serde_json::from_value(serde_json::json!({
            "carrier": "udp", "group": "239.192.0.1", "reply_group": "239.192.0.2", "ends": [], "fates": [],
        }))
        .unwrap()
    });
    let reflector = |host: &str, lost: u64| -> ReflectorReport {
        serde_json::from_value(serde_json::json!({
            "host": host, "latency": latency(10_000 - lost, 61_000), "latency_intended": latency(10_000 - lost, 63_000),
            "one_way": null, "messages": { "sent": 10_000, "received": 10_000 - lost, "lost": lost },
        }))
        .unwrap()
    };
    result.reflectors = vec![reflector("b", 0), reflector("c", 2)];
    result
}

fn run() -> RunInput {
    let mut run = sample::run(&EMPTY);
    run.results = vec![result(1), result(2)];
    run
}

/// The part of a text that begins with a title, up to the next empty line.
fn part<'a>(text: &'a str, title: &str) -> &'a str {
    let (_, rest) = text.split_once(title).unwrap_or_else(|| panic!("no '{title}' in {text}"));
    rest.trim_start().split("\n\n").next().unwrap()
}

#[test]
fn each_receiver_has_its_row_with_what_it_missed_and_asked_for() {
    let report = Report::from_inputs(vec![run()], &Options::default());
    insta::assert_snapshot!("cells", part(&report.table_text(120), "PGM: loss and repair apart from the rest"));
    let text = single_text(&[result(1)], 100);
    insta::assert_snapshot!("ends", part(&text, "PGM: packets at each end"));
    insta::assert_snapshot!("reflectors", part(&text, "Each reflector"));
    let page = report.page().unwrap().html;
    for words in ["<th>NAKs sent</th>", "<th>NAKs heard</th>", "<td>29</td>", "<td>28</td>"] {
        assert!(page.contains(words), "{words}");
    }
    // Without PGM there is no such column.
    let mut plain = result(1);
    plain.pgm = None;
    assert!(!single_text(&[plain], 100).contains("NAK"));
}

#[test]
fn the_csv_has_pgm_behind_what_it_always_had() {
    let mut other = result(1);
    other.pgm = None;
    other.factors.insert("protocol".into(), "udp".into());
    let mut run = run();
    for pgm in run.results.iter_mut().filter_map(|result| result.pgm.as_mut()) {
        pgm.fec = Some(PgmFec { proactive_packets: 1, ..PgmFec::new(16) });
        for (end, [unasked, asked, received, rebuilt]) in
            pgm.ends.iter_mut().zip([[625, 7, 0, 0], [600, 0, 20, 9], [500, 10, 50, 21]])
        {
            let counts = &mut end.counts;
            (counts.parity_unasked_sent, counts.parity_asked_sent) = (unasked, asked);
            (counts.parity_received, counts.rebuilt) = (received, rebuilt);
        }
    }
    run.results.push(other);
    let csv = Report::from_inputs(vec![run], &Options::default()).csv();
    let lines: Vec<Vec<&str>> =
        csv.split("\r\n").filter(|line| !line.is_empty()).map(|line| line.split(',').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
    let of = |protocol: &str| lines.iter().find(|line| line.contains(&protocol)).unwrap();
    let own = |line: &[&str]| -> Vec<String> {
        let named = lines[0].iter().zip(line).filter(|(name, _)| name.starts_with("pgm_"));
        named.map(|(name, field)| format!("{name} {field}")).collect()
    };
    assert!(own(of("udp")).iter().all(|field| field.ends_with(' ')), "{csv}");
    let told = own(of("pgm"));
    insta::assert_snapshot!("csv", told.join("\n"));
}
