//! `--against`: two settings in turn until the answer is known or the time over, each repetition a process of its own.

use super::child::Worker;
use super::measuring::{self, CommonFlags, Measuring};
use super::{identity, live, signals};
use crate::cli::against::Second;
use crate::cli::{Command, Format};
use crate::output::{Failure, Output, width};
use anyhow::{Context as _, anyhow};
use digest::RunInput;
use model::worker::ProbeTask;
use model::{ProbeSpec, ResultDocument, RunDocument, StopRule, Substrate, WorkerEvent, WorkerSpec};
use report::compare::{ComparisonWriter as _, TwoSettings};
use stats::Looks;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The chance that a comparison of a setting with itself claims a difference.
const LEVEL: f64 = 0.05;

/// Flags that say how long a repetition is. An echo each 100 ms has a count of its own.
const LENGTHS: [&str; 5] = ["seconds", "count", "min_seconds", "min_count", "interval_percent"];

/// The repetitions a side that the time is divided into where no length is given.
const AIM: u32 = 21;

/// How much longer a repetition may take than those before: a machine may become busier.
const BUSIER: f64 = 1.2;

const LISTEN: Duration = Duration::from_millis(100);

const SIGINT: i32 = 2;

struct Side {
    task: ProbeTask,
    _endpoint: Option<Worker>,
    has_length: bool,
    has_warmup: bool,
}

impl Side {
    fn of(command: &dyn Measuring) -> Result<Self, Failure> {
        let (task, endpoint) = command.ready()?;
        let typed = command.given().typed;
        let has_length = task.spec.probe() == model::Probe::Ping || LENGTHS.iter().any(|name| typed.contains(name));
        Ok(Self { task, _endpoint: endpoint, has_length, has_warmup: typed.contains("warmup_ms") })
    }

    /// Gives it a length with which [`AIM`] repetitions of both sides fit, or refuses one of which too few do.
    fn fit(&mut self, at_most: Duration) -> Result<(), Failure> {
        let spec = &mut self.task.spec;
        let rates = spec.pace().map_or(1, |pace| pace.rates_pps.len());
        if spec.sizes.len() * rates > 1 {
            refuse!("--against compares one size and one rate a side: name one, or compare them in a campaign");
        }
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        if !self.has_length {
            // The rest is for processes to start and connect.
            let max_ms = ms(at_most.mul_f64(0.65) / (2 * AIM)).clamp(50, spec.stop.max_ms);
            spec.stop = StopRule { max_ms, ..StopRule::default() };
        }
        if !self.has_warmup {
            spec.warmup.time_ms = spec.warmup.time_ms.min(ms(at_most.mul_f64(0.15) / (2 * AIM)));
        }
        let least = stats::samples_needed(1, LEVEL);
        let Some(length) = length_s(spec) else { return Ok(()) };
        let length = length + f64::from(spec.warmup.time_ms) / 1e3;
        let needed = 2.0 * length * (1.0 + BUSIER * (least - 1) as f64);
        if needed > at_most.as_secs_f64() {
            refuse!(
                "{} repetitions of {} s do not fit into --at-most {} s: shorten them (--seconds, --count), or give --at-most {}s",
                2 * least,
                (length * 1e3).round() / 1e3,
                at_most.as_secs_f64(),
                (1.05 * needed).ceil() + 1.0
            );
        }
        Ok(())
    }

    fn measure(&self, stop: &AtomicBool) -> Result<Option<ResultDocument>, Failure> {
        let spec = WorkerSpec::Probe(Box::new(self.task.clone()));
        let stack = self.task.spec.initiator.stack.as_deref();
        let mut worker = Worker::start(stack, "measurement", &spec, |launch| launch)?;
        let mut result = None;
        loop {
            if stop.load(Ordering::Relaxed) {
                worker.signal(SIGINT);
                return Ok(None);
            }
            match worker.hear(LISTEN)? {
                Some(WorkerEvent::Measured(measured)) => result = Some(measured.result),
                Some(WorkerEvent::Done) => return result.context("it gave no result").map(Some).map_err(Failure::from),
                _ => {}
            }
        }
    }
}

/// How long a repetition takes, as far as that is known before: by its time, or by its count where messages have a distance.
fn length_s(spec: &ProbeSpec) -> Option<f64> {
    let distance_s = match spec.pace() {
        Some(pace) => pace.rates_pps.first().map(|rate| rate.recip()),
        None => spec.interval_us.map(|us| f64::from(us) / 1e6),
    };
    let by_time = (spec.stop.max_ms < u32::MAX).then(|| f64::from(spec.stop.max_ms) / 1e3);
    let by_count = distance_s
        .filter(|_| spec.stop.max_count < u64::MAX)
        .map(|one| one * spec.stop.max_count.saturating_sub(1) as f64);
    by_time.into_iter().chain(by_count).reduce(f64::min)
}

fn measuring_of(command: &Command) -> Result<&dyn Measuring, Failure> {
    match command {
        Command::Measure(measure) => Ok(measuring::of(measure)),
        _ => refuse!("--against compares measurements of pingpong, rr, ping, pace, stream and wake"),
    }
}

struct Rounds {
    run: RunInput,
    complete: usize,
    slowest: Duration,
}

pub(super) fn run(first: &Command, second: &Second, output: &Output) -> Result<u8, Failure> {
    let [first, second_side] = [measuring_of(first)?, measuring_of(&second.command)?];
    let CommonFlags { output: wanted, against, .. } = first.given();
    let (form, at_most) = (wanted.form.get(), against.at_most);
    if form == Format::Sfnt {
        refuse!("--format sfnt has no columns for a comparison: use table, json, csv or markdown");
    }
    let mut sides = [Side::of(first)?, Side::of(second_side)?];
    sides.iter_mut().try_for_each(|side| side.fit(at_most))?;
    let stop = signals::stop_flag()?;
    let begun = Instant::now();
    let mut rounds = Rounds { run: run_input(&sides[0].task, &second.names)?, complete: 0, slowest: Duration::ZERO };
    let bar = live::bar(output.shows_progress(), "{msg}");
    let mut looks: Option<Looks> = None;
    let mut answer = None;
    while answer.is_none() {
        let left = at_most.saturating_sub(begun.elapsed());
        let most = looks.as_ref().map(|looks| format!(" of at most {}", looks.last())).unwrap_or_default();
        bar.set_message(format!("repetition {}{most}, {:.0} s left at most", rounds.complete + 1, left.as_secs_f64()));
        if !rounds.add(&sides, &second.names, &stop)? {
            break;
        }
        let left = at_most.saturating_sub(begun.elapsed());
        let fixed = match looks.take() {
            Some(looks) => looks,
            // The looks are fixed by how long repetitions take, before anything is known of their results.
            None => planned(left, rounds.slowest)?,
        };
        let is_last = rounds.complete >= fixed.last() || left < rounds.slowest;
        if is_last || fixed.is_due(rounds.complete) {
            let found = rounds.judged(&second.names, fixed.level())?;
            answer = Some(found).filter(|found| is_last || found.is_decided() && found.untrusted().is_none());
        }
        looks = Some(fixed);
    }
    bar.finish_and_clear();
    let is_interrupted = answer.is_none();
    drop((sides, stop));
    let answer = match answer {
        Some(answer) => answer,
        None if rounds.complete == 0 => {
            output.note("interrupted before both sides were measured once");
            return Ok(130);
        }
        None => rounds.judged(&second.names, looks.map_or(LEVEL, |looks| looks.level()))?.interrupted(),
    };
    output.result(&match form {
        Format::Json => answer.comparisons().json()?,
        Format::Csv => answer.comparisons().csv(),
        Format::Markdown => answer.markdown(),
        Format::Table | Format::Sfnt => answer.text(width()),
    })?;
    let untrusted = answer.untrusted();
    let says_it = matches!(form, Format::Table | Format::Markdown);
    if let (Some(why), false) = (&untrusted, says_it) {
        output.warning(format_args!("not decided: {why}"));
    }
    Ok(match (is_interrupted, untrusted) {
        (true, _) => 130,
        (false, Some(_)) => 4,
        (false, None) => 0,
    })
}

/// The looks of as many repetitions as fit into the time that is left after the first one of both sides.
fn planned(left: Duration, round: Duration) -> Result<Looks, Failure> {
    let further = left.as_secs_f64() / (BUSIER * round.as_secs_f64().max(1e-3));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    let most = 1 + further as usize;
    Looks::up_to(most, LEVEL).ok_or_else(|| {
        let (round, needed) = (round.as_secs_f64(), stats::samples_needed(1, LEVEL));
        Failure::usage(anyhow!(
            "a repetition of both sides takes {round:.1} s, so --at-most is too short for the {needed} that can tell: shorten \
             --seconds or --count, or give --at-most {:.0}s",
            (BUSIER * round * (needed + 1) as f64).ceil()
        ))
    })
}

impl Rounds {
    /// Measures both sides once, in the order A B B A A B …; false where it was asked to stop.
    fn add(&mut self, sides: &[Side; 2], names: &[String; 2], stop: &AtomicBool) -> Result<bool, Failure> {
        let begun = Instant::now();
        let mut both = Vec::new();
        for at in if self.complete.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            let failed = |failure: Failure| {
                let error = failure.error.context(format!("the measurement {}", names[at]));
                Failure { error, ..failure }
            };
            let Some(mut result) = sides[at].measure(stop).map_err(failed)? else { return Ok(false) };
            result.factors.insert(TwoSettings::FACTOR.to_owned(), ["a", "b"][at].into());
            result.repetition = u32::try_from(self.complete + 1).ok();
            both.push(result);
        }
        self.run.results.append(&mut both);
        self.complete += 1;
        self.slowest = self.slowest.max(begun.elapsed());
        Ok(true)
    }

    fn judged(&self, names: &[String; 2], level: f64) -> Result<TwoSettings, Failure> {
        TwoSettings::new(&self.run, names.clone(), level).map_err(|error| Failure::new(1, error))
    }
}

/// A run without a directory, which results are put into.
fn run_input(task: &ProbeTask, names: &[String; 2]) -> Result<RunInput, Failure> {
    let name = format!("{} {}", task.spec.probe(), model::Protocol::word_of(task.spec.protocol()));
    let document = RunDocument {
        format: model::FORMAT,
        name: name.clone(),
        title: Some(format!("{}, {} and {}", name, names[0], names[1])),
        tool_version: identity::VERSION.to_owned(),
        build: Some(identity::build()?),
        substrate: substrate(task),
        started_ns: clock::realtime_ns(),
        ..RunDocument::default()
    };
    Ok(RunInput { name, document, results: vec![], failed: vec![], problems: vec![], folder: None, steps: vec![] })
}

/// As far as one end knows it.
fn substrate(task: &ProbeTask) -> Substrate {
    let address = task.target.control.parse::<std::net::SocketAddr>();
    let is_here = address.is_ok_and(|address| address.ip().is_loopback());
    if is_here || task.spec.is_local() { Substrate::Loopback } else { Substrate::Metal }
}
