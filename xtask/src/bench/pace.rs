//! The four rates of the heat maps: whether they are reached, what is lost, how late messages leave.

use super::lab::Lab;
use crate::{packages, process, stats};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;

const RATES: [u32; 4] = [10_000, 20_000, 30_000, 40_000];

/// One measurement; times in µs.
struct Figure {
    /// Reached of what was asked for, in percent.
    reached: f64,
    lost: f64,
    late_p50: f64,
    late_p99: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    intended_p99: f64,
}

pub(crate) fn run(rounds: u32, seconds: u32, policy: &str, output: Option<&Path>) -> Result<()> {
    packages::ensure(&["iproute2", "util-linux"], "for the lab")?;
    let windhover = process::release_binary()?;
    let lab = Lab::up(&windhover, "benchpace")?;
    let exe = windhover.to_string_lossy().into_owned();
    let mut measured: Vec<Vec<Figure>> = RATES.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds as usize {
        for turn in 0..RATES.len() {
            let at = (turn + round) % RATES.len();
            let figure = once(&lab, &exe, RATES[at], seconds, policy)
                .with_context(|| format!("{} a second, round {}", RATES[at], round + 1))?;
            measured[at].push(figure);
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    drop(lab);
    let text = table(&measured, rounds, seconds, policy);
    println!("{text}");
    if let Some(file) = output {
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn once(lab: &Lab, exe: &str, rate: u32, seconds: u32, policy: &str) -> Result<Figure> {
    let address = lab.address();
    let _server = lab.serve(&[exe, "--quiet", "serve", "--bind", address])?;
    let (rate, seconds) = (rate.to_string(), seconds.to_string());
    let arguments = [
        exe,
        "--quiet",
        "pace",
        "udp",
        address,
        "--rate",
        &rate,
        "--seconds",
        &seconds,
        "--size",
        "1000",
        "--policy",
        policy,
        "--remote-policy",
        policy,
        "--cpu",
        "0",
        "--receive-cpu",
        "1",
        "--remote-cpu",
        "1",
        "--receive-buffer",
        "4194304",
        "--format",
        "json",
    ];
    // The receiving thread has the other CPU, so the client may not be kept on one.
    let output = lab.command("a", "0,1", &arguments).output().context("windhover pace")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let document: serde_json::Value = serde_json::from_str(text.trim()).context("result document")?;
    let number = |path: &[&str]| {
        let found = path.iter().fold(&document, |value, key| &value[*key]).as_f64();
        found.with_context(|| format!("the result has no {}", path.join(".")))
    };
    Ok(Figure {
        reached: 100.0 * number(&["rate", "achieved_pps"])? / number(&["rate", "asked_pps"])?,
        lost: number(&["messages", "lost"])?,
        late_p50: number(&["lateness", "p50_ns"])? / 1e3,
        late_p99: number(&["lateness", "p99_ns"])? / 1e3,
        p50: number(&["latency", "p50_ns"])? / 1e3,
        p99: number(&["latency", "p99_ns"])? / 1e3,
        p999: number(&["latency", "p99_9_ns"])? / 1e3,
        intended_p99: number(&["latency_intended", "p99_ns"])? / 1e3,
    })
}

fn table(measured: &[Vec<Figure>], rounds: u32, seconds: u32, policy: &str) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "1000 bytes, {rounds} rounds of {seconds} s, {policy} at both ends, sender on CPU 0, receiver and far end on CPU 1, receive \
         buffers of 4 MiB; RTT and lateness in µs, medians over the rounds.\n"
    );
    let _ = writeln!(
        text,
        "| rate | reached, lowest to highest | lost in all | lateness p50 | p99, median (highest) | RTT p50 | p99 | p99.9 | p99 from the intended send |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for (rate, figures) in RATES.iter().zip(measured) {
        let column = |pick: fn(&Figure) -> f64| figures.iter().map(pick).collect::<Vec<f64>>();
        let median = |pick: fn(&Figure) -> f64| stats::median(&column(pick));
        let (low, high) = column(|one| one.reached)
            .into_iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        let worst = column(|one| one.late_p99).into_iter().fold(0.0_f64, f64::max);
        let _ = writeln!(
            text,
            "| {rate} | {low:.3} % to {high:.3} % | {:.0} | {:.1} | {:.1} ({worst:.1}) | {:.1} | {:.1} | {:.1} | {:.1} |",
            column(|one| one.lost).iter().sum::<f64>(),
            median(|one| one.late_p50),
            median(|one| one.late_p99),
            median(|one| one.p50),
            median(|one| one.p99),
            median(|one| one.p999),
            median(|one| one.intended_p99),
        );
    }
    text
}
