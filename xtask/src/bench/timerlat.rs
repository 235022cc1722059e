//! The kernel's timerlat tracer beside `windhover wake --explain`: on this machine if its kernel has the tracer, else in a guest,
//! in simulated time.

use super::raw::quantile;
use crate::tests::guest::{PACKAGES, image::Root};
use crate::{packages, process};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("timerlat.sh");
/// Of Debian's kernels only those with PREEMPT_RT have the tracer.
const KERNEL: &str = "debian-6.12-rt";
const LOADS: [&str; 3] = ["none", "hog", "packets"];
/// CPU and real-time priority of both; the hog has 80.
const SETTINGS: [&str; 2] = ["0", "70"];
/// Noise of timerlat and the causes of the same time. NMIs are among the others.
const NOISE: [(&str, &[&str]); 3] = [
    ("irq_noise:", &["hardirq", "ipi"]),
    ("softirq_noise:", &["softirq", "softirq-deferred"]),
    ("thread_noise:", &["run-queue", "lower-task", "preempted", "fair-server", "idle-exit"]),
];
const WHY: &str = "\nBoth sleep 1 ms on CPU 0 with fifo:70, 0.44 s in turn. timerlat's irq latency ends where the handler of its timer begins, \
    `expiry` at the wake-up that the handler makes. timerlat writes its noise events before its thread runs, so they are in the thread \
    latency. Its thread stays in the kernel; `wake` returns to user space. With PREEMPT_RT timerlat reports softirqs as threads.\n";

/// Times of one sleep in µs.
#[derive(Default, Clone, Copy)]
struct WakeUp {
    timer: f64,
    all: f64,
    /// By [`NOISE`], and others.
    lost: [f64; NOISE.len() + 1],
}

pub(super) fn rows(binary: &Path, disturb: &Path, rounds: u32) -> Result<String> {
    let tracers = std::fs::read_to_string("/sys/kernel/tracing/available_tracers").unwrap_or_default();
    let is_here = tracers.split_whitespace().any(|tracer| tracer == "timerlat");
    let (mut command, times) =
        if is_here { (here(binary, disturb)?, "–") } else { (guest(binary, disturb)?, "simulated") };
    let rounds = rounds.to_string();
    command.args(["-c", SCRIPT, "sh", &rounds]).args(SETTINGS);
    let text = super::printed(command.stdin(Stdio::null()).stderr(Stdio::inherit()))?;
    let mut rows = String::new();
    for load in LOADS {
        let [timerlat, windhover] = measured(&text, load).with_context(|| load.to_owned())?;
        let mut add = |what: &str, of: &dyn Fn(&[WakeUp]) -> String| {
            let _ = writeln!(rows, "| {what}, load {load} | {} / {} | – | {times} |", of(&timerlat), of(&windhover));
        };
        let mut time = |what: &str, pick: fn(&WakeUp) -> f64| {
            let at = |all: &[WakeUp], share| quantile(super::column(all, pick), share);
            add(&format!("{what}, p50; p99, µs"), &|all| format!("{:.1}; {:.1}", at(all, 0.5), at(all, 0.99)));
        };
        time("timerlat irq / `expiry`", |one| one.timer);
        time("timerlat thread less irq / `near-wake-up` and `return`", |one| one.all - one.timer);
        time("timerlat thread / all of the wake-up", |one| one.all);
        add("irq; softirq; thread noise; others of the slowest 1 % beyond the median, µs, timerlat / causes", &slowest);
    }
    Ok(rows + WHY)
}

/// What starts a shell on this machine.
fn here(binary: &Path, disturb: &Path) -> Result<Command> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let own = [binary, disturb].into_iter().filter_map(Path::parent).map(Path::to_owned);
    let mut command = Command::new("sh");
    command.env("PATH", std::env::join_paths(own.chain(std::env::split_paths(&usual)))?);
    Ok(command)
}

/// What starts a shell in a guest.
fn guest(binary: &Path, disturb: &Path) -> Result<Command> {
    packages::ensure(&PACKAGES, "for a guest whose kernel has timerlat")?;
    let folder = process::target().join("bench-timerlat");
    let root = Root::make(folder.join("root"))?;
    root.program("usr/bin/disturb", disturb)?;
    let overlay = folder.join("overlay.cpio");
    root.pack(&overlay)?;
    let mut command = Command::new(binary);
    command.args(["lab", "boot", KERNEL, "--mode", "icount", "--memory-mb", "1024", "--hosts", "0", "--overlay"]);
    command.arg(overlay).args(["--", "/bin/sh"]);
    Ok(command)
}

/// What both tools measured beside a load.
fn measured(text: &str, load: &str) -> Result<[Vec<WakeUp>; 2]> {
    let mut measured = [Vec::new(), Vec::new()];
    for (head, body) in text.split("@@ ").filter_map(|section| section.split_once('\n')) {
        match head.trim().split_once(' ').filter(|(of, _)| *of == load) {
            Some((_, "timerlat")) => measured[0].extend(of_tracer(body)),
            Some(_) => measured[1].extend(of_explanation(body)?),
            None => {}
        }
    }
    ensure!(measured.iter().all(|all| all.len() >= 100), super::unread(text));
    Ok(measured)
}

/// The trace has a line when the interrupt was handled, one for each noise until the thread ran, and one then.
fn of_tracer(trace: &str) -> Vec<WakeUp> {
    let (mut wake_ups, mut next) = (Vec::new(), None::<WakeUp>);
    for line in trace.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |name: &str| words.iter().skip_while(|word| **word != name).nth(1).copied();
        let us = |name: &str| Some(value(name)?.parse::<f64>().ok()? / 1e3);
        match (value("context"), us("timer_latency"), us("duration")) {
            (Some("irq"), Some(timer), _) => next = Some(WakeUp { timer, ..WakeUp::default() }),
            (Some("thread"), Some(all), _) => wake_ups.extend(next.take().map(|one| WakeUp { all, ..one })),
            (_, _, Some(us)) => {
                let class = NOISE.iter().position(|(noise, _)| words.contains(noise)).unwrap_or(NOISE.len());
                next.iter_mut().for_each(|one| one.lost[class] += us);
            }
            _ => {}
        }
    }
    wake_ups
}

fn of_explanation(json: &str) -> Result<Vec<WakeUp>> {
    let cells = super::parsed(json)?;
    let us = |value: &Value| value["ns"].as_f64().unwrap_or(f64::NAN) / 1e3;
    let messages = cells[0]["messages"].as_array().context("no sleep is explained")?.iter();
    // Not those of the warm-up.
    let measured = messages.filter(|message| message["seq"].as_u64() >= Some(50));
    let wake_up = |message: &Value| {
        let list = |name: &str| message[name].as_array().into_iter().flatten();
        let mut one = WakeUp { all: message["rtt_ns"].as_f64()? / 1e3, ..WakeUp::default() };
        one.timer = list("segments").filter(|part| part["segment"] == "expiry").map(us).sum();
        for cause in list("causes") {
            let is_of = |(_, classes): &(_, &[&str])| classes.iter().any(|class| cause["class"] == *class);
            one.lost[NOISE.iter().position(is_of).unwrap_or(NOISE.len())] += us(cause);
        }
        Some(one)
    };
    Ok(measured.filter_map(wake_up).collect())
}

/// By class: the mean of the slowest 1 %, less the median of all.
fn slowest(all: &[WakeUp]) -> String {
    let mut sorted = all.to_vec();
    sorted.sort_by(|one, other| other.all.total_cmp(&one.all));
    let slowest = sorted.get(..all.len().div_ceil(100)).unwrap_or_default();
    let beyond = |class: usize| {
        let [slowest, all] = [slowest, all].map(|of| super::column(of, |one| one.lost[class]));
        format!("{:.1}", stats::mean(&slowest).unwrap_or(f64::NAN) - stats::median(&all))
    };
    (0..=NOISE.len()).map(beyond).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod unit {
    use serde_json::json;

    /// Catches: noise that is counted for another wake-up or in another class, warm-up among the measured sleeps.
    #[test]
    fn both_splits_are_read() {
        let trace = "# tracer: timerlat\n\
            cc1-8 [000] d.h.. 1.5: irq_noise: local_timer:236 start 1.4 duration 9000 ns\n\
            cc1-8 [000] d.h.. 2.5: #402 context    irq timer_latency     1500 ns\n\
            cc1-8 [000] d.h.. 2.6: irq_noise: local_timer:236 start 2.4 duration 2000 ns\n\
            cc1-8 [000] d.... 2.7: thread_noise: cc1:8 start 2.4 duration 40000 ns\n\
            timerlat/0-9 [000] ..... 2.8: #402 context thread timer_latency     45500 ns\n\
            timerlat/0-9 [000] ..... 2.9: thread_noise: cc1:8 start 2.4 duration 7000 ns\n";
        let [read] = super::of_tracer(trace)[..] else { panic!("one wake-up") };
        assert_eq!((read.timer, read.all, read.lost), (1.5, 45.5, [2.0, 0.0, 40.0, 0.0]));
        let sleep = |seq: u64| {
            json!({"seq": seq, "rtt_ns": 50_000, "segments": [{"segment": "expiry", "ns": 2000}, {"segment": "return", "ns": 48_000}],
                "causes": [{"class": "run-queue", "ns": 30_000}, {"class": "hardirq", "ns": 4000}, {"class": "steal", "ns": 1000}]})
        };
        let cells = json!([{"messages": [sleep(49), sleep(50)]}]);
        let [read] = super::of_explanation(&cells.to_string()).expect("a cell")[..] else { panic!("one wake-up") };
        assert_eq!((read.timer, read.all, read.lost), (2.0, 50.0, [4.0, 0.0, 30.0, 1.0]));
        assert_eq!(super::slowest(&[read, super::WakeUp::default(), super::WakeUp::default()]), "4.0; 0.0; 30.0; 1.0");
    }
}
