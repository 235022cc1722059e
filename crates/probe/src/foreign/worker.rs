//! The process of a foreign worker: started, read line by line, and ended.

use crate::{Context, ProbeError, thread};
use model::foreign::{self, ForeignEvent, ForeignLine, ForeignSample, ForeignTask};
use model::{Probe, ProbeSpec, TickRate};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use task::{Child, Launch, Stream};

/// How long a worker may take until it is ready.
const READY: Duration = Duration::from_secs(5);
/// What a worker may take beside the times that its task names.
const SPARE: Duration = Duration::from_secs(5);
/// How long it may take to end after its last line, or once it was asked to end.
const ENDING: Duration = Duration::from_secs(2);
/// Between two looks whether the program was asked to end.
const LOOK: Duration = Duration::from_millis(100);
/// Of a worker that only a count ends, the longest time of a round: what most take is less, and of a short run each may be lost.
const ROUND: Duration = Duration::from_millis(1);
const SHORT_RUN: Duration = Duration::from_secs(600);
/// Samples at most: a worker that writes more has lost its way.
const MOST_SAMPLES: usize = 20_000_000;

#[derive(Debug)]
pub(super) struct WorkerReport {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) clock: String,
    pub(super) rate: TickRate,
    pub(super) ticks_per_second: u64,
    pub(super) samples: Vec<ForeignSample>,
    /// From the word to start until the last sample.
    pub(super) took: Duration,
    pub(super) interrupted: bool,
}

#[derive(Debug)]
enum Heard {
    Event(ForeignEvent),
    Sample(ForeignSample),
    /// It gave up, or wrote a line that is not of the contract: the rest is not read.
    Broken(String),
}

/// A running worker. It is killed with its process group when this is dropped.
pub(super) struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Heard>,
    program: String,
}

impl Worker {
    pub(super) fn start(spec: &ProbeSpec, told: &ForeignTask) -> Result<Self, ProbeError> {
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
                let is_last = matches!(heard, Heard::Broken(_));
                if sender.send(heard).is_err() || is_last {
                    return;
                }
            }
        };
        thread::spawn("foreign", read)?;
        // It cannot fail: all of it has a form in JSON.
        let line = serde_json::to_string(told).unwrap_or_default();
        worker.say(&line)?;
        Ok(worker)
    }

    fn failed(&self, why: impl Into<String>) -> ProbeError {
        ProbeError::Foreign { program: self.program.clone(), why: why.into() }
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), ProbeError> {
        let said = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        match said {
            Some(Ok(())) => Ok(()),
            // How it ended is more precise.
            _ => Err(self.ended("does not read its standard input")),
        }
    }

    /// Why nothing comes any more: how the process ended, if it has.
    fn ended(&mut self, otherwise: &str) -> ProbeError {
        // Its last line is more precise than its exit code.
        while let Ok(heard) = self.heard.try_recv() {
            if let Heard::Broken(why) = heard {
                return self.failed(why);
            }
        }
        match self.child.wait_timeout(ENDING) {
            Ok(Some(status)) => {
                self.failed(format!("ended too early ({status}): what it wrote to standard error says why"))
            }
            _ => self.failed(otherwise),
        }
    }

    pub(super) fn ready(&mut self) -> Result<WorkerReport, ProbeError> {
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
            Heard::Broken(why) => Err(self.failed(why)),
            _ => Err(self.failed("did not begin with the event 'ready'")),
        }
    }

    /// Takes all samples, until it ends.
    pub(super) fn samples(
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
                Ok(Heard::Broken(why)) => return Err(self.failed(why)),
                Ok(Heard::Event(_)) => return Err(self.failed("said twice that it is ready")),
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

/// How long a worker may take. Of a count alone: twice the deadlines of `wake`, else a time-out a round, in long runs 1 ms each.
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

/// Text of a worker as a part of one line.
fn plain(text: &str) -> String {
    model::text::excerpt(text, 200)
}

/// The next line that is not empty; nothing at the end.
fn next_line(reader: &mut impl BufRead, number: &mut usize) -> Option<Heard> {
    loop {
        let mut line = Vec::new();
        *number += 1;
        let broken =
            |why: String| Some(Heard::Broken(format!("wrote line {number}, which is not of the contract: {why}")));
        match reader.by_ref().take(foreign::LONGEST_LINE as u64 + 1).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        if line.len() > foreign::LONGEST_LINE {
            return broken(format!("it is longer than {} bytes", foreign::LONGEST_LINE));
        }
        let Ok(text) = std::str::from_utf8(&line) else { return broken("it is no text".to_owned()) };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        return match ForeignLine::read(text) {
            Ok(ForeignLine::Event(ForeignEvent::Failed { message })) => {
                Some(Heard::Broken(format!("gave up: {}", plain(&message))))
            }
            Ok(ForeignLine::Event(event)) => Some(Heard::Event(event)),
            Ok(ForeignLine::Sample(sample)) => Some(Heard::Sample(sample)),
            Err(why) => broken(format!("'{}': {why}", plain(text).chars().take(40).collect::<String>())),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(heard(b"\n\nhello")[0].contains("line 3"));
        assert!(heard(b"\xff\n")[0].contains("no text"));
        assert!(heard(&[b'1'; 5000])[0].contains("longer than"));
    }
}
