//! Every output of stored runs of each probe, as it was: a change of structure must not change what users read. What changes
//! on purpose is looked at and accepted (`INSTA_UPDATE=always cargo test -p windhover --test golden`), and named by the commit.
//!
//! The runs: `one` has pingpong, rr and ping, `two` pace with kernel stamps, `three` streams both ways with a ping-pong beside,
//! `four` PGM with parity to one and two reflectors behind a path that drops 3 % of the packets.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use support::{Folder, stdout, windhover};

const RUNS: [&str; 4] = ["one", "two", "three", "four"];

fn stored(run: &str) -> String {
    format!("{}/tests/golden/{run}", env!("CARGO_MANIFEST_DIR"))
}

/// What a command prints, at a width that does not depend on the terminal; both streams, because remarks are results too.
fn printed(arguments: &[&str]) -> String {
    let output = windhover(arguments).env("COLUMNS", "120").output().unwrap();
    let remarks = String::from_utf8(output.stderr.clone()).unwrap();
    let code = output.status.code().unwrap();
    let said = format!("{}\n-- exit code {code}\n{remarks}", stdout(&output));
    said.replace(env!("CARGO_MANIFEST_DIR"), "").replace("\r\n", "\n")
}

/// A page without its tags, scripts and pictures: what a reader reads.
fn text_of(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        let hidden = ["script", "style", "svg"].into_iter().find(|name| tag.starts_with(name));
        let end = hidden.map_or_else(|| ">".to_owned(), |name| format!("</{name}>"));
        text.push('\n');
        rest = tag.split_once(&end).map_or("", |(_, after)| after);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // A path in a page has no plain slashes.
    lines.collect::<Vec<_>>().join("\n").replace("&#x2f;", "/")
}

#[test]
fn reports() {
    let folder = Folder::new("golden-reports");
    for run in RUNS {
        for form in ["table", "markdown", "csv", "csv-cells"] {
            insta::assert_snapshot!(
                format!("{run}-report-{form}"),
                printed(&["report", &stored(run), "--format", form])
            );
        }
        let page = folder.0.join(format!("{run}.html")).display().to_string();
        let output = windhover(&["report", &stored(run), "-o", &page]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        // A stream's map was compared with its datagrams, though it shows the ping-pong beside.
        let remarks = String::from_utf8(output.stderr).unwrap();
        assert!(!remarks.contains("warning"), "{remarks}");
        let page = text_of(&std::fs::read_to_string(&page).unwrap()).replace(env!("CARGO_MANIFEST_DIR"), "");
        insta::assert_snapshot!(format!("{run}-report-html"), page);
    }
}

#[test]
fn reports_of_several_runs() {
    let runs = RUNS.map(stored);
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    for form in ["table", "csv-cells"] {
        let arguments: Vec<&str> = ["report"].into_iter().chain(runs.clone()).chain(["--format", form]).collect();
        insta::assert_snapshot!(format!("all-report-{form}"), printed(&arguments));
    }
}

#[test]
fn shown() {
    for run in RUNS {
        insta::assert_snapshot!(format!("{run}-show"), printed(&["show", &stored(run)]));
        insta::assert_snapshot!(format!("{run}-show-cells"), printed(&["show", &stored(run), "--cells"]));
    }
}

#[test]
fn comparisons() {
    for (run, axis) in [("one", "policy"), ("two", "rate"), ("three", "protocol"), ("four", "reflectors")] {
        for form in ["text", "markdown", "csv", "json"] {
            let arguments = ["compare", &stored(run), "--axis", axis, "--format", form];
            insta::assert_snapshot!(format!("{run}-compare-{form}"), printed(&arguments));
        }
    }
}

#[test]
fn charts_as_tables() {
    for run in RUNS {
        insta::assert_snapshot!(format!("{run}-plot-list"), printed(&["plot", &stored(run), "--list", "--all"]));
    }
}
