//! What goes wrong around a program: a full disk, another program on its interface, a hostile peer.

use super::programs::{Case, Stack, number};
use super::stack::{start_on_stack, with_program};
use super::support::{Folder, can_make_namespaces, stderr, stdout, until};
use super::wire::{REACHED, has_program};
use super::{Started, stat};
use serde_json::Value;
use std::process::Command;

/// Catches: a status page that cannot be written ends the program.
#[test]
fn a_full_disk_below_the_status_pages_stops_nothing() {
    /// A folder of its own, which only the library's file fits into.
    const START: &str = "mount -t tmpfs -o size=32m,mode=700 none $0 && $1 bypass run true && \
                         ! dd if=/dev/zero of=$0/fill bs=4k 2>&- && exec $1 bypass run -- $2";
    let test = "a_full_disk_below_the_status_pages_stops_nothing";
    let folder = Folder::new("bypass-full");
    let Some(program) = super::calls(&folder, test, &[]) else { return };
    if !can_make_namespaces(test) {
        return;
    }
    let (plain, said) = Started::new(&mut Command::new(&program), "done");
    assert_eq!(plain.end(), Some(23));
    let state = folder.0.join("state");
    std::fs::create_dir(&state).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", START]).arg(&state);
    command.args([env!("CARGO_BIN_EXE_windhover"), &program]).env("WINDHOVER_STATE", &state);
    let (behind, other) = Started::new(super::budget(&mut command, 3000), "done");
    super::assert_same(&said, &other, "on a full disk");
    assert_eq!(behind.end(), Some(23));
}

/// What the pages of running programs say of their interface, by process.
fn carriers(folder: &Folder) -> Vec<(u64, String)> {
    let of = |page: &Value| Some((page["pid"].as_u64()?, page["carrier"]["backend"].as_str()?.to_owned()));
    let mut all: Vec<(u64, String)> = stat(folder).iter().filter_map(of).collect();
    all.sort_by(|one, other| one.1.cmp(&other.1));
    all
}

/// Catches: a second program that is not accelerated, that disturbs the first, or that the first one's death disturbs.
#[test]
fn two_programs_share_an_interface() {
    let test = "two_programs_share_an_interface";
    with_program(test, "ends", |folder, program| {
        let start = |address: &str, backend: &str| {
            start_on_stack(folder, &["--backend", backend], [program, address, "carry"], "carrying: 0")
        };
        let words = |expected: [&'static str; 2]| {
            let mut found = Vec::new();
            until(&format!("the programs' back-ends are not {expected:?}"), || {
                found = carriers(folder);
                found.iter().map(|(_, word)| word.as_str()).eq(expected)
            });
            found
        };
        for address in REACHED {
            let (mut first, second) = (start(address, "generic"), start(address, "packet"));
            let found = words(["generic", "packet"]);
            assert_eq!(found[0].0, u64::from(first.0.id()), "the first has the queue");
            first.0.kill().unwrap();
            first.0.wait().unwrap();
            assert!(!has_program());
            let third = start(address, "generic");
            words(["generic", "packet"]);
            // Each of their bytes came back, in order.
            assert_eq!((second.end(), third.end()), (Some(0), Some(0)));
            assert!(!has_program());
        }
    });
}

/// Resident memory of a process in KiB.
fn resident_kib(process: u64) -> f64 {
    number(&std::fs::read_to_string(format!("/proc/{process}/status")).unwrap(), "VmRSS:")
}

/// Catches: a wrong answer, a lost connection, or memory that grows while a peer sends garbage, mutilated segments, a flood of
/// SYNs, and segments outside windows.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn redis_serves_beside_a_hostile_peer() {
    let programs = ["redis-server", "redis-benchmark", "python3"];
    let Some(case) = Case::new("redis_serves_beside_a_hostile_peer", Stack::Xdp, &programs) else { return };
    let place = ["--port", &case.port, "--bind", &case.address, "--save", "", "--protected-mode", "no"];
    let server = case.serve(true, &[&["redis-server"], &place[..]].concat(), "tcp");
    let link = |host: usize| -> Value {
        let shown = case.command(host, false, &["ip", "-j", "link"]).output().unwrap();
        let links: Value = serde_json::from_slice(&shown.stdout).unwrap();
        links.as_array().unwrap().iter().find(|link| link["link_type"] == "ether").unwrap().clone()
    };
    let (device, mac) =
        (link(0)["ifname"].as_str().unwrap().to_owned(), link(1)["address"].as_str().unwrap().to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bypass/hostile.py");
    let attack = |seconds: &str| {
        let output = case.client(false, &["python3", script, &case.address, &case.port, &device, &mac, seconds]);
        let said = stdout(&output);
        assert_eq!(said.lines().count(), 6, "{said}{}", stderr(&output));
        for line in said.lines() {
            let (right, asked) = (number(line, "frames,"), number(line, " of"));
            assert!(right == asked && asked > 10.0 && number(line, ":") > 500.0, "{line}");
        }
        said
    };
    let redis = stat(&case.folder)[0]["pid"].as_u64().unwrap();
    attack("1");
    let before = resident_kib(redis);
    let said = attack("4");
    let grown = resident_kib(redis) - before;
    assert!(grown < 16_384.0, "{grown} KiB more after\n{said}");
    let line =
        ["redis-benchmark", "-h", &case.address, "-p", &case.port, "-c", "20", "-n", "5000", "-t", "get", "--csv"];
    assert!(stdout(&case.client(false, &line)).contains("\"GET\""));
    for line in said.lines() {
        case.row(&format!("{line}; {grown} KiB more in all"));
    }
    drop(server);
}
