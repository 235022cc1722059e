//! The four rates of the heat maps: whether they are reached, what is lost, how late messages leave.

use super::lab::Lab;
use super::{Output, document, interleaved, number};
use crate::{packages, process, stats};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; in each every rate is measured once, in an order that rotates.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds a measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Policy of both ends.
    #[arg(long, default_value = "fifo:50")]
    policy: String,
    #[command(flatten)]
    output: Output,
}

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

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["iproute2", "util-linux"], "for the lab")?;
    let lab = Lab::up(&process::release_binary()?, "benchpace")?;
    let measured = interleaved(arguments.rounds, [1, RATES.len()], |_, at| {
        once(&lab, RATES[at], arguments).map(Some).with_context(|| format!("{} a second", RATES[at]))
    })?;
    drop(lab);
    arguments.output.publish(&table(&measured[0], arguments))
}

fn once(lab: &Lab, rate: u32, Arguments { seconds, policy, .. }: &Arguments) -> Result<Figure> {
    let _server = lab.endpoint()?;
    let line = format!(
        "windhover --quiet pace udp {} --rate {rate} --seconds {seconds} --size 1000 --policy {policy} --remote-policy {policy} \
         --cpu 0 --receive-cpu 1 --remote-cpu 1 --receive-buffer 4194304 --format json",
        lab.address()
    );
    // The receiving thread has the other CPU, so the client may not be kept on one.
    let document = document(&mut lab.command("a", "0,1", &line))?;
    let us = |path: &str| number(&document, path).map(|ns| ns / 1e3);
    Ok(Figure {
        reached: 100.0 * number(&document, "rate/achieved_pps")? / number(&document, "rate/asked_pps")?,
        lost: number(&document, "messages/lost")?,
        late_p50: us("lateness/p50_ns")?,
        late_p99: us("lateness/p99_ns")?,
        p50: us("latency/p50_ns")?,
        p99: us("latency/p99_ns")?,
        p999: us("latency/p99_9_ns")?,
        intended_p99: us("latency_intended/p99_ns")?,
    })
}

fn table(measured: &[Vec<Figure>], Arguments { rounds, seconds, policy, .. }: &Arguments) -> String {
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
