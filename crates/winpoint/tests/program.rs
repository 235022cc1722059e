//! The program itself, as its caller sees it.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use model::{Limits, ResultDocument};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::{Command, Output};
use winpoint::Server;
use winpoint::platform::Placement;

fn winpoint(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_winpoint")).args(arguments).output().unwrap()
}

#[test]
fn a_figure_that_cannot_be_trusted_ends_with_4() {
    // A script that takes the figures of a late sender for good ones.
    let limits = Limits { max_rate_pps: 100_000_000, ..Limits::default() };
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), None, &limits, Placement::default()).unwrap();
    let to = server.local_address().unwrap().to_string();
    std::thread::spawn(move || server.serve());
    // No sender gives a message to the system each 10 ns.
    let late = [
        "pace",
        "udp",
        &to,
        "--rate",
        "100000000",
        "--seconds",
        "0.001",
        "--warmup",
        "0.001",
        "--timeout",
        "100",
        "--json",
    ];
    let rounds = ["pingpong", "udp", &to, "--count", "100", "--json"];
    for (line, must_be_late) in [(&late[..], true), (&rounds, false)] {
        let output = winpoint(line);
        let said = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        let results: Vec<ResultDocument> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(results.len(), 1, "{said}");
        let verdict = &results[0].verdict;
        let is_late = verdict.invalid.iter().any(|finding| finding.id == model::FindingId::GeneratorLate);
        assert!(is_late || !must_be_late, "{verdict:?}");
        // A busy machine may spoil the rounds too, and then the code must say so.
        assert_eq!(output.status.code(), Some(if verdict.invalid.is_empty() { 0 } else { 4 }), "{verdict:?}");
    }
}

#[test]
fn a_run_that_cannot_be_written_is_refused_before_the_first_message() {
    // Minutes of measuring whose figures are thrown away for a wrong name.
    let nobody_calls = TcpListener::bind("127.0.0.1:0").unwrap();
    nobody_calls.set_nonblocking(true).unwrap();
    let to = nobody_calls.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let (good, file) = (folder.path().join("results"), folder.path().join("file"));
    std::fs::write(&file, "").unwrap();
    let (good, below_file) = (good.display().to_string(), file.join("results").display().to_string());
    for (output, name, code, word) in [(&good, "../run", 2, "../run"), (&below_file, "run", 1, "file")] {
        let ended = winpoint(&["pingpong", "udp", &to, "--output", output, "--name", name]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains(word), "{said}");
        assert_eq!(ended.status.code(), Some(code), "{said}");
        assert_eq!(nobody_calls.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn trying_the_folder_leaves_no_run_behind() {
    // A run directory without a run, which `campaign list` shows, for a reflector that nobody started.
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let ended = winpoint(&["pingpong", "udp", &free, "--output", &folder.path().display().to_string()]);
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
