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

#[test]
fn exit_codes_of_gates() {
    let folder = Folder::new("compare-gates");
    let a = made(&folder, "a", 6, &CELLS, true);
    let b = made(&folder, "b", 6, &SLOWER, true);
    let few = made(&folder, "few", 2, &SLOWER, true);
    let bad = made(&folder, "bad", 6, &SLOWER, false);
    assert_code(&run(&["compare", &a, &b]), 0);
    let broken = run(&["compare", &a, &b, "--fail-if", "p99 > +10%"]);
    assert_code(&broken, 3);
    assert!(stdout(&broken).contains("gate 'p99 > +10%': BROKEN, judged in 2 pairs of cells"), "{}", stdout(&broken));
    assert_code(&run(&["compare", &a, &b, "--fail-if", "p99 > +10%", "--significant"]), 3);
    assert_code(&run(&["compare", &b, &a, "--fail-if", "p99 > +10%"]), 0);
    assert_code(&run(&["compare", &a, &b, "--fail-if", "p99 > +90%", "--fail-if", "p50 > 1ms"]), 0);
    assert_code(&run(&["compare", &a, &b, "--fail-if", "p99 > +90%", "--fail-if", "p50 > 8us @ size=64"]), 3);
    // Two repetitions break it by the estimate, and never by evidence.
    assert_code(&run(&["compare", &a, &few, "--fail-if", "p99 > +10%"]), 3);
    assert_code(&run(&["compare", &a, &few, "--fail-if", "p99 > +10%", "--significant"]), 0);
    // In other forms the warning says it.
    let csv = run(&["compare", &a, &b, "--fail-if", "p99 > +10%", "--format", "csv"]);
    assert_code(&csv, 3);
    assert!(stderr(&csv).contains("gate 'p99 > +10%' is broken") && stdout(&csv).starts_with("a,b,a_run"));
    // What cannot be trusted is no pass.
    assert_refused(&["compare", &a, &bad, "--fail-if", "p99 > +10%"], 4, &["p99 > +10%", "trusted"]);
    assert_code(&run(&["compare", &a, &a, "--fail-if", "p99 > +0%"]), 0);
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
