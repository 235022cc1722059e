//! The figures of explanations, each beside its goal: what the recorder costs, how much of late messages is named, whether tails are
//! predicted rightly, how fast it is, the self-test, and the kernel's timerlat. An hour at 40,000 messages a second is not measured here.

use super::bypass::Goal;
use super::lab::Lab;
use super::{Options, document, interleaved, number, shield, timerlat};
use crate::process::{self, Killed};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options<10, 2>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Late messages of each row of the self-test.
    #[arg(long, default_value_t = 200)]
    late: u32,
    /// Policy of the measured threads in the self-test.
    #[arg(long, default_value = "fifo:10")]
    policy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// RTT with the recorder, and with and without --explain.
    Cost,
    /// The share of late messages' excess that is named, beside loads.
    Named,
    /// Percentiles predicted without a disturbance, and measured without it.
    Removed,
    /// Messages explained a second, offline.
    Speed,
    /// What recording one event costs.
    Event,
    /// `explain --self-test`.
    SelfTest,
    /// The split of wake-up latency beside that of the kernel's timerlat, in a guest where this kernel has no timerlat.
    Timerlat,
}

impl Part {
    // Text follows the rows of the last one.
    const ALL: [Self; 7] =
        [Self::Cost, Self::Named, Self::Removed, Self::Speed, Self::Event, Self::SelfTest, Self::Timerlat];
}

/// What is removed: the disturbance, how both ends receive, and the class and name of the cause. Of a thread that sleeps the same
/// disturbance has two classes, so that ends spin beside the hog.
const REMOVED: [(&str, &str, &str, &str); 3] = [
    ("hog", "--receive spin --policy fifo:10 --remote-policy fifo:10", "preempted", "wh-hog"),
    ("timers", "--policy fifo:10 --remote-policy fifo:10", "hardirq", "local_timer"),
    ("packets", "--policy fifo:10 --remote-policy fifo:10", "softirq", "NET_RX"),
];
const PERCENTILES: [(&str, &str, &str); 2] =
    [("p99", "p99_ns", "p99_without_ns"), ("p99.9", "p99_9_ns", "p99_9_without_ns")];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    let binary = options.binary()?;
    let mut text = format!(
        "64 bytes over UDP, {} rounds of {} s, all in every round, CPUs 0 and 1; a goal is judged by the estimate.\n\n\
         | what | measured | goal | |\n|---|---|---|---|\n",
        options.rounds, options.seconds
    );
    for part in Part::ALL.into_iter().filter(|part| arguments.parts.contains(part)) {
        let rows = match part {
            Part::Cost => cost(&binary, options),
            Part::Named => named(&binary, options),
            Part::Removed => removed(&binary, options),
            Part::Speed => pure("windhover-explain", "messages", "messages explained a second", &Goal::AtLeast(5000.0)),
            Part::Event => pure("windhover-trace", "event", "recorded event, ns", &Goal::AtMost(60.0)),
            Part::SelfTest => self_test(&binary, arguments),
            Part::Timerlat => disturb().and_then(|disturb| timerlat::rows(&binary, &disturb, options.rounds)),
        };
        let rows = rows.with_context(|| format!("{part:?}"))?;
        eprint!("{rows}");
        text.push_str(&rows);
    }
    options.output.publish(&text)
}

fn row(what: &str, measured: &str, judged: &str) -> String {
    format!("| {what} | {measured} | {judged} |\n")
}

/// Host `b` answers and explains. Its threads may use both CPUs: the recorder's has to leave the measured thread's.
fn far_end(lab: &Lab) -> Result<Killed> {
    let line = format!("windhover --quiet serve --bind {} --explain --explain-names", lab.address());
    let child = lab.command("b", "0,1", &line).stdout(Stdio::null()).spawn().context("windhover serve")?;
    std::thread::sleep(Duration::from_millis(250));
    Ok(Killed(child))
}

fn ping(lab: &Lab, arm: &str, seconds: u32, flags: &str) -> Result<Value> {
    let line = "--size 64 --rtt --cpu 0 --remote-cpu 1 --format json";
    let line = format!("windhover pingpong udp {} {line} --seconds {seconds} {flags}", lab.address());
    document(arm, &mut lab.command("a", "0,1", &line))
}

/// Of a result, or why nothing was recorded.
fn explained(result: &Value, field: &str) -> Result<f64> {
    number(result, &format!("explanation/{field}")).with_context(|| result["explanation"]["limits"].to_string())
}

fn cost<const R: u32, const S: u32>(binary: &Path, options: &Options<R, S>) -> Result<String> {
    let lab = Lab::up(binary)?;
    let server = far_end(&lab)?;
    let modes = ["block", "spin"];
    // Without --explain the same figure twice.
    let measured = interleaved(options.rounds, [2, 2], |mode, arm| {
        let flags = format!("--receive {} {}", modes[mode], if arm == 1 { "--explain" } else { "" });
        let result = ping(&lab, modes[mode], options.seconds, &flags)?;
        let p50_ns = number(&result, "latency/p50_ns")?;
        let with_ns = if arm == 1 { explained(&result, "p50_ns")? } else { p50_ns };
        Ok(Some((p50_ns, with_ns)))
    });
    drop((server, lab));
    let mut rows = String::new();
    for (mode, arms) in modes.into_iter().zip(&measured?) {
        let [plain, off, with] =
            [(0, false), (1, false), (1, true)].map(|(arm, is_second): (usize, bool)| -> Vec<f64> {
                arms[arm].iter().map(|(first, second)| if is_second { *second } else { *first }).collect()
            });
        let (recorder, without) = (stats::ratio(&with, &off), stats::ratio(&off, &plain));
        let what = format!("RTT p50 with / without the recorder, {mode}");
        rows += &row(&what, &format!("{recorder:.3}"), &Goal::AtMost(1.1).judge(recorder.typical));
        let met = if (without.low..=without.high).contains(&1.0) { "met" } else { "**missed**" };
        let what = format!("RTT p50 with / without --explain, first pass, {mode}");
        rows += &row(&what, &format!("{without:.3}"), &format!("1 within | {met}"));
    }
    Ok(rows)
}

fn named<const R: u32, const S: u32>(binary: &Path, options: &Options<R, S>) -> Result<String> {
    let plan = format!(
        "name = \"explain\"\nrepetitions = {}\nseed = 25\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = {}\nwarmup_ms = 200\ncpu = \"0;1\"\nexplain = true\n\
         [[grid]]\nprobe = [\"pingpong\"]\nprotocol = [\"udp\"]\nsize = [64]\nload = [\"build\", \"context\"]\npolicy = [\"other\", \"fifo:10\"]\n",
        options.rounds, options.seconds
    );
    let file = process::target().join("bench-explain.toml");
    crate::files::write(&file, &plan)?;
    let run = shield::measure(&file.to_string_lossy(), binary)?;
    let text = super::printed(Command::new(binary).arg("explain").arg(&run).arg("--json"))?;
    let mut cells: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for cell in super::parsed(&text)?.as_array().into_iter().flatten() {
        let shares = cell["messages"].as_array().into_iter().flatten();
        let shares = shares.filter_map(|message| Some(message["explained_percent"].as_f64()? / 100.0));
        let key = cell["cell"].as_str().unwrap_or_default();
        let of = |axis: &str| key.split(',').find(|part| part.starts_with(axis)).unwrap_or_default().to_owned();
        cells.entry(format!("{}, {}", of("load="), of("policy="))).or_default().extend(shares);
    }
    let rows = cells.iter().map(|(cell, shares)| {
        let median = stats::median(shares);
        let measured = format!("{median:.2}, median of {} messages", shares.len());
        row(&format!("share of the excess that is named, {cell}"), &measured, &Goal::AtLeast(0.95).judge(median))
    });
    Ok(rows.collect())
}

/// Builds the example that disturbs a CPU.
fn disturb() -> Result<PathBuf> {
    let build = "build --quiet --release --locked --package windhover-load --example disturb";
    process::run(&process::cargo(), &build.split(' ').collect::<Vec<_>>())?;
    Ok(process::target().join("release/examples/disturb"))
}

fn removed<const R: u32, const S: u32>(binary: &Path, options: &Options<R, S>) -> Result<String> {
    let disturb = disturb()?;
    let lab = Lab::up(binary)?;
    let server = far_end(&lab)?;
    // Predicted and, in the second arm, measured.
    let measured = interleaved(options.rounds, [REMOVED.len(), 2], |case, arm| {
        let (disturbance, flags, class, name) = REMOVED[case];
        let _disturber = (arm == 0)
            .then(|| Command::new(&disturb).args([disturbance, "0"]).spawn().map(Killed).context("examples/disturb"))
            .transpose()?;
        std::thread::sleep(Duration::from_millis(500));
        let result = ping(&lab, disturbance, options.seconds, &format!("{flags} --explain"))?;
        if arm == 1 {
            let measured = PERCENTILES.map(|(_, field, _)| explained(&result, field));
            return Ok(Some(measured.into_iter().collect::<Result<Vec<f64>>>()?));
        }
        let causes = result["explanation"]["causes"].as_array().into_iter().flatten();
        // The first of them cost most.
        let cause = causes.into_iter().find(|cause| cause["class"] == class && cause["name"] == name);
        let cause = cause.with_context(|| format!("{name} is no cause of late messages"))?;
        Ok(Some(PERCENTILES.iter().filter_map(|(_, _, field)| cause[field].as_f64()).collect()))
    });
    drop((server, lab));
    let mut rows = String::new();
    for ((disturbance, ..), arms) in REMOVED.into_iter().zip(&measured?) {
        for (at, (percentile, ..)) in PERCENTILES.into_iter().enumerate() {
            let of =
                |arm: usize| -> Vec<f64> { arms[arm].iter().filter_map(|figures| figures.get(at).copied()).collect() };
            let (predicted, real) = (of(0), of(1));
            let ratio = stats::ratio(&predicted, &real);
            let [us, real_us] = [&predicted, &real].map(|ns| stats::median(ns) / 1e3);
            let measured = format!("{ratio:.3}: {us:.1} µs predicted, {real_us:.1} µs measured");
            let met = if (ratio.typical.ln()).abs() <= 1.15_f64.ln() { "met" } else { "**missed**" };
            let what = format!("{percentile} without {disturbance}, predicted / measured");
            rows += &row(&what, &measured, &format!("within 15 % | {met}"));
        }
    }
    Ok(rows)
}

/// A benchmark of a crate, which prints one number.
fn pure(package: &str, bench: &str, what: &str, goal: &Goal) -> Result<String> {
    let text =
        process::output(&process::cargo(), &["bench", "--quiet", "--locked", "--package", package, "--bench", bench])?;
    let value: f64 = text.trim().parse().map_err(|_| super::unread(&text))?;
    Ok(row(what, &format!("{value:.0}"), &goal.judge(value)))
}

fn self_test(binary: &Path, arguments: &Arguments) -> Result<String> {
    let flags = ["--policy", &arguments.policy, "--late", &arguments.late.to_string()];
    let output = Command::new(binary).args(["explain", "--self-test"]).args(flags).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(matches!(output.status.code(), Some(0 | 3)), "the self-test ended with {}", output.status);
    eprintln!("{text}");
    // The first share is that of all rows, the second that of the lowest.
    let words: Vec<&str> = text.split_whitespace().collect();
    let shares = words.windows(2).filter(|pair| pair[1].starts_with('%')).map(|pair| pair[0].trim_start_matches('('));
    let shares: Vec<f64> = shares.filter_map(|share| share.parse().ok()).take(2).collect();
    ensure!(!shares.is_empty(), super::unread(&text));
    let goals = [("all rows", 99.0), ("the lowest row", 97.0)];
    let rows = goals.iter().zip(shares).map(|((what, goal), share)| {
        let what = format!("self-test, right, {what}, {}", arguments.policy);
        row(&what, &format!("{share:.1} %"), &Goal::AtLeast(*goal).judge(share))
    });
    Ok(rows.collect())
}
