//! winpoint, built for Linux, against windhover: what both say of one another over PGM. `cargo xtask test --windows` runs the
//! program that is built for Windows.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::{Folder, assert_measured, can_make_namespaces, documents, stderr, stdout, windhover};

/// The program beside ours; None where it was not built.
fn winpoint(test: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_windhover")).with_file_name("winpoint");
    if !path.exists() {
        eprintln!("SKIPPED {test}: winpoint is not built: cargo build -p windhover-winpoint");
        return None;
    }
    Some(path)
}

/// Runs `client` in one network namespace against `server serve` in another; the near end has 198.18.8.1, the far one
/// 198.18.8.2. `rules` of nft hold in both; the interfaces have the MTU, and each end's /sys
/// lists its own.
fn between(test: &str, [server, client]: [&str; 2], mtu: u32, rules: &str) -> Option<Output> {
    let winpoint = winpoint(test)?;
    if !can_make_namespaces(test) {
        return None;
    }
    let folder = Folder::new(test);
    let key = folder.secret("key", &stdout(&windhover(&["key"]).output().unwrap()));
    let script = format!(
        "mount -t sysfs none /sys || exit 77; ip link set lo up; \
         unshare --net --mount sh -c 'mount -t sysfs none /sys; : > \"$DIR/ready\"; exec sleep 100' & far=$!; trap 'kill $far; wait' EXIT; \
         until [ -e \"$DIR/ready\" ]; do kill -0 $far || exit 77; sleep 0.02; done; \
         ip link add v0 mtu {mtu} type veth peer name v1 mtu {mtu} netns $far || exit 77; ip addr add 198.18.8.1/24 dev v0; ip link set v0 up; \
         there() {{ exec nsenter --net=/proc/$far/ns/net --mount=/proc/$far/ns/mnt -- \"$@\"; }}; \
         (there ip addr add 198.18.8.2/24 dev v1); (there ip link set lo up); (there ip link set v1 up); \
         rules=\"{rules}\"; if [ -n \"$rules\" ]; then nft \"$rules\" || exit 78; (there nft \"$rules\") || exit 78; fi; \
         there {server} serve --bind 198.18.8.2 --key-file \"$KEY\" 2> \"$DIR/served\" & served=$!; \
         trap 'kill $served $far; wait' EXIT; \
         tries=0; until grep -q 'serving\\|listening' \"$DIR/served\"; do \
         tries=$((tries + 1)); [ $tries -lt 200 ] || {{ cat \"$DIR/served\" >&2; exit 1; }}; sleep 0.05; done; \
         {client} --key-file \"$KEY\""
    );
    let output = Command::new("timeout")
        .args(["90", "unshare", "--net", "--mount", "sh", "-c", &script])
        .env("KEY", key)
        .env("DIR", folder.path())
        .env("WINPOINT", winpoint)
        .env("WINDHOVER", env!("CARGO_BIN_EXE_windhover"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match output.status.code() {
        Some(77) => eprintln!("SKIPPED {test}: no pair of network namespaces: {}", stderr(&output)),
        Some(78) => eprintln!("SKIPPED {test}: nft drops nothing here: {}", stderr(&output)),
        _ => return Some(output),
    }
    None
}

const SIDES: [[&str; 2]; 2] = [
    ["\"$WINDHOVER\"", "\"$WINPOINT\" pace pgm 239.192.0.1 198.18.8.2 --json"],
    ["\"$WINPOINT\"", "\"$WINDHOVER\" pace pgm 239.192.0.1 198.18.8.2 --format json"],
];

fn measured(test: &str, [server, client]: [&str; 2], more: &str, rules: &str) -> Option<Value> {
    let output = between(test, [server, &format!("{client} --rate 2k --seconds 0.5 {more}")], 1500, rules)?;
    assert_measured(&output);
    Some(documents(&output).remove(0))
}

#[test]
fn pgm_goes_between_winpoint_and_windhover_both_ways() {
    // Packets that one of them does not read, a source that the other one does not hear, answers without the tag.
    for (at, ends) in SIDES.into_iter().enumerate() {
        for more in ["--size 64", "--size 4000 --remote-receive spin", "--size 100 --receive block"] {
            let Some(one) = measured("winpoint-pgm", ends, more, "") else { return };
            let messages = &one["messages"];
            assert_eq!(
                (&messages["lost"], messages["received"].as_u64()),
                (&0.into(), Some(1000)),
                "{at} {more}: {one}"
            );
            let pgm = &one["pgm"];
            assert_eq!((&pgm["group"], &pgm["reply_group"]), (&"239.192.0.1".into(), &"239.192.0.2".into()));
            // A message of 4,000 bytes is three packets.
            let packets = if more.contains("4000") { 3 } else { 1 };
            for end in pgm["ends"].as_array().unwrap() {
                assert!(end["counts"]["odata_sent"].as_u64() >= Some(packets * 1000), "{at} {more}: {end}");
            }
        }
    }
}

#[test]
fn what_is_lost_between_winpoint_and_windhover_is_repaired() {
    // NAKs that go nowhere, repairs that are not taken, costs of repairs that the other end does not read.
    let rules = "add table inet t; add chain inet t i { type filter hook input priority 0; }; \
                 add rule inet t i udp dport 3056 numgen random mod 30 == 0 drop";
    for (at, ends) in SIDES.into_iter().enumerate() {
        let Some(one) = measured("winpoint-pgm-loss", ends, "--size 100 --timeout 3000", rules) else { return };
        assert_eq!(one["messages"]["lost"], 0, "{at}: {}", one["messages"]);
        let ends = one["pgm"]["ends"].as_array().unwrap();
        assert_eq!(ends.len(), 2);
        for end in ends {
            let count = |name: &str| end["counts"][name].as_u64().unwrap();
            assert!(count("recovered") > 0 && count("lost") == 0 && count("rdata_sent") > 0, "{at}: {end}");
        }
        let fates = one["pgm"]["fates"].as_array().unwrap();
        let repaired = fates.iter().find(|fate| fate["fate"] == "repaired").unwrap();
        assert!(repaired["latency"]["count"].as_u64() > Some(10), "{at}: {repaired}");
        // Both ways have their repairs' steps.
        let steps = one["pgm"]["steps"].as_array().unwrap();
        let ways: Vec<&str> = steps.iter().filter_map(|step| step["way"].as_str()).collect();
        assert_eq!(ways, ["out", "back"], "{at}: {steps:?}");
    }
}

/// Catches: an end that sends packets longer than the MTU, which IP cuts into fragments: it has one packet for a message, not three.
#[test]
fn packets_are_as_long_as_the_interface_carries() {
    for (at, ends) in SIDES.into_iter().enumerate() {
        let client = format!("{} --rate 2k --seconds 0.2 --size 1400", ends[1]);
        let Some(output) = between("winpoint-pgm-mtu", [ends[0], &client], 700, "") else { return };
        assert_measured(&output);
        let one = documents(&output).remove(0);
        assert_eq!(one["messages"]["lost"], 0, "{at}: {one}");
        for end in one["pgm"]["ends"].as_array().unwrap() {
            assert!(end["counts"]["odata_sent"].as_u64() >= Some(3 * 400), "{at}: {end}");
        }
    }
}

/// Catches: a list that lacks what one of both engines did.
#[test]
fn single_naks_and_repairs_are_events_of_the_cell() {
    let rules = "add table inet t; add chain inet t i { type filter hook input priority 0; }; \
                 add rule inet t i udp dport 3056 numgen random mod 30 == 0 drop";
    let [server, client] = SIDES[0];
    let client = format!(
        "{client} --rate 2k --seconds 0.5 --size 100 --timeout 3000 --key-file \"$KEY\" --output \"$DIR/runs\"; \
         code=$?; cat \"$DIR\"/runs/*/cells/*.events.jsonl >&2; (exit $code) #"
    );
    let Some(output) = between("winpoint-pgm-events", [server, &client], 1500, rules) else { return };
    assert_measured(&output);
    let said = stderr(&output);
    let events: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (kind, words) in [
        ("nak", "of the answers"),
        ("nak", "of ours"),
        ("ncf", "of ours"),
        ("ncf", "of the answers confirmed"),
        ("repair", "one of our packets repaired"),
        ("repair", "a packet of the answers repaired"),
    ] {
        let is = |event: &&Value| event["kind"] == kind && event["detail"].as_str().unwrap().contains(words);
        let found: Vec<&Value> = events.iter().filter(is).collect();
        assert!(!found.is_empty() && found.iter().all(|event| event["at_ns"].is_u64()), "{kind} {words}: {said}");
    }
    // The path of the run follows.
    let one: Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    let counts = &one["pgm"]["ends"][0]["counts"];
    let sent =
        events.iter().filter(|event| event["kind"] == "nak" && event["detail"].as_str().unwrap().contains("answers"));
    assert!(Some(sent.count() as u64) <= counts["naks_sent"].as_u64(), "{counts}");
}

#[test]
fn what_only_windows_has_is_refused_in_one_line() {
    let server = support::Server::start(&[]);
    support::assert_refused(
        &["pingpong", "udp", &server.address, "--remote-receive", "iocp"],
        2,
        &["iocp", "winpoint"],
    );
    let Some(winpoint) = winpoint("winpoint-refusals") else { return };
    support::assert_refused(&["pingpong", "udp", "127.0.0.1", "--receive", "iocp"], 2, &["iocp", "winpoint"]);
    for (arguments, code, words) in [
        (&["pace", "pgm", "239.192.0.1"][..], 2, "pgm needs a group and an endpoint"),
        (&["pace", "pgm", "eth0", "127.0.0.1"], 2, "'eth0' is no multicast group"),
        (&["pace", "udp", "239.192.0.1", "127.0.0.1"], 2, "one address too many"),
        (&["pingpong", "pgm", "239.192.0.1", "127.0.0.1"], 2, "pgm"),
        (&["pace", "udp", "127.0.0.1", "--udp-port", "4000"], 2, "say nothing to udp"),
        (&["pace", "udp", "127.0.0.1", "--receive", "epoll"], 2, "does not wait by epoll"),
        (&["pingpong", "udp", "127.0.0.1", "--receive", "iocp"], 2, "for Windows"),
    ] {
        let output = Command::new(&winpoint).args(arguments).stdin(Stdio::null()).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(code) && said.contains(words) && said.lines().count() == 1, "{said}");
    }
}
