//! The four rates of the heat maps: whether they are reached, what is lost, how late messages leave.

use super::lab::Lab;
use super::{Options, column, document, interleaved, number};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options<3, 10>,
    /// Policy of both ends.
    #[arg(long, default_value = "fifo:49")]
    policy: String,
}

const RATES: [u32; 4] = [10_000, 20_000, 30_000, 40_000];

/// What is read of a result: the share of the rate that was reached, messages lost, and times in µs.
const PATHS: [(&str, f64); 8] = [
    ("rate/achieved_pps", 1.0),
    ("messages/lost", 1.0),
    ("lateness/p50_ns", 1e-3),
    ("lateness/p99_ns", 1e-3),
    ("latency/p50_ns", 1e-3),
    ("latency/p99_ns", 1e-3),
    ("latency/p99_9_ns", 1e-3),
    ("latency_intended/p99_ns", 1e-3),
];
type Figure = [f64; PATHS.len()];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    let lab = Lab::up(&options.binary()?)?;
    let measured = interleaved(options.rounds, [1, RATES.len()], |_, at| {
        once(&lab, RATES[at], arguments).map(Some).with_context(|| format!("{} a second", RATES[at]))
    })?;
    drop(lab);
    options.output.publish(&table(&measured[0], arguments))
}

fn once(lab: &Lab, rate: u32, Arguments { options, policy }: &Arguments) -> Result<Figure> {
    let _server = lab.endpoint()?;
    let line = format!(
        "windhover --quiet pace udp {} --rate {rate} --seconds {} --size 1000 --policy {policy} --remote-policy {policy} \
         --cpu 0 --receive-cpu 1 --remote-cpu 1 --receive-buffer 4194304 --format json",
        lab.address(),
        options.seconds
    );
    // The receiving thread has the other CPU, so the client may not be kept on one.
    let document = document(&format!("{rate}/s"), &mut lab.command("a", "0,1", &line))?;
    let mut figure = [0.0; PATHS.len()];
    for (value, (path, scale)) in figure.iter_mut().zip(PATHS) {
        *value = number(&document, path)? * scale;
    }
    Ok(figure)
}

fn table(measured: &[Vec<Figure>], Arguments { options, policy }: &Arguments) -> String {
    let mut text = format!(
        "1000 bytes, {} rounds of {} s, {policy} at both ends, sender on CPU 0, receiver and far end on CPU 1, receive \
         buffers of 4 MiB; RTT and lateness in µs, medians over the rounds.\n\n\
         | rate | reached, lowest to highest | lost in all | lateness p50 | p99, median (highest) | RTT p50 | p99 | p99.9 | p99 from the intended send |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        options.rounds, options.seconds
    );
    for (rate, figures) in RATES.iter().zip(measured) {
        let of = |at: usize| column(figures, |one| one[at]);
        let extreme = |at, pick: fn(f64, f64) -> f64| of(at).into_iter().reduce(pick).unwrap_or(f64::NAN);
        let [low, high] = [f64::min, f64::max].map(|pick| 100.0 * extreme(0, pick) / f64::from(*rate));
        let (lost, worst) = (of(1).iter().sum::<f64>(), extreme(3, f64::max));
        let [late_p50, late_p99, p50, p99, p999, intended] = [2, 3, 4, 5, 6, 7].map(|at| stats::median(&of(at)));
        let _ = writeln!(
            text,
            "| {rate} | {low:.3} % to {high:.3} % | {lost:.0} | {late_p50:.1} | {late_p99:.1} ({worst:.1}) | {p50:.1} | {p99:.1} | \
             {p999:.1} | {intended:.1} |",
        );
    }
    text
}
