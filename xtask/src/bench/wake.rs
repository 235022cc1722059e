//! Timer wake-ups beside cyclictest: the same CPU, policy and interval, both tools in every round.

use super::{Options, column, document, interleaved, number, ratio_text, raw, unread};
use crate::{packages, process};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub(crate) type Arguments = Options<10, 5>;

/// Policies as `windhover wake` and as cyclictest have them.
const POLICIES: [(&str, &[&str]); 2] = [("fifo:80", &["--priority=80"]), ("other", &["--policy=other"])];
const TOOLS: [&str; 2] = ["windhover", "cyclictest"];
const CPU: &str = "0";
/// µs that cyclictest's histogram has room for.
const MOST_US: &str = "100000";

/// Wake-up latency in whole µs, rounded down: cyclictest has no finer one.
struct Figure {
    p50: f64,
    /// Of all deadlines; cyclictest does not have it.
    p99_all: Option<f64>,
    /// Of the deadlines that were slept until.
    p99: f64,
    max: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["rt-tests"], "for the comparison")?;
    let binary = arguments.binary()?;
    let measured = interleaved(arguments.rounds, [POLICIES.len(), TOOLS.len()], |policy, tool| {
        let figure = match tool {
            0 => ours(&binary, POLICIES[policy].0, arguments.seconds),
            _ => theirs(POLICIES[policy].1, arguments.seconds),
        };
        figure.map(Some).context(TOOLS[tool])
    })?;
    let mut text = format!(
        "Interval 1000 µs, CPU {CPU}, {} rounds of {} s, both tools in every round; µs, medians over the rounds. cyclictest leaves out \
         deadlines that pass while the thread is late. Windhover counts them; for the comparison they are left out of all columns \
         but one.\n\n\
         | policy | tool | p50 | p99 | max | p99 of all deadlines | windhover / cyclictest, p50 (95 %) | p99 (95 %) | max (95 %) |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        arguments.rounds, arguments.seconds
    );
    for ((policy, _), row) in POLICIES.iter().zip(&measured) {
        for (tool, figures) in TOOLS.iter().zip(row) {
            let of = |pick: fn(&Figure) -> f64| stats::median(&column(figures, pick));
            let ratio = |pick: fn(&Figure) -> f64| match *tool {
                "windhover" => ratio_text(&column(&row[0], pick), &column(&row[1], pick)),
                _ => "–".to_owned(),
            };
            let (p50, p99, max) = (of(|one| one.p50), of(|one| one.p99), of(|one| one.max));
            let all = figures.iter().map(|one| one.p99_all).collect::<Option<Vec<f64>>>();
            let all = all.map_or_else(|| "–".to_owned(), |all| format!("{:.0}", stats::median(&all)));
            let _ = writeln!(
                text,
                "| {policy} | {tool} | {p50:.0} | {p99:.0} | {max:.0} | {all} | {} | {} | {} |",
                ratio(|one| one.p50),
                ratio(|one| one.p99),
                ratio(|one| one.max)
            );
        }
    }
    arguments.output.publish(&text)
}

fn ours(binary: &Path, policy: &str, seconds: u32) -> Result<Figure> {
    let (prefix, seconds) = (process::target().join("bench"), seconds.to_string());
    let mut command = Command::new(binary);
    command.args(["wake", "--policy", policy, "--cpu", CPU, "--format", "json", "--seconds", &seconds]);
    let document = document(&format!("wake, {policy}"), command.arg("--raw").arg(&prefix))?;
    let us = |name: &str| Ok::<f64, anyhow::Error>((number(&document, &format!("latency/{name}"))? / 1e3).floor());
    let file = process::target().join("bench-wake.dat");
    let slept = slept_until(&crate::files::read(&file)?);
    std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    let of = |share: f64| raw::quantile(slept.clone(), share).floor();
    Ok(Figure { p50: of(0.5), p99_all: Some(us("p99_ns")?), p99: of(0.99), max: us("max_ns")? })
}

/// Latency in µs of the deadlines that were slept until, from lines of deadline and latency in ns: others had passed before.
fn slept_until(text: &str) -> Vec<f64> {
    let mut awake = f64::NEG_INFINITY;
    let lines = text.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let mut slept = Vec::new();
    for (due, late) in lines {
        if due > awake {
            awake = due + late;
            slept.push(late / 1e3);
        }
    }
    slept
}

fn theirs(policy: &[&str], seconds: u32) -> Result<Figure> {
    let duration = format!("--duration={seconds}");
    let affinity = format!("--affinity={CPU}");
    let histogram = format!("--histogram={MOST_US}");
    // By default it also keeps the CPUs out of idle states (/dev/cpu_dma_latency), which wake leaves to the machine.
    let fixed = [
        "--quiet",
        "--default-system",
        "--mlockall",
        "--threads=1",
        "--interval=1000",
        &duration,
        &affinity,
        &histogram,
    ];
    let text = process::output("cyclictest", &[&fixed[..], policy].concat())?;
    figure(&text).ok_or_else(|| unread(&text))
}

/// Reads the histogram: lines of µs and count, and the largest behind its name.
fn figure(text: &str) -> Option<Figure> {
    let counts = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<f64>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    });
    let counts: Vec<(f64, f64)> = counts.collect();
    let all: f64 = counts.iter().map(|(_, count)| count).sum();
    let quantile = |share: f64| {
        let mut below = 0.0;
        counts.iter().find(|(_, count)| {
            below += count;
            below >= share * all
        })
    };
    let max = text.lines().find_map(|line| line.strip_prefix("# Max Latencies:"))?.trim().parse().ok()?;
    Some(Figure { p50: quantile(0.5)?.0, p99_all: None, p99: quantile(0.99)?.0, max })
}

#[cfg(test)]
mod unit {
    /// Catches: deadlines that passed meanwhile among those that cyclictest has, too.
    #[test]
    fn deadlines_that_passed_meanwhile_are_left_out() {
        let text = "# deadline_ns wake_up_ns\n0 5000\n1000000 2000500\n2000000 1000500\n3000000 500\n4000000 7000\n";
        assert_eq!(super::slept_until(text), [5.0, 2000.5, 7.0]);
    }

    #[test]
    fn a_histogram_of_cyclictest_is_read() {
        let text = "# Histogram\n000000 000000\n000004 000060\n000005 000039\n000070 000001\n# Total: 000000100\n# Max Latencies: 00070\n";
        let figure = super::figure(text).expect("figures");
        assert_eq!([figure.p50, figure.p99, figure.max], [4.0, 5.0, 70.0]);
        assert!(super::figure("# Max Latencies: 00070\n").is_none());
    }
}
