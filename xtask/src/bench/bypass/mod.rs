//! What `windhover bypass run` is worth: blocking programs on the kernel, the same programs behind `spin` and `xdp`, and programs
//! that spin by themselves, all in every round; and which goals are met.

mod loss;
mod servers;
mod shield;

use super::lab::Lab;
use super::peers::{self, Tool};
use super::{Measured, Options, column, interleaved, ratio_text};
use crate::{packages, process};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options<20, 1>,
    /// Profile of `bypass run`.
    #[arg(long, default_value = "latency")]
    profile: String,
    /// Frame back-end of `--stack xdp` and of bare frames. On the lab's veth devices `packet` has the shortest round trip, and
    /// `generic` the most requests and bytes a second.
    #[arg(long, default_value = "generic")]
    backend: String,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Measure latency behind a shield, of both ends where there are CPUs enough, else of one. Needs root; everything is put back.
    #[arg(long)]
    shield: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Ping-pong by windhover and sockperf.
    Latency,
    /// One busy TCP connection beside 1,000 idle ones.
    Idle,
    /// redis-benchmark, 50 connections.
    Redis,
    /// What calls cost that are not accelerated.
    Overhead,
    /// Bulk TCP without segmentation offload.
    Bulk,
    /// TCP request and response with losses.
    Loss,
}

impl Part {
    /// In this order; bulk changes the lab, loss has one of its own.
    const ALL: [Self; 6] = [Self::Latency, Self::Idle, Self::Redis, Self::Overhead, Self::Bulk, Self::Loss];
}

/// Priority of both ends: the highest that `serve` allows.
const PRIORITY: u32 = 49;

const CASES: [(&str, Tool); 4] =
    [("udp", Tool::Windhover), ("tcp", Tool::Windhover), ("udp", Tool::Sockperf), ("tcp", Tool::Sockperf)];

/// What carries both ends, and how they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    /// A blocking receive call of the kernel's socket.
    Block,
    /// The same program behind `--stack spin`.
    Spin,
    /// The same program behind `--stack xdp`.
    Xdp,
    /// The program's own spinning on the kernel's socket.
    Own,
    /// Bare frames past the kernel, without a stack.
    Frame,
}

impl Arm {
    const ALL: [Self; 5] = [Self::Block, Self::Spin, Self::Xdp, Self::Own, Self::Frame];

    fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Spin => "bypass spin",
            Self::Xdp => "bypass xdp",
            Self::Own => "own spin",
            Self::Frame => "bare frame",
        }
    }

    fn prefix(self, profile: &str, backend: &str) -> String {
        let stack = match self {
            Self::Block | Self::Own | Self::Frame => return String::new(),
            Self::Spin => "spin".to_owned(),
            Self::Xdp => format!("xdp --backend {backend}"),
        };
        format!("windhover bypass run --stack {stack} --require --profile {profile} --")
    }

    /// Why it cannot run here, by a trial.
    fn obstacle(self, lab: &Lab, backend: &str) -> Option<String> {
        let (trial, _server) = match self {
            Self::Block | Self::Spin | Self::Own => return None,
            Self::Xdp => (format!("{} true", self.prefix("safe", backend)), None),
            Self::Frame => {
                let words = format!("--count 1 --warmup-count 1 --frame-backend {backend}");
                (format!("windhover --quiet pingpong frame {} {words}", lab.address()), lab.endpoint().ok())
            }
        };
        let output = lab.command("a", "0", &trial).stderr(Stdio::piped()).output();
        match output {
            // 4: measured, but not to be trusted.
            Ok(output) if matches!(output.status.code(), Some(0 | 4)) => None,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                let why = said.strip_prefix("windhover: ").unwrap_or(&said);
                Some(why.strip_prefix("not accelerated, because ").unwrap_or(why).to_owned())
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

fn real_time() -> String {
    format!("windhover run -s fifo -P {PRIORITY} --rt-limit 60 --")
}

/// Ratios of medians: of an arm, to another, by protocol, with the goal.
const RATIOS: [(Arm, Arm, &str, f64); 6] = [
    (Arm::Spin, Arm::Block, "udp", 0.40),
    (Arm::Spin, Arm::Block, "tcp", 0.50),
    (Arm::Xdp, Arm::Block, "udp", 0.24),
    (Arm::Xdp, Arm::Block, "tcp", 0.21),
    (Arm::Xdp, Arm::Own, "udp", 0.75),
    (Arm::Xdp, Arm::Own, "tcp", 0.45),
];

/// What `xdp` may take above a bare frame, in µs by protocol.
const ABOVE_FRAME_US: [(&str, f64); 2] = [("udp", 0.35), ("tcp", 0.45)];

/// RTT in ns of a stall by real-time throttling of one end, or of its echo at the other (see `stats::stalls`).
const THROTTLED_NS: std::ops::RangeInclusive<u64> = 15_000_000..=60_000_000;

pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    /// Two cells of a table: the goal, and whether it is met.
    pub(super) fn judge(&self, value: f64) -> String {
        let (sign, bound, met) = match *self {
            Self::AtMost(bound) => ('≤', bound, value <= bound),
            Self::AtLeast(bound) => ('≥', bound, value >= bound),
        };
        format!("{sign} {bound} | {}", if met { "met" } else { "**missed**" })
    }
}

/// RTT/2 of one measurement in µs. Only windhover tells all; others leave NaN.
#[derive(Debug, Clone, Copy)]
struct Figure {
    p50: f64,
    p99_9: f64,
    /// Without the stalls by real-time throttling.
    stdev: f64,
    /// How many stalls by real-time throttling there were.
    throttled: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["sockperf", "gcc", "libc6-dev"], "for the comparison")?;
    let Arguments { options, profile, backend, .. } = arguments;
    let windhover = options.binary()?;
    let mut lab = servers::lab(&windhover)?;
    let bench = Bench { arguments, cannot: Arm::ALL.map(|arm| arm.obstacle(&lab, backend)) };
    let mut text = format!(
        "32 bytes, {} rounds of {} s, all in every round, CPUs 0 and 1, SCHED_FIFO {PRIORITY}, profile {profile}, xdp and frames by \
         {backend}; RTT/2 in µs, medians of the rounds; a goal is judged by the estimate.\n",
        options.rounds, options.seconds
    );
    for (arm, obstacle) in Arm::ALL.into_iter().zip(&bench.cannot) {
        if let Some(obstacle) = obstacle {
            let _ = writeln!(text, "\n{}: cannot run, because {obstacle}", arm.name());
        }
    }
    eprintln!("{text}");
    for part in Part::ALL.into_iter().filter(|part| arguments.parts.contains(part)) {
        text.push_str(&match part {
            Part::Latency if arguments.shield => shield::latency(&bench, &mut lab, &windhover)?,
            Part::Latency => latency(&bench, &lab)?,
            Part::Idle => servers::idle(&bench, &lab)?,
            Part::Redis => servers::redis(&bench, &lab)?,
            Part::Overhead => overhead(&windhover, options.rounds)?,
            Part::Bulk => servers::bulk(&bench, &lab)?,
            Part::Loss => {
                drop(lab);
                lab = Lab::with_switch(&windhover)?;
                loss::run(&bench, &lab)?
            }
        });
    }
    drop(lab);
    options.output.publish(&text)
}

struct Bench<'a> {
    arguments: &'a Arguments,
    /// Of each arm why it cannot run here.
    cannot: [Option<String>; Arm::ALL.len()],
}

impl Bench<'_> {
    fn options(&self) -> &Options<20, 1> {
        &self.arguments.options
    }

    fn behind(&self, arm: Arm) -> String {
        arm.prefix(&self.arguments.profile, &self.arguments.backend)
    }

    fn cannot(&self, arm: Arm) -> Option<&str> {
        self.cannot[arm as usize].as_deref()
    }
}

fn latency(bench: &Bench<'_>, lab: &Lab) -> Result<String> {
    let measured = interleaved(bench.options().rounds, [CASES.len(), Arm::ALL.len()], |case, arm| {
        let ((protocol, tool), arm) = (CASES[case], Arm::ALL[arm]);
        if arm == Arm::Frame && case > 0 || bench.cannot(arm).is_some() {
            return Ok(None);
        }
        let figure = once(bench, lab, tool, protocol, arm);
        figure.map(Some).with_context(|| format!("{} {protocol} {arm:?}", tool.name()))
    })?;
    Ok(medians(&measured) + &goals(&measured))
}

fn once(bench: &Bench<'_>, lab: &Lab, tool: Tool, protocol: &str, arm: Arm) -> Result<Figure> {
    let protocol = if arm == Arm::Frame { "frame" } else { protocol };
    let mode = if matches!(arm, Arm::Own | Arm::Frame) { "spin" } else { "block" };
    let real_time = if tool == Tool::Windhover { String::new() } else { real_time() };
    let commands = peers::commands(tool, protocol, mode, lab, bench.options().seconds);
    let behind = bench.behind(arm);
    let [server, mut client] = commands.map(|command| format!("{real_time} {behind} {command}"));
    if tool == Tool::Windhover {
        let _ = write!(client, " --policy fifo:{PRIORITY} --remote-policy fifo:{PRIORITY}");
    }
    if arm == Arm::Frame {
        let _ = write!(client, " --frame-backend {}", bench.arguments.backend);
    }
    let _server = lab.serve(&server)?;
    let text = lab.client(&client)?;
    let p50 = peers::parse(tool, &format!("{protocol}, {}", arm.name()), &text)?.p50;
    let mut figure = Figure { p50, p99_9: f64::NAN, stdev: f64::NAN, throttled: f64::NAN };
    if tool == Tool::Windhover {
        let document: serde_json::Value = serde_json::from_str(text.trim()).context("result document")?;
        // Too few messages have none.
        figure.p99_9 = document["latency"]["p99_9_ns"].as_f64().map_or(f64::NAN, |ns| ns / 1e3);
        (figure.stdev, figure.throttled) = spread(document["histogram"].as_str().context("no histogram")?)?;
    }
    Ok(figure)
}

/// Standard deviation of RTT/2 in µs without the stalls by throttling, and their number, from a histogram of RTT in ns.
fn spread(histogram: &str) -> Result<(f64, f64)> {
    let histogram = stats::Histogram::from_base64_v2(histogram)?;
    let (stalls, rest): (Vec<_>, Vec<_>) =
        histogram.iter_recorded().partition(|bucket| THROTTLED_NS.contains(&bucket.high_ns));
    let weighed = rest.iter().map(|bucket| ((bucket.low_ns + bucket.high_ns) as f64 / 4e3, bucket.count as f64));
    let count: f64 = weighed.clone().map(|(_, times)| times).sum();
    let mean = weighed.clone().map(|(us, times)| us * times).sum::<f64>() / count;
    let variance = weighed.map(|(us, times)| (us - mean).powi(2) * times).sum::<f64>() / count;
    Ok((variance.sqrt(), stalls.iter().map(|bucket| bucket.count).sum::<u64>() as f64))
}

fn medians(measured: &Measured<Figure>) -> String {
    let mut text =
        "\n| protocol | tool | arm | p50 | p99.9 | stdev without throttling | stalls by throttling a round |\n\
                    |---|---|---|---|---|---|---|\n"
            .to_owned();
    for ((protocol, tool), figures) in CASES.into_iter().zip(measured) {
        for (arm, figures) in Arm::ALL.into_iter().zip(figures).filter(|(_, figures)| !figures.is_empty()) {
            let picks: [fn(&Figure) -> f64; 4] = [|one| one.p50, |one| one.p99_9, |one| one.stdev, |one| one.throttled];
            let shown = picks.map(|pick| match stats::median(&column(figures, pick)) {
                us if us.is_nan() => "–".to_owned(),
                us => format!("{us:.3}"),
            });
            let protocol = if arm == Arm::Frame { "frame" } else { protocol };
            let _ = writeln!(text, "| {protocol} | {} | {} | {} |", tool.name(), arm.name(), shown.join(" | "));
        }
    }
    text
}

fn goals(measured: &Measured<Figure>) -> String {
    let mut text =
        "\n| p50, ratio (95 %) or µs | protocol | tool | measured | goal | |\n|---|---|---|---|---|---|\n".to_owned();
    let of = |case: usize, arm: Arm| measured[case][arm as usize].as_slice();
    let p50 = |case: usize, arm: Arm| column(of(case, arm), |one| one.p50);
    let cases = || CASES.into_iter().enumerate();
    for (arm, other, wanted, goal) in RATIOS {
        for (case, (protocol, tool)) in cases().filter(|(_, (protocol, _))| *protocol == wanted) {
            let (ours, theirs) = (p50(case, arm), p50(case, other));
            if ours.is_empty() || theirs.is_empty() {
                continue;
            }
            let judged = Goal::AtMost(goal).judge(stats::ratio(&ours, &theirs).typical);
            let (names, ratio) = (format!("{} / {}", arm.name(), other.name()), ratio_text(&ours, &theirs));
            let _ = writeln!(text, "| {names} | {protocol} | {} | {ratio} | {judged} |", tool.name());
        }
    }
    for (case, (protocol, tool)) in cases().filter(|(_, (_, tool))| *tool == Tool::Windhover) {
        let mut row = |what: &str, us: &[f64], goal: f64| {
            if us.is_empty() {
                return;
            }
            let (us, judged) = (stats::median(us), Goal::AtMost(goal).judge(stats::median(us)));
            let _ = writeln!(text, "| {what} | {protocol} | {} | {us:.3} | {judged} |", tool.name());
        };
        let xdp = of(case, Arm::Xdp);
        row("bypass xdp, stdev without throttling", &column(xdp, |one| one.stdev), 0.3);
        row("bypass xdp, p99.9", &column(xdp, |one| one.p99_9), 10.0);
        let pairs = p50(case, Arm::Xdp).into_iter().zip(p50(0, Arm::Frame));
        let above: Vec<f64> = pairs.map(|(xdp, frame)| xdp - frame).collect();
        let goal = ABOVE_FRAME_US.into_iter().find(|(of, _)| *of == protocol).map_or(f64::NAN, |(_, goal)| goal);
        row("bypass xdp above a bare frame", &above, goal);
    }
    text
}

/// What calls cost more that are not accelerated: ns a call, from a program that makes only those.
fn overhead(windhover: &Path, rounds: u32) -> Result<String> {
    let program = process::target().join("bypass-calls");
    let source = "crates/windhover/tests/bypass/calls.c";
    process::run("cc", &["-O2", "-w", "-o", &program.to_string_lossy(), source, "-lpthread"])?;
    let once = |behind: usize| -> Result<Vec<(String, f64)>> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        if behind == 1 {
            command.arg(windhover).args(["bypass", "run", "--require", "--"]);
        }
        let output = command.arg(&program).arg("cost").output().context("taskset")?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let figures = lines.lines().filter_map(|line| line.rsplit_once(": "));
        Ok(figures.filter_map(|(call, ns)| Some((call.to_owned(), ns.parse().ok()?))).collect())
    };
    let measured = interleaved(rounds, [1, 2], |_, behind| once(behind).map(Some))?;
    let mut text = "\nCalls that are not accelerated, in ns:\n\n\
                    | call | plain | more behind it | goal | |\n|---|---|---|---|---|\n"
        .to_owned();
    let [plain, behind] = [0, 1].map(|arm| &measured[0][arm]);
    for (at, (call, _)) in plain.first().into_iter().flatten().enumerate() {
        let column = |rounds: &[Vec<(String, f64)>]| rounds.iter().filter_map(|one| Some(one.get(at)?.1)).collect();
        let [plain, behind]: [Vec<f64>; 2] = [column(plain), column(behind)];
        let more: Vec<f64> = plain.iter().zip(&behind).map(|(plain, behind)| behind - plain).collect();
        let (plain, more) = (stats::median(&plain), stats::median(&more));
        let _ = writeln!(text, "| {call} | {plain:.1} | {more:.1} | {} |", Goal::AtMost(30.0).judge(more));
    }
    Ok(text)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn stalls_by_throttling_are_apart() {
        let mut histogram = stats::Histogram::new();
        histogram.record_n(10_000, 500);
        histogram.record_n(12_000, 500);
        let (before, none) = spread(&histogram.to_base64_v2().expect("text")).expect("figures");
        histogram.record_n(50_000_000, 1);
        histogram.record_n(20_000_000, 1);
        let (after, two) = spread(&histogram.to_base64_v2().expect("text")).expect("figures");
        assert!((before - 0.5).abs() < 0.01 && (after - before).abs() < 1e-9, "{before} {after}");
        assert_eq!([none, two], [0.0, 2.0]);
    }

    #[test]
    fn goals_are_met_or_missed() {
        assert_eq!(Goal::AtMost(0.4).judge(0.4), "≤ 0.4 | met");
        assert_eq!(Goal::AtLeast(1.3).judge(1.2), "≥ 1.3 | **missed**");
        // What was not measured is not met.
        assert_eq!(Goal::AtMost(0.4).judge(f64::NAN), "≤ 0.4 | **missed**");
    }

    #[test]
    fn each_arm_is_at_its_place() {
        assert!(Arm::ALL.into_iter().enumerate().all(|(at, arm)| arm as usize == at));
    }
}
