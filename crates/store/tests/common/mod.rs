//! Documents for tests.

use model::worker::Measured;
use model::{JournalLine, ResultDocument, RunDocument};
use serde_json::json;
use std::path::Path;
use windhover_store::{CellFiles, RunDir};

pub(crate) fn run_document(steps: u32) -> RunDocument {
    let order: Vec<_> = (1..=steps)
        .map(|index| json!({ "index": index, "cell": format!("size={index}"), "repetition": 1, "factors": { "size": index } }))
        .collect();
    let document = json!({
        "format": 1, "name": "t", "title": "a test", "tool_version": "0.1.0", "seed": 7, "order": order,
        "machines": { "boot-1": { "boot_id": "boot-1", "kernel_release": "6.1" } },
        "hosts": { "a": { "role": "initiator", "facts": { "boot_id": "boot-1" } } },
        "substrate": "netns", "labels": { "nic": "X520, \"blue\"" }, "started_ns": 1_000_000_000u64
    });
    serde_json::from_value(document).unwrap()
}

pub(crate) fn result(index: u32) -> ResultDocument {
    let document = json!({
        "format": 1, "probe": "pingpong", "cell": format!("size={index}"), "repetition": 1, "started_ns": 5, "elapsed_ns": 9,
        "factors": { "protocol": "udp", "size": index, "load": "none" },
        "ends": { "initiator": { "receive": "spin", "host": "a" }, "reflector": { "host": "b" } },
        "latency": { "kind": "rtt_half", "count": 100, "mean_ns": 10_500.25, "stdev_ns": 3.5, "min_ns": 9000,
                     "p50_ns": 10_000, "p90_ns": 11_000, "p99_ns": null, "p99_9_ns": null, "p99_99_ns": null,
                     "p99_999_ns": null, "max_ns": 50_000, "p50_ci95_ns": [9990, 10_010] },
        "messages": { "sent": 101, "received": 100, "lost": 1, "duplicated": 0, "reordered": null },
        "series": [{ "quantity": "received", "host": "initiator", "interval_ns": 1000, "values": [60.0, 40.0] }],
        "verdict": { "trusted": true, "invalid": [], "disturbed": [{ "id": "loss", "detail": "1 of 101" }] }
    });
    serde_json::from_value(document).unwrap()
}

pub(crate) fn measured(index: u32) -> Measured {
    let measured = json!({
        "result": result(index),
        "hlog": "#[Histogram log format version 1.3]\nTag=rtt,0.000,1.000,50.000,HISTFAAA\n",
        "outliers": [{ "seq": 3, "at_ns": 77, "rtt_ns": 100_000 }, { "seq": 9, "at_ns": 99, "rtt_ns": 0, "lost": true }],
        "raw": "AQIDBA==", "capture": "AQIDBA=="
    });
    serde_json::from_value(measured).unwrap()
}

/// A run of `steps` of which the first `done` are done.
pub(crate) fn make_run(parent: &Path, steps: u32, done: u32) -> RunDir {
    let mut dir = RunDir::create(parent, "t", 1_795_297_384_000_000_000).unwrap();
    dir.write_plan("name = \"t\"\n").unwrap();
    dir.write_run(&run_document(steps)).unwrap();
    dir.journal(&JournalLine::Begin { at_ns: 1, tool_version: "0.1.0".to_owned() }).unwrap();
    for index in 1..=done {
        dir.journal(&JournalLine::Start { index, at_ns: 2 }).unwrap();
        dir.write_cell(index, &CellFiles::of(&measured(index), &[]), 3).unwrap();
    }
    dir
}
