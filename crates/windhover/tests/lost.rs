//! An endpoint that is killed: every probe ends with 5, says so in one clear line and keeps what it measured.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "functions that tests share are tests too")]

mod support;

use serde_json::Value;
use std::process::Stdio;
use support::{AT_ONCE, Server, Waits, assert_code, first_interval, stderr, stdout, until, windhover};

/// How often the server of a closed loop without warm-up waits only for messages.
const WAITS: u64 = 500;
/// Probes at a time: each start takes a debug build a second of CPU, and those that measure already take theirs.
const AT_A_TIME: usize = 4;

#[test]
fn a_killed_endpoint_is_a_lost_host_for_every_probe() {
    let cases: [&[&str]; 12] = [
        &["pingpong", "frame", "--frame-backend", "packet"],
        &["pace", "mptcp", "--rate", "500"],
        &["pingpong", "tcp"],
        &["pingpong", "udp"],
        &["rr", "udp"],
        &["rr", "tcp"],
        &["pace", "udp", "--rate", "500"],
        &["pace", "tcp", "--rate", "500"],
        &["stream", "udp", "--bandwidth", "5M"],
        &["stream", "tcp", "--bandwidth", "5M"],
        &["stream", "tcp", "--bandwidth", "20M", "--direction", "down", "--working-latency"],
        &["stream", "tcp", "--bandwidth", "20M", "--direction", "both"],
    ];
    cases.chunks(AT_A_TIME).for_each(all_at_once);
}

fn all_at_once(cases: &[&[&str]]) {
    let mut running = Vec::new();
    for case in cases {
        if case[1] == "frame" && !support::is_root() {
            eprintln!("PARTLY a_killed_endpoint_is_a_lost_host_for_every_probe: pingpong frame: it needs root");
            continue;
        }
        let server = Server::start(&[]);
        let (probe, rest) = case.split_at(2);
        let is_closed_loop = ["pingpong", "rr"].contains(&case[0]);
        let form: &[&str] = if is_closed_loop { &["--format", "json"] } else { &["--jsonl"] };
        let warm_up: &[&str] = if is_closed_loop { &AT_ONCE } else { &[] };
        let arguments = [probe, &[server.address.as_str()], rest, warm_up, form, &["--seconds", "60"]].concat();
        let waits = Waits::of(server.id());
        let child = windhover(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        running.push((case, server, is_closed_loop.then_some(waits), child));
    }
    let mut intervals = Vec::new();
    for (case, _, waits, child) in &mut running {
        if let Some(waits) = waits {
            until(&format!("{case:?} measures"), || waits.since() >= WAITS);
            intervals.push(None);
        } else {
            intervals.push(Some(first_interval(child)));
        }
    }
    // All at once: a kernel whose CPUs are busy may take seconds to close the packet sockets of one.
    running.iter_mut().for_each(|(_, server, ..)| server.kill());
    for ((case, server, _, child), later) in running.into_iter().zip(intervals) {
        let last = later.map(|lines| lines.map(Result::unwrap).last().unwrap());
        let output = child.wait_with_output().unwrap();
        let words = stderr(&output);
        eprintln!("{case:?}: {words}");
        assert_code(&output, 5);
        let said: Vec<&str> = words.lines().filter(|line| line.starts_with("windhover:")).collect();
        let [line] = said.as_slice() else { unreachable!("one line expected: {words}") };
        assert!(
            line.contains("vanished") && line.matches(&server.address).count() == 1 && !line.contains('('),
            "{line}"
        );
        let printed = last.unwrap_or_else(|| stdout(&output));
        let document: Value = serde_json::from_str(&printed).unwrap();
        let (messages, flows) = (&document["messages"]["received"], &document["stream"]["flows"][0]["bytes"]);
        assert!([messages, flows].iter().any(|count| count.as_u64() > Some(0)), "{document}");
        let invalid = document["verdict"]["invalid"].as_array().unwrap();
        let when = if case[0] == "stream" { "vanished before the end" } else { "vanished after " };
        let is_said =
            |finding: &Value| finding["id"] == "peer-vanished" && finding["detail"].as_str().unwrap().contains(when);
        assert!(invalid.iter().any(is_said), "{case:?}: {invalid:?}");
    }
}
