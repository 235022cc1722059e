//! What `windhover bypass run --stack spin` is worth: blocking programs on the kernel, the same programs behind it, and
//! programs that spin by themselves, all in every round.

use super::lab::Lab;
use super::peers::{self, Tool};
use super::{Measured, Options, interleaved, ratio_text};
use crate::{packages, process};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options<20, 1>,
    /// Profile of `bypass run`.
    #[arg(long, default_value = "latency")]
    profile: String,
}

/// Priority of both ends: the highest that `serve` allows.
const PRIORITY: u32 = 49;

/// What is compared.
const CASES: [(&str, Tool); 4] =
    [("udp", Tool::Windhover), ("tcp", Tool::Windhover), ("udp", Tool::Sockperf), ("tcp", Tool::Sockperf)];

/// How the two ends wait for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    /// A blocking receive call.
    Block,
    /// The same program behind the preload library.
    Bypass,
    /// The program's own spinning.
    Spin,
}

const ARMS: [Arm; 3] = [Arm::Block, Arm::Bypass, Arm::Spin];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["sockperf", "gcc", "libc6-dev"], "for the comparison")?;
    let options = &arguments.options;
    let windhover = options.binary()?;
    let lab = Lab::up(&windhover)?;
    let measured = interleaved(options.rounds, [CASES.len(), ARMS.len()], |case, arm| {
        let ((protocol, tool), arm) = (CASES[case], ARMS[arm]);
        let figure = once(&lab, arguments, tool, protocol, arm);
        figure.map(Some).with_context(|| format!("{} {protocol} {arm:?}", tool.name()))
    })?;
    drop(lab);
    let mut text = table(&measured, arguments);
    text.push_str(&overhead(&windhover, options.rounds)?);
    options.output.publish(&text)
}

/// The median RTT/2 in µs.
fn once(lab: &Lab, arguments: &Arguments, tool: Tool, protocol: &str, arm: Arm) -> Result<f64> {
    let mode = if arm == Arm::Spin { "spin" } else { "block" };
    let behind = match arm {
        Arm::Bypass => format!("windhover bypass run --require --profile {} --", arguments.profile),
        Arm::Block | Arm::Spin => String::new(),
    };
    let real_time = match tool {
        Tool::Windhover => String::new(),
        _ => format!("windhover run -s fifo -P {PRIORITY} --rt-limit 60 --"),
    };
    let commands = peers::commands(tool, protocol, mode, lab.address(), arguments.options.seconds);
    let [server, mut client] = commands.map(|command| format!("{real_time} {behind} {command}"));
    if tool == Tool::Windhover {
        client.push_str(&format!(" --policy fifo:{PRIORITY} --remote-policy fifo:{PRIORITY}"));
    }
    Ok(peers::once(lab, tool, [server, client])?.p50)
}

fn table(measured: &Measured<f64>, arguments: &Arguments) -> String {
    let mut text = format!(
        "32 bytes, {} rounds of {} s, all three in every round, CPUs 0 and 1, SCHED_FIFO {PRIORITY}, profile {}; RTT/2 in \
         µs.\n\n\
         | protocol | tool | block, p50 | bypass spin, p50 | own spin, p50 | bypass spin / block (95 %) | bypass spin / own \
         spin (95 %) |\n|---|---|---|---|---|---|---|\n",
        arguments.options.rounds, arguments.options.seconds, arguments.profile
    );
    for ((protocol, tool), figures) in CASES.into_iter().zip(measured) {
        let [block, bypass, spin] = [0, 1, 2].map(|arm| figures[arm].as_slice());
        let medians = [block, bypass, spin].map(|of| format!("{:.3}", stats::median(of))).join(" | ");
        let ratios = [block, spin].map(|other| ratio_text(bypass, other)).join(" | ");
        let _ = writeln!(text, "| {protocol} | {} | {medians} | {ratios} |", tool.name());
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
    let mut text = format!(
        "\nCalls that are not accelerated, medians of {rounds} rounds in ns:\n\n\
         | call | plain | more behind it |\n|---|---|---|\n"
    );
    let [plain, behind] = [0, 1].map(|arm| &measured[0][arm]);
    for (at, (call, _)) in plain.first().into_iter().flatten().enumerate() {
        let column = |rounds: &[Vec<(String, f64)>]| rounds.iter().filter_map(|one| Some(one.get(at)?.1)).collect();
        let [plain, behind]: [Vec<f64>; 2] = [column(plain), column(behind)];
        let more: Vec<f64> = plain.iter().zip(&behind).map(|(plain, behind)| behind - plain).collect();
        let _ = writeln!(text, "| {call} | {:.1} | {:.1} |", stats::median(&plain), stats::median(&more));
    }
    Ok(text)
}
