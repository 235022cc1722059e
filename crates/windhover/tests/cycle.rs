//! Cycles end to end: by hand over loopback, and as cells of a plan, disturbed and undisturbed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use support::{Folder, Server, assert_code, assert_refused, documents, results, run, run_directory, stdout, windhover};

fn missed_of(document: &Value) -> (u64, u64, u64) {
    let count = |name: &str| document["cycle"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {document}"));
    (count("missed"), count("longest_run"), count("cycles"))
}

#[test]
fn each_cycle_is_published_and_echoed() {
    let server = Server::start(&[]);
    let shared = ["cycle", "udp", &server.address, "--seconds", "0.3", "--warmup", "20"];
    for wait in ["sleep", "hybrid", "spin"] {
        let own = ["--interval-us", "500", "--deadline-us", "100000", "--size", "8,256", "--wait", wait];
        let output = run(&[&shared[..], &own, &["--format", "json"]].concat());
        let all = documents(&output);
        assert_eq!(all.len(), 2, "{}", stdout(&output));
        for document in &all {
            let (missed, longest, cycles) = missed_of(document);
            let [sent, received, lost] =
                ["sent", "received", "lost"].map(|name| document["messages"][name].as_u64().unwrap());
            assert_eq!((cycles, received + lost), (600, sent), "{document}");
            assert_eq!(document["cycle"]["skipped"], cycles - sent, "{document}");
            assert!(missed < cycles && longest <= missed, "{document}");
            assert_eq!(document["latency_intended"]["count"], received);
            assert_eq!(document["lateness"]["count"], sent);
            let max = |name: &str| document[name]["max_ns"].as_u64();
            assert!(max("latency") > Some(0) && max("latency_intended") >= max("lateness"), "{document}");
            assert!(document["ends"]["reflector"]["usage"]["transactions"].as_u64() >= Some(received), "{document}");
        }
    }
    let text = stdout(&run(&shared));
    assert!(["Deadlines", "missed", "RTT", "CPU"].iter().all(|word| text.contains(word)), "{text}");
    let images = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name());
    let own = format!("windhover.cycle-{}-", server.id());
    assert!(
        !images.map(|name| name.to_string_lossy().into_owned()).any(|name| name.starts_with(&own)),
        "an image is left"
    );
}

/// Catches: echoes that come late and count as in time.
#[test]
fn a_reflector_that_stops_misses_deadlines() {
    let server = Server::start(&[]);
    let words = ["cycle", "udp", &server.address, "--seconds", "1.5", "--deadline-us", "20000", "--format", "json"];
    let (undisturbed, ..) = missed_of(&documents(&run(&words))[0]);
    let child = windhover(&words).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let signal = |name: &str| Command::new("kill").args([name, &server.id().to_string()]).status().unwrap();
    std::thread::sleep(Duration::from_millis(800));
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(400));
    signal("-CONT");
    let output = support::ended(child, Duration::from_secs(60));
    let (missed, longest, cycles) = missed_of(&documents(&output)[0]);
    assert_eq!(cycles, 1500);
    // 400 ms are 400 cycles, of which those of the last 20 ms were in time.
    assert!(missed >= 300 && longest >= 300, "missed {missed}, the longest run {longest}");
    assert!(missed > undisturbed, "{missed} and undisturbed {undisturbed}");
}

/// Catches: a cell without the figures that reports, comparisons and gates are made of, and a disturbance that they do not show.
#[test]
fn a_plan_shows_what_a_disturbance_misses() {
    let folder = Folder::new("cycle-plan");
    let plan = "name = \"cycles\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
        [measure]\nprobe = \"cycle\"\nseconds = 1.0\nwarmup_ms = 50\ndeadline_us = 2000\npacer = \"sleep\"\n\
        [[grid]]\nload = [\"none\"]\npolicy = [\"other\"]\ninterval_us = [1000, 500]\n\
        [[grid]]\nload = [\"cpu\"]\npolicy = [\"other;idle\"]\ninterval_us = [1000, 500]\n";
    let file = folder.file("plan.toml", plan);
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}{}", stdout(&output), support::stderr(&output));
    let directory = run_directory(&folder.0);
    let (mut quiet, mut loaded) = (0, 0);
    for document in results(&directory) {
        let (missed, _, cycles) = missed_of(&document);
        assert_eq!(Some(cycles), document["cycle"]["interval_ns"].as_u64().map(|ns| 1_000_000_000 / ns), "{document}");
        *if document["factors"]["load"] == "cpu" { &mut loaded } else { &mut quiet } += missed;
        assert!(missed <= cycles, "{document}");
        assert!(document["histogram"].is_string() && document["histogram_intended"].is_string());
    }
    assert!(loaded > 0 && loaded > quiet, "missed {loaded} beside a load and {quiet} without");
    let path = directory.to_str().unwrap();
    let text = stdout(&run(&["show", path]));
    assert!(text.contains("Cycles: missed deadlines") && text.contains("misses/M"), "{text}");
    let csv = stdout(&run(&["report", path, "--format", "csv-cells"]));
    assert!(csv.lines().next().unwrap().contains("cycle_misses_per_million"), "{csv}");
    let gate = |limit: &str| {
        let output = run(&["compare", path, path, "--fail-if", &format!("cycle.misses > {limit}")]);
        (output.status.code(), stdout(&output) + &support::stderr(&output))
    };
    let ([(passes, kept), (breaks, broken)], three) = (["1000001", "0.5"].map(gate), Some(3));
    assert!(passes == Some(0) && breaks == three, "{passes:?} {kept}\n{breaks:?} {broken}");
    let html = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(html.contains("RTT from when it was due"), "no table of cycles");
}

#[test]
fn what_cannot_be_is_one_line() {
    let server = Server::start(&[]);
    let address = server.address.as_str();
    for (words, says) in [
        (&["cycle", "tcp", address][..], "udp"),
        (&["cycle", "udp", address, "--interval-us", "20"], "50 (20 kHz)"),
        (&["cycle", "udp", address, "--size", "1385"], "1 to 1384"),
        (&["cycle", "udp", address, "--receive", "poll"], "--receive block"),
    ] {
        assert_refused(words, 2, &[says]);
    }
    let limited = Server::start(&["--max-rate", "5000"]);
    assert_refused(&["cycle", "udp", &limited.address, "--interval-us", "100"], 2, &["5000 messages a second"]);
    assert_code(
        &run(&["cycle", "udp", &limited.address, "--seconds", "0.1", "--quiet", "--deadline-us", "1000000"]),
        0,
    );
}
