//! Runs over PGM compared: loss, repair, parity.

use super::*;

/// What a million messages a repetition come to over PGM; `worse` scales all that loss and repair cost.
fn over_pgm(name: &str, repetitions: u32, worse: f64, seed: u64) -> RunInput {
    let mut noise = Chance::new(seed);
    let mut run = run(name, repetitions, &SIZES[..1], seed);
    for result in &mut run.results {
        result.factors.insert("protocol".into(), "pgm".into());
        result.messages.sent = 1_000_000;
        let mut about = |value: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
            let whole = (value * (1.0 + 0.01 * noise.normal())) as u64;
            whole
        };
        let (repaired, held, lost) = (about(1_000.0 * worse), about(4_000.0 * worse), about(200.0 * (worse - 1.0)));
        let counts = |naks_sent, lost| PgmCounts { naks_sent, lost, ..PgmCounts::default() };
        let ends = [("initiator", about(300.0 * worse), 0), ("b", about(600.0 * worse), lost)];
        let mut fate = |fate, messages, p50: f64| PgmFate {
            fate,
            host: None,
            messages,
            latency: result.latency.clone().map(|latency| {
                let kind = model::LatencyKind::Rtt;
                model::Latency { kind, p50_ns: Some(about(p50)), p99_ns: Some(about(2.0 * p50)), ..latency }
            }),
            latency_intended: None,
            in_repair: None,
        };
        let fates = vec![
            fate(Fate::Untouched, 1_000_000 - repaired - held, 10_000.0),
            fate(Fate::Held, held, 300_000.0 * worse),
            fate(Fate::Repaired, repaired, 500_000.0 * worse),
        ];
        result.pgm = Some(PgmReport {
            ends: ends
                .into_iter()
                .map(|(host, naks, lost)| PgmEnd {
                    host: host.to_owned(),
                    counts: counts(naks, lost),
                    ..PgmEnd::default()
                })
                .collect(),
            fates,
            ..serde_json::from_value(serde_json::json!({
                "carrier": "udp", "group": "239.192.0.1", "reply_group": "239.192.0.2", "ends": [], "fates": [],
            }))
            .unwrap()
        });
    }
    run
}

#[test]
fn more_loss_over_pgm_is_called_worse_and_scheduling_is_left_out_of_it() {
    let names = "untouched.p99,repaired.p50,held.p50,repaired,held,naks,given-up";
    let metrics: Vec<Metric> = names.split(',').map(|name| name.parse().unwrap()).collect();
    let gates = ["repaired > +0.04%", "naks > +20%", "given-up > 0", "repaired.p50 > 600us", "untouched.p99 > +20%"];
    let options = CompareOptions { metrics, ..gated(&gates) };
    let (a, b) = (apart(&over_pgm("a", 6, 1.0, 1)), apart(&over_pgm("b", 6, 1.5, 2)));
    let made = compare::of(&a, &b, &options).unwrap();
    let outcome = |name: &str| {
        let of = made.comparisons[0].cells[0].metrics.iter().find(|figure| figure.metric == name).unwrap();
        (of.outcome, of.unit.as_str())
    };
    for (name, unit) in [
        ("repaired.p50", "ns"),
        ("held.p50", "ns"),
        ("repaired", "share"),
        ("held", "share"),
        ("naks", "per_million"),
        ("given-up", "per_million"),
    ] {
        assert_eq!(outcome(name), (Outcome::Higher, unit), "{name}");
    }
    assert_eq!(outcome("untouched.p99"), (Outcome::NoDifference, "ns"));
    let broken: Vec<bool> = made.gates.iter().map(|gate| gate.broken).collect();
    assert_eq!(broken, [true, true, true, true, false]);
    // The ends' NAKs are told together, and none is as good as another figure.
    let naks = made.comparisons[0].cells[0].metrics.iter().find(|figure| figure.metric == "naks").unwrap();
    assert!((850.0..950.0).contains(&naks.a) && (1_280.0..1_420.0).contains(&naks.b), "{naks:?}");
    let text = made.text(100, true).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "B repairs more than A by 0.05",
        "B gives up more than A by 99.3 per million (95 % 98.8 to 99.9 per million)",
        "B is slower than A by 5",
        "p50 of RTT of messages repaired 7",
        "number of packets lost for good 99.3 per million against 0 per million",
        "No difference of p99 of RTT of messages untouched by repairs seen",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The other way round everything is better.
    let turned = compare::of(&b, &a, &options).unwrap();
    let lower = turned.comparisons[0].cells[0].metrics.iter().filter(|figure| figure.outcome == Outcome::Lower);
    assert_eq!((lower.count(), turned.broken()), (6, false));
}

#[test]
fn figures_of_pgm_are_compared_by_themselves_where_there_is_pgm() {
    let (a, b) = (apart(&over_pgm("a", 4, 1.0, 1)), apart(&over_pgm("b", 4, 1.0, 2)));
    let made = compare::of(&a, &b, &options()).unwrap();
    let names = |made: &Comparisons| -> Vec<String> {
        made.comparisons[0].cells[0].metrics.iter().map(|figure| figure.metric.clone()).collect()
    };
    let own =
        ["untouched.p50", "untouched.p99", "repaired.p50", "repaired.p99", "repaired", "held", "naks", "given-up"];
    assert!(names(&made).ends_with(&own.map(str::to_owned)), "{:?}", names(&made));
    let given_up = made.comparisons[0].cells[0].metrics.last().unwrap();
    assert_eq!((given_up.outcome, given_up.a), (Outcome::Same, 0.0), "nothing is lost on either side");
    let (a, b) = (runs("a", 4, &SIZES[..1], 1), runs("b", 4, &SIZES[..1], 2));
    let without = names(&compare::of(&a, &b, &options()).unwrap());
    assert!(!own.iter().any(|name| without.contains(&(*name).to_owned())), "{without:?}");
    let error = compare::of(&a, &b, &gated(&["naks > 0"])).unwrap_err();
    assert!(error.to_string().contains("naks") && error.exit_code() == 2, "{error}");
}

/// The same with a parity packet unasked for every `group` packets, which rebuilds most of what was lost.
fn with_parity(name: &str, group: u16, seed: u64) -> RunInput {
    let mut run = over_pgm(name, 6, 1.0, seed);
    let mut noise = Chance::new(seed);
    for result in &mut run.results {
        result.factors.insert("fec".into(), format!("{group}+1").into());
        let Some(pgm) = &mut result.pgm else { continue };
        pgm.fec = Some(PgmFec { proactive_packets: 1, ..PgmFec::new(group) });
        for end in &mut pgm.ends {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
            let rebuilt = (800.0 * (1.0 + 0.01 * noise.normal())) as u64;
            end.counts.rebuilt = rebuilt;
            end.counts.parity_unasked_sent = 1_000_000 / u64::from(group);
            end.counts.parity_asked_sent = 1_000;
        }
    }
    run
}

#[test]
fn parity_is_compared_where_either_run_used_it() {
    let counted = |mut run: RunInput| -> Vec<RunInput> {
        for end in run.results.iter_mut().filter_map(|result| result.pgm.as_mut()).flat_map(|pgm| &mut pgm.ends) {
            (end.counts.odata_sent, end.counts.recovered) = (1_000_000, 1_000);
        }
        apart(&run)
    };
    let plain = counted(over_pgm("a", 6, 1.0, 1));
    let [sixteen, eight] = [16, 8].map(|group| counted(with_parity("b", group, 2)));
    let figures = |a: &[RunInput], b: &[RunInput], gates: &[&str]| {
        let mut made = compare::of(a, b, &gated(gates)).unwrap();
        let broken: Vec<bool> = made.gates.iter().map(|gate| gate.broken).collect();
        let mut figures = made.comparisons.remove(0).cells.remove(0).metrics;
        figures.retain(|figure| ["rebuilt", "parity"].contains(&figure.metric.as_str()));
        (figures, broken)
    };
    let (against_none, broken) = figures(&plain, &sixteen, &["rebuilt < 50%", "parity > 6%", "parity > +7%"]);
    let [rebuilt, parity] = &against_none[..] else { panic!("{against_none:?}") };
    assert_eq!((rebuilt.outcome, rebuilt.a, rebuilt.unit.as_str()), (Outcome::Higher, 0.0, "share"));
    assert!((0.78..0.82).contains(&rebuilt.b), "{rebuilt:?}");
    // A packet for 16 and those on demand, of both ends together.
    assert_eq!((parity.outcome, parity.a, parity.unit.as_str()), (Outcome::Higher, 0.0, "share"));
    assert!((parity.b - 0.0635).abs() < 1e-9, "{parity:?}");
    assert!(parity.sentence.contains("B sends more parity than A by 6.35"), "{}", parity.sentence);
    assert_eq!(broken, [false, true, false]);
    // The other way round, and with parity on both sides.
    let (turned, _) = figures(&eight, &plain, &[]);
    assert_eq!(turned.iter().map(|figure| figure.outcome).collect::<Vec<_>>(), [Outcome::Lower; 2]);
    let (both, _) = figures(&sixteen, &eight, &[]);
    assert_eq!((both.len(), both[1].outcome), (2, Outcome::Higher));
    // Without parity on either side there is no such figure.
    assert!(figures(&plain, &counted(over_pgm("b", 6, 1.0, 3)), &[]).0.is_empty());
    let error = compare::of(&plain[..1], &plain[..1], &gated(&["parity > 0%"])).unwrap_err();
    assert!(error.to_string().contains("parity") && error.exit_code() == 2, "{error}");
    // Nor is there a share of repairs where nothing was repaired.
    let mut quiet = sixteen;
    for end in quiet
        .iter_mut()
        .flat_map(|run| &mut run.results)
        .filter_map(|result| result.pgm.as_mut())
        .flat_map(|pgm| &mut pgm.ends)
    {
        (end.counts.recovered, end.counts.rebuilt) = (0, 0);
    }
    let (left, _) = figures(&plain, &quiet, &[]);
    assert_eq!(left.iter().map(|figure| figure.metric.as_str()).collect::<Vec<_>>(), ["parity"]);
}
