//! `--against`: two settings measured in turn, end to end over loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Output, Stdio};
use std::time::Duration;
use support::{assert_code, assert_refused, ended, stderr, stdout, until, windhover};

fn run(arguments: &[&str]) -> Output {
    windhover(arguments).output().unwrap()
}

/// The same with more time where a busy machine cannot measure enough repetitions in it.
fn run_in_time(arguments: &[&str]) -> Output {
    for at_most in ["3s", "15s"] {
        let output = run(&[arguments, &["--at-most", at_most]].concat());
        let is_planned = output.status.code() != Some(2) || !stderr(&output).contains("--at-most is too short");
        let is_reached = output.status.code() != Some(4) || !stdout(&output).contains("are too few, ");
        if is_planned && is_reached {
            return output;
        }
    }
    run(&[arguments, &["--at-most", "75s"]].concat())
}

/// A hundred times the bytes take longer, whatever else runs: the first line says so, and the document.
#[test]
fn a_real_difference_is_decided_and_said_first() {
    let typed = ["pingpong", "tcp", "--fork-both", "--size", "32", "--against", "--size 262144", "--at-most", "60s"];
    let output = run(&typed);
    assert_code(&output, 0);
    let text = stdout(&output);
    // The sentence wraps where the figures leave it.
    let first = text.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(first.contains("times higher (95 % ") && first.contains("with --size 262144 against"), "{text}");
    let table: Vec<&str> = text.lines().skip(1).collect();
    for words in ["p50", "jitter", "worst", "with --size 32 ", "with --size 262144 ", "ratio", "95 %"] {
        assert!(table.iter().any(|line| line.contains(words)), "no {words}:\n{text}");
    }
    let output = run(&[&typed[..], &["--json"]].concat());
    assert_code(&output, 0);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let comparison = &document["comparisons"][0];
    let figures = comparison["cells"][0]["metrics"].as_array().unwrap();
    let outcomes: Vec<&str> = figures.iter().map(|figure| figure["outcome"].as_str().unwrap()).collect();
    // On a busy machine jitter may be decided before p50 is: the first figure that is decided ends it.
    assert!(outcomes.contains(&"higher") && !outcomes.contains(&"lower"), "{document:#}");
    let p50 = &figures[0];
    assert!(p50["metric"] == "p50" && p50["ratio"].as_f64().unwrap() > 3.0, "{p50:#}");
    assert_eq!((comparison["interleaved"].as_bool(), comparison["sample"].as_str()), (Some(true), Some("repetition")));
    let level = document["level"].as_f64().unwrap();
    assert!(level < 0.05, "the level of one look of several: {level}");
    // It ended when the answer was known, with as many repetitions on both sides.
    let sides = ["a_values", "b_values"].map(|side| p50[side].as_array().unwrap().len());
    assert!(sides[0] == sides[1] && sides[0] < 21, "{sides:?}");
}

/// One in 20 such comparisons may claim something by chance; three in a row are one in 8000.
#[test]
fn a_setting_against_itself_is_no_difference() {
    let mut last = String::new();
    for _ in 0..3 {
        let output = run_in_time(&["pingpong", "udp", "--fork-both", "--against", "--size 32"]);
        last = stdout(&output) + &stderr(&output);
        if last.starts_with("No difference seen") {
            return assert_code(&output, 0);
        }
    }
    panic!("{last}");
}

#[test]
fn every_probe_can_be_compared() {
    for typed in [
        &["pingpong", "udp", "--fork-both"][..],
        &["rr", "tcp", "--fork-both"],
        &["ping", "127.0.0.1", "--interval", "0.001"],
        &["pace", "udp", "--fork-both", "--rate", "500"],
        &["stream", "tcp", "--fork-both"],
        &["wake", "--interval-us", "200"],
    ] {
        let output = run_in_time(&[typed, &["--against", ""]].concat());
        let text = stdout(&output);
        // What a busy machine spoils is said, and nothing is claimed of it.
        let code = if text.starts_with("Not decided: ") { 4 } else { 0 };
        assert_code(&output, code);
        let figure = if typed[0] == "stream" { "bits" } else { "p50" };
        assert!(text.contains(figure) && text.contains("the second time"), "{typed:?}\n{text}");
        // A ratio below "Not decided" would be read as the answer.
        assert_eq!(text.lines().any(|line| line.starts_with("ratio ")), code == 0, "{typed:?}\n{text}");
        let untrusted = text.split_once(" be trusted (").and_then(|(_, rest)| rest.split_once(')'));
        let found: Option<Vec<String>> =
            untrusted.map(|(words, _)| words.replace(" and ", ", ").split(", ").map(str::to_owned).collect());
        let is_busy = found.as_ref().is_some_and(|found| support::is_only_busy(found));
        assert!(code == 0 || is_busy || found.is_none() && text.contains("that can be trusted are too few"), "{text}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_at_once() {
    let udp = ["pingpong", "udp", "127.0.0.1:1"];
    for (more, words) in [
        (&["--against", "--size 1-64x2"][..], &["one size", "campaign"][..]),
        (&["--against", "--seconds 30"], &["--at-most", "--seconds"]),
        (&["--against", "--raw x"], &["--raw", "leave it out"]),
        (&["--against", "", "--format", "sfnt"], &["sfnt", "table"]),
        (&["--against", "--remote-policy 'fifo:1"], &["quote"]),
        (&["--against", "--format json"], &["--format is no setting", "outside of the quotes"]),
        (&["--against", "--worst 5"], &["--worst is no setting"]),
        (&["--against", "--help"], &["--help is no setting"]),
    ] {
        assert_refused(&[&udp[..], more].concat(), 2, words);
    }
    // Of wake, -h is another flag.
    assert_refused(&["wake", "--against", "-h400"], 2, &["--histogram is of one measurement"]);
    assert_refused(&["wake", "--against", "--help"], 2, &["--help is no setting"]);
    for (typed, words) in [(&udp[..], "--against '--policy"), (&["ping", "127.0.0.1"], "--against FLAGS")] {
        let alone = run(&[typed, &["--at-most", "3s"]].concat());
        assert_code(&alone, 2);
        let tip = stderr(&alone).lines().last().unwrap().to_owned();
        assert!(tip.starts_with("tip: for example: ") && tip.contains(words), "{tip}");
    }
    // One line, and the parser's tip.
    let output = run(&[&udp[..], &["--against", "--polcy x"]].concat());
    assert_code(&output, 2);
    let said = "--against '--polcy x': unknown flag '--polcy'; did you mean '--policy'?";
    assert!(stderr(&output).lines().next().unwrap().ends_with(said), "{}", stderr(&output));
    // Echoes have a distance, so their time is known.
    let echoes = ["ping", "127.0.0.1", "--against", "--size 1024", "--at-most", "6s"];
    assert_refused(&echoes, 2, &["8 repetitions of 1.9 s do not fit into --at-most 6 s", "--count"]);
    // What fails later names the side that fails.
    assert_refused(&["wake", "--at-most", "5s", "--against", "--cpu 4000"], 2, &["with --cpu 4000", "4000"]);
}

fn children(pid: u32) -> Vec<String> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// As soon as both sides were measured their figures are shown, but no ratio of so few.
#[test]
fn an_early_end_shows_the_figures_and_says_that_it_was_ended() {
    let mut command =
        windhover(&["pingpong", "udp", "--fork-both", "--seconds", "1", "--warmup", "0", "--against", "--size 64"]);
    let child = command.args(["--at-most", "10m"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    // Two endpoints, two measurements of a first repetition, and one of the second.
    until("three measurements", || {
        seen.extend(children(child.id()));
        seen.len() >= 5
    });
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = ended(child, Duration::from_secs(30));
    assert_code(&output, 130);
    let text = stdout(&output);
    assert!(text.starts_with("Not decided: "), "{text}{}", stderr(&output));
    assert!(text.contains("interrupted after ") || text.contains("can be trusted"), "{text}");
    assert!(text.contains("with --size 64") && text.contains("worst") && !text.contains("ratio"), "{text}");
    assert!(!text.contains("--at-most"), "{text}");
}

/// The Markdown is the same answer: the sentence, the table once, no heading.
#[test]
fn markdown_begins_with_the_answer() {
    let output = run_in_time(&["pingpong", "udp", "--fork-both", "--format", "markdown", "--against", "--size 1000"]);
    let text = stdout(&output);
    let first = text.lines().next().unwrap();
    assert!(["repetitions", "No difference seen", "Not decided: "].iter().any(|words| first.contains(words)), "{text}");
    assert!(!text.contains("\n#") && !first.starts_with('#'), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("| ---")).count(), 1, "{text}");
    assert!(text.contains("| with --size 1000 | "), "{text}");
}

/// What is known so far is printed, and no process stays.
#[test]
fn a_signal_ends_it_in_order() {
    let mut command =
        windhover(&["pingpong", "udp", "--fork-both", "--seconds", "0.1", "--warmup", "0", "--against", ""]);
    let child = command.args(["--at-most", "10m"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Two endpoints, and from time to time one that measures: a number that was not there before each time.
    let mut seen = std::collections::BTreeSet::new();
    until("twenty measurements", || {
        seen.extend(children(child.id()));
        seen.len() > 20
    });
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = ended(child, Duration::from_secs(30));
    assert_code(&output, 130);
    let text = stdout(&output);
    assert!(text.contains("repetitions") && text.contains("p50"), "{text}\n{}", stderr(&output));
    for pid in seen {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!line.contains("windhover"), "{pid} lives on: {line}");
    }
}
