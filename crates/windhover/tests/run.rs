//! `windhover run` as a person types it: what the program gets, what comes back, what happens to running tasks.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn windhover(line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windhover"));
    command.arg("run").args(line).stdin(Stdio::null());
    command
}

fn run(line: &[&str]) -> Output {
    windhover(line).output().unwrap()
}

fn code(line: &[&str]) -> Option<i32> {
    run(line).status.code()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complained(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether FIFO is allowed here at all.
fn real_time(test: &str) -> bool {
    let allowed = code(&["-s", "fifo", "true"]) == Some(0);
    if !allowed {
        eprintln!("SKIPPED {test}: real-time policies are not permitted");
    }
    allowed
}

#[test]
fn the_programs_status_comes_through() {
    assert_eq!(code(&["true"]), Some(0));
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["--report", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["--report", "sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["/nonexistent/program"]), Some(127));
    assert_eq!(code(&["--report", "/nonexistent/program"]), Some(127));
    assert_eq!(code(&["--mlock", "/nonexistent/program"]), Some(127));
    assert_eq!(code(&["/etc/passwd"]), Some(126));
    for wrong in [&["-P", "5", "true"][..], &["--no-such-flag", "true"], &["-b", "8000", "true"], &[]] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(125), "{wrong:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{wrong:?}");
    }
}

#[test]
fn options_after_the_program_are_its_own() {
    assert_eq!(said(&run(&["echo", "-s", "fifo", "--help"])), "-s fifo --help\n");
    assert_eq!(said(&run(&["--", "echo", "-b"])), "-b\n");
}

#[test]
fn the_program_gets_the_cpus_slack_and_nice_value() {
    let allowed = said(&run(&[
        "-b",
        "boot",
        "--timer-slack",
        "1000",
        "-q",
        "5",
        "sh",
        "-c",
        "grep Cpus_allowed_list /proc/self/status; nice; cat /proc/$$/timerslack_ns",
    ]));
    let words: Vec<_> = allowed.split_ascii_whitespace().collect();
    assert_eq!(words, ["Cpus_allowed_list:", "0", "5", "1000"]);
}

#[test]
fn a_real_time_program_has_a_limit_and_its_children_do_not_inherit() {
    if !real_time("a_real_time_program_has_a_limit_and_its_children_do_not_inherit") {
        return;
    }
    let script = "ulimit -R 2>/dev/null; awk '{print $41}' /proc/$$/stat; awk '/realtime timeout/{print $4}' /proc/$$/limits; \
                  sh -c 'awk \"{print \\$41}\" /proc/$$/stat'; true";
    let lines = |line: &[&str]| {
        let text = said(&run(&[line, &["bash", "-c", script]].concat()));
        text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let own = lines(&["-s", "fifo", "-P", "2"]);
    let tail: Vec<_> = own.iter().rev().take(3).rev().cloned().collect();
    assert_eq!(tail, ["1", "10000000", "0"], "{own:?}");
    let inherits = lines(&["-s", "rr", "--inherit-policy", "--rt-limit", "none"]);
    let tail: Vec<_> = inherits.iter().rev().take(3).rev().cloned().collect();
    assert_eq!(tail, ["2", "unlimited", "2"], "{inherits:?}");
    // One that never sleeps is ended by its limit, and the report says so.
    let output = run(&["-s", "fifo", "--rt-limit", "0.2", "--report", "sh", "-c", "while :; do :; done"]);
    assert_eq!(output.status.code(), Some(128 + 24));
    assert!(complained(&output).contains("--rt-limit"), "{}", complained(&output));
}

#[test]
fn copies_and_their_report() {
    let output = run(&["-c", "3", "--report", "sh", "-c", "echo x; sleep 0.01"]);
    assert_eq!(said(&output), "x\nx\nx\n");
    let report = complained(&output);
    for word in ["context switches", "page faults", "run-queue wait", "throttling", "migrations"] {
        assert_eq!(report.matches(word).count(), 3, "{word}: {report}");
    }
}

#[test]
fn the_programs_memory_is_locked() {
    let output = run(&["--mlock", "--prefault-stack", "512", "sh", "-c", "grep -E 'VmLck|VmStk' /proc/$$/status"]);
    if output.status.code() == Some(125) {
        eprintln!("SKIPPED the_programs_memory_is_locked: {}", complained(&output).trim());
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", complained(&output));
    let kib: Vec<u64> =
        said(&output).lines().filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()).collect();
    assert!(kib[0] > 0, "locked: {kib:?}");
    assert!(kib[1] >= 512, "stack: {kib:?}");
}

#[test]
fn running_tasks_are_shown_and_changed() {
    let mut sleeper = Command::new("sleep").arg("30").stdin(Stdio::null()).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let shown = run(&["--info", "-p", &pid]);
    let changed = run(&["-s", "batch", "-b", "0", "-p", &pid, "-i", "--json"]);
    let gone = run(&["-s", "batch", "--tid", "999999999"]);
    let by_name = run(&["-i", "-n", "sleep"]);
    let all = run(&["-a", "-i"]);
    let all_changed = run(&["-a", "-s", "batch"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(shown.status.code(), Some(0), "{}", complained(&shown));
    assert!(said(&shown).contains("other") && said(&shown).contains(&pid), "{}", said(&shown));
    assert_eq!(changed.status.code(), Some(0), "{}", complained(&changed));
    let document: serde_json::Value = serde_json::from_str(&said(&changed)).unwrap();
    assert_eq!(document["tasks"][0]["policy"], "batch");
    assert_eq!(gone.status.code(), Some(1));
    assert!(complained(&gone).contains("no thread 999999999"), "{}", complained(&gone));
    assert!(said(&by_name).contains(&pid));
    assert!(said(&all).contains(&pid));
    assert_eq!(all_changed.status.code(), Some(2));
}

#[test]
fn signals_reach_a_supervised_program() {
    let mut child =
        windhover(&["--report", "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if std::time::Instant::now() > end => {
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert_eq!(status.code(), Some(9));
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let missing = run(&["-p", "4194303", "--info"]);
    assert_eq!(missing.status.code(), Some(1));
    let words = complained(&missing);
    assert!(words.lines().count() == 1 && words.contains("there is no") && words.contains("4194303"), "{words}");
}
