//! A foreign worker as the initiator: its process, what it says, and its samples as a result. docs/foreign-workers.md is the contract.

use crate::document::{Figures, Other, Parts, PathInfo, TimedResult};
use crate::driver::{self, Collected, Engine, Pass, PassDone, PassEnd};
use crate::measuring_thread::AffinityGuard;
use crate::session::Session;
use crate::{Context, Outcome, ProbeError, peer};
use clock::{Clock, MapRecorder};
use flow::PassObserver;
use model::foreign::{self, ForeignEvent, ForeignLine, ForeignSample, ForeignTask};
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{
    Finding, FindingId, OutlierRule, Probe, ProbeSpec, Role, Sample, SampleFlags, Source, SourceKind, TickRate,
    WakeReport,
};
use record::{Recorder, RecorderConfig};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use task::{Child, Launch, Stream};
use wire::{StopReport, data};

/// Until then a worker says that it is ready, or never.
const READY: Duration = Duration::from_secs(5);
/// What a worker may take beside the times that its task names.
const SPARE: Duration = Duration::from_secs(5);
/// How long it may take to end once it has said all, or was asked to end.
const ENDING: Duration = Duration::from_secs(2);
/// Between two looks whether the program was asked to end.
const LOOK: Duration = Duration::from_millis(100);
/// Of a worker that only a count ends, the longest time of a round: what most take is less, and of a short run each may be lost.
const ROUND: Duration = Duration::from_millis(1);
const SHORT_RUN: Duration = Duration::from_secs(600);
/// Share of the time asked for, in percent, after which a worker may say that its time is over.
const TIME_PERCENT: u32 = 90;
/// Samples at most: a worker that writes more has lost its way.
const MOST_SAMPLES: usize = 20_000_000;
/// Time stamps may span so much more than the worker's life, in percent, and so many ns.
const SPAN_PERCENT: u64 = 5;
const SPAN_NS: u64 = 10_000_000;

pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    clock: Clock,
    sink: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let _affinity = AffinityGuard::away_from(&[task.spec.initiator.cpu]);
    driver::drive(|| Ok(Foreign { task, context, clock }), task, context, &[None], sink)
}

struct Foreign<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
}

#[derive(Debug)]
struct WorkerReport {
    name: String,
    version: Option<String>,
    clock: String,
    rate: TickRate,
    ticks_per_second: u64,
    samples: Vec<ForeignSample>,
    /// From the word to start until the last sample.
    took: Duration,
    interrupted: bool,
}

impl Engine for Foreign<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let spec = &self.task.spec;
        let mut told = ForeignTask::of(spec, pass.size);
        let (mut session, path_info) = self.peer(&mut told)?;
        let mut worker = Worker::start(spec, &told)?;
        let ready = worker.ready()?;
        if let Some(session) = &mut session {
            // The worker shows the token itself.
            session.prove(spec.socket()?.protocol, || Ok(()))?;
            session.start(pass.size, pass.size)?;
        }
        observers.begin(pass.size);
        let mut map = MapRecorder::new(self.clock);
        let started_ns = clock::realtime_ns();
        worker.say_start()?;
        let said = worker.samples(spec, ready, self.context)?;
        map.push();
        let mut own = StopReport::default();
        observers.end(&mut own);
        // The worker has the data path.
        own.carried = None;
        let end = if said.interrupted { PassEnd::Stopped } else { PassEnd::Done };
        let name = session.as_ref().map(|session| session.name.clone()).unwrap_or_default();
        let Collected { reports, failure } = driver::collect_reports(session.iter_mut(), &name, pass.size, end, None);
        if let Some(session) = session {
            session.close();
        }
        if said.interrupted && said.samples.is_empty() {
            return Ok(None);
        }
        let mut recorded = recorded(spec, &said);
        recorded.started_ns = started_ns;
        let report = reports.into_iter().next().flatten();
        let answered = report.as_ref().map(|report| report.sent);
        own.notes.extend(findings(spec, &said, recorded.messages.received, answered));
        let vanished = driver::vanished(failure.as_ref(), &mut own.notes);
        let wake = (spec.probe() == Probe::Wake).then(|| WakeReport {
            interval_ns: spec.interval_us.map(|us| 1000 * u64::from(us)),
            ..WakeReport::default()
        });
        let timed = TimedResult { wake, ..TimedResult::new(recorded) };
        // Raw samples are in the worker's ticks.
        let map = model::ClockMap { rate: said.rate, points: Vec::new(), ..map.finish() };
        let has_peer = spec.probe().has_peer();
        let other = has_peer.then(|| Other { report, ..Other::only(&path_info) });
        let parts = Parts {
            path_info,
            map,
            own,
            others: other.into_iter().collect(),
            self_cost: SelfCost::default(),
            vanished,
            interrupted: said.interrupted,
            figures: Figures::Timed(Box::new(timed)),
            source: Some(said.source(spec)),
        };
        Ok(Some(PassDone { parts, failure, saturated: false }))
    }

    fn close(self) {}
}

impl Foreign<'_> {
    /// Opens the path to the reflector, where there is one, and tells the worker of it.
    fn peer(&self, told: &mut ForeignTask) -> Result<(Option<Session>, PathInfo), ProbeError> {
        let (spec, context) = (&self.task.spec, self.context);
        if spec.probe() == Probe::Wake {
            return Ok((None, PathInfo { one_machine: true, ..PathInfo::default() }));
        }
        let unproved = peer::request_path(spec, &self.task.target, context, peer::request(spec)?)?;
        let peer::UnprovedPath { session, opened, address, one_machine } = unproved;
        told.peer_address = Some(address.ip().to_string());
        told.peer_port = Some(address.port());
        told.hello = Some(hex(&data::prove(&opened.token)));
        told.tag = Some(hex(&opened.token.tag().to_le_bytes()));
        let path_info = PathInfo { one_machine, ..peer::path_info(context, None, address) };
        Ok((Some(session), path_info))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl WorkerReport {
    fn source(&self, spec: &ProbeSpec) -> Source {
        Source {
            kind: SourceKind::Foreign,
            tool: self.name.clone(),
            version: self.version.clone(),
            file: Some(spec.foreign.join(" ")),
            bin_ns: Some(1_000_000_000 / self.ticks_per_second.max(1)).filter(|ns| *ns > 1),
            overflowed: None,
        }
    }

    /// From the first time stamp to the last, in ns.
    fn span_ns(&self) -> u64 {
        let first = self.samples.first().map_or(0, |sample| sample.sent);
        let last = self.samples.iter().map(|sample| sample.received.unwrap_or(sample.sent)).max().unwrap_or(first);
        self.rate.ns(last.saturating_sub(first))
    }
}

fn recorded(spec: &ProbeSpec, said: &WorkerReport) -> record::Recorded {
    let timeout = said.rate.ticks(u64::from(spec.timeout_ms) * 1_000_000);
    let is_wake = spec.probe() == Probe::Wake;
    let samples: Vec<Sample> = said
        .samples
        .iter()
        .map(|one| Sample {
            seq: one.seq,
            intended: one.sent,
            sent: one.sent,
            received: one.received.unwrap_or(one.sent.saturating_add(timeout)),
            flags: if one.received.is_none() { SampleFlags::LOST } else { SampleFlags::default() },
            ..Sample::default()
        })
        .collect();
    let config = RecorderConfig {
        outliers: OutlierRule { ..spec.outliers },
        raw_capacity: driver::raw_capacity(spec).min(samples.len()),
        has_header: !is_wake,
        ..RecorderConfig::new(
            said.rate,
            spec.probe().latency_kind(spec.rtt),
            u32::try_from(said.span_ns() / 1_000_000 + 1).unwrap_or(u32::MAX),
        )
    };
    let mut recorder = Recorder::new(config);
    recorder.ingest(&samples);
    let mut recorded = recorder.finish(None);
    // A worker tells neither.
    (recorded.messages.duplicated, recorded.messages.reordered, recorded.messages.late) = (None, None, None);
    recorded
}

/// What is said of each foreign result, and what does not fit together.
fn findings(spec: &ProbeSpec, said: &WorkerReport, received: u64, answered: Option<u64>) -> Vec<Finding> {
    let version = said.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let detail = format!(
        "measured by {}{version} with time stamps of its own ({}): its policy, CPU use and faults were not watched",
        said.name, said.clock
    );
    let mut found = vec![Finding::at(FindingId::Foreign, Role::Initiator, detail)];
    let lived_ns = u64::try_from(said.took.as_nanos()).unwrap_or(u64::MAX);
    let span_ns = said.span_ns();
    if span_ns > lived_ns.saturating_add(lived_ns / 100 * SPAN_PERCENT).saturating_add(SPAN_NS) {
        let detail = format!(
            "the time stamps of {} span {:.1} ms, and it ran for {:.1} ms: look at its ticks_per_second ({}) and its clock",
            said.name,
            span_ns as f64 / 1e6,
            lived_ns as f64 / 1e6,
            said.ticks_per_second
        );
        found.push(Finding::at(FindingId::ClockUnfit, Role::Initiator, detail));
    }
    found.extend(missing(spec, said).map(|why| {
        let detail = format!("{why}, so that some of its samples are missing: the slowest may be among them");
        Finding::at(FindingId::SamplesOverrun, Role::Initiator, detail)
    }));
    if let Some(answered) = answered.filter(|answered| received > *answered) {
        let detail = format!(
            "{} says that {received} messages were answered, and the reflector answered {answered}: it measured something else",
            said.name
        );
        found.push(Finding::at(FindingId::PathNotAsClaimed, Role::Initiator, detail));
    }
    found
}

/// Why a worker did not tell all that it was asked for, in words.
fn missing(spec: &ProbeSpec, said: &WorkerReport) -> Option<String> {
    if said.interrupted {
        return None;
    }
    let (name, count) = (&said.name, said.samples.len() as u64);
    let ends = said.samples.first().zip(said.samples.last());
    let numbers = ends.map_or(0, |(first, last)| (last.seq - first.seq).saturating_add(1));
    // Of `wake` they may be those of deadlines, of which some pass by.
    if numbers > count && spec.probe() == Probe::Pingpong {
        return Some(format!("{name} numbered {numbers} rounds and wrote {count} samples"));
    }
    let asked_ms = Some(spec.stop.max_ms).filter(|ms| *ms != u32::MAX);
    let is_over = |ms: u32| said.took >= Duration::from_millis(ms.into()) * TIME_PERCENT / 100;
    if count >= spec.stop.max_count || asked_ms.is_some_and(is_over) {
        return None;
    }
    Some(match asked_ms {
        Some(ms) => format!("{name} was asked for {ms} ms and ended after {} ms", said.took.as_millis()),
        None => format!("{name} was asked for {} rounds and wrote {count} samples", spec.stop.max_count),
    })
}

#[derive(Debug)]
enum Heard {
    Event(ForeignEvent),
    Sample(ForeignSample),
    /// A line that is none, with its number.
    Garbage(usize, String),
}

/// A running worker. It is killed with its process group when this is dropped.
struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Heard>,
    program: String,
}

impl Worker {
    fn start(spec: &ProbeSpec, told: &ForeignTask) -> Result<Self, ProbeError> {
        let program = spec.foreign.first().cloned().unwrap_or_default();
        let mut launch = Launch::new(&program)
            .args(spec.foreign.iter().skip(1))
            .stdin(Stream::Pipe)
            .stdout(Stream::Pipe)
            .policy(spec.initiator.policy)
            .die_with_parent();
        if let Some(cpu) = spec.initiator.cpu {
            let cpus: model::CpuList = [cpu].into_iter().collect();
            // The kernel refuses a CPU behind a shield to a process that is not in its control group.
            host::shield::enter(&cpus)?;
            launch = launch.cpus(cpus);
        }
        let mut child = launch.start().map_err(|cause| ProbeError::Conflict {
            what: format!("the foreign worker cannot be started: {cause}"),
            remedy: "name a program that is there and may be executed".to_owned(),
        })?;
        let (stdin, stdout) = (child.take_stdin(), child.take_stdout());
        let (sender, heard) = channel();
        let mut worker = Self { child, stdin, heard, program };
        let Some(stdout) = stdout else { return Err(worker.failed("has no standard output")) };
        let read = move || {
            let mut reader = BufReader::with_capacity(1 << 16, stdout);
            let mut number = 0;
            while let Some(heard) = next_line(&mut reader, &mut number) {
                let is_last = matches!(heard, Heard::Garbage(..));
                if sender.send(heard).is_err() || is_last {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("foreign".to_owned())
            .spawn(read)
            .map_err(|cause| ProbeError::Task(task::TaskError::Thread { name: "foreign", cause }))?;
        // It cannot fail: all of it has a form in JSON.
        let line = serde_json::to_string(told).unwrap_or_default();
        worker.say(&line)?;
        Ok(worker)
    }

    fn failed(&self, why: impl Into<String>) -> ProbeError {
        ProbeError::Foreign { program: self.program.clone(), why: why.into() }
    }

    fn say(&mut self, line: &str) -> Result<(), ProbeError> {
        let said = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        match said {
            Some(Ok(())) => Ok(()),
            // How it ended says more.
            _ => Err(self.ended("does not read its standard input")),
        }
    }

    fn say_start(&mut self) -> Result<(), ProbeError> {
        self.say(foreign::START)
    }

    /// Why nothing comes any more: how the process ended, if it has.
    fn ended(&mut self, otherwise: &str) -> ProbeError {
        // What it said last is more precise than its exit code.
        while let Ok(heard) = self.heard.try_recv() {
            match heard {
                Heard::Event(ForeignEvent::Failed { message }) => {
                    return self.failed(format!("gave up: {}", plain(&message)));
                }
                Heard::Garbage(number, why) => return self.failed(garbage(number, &why)),
                _ => {}
            }
        }
        match self.child.wait_timeout(ENDING) {
            Ok(Some(status)) => {
                self.failed(format!("ended too early ({status}): what it wrote to standard error says why"))
            }
            _ => self.failed(otherwise),
        }
    }

    fn ready(&mut self) -> Result<WorkerReport, ProbeError> {
        let heard = match self.heard.recv_timeout(READY) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.failed(format!("did not say that it is ready within {} s", READY.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(self.ended("closed its standard output before it was ready"));
            }
        };
        match heard {
            Heard::Event(ForeignEvent::Ready { contract, name, version, clock, ticks_per_second }) => {
                if contract != foreign::CONTRACT {
                    let known = foreign::CONTRACT;
                    return Err(
                        self.failed(format!("keeps version {contract} of the contract, and this is version {known}"))
                    );
                }
                if !foreign::is_name(&name) {
                    let why = "calls itself by a name that is none: use up to 40 letters, digits, '-', '_' and '.'";
                    return Err(self.failed(why));
                }
                if !(1_000..=100_000_000_000).contains(&ticks_per_second) {
                    return Err(
                        self.failed(format!("has {ticks_per_second} ticks per second: 1000 to 100000000000 are known"))
                    );
                }
                let is_ns = ticks_per_second == 1_000_000_000;
                let rate = if is_ns { TickRate::NANOSECONDS } else { TickRate::from_hz(ticks_per_second as f64) };
                Ok(WorkerReport {
                    name,
                    version: version.map(|version| plain(&version)),
                    clock: plain(&clock),
                    rate,
                    ticks_per_second,
                    samples: Vec::new(),
                    took: Duration::ZERO,
                    interrupted: false,
                })
            }
            Heard::Event(ForeignEvent::Failed { message }) => Err(self.failed(format!("gave up: {}", plain(&message)))),
            Heard::Garbage(number, why) => Err(self.failed(garbage(number, &why))),
            Heard::Event(ForeignEvent::End) | Heard::Sample(_) => {
                Err(self.failed("did not begin with the event 'ready'"))
            }
        }
    }

    /// Takes all samples, until it ends.
    fn samples(
        mut self,
        spec: &ProbeSpec,
        mut said: WorkerReport,
        context: &Context,
    ) -> Result<WorkerReport, ProbeError> {
        let begun = Instant::now();
        let mut limit = longest(spec);
        let most = usize::try_from(spec.stop.max_count).unwrap_or(usize::MAX).min(MOST_SAMPLES);
        loop {
            if context.stopping() && !said.interrupted {
                // Its standard input ends: it writes what it has.
                (said.interrupted, self.stdin) = (true, None);
                limit = begun.elapsed() + ENDING;
            }
            if begun.elapsed() > limit {
                if said.interrupted {
                    break;
                }
                let seconds = begun.elapsed().as_secs();
                return Err(self.failed(format!("did not end within {seconds} s: it is killed")));
            }
            match self.heard.recv_timeout(LOOK) {
                Ok(Heard::Sample(sample)) => {
                    let before = said.samples.last();
                    if let Some(why) = out_of_place(before, &sample) {
                        return Err(self.failed(format!("wrote sample {} out of place: {why}", sample.seq)));
                    }
                    if said.samples.len() >= most {
                        return Err(self.failed(format!("wrote more samples than the {most} that were asked for")));
                    }
                    said.samples.push(sample);
                    said.took = begun.elapsed();
                }
                Ok(Heard::Event(ForeignEvent::End)) => break,
                Ok(Heard::Event(ForeignEvent::Failed { message })) => {
                    return Err(self.failed(format!("gave up: {}", plain(&message))));
                }
                Ok(Heard::Event(ForeignEvent::Ready { .. })) => return Err(self.failed("said twice that it is ready")),
                Ok(Heard::Garbage(number, why)) => return Err(self.failed(garbage(number, &why))),
                Err(RecvTimeoutError::Disconnected) if said.interrupted => break,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.ended("closed its standard output before the event 'end'"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.stdin = None;
        match self.child.wait_timeout(ENDING) {
            // What does not end by itself is killed when it is dropped.
            _ if said.interrupted => {}
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => return Err(self.failed(format!("ended badly after its samples ({status})"))),
            _ => {
                return Err(
                    self.failed(format!("still ran {} s after the event 'end': it is killed", ENDING.as_secs()))
                );
            }
        }
        if said.samples.is_empty() && !said.interrupted {
            return Err(self.failed("wrote no sample"));
        }
        Ok(said)
    }
}

/// How long a worker may take. Of a count without a time: twice the deadlines of `wake`; else as long as if each round of it
/// timed out, in long runs 1 ms for each.
fn longest(spec: &ProbeSpec) -> Duration {
    let ms = |ms: u32| Duration::from_millis(ms.into());
    let rounds = u32::try_from(spec.stop.max_count.saturating_add(spec.warmup.count.into())).unwrap_or(u32::MAX);
    let measuring = match (spec.stop.max_ms, spec.interval_us) {
        (u32::MAX, Some(us)) if spec.probe() == Probe::Wake => {
            Duration::from_micros(us.into()).saturating_mul(rounds) * 2
        }
        (u32::MAX, _) => ms(spec.timeout_ms).saturating_mul(rounds).min(SHORT_RUN.max(ROUND.saturating_mul(rounds))),
        (most, _) => ms(most),
    };
    measuring + ms(spec.warmup.time_ms) + ms(spec.timeout_ms) * 2 + SPARE
}

/// What is wrong with a sample behind another one.
fn out_of_place(before: Option<&ForeignSample>, sample: &ForeignSample) -> Option<&'static str> {
    if sample.received.is_some_and(|received| received < sample.sent) {
        return Some("it ended before it began");
    }
    let before = before?;
    if sample.seq <= before.seq {
        return Some("numbers must rise");
    }
    (sample.sent < before.sent).then_some("it was sent before the one before it")
}

fn garbage(number: usize, why: &str) -> String {
    format!("wrote line {number}, which is not of the contract: {why}")
}

/// Text of a worker as a part of one line.
fn plain(text: &str) -> String {
    model::text::excerpt(text, 200)
}

/// The next line that says something; nothing at the end.
fn next_line(reader: &mut impl std::io::BufRead, number: &mut usize) -> Option<Heard> {
    loop {
        let mut line = Vec::new();
        *number += 1;
        let longest = foreign::LONGEST_LINE as u64 + 1;
        match reader.by_ref().take(longest).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        if line.len() > foreign::LONGEST_LINE {
            return Some(Heard::Garbage(*number, format!("it is longer than {} bytes", foreign::LONGEST_LINE)));
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            return Some(Heard::Garbage(*number, "it is no text".to_owned()));
        };
        match text.trim() {
            "" => {}
            text => {
                return Some(match ForeignLine::read(text) {
                    Ok(ForeignLine::Event(event)) => Heard::Event(event),
                    Ok(ForeignLine::Sample(sample)) => Heard::Sample(sample),
                    Err(why) => {
                        let start: String = plain(text).chars().take(40).collect();
                        Heard::Garbage(*number, format!("'{start}': {why}"))
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(samples: &[(u64, u64, Option<u64>)], took: Duration) -> WorkerReport {
        let sample = |(seq, sent, received): &(u64, u64, Option<u64>)| ForeignSample {
            seq: *seq,
            sent: *sent,
            received: *received,
        };
        WorkerReport {
            name: "w".to_owned(),
            version: None,
            clock: "c".to_owned(),
            rate: TickRate::from_hz(1e6),
            ticks_per_second: 1_000_000,
            samples: samples.iter().map(sample).collect(),
            took,
            interrupted: false,
        }
    }

    #[test]
    fn samples_become_figures_in_the_workers_ticks() {
        let spec = ProbeSpec::new(Probe::Pingpong, model::Protocol::Udp);
        let all: Vec<_> =
            (0..1000).map(|seq| (seq, seq * 100, (seq != 7).then_some(seq * 100 + 20 + seq % 2))).collect();
        let said = said(&all, Duration::from_millis(100));
        let recorded = recorded(&spec, &said);
        assert_eq!((recorded.messages.sent, recorded.messages.received, recorded.messages.lost), (1000, 999, 1));
        // Percentiles are as fine as the histogram, 0.1 %.
        assert!(recorded.latency.p50_ns.is_some_and(|p50_ns| p50_ns.abs_diff(10_000) <= 10), "{:?}", recorded.latency);
        assert_eq!(recorded.latency.min_ns, Some(10_000));
        assert_eq!(recorded.messages.reordered, None);
        assert_eq!(said.source(&spec).bin_ns, Some(1000));
    }

    #[test]
    fn what_does_not_fit_together_is_found() {
        let spec = |max_count, max_ms| {
            let mut spec = ProbeSpec::new(Probe::Pingpong, model::Protocol::Udp);
            (spec.stop.max_count, spec.stop.max_ms) = (max_count, max_ms);
            spec
        };
        let ids = |said: &WorkerReport, received, answered| -> Vec<FindingId> {
            findings(&spec(2, u32::MAX), said, received, answered).into_iter().map(|finding| finding.id).collect()
        };
        let good = said(&[(0, 0, Some(10)), (1, 90_000, Some(90_010))], Duration::from_millis(91));
        assert_eq!(ids(&good, 2, Some(2)), [FindingId::Foreign]);
        assert_eq!(ids(&good, 3, Some(2)), [FindingId::Foreign, FindingId::PathNotAsClaimed]);
        let fast = said(&[(0, 0, Some(10)), (1, 900_000, Some(900_010))], Duration::from_millis(91));
        assert_eq!(ids(&fast, 2, None), [FindingId::Foreign, FindingId::ClockUnfit]);
        // Catches: 490 samples of 500 rounds were trusted.
        for (max_count, max_ms, is_whole) in [
            (2, u32::MAX, true),
            (3, u32::MAX, false),
            (u64::MAX, 100, true),
            (u64::MAX, 1000, false),
            (3, 100, true),
            (3, 1000, false),
        ] {
            assert_eq!(missing(&spec(max_count, max_ms), &good).is_none(), is_whole, "{max_count} {max_ms}");
        }
        let gap = said(&[(0, 0, Some(10)), (2, 90_000, Some(90_010))], Duration::from_millis(91));
        let why = missing(&spec(2, u32::MAX), &gap).unwrap();
        assert_eq!(why, "w numbered 3 rounds and wrote 2 samples");
        assert_eq!(missing(&spec(9, 1000), &WorkerReport { interrupted: true, ..gap }), None);
    }

    /// Catches: a worker that only a count ends had no limit, and one that never ends blocked a campaign.
    #[test]
    fn each_worker_has_a_limit() {
        let seconds = |probe, max_count, max_ms| {
            let mut spec = ProbeSpec::new(probe, model::Protocol::Udp);
            (spec.stop.max_count, spec.stop.max_ms) = (max_count, max_ms);
            (spec.interval_us, spec.timeout_ms) = (Some(1000), 1000);
            (spec.warmup.count, spec.warmup.time_ms) = (0, 0);
            longest(&spec).as_secs()
        };
        assert_eq!(seconds(Probe::Pingpong, u64::MAX, 3000), 3 + 2 + 5);
        assert_eq!(seconds(Probe::Pingpong, 10, u32::MAX), 10 + 2 + 5);
        assert_eq!(seconds(Probe::Pingpong, 100_000, u32::MAX), 600 + 2 + 5);
        assert_eq!(seconds(Probe::Pingpong, 2_000_000, u32::MAX), 2000 + 2 + 5);
        assert_eq!(seconds(Probe::Wake, 10_000, u32::MAX), 20 + 2 + 5);
    }

    #[test]
    fn samples_have_an_order() {
        let of = |seq, sent, received| ForeignSample { seq, sent, received: Some(received) };
        assert_eq!(out_of_place(None, &of(5, 10, 10)), None);
        assert_eq!(out_of_place(Some(&of(5, 10, 20)), &of(6, 10, 11)), None);
        for wrong in [of(6, 12, 11), of(5, 12, 13), of(6, 9, 13)] {
            assert!(out_of_place(Some(&of(5, 10, 20)), &wrong).is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn lines_are_read_one_by_one() {
        let heard = |bytes: &[u8]| {
            let mut reader = BufReader::new(bytes);
            let mut number = 0;
            std::iter::from_fn(|| next_line(&mut reader, &mut number))
                .map(|heard| format!("{heard:?}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(heard(b"\n1 2 3\r\n{\"event\":\"end\"}").len(), 2);
        assert!(heard(b"\n\nhello")[0].contains("Garbage(3"));
        assert!(heard(b"\xff\n")[0].contains("no text"));
        assert!(heard(&[b'1'; 5000])[0].contains("longer than"));
    }
}
