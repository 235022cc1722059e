//! `windhover doctor`: exit codes, documents, comparing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;
#[path = "../../prepare/tests/systems/mod.rs"]
#[allow(dead_code, reason = "prepare's tests use the rest")]
mod systems;

use serde_json::Value;
use std::path::Path;
use support::{Folder, assert_code, assert_refused, fits_every_width, run, stderr, stdout, windhover};
use systems::System;

fn tree(folder: &Folder, clock: &str) -> String {
    for (path, text) in [
        ("proc/sys/kernel/osrelease", "6.1.0"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT"),
        ("proc/sys/kernel/hostname", "wren"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
        ("sys/devices/system/cpu/online", "0-3"),
        ("sys/devices/system/cpu/isolated", ""),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", clock),
    ] {
        let file = folder.0.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("{text}\n")).unwrap();
    }
    folder.0.to_string_lossy().into_owned()
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn is_bad(document: &Value) -> bool {
    document["findings"].as_array().unwrap().iter().any(|finding| finding["severity"] == "bad")
}

#[test]
fn this_machine_is_examined() {
    let output = run(&["doctor", "--json"]);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_code(&output, if is_bad(&document) { 3 } else { 0 });
    assert_eq!(document["format"], 1);
    assert!(document["machine"]["kernel_release"].is_string(), "{document}");
    assert!(document["host"]["nics"].as_array().is_some_and(|nics| nics.iter().any(|nic| nic["name"] == "lo")));
    // Every check is either answered or skipped with a reason.
    let ids = |list: &str| -> Vec<String> {
        document[list].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    let (found, skipped) = (ids("findings"), ids("skipped"));
    assert!(skipped.contains(&"peer.match".to_owned()) && found.contains(&"cpu.housekeeping".to_owned()));
    assert!(skipped.iter().all(|id| !found.contains(id)), "{found:?} {skipped:?}");
    let text = stdout(&windhover(&["doctor"]).env("COLUMNS", "200").output().unwrap());
    assert!(text.contains("NOT EXAMINED") && text.contains("checks not made"), "{text}");
}

#[test]
fn something_bad_ends_with_3() {
    let folder = Folder::new("doctor-bad");
    let good = tree(&folder, "tsc");
    assert_code(&run(&["doctor", "--root", &good]), 0);
    let bad = tree(&folder, "hpet");
    let output = run(&["doctor", "--root", &bad]);
    assert_code(&output, 3);
    assert!(stdout(&output).contains("clock.source"), "{}", stdout(&output));
    // What is not asked for does not fail.
    assert_code(&run(&["doctor", "--root", &bad, "--only", "sched,cpu.housekeeping"]), 0);
}

#[test]
fn colour_only_where_asked_for() {
    let folder = Folder::new("doctor-colour");
    let root = tree(&folder, "hpet");
    assert!(!stdout(&run(&["doctor", "--root", &root])).contains('\x1b'));
    assert!(stdout(&run(&["doctor", "--root", &root, "--color", "always"])).contains('\x1b'));
}

#[test]
fn documents_are_kept_and_compared() {
    let folder = Folder::new("doctor-kept");
    let (first, second) = (folder.0.join("a.json"), folder.0.join("b.json"));
    let (a, b) = (first.to_string_lossy().into_owned(), second.to_string_lossy().into_owned());
    let trees = Folder::new("doctor-trees");
    let root = tree(&trees, "tsc");
    assert_code(&run(&["doctor", "--root", &root, "--save", &a]), 0);
    assert_refused(&["doctor", "--root", &root, "--save", &a], 2, &["exists", "--force"]);
    assert_code(&run(&["doctor", "--root", &root, "--save", &b]), 0);
    let output = run(&["doctor", "diff", &a, &b]);
    assert_code(&output, 0);
    assert!(stdout(&output).contains("Nothing differs"), "{}", stdout(&output));

    let other = tree(&trees, "hpet");
    assert_code(&run(&["doctor", "--root", &other, "--save", &b, "--force"]), 3);
    let output = run(&["doctor", "diff", &a, &b]);
    assert_code(&output, 3);
    assert!(stdout(&output).contains("clocksource"), "{}", stdout(&output));
    let output = run(&["doctor", "diff", &a, &b, "--json"]);
    assert_code(&output, 3);
    let compared: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let first_difference = &compared["differences"][0];
    assert_eq!((&first_difference["what"], &first_difference["should_match"]), (&"clocksource".into(), &true.into()));

    std::fs::write(&second, "{}").unwrap();
    assert_refused(&["doctor", "diff", &a, &b], 2, &["format"]);
    std::fs::write(&second, "no document").unwrap();
    assert_refused(&["doctor", "diff", &a, &b], 2, &["b.json", "--save"]);
    assert_refused(&["doctor", "diff", &a, "/nowhere.json"], 2, &["/nowhere.json"]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    // It says which there are.
    assert_refused(&["doctor", "--only", "cpu.nothing"], 2, &["cpu.nothing", "cpu.smt"]);
    assert_refused(&["doctor", "--only", "nothing"], 2, &["nothing", "sched", "cpu"]);
    assert_refused(&["doctor", "--for", "777"], 2, &["no CPU 777"]);
    assert_refused(&["doctor", "--nic", "no-such-if"], 2, &["no-such-if", "lo"]);
    assert_refused(&["doctor", "--for", "2-1"], 2, &["2-1"]);
    let folder = Folder::new("doctor-refused");
    let root = tree(&folder, "tsc");
    assert_refused(&["doctor", "--root", &root, "--measure"], 2, &["running system"]);
    assert_code(&run(&["doctor", "diff", "one"]), 2);
}

#[test]
fn measuring_fills_in_what_files_cannot_tell() {
    let folder = Folder::new("doctor-measured");
    let file = folder.0.join("m.json");
    let output = run(&["doctor", "--measure", "--save", &file.to_string_lossy()]);
    let document = read(&file);
    assert_code(&output, if is_bad(&document) { 3 } else { 0 });
    let measured = &document["measured"];
    assert!(measured["duration_ns"].as_u64().unwrap() >= 1_000_000_000, "{measured}");
    assert!(measured["local_timer"].is_u64());
    let skipped = document["skipped"].as_array().unwrap();
    assert!(!skipped.iter().any(|skipped| skipped["reason"] == "needs --measure"), "{skipped:?}");
    if measured["throttle"].is_null() {
        // Without the right to SCHED_FIFO it says so instead.
        assert!(stderr(&output).contains("no throttle probe"), "{}", stderr(&output));
    } else {
        let throttle = &measured["throttle"];
        assert!(throttle["duration_ns"].as_u64().unwrap() >= throttle["longest_ns"].as_u64().unwrap());
    }
}

/// The arguments that examine a planted system: its CPUs and device.
fn examined(system: &System, more: &[&str]) -> Vec<String> {
    let root = system.root().display().to_string();
    ["doctor", "--root", &root].iter().chain(more).map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_text_for_people() {
    let systems: [(&str, &[&str]); 6] = [
        ("vm-lockdown", &["--cpus", "1", "--nic", "eth0"]),
        ("metal", &["--cpus", "2", "--nic", "ens1f0"]),
        ("preempt-rt", &["--cpus", "3", "--nic", "eth0"]),
        ("container", &["--cpus", "4"]),
        ("kvm-guest", &[]),
        ("redhawk", &[]),
    ];
    for (name, more) in systems {
        let system = System::load(name);
        let arguments = examined(&system, more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        insta::assert_snapshot!(name, stdout(&run(&arguments)));
        fits_every_width(&arguments);
    }
    let (guest, metal) = (System::load("vm-lockdown"), System::load("metal"));
    let narrow = examined(&guest, &["--verbose", "--color", "always"]);
    let narrow: Vec<&str> = narrow.iter().map(String::as_str).collect();
    insta::assert_snapshot!("narrow", stdout(&windhover(&narrow).env("COLUMNS", "60").output().unwrap()));

    let folder = Folder::new("doctor-text");
    let kept = |system: &System, name: &str| {
        let file = folder.0.join(name).display().to_string();
        let arguments = examined(system, &["--save", &file]);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        file
    };
    let (a, b) = (kept(&metal, "a.json"), kept(&guest, "b.json"));
    insta::assert_snapshot!("comparison", stdout(&run(&["doctor", "diff", &a, &b])));
    fits_every_width(&["doctor", "diff", &a, &b]);
}
