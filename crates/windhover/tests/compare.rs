//! `windhover compare` on run directories written by hand: exit codes, forms, and bad input as one clear line.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::{Value, json};
use std::fs;
use support::{Folder, assert_code, assert_refused, run, stderr, stdout};

/// One repetition: p50 in ns, and twice of it as p99.
fn document(policy: &str, size: u64, repetition: u32, p50: u64, trusted: bool) -> Value {
    let invalid = json!([{ "id": "clock-unfit", "end": "initiator", "detail": "the clock jumped" }]);
    json!({
        "format": 1, "probe": "pingpong", "repetition": repetition, "started_ns": 0, "elapsed_ns": 1,
        "factors": { "protocol": "udp", "size": size, "policy": policy }, "ends": { "initiator": {} },
        "latency": { "kind": "rtt_half", "count": 1000, "mean_ns": p50, "stdev_ns": 100.0, "min_ns": 1, "p50_ns": p50,
                     "p90_ns": p50, "p99_ns": 2 * p50, "p99_9_ns": null, "p99_99_ns": null, "p99_999_ns": null,
                     "max_ns": 3 * p50 },
        "messages": { "sent": 1000, "received": 1000, "lost": 0 },
        "verdict": { "trusted": trusted, "invalid": if trusted { json!([]) } else { invalid }, "disturbed": [] }
    })
}

/// A run directory of these cells (policy, size, p50), each repeated; the figures scatter by 1 %.
fn made(folder: &Folder, name: &str, repetitions: u32, cells: &[(&str, u64, u64)], trusted: bool) -> String {
    let path = folder.0.join(name);
    fs::create_dir_all(path.join("cells")).unwrap();
    let (mut order, mut journal) = (Vec::new(), String::new());
    for repetition in 1..=repetitions {
        for (policy, size, p50) in cells {
            let index = order.len() + 1;
            let noise = p50 * u64::from(repetition * 7 % 5) / 400;
            let document = document(policy, *size, repetition, p50 + noise, trusted);
            fs::write(path.join(format!("cells/{index:04}.json")), document.to_string()).unwrap();
            order.push(json!({ "index": index, "cell": format!("policy={policy},size={size}"),
                               "repetition": repetition, "factors": document["factors"] }));
            journal.push_str(&format!("{{\"step\":\"done\",\"index\":{index},\"at_ns\":0}}\n"));
        }
    }
    let document = json!({
        "format": 1, "name": name, "tool_version": "0.1.0", "seed": 1, "order": order, "machines": {}, "hosts": {},
        "substrate": "netns", "started_ns": 0, "ended_ns": 1, "outcome": "done"
    });
    fs::write(path.join("run.json"), document.to_string()).unwrap();
    fs::write(path.join("plan.toml"), "name = \"t\"\n").unwrap();
    fs::write(path.join("journal.jsonl"), journal).unwrap();
    path.to_str().unwrap().to_owned()
}

const CELLS: [(&str, u64, u64); 2] = [("other", 32, 5_000), ("other", 64, 6_000)];
const SLOWER: [(&str, u64, u64); 2] = [("other", 32, 7_000), ("other", 64, 8_400)];

/// Several runs of these cells, a little apart.
fn several(folder: &Folder, name: &str, count: u64, cells: &[(&str, u64, u64)], trusted: bool) -> Vec<String> {
    let of = |place: u64| -> Vec<(&str, u64, u64)> {
        cells.iter().map(|(policy, size, p50)| (*policy, *size, p50 + p50 * (place * 7 % 5) / 200)).collect()
    };
    (1..=count).map(|place| made(folder, &format!("{name}{place}"), 2, &of(place), trusted)).collect()
}

/// `compare A… --with B…` with these flags.
fn compared(a: &[String], b: &[String], flags: &[&str]) -> std::process::Output {
    let words = |runs: &[String]| runs.to_vec();
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let all = [vec!["compare".to_owned()], words(a), vec!["--with".to_owned()], words(b), flags].concat();
    run(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn exit_codes_of_gates() {
    let folder = Folder::new("compare-gates");
    let a = several(&folder, "a", 6, &CELLS, true);
    let b = several(&folder, "b", 6, &SLOWER, true);
    let bad = several(&folder, "bad", 6, &SLOWER, false);
    assert_code(&compared(&a, &b, &[]), 0);
    let broken = compared(&a, &b, &["--fail-if", "p99 > +10%"]);
    assert_code(&broken, 3);
    assert!(stdout(&broken).contains("gate 'p99 > +10%': BROKEN, judged in 2 pairs of cells"), "{}", stdout(&broken));
    assert_code(&compared(&a, &b, &["--fail-if", "p99 > +10%", "--significant"]), 3);
    assert_code(&compared(&b, &a, &["--fail-if", "p99 > +10%"]), 0);
    assert_code(&compared(&a, &b, &["--fail-if", "p99 > +90%", "--fail-if", "p50 > 1ms"]), 0);
    assert_code(&compared(&a, &b, &["--fail-if", "p99 > +90%", "--fail-if", "p50 > 8us @ size=64"]), 3);
    // In other forms the warning says it.
    let csv = compared(&a, &b, &["--fail-if", "p99 > +10%", "--format", "csv"]);
    assert_code(&csv, 3);
    assert!(stderr(&csv).contains("gate 'p99 > +10%' is broken") && stdout(&csv).starts_with("a,b,a_run"));
    // What cannot be trusted is no pass.
    let refused = compared(&a, &bad, &["--fail-if", "p99 > +10%"]);
    assert_code(&refused, 4);
    assert!(stderr(&refused).contains("can be trusted"), "{}", stderr(&refused));
    assert_code(&run(&["compare", &a[0], &a[0], "--fail-if", "p99 > +0%"]), 0);
}

/// A run of cells without a shield and behind one: tables say `no`, sentences `no shield`, the cells `off`.
#[test]
fn every_word_that_is_printed_for_a_value_is_read() {
    let folder = Folder::new("compare-words");
    let path = made(&folder, "shields", 5, &[("off", 32, 5_000), ("auto", 32, 7_000)], true);
    let cells = fs::read_dir(format!("{path}/cells")).unwrap().map(|entry| entry.unwrap().path());
    for file in cells.chain([format!("{path}/run.json").into()]) {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replace("\"policy\"", "\"shield\"").replace("policy=", "shield=")).unwrap();
    }
    for word in ["off", "no", "no shield"] {
        let output = run(&["compare", &path, "--where", &format!("shield={word}"), "--where-b", "shield=auto"]);
        assert_code(&output, 0);
        assert!(stdout(&output).contains("no shield"), "{}", stdout(&output));
    }
    let unknown = ["compare", &path, "--where", "shield=on", "--where-b", "shield=auto"];
    assert_refused(&unknown, 2, &["shield=on", "it has auto, off\n"]);
    // A factor that is mistyped comes before the sides that are missing.
    assert_refused(&["compare", &path, "--where", "sheild=auto"], 2, &["no factor 'sheild'", "shield"]);
}

#[test]
fn substrates_stay_apart_unless_all_are_named() {
    let folder = Folder::new("compare-substrates");
    let a = several(&folder, "a", 4, &CELLS, true);
    let b = several(&folder, "b", 4, &SLOWER, true);
    for path in &b {
        let text = fs::read_to_string(format!("{path}/run.json")).unwrap();
        let other = text.replace("\"substrate\":\"netns\"", "\"substrate\":\"simulated-time\"");
        fs::write(format!("{path}/run.json"), other).unwrap();
    }
    let both = [a[0].as_str(), b[0].as_str()];
    let report = |flags: &[&str]| run(&[&["report"][..], &both, flags].concat());
    let plot = |flags: &[&str]| run(&[&["plot", "--list"][..], &both, flags].concat());
    let refusals = [
        compared(&a, &b, &[]),
        compared(&a, &b, &["--fail-if", "p99 > +10%"]),
        compared(&a, &b, &["--mix-substrates", "netns,metal"]),
        compared(&a[..2], &[&a[2..], &b[..1]].concat(), &["--mix-substrates", "netns"]),
        run(&["compare", both[0], both[1]]),
        report(&["--format", "table"]),
        report(&["--format", "csv"]),
        plot(&[]),
    ];
    for output in refusals {
        assert_code(&output, 2);
        let text = stderr(&output);
        assert!(text.contains("netns (a") && text.contains("simulated-time (b1"), "{text}");
        assert!(text.contains("--mix-substrates simulated-time,netns") && text.lines().count() == 1, "{text}");
        assert_eq!(stdout(&output), "");
    }
    let mix = ["--mix-substrates", "simulated,netns"];
    let made = compared(&a, &b, &mix);
    assert_code(&made, 0);
    assert!(stdout(&made).contains("The sides are of different substrates"), "{}", stdout(&made));
    assert!(stderr(&made).contains("these runs are of different substrates"), "{}", stderr(&made));
    assert_code(&compared(&a, &b, &[&mix[..], &["--fail-if", "p99 > +10%"]].concat()), 3);
    let table = report(&[&mix[..], &["--format", "table"]].concat());
    assert_code(&table, 0);
    // Also then they share no row.
    for block in ["Measured between network namespaces", "Measured in simulated time"] {
        assert_eq!(stdout(&table).matches(block).count(), 1, "{}", stdout(&table));
    }
    assert_code(&plot(&mix), 0);
    let unknown = report(&["--mix-substrates", "netns,paper"]);
    assert_code(&unknown, 2);
    assert!(stderr(&unknown).contains("simulated-time"), "{}", stderr(&unknown));
}

#[test]
fn what_cannot_be_decided_is_no_pass() {
    let folder = Folder::new("compare-undecided");
    // 3 against 1 repetitions of one run, 3.3 times as slow, and 71 times.
    let (_, slow) = (made(&folder, "x", 1, &CELLS, true), [("other", 32, 5_000), ("fifo:50", 32, 16_500)]);
    let path = made(&folder, "few", 3, &slow, true);
    for index in [4, 6] {
        fs::remove_file(format!("{path}/cells/{index:04}.json")).unwrap();
    }
    for gate in ["p50 > +15%", "p99 > +15%", "p50 > +1us"] {
        let output = run(&["compare", &path, "--axis", "policy", "--fail-if", gate, "--significant"]);
        assert_code(&output, 4);
        let text = stdout(&output);
        assert!(text.contains("UNDECIDED") && text.contains("4 repetitions a side would decide"), "{text}");
    }
    // One run a side decides no difference, however many repetitions it has, and says so first.
    let a = made(&folder, "a", 6, &CELLS, true);
    let b = made(&folder, "b", 6, &SLOWER, true);
    let output = run(&["compare", &a, &b, "--fail-if", "p99 > +10%"]);
    assert_code(&output, 4);
    let text = stdout(&output);
    let first = text.split("Details").next().unwrap();
    assert!(first.contains("One run a side: nothing is claimed"), "{text}");
    assert!(text.contains("--repeat-runs") && text.contains("runs a side would decide"), "{text}");
    let csv = run(&["compare", &a, &b, "--fail-if", "p99 > +10%", "--format", "csv"]);
    assert_code(&csv, 4);
    assert!(stderr(&csv).contains("gate 'p99 > +10%' is undecided"), "{}", stderr(&csv));
    // A broken gate beside an undecided one is broken; a limit of the second side alone is decided.
    assert_code(&run(&["compare", &a, &b, "--fail-if", "p99 > +10%", "--fail-if", "p50 > 1us"]), 3);
    assert_code(&run(&["compare", &a, &b, "--fail-if", "p50 > 1s"]), 0);
}

#[test]
fn other_runs_of_the_plan_beside_them_widen_one_run_a_side() {
    let folder = Folder::new("compare-siblings");
    let runs: Vec<String> = (0..6)
        .map(|place| {
            let path = made(&folder, &format!("r{place}"), 3, &[("other", 32, 5_000 + 150 * (place * 7 % 5))], true);
            let text = fs::read_to_string(format!("{path}/run.json")).unwrap();
            fs::write(format!("{path}/run.json"), text.replace(&format!("\"name\":\"r{place}\""), "\"name\":\"r\""))
                .unwrap();
            path
        })
        .collect();
    let text = stdout(&run(&["compare", &runs[0], &runs[1]])).split_whitespace().collect::<Vec<_>>().join(" ");
    let place = folder.0.canonicalize().unwrap();
    let from = format!("from 4 other runs of the same plan in {}.", place.display());
    assert!(text.contains(&from) && text.contains("with the spread between runs"), "{text}");
    // Where one of them was measured otherwise, it is none of them.
    let text = fs::read_to_string(format!("{}/run.json", runs[5])).unwrap();
    fs::write(format!("{}/run.json", runs[5]), text.replace("\"0.1.0\"", "\"0.2.0\"")).unwrap();
    let text = stdout(&run(&["compare", &runs[0], &runs[1]])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("from 3 other runs of the same plan"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_said_in_one_line() {
    let folder = Folder::new("compare-input");
    let a = made(&folder, "a", 3, &CELLS, true);
    let b = made(&folder, "b", 3, &[("other", 128, 5_000)], true);
    assert_refused(&["compare", &a, &a, "--fail-if", "p98 > +10%"], 2, &["p98", "p99.9"]);
    assert_refused(&["compare", &a, &a, "--fail-if", "p99 +10%"], 2, &["none of >"]);
    assert_refused(&["compare", &a, &a, "--fail-if", "p99 > 10"], 2, &["us"]);
    assert_refused(&["compare", &a, &a, "--fail-if", "p99.9 > +10%"], 2, &["p99.9", "10 messages beyond"]);
    assert_refused(&["compare", &a, &a, "--fail-if", "p99 > +10% @ size=7"], 2, &["size=32"]);
    assert_refused(&["compare", &a, &a, "--metric", "speed"], 2, &["speed", "p50"]);
    assert_refused(&["compare", &a, &b], 2, &["size", "--where size="]);
    assert_refused(&["compare", &a], 2, &["--axis"]);
    assert_refused(&["compare", &a, &a, &b], 2, &["A1 A2 A3 --with B1 B2 B3"]);
    assert_refused(&["compare", &a, "--with", &a, &b], 2, &["named twice", "before --with"]);
    assert_refused(&["compare", &a, &a, "--with", &b], 2, &["named twice", "before --with"]);
    assert_refused(&["compare", &a, "--axis", "colour"], 2, &["colour", "policy"]);
    assert_refused(&["compare", &a, "--axis", "policy"], 2, &["only one value"]);
    assert_refused(&["compare", &a, &a, "--where", "size=7"], 2, &["size=7", "32, 64"]);
    assert_refused(&["compare", "/nonexistent", &a], 2, &["/nonexistent"]);
    assert_code(&run(&["compare", &a, &b, "--axis", "policy"]), 2);
    assert_code(&run(&["compare", &a, &a, "--where", "policy"]), 2);
    assert_code(&run(&["compare", &a, &a, "--significant"]), 2);
    // A run of a newer format.
    fs::write(folder.0.join("b/run.json"), "{\"format\": 99}").unwrap();
    assert_refused(&["compare", &a, &b], 2, &["99"]);
}

#[test]
fn cells_of_one_run_and_every_form() {
    let folder = Folder::new("compare-forms");
    let cells = [("other", 32, 5_000), ("fifo:50", 32, 4_000), ("other", 64, 6_000), ("fifo:50", 64, 4_500)];
    let path = made(&folder, "a", 6, &cells, true);
    let text = run(&["compare", &path, "--axis", "policy"]);
    assert_code(&text, 0);
    assert!(stdout(&text).contains("fifo:50 is faster than policy other by"), "{}", stdout(&text));
    let wheres = ["compare", &path, "--where", "policy=other", "--where-b", "policy=fifo:50"];
    let of = |format: &str| {
        let output = run(&[&wheres[..], &["--format", format]].concat());
        assert_code(&output, 0);
        stdout(&output)
    };
    let json: Value = serde_json::from_str(&of("json")).unwrap();
    assert_eq!(json["comparisons"][0]["cells"].as_array().unwrap().len(), 2);
    assert_eq!(json["comparisons"][0]["interleaved"], true);
    assert!(of("markdown").contains("## fifo:50 against policy other"));
    assert!(of("csv").contains(",lower\r\n"));
    let only = stdout(&run(&[&wheres[..], &["--metric", "p99", "--format", "csv"]].concat()));
    assert!(only.lines().skip(1).all(|line| line.contains(",p99,")), "{only}");
}
