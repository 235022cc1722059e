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
    let listed = stdout(&run(&["plot", &path, "--list", "--all"]));
    let figures = listed.split("\n\n").next().unwrap();
    let is_name =
        |name: &&str| name.starts_with(|letter: char| letter.is_ascii_lowercase()) && name.contains(['-', 's']);
    let lines = figures.lines().skip(2).filter(|line| !line.starts_with(' '));
    let names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).filter(is_name).collect();
    for name in ["cells-rtt", "heat-0001-rtt", "heat-0002-rtt", "heat-2011-0001-rtt", "lateness-0002", "difference-rtt"]
    {
        assert!(names.contains(&name), "{name}: {listed}");
    }
    assert!(!fs::exists(format!("{path}/plots")).unwrap(), "a list writes nothing");
    for (format, mark) in [("png", b"\x89PNG".as_slice()), ("svg", b"<svg"), ("pdf", b"%PDF-"), ("csv", b"")] {
        let output = run(&["plot", &path, "--all", "--format", format]);
        assert_code(&output, 0);
        for name in &names {
            let bytes = fs::read(format!("{path}/plots/{name}.{format}")).unwrap();
            assert!(bytes.starts_with(mark) && bytes.len() > 60, "{name}.{format}");
            assert!(stderr(&output).contains(&format!("{name}.{format}")), "{}", stderr(&output));
        }
    }
    // Text of a PDF can be searched: each letter has its place in a table.
    let pdf = fs::read(format!("{path}/plots/heat-0001-rtt.pdf")).unwrap();
    for word in ["/ToUnicode", "/FontFile2", "/Roboto-Bold", "/Indexed"] {
        assert!(pdf.windows(word.len()).any(|bytes| bytes == word.as_bytes()), "{word}");
    }
    // Once more gives the same bytes.
    let before = fs::read(format!("{path}/plots/heat-0001-rtt.svg")).unwrap();
    assert_code(&run(&["--quiet", "plot", &path, "--format", "svg", "--figure", "heat"]), 0);
    assert_eq!(fs::read(format!("{path}/plots/heat-0001-rtt.svg")).unwrap(), before);
    let html = fs::read_to_string(format!("{path}/plots/heat-0001-rtt.svg")).unwrap();
    assert!(html.contains("8 lost"), "each 500th of 4000 messages is lost");
}

#[test]
fn without_a_wish_it_draws_what_answers_most_questions() {
    let folder = Folder::new("plot-usual");
    let path = made(&folder);
    let names = |arguments: &[&str]| -> Vec<String> {
        let output = run(&[&["plot", &path], arguments].concat());
        assert_code(&output, 0);
        let mut names: Vec<String> = fs::read_dir(format!("{path}/plots"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        fs::remove_dir_all(format!("{path}/plots")).unwrap();
        names.sort();
        names
    };
    let (usual, all) = (names(&[]), names(&["--all"]));
    assert!(
        usual.contains(&"heat-0001-rtt.png".to_owned()) && usual.contains(&"cells-rtt.png".to_owned()),
        "{usual:?}"
    );
    assert!(!usual.iter().any(|name| name.contains("2011") || name.contains("ecdf")), "{usual:?}");
    assert!(usual.iter().all(|name| all.contains(name)) && all.len() > usual.len() + 4, "{usual:?} {all:?}");
    // A cell by its number, and by a word of its key.
    for cell in ["1", "fifo:50", "policy=fifo:50"] {
        assert_eq!(names(&["--figure", "heat", "--cell", cell]), ["heat-0001-rtt.png"], "{cell}");
    }
    assert_eq!(names(&["--figure", "heat", "--cell", "2", "--repetition", "1"]), ["heat-0002-r1-rtt.png"]);
}

#[test]
fn figures_have_the_numbers_of_their_cells() {
    let folder = Folder::new("plot-numbers");
    let path = made(&folder);
    let listed = stdout(&run(&["plot", &path, "--list", "--figure", "heat"]));
    // `heat-0001-rtt  … · fifo:50 · …` and `1  policy=fifo:50,…`: the order of keys, not that of measuring.
    for (number, policy) in [("1", "fifo:50"), ("2", "other")] {
        let line = |start: &str| listed.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
        assert!(line(&format!("heat-000{number}-rtt")).contains(policy), "{listed}");
        assert!(line(&format!("{number} ")).contains(&format!("policy={policy}")), "{listed}");
    }
}

#[test]
fn all_figures_have_the_maps_from_the_intended_send() {
    let folder = Folder::new("plot-intended");
    let path = made(&folder);
    let listed = stdout(&run(&["plot", &path, "--list", "--all"]));
    for name in ["heat-0001-rtt-intended", "heat-0002-rtt-intended"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    let wrong = ["plot", &path, "--figure", "heat", "--tag", "intended"];
    assert_refused(&wrong, 2, &["the tag 'intended'", "lateness, rtt and rtt_intended"]);
}

#[test]
fn a_difference_is_of_the_same_messages() {
    let rule = |seq: u64, _: u64| Message { lateness_ns: 4_000, rtt_ns: Some(about(12_000, seq)) };
    let cells = [("fifo:50", 500), ("fifo:50", 2_000), ("other", 2_000)]
        .map(|(policy, rate)| files(&Cell { policy, rate, seconds: 1, events: Vec::new(), rule: &rule }));
    let folder = Folder::new("plot-difference");
    let path = synthetic::run(folder.0.as_path(), "plots", &cells).to_str().unwrap().to_owned();
    let heading = |arguments: &[&str]| {
        let output = run(&[&["plot", &path, "--list", "--figure", "difference"], arguments].concat());
        assert_code(&output, 0);
        let words = stdout(&output).split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        (words, stderr(&output))
    };
    let (words, notes) = heading(&[]);
    assert!(words.contains("fifo:50 against policy other ·"), "{words}");
    assert_eq!(notes, "");
    // Nothing has the rate of the first: that is said, and what is named is drawn with a warning.
    let alone = ["plot", &path, "--figure", "difference", "--cell", "rate=500"];
    assert_refused(&alone, 2, &["same probe, protocol, size and rate", "--against"]);
    let (words, notes) = heading(&["--cell", "rate=500", "--against", "policy=other"]);
    assert!(words.contains("fifo:50 · 500/s against policy other · 2,000/s"), "{words}");
    assert!(notes.contains("different messages, as asked for: 500 and 2000"), "{notes}");
}

/// `--against` is plot's own flag here. The one of the probes took it where clap is built without debug assertions, as in a
/// release: nothing was written, with 0.
#[test]
fn a_difference_of_named_cells_is_written() {
    let folder = Folder::new("plot-against");
    let path = made(&folder);
    let file = folder.0.join("d.png").to_str().unwrap().to_owned();
    let output = run(&["plot", &path, "--figure", "difference", "--cell", "1", "--against", "2", "-o", &file]);
    assert_code(&output, 0);
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"), "{}", stderr(&output));
    let missing = folder.0.join("nothing").to_str().unwrap().to_owned();
    assert_refused(&["plot", &missing, "--cell", "1", "--against", "2"], 2, &["is no run directory"]);
}

#[test]
fn a_report_of_several_runs_overwrites_that_of_none() {
    let folder = Folder::new("report-two");
    let path = made(&folder);
    assert_code(&run(&["report", &path]), 0);
    let page = format!("{path}/report.html");
    let own = fs::read(&page).unwrap();
    assert_code(&run(&["report", &path]), 0);
    assert_refused(&["report", &path, &path], 2, &["report.html exists", "--output", "--force"]);
    assert_eq!(fs::read(&page).unwrap(), own);
    assert_code(&run(&["report", &path, &path, "--force"]), 0);
    // A place that cannot be written: another one is named by --output.
    let nowhere = folder.0.join("none/report.html").to_str().unwrap().to_owned();
    assert_refused(&["report", &path, "-o", &nowhere], 1, &["cannot write", "none/report.html", "--output"]);
    // What is damaged is said by the command too, not only within its page.
    let log = format!("{path}/cells/0001.hlog");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, &text[..text.len() - 40]).unwrap();
    let output = run(&["report", &path]);
    assert_code(&output, 0);
    assert!(stderr(&output).contains("0001.hlog: line"), "{}", stderr(&output));
    assert_refused(&["campaign", "list", folder.0.join("missing").to_str().unwrap()], 2, &["missing", "no folder"]);
}

#[test]
fn the_ending_of_a_report_is_its_form() {
    let folder = Folder::new("report-endings");
    let path = made(&folder);
    let file = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    for (name, start) in [
        ("x.html", "<!DOCTYPE html>"),
        ("x.md", "# synthetic"),
        ("x.csv", "run,step,cell,repetition,"),
        ("x.json", "["),
        ("x.txt", "synthetic\n"),
    ] {
        assert_code(&run(&["report", &path, "-o", &file(name)]), 0);
        let text = fs::read_to_string(file(name)).unwrap();
        assert!(text.to_lowercase().starts_with(&start.to_lowercase()), "{name}: {}", &text[..text.len().min(80)]);
    }
    let picture = file("x.jpg");
    assert_refused(&["report", &path, "-o", &picture], 2, &["x.jpg", ".html, .md, .csv, .json, .txt", "--format"]);
    assert!(!fs::exists(&picture).unwrap());
    // A form that is named needs no ending.
    assert_code(&run(&["report", &path, "-o", &picture, "--format", "markdown"]), 0);
    assert!(fs::read_to_string(&picture).unwrap().starts_with("# synthetic"));
}

#[test]
fn a_size_that_was_not_measured_is_refused() {
    let folder = Folder::new("report-size");
    let path = made(&folder);
    assert_refused(&["report", &path, "--size", "64", "--format", "table"], 2, &["--size 64", "name one of 1000"]);
    assert_code(&run(&["report", &path, "--size", "1000", "--format", "table"]), 0);
}

#[test]
fn all_cells_stand_under_headings_of_their_own() {
    let folder = Folder::new("show-cells");
    let path = made(&folder);
    let text = stdout(&run(&["show", "--cells", &path]));
    let cells = text.split("\npace udp · ").collect::<Vec<_>>();
    assert_eq!(cells.len(), 3, "{text}");
    assert!(cells[1].contains("other") && cells[2].contains("fifo:50") && !text.contains("sizes, "), "{text}");
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
    assert_refused(&both, 2, &["2 figures do not fit into", "--figure"]);
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
    let svg = fs::read_to_string(folder.0.join("lateness-0002.svg")).unwrap();
    assert!(svg.contains(">above</text>"), "what lies above is not dropped: {svg}");
}

/// A figure has a name in `--list`, and `--figure` takes it.
#[test]
fn a_figure_is_chosen_by_its_name() {
    let folder = Folder::new("plot-name");
    let path = made(&folder);
    let listed = stdout(&run(&["plot", &path, "--list"]));
    for name in ["heat-0002-rtt", "lateness-0001", "difference-rtt"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    let (figures, cells) = listed.split_once("\n\n").unwrap();
    assert!(!cells.contains("\n\n") && cells.lines().nth(1).unwrap().contains("---"), "{listed}");
    let file = folder.0.join("one.pdf").to_str().unwrap().to_owned();
    for name in figures.lines().skip(2).filter_map(|line| line.split("  ").next()).filter(|name| !name.is_empty()) {
        assert_code(&run(&["plot", &path, "--figure", name, "-o", &file, "--force"]), 0);
        assert!(fs::read(&file).unwrap().starts_with(b"%PDF-"), "{name}");
    }
    // Charts have names, too.
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/one");
    let listed = stdout(&run(&["plot", golden, "--list"]));
    for name in ["heat-0001-rtt", "percentiles-2", "ecdf-1"] {
        assert!(listed.lines().any(|line| line.split("  ").next() == Some(name)), "{name}: {listed}");
        assert_code(&run(&["plot", golden, "--figure", name, "-o", &file, "--force"]), 0);
    }
    let several = ["plot", &path, "--figure", "heat", "-o", &file, "--force"];
    assert_refused(&several, 2, &["2 figures do not fit", "--figure: heat-0001-rtt, heat-0002-rtt"]);
    assert_refused(&["plot", &path, "--figure", "heat-0009-rtt"], 2, &["no figure 'heat-0009-rtt'", "heat-0001-rtt"]);
    let wrong = run(&["plot", &path, "--figure", "haet"]);
    assert_code(&wrong, 2);
    assert!(stderr(&wrong).contains("use heat, heat-2011") && stderr(&wrong).contains("'heat'?"), "{}", stderr(&wrong));
}

/// A folder of runs is no run; the command that lists them is named with it.
#[test]
fn the_folder_of_runs_is_named() {
    let folder = Folder::new("plot-folder");
    let made = std::path::PathBuf::from(made(&folder));
    let holder = made.parent().unwrap().to_str().unwrap();
    let list = format!("'windhover campaign list {holder}' shows");
    let missing = format!("{holder}/nothing");
    for path in [holder, &missing] {
        for arguments in
            [&["show", path][..], &["report", path], &["plot", path], &["compare", path, "--axis", "policy"]]
        {
            assert_refused(arguments, 2, &["is no run directory", &list]);
        }
    }
}

#[test]
fn title_size_and_font_are_set() {
    let folder = Folder::new("plot-title");
    let path = made(&folder);
    let file = folder.0.join("one.svg").to_str().unwrap().to_owned();
    let own = "all cells on one scale</text>";
    let one = ["plot", &path, "--figure", "cells", "-o", &file, "--force"];
    assert_code(&run(&one), 0);
    let plain = fs::read_to_string(&file).unwrap();
    assert!(plain.contains(own), "{plain}");
    let font = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/fonts/Roboto-Bold.ttf");
    let titled = [one.as_slice(), &["--title", "Our <two> hosts", "--size", "2", "--font", font]].concat();
    assert_code(&run(&titled), 0);
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.contains(">Our &lt;two&gt; hosts</text>") && !svg.contains(own), "{svg}");
    let wide = |svg: &str| -> f64 {
        let (_, rest) = svg.split_once(" width=\"").unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    assert!((wide(&svg) - 2.0 * wide(&plain)).abs() < 0.2, "{} {}", wide(&svg), wide(&plain));
    let no_font = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_refused(&["plot", &path, "--font", no_font], 2, &["--font", "no TrueType or OpenType font"]);
    let huge = run(&["plot", &path, "--size", "99"]);
    assert_code(&huge, 2);
    assert!(stderr(&huge).contains("between 0.25 and 8"), "{}", stderr(&huge));
}

#[test]
fn what_cannot_be_drawn_is_said_in_one_line() {
    let folder = Folder::new("plot-refused");
    let path = made(&folder);
    assert_refused(&["plot", &path, "--cell", "nope"], 2, &["no cell 'nope'", "all 2", "--list"]);
    assert_refused(&["plot", &path, "--cell", "2000"], 2, &["'2000' is in the keys of 2 cells", "--list"]);
    let picture = folder.0.join("x.jpg").to_str().unwrap().to_owned();
    assert_refused(&["plot", &path, "-o", &picture], 2, &["x.jpg", ".png, .svg, .pdf and .csv"]);
    assert!(!fs::exists(&picture).unwrap(), "no folder of this name");
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
