//! Ping-pong beside other tools: the same lab, CPUs, policy and size, all tools in every round.

use super::lab::Lab;
use crate::{packages, process, stats};
use anyhow::{Context as _, Result, bail};
use std::path::Path;

/// What is compared: protocol and receive mode of both ends.
const CASES: [(&str, &str); 4] = [("udp", "block"), ("udp", "spin"), ("tcp", "block"), ("tcp", "spin")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Windhover,
    Sockperf,
    Sfnt,
    Netperf,
}

impl Tool {
    fn name(self) -> &'static str {
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
struct Figure {
    p50: f64,
    mean: f64,
}

struct Bench<'a> {
    windhover: &'a Path,
    lab: &'a Lab,
    seconds: u32,
}

pub(crate) fn run(rounds: u32, seconds: u32, only: Option<&str>, output: Option<&Path>) -> Result<()> {
    packages::ensure(&["sockperf", "iproute2", "util-linux"], "for the comparison")?;
    let windhover = process::release_binary()?;
    let mut tools = vec![Tool::Windhover, Tool::Sockperf];
    for (tool, programs) in [(Tool::Sfnt, &["sfnt-pingpong"][..]), (Tool::Netperf, &["netperf", "netserver"][..])] {
        if programs.iter().all(|program| process::find(program).is_some()) {
            tools.push(tool);
        } else {
            println!("{} is not on the PATH and is left out", tool.name());
        }
    }
    let lab = Lab::up(&windhover, "bench")?;
    let measured = measure(&Bench { windhover: &windhover, lab: &lab, seconds }, &tools, rounds, only);
    drop(lab);
    let text = table(&measured?, &tools, rounds, seconds);
    println!("{text}");
    if let Some(file) = output {
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// One row a case: for each tool the figures of all rounds.
type Measured = Vec<Vec<Vec<Figure>>>;

fn measure(bench: &Bench<'_>, tools: &[Tool], rounds: u32, only: Option<&str>) -> Result<Measured> {
    let mut measured = vec![vec![Vec::new(); tools.len()]; CASES.len()];
    for round in 0..rounds as usize {
        for (case, (protocol, mode)) in CASES.into_iter().enumerate() {
            for turn in 0..tools.len() {
                let index = (turn + round) % tools.len();
                let tool = tools[index];
                if !tool.can(mode) || only.is_some_and(|only| only != protocol) {
                    continue;
                }
                let figure = bench
                    .once(tool, protocol, mode)
                    .with_context(|| format!("{} {protocol} {mode}, round {}", tool.name(), round + 1))?;
                measured[case][index].push(figure);
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(measured)
}

impl Bench<'_> {
    fn once(&self, tool: Tool, protocol: &str, mode: &str) -> Result<Figure> {
        let seconds = self.seconds.to_string();
        let address = self.lab.address();
        let spin = mode == "spin";
        let tcp = protocol == "tcp";
        let (server, client): (Vec<&str>, Vec<&str>) = match tool {
            Tool::Windhover => {
                let exe = self.windhover.to_str().context("path")?;
                let client = [
                    exe,
                    "pingpong",
                    protocol,
                    address,
                    "--size",
                    "32",
                    "--seconds",
                    &seconds,
                    "--receive",
                    mode,
                    "--cpu",
                    "0",
                    "--remote-cpu",
                    "1",
                    "--format",
                    "json",
                ];
                (vec![exe, "--quiet", "serve", "--bind", address], client.to_vec())
            }
            Tool::Sockperf => {
                let mut server = vec!["sockperf", "server", "-i", address];
                let mut client = vec!["sockperf", "ping-pong", "-i", address, "-m", "32", "-t", &seconds];
                for list in [&mut server, &mut client] {
                    if tcp {
                        list.push("--tcp");
                    }
                    if spin {
                        list.push("--nonblocked");
                    }
                }
                (server, client)
            }
            Tool::Sfnt => {
                let mut client = vec!["sfnt-pingpong", "--affinity", "0;1", "--sizes=32"];
                if spin {
                    client.push("--spin");
                }
                // It counts in ms and has 1 s as the default of both.
                client.extend([protocol, address]);
                (vec!["sfnt-pingpong"], client)
            }
            Tool::Netperf => {
                let test = if tcp { "TCP_RR" } else { "UDP_RR" };
                let client = vec![
                    "netperf",
                    "-4",
                    "-P",
                    "0",
                    "-H",
                    address,
                    "-t",
                    test,
                    "-l",
                    &seconds,
                    "-j",
                    "--",
                    "-r",
                    "32,32",
                    "-k",
                    "MEAN_LATENCY,P50_LATENCY",
                ];
                (vec!["netserver", "-D", "-N", "-4", "-L", address], client)
            }
        };
        let server = self.lab.serve(&server)?;
        let text = self.lab.client(&client)?;
        drop(server);
        parse(tool, &text)
    }
}

fn parse(tool: Tool, text: &str) -> Result<Figure> {
    let figure = match tool {
        Tool::Windhover => {
            let document: serde_json::Value = serde_json::from_str(text.trim()).context("result document")?;
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
        _ => bail!("cannot read what it printed: {}", text.chars().take(400).collect::<String>()),
    }
}

fn table(measured: &Measured, tools: &[Tool], rounds: u32, seconds: u32) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "32 bytes, {rounds} rounds of {seconds} s, all tools in every round, CPUs 0 and 1, SCHED_OTHER; RTT/2 in µs.\n"
    );
    let _ = writeln!(
        text,
        "| protocol | receive | tool | median p50 | median mean | windhover / tool, p50 (95 %) |\n|---|---|---|---|---|---|"
    );
    for ((protocol, mode), row) in CASES.into_iter().zip(measured) {
        let ours = &row[0];
        for (tool, figures) in tools.iter().zip(row) {
            if figures.is_empty() {
                continue;
            }
            let column = |pick: fn(&Figure) -> f64, of: &[Figure]| of.iter().map(pick).collect::<Vec<f64>>();
            let p50 = stats::median(&column(|figure| figure.p50, figures));
            let mean = stats::median(&column(|figure| figure.mean, figures));
            let ratio = match tool {
                Tool::Windhover => "–".to_owned(),
                Tool::Netperf => {
                    let (ratio, low, high) =
                        stats::ratio(&column(|figure| figure.mean, ours), &column(|figure| figure.mean, figures));
                    format!("{ratio:.3} ({low:.3} to {high:.3}), of means")
                }
                _ => {
                    let (ratio, low, high) =
                        stats::ratio(&column(|figure| figure.p50, ours), &column(|figure| figure.p50, figures));
                    format!("{ratio:.3} ({low:.3} to {high:.3})")
                }
            };
            let _ = writeln!(text, "| {protocol} | {mode} | {} | {p50:.3} | {mean:.3} | {ratio} |", tool.name());
        }
    }
    text
}
