//! Multipath TCP with every probe that TCP has, its fallback to TCP, and a kernel that has it switched off.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::process::{Command, Output};
use support::{assert_code, assert_measured, can_make_namespaces, documents, invalid_of, run, stderr, stdout};

const PROBES: [&str; 5] = [
    "pingpong mptcp --fork-both --count 200",
    "rr mptcp --fork-both --count 200",
    "rr mptcp --fork-both --count 100 --connect-each",
    "pace mptcp --fork-both --rate 500 --seconds 0.3",
    "stream mptcp --fork-both --seconds 0.3 --flows 2",
];

fn has_mptcp(test: &str) -> bool {
    let enabled = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled.trim() == "1");
    if !enabled {
        eprintln!("SKIPPED {test}: this kernel has no MPTCP, or net.mptcp.enabled is 0");
    }
    enabled
}

/// Runs the binary in a network namespace of its own, after these commands.
fn run_behind(commands: &str, arguments: &str) -> Output {
    let script = format!("ip link set lo up; {commands}; exec \"$0\" {arguments} --format json");
    let program = env!("CARGO_BIN_EXE_windhover");
    Command::new("unshare").args(["--net", "sh", "-ec", &script, program]).output().unwrap()
}

#[test]
fn every_probe_of_tcp() {
    if !has_mptcp("every_probe_of_tcp") {
        return;
    }
    for probe in PROBES {
        let words: Vec<&str> = probe.split_whitespace().chain(["--format", "json"]).collect();
        let output = run(&words);
        assert_measured(&output);
        for document in documents(&output) {
            assert_eq!(document["factors"]["protocol"], "mptcp", "{probe}");
            let moved = document["messages"]["received"].as_u64().unwrap()
                + document["stream"]["flows"][0]["bytes"].as_u64().unwrap_or(0);
            assert!(moved >= 100, "{probe}: {document}");
        }
    }
}

/// A firewall that removes the options of MPTCP from every segment.
#[test]
fn a_fallback_to_tcp_makes_every_probe_invalid() {
    let test = "a_fallback_to_tcp_makes_every_probe_invalid";
    if !has_mptcp(test) || !can_make_namespaces(test) {
        return;
    }
    let firewall = "nft add table inet m; nft 'add chain inet m o { type filter hook output priority mangle; }'; \
                    nft add rule inet m o reset tcp option mptcp";
    let tried = Command::new("unshare").args(["--net", "sh", "-ec", firewall]).output().unwrap();
    if !tried.status.success() {
        eprintln!("SKIPPED {test}: nft cannot remove options of TCP here");
        return;
    }
    for probe in PROBES {
        let output = run_behind(firewall, probe);
        let all = stdout(&output);
        assert_code(&output, 4);
        let found = invalid_of(&output);
        assert!(found.iter().any(|word| word == "path-not-as-claimed"), "{probe}: {found:?}");
        assert!(all.contains("the connection fell back to TCP"), "{probe}: {all}");
        // The same way carries what does not need the options.
        let plain = run_behind(firewall, &probe.replace("mptcp", "tcp"));
        assert!(!stdout(&plain).contains("path-not-as-claimed"), "{probe}");
    }
}

#[test]
fn a_kernel_that_has_it_switched_off_is_one_line_with_the_remedy() {
    let test = "a_kernel_that_has_it_switched_off_is_one_line_with_the_remedy";
    if !has_mptcp(test) || !can_make_namespaces(test) {
        return;
    }
    let output = run_behind("sysctl -qw net.mptcp.enabled=0", "pingpong mptcp --fork-both --count 10");
    let said = stderr(&output);
    assert_code(&output, 1);
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains("sysctl net.mptcp.enabled=1"), "{said}");
}
