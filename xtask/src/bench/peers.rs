//! Ping-pong beside other tools: the same lab, CPUs, policy and size, all tools in every round.

use super::lab::Lab;
use super::{Measured, Options, column, interleaved, judged, ratio_text, unread};
use crate::{packages, process};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options<20, 1>,
    /// Only this protocol: tcp or udp.
    #[arg(long)]
    protocol: Option<String>,
}

/// What is compared: protocol and receive mode of both ends.
const CASES: [(&str, &str); 4] = [("udp", "block"), ("udp", "spin"), ("tcp", "block"), ("tcp", "spin")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Windhover,
    Sockperf,
    Sfnt,
    Netperf,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Windhover => "windhover",
            Self::Sockperf => "sockperf",
            Self::Sfnt => "sfnt-pingpong",
            Self::Netperf => "netperf",
        }
    }

    /// netperf only blocks.
    fn can(self, mode: &str) -> bool {
        self != Self::Netperf || mode == "block"
    }
}

/// RTT/2 in µs; netperf's median has a grain of 0.5 µs, so it is compared by its mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) p50: f64,
    mean: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["sockperf"], "for the comparison")?;
    let options = &arguments.options;
    let mut tools = vec![Tool::Windhover, Tool::Sockperf];
    for (tool, programs) in [(Tool::Sfnt, &["sfnt-pingpong"][..]), (Tool::Netperf, &["netperf", "netserver"][..])] {
        if programs.iter().all(|program| process::find(program).is_some()) {
            tools.push(tool);
        } else {
            println!("{} is not on the PATH and is left out", tool.name());
        }
    }
    let lab = Lab::up(&options.binary()?)?;
    let measured = interleaved(options.rounds, [CASES.len(), tools.len()], |case, tool| {
        let ((protocol, mode), tool) = (CASES[case], tools[tool]);
        if !tool.can(mode) || arguments.protocol.as_ref().is_some_and(|only| only != protocol) {
            return Ok(None);
        }
        let (commands, arm) = (commands(tool, protocol, mode, &lab, options.seconds), format!("{protocol}, {mode}"));
        let figure = once(&lab, tool, &arm, commands);
        figure.map(Some).with_context(|| format!("{} {protocol} {mode}", tool.name()))
    })?;
    drop(lab);
    options.output.publish(&table(&measured, &tools, options))
}

pub(super) fn commands(tool: Tool, protocol: &str, mode: &str, lab: &Lab, seconds: u32) -> [String; 2] {
    let (address, [cpu, remote_cpu]) = (lab.address(), lab.cpus());
    let flag = |is: bool, flag: &'static str| if is { flag } else { "" };
    let (spin, tcp) = (mode == "spin", protocol == "tcp");
    match tool {
        Tool::Windhover => [
            format!("windhover --quiet serve --bind {address}"),
            format!(
                "windhover pingpong {protocol} {address} --size 32 --seconds {seconds} --receive {mode} --cpu {cpu} \
                 --remote-cpu {remote_cpu} --format json"
            ),
        ],
        Tool::Sockperf => {
            let flags = format!("{} {}", flag(tcp, "--tcp"), flag(spin, "--nonblocked"));
            [
                format!("sockperf server -i {address} {flags}"),
                format!("sockperf ping-pong -i {address} -m 32 -t {seconds} {flags}"),
            ]
        }
        // It counts in ms and has 1 s as the default of both.
        Tool::Sfnt => [
            "sfnt-pingpong".to_owned(),
            format!(
                "sfnt-pingpong --affinity {cpu};{remote_cpu} --sizes=32 {} {protocol} {address}",
                flag(spin, "--spin")
            ),
        ],
        Tool::Netperf => [
            format!("netserver -D -N -4 -L {address}"),
            format!(
                "netperf -4 -P 0 -H {address} -t {} -l {seconds} -j -- -r 32,32 -k MEAN_LATENCY,P50_LATENCY",
                if tcp { "TCP_RR" } else { "UDP_RR" }
            ),
        ],
    }
}

fn once(lab: &Lab, tool: Tool, arm: &str, [server, client]: [String; 2]) -> Result<Figure> {
    let _server = lab.serve(&server)?;
    parse(tool, arm, &lab.client(&client)?)
}

/// The figures in what a tool printed. Windhover's verdict is counted for the arm.
pub(super) fn parse(tool: Tool, arm: &str, text: &str) -> Result<Figure> {
    let figure = match tool {
        Tool::Windhover => {
            let document = judged(arm, text)?;
            let latency = &document["latency"];
            latency["p50_ns"].as_f64().zip(latency["mean_ns"].as_f64()).map(|(p50, mean)| (p50 / 1e3, mean / 1e3))
        }
        Tool::Sockperf => {
            let after = |mark: &str| {
                let rest = text.lines().find_map(|line| line.split_once(mark)).map(|(_, rest)| rest)?;
                rest.trim_start_matches([' ', '=']).split_whitespace().next()?.parse::<f64>().ok()
            };
            after("percentile 50.000").zip(after("Latency is"))
        }
        Tool::Sfnt => text.lines().find_map(|line| {
            let fields: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
            (fields.len() == 8 && fields[0] == 32.0).then(|| (fields[3] / 1e3, fields[1] / 1e3))
        }),
        Tool::Netperf => {
            let value = |name: &str| {
                let (_, rest) = text.lines().find_map(|line| line.split_once(name))?;
                rest.trim_start_matches('=').trim().parse::<f64>().ok()
            };
            value("P50_LATENCY").zip(value("MEAN_LATENCY")).map(|(p50, mean)| (p50 / 2.0, mean / 2.0))
        }
    };
    match figure {
        Some((p50, mean)) if p50 > 0.0 => Ok(Figure { p50, mean }),
        _ => Err(unread(text)),
    }
}

fn table(measured: &Measured<Figure>, tools: &[Tool], options: &Options<20, 1>) -> String {
    let mut text = format!(
        "32 bytes, {} rounds of {} s, all tools in every round, CPUs 0 and 1, SCHED_OTHER; RTT/2 in µs.\n\n\
         | protocol | receive | tool | median p50 | median mean | windhover / tool, p50 (95 %) |\n|---|---|---|---|---|---|\n",
        options.rounds, options.seconds
    );
    for ((protocol, mode), row) in CASES.into_iter().zip(measured) {
        for (tool, figures) in tools.iter().zip(row).filter(|(_, figures)| !figures.is_empty()) {
            let p50 = |figures: &[Figure]| column(figures, |figure| figure.p50);
            let mean = |figures: &[Figure]| column(figures, |figure| figure.mean);
            let ratio = match tool {
                Tool::Windhover => "–".to_owned(),
                Tool::Netperf => format!("{}, of means", ratio_text(&mean(&row[0]), &mean(figures))),
                _ => ratio_text(&p50(&row[0]), &p50(figures)),
            };
            let (p50, mean) = (stats::median(&p50(figures)), stats::median(&mean(figures)));
            let _ = writeln!(text, "| {protocol} | {mode} | {} | {p50:.3} | {mean:.3} | {ratio} |", tool.name());
        }
    }
    text
}
