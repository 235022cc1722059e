//! Benchmarks. None of them is a test: they print figures for docs/benchmarks.md and judge nothing by absolute times.

mod build;
mod bypass;
mod capture;
mod explain;
mod lab;
mod late;
mod pace;
mod peers;
mod pgm;
mod raw;
mod render;
mod shield;
mod stream;
mod timerlat;
mod wake;

use crate::process;
use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

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
    /// What `bypass run` is worth: blocking, behind `spin`, behind `xdp`, and spinning by itself, interleaved on one lab; many
    /// connections, redis, bulk data, and calls that it does not accelerate. Goals are shown as met or missed.
    Bypass(bypass::Arguments),
    /// What `--pcap` costs the ping-pong beside it, paired.
    Capture(capture::Arguments),
    /// How long a report of one hour at 40,000 messages a second takes, and how large it is.
    Render(render::Arguments),
    /// The four rates of the heat maps: whether they are reached, what is lost, how late messages leave.
    Pace(pace::Arguments),
    /// Explanations of late messages: cost of the recorder, named share, predicted tails, speed, self-test, timerlat. Goals are shown as met or missed.
    Explain(explain::Arguments),
    /// Cause of late messages of `pace`: with and without a CPU hog and a compiler, and with a stalled reflector.
    Late(late::Arguments),
    /// Maximum UDP datagrams a second and TCP throughput beside iperf3, iperf 2 and sockperf, interleaved on one lab.
    Stream(stream::Arguments),
    /// `pace pgm` beside OpenPGM at both ends: RTT at the four rates, CPU time, highest rate, repairs; interleaved.
    Pgm(pgm::Arguments),
    /// Packets a second that PGM's simulator carries: what the engines cost without sockets.
    PgmSim {
        /// Seconds a setting.
        #[arg(long, default_value_t = 3)]
        seconds: u32,
        #[command(flatten)]
        output: Output,
    },
    /// Timer wake-ups beside cyclictest, interleaved.
    Wake(wake::Arguments),
    /// What recording one sample costs.
    Record,
    /// CPU time and wall time of a first build, into an empty folder, beside their goals.
    FirstBuild(build::Arguments),
    /// From the start of the process to the first message.
    Startup {
        /// How often.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
    },
}

/// How often and how long a bench measures, with what, and where its table goes. The defaults are made here, since clap's
/// `default_value_t` has a static that all instances of a generic struct share.
#[derive(clap::Args)]
struct Options<const ROUNDS: u32, const SECONDS: u32> {
    /// Rounds; in each everything is measured once, in an order that rotates.
    #[arg(long, alias = "runs", default_value = &*ROUNDS.to_string().leak())]
    rounds: u32,
    /// Seconds a measurement.
    #[arg(long, default_value = &*SECONDS.to_string().leak())]
    seconds: u32,
    /// Measure with this binary instead of a release build.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl<const ROUNDS: u32, const SECONDS: u32> Options<ROUNDS, SECONDS> {
    fn binary(&self) -> Result<PathBuf> {
        match &self.binary {
            Some(binary) => binary.canonicalize().with_context(|| binary.display().to_string()),
            None => process::release_binary(),
        }
    }
}

/// Where a table goes.
#[derive(clap::Args)]
struct Output {
    /// Write the table to this Markdown file too.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Prints a table and the verdicts of its results, and writes both to the file.
    fn publish(&self, text: &str) -> Result<()> {
        let text = format!("{text}{}", VERDICTS.lock().unwrap_or_else(PoisonError::into_inner).text());
        println!("{text}");
        self.write(&text)
    }

    fn write(&self, text: &str) -> Result<()> {
        self.output.as_ref().map_or(Ok(()), |file| crate::files::write(file, text))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.bench {
        Bench::Peers(arguments) => peers::run(arguments),
        Bench::Pace(arguments) => pace::run(arguments),
        Bench::Explain(arguments) => explain::run(arguments),
        Bench::Late(arguments) => late::run(arguments),
        Bench::Shield(arguments) => shield::run(arguments),
        Bench::Bypass(arguments) => bypass::run(arguments),
        Bench::Capture(arguments) => capture::run(arguments),
        Bench::Stream(arguments) => stream::run(arguments),
        Bench::Pgm(arguments) => pgm::run(arguments),
        Bench::Wake(arguments) => wake::run(arguments),
        Bench::Record => {
            let example = ["--release", "--locked", "--package", "windhover-record", "--example", "ingest_cost"];
            println!("{}", process::output(&process::cargo(), &[&["run", "--quiet"], &example[..]].concat())?);
            Ok(())
        }
        Bench::FirstBuild(arguments) => build::run(arguments),
        Bench::Render(arguments) => render::run(arguments),
        Bench::PgmSim { seconds, output } => {
            let arguments = ["bench", "--quiet", "--locked", "--package", "windhover-pgm", "--bench", "sim_rate", "--"];
            output.publish(&process::output(&process::cargo(), &[&arguments[..], &[&seconds.to_string()]].concat())?)
        }
        Bench::Startup { rounds } => startup(*rounds),
    }
}

/// Start of the process to the first message, as the tool itself reports it.
fn startup(rounds: u32) -> Result<()> {
    let binary = process::release_binary()?;
    let mut serve = Command::new(&binary);
    serve.args(["--quiet", "serve", "--bind", "127.0.0.1:7499"]).stderr(Stdio::null());
    let server = process::Killed(serve.spawn().context("windhover serve")?);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let once = |binary: &Path| {
        let arguments = ["pingpong", "udp", "127.0.0.1:7499", "--count", "1000", "--format", "json"];
        Ok(number(&parsed(&printed(Command::new(binary).args(arguments))?)?, "self_cost/startup_ns")? / 1e6)
    };
    let ms = (0..rounds).map(|_| once(&binary)).collect::<Result<Vec<f64>>>()?;
    drop(server);
    let (median, worst) = (stats::median(&ms), ms.iter().copied().fold(0.0, f64::max));
    println!("start to first message, without warm-up: median {median:.1} ms, worst {worst:.1} ms of {rounds}");
    Ok(())
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
            for tool in stats::turns(tools, round) {
                of_case[tool].extend(measure(case, tool).with_context(|| format!("round {}", round + 1))?);
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(measured)
}

/// What a command prints that ends with 0, or with 4: `windhover` measured, but the result cannot be trusted.
fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(matches!(output.status.code(), Some(0 | 4)), "it ended with {}: {text}", output.status);
    Ok(text)
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).with_context(|| format!("it printed no result document: {text}"))
}

fn document(arm: &str, command: &mut Command) -> Result<Value> {
    judged(arm, &printed(command)?)
}

/// A result document of an arm. Its verdict is counted for what is published.
fn judged(arm: &str, text: &str) -> Result<Value> {
    let document = parsed(text)?;
    VERDICTS.lock().unwrap_or_else(PoisonError::into_inner).add(arm, &document);
    Ok(document)
}

/// The verdicts of all results of this process.
static VERDICTS: Mutex<Verdicts> = Mutex::new(Verdicts(BTreeMap::new()));

/// By arm: results, those that cannot be trusted, and how often which finding was the reason.
struct Verdicts(BTreeMap<String, (u32, u32, BTreeMap<String, u32>)>);

impl Verdicts {
    fn add(&mut self, arm: &str, document: &Value) {
        let (results, untrusted, findings) = self.0.entry(arm.to_owned()).or_default();
        *results += 1;
        if document["verdict"]["trusted"] == true {
            return;
        }
        *untrusted += 1;
        let invalid = document["verdict"]["invalid"].as_array().into_iter().flatten();
        let words: BTreeSet<&str> = invalid.filter_map(|finding| finding["id"].as_str()).collect();
        for word in words {
            *findings.entry(word.to_owned()).or_default() += 1;
        }
    }

    /// A paragraph below the tables; empty where no result was judged.
    fn text(&self) -> String {
        let of_arm = |(arm, (results, untrusted, findings)): (&String, &(u32, u32, BTreeMap<String, u32>))| {
            let words: Vec<String> = findings.iter().map(|(word, times)| format!("{word} {times}")).collect();
            format!("{arm}: {untrusted} of {results} ({})", words.join(", "))
        };
        let untrusted: Vec<String> =
            self.0.iter().filter(|(_, (_, untrusted, _))| *untrusted > 0).map(of_arm).collect();
        let results: u32 = self.0.values().map(|(results, ..)| results).sum();
        match (results, untrusted.is_empty()) {
            (0, _) => String::new(),
            (_, true) => format!("\nAll {results} results of windhover can be trusted.\n"),
            (_, false) => {
                let untrusted = untrusted.join("; ");
                format!(
                    "\nResults of windhover that cannot be trusted, with the findings; they are in the figures above: {untrusted}.\n"
                )
            }
        }
    }
}

/// The number at a path such as `latency/p50_ns`.
fn number(document: &Value, path: &str) -> Result<f64> {
    let found = path.split('/').fold(document, |value, key| &value[key]).as_f64();
    found.with_context(|| format!("the result has no {path}"))
}

/// CPU time of all children that were waited for, in s.
fn children_s() -> Result<f64> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(used.user_time()) + seconds(used.system_time()))
}

fn column<T>(rounds: &[T], pick: impl Fn(&T) -> f64) -> Vec<f64> {
    rounds.iter().map(pick).collect()
}

fn ratio_text(ours: &[f64], theirs: &[f64]) -> String {
    format!("{:.3}", stats::ratio(ours, theirs))
}

/// What a program printed that nothing could be read from.
fn unread(text: &str) -> anyhow::Error {
    anyhow::anyhow!("cannot read what it printed: {}", text.chars().take(400).collect::<String>())
}

#[cfg(test)]
mod unit {
    use serde_json::json;

    /// Catches: a result that cannot be trusted in a table that does not say so; a program that failed and printed figures.
    #[test]
    fn what_cannot_be_trusted_is_counted() {
        let mut verdicts = super::Verdicts(std::collections::BTreeMap::new());
        assert_eq!(verdicts.text(), "");
        verdicts.add("udp, block", &json!({"verdict": {"trusted": true, "invalid": []}}));
        assert_eq!(verdicts.text(), "\nAll 1 results of windhover can be trusted.\n");
        let twice =
            json!([{"id": "faults", "end": "initiator"}, {"id": "faults", "end": "reflector"}, {"id": "steal"}]);
        verdicts.add("udp, block", &json!({"verdict": {"trusted": false, "invalid": twice}}));
        assert!(verdicts.text().ends_with(": udp, block: 1 of 2 (faults 1, steal 1).\n"), "{}", verdicts.text());
        let ended =
            |code: &str| super::printed(std::process::Command::new("sh").args(["-c", &format!("echo 7; exit {code}")]));
        assert_eq!(ended("4").expect("measured"), "7\n");
        assert!(ended("1").expect_err("failed").to_string().contains("exit status: 1"));
    }

    #[test]
    fn each_bench_has_its_own_defaults() {
        let command = <super::Arguments as clap::Args>::augment_args(clap::Command::new("bench"));
        let default = |bench, flag| {
            let mut flags = command.find_subcommand(bench).expect("a bench").get_arguments();
            let flag = flags.find(|known| known.get_id() == flag).expect("a flag");
            flag.get_default_values().first().and_then(|value| value.to_str()).expect("a default").to_owned()
        };
        let defaults =
            ["peers", "pace", "pgm", "late"].map(|bench| [default(bench, "rounds"), default(bench, "seconds")]);
        assert_eq!(defaults, [["20", "1"], ["3", "10"], ["12", "8"], ["20", "2"]]);
    }
}
