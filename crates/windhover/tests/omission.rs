//! Coordinated omission: who is stopped for 100 ms shows in the figures that a user of it would have felt, and only there.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Folder, Server, windhover};

/// How long a process is stopped.
const STOP: Duration = Duration::from_millis(100);
/// A message that waited so long was held up by the stop, ns.
const HELD_UP: i64 = 50_000_000;
/// Messages a second of the open loop: some 50 of the stop's 100 wait longer than half of it.
const RATE: &str = "1000";
/// On a machine that is busy with other tests something else may stand still too; then it is tried again.
const ATTEMPTS: usize = 4;

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn stop_for_a_while(pid: u32) {
    signal("-STOP", pid);
    std::thread::sleep(STOP);
    signal("-CONT", pid);
}

/// Messages held up, by (RTT from the actual, RTT from the intended send).
type Held = (usize, usize);

/// What a raw file of `pace` says.
fn held_up(text: &str) -> Held {
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<i64> = line.split(' ').map(|field| field.parse().unwrap_or(i64::MAX / 2)).collect();
        (fields[2], fields[2] + fields[1] - fields[0])
    });
    rows.fold((0, 0), |(actual, intended), (from_actual, from_intended)| {
        (actual + usize::from(from_actual >= HELD_UP), intended + usize::from(from_intended >= HELD_UP))
    })
}

fn initiator(arguments: &[&str]) -> Child {
    windhover(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// An open loop in whose second half somebody is stopped.
fn open_loop(name: &str, server: &Server, stopped: impl Fn(&Child)) -> (Held, serde_json::Value) {
    let folder = Folder::new(name);
    let prefix = folder.0.join("x");
    let raw = prefix.to_str().unwrap();
    let mut child = initiator(&[
        "pace",
        "udp",
        &server.address,
        "--rate",
        RATE,
        "--seconds",
        "2.5",
        "--warmup",
        "20",
        "--raw",
        raw,
        "--jsonl",
    ]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // It is under way once it has told some intervals.
    for _ in 0..4 {
        assert!(lines.next().unwrap().contains("\"interval\""));
    }
    stopped(&child);
    let last = lines.last().unwrap();
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 4)), "{last}");
    let document: serde_json::Value = serde_json::from_str(&last).unwrap();
    let text = std::fs::read_to_string(folder.0.join(format!("x-32-{RATE}.dat"))).unwrap();
    assert_eq!(text.lines().count(), 2501, "no message of the schedule is left out");
    (held_up(&text), document)
}

/// Tries until `right` says so of what was seen.
fn eventually<T: std::fmt::Debug>(measure: impl Fn() -> T, right: impl Fn(&T) -> bool) -> T {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let found = measure();
        if right(&found) {
            return found;
        }
        seen.push(found);
    }
    panic!("not once in {ATTEMPTS} attempts: {seen:?}");
}

#[test]
fn a_stopped_sender_shows_only_from_the_intended_time() {
    let server = Server::start(&[]);
    let measure = || open_loop("omission-sender", &server, |child| stop_for_a_while(child.id()));
    // One message may have been on its way when everything stopped.
    let ((_, _), document) =
        eventually(measure, |((actual, intended), _)| *actual <= 1 && (35..=150).contains(intended));
    let ns = |what: &str, field: &str| document[what][field].as_u64().unwrap();
    assert!(ns("latency_intended", "max_ns") >= 80_000_000, "{document}");
    assert!(ns("lateness", "max_ns") >= 80_000_000, "{document}");
    assert!(ns("latency_intended", "p99_ns") > 10 * ns("latency", "p99_ns"), "{document}");
    let rate = &document["rate"];
    assert!(rate["behind"].as_u64() >= Some(50) && rate["most_behind"].as_u64() >= Some(50), "{document}");
    // The schedule was caught up with.
    assert_eq!(document["messages"]["sent"], 2500, "{document}");
    // The interval log has it in the interval of the intended times.
    let series = document["series"].as_array().unwrap();
    let lateness = series.iter().find(|series| series["quantity"] == "lateness_p99_ns").unwrap();
    let late = lateness["values"].as_array().unwrap().iter().filter(|ns| ns.as_f64() > Some(5e7)).count();
    assert!((1..=4).contains(&late), "{lateness}");
}

#[test]
fn a_stopped_reflector_shows_in_both_in_an_open_loop() {
    let server = Server::start(&[]);
    let measure = || open_loop("omission-reflector", &server, |_| stop_for_a_while(server.id()));
    let right =
        |(held, _): &(Held, serde_json::Value)| (35..=150).contains(&held.0) && held.0.abs_diff(held.1) <= held.0 / 5;
    let (_, document) = eventually(measure, right);
    for what in ["latency", "latency_intended"] {
        assert!(document[what]["max_ns"].as_u64().unwrap() >= 80_000_000, "{document}");
    }
    assert!(document["lateness"]["p99_ns"].as_u64().unwrap() < 50_000_000, "{document}");
}

#[test]
fn a_closed_loop_sees_a_stopped_reflector_once() {
    let server = Server::start(&[]);
    let measure = || {
        let folder = Folder::new("omission-closed");
        let prefix = folder.0.join("x");
        let raw = prefix.to_str().unwrap();
        let child = initiator(&[
            "pingpong",
            "udp",
            &server.address,
            "--seconds",
            "1.5",
            "--rtt",
            "--raw",
            raw,
            "--format",
            "json",
        ]);
        std::thread::sleep(Duration::from_millis(1000));
        stop_for_a_while(server.id());
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)));
        let text = std::fs::read_to_string(folder.0.join("x-32.dat")).unwrap();
        let rtts = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').nth(1).unwrap());
        let (all, held): (usize, usize) = rtts.fold((0, 0), |(all, held), rtt| {
            (all + 1, held + usize::from(rtt.parse::<i64>().unwrap_or(i64::MAX) >= HELD_UP))
        });
        assert!(all > 1000, "{all}");
        held
    };
    eventually(measure, |held| *held == 1);
}

#[test]
fn a_closed_loop_names_the_stalls_that_its_percentiles_hide() {
    for probe in ["pingpong", "rr"] {
        let server = Server::start(&[]);
        let mut child =
            initiator(&[probe, "udp", &server.address, "--seconds", "2", "--warmup", "20", "--format", "json"]);
        // A fifth of each half second, however long it takes to start.
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(4 * STOP);
            stop_for_a_while(server.id());
        }
        let output = child.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let measured_ns = document["latency"]["p99_ns"].as_i64().unwrap();
        let open_ns = document["latency_corrected"]["p99_ns"].as_i64().unwrap();
        assert!(measured_ns < open_ns / 10, "{probe}: some messages in many thousands waited: {document}");
        assert!(open_ns > HELD_UP / 2, "{probe}: one in a hundred would have waited (RTT/2 or RTT): {document}");
        let found = document["verdict"]["disturbed"].as_array().unwrap();
        let finding = found.iter().find(|finding| finding["id"] == "long-stalls");
        let detail = finding.map(|finding| finding["detail"].as_str().unwrap().to_owned()).unwrap_or_default();
        assert!(detail.contains("an open loop would have"), "{probe}: {document}");
    }
}
