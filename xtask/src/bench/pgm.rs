//! `pace pgm` beside OpenPGM at both ends: the same lab, CPUs, policy, schedule and timers, interleaved.
//!
//! `openpgm.c` is built first. CPU time before and after the messages is removed by a short and a long measurement.
//! With losses, figures come from raw files by the same rules.

use super::lab::Lab;
use super::{Options, children_s, column, interleaved, judged, number, parsed, ratio_text, raw};
use crate::{packages, process};
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    // Short measurements are all chance where the machine is slow for a moment every few seconds.
    #[command(flatten)]
    options: Options<12, 8>,
    /// What carries the packets: udp or raw (IP protocol 113).
    #[arg(long, default_value = "udp")]
    carrier: String,
}

const RATES: [u32; 4] = [10_000, 20_000, 30_000, 40_000];
/// The rate at which CPU time is counted, and how long.
const CPU_RATE: u32 = 20_000;
const CPU_SECONDS: u32 = 3;
/// The rate at which datagrams are dropped.
const LOSS_RATE: u32 = 10_000;
/// Rates tried for the highest without loss: each so much more than the one before, from here on.
const LADDER_FROM: f64 = 28_000.0;
const LADDER_STEP: f64 = 1.2;
const LADDER_TOP: f64 = 1_000_000.0;
/// Achieved of what was asked for, at least, or the rate does not count.
const ACHIEVED: f64 = 0.99;
const GROUP: &str = "239.192.7.1";
const REPLY_GROUP: &str = "239.192.7.2";
const UDP_PORT: &str = "3056";
const BYTES: &str = "1000";
/// The far end shares its CPU with the receiver, which a second host would not: one priority below, it lets it in.
const PRIORITY: &str = "50";
const FAR_PRIORITY: &str = "49";
/// Longest that a client may take beside what it measures.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Windhover,
    OpenPgm,
}

const TOOLS: [Tool; 2] = [Tool::Windhover, Tool::OpenPgm];

/// Times of a measurement, and where both tools have them behind the name of the distribution.
const TIMES: [(&str, &str); 4] = [
    ("RTT p50 at", "/p50_ns"),
    ("RTT p99 at", "/p99_ns"),
    // A sender that waits for a lock or a full queue cannot hide it there.
    ("from the intended send, p50, at", "_intended/p50_ns"),
    ("from the intended send, p99, at", "_intended/p99_ns"),
];

#[derive(Debug, Clone, Copy)]
struct Figure {
    achieved: f64,
    messages: f64,
    lost: f64,
    times_us: [f64; TIMES.len()],
    cpu_s: f64,
}

/// What host `b` drops, in the words of nftables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    /// Data that is sent for the first time, so that no repair is lost again.
    Data,
    /// Anything multicast: data, repairs, NCFs and SPMs.
    Any,
}

/// Times of a measurement with loss: of the repaired messages, of all, and of all from the intended send.
const LOSSY_TIMES: [(&str, usize, f64); 6] = [
    ("repaired messages, RTT p50,", 0, 0.5),
    ("repaired messages, RTT p99,", 0, 0.99),
    ("RTT p99", 1, 0.99),
    ("RTT p99.9", 1, 0.999),
    ("from the intended send, p99,", 2, 0.99),
    ("from the intended send, p99.9,", 2, 0.999),
];

struct Lossy {
    lost: f64,
    repaired: usize,
    times_us: [f64; LOSSY_TIMES.len()],
}

struct Bench<'a> {
    lab: Lab,
    carrier: &'a str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["libpgm-dev", "gcc", "libc6-dev", "pkg-config", "nftables"], "for the comparison")?;
    let Options { rounds, seconds, .. } = arguments.options;
    let lab = Lab::up(&arguments.options.binary()?)?.with_program("openpgm", build()?);
    let bench = Bench { lab, carrier: &arguments.carrier };
    let mut text = format!(
        "{BYTES} bytes, {rounds} rounds of {seconds} s, both in every round, {} encapsulation, sender on CPU 0, receiver and far \
         end on CPU 1, SCHED_FIFO {PRIORITY}, the far end {FAR_PRIORITY}, back-off 2 ms, repeat and data 20 ms; times in \
         µs, medians over the rounds.\n\n| what | windhover | OpenPGM | windhover / OpenPGM (95 %) |\n|---|---|---|---|\n",
        if arguments.carrier == "raw" { "no" } else { "UDP" }
    );
    for rate in RATES {
        let pairs =
            bench.interleaved(rounds, |bench, tool| bench.once(tool, f64::from(rate), seconds, Some("timed")))?;
        for (at, (what, _)) in TIMES.iter().enumerate() {
            row(&mut text, &format!("{what} {rate}/s"), &pairs, |one| one.times_us[at]);
        }
        let lost: f64 = pairs.iter().flatten().map(|one| one.lost).sum();
        eprintln!("{rate}/s: {lost} lost");
    }
    let cpu = bench.interleaved(rounds, |bench, tool| {
        let short = bench.once(tool, f64::from(CPU_RATE), 1, Some("CPU time"))?;
        let long = bench.once(tool, f64::from(CPU_RATE), 1 + CPU_SECONDS, Some("CPU time"))?;
        Ok(1e6 * (long.cpu_s - short.cpu_s) / (long.messages - short.messages))
    })?;
    row(&mut text, &format!("CPU time a message, both ends, at {CPU_RATE}/s"), &cpu, |one| *one);
    let highest = bench.interleaved(rounds, |bench, tool| bench.highest(tool))?;
    row(&mut text, "highest rate without loss, messages/s", &highest, |one| *one);
    let mut never = 0.0;
    for (dropped, what) in [(Dropped::Data, "1 % of the data dropped"), (Dropped::Any, "1 % of all multicast dropped")]
    {
        bench.drop_one_in_a_hundred(dropped)?;
        let pairs = bench.interleaved(rounds, |bench, tool| bench.lossy(tool, seconds))?;
        for (at, (times, of, _)) in LOSSY_TIMES.iter().enumerate() {
            // A repair that is lost again says nothing of how quick repairs are.
            if *of > 0 || dropped == Dropped::Data {
                let what = format!("{times} at {LOSS_RATE}/s, {what}");
                row(&mut text, &what, &pairs, |one| one.times_us[at]);
            }
        }
        let repaired: usize = pairs.iter().flatten().map(|one| one.repaired).sum();
        eprintln!("{what}: {repaired} repairs that others waited for");
        never += pairs.iter().flatten().map(|one| one.lost).sum::<f64>();
    }
    let _ = writeln!(text, "\nNever delivered with 1 % dropped, both: {never:.0}.");
    arguments.options.output.publish(&text)
}

fn build() -> Result<PathBuf> {
    let program = process::target().join("openpgm-bench");
    let flags = process::output("pkg-config", &["--cflags", "--libs", "openpgm-5.3"])?;
    let source = process::root().join("xtask/src/bench/openpgm.c");
    let (program_name, source_name) = (program.to_string_lossy(), source.to_string_lossy());
    // The socket is made as in the tests.
    let beside = format!("-I{}", process::root().join("crates/windhover/tests/interop").display());
    let mut arguments = vec!["-O2", "-Wall", "-rdynamic", &beside, "-o", &program_name, &source_name];
    arguments.extend(flags.split_whitespace());
    arguments.push("-lpthread");
    process::run("gcc", &arguments)?;
    Ok(program)
}

impl Bench<'_> {
    /// One figure of each tool a round.
    fn interleaved<T>(&self, rounds: u32, measure: impl Fn(&Self, Tool) -> Result<T>) -> Result<Vec<Vec<T>>> {
        let measured = interleaved(rounds, [1, TOOLS.len()], |_, tool| {
            measure(self, TOOLS[tool]).map(Some).with_context(|| format!("{:?}", TOOLS[tool]))
        });
        Ok(measured?.swap_remove(0))
    }

    /// `part`: what its verdict is counted for; absent where a rate may be too high.
    fn once(&self, tool: Tool, rate: f64, seconds: u32, part: Option<&str>) -> Result<Figure> {
        let before = children_s()?;
        let text = match tool {
            Tool::Windhover => self.windhover(rate, seconds, |client| client.args(["--format", "json"]))?,
            Tool::OpenPgm => self.openpgm(rate, seconds, |client| client)?,
        };
        let cpu_s = children_s()? - before;
        let document = match part.filter(|_| tool == Tool::Windhover) {
            Some(part) => judged(&format!("{part}, {rate:.0}/s"), &text)?,
            None => parsed(&text).with_context(|| format!("{tool:?}"))?,
        };
        let [rate, sent, answered, rtt] = match tool {
            Tool::Windhover => ["rate/", "messages/sent", "messages/received", "latency"],
            Tool::OpenPgm => ["", "sent", "answered", "rtt"],
        };
        let number = |path: &str| number(&document, path);
        let mut times_us = [0.0; TIMES.len()];
        for (us, (_, behind)) in times_us.iter_mut().zip(TIMES) {
            *us = number(&format!("{rtt}{behind}"))? / 1e3;
        }
        let achieved = number(&format!("{rate}achieved_pps"))? / number(&format!("{rate}asked_pps"))?;
        let messages = number(sent)?;
        Ok(Figure { achieved, messages, lost: messages - number(answered)?, times_us, cpu_s })
    }

    /// One measurement while host `b` drops datagrams.
    fn lossy(&self, tool: Tool, seconds: u32) -> Result<Lossy> {
        let rate = f64::from(LOSS_RATE);
        let prefix = process::target().join("pgm-bench");
        let file = process::target().join(format!("pgm-bench-{BYTES}-{LOSS_RATE}.dat"));
        match tool {
            Tool::Windhover => {
                self.windhover(rate, seconds, |client| client.args(["--format", "sfnt", "--raw"]).arg(&prefix))?
            }
            Tool::OpenPgm => self.openpgm(rate, seconds, |client| client.arg(&file))?,
        };
        let messages = raw::answered(raw::read(&file)?);
        std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
        let repaired = raw::repaired_us(&messages, 1e6 / f64::from(LOSS_RATE));
        let lost = f64::from(LOSS_RATE * seconds) - messages.len() as f64;
        let (count, times) = (repaired.len(), [repaired, raw::rtt_us(&messages), raw::intended_us(&messages)]);
        let times_us = LOSSY_TIMES.map(|(_, of, share)| raw::quantile(times[of].clone(), share));
        Ok(Lossy { lost, repaired: count, times_us })
    }

    fn windhover(&self, rate: f64, seconds: u32, with: impl Fn(&mut Command) -> &mut Command) -> Result<String> {
        let _server = self.lab.endpoint()?;
        let (address, carrier) = (self.lab.address(), self.carrier);
        let line = format!(
            "windhover --quiet pace pgm {GROUP} {address} --rate {rate:.0} --seconds {seconds} --warmup 200 --size {BYTES} \
             --policy fifo:{PRIORITY} --remote-policy fifo:{FAR_PRIORITY} --cpu 0 --receive-cpu 1 --remote-cpu 1 \
             --receive-buffer 4194304 --carrier {carrier} --bandwidth 4G --back-off 2ms --repeat 20ms --data 20ms"
        );
        self.client(&line, with)
    }

    fn openpgm(&self, rate: f64, seconds: u32, with: impl Fn(&mut Command) -> &mut Command) -> Result<String> {
        let port = if self.carrier == "raw" { "0" } else { UDP_PORT };
        let (near, far) = (self.lab.near(), self.lab.address());
        let groups = format!("{GROUP} {REPLY_GROUP} {port}");
        let _server = self.lab.serve(&format!("openpgm reflect {far} {groups} 0 0 {BYTES} {FAR_PRIORITY} 1 1"))?;
        self.client(&format!("openpgm initiate {near} {groups} {rate:.0} {seconds} {BYTES} {PRIORITY} 0 1"), with)
    }

    /// What a client on host `a` prints; its threads choose their CPUs.
    fn client(&self, line: &str, with: impl Fn(&mut Command) -> &mut Command) -> Result<String> {
        let mut command = self.lab.command("a", "0,1", line);
        let mut child = with(&mut command).stdout(Stdio::piped()).spawn().context("cannot start the client")?;
        // A line or two: they fit the pipe, so the child never waits for its reader.
        if process::wait(&mut child, LIMIT)?.is_none() {
            bail!("{line} did not end within {} s", LIMIT.as_secs());
        }
        let output = child.wait_with_output().context("reading the client")?;
        ensure!(matches!(output.status.code(), Some(0 | 4)), "{line} ended with {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The highest rate of the ladder at which every message was answered and left in time, in one of two tries.
    fn highest(&self, tool: Tool) -> Result<f64> {
        let (mut rate, mut best) = (LADDER_FROM, LADDER_FROM / LADDER_STEP);
        while rate < LADDER_TOP && (self.keeps_up(tool, rate)? || self.keeps_up(tool, rate)?) {
            best = rate;
            rate *= LADDER_STEP;
        }
        Ok(best)
    }

    fn keeps_up(&self, tool: Tool, rate: f64) -> Result<bool> {
        match self.once(tool, rate, 1, None) {
            Ok(figure) => Ok(figure.lost == 0.0 && figure.achieved >= ACHIEVED),
            // It ends by an assertion now and then when it cannot keep up.
            Err(error) if tool == Tool::OpenPgm => {
                eprintln!("{error:#}");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// From here on the far host drops one in a hundred of these datagrams that come in.
    fn drop_one_in_a_hundred(&self, dropped: Dropped) -> Result<()> {
        // The type is the fifth byte of a packet (RFC 3208, section 8), and ODATA is 4.
        let which = match (dropped, self.carrier) {
            (Dropped::Any, _) => "",
            (Dropped::Data, "raw") => "meta l4proto 113 @th,32,8 4",
            (Dropped::Data, _) => "meta l4proto udp @th,96,8 4",
        };
        let rules = format!(
            "add table ip bench; \
             add chain ip bench in {{ type filter hook input priority 0; }}; \
             flush chain ip bench in; \
             add rule ip bench in ip daddr 224.0.0.0/4 {which} numgen random mod 100 < 1 drop"
        );
        process::finish(self.lab.command("b", "0,1", "nft").arg(&rules))
    }
}

fn row<T>(text: &mut String, what: &str, measured: &[Vec<T>], pick: impl Fn(&T) -> f64) {
    let [ours, theirs] = [0, 1].map(|tool| column(&measured[tool], &pick));
    let ratio = ratio_text(&ours, &theirs);
    let (our, their) = (stats::median(&ours), stats::median(&theirs));
    let digits = if their >= 1000.0 { 0 } else { 1 };
    let _ = writeln!(text, "| {what} | {our:.digits$} | {their:.digits$} | {ratio} |");
    eprintln!("{what}: {our:.digits$} {their:.digits$} {ratio}");
}
