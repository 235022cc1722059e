//! Foreign workers: the examples against our reflector, and workers that break the contract.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use support::{
    Folder, Server, assert_code, assert_measured, assert_refused, documents, run, stderr, stdout, windhover,
};

fn example(name: &str) -> String {
    format!("{}/../../examples/foreign/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The example of UDP ping-pong; nothing where there is no C compiler.
fn built(folder: &Folder, test: &str) -> Option<String> {
    let program = folder.0.join("udp_pingpong").display().to_string();
    match Command::new("cc").args(["-O2", "-Wall", "-Werror", "-o", &program, &example("udp_pingpong.c")]).output() {
        Err(_) => {
            eprintln!("SKIPPED {test}: there is no C compiler (cc)");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", stderr(&output));
            Some(program)
        }
    }
}

/// A worker that is a shell script.
fn script(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.file(name, &format!("#!/bin/sh\n{text}"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const READY: &str = "echo '{\"event\":\"ready\",\"contract\":1,\"name\":\"w\",\"version\":\"2\",\"clock\":\"none\",\"ticks_per_second\":1000000}'";

/// Samples as a worker wrote them: sent, received.
fn samples(path: &Path) -> Vec<(u64, Option<u64>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(|letter: char| letter.is_ascii_digit()));
    let fields = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[1].parse().unwrap(), words[2].parse().ok())
    };
    lines.map(fields).collect()
}

#[test]
fn udp_ping_pong_of_a_worker_in_c() {
    let folder = Folder::new("foreign-udp");
    let Some(program) = built(&folder, "udp_ping_pong_of_a_worker_in_c") else { return };
    let wrote = folder.0.join("wrote");
    let worker = script(&folder, "worker", &format!("{program} | tee {}\n", wrote.display()));
    let server = Server::start(&[]);
    for size in ["32", "12", "3", "1400"] {
        let fixed = ["pingpong", "udp", &server.address, "--foreign", &worker, "--size", size];
        let output = run(&[&fixed[..], &["--count", "3000", "--warmup", "20", "--format", "json"]].concat());
        assert_measured(&output);
        let document = documents(&output).remove(0);
        let own = samples(&wrote);
        assert_eq!(own.len(), 3000);
        let mut times: Vec<u64> = own.iter().filter_map(|(sent, received)| Some((*received)? - sent)).collect();
        times.sort_unstable();
        let latency = &document["latency"];
        // RTT/2 of ours from round trips of its.
        let half = |ns: u64| ns / 2 + ns % 2;
        assert_eq!(latency["count"].as_u64(), Some(times.len() as u64), "{document}");
        assert_eq!(latency["kind"], "rtt_half");
        let least_and_most = [latency["min_ns"].as_u64(), latency["max_ns"].as_u64()];
        assert_eq!(least_and_most, [Some(half(times[0])), Some(half(times[times.len() - 1]))]);
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / 2.0;
        assert!((latency["mean_ns"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9, "{document}");
        let median = times[times.len().div_ceil(2) - 1] as f64 / 2.0;
        assert!((latency["p50_ns"].as_f64().unwrap() / median - 1.0).abs() < 0.002, "{document}");
        // It is said whose figures these are, and the reflector saw them all and those of the warm-up.
        assert_eq!(document["source"]["tool"], "udp-pingpong");
        assert_eq!(document["factors"]["source"], "foreign:udp-pingpong");
        let disturbed = document["verdict"]["disturbed"].as_array().unwrap();
        assert!(disturbed.iter().any(|finding| finding["id"] == "foreign"), "{document}");
        assert!(document["ends"]["reflector"]["usage"]["transactions"].as_u64().unwrap() >= 3000 + 1000);
        assert!(document["clock"].is_null());
    }
}

#[test]
fn the_own_initiator_and_a_worker_agree() {
    let folder = Folder::new("foreign-agree");
    let Some(program) = built(&folder, "the_own_initiator_and_a_worker_agree") else { return };
    let p50 = |extra: &[&str]| {
        let fixed = ["pingpong", "udp", "--fork-both", "--seconds", "0.5", "--warmup", "20", "--format", "json"];
        // All on one CPU: between two of a virtual machine a round trip may take 16 times as long.
        let own = windhover(&[&fixed[..], extra].concat());
        let output =
            Command::new("taskset").args(["-c", "0"]).arg(own.get_program()).args(own.get_args()).output().unwrap();
        assert_measured(&output);
        documents(&output)[0]["latency"]["p50_ns"].as_f64().unwrap()
    };
    // Rounds of both in turn, because the machine is shared.
    let rounds: Vec<f64> = (0..5).map(|_| p50(&["--foreign", &program]) / p50(&[])).collect();
    let mut sorted = rounds.clone();
    sorted.sort_by(f64::total_cmp);
    assert!((0.5..2.0).contains(&sorted[2]), "{rounds:?}");
}

#[test]
fn a_worker_in_a_plan_is_told_from_the_own_initiator() {
    let folder = Folder::new("foreign-plan");
    let Some(program) = built(&folder, "a_worker_in_a_plan_is_told_from_the_own_initiator") else { return };
    let plan = folder.file(
        "plan.toml",
        &format!(
            "name = \"foreign\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
             [measure]\nseconds = 0.2\nwarmup_ms = 10\n[[grid]]\nprobe = [\"pingpong\"]\nprotocol = [\"udp\"]\n\
             foreign = [\"none\", \"{program}\"]\n"
        ),
    );
    let output = run(&["campaign", "run", &plan, "--output", folder.path()]);
    let directory = support::run_directory(&folder.0);
    let cells = support::assert_run_measured(&output, &directory);
    let sources: Vec<bool> = cells.iter().map(|cell| cell["source"].is_object()).collect();
    assert_eq!(sources.iter().filter(|source| **source).count(), 1, "{sources:?}");
    let report = run(&["report", directory.to_str().unwrap(), "--format", "table"]);
    assert!(stdout(&report).contains("foreign worker udp-pingpong"), "{}", stdout(&report));
}

#[test]
fn wake_ups_of_a_worker() {
    let folder = Folder::new("foreign-wake");
    // 1000 wake-ups, µs apart, 3 to 12 µs late, in ticks of a µs.
    let text = format!(
        "read task\necho \"$task\" > {}\n{READY}\nread word\n[ \"$word\" = start ] || exit 9\n\
         i=0\nwhile [ $i -lt 1000 ]; do echo $i $((i * 10)) $((i * 10 + 3 + i % 10)); i=$((i + 1)); done\necho '{{\"event\":\"end\"}}'\n",
        folder.0.join("task").display()
    );
    let worker = script(&folder, "worker", &text);
    let output = run(&["wake", "--foreign", &worker, "--count", "1000", "--format", "json"]);
    assert_code(&output, 0);
    let document = documents(&output).remove(0);
    let latency = &document["latency"];
    assert_eq!((latency["kind"].as_str(), latency["count"].as_u64()), (Some("wake_up"), Some(1000)));
    let values = ["min_ns", "p50_ns", "max_ns"].map(|field| latency[field].as_u64().unwrap());
    assert_eq!([values[0], values[2]], [3000, 12_000]);
    assert!((7000..=7010).contains(&values[1]), "{latency}");
    assert_eq!(document["source"]["bin_ns"], 1000);
    assert_eq!(
        (document["wake"]["interval_ns"].as_u64(), &document["wake"]["missed"]),
        (Some(1_000_000), &serde_json::Value::Null)
    );
    let task: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.0.join("task")).unwrap()).unwrap();
    assert_eq!((task["contract"].as_u64(), task["measure"].as_str()), (Some(1), Some("wake")));
    assert_eq!((task["max_count"].as_u64(), &task["max_ms"]), (Some(1000), &serde_json::Value::Null));
    let text = run(&["wake", "--foreign", &worker, "--count", "1000"]);
    assert!(stdout(&text).contains("foreign worker w"), "{}", stdout(&text));
}

/// Catches: what a worker left out was trusted: 490 of 500 samples.
#[test]
fn samples_that_are_missing_are_invalid() {
    let folder = Folder::new("foreign-missing");
    let text = format!(
        "read task\n{READY}\nread word\ni=0\nwhile [ $i -lt 490 ]; do echo $i $((i * 10)) $((i * 10 + 3)); i=$((i + 1)); done\n\
         echo '{{\"event\":\"end\"}}'\n"
    );
    let worker = script(&folder, "worker", &text);
    let output = run(&["wake", "--foreign", &worker, "--count", "500", "--format", "json"]);
    assert_code(&output, 4);
    assert_eq!(support::invalid_of(&output), ["samples-overrun"]);
}

#[test]
fn time_stamps_that_cannot_be_are_invalid() {
    let folder = Folder::new("foreign-clock");
    let text = format!(
        "read task\n{READY}\nread word\necho 0 0 10\necho 1 900000000 900000010\necho '{{\"event\":\"end\"}}'\n"
    );
    let worker = script(&folder, "worker", &text);
    let output = run(&["wake", "--foreign", &worker, "--count", "2", "--format", "json"]);
    assert_code(&output, 4);
    assert_eq!(support::invalid_of(&output), ["clock-unfit"]);
}

/// What is left of a worker and its child, by the numbers that it wrote.
#[track_caller]
fn nothing_is_left(folder: &Folder) {
    for id in std::fs::read_to_string(folder.0.join("ids")).unwrap().split_whitespace() {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{id} is left: {stat}");
    }
}

#[test]
fn workers_that_break_the_contract() {
    let folder = Folder::new("foreign-bad");
    let ids = folder.0.join("ids").display().to_string();
    let begin = format!("sleep 1000 >/dev/null &\necho $$ $! > {ids}\nread task\n");
    let started = format!("{begin}{READY}\nread word\n");
    let cases: &[(&str, String, &str)] = &[
        ("silent", format!("{begin}sleep 1000\n"), "did not say that it is ready within 5 s"),
        ("dies", format!("{begin}exit 3\n"), "ended too early (exit status: 3)"),
        (
            "says-so",
            format!("{begin}echo '{{\"event\":\"failed\",\"message\":\"no core\"}}'\nexit 1\n"),
            "gave up: no core",
        ),
        (
            "newer",
            format!(
                "{begin}echo '{{\"event\":\"ready\",\"contract\":2,\"name\":\"w\",\"clock\":\"c\",\"ticks_per_second\":1000}}'\n"
            ),
            "version 2",
        ),
        (
            "named",
            format!(
                "{begin}echo '{{\"event\":\"ready\",\"contract\":1,\"name\":\"a b\",\"clock\":\"c\",\"ticks_per_second\":1000}}'\n"
            ),
            "a name that is none",
        ),
        (
            "garbage",
            format!("{started}echo hello\nsleep 1000\n"),
            "wrote line 2, which is not of the contract: 'hello'",
        ),
        ("long", format!("{started}head -c 9000 /dev/zero | tr '\\0' 1\nsleep 1000\n"), "longer than 4096 bytes"),
        ("binary", format!("{started}head -c 100 /dev/urandom\necho\nsleep 1000\n"), "wrote line 2"),
        (
            "many",
            format!("{started}i=0\nwhile :; do i=$((i + 1)); echo $i $i $i; done\n"),
            "more samples than the 100 that were asked for",
        ),
        ("backwards", format!("{started}echo 1 10 20\necho 2 9 21\nsleep 1000\n"), "sample 2 out of place"),
        ("killed", format!("{started}kill -9 $$\n"), "signal: 9"),
        ("no-end", format!("{started}echo 1 10 20\nexit 0\n"), "ended too early (exit status: 0)"),
        ("nothing", format!("{started}echo '{{\"event\":\"end\"}}'\n"), "wrote no sample"),
        (
            "exit-code",
            format!("{started}echo 1 10 20\necho '{{\"event\":\"end\"}}'\nexit 7\n"),
            "ended badly after its samples",
        ),
        ("stays", format!("{started}echo 1 10 20\necho '{{\"event\":\"end\"}}'\nsleep 1000\n"), "still ran 2 s after"),
        ("hangs", format!("{started}sleep 1000\n"), "did not end within"),
    ];
    for (name, text, words) in cases {
        let worker = script(&folder, name, text);
        assert_refused(
            &["wake", "--foreign", &worker, "--count", "100", "--seconds", "0.1", "--warmup", "1"],
            1,
            &[words, name],
        );
        nothing_is_left(&folder);
    }
    assert_refused(
        &["wake", "--foreign", "/nonexistent/worker", "--count", "1"],
        2,
        &["cannot be started", "/nonexistent/worker"],
    );
    // Catches: a count without a time set no limit.
    let worker = script(&folder, "endless", &format!("{started}sleep 1000\n"));
    assert_refused(&["wake", "--foreign", &worker, "--count", "100"], 1, &["did not end within", "endless"]);
    nothing_is_left(&folder);
    // Catches: a program without a name was our own initiator.
    for nothing in ["", "  "] {
        assert_refused(&["wake", "--foreign", nothing, "--count", "1"], 2, &["name a program, or use none"]);
    }
    assert_refused(&["pingpong", "pipe", "--foreign", "x"], 2, &["foreign worker", "use udp or tcp"]);
    assert_refused(&["wake", "--foreign", "x", "--cpu", "0-1"], 2, &["foreign worker", "--cpu"]);
}

#[test]
fn an_interrupted_worker_gives_what_it_has() {
    let folder = Folder::new("foreign-interrupted");
    let Some(program) = built(&folder, "an_interrupted_worker_gives_what_it_has") else { return };
    let server = Server::start(&[]);
    let arguments = ["pingpong", "udp", &server.address, "--foreign", &program, "--seconds", "60", "--format", "json"];
    let mut client = support::windhover(&[&arguments[..], &support::AT_ONCE].concat());
    client.stdout(std::process::Stdio::piped());
    let child = server.measured_by(client);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 130);
    let document = documents(&output).remove(0);
    assert!(document["latency"]["count"].as_u64().unwrap() > 10, "{document}");
    assert_eq!(document["interrupted"], true);
}

#[test]
fn the_evl_example_compiles_where_libevl_is() {
    let folder = Folder::new("foreign-evl");
    let probe = folder.file("probe.c", "#include <evl/evl.h>\n");
    let has = Command::new("cc").args(["-fsyntax-only", &probe]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED the_evl_example_compiles_where_libevl_is: there is no libevl here (evl/evl.h)");
        return;
    }
    let program = folder.0.join("evl_wake").display().to_string();
    let output =
        Command::new("cc").args(["-O2", "-Wall", "-o", &program, &example("evl_wake.c"), "-levl"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
