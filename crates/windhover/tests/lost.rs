//! An endpoint that is killed: every probe ends with 5, says so in one clear line and keeps what it measured.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "functions that tests share are tests too")]

mod support;

use std::process::Stdio;
use support::{AT_ONCE, Server, Waits, assert_code, computed, documents, stderr, until, windhover};

/// How often the server of a closed loop without warm-up waits only for messages.
const WAITS: u64 = 500;
/// CPU time in clock ticks that a server takes only for messages of the other probes: `pace` exchanges hundreds before it begins.
const TICKS: u64 = 3;
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
        let warm_up: &[&str] = if ["pingpong", "rr"].contains(&case[0]) { &AT_ONCE } else { &[] };
        let fixed = ["--seconds", "60", "--format", "json"];
        let arguments = [probe, &[server.address.as_str()], rest, warm_up, &fixed].concat();
        let before = (Waits::of(server.id()), computed(server.id()));
        let child = windhover(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let address = server.address.clone();
        running.push((case, address, server, before, child));
    }
    for (case, _, server, (waits, ticks), _) in &running {
        let has_measured = || match case[0] {
            "pingpong" | "rr" => waits.since() >= WAITS,
            _ => computed(server.id()) >= ticks + TICKS,
        };
        until(&format!("{case:?} measures"), has_measured);
    }
    // All at once: a kernel whose CPUs are busy may take seconds to close the packet sockets of one.
    running.iter_mut().for_each(|(_, _, server, ..)| server.kill());
    for (case, address, _server, _, child) in running {
        let output = child.wait_with_output().unwrap();
        let words = stderr(&output);
        eprintln!("{case:?}: {words}");
        assert_code(&output, 5);
        let said: Vec<&str> = words.lines().filter(|line| line.starts_with("windhover:")).collect();
        let [line] = said.as_slice() else { unreachable!("one line expected: {words}") };
        assert!(line.contains("vanished") && line.matches(&address).count() == 1 && !line.contains('('), "{line}");
        let all = documents(&output);
        assert_eq!(all.len(), 1, "{case:?}");
        let measured = all[0]["messages"]["received"].as_u64() > Some(0);
        assert!(measured || case[0] == "stream" && all[0]["stream"]["flows"][0]["bytes"].as_u64() > Some(0), "{all:?}");
        let invalid = all[0]["verdict"]["invalid"].as_array().unwrap();
        assert!(invalid.iter().any(|finding| finding["id"] == "peer-vanished"), "{case:?}: {invalid:?}");
    }
}
