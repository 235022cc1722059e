//! Coordinated omission: who is stopped for 100 ms shows in the figures that a user of it would have felt, and only there.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use support::{AT_ONCE, Folder, Server, assert_code, assert_measured, documents, windhover};

/// How long a process is stopped. A busy machine holds nobody up for so long, and the far socket has room for what comes
/// meanwhile.
const STOP: Duration = Duration::from_millis(400);
/// How long a closed loop measures after the stop.
const MORE: Duration = Duration::from_secs(3);
/// A message that waited so long was held up by the stop, ns.
const HELD_UP: i64 = 200_000_000;
/// Messages a second of the open loop.
const RATE: usize = 400;
/// Messages of the open loop.
const COUNT: usize = 1200;
/// Messages that are due in a stop and have to wait for at least [`HELD_UP`] until its end.
const DUE: usize = 80;

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn stop_for(time: Duration, pid: u32) {
    signal("-STOP", pid);
    // A thread that waits for a CPU stops when it gets one.
    let runs = |task: &Path| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('T'))
    };
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    while tasks().any(|task| runs(&task)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(time);
    signal("-CONT", pid);
}

fn stop_for_a_while(pid: u32) {
    stop_for(STOP, pid);
}

/// A message of the open loop: times in ns since the first one was sent.
#[derive(Debug, Clone, Copy)]
struct Row {
    intended: i64,
    sent: i64,
    rtt: i64,
}

impl Row {
    fn since_intended(&self) -> i64 {
        self.received() - self.intended
    }

    fn received(&self) -> i64 {
        self.sent + self.rtt
    }
}

fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<i64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
            let [intended, sent, rtt] = fields[..] else { panic!("{line}") };
            Row { intended, sent, rtt }
        })
        .collect()
}

/// The longest time in which none of these happened: where the stop is seen.
fn longest_gap(times: impl Iterator<Item = i64>) -> (i64, i64) {
    let mut times: Vec<i64> = times.collect();
    times.sort_unstable();
    let gaps = times.windows(2).map(|pair| (pair[0], pair[1]));
    gaps.max_by_key(|(begin, end)| end - begin).unwrap()
}

fn median(values: impl Iterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// The messages that were due in a gap and at least [`HELD_UP`] before its end.
fn due_in(rows: &[Row], (begin, end): (i64, i64)) -> Vec<Row> {
    let due: Vec<Row> =
        rows.iter().filter(|row| row.intended > begin && row.intended <= end - HELD_UP).copied().collect();
    assert!(end - begin >= i64::try_from(STOP.as_nanos()).unwrap(), "no stop is seen: {begin} to {end}");
    assert!(due.len() >= DUE - 1, "{} due from {begin} to {end}", due.len());
    due
}

fn initiator(arguments: &[&str]) -> Command {
    let mut command = windhover(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// An open loop in which somebody is stopped once it is under way.
fn open_loop(name: &str, server: &Server, stopped: impl Fn(&Child)) -> (Vec<Row>, serde_json::Value) {
    let folder = Folder::new(name);
    let prefix = folder.0.join("x");
    let (rate, count) = (RATE.to_string(), COUNT.to_string());
    let mut child = initiator(&[
        "pace",
        "udp",
        &server.address,
        "--rate",
        &rate,
        "--count",
        &count,
        "--warmup",
        "20",
        "--raw",
        prefix.to_str().unwrap(),
        "--jsonl",
    ])
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // It is under way once it has told some intervals.
    for _ in 0..4 {
        assert!(lines.next().unwrap().contains("\"interval\""));
    }
    stopped(&child);
    let last = lines.last().unwrap();
    let document: serde_json::Value = serde_json::from_str(&last).unwrap();
    let output = Output { status: child.wait().unwrap(), stdout: last.into_bytes(), stderr: Vec::new() };
    assert_measured(&output);
    let rows = rows(&folder.0.join(format!("x-32-{RATE}.dat")));
    assert_eq!(rows.len(), COUNT, "no message of the schedule is left out");
    let each = 1_000_000_000 / RATE;
    for (number, row) in rows.iter().enumerate() {
        // A tick of the clock is what a time can be told to.
        let due = i64::try_from(number * each).unwrap();
        assert!(
            (row.intended - rows[0].intended - due).abs() <= 100,
            "{number}: the schedule waits for nobody: {row:?}"
        );
    }
    // The figures are those of these messages; the histogram's largest value is exact.
    let largest = |what: &str, ns: &dyn Fn(&Row) -> i64| {
        let told = document[what]["max_ns"].as_i64().unwrap();
        let found = rows.iter().map(ns).max().unwrap();
        assert!((told - found).abs() <= 100, "{what}: {told} told, {found} found: {document}");
    };
    largest("latency", &|row| row.rtt);
    largest("latency_intended", &Row::since_intended);
    largest("lateness", &|row| row.sent - row.intended);
    (rows, document)
}

#[test]
fn a_stopped_sender_shows_only_from_the_intended_time() {
    let server = Server::start(&[]);
    let (rows, document) = open_loop("omission-sender", &server, |child| stop_for_a_while(child.id()));
    let due = due_in(&rows, longest_gap(rows.iter().map(|row| row.sent)));
    assert!(due.iter().all(|row| row.since_intended() >= HELD_UP), "{due:?}");
    assert!(median(due.iter().map(|row| row.rtt)) < HELD_UP / 2, "sent after the stop, answered at once: {due:?}");
    let rate = &document["rate"];
    let behind = u64::try_from(DUE).unwrap() - 1;
    assert!(rate["behind"].as_u64() >= Some(behind) && rate["most_behind"].as_u64() >= Some(behind), "{document}");
    // The schedule was caught up with.
    assert_eq!(document["messages"]["sent"], COUNT, "{document}");
    // The interval log has it in the intervals of the intended times.
    let series = document["series"].as_array().unwrap();
    let lateness = series.iter().find(|series| series["quantity"] == "lateness_p99_ns").unwrap();
    let late = lateness["values"].as_array().unwrap().iter().filter(|ns| ns.as_f64() >= Some(HELD_UP as f64)).count();
    assert!(late >= 2, "200 ms are in two intervals at least: {lateness}");
}

#[test]
fn a_stopped_reflector_shows_in_both_in_an_open_loop() {
    let server = Server::start(&[]);
    let (rows, document) = open_loop("omission-reflector", &server, |_| stop_for_a_while(server.id()));
    let due = due_in(&rows, longest_gap(rows.iter().map(Row::received)));
    assert!(due.iter().all(|row| row.since_intended() >= HELD_UP), "{due:?}");
    assert!(median(due.iter().map(|row| row.sent - row.intended)) < HELD_UP / 2, "the sender went on: {due:?}");
    assert!(median(due.iter().map(|row| row.rtt)) >= HELD_UP, "{due:?}");
    assert!(document["lateness"]["p90_ns"].as_i64().unwrap() < HELD_UP, "{document}");
}

#[test]
fn a_closed_loop_sees_a_stopped_reflector_once() {
    let server = Server::start(&[]);
    let folder = Folder::new("omission-closed");
    let prefix = folder.0.join("x");
    let raw = prefix.to_str().unwrap();
    // It measures until it is told to end, so that no wait of this test for a CPU puts the stop behind its end.
    let measure = ["pingpong", "udp", &server.address, "--seconds", "60", "--rtt", "--raw", raw];
    let child = server.measured_by(initiator(&[&measure[..], &AT_ONCE, &["--format", "json"]].concat()));
    stop_for_a_while(server.id());
    std::thread::sleep(MORE);
    signal("-INT", child.id());
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 130);
    let text = std::fs::read_to_string(folder.0.join("x-32.dat")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let rounds: Vec<(i64, i64)> = lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(sent, rtt)| (sent.parse().unwrap(), rtt.parse().unwrap()))
        .collect();
    let &(sent, rtt) = rounds.iter().max_by_key(|(_, rtt)| rtt).unwrap();
    let all = format!("{} rounds, sent up to {:?} ns", rounds.len(), rounds.last());
    assert!(rtt >= i64::try_from(STOP.as_nanos()).unwrap() * 9 / 10, "no round saw the stop: {rtt} at {sent} of {all}");
    let meanwhile = rounds.iter().filter(|(other, _)| (sent..sent + rtt).contains(other)).count();
    assert_eq!(meanwhile, 1, "nothing else is sent meanwhile");
    // The percentiles hide it: a tenth of more than 2000 rounds would take 20 ms only in 4 s and more of such rounds. An open loop
    // has a fiftieth of its messages due in the stop even if all took 20 s, and a hundredth waits for half of it.
    let document: serde_json::Value = documents(&output).remove(0);
    assert!(rounds.len() > 2000, "{document}");
    assert!(document["latency"]["p90_ns"].as_i64().unwrap() < HELD_UP / 10, "{document}");
    assert!(document["latency_corrected"]["p99_ns"].as_i64().unwrap() > HELD_UP, "{document}");
}

/// How long a reflector stands still again and again.
const STALL: Duration = Duration::from_millis(100);

#[test]
fn a_closed_loop_names_the_stalls_that_its_percentiles_hide() {
    for probe in ["pingpong", "rr"] {
        let server = Server::start(&[]);
        let mut child =
            initiator(&[probe, "udp", &server.address, "--seconds", "2", "--warmup", "20", "--format", "json"])
                .spawn()
                .unwrap();
        // A fifth of the time, however long it takes to start.
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(4 * STALL);
            stop_for(STALL, server.id());
        }
        let output = child.wait_with_output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let measured_ns = document["latency"]["p99_ns"].as_i64().unwrap();
        let open_ns = document["latency_corrected"]["p99_ns"].as_i64().unwrap();
        assert!(measured_ns < open_ns / 10, "{probe}: some messages in many thousands waited: {document}");
        assert!(open_ns > 25_000_000, "{probe}: one in a hundred would have waited (RTT/2 or RTT): {document}");
        let found = document["verdict"]["disturbed"].as_array().unwrap();
        let finding = found.iter().find(|finding| finding["id"] == "long-stalls");
        let detail = finding.map(|finding| finding["detail"].as_str().unwrap().to_owned()).unwrap_or_default();
        assert!(detail.contains("an open loop would have"), "{probe}: {document}");
    }
}
