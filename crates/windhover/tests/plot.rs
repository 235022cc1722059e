//! `windhover plot` on synthetic runs: what is written where, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;
#[path = "../../report/tests/synthetic/mod.rs"]
mod synthetic;

use std::fs;
use support::{Folder, assert_code, assert_refused, run, stderr, stdout};
use synthetic::{Cell, Message, about, files};

/// Two cells of 2 s; returns the run directory.
fn made(folder: &Folder) -> String {
    let rule = |seq: u64, _: u64| Message {
        lateness_ns: about(4_000, seq),
        rtt_ns: (seq % 500 != 3).then(|| about(if seq == 777 { 3_000_000 } else { 12_000 }, seq + 1)),
    };
    let cells = ["other", "fifo:50"]
        .map(|policy| files(&Cell { policy, rate: 2_000, seconds: 2, events: Vec::new(), rule: &rule }));
    synthetic::run(folder.0.as_path(), "plots", &cells).to_str().unwrap().to_owned()
}

#[test]
fn all_figures_of_a_run_go_into_its_folder() {
    let folder = Folder::new("plot-all");
    let path = made(&folder);
    let listed = stdout(&run(&["plot", &path, "--list"]));
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["cells-rtt", "heat-0001-rtt", "heat-0002-rtt", "heat-2011-0001-rtt", "lateness-0002", "difference-rtt"]
    {
        assert!(names.contains(&name), "{name}: {listed}");
    }
    assert!(!fs::exists(format!("{path}/plots")).unwrap(), "a list writes nothing");
    for (format, mark) in [("png", b"\x89PNG".as_slice()), ("svg", b"<svg"), ("csv", b"")] {
        let output = run(&["plot", &path, "--format", format]);
        assert_code(&output, 0);
        for name in &names {
            let bytes = fs::read(format!("{path}/plots/{name}.{format}")).unwrap();
            assert!(bytes.starts_with(mark) && bytes.len() > 60, "{name}.{format}");
            assert!(stderr(&output).contains(&format!("{name}.{format}")), "{}", stderr(&output));
        }
    }
    // Once more gives the same bytes.
    let before = fs::read(format!("{path}/plots/heat-0001-rtt.svg")).unwrap();
    assert_code(&run(&["--quiet", "plot", &path, "--format", "svg", "--figure", "heat"]), 0);
    assert_eq!(fs::read(format!("{path}/plots/heat-0001-rtt.svg")).unwrap(), before);
    let html = fs::read_to_string(format!("{path}/plots/heat-0001-rtt.svg")).unwrap();
    assert!(html.contains("8 lost") || html.contains(" lost"), "the losses are named");
}

#[test]
fn one_figure_goes_into_one_file_and_is_not_overwritten() {
    let folder = Folder::new("plot-one");
    let path = made(&folder);
    let cell = "policy=other,rate=2000,size=1000";
    let file = folder.0.join("one.svg").to_str().unwrap().to_owned();
    let one = ["plot", &path, "--figure", "heat", "--cell", cell, "--output", &file];
    assert_code(&run(&one), 0);
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("policy other"), "the ending says the form");
    assert_refused(&one, 2, &["one.svg", "exists", "--force"]);
    let dark: Vec<&str> =
        one.iter().copied().chain(["--force", "--dark", "--saturate", "99.5%", "--scale", "rank"]).collect();
    assert_code(&run(&dark), 0);
    assert_ne!(fs::read_to_string(&file).unwrap(), svg);
    let both = ["plot", &path, "--figure", "heat", "--output", &file];
    assert_refused(&both, 2, &["2 figures do not fit into", "--cell"]);
    assert_refused(&["plot", &path, "--figure", "cells", "--format", "png", "--output", &file], 2, &["--format png"]);
    let short = [
        "plot",
        &path,
        "--figure",
        "lateness",
        "--cell",
        cell,
        "--to-us",
        "4",
        "--format",
        "svg",
        "--output",
        folder.path(),
    ];
    assert_code(&run(&short), 0);
    let svg = fs::read_to_string(folder.0.join("lateness-0001.svg")).unwrap();
    assert!(svg.contains(">above</text>"), "what lies above is not dropped: {svg}");
}

#[test]
fn what_cannot_be_drawn_is_said_in_one_line() {
    let folder = Folder::new("plot-refused");
    let path = made(&folder);
    assert_refused(&["plot", &path, "--cell", "nope"], 2, &["no cell 'nope'", "policy=other,rate=2000,size=1000"]);
    assert_refused(&["plot", &path, "--figure", "size"], 2, &["figure 'size' cannot be drawn"]);
    assert_refused(&["plot", &path, "--figure", "heat", "--tag", "nonsense"], 2, &["interval logs"]);
    assert_refused(&["plot", &path, "--from-us", "10", "--to-us", "5"], 2, &["--from-us"]);
    assert_refused(&["plot", folder.path()], 2, &["is no run directory"]);
    // A log cut off in the middle: a warning that names file and line, and the pictures.
    let log = format!("{path}/cells/0001.hlog");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, &text[..text.len() - 40]).unwrap();
    let output = run(&["plot", &path, "--figure", "lateness"]);
    assert_code(&output, 0);
    let warning = format!("0001.hlog: line {} is damaged", text.lines().count());
    assert!(stderr(&output).contains(&warning), "{}", stderr(&output));
    assert!(fs::exists(format!("{path}/plots/lateness-0001.png")).unwrap());
    assert!(fs::exists(format!("{path}/plots/lateness-0002.png")).unwrap());
    // A run of a newer format.
    let file = format!("{path}/run.json");
    let newer = fs::read_to_string(&file).unwrap().replacen("\"format\": 1", "\"format\": 99", 1).replacen(
        "\"format\":1",
        "\"format\":99",
        1,
    );
    fs::write(&file, newer).unwrap();
    assert_refused(&["plot", &path], 2, &["run.json", "99"]);
}
