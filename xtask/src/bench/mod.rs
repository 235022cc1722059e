//! Benchmarks. None of them is a test: they print figures for docs/benchmarks.md and judge nothing by absolute times.

mod bypass;
mod capture;
mod lab;
mod late;
mod pace;
mod peers;
mod pgm;
mod pgm_sim;
mod raw;
mod render;
mod shield;
mod startup;
mod stream;

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Ping-pong beside sockperf and, where they are on the PATH, sfnt-pingpong and netperf, interleaved on one lab.
    Peers(peers::Arguments),
    /// What a shield is worth: p99.99 and standard deviation without and with it, and the stalls by throttling.
    Shield(shield::Arguments),
    /// What `bypass run --stack spin` is worth: blocking, behind it, and spinning by itself, interleaved on one lab; and what
    /// calls cost that it does not accelerate.
    Bypass(bypass::Arguments),
    /// What `--pcap` costs the ping-pong beside it, paired.
    Capture(capture::Arguments),
    /// How long a report of one hour at 40,000 messages a second takes, and how large it is.
    Render(render::Arguments),
    /// The four rates of the heat maps: whether they are reached, what is lost, how late messages leave.
    Pace(pace::Arguments),
    /// Cause of late messages of `pace`: with and without a CPU hog and a compiler, and with a stalled reflector.
    Late(late::Arguments),
    /// Maximum UDP datagrams a second and TCP throughput beside iperf3, iperf 2 and sockperf, interleaved on one lab.
    Stream(stream::Arguments),
    /// `pace pgm` beside OpenPGM at both ends: RTT at the four rates, CPU time, highest rate, repairs; interleaved.
    Pgm(pgm::Arguments),
    /// Packets a second that PGM's simulator carries: what the engines cost without sockets.
    PgmSim(pgm_sim::Arguments),
    /// What recording one sample costs.
    Record,
    /// From the start of the process to the first message.
    Startup {
        /// How often.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
    },
}

/// Where a table goes.
#[derive(clap::Args)]
struct Output {
    /// Write the table to this Markdown file too.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Prints a table, and writes it to the file.
    fn publish(&self, text: &str) -> Result<()> {
        println!("{text}");
        self.write(text)
    }

    fn write(&self, text: &str) -> Result<()> {
        self.output.as_ref().map_or(Ok(()), |file| crate::files::write(file, text))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.bench {
        Bench::Peers(arguments) => peers::run(arguments),
        Bench::Pace(arguments) => pace::run(arguments),
        Bench::Late(arguments) => late::run(arguments),
        Bench::Shield(arguments) => shield::run(arguments),
        Bench::Bypass(arguments) => bypass::run(arguments),
        Bench::Capture(arguments) => capture::run(arguments),
        Bench::Stream(arguments) => stream::run(arguments),
        Bench::Pgm(arguments) => pgm::run(arguments),
        Bench::Record => crate::process::run(
            &crate::process::cargo(),
            &["run", "--release", "--locked", "--package", "windhover-record", "--example", "ingest_cost"],
        ),
        Bench::Render(arguments) => render::run(arguments),
        Bench::PgmSim(arguments) => pgm_sim::run(arguments),
        Bench::Startup { rounds } => startup::run(*rounds),
    }
}

/// For each case and tool the figures of all rounds.
type Measured<T> = Vec<Vec<Vec<T>>>;

/// Measures each case with every tool once a round, in an order of the tools that rotates; `None` where a tool cannot.
fn interleaved<T>(
    rounds: u32,
    [cases, tools]: [usize; 2],
    mut measure: impl FnMut(usize, usize) -> Result<Option<T>>,
) -> Result<Measured<T>> {
    let mut measured: Measured<T> =
        (0..cases).map(|_| std::iter::repeat_with(Vec::new).take(tools).collect()).collect();
    for round in 0..rounds as usize {
        for (case, of_case) in measured.iter_mut().enumerate() {
            for turn in 0..tools {
                let tool = (turn + round) % tools;
                of_case[tool].extend(measure(case, tool).with_context(|| format!("round {}", round + 1))?);
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(measured)
}

/// The result document that a command prints.
fn document(command: &mut Command) -> Result<Value> {
    let output = command.output().with_context(|| format!("{:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).with_context(|| format!("it printed no result document: {text}"))
}

/// The number at a path such as `latency/p50_ns`.
fn number(document: &Value, path: &str) -> Result<f64> {
    let found = path.split('/').fold(document, |value, key| &value[key]).as_f64();
    found.with_context(|| format!("the result has no {path}"))
}

/// The ratio of two columns with its interval, in a table.
fn ratio_text(ours: &[f64], theirs: &[f64]) -> String {
    let (ratio, low, high) = crate::stats::ratio(ours, theirs);
    format!("{ratio:.3} ({low:.3} to {high:.3})")
}

/// What a program printed that nothing could be read from.
fn unread(text: &str) -> anyhow::Error {
    anyhow::anyhow!("cannot read what it printed: {}", text.chars().take(400).collect::<String>())
}
