//! Flags of the measuring commands.

use super::Format;
use super::against::Against;
use super::factors::{Flags, PingFlags, WakeFlags};
use super::shared::{Family, FormArgs};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use model::plan::{BuiltInStack, STACKS};
use model::{CpuList, ModelError, Probe, ProbeSpec, Protocol, SizeList, StopRule, factor};
use std::path::PathBuf;

fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let listed = Protocol::ALL.into_iter().filter(|protocol| protocol.is_named());
    PossibleValuesParser::new(listed.map(|protocol| PossibleValue::new(protocol.word()).help(protocol.about())))
        .try_map(|word| word.parse())
}

/// Where the far end is.
#[derive(Debug, Args)]
pub(crate) struct Peer {
    /// What carries the messages
    #[arg(value_parser = protocol())]
    pub(crate) protocol: Protocol,
    /// The endpoint, as ADDR, ADDR:PORT, [V6]:PORT or a host name; not for unix-stream, unix-dgram and pipe
    #[arg(value_name = "ADDR[:PORT]")]
    pub(crate) address: Option<String>,
    /// The endpoint too, in the place of ADDR: for --against '--address ADDR'
    #[arg(long = "address", value_name = "ADDR[:PORT]", conflicts_with = "address", hide_short_help = true)]
    named: Option<String>,
    /// Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the
    /// measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag
    #[arg(long, alias = "forkboth")]
    pub(crate) fork_both: bool,
    /// File with the endpoint's key (see `windhover key`)
    #[arg(long, value_name = "FILE", env = "WINDHOVER_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Run this end, with --fork-both also the far end, behind a network stack of `windhover bypass run`; without --fork-both
    /// start the far end by `windhover bypass run --stack STACK -- windhover serve`
    #[arg(long, value_parser = stack(), hide_short_help = true)]
    stack: Option<String>,
    #[command(flatten)]
    pub(crate) family: Family,
}

fn stack() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once("kernel").chain(STACKS.iter().map(|stack| stack.name)))
}

impl Peer {
    pub(crate) fn endpoint(&self) -> Option<&String> {
        self.named.as_ref().or(self.address.as_ref())
    }

    pub(crate) fn stack(&self) -> Option<&'static BuiltInStack> {
        STACKS.iter().find(|stack| Some(stack.name) == self.stack.as_deref())
    }

    /// Has the verdict check that data sockets are carried by the stack asked for.
    pub(crate) fn claim_stack(&self, spec: &mut ProbeSpec) {
        let name = self.stack().map(|stack| stack.name.to_owned());
        spec.reflector.stack = name.clone().filter(|_| self.fork_both);
        spec.initiator.stack = name;
    }
}

/// What comes out.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    #[command(flatten)]
    pub(crate) form: FormArgs<Format>,
    /// Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with
    /// the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)
    #[arg(hide_short_help = true, long, value_name = "PREFIX")]
    pub(crate) raw: Option<PathBuf>,
    /// The percentile of the %ile column of --format sfnt [default: 99]
    #[arg(hide_short_help = true, long, value_name = "P", value_parser = percentile)]
    pub(crate) percentile: Option<f64>,
    /// The end of the histogram of `wake` in µs, where one is asked for.
    #[arg(skip)]
    pub(crate) histogram_us: Option<u32>,
    /// Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`
    #[arg(long, hide_short_help = true)]
    pub(crate) ladder: bool,
}

fn percentile(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("use 0 to 100".to_owned()) }
}

/// `windhover pingpong`, `windhover rr` and `windhover cycle`: the probe at this place in [`Probe::ALL`].
#[derive(Debug, Args)]
pub(crate) struct Rounds<const PROBE: usize> {
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) flags: Flags<PROBE>,
    #[command(flatten)]
    pub(crate) pcap: super::dump::Pcap,
    #[command(flatten)]
    pub(crate) against: Against,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) type Pingpong = Rounds<{ Probe::Pingpong as usize }>;
pub(crate) type Rr = Rounds<{ Probe::Rr as usize }>;
pub(crate) type Cycle = Rounds<{ Probe::Cycle as usize }>;

#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// The host
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    #[command(flatten)]
    pub(crate) family: Family,
    #[command(flatten)]
    pub(crate) flags: PingFlags,
    #[command(flatten)]
    pub(crate) against: Against,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// `windhover wake`. Its letters are cyclictest's.
#[derive(Debug, Args)]
pub(crate) struct Wake {
    #[command(flatten)]
    pub(crate) flags: WakeFlags,
    /// One thread on each CPU that this process may run on
    #[arg(long, short = 'S', conflicts_with = "cpu")]
    smp: bool,
    /// Also print the histogram, as cyclictest does: one line for each µs below US. `-h` alone prints help
    #[arg(long, short = 'h', value_name = "US", num_args = 0..=1, default_missing_value = "0", help_heading = "Output",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000), conflicts_with_all = ["format", "json"])]
    pub(crate) histogram: Option<u32>,
    /// Print help with all flags
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,
    /// As --quiet, in the letter of cyclictest
    #[arg(short = 'q', hide = true)]
    pub(crate) is_quiet: bool,
    /// What cyclictest asks for and is always so here: locked memory, clock_nanosleep
    #[arg(
        long = "mlockall",
        short = 'm',
        short_alias = 'n',
        alias = "nanosleep",
        hide = true,
        overrides_with = "always"
    )]
    always: bool,
    #[command(flatten)]
    pub(crate) against: Against,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Longer sweeps measure a second each: with more, a slow path would take longer than a session.
pub(super) const MOST_UNTIL_KNOWN: usize = 20;

impl FormArgs<Format> {
    /// Refuses the columns of a tool that measures nothing alike.
    pub(super) fn not_sfnt(&self, what: &str) -> Result<(), ModelError> {
        if self.get() != Format::Sfnt {
            return Ok(());
        }
        let what = format!("sfnt-pingpong has no columns for {what}");
        Err(ModelError::conflict(what, "use --format table, json, csv or markdown"))
    }
}

impl Output {
    /// Puts what was typed into a specification with the command's own defaults, and checks it.
    pub(super) fn fill<const PROBE: usize>(
        &self,
        flags: &Flags<PROBE>,
        mut spec: ProbeSpec,
    ) -> Result<ProbeSpec, ModelError> {
        let has_length = ["seconds", "count"].iter().any(|name| flags.has(name));
        if flags.has("interval_percent") && !has_length {
            spec.stop.max_ms = 60_000;
        }
        flags.fill(&mut spec)?;
        spec.raw = self.raw.is_some();
        spec.check()?;
        Ok(spec)
    }
}

impl<const PROBE: usize> Rounds<PROBE> {
    pub(crate) fn spec(&self) -> Result<ProbeSpec, ModelError> {
        let mut spec = ProbeSpec::new(Probe::ALL[PROBE], self.peer.protocol);
        spec.rtt |= spec.probe() != Probe::Pingpong;
        let limits = ["seconds", "count", "min_seconds", "min_count", "interval_percent"];
        let has_limit = limits.iter().any(|name| self.flags.has(name));
        let mut spec = self.output.fill(&self.flags, spec)?;
        if !has_limit && spec.foreign.is_empty() && spec.sizes.len() <= MOST_UNTIL_KNOWN {
            spec.stop = StopRule::UNTIL_KNOWN;
        }
        Ok(spec)
    }
}

impl Ping {
    /// The measurement asked for: 20 echoes of 56 bytes in steps of 100 ms, as ping(8), without warm-up.
    pub(crate) fn spec(&self) -> Result<ProbeSpec, ModelError> {
        let mut spec = ProbeSpec::new(Probe::Ping, Protocol::Icmp);
        spec.sizes = SizeList::one(56);
        (spec.stop.max_ms, spec.stop.max_count) = (u32::MAX, 20);
        spec.interval_us = Some(100_000);
        spec.warmup = model::Warmup { time_ms: 0, count: 0 };
        self.output.fill(&self.flags, spec)
    }
}

impl Wake {
    /// Whether `-h` stood alone.
    pub(crate) fn asks_for_help(&self) -> bool {
        self.histogram == Some(0)
    }

    /// The measurement asked for: 10 s unless a count or a time is given. `allowed` are the CPUs of this process.
    pub(crate) fn spec(&self, allowed: impl FnOnce() -> CpuList) -> Result<ProbeSpec, ModelError> {
        let mut spec = ProbeSpec::new(Probe::Wake, None);
        spec.stop.max_ms = 10_000;
        if self.smp {
            let cpus = factor::find("cpus").map(|cpus| cpus.apply(&mut spec, &allowed().to_string().into()));
            cpus.transpose()?;
        }
        self.output.form.not_sfnt("wake-ups")?;
        self.output.fill(&self.flags, spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::pace::Pace;
    use clap::{Command, FromArgMatches as _};

    fn stop<const PROBE: usize>(line: &str) -> StopRule {
        let command = Rounds::<PROBE>::augment_args(Command::new("windhover"));
        let matches = command.get_matches_from(format!("windhover udp x {line}").split_whitespace());
        Rounds::<PROBE>::from_arg_matches(&matches).unwrap().spec().unwrap().stop
    }

    /// The percentiles of the usual table need 10,000 messages, which a second brings on a fast path alone.
    #[test]
    fn the_default_length_is_that_of_the_printed_percentiles() {
        assert_eq!(stop::<{ Probe::Pingpong as usize }>(""), StopRule::UNTIL_KNOWN);
        assert_eq!(stop::<{ Probe::Rr as usize }>("--size 1-16"), StopRule::UNTIL_KNOWN);
        for limited in ["--seconds 1", "--min-count 5", "--size 1-50"] {
            assert_eq!(stop::<{ Probe::Pingpong as usize }>(limited).max_ms, 1000, "{limited}");
        }
        assert_eq!(stop::<{ Probe::Pingpong as usize }>("--interval 5").max_ms, 60_000);
        let ms = |line: &str| {
            let matches = Pace::augment_args(Command::new("windhover"))
                .get_matches_from(format!("windhover udp x {line}").split_whitespace());
            Pace::from_arg_matches(&matches).unwrap().spec().unwrap().0.stop.max_ms
        };
        let all = ["", "--rate 4k,20k", "--every 2", "--rate 100", "--rate 1M", "--seconds 1"].map(ms);
        assert_eq!(all, [1200, 3000, 2400, 5000, 1000, 1000]);
    }
}
