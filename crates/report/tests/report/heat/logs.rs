//! Logs of several reflectors, damaged and hostile ones.

use super::*;

#[test]
fn reflectors_are_seen_together_and_one_by_one() {
    let mut made = made("reflectors", &[files(&cell(1_000, 3, &|seq, _| quiet(seq)))]);
    let text = fs::read_to_string(made.hlog(1)).unwrap();
    // As two reflectors' logs: the second has the first two seconds only.
    let mut both = String::new();
    for line in text.lines() {
        let Some((tag, rest)) = line.strip_prefix("Tag=").and_then(|line| line.split_once(',')) else { continue };
        both.push_str(&format!("Tag={tag}@b,{rest}\n"));
        if rest.starts_with("0.") || rest.starts_with("1.") {
            both.push_str(&format!("Tag={tag}@c,{rest}\n"));
        }
    }
    fs::write(made.hlog(1), both).unwrap();
    made.run.results[0].1.reflectors = serde_json::from_value(serde_json::json!([
        { "host": "b", "latency": null, "messages": { "sent": 3000, "received": 3000, "lost": 0, "duplicated": null, "reordered": null } },
        { "host": "c", "latency": null, "messages": { "sent": 2005, "received": 2000, "lost": 5, "duplicated": null, "reordered": null } },
    ]))
    .unwrap();
    let tags = ["rtt", "rtt@b", "rtt@c", "lateness"].map(str::to_owned).to_vec();
    let heat = made.maps(&Options { tags, ..Options::default() });
    let found: Vec<(&str, u64, u64)> =
        heat.maps.iter().map(|map| (map.tag.as_str(), map.total(), map.received)).collect();
    assert_eq!(found, [("rtt", 5000, 3000), ("rtt@b", 3000, 3000), ("rtt@c", 2000, 2000), ("lateness", 5000, 3000)]);
    assert_eq!(heat.maps[2].quantity(), "RTT from the actual send, reflector c");
    assert_eq!((heat.maps[2].lost, heat.maps[2].whole.lost()), (5, 0));
    let wanted = Wanted { tag: Some("rtt@c".into()), ..Wanted::default() };
    let drawing = made.draw(ChartKind::Heat, wanted).remove(0);
    assert_eq!(drawing.name, "heat-0001-rtt-c");
    assert!(drawing.svg(1.0).contains("when messages were lost is not known"), "an older run");
    // What a reflector lost and when, as runs say it by now.
    let lost = |host: &str, count: f64| model::result::Series {
        quantity: SeriesQuantity::Lost,
        host: host.to_owned(),
        interval_ns: 100_000_000,
        values: (0..30).map(|at| Some(if at == 15 { count } else { 0.0 })).collect(),
    };
    let series = &mut made.run.results[0].1.series;
    series.retain(|one| one.quantity != SeriesQuantity::Lost);
    series.extend([lost("initiator", 5.0), lost("b", 0.0), lost("c", 5.0)]);
    let tags = ["rtt", "rtt@b", "rtt@c"].map(str::to_owned).to_vec();
    let heat = made.maps(&Options { tags, ..Options::default() });
    assert_eq!(heat.maps.iter().map(|map| map.whole.lost()).collect::<Vec<_>>(), [5, 0, 5]);
    assert_eq!(heat.maps[2].whole.columns.iter().position(|column| column.lost == 5), Some(15));
    let wanted = Wanted { tag: Some("rtt@c".into()), ..Wanted::default() };
    assert!(!made.draw(ChartKind::Heat, wanted).remove(0).svg(1.0).contains("is not known"));
}

#[test]
fn damage_is_named_and_the_rest_is_drawn() {
    let good = files(&cell(2_000, 3, &|seq, _| quiet(seq)));
    let other = files(&Cell { policy: "other", ..cell(2_000, 3, &|seq, _| quiet(seq)) });
    let made = made("damaged", &[good, other]);
    let path = made.hlog(1);
    let text = fs::read_to_string(&path).unwrap();
    // Cut off in the middle of the last line.
    fs::write(&path, &text[..text.trim_end().rfind("HISTFAAA").unwrap() + 41]).unwrap();
    let heat = made.maps(&Options { tags: vec!["lateness".into()], ..Options::default() });
    assert_eq!(heat.problems.len(), 1, "{:?}", heat.problems);
    let lines = text.lines().count();
    assert!(
        heat.problems[0].contains("0001.hlog") && heat.problems[0].contains(&format!("line {lines} ")),
        "{:?}",
        heat.problems
    );
    assert!(!heat.problems[0].contains('\n'));
    assert_eq!(heat.maps.len(), 2, "both cells are drawn");
    assert_eq!((heat.maps[0].total(), heat.maps[1].total()), (5_800, 6_000));
    // Damaged base64, and bytes that are no text.
    let mut bytes = text.clone().into_bytes();
    let at = text.find("HISTFAAA").unwrap() + 30;
    bytes[at..at + 3].copy_from_slice(&[0xff, b'!', b'!']);
    fs::write(&path, &bytes).unwrap();
    let heat = made.maps(&Options::default());
    assert!(heat.problems.iter().any(|problem| problem.contains("0001.hlog: line 5 ")), "{:?}", heat.problems);
    assert!(
        heat.problems.iter().any(|problem| problem.contains("holds 5,800 of the 6,000 messages")),
        "{:?}",
        heat.problems
    );
    // Nothing that can be read at all: the other cell is still drawn.
    fs::write(&path, "nonsense\n").unwrap();
    let drawings =
        charts::draw(vec![made.run.clone()], &Wanted { kinds: vec![ChartKind::Heat], ..Wanted::default() }).unwrap();
    assert_eq!(drawings.drawings.len(), 1);
    assert!(drawings.problems[0].contains("0001.hlog: line 1 is damaged"), "{:?}", drawings.problems);
    // No log at all.
    fs::remove_file(&path).unwrap();
    fs::remove_file(made.hlog(2)).unwrap();
    let error = charts::draw(vec![made.run], &Wanted { kinds: vec![ChartKind::Heat], ..Wanted::default() });
    assert!(error.unwrap_err().to_string().contains("needs cells with interval logs"));
}

#[test]
fn hostile_logs_take_no_memory() {
    let made = made("hostile", &[files(&cell(1_000, 1, &|seq, _| quiet(seq)))]);
    let path = made.hlog(1);
    let text = fs::read_to_string(&path).unwrap();
    let histogram = &text[text.find("HISTFAAA").unwrap()..].lines().next().unwrap();
    let mut evil = text.clone();
    for start in ["99999999.0", "1e300", "-5", "250000000"] {
        evil.push_str(&format!("Tag=rtt,{start},0.000000001,1e300,{histogram}\n"));
    }
    fs::write(&path, evil).unwrap();
    let heat = made.maps(&Options::default());
    let map = heat.maps.iter().find(|map| map.tag == "rtt").unwrap();
    assert!(map.whole.columns.len() <= 4000);
    assert_eq!(map.total(), 1_200, "the lines that can be placed are there");
    assert!(heat.problems.iter().any(|problem| problem.contains("no time of a measurement")), "{:?}", heat.problems);
}

#[test]
fn a_cell_that_is_not_there_is_named() {
    let made = made("named", &[files(&cell(1_000, 1, &|seq, _| quiet(seq)))]);
    let wanted = Wanted { cell: Some("rate=7".into()), ..Wanted::default() };
    let error = charts::draw(vec![made.run], &wanted).unwrap_err().to_string();
    assert!(error.contains("no cell 'rate=7'") && error.contains("--list"), "{error}");
}
