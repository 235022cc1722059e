//! One size on one path: warm-up, then batches until the stop rule, with the samplers around exactly the measured part.

use crate::context::LiveProgress;
use crate::driver::PassEnd;
use crate::rounds::{Batches, Limit, Phase, Rounds};
use crate::stop::{self, BATCH_NS, BATCH_ROUNDS, Next};
use clock::{Clock, MapRecorder};
use flow::PassObserver;
use host::UsageSampler;
use model::{ClockMap, Gap, Probe, ProbeSpec, Sample, SampleFlags, StopRule, Warmup};
use net::{Path, PathVisitor};
use record::Recorder;
use std::os::fd::RawFd;
use wire::StopReport;

/// What one size's loop needs. Made before the path is.
pub(crate) struct SizeLoop<'r, 'a> {
    pub spec: &'r ProbeSpec,
    pub clock: Clock,
    pub rounds: &'r mut Rounds<'a>,
    /// Updated between batches for the live view.
    pub live: Option<&'r LiveProgress>,
    pub size: u32,
    /// The only one that carries messages.
    pub socket: Option<RawFd>,
    pub observers: &'r mut dyn PassObserver,
    pub recorder: &'r mut Recorder,
    /// When the measured part began, in ticks.
    pub began: u64,
    /// Filled in when the stop rule's interval ends the size.
    pub width_percent: Option<f64>,
    /// Asked between batches, only when the last one lost something: has the peer ended?
    pub peer_ended: &'r mut dyn FnMut() -> bool,
}

/// Batches of fewer rounds are on a path so slow that the pause between two batches is nothing beside a round.
const BRISK_ROUNDS: u64 = 100;

/// Losses after which a warm-up no longer waits for its count.
const WARM_UP_LOSSES: u64 = 10;

/// What is left of a size's loop beside the recorder's content.
#[derive(Debug)]
pub(crate) struct SizeDone {
    pub end: PassEnd,
    /// Usage of the measuring thread over the measured part, and what was observed around it.
    pub own: StopReport,
    pub map: ClockMap,
    /// Answered rounds a second of each pass, from the first send to the last answer of its batches.
    pub rates: Vec<f64>,
    /// Width of the median's interval that met the stop rule, in percent, when it was that which ended the size.
    pub width_percent: Option<f64>,
    /// When the first message of the warm-up was sent, in ticks.
    pub first_message: u64,
}

impl PathVisitor for SizeLoop<'_, '_> {
    type Output = SizeDone;

    fn visit<P: Path>(self, path: &mut P) -> SizeDone {
        self.run(path)
    }
}

impl SizeLoop<'_, '_> {
    fn run(mut self, path: &mut dyn Batches) -> SizeDone {
        let first_message = self.clock.now();
        let warm = self.warm_up(path).and_then(|()| self.rehearse(path));
        // All memory of the measured part is taken before the usage sampler starts: its page faults are the loop's.
        let mut rates = Vec::with_capacity(stop::MAX_PASSES);
        let mut map = MapRecorder::new(self.clock);
        self.observers.begin(self.size, self.socket);
        task::prefault_stack(128 * 1024);
        let mut usage = UsageSampler::start(self.spec.initiator.cpu);
        self.began = self.clock.now();
        let measured = warm.and_then(|()| self.measure(path, &mut map, &mut usage, &mut rates));
        let mut own = StopReport { usage: usage.finish(), ..StopReport::default() };
        self.observers.end(&mut own);
        let end = measured.err().unwrap_or(PassEnd::Done);
        SizeDone { end, own, map: map.finish(), rates, width_percent: self.width_percent, first_message }
    }

    /// Untimed rounds until both time and count are reached. The recorder sees them, to be warm, and does not count them.
    fn warm_up(&mut self, path: &mut dyn Batches) -> Result<(), PassEnd> {
        let warmup = self.spec.warmup;
        let end = self.clock.now().saturating_add(self.clock.ticks(u64::from(warmup.time_ms) * 1_000_000));
        let mut left = u64::from(warmup.count);
        let mut lost = 0;
        while left > 0 || self.clock.now() < end {
            let before = self.rounds.next_number;
            let until = self.clock.now().saturating_add(self.clock.ticks(BATCH_NS));
            let (rounds, until) = match left {
                // With the count reached, only the time is left to wait for.
                0 => (BATCH_ROUNDS, until.min(end)),
                left => (left.min(BATCH_ROUNDS), until),
            };
            self.batch(path, Limit { rounds, until, end: u64::MAX }, Phase::WarmUp)?;
            left = left.saturating_sub(self.rounds.next_number - before);
            // Each loss takes a whole time-out: a path like this one does not get warmer by its count.
            lost += self.rounds.lost_in_batch;
            if lost >= WARM_UP_LOSSES {
                left = 0;
            }
        }
        Ok(())
    }

    /// Some untimed rounds by the measured part's own code, whose pages are mapped when first executed; a single echo for
    /// `ping`, which resolves the address; none without warm-up.
    fn rehearse(&mut self, path: &mut dyn Batches) -> Result<(), PassEnd> {
        let rounds = match (self.spec.probe(), self.spec.warmup) {
            (Probe::Ping, _) => 1,
            (_, Warmup { time_ms: 0, count: 0 }) => return Ok(()),
            _ => 32,
        };
        let rule =
            StopRule { min_ms: 0, max_ms: 10, min_count: 1, max_count: rounds, at_minimum: false, ..self.spec.stop };
        let mut map = MapRecorder::new(self.clock);
        let mut usage = UsageSampler::start(self.spec.initiator.cpu);
        let end = self.pass(path, &rule, Phase::WarmUp, &mut map, &mut usage, &mut Pass::default());
        let _ = (usage.finish(), map.finish());
        match end {
            Err(PassEnd::PeerEnded) => Ok(()),
            other => other,
        }
    }

    fn measure(
        &mut self,
        path: &mut dyn Batches,
        map: &mut MapRecorder,
        usage: &mut UsageSampler,
        rates: &mut Vec<f64>,
    ) -> Result<(), PassEnd> {
        if self.spec.probe() != Probe::Rr {
            return self.pass(path, &self.spec.stop, Phase::Timed, map, usage, &mut Pass::default());
        }
        // In `rr` the interval asked for is that of the rate over passes.
        let whole = self.spec.stop;
        let (start, first_round) = (self.clock.now(), self.rounds_of(Phase::Timed));
        let behind = |own: &Self| stop::Progress {
            elapsed_ns: own.clock.ns(own.clock.now().saturating_sub(start)),
            rounds: own.rounds_of(Phase::Timed) - first_round,
            width_percent: None,
        };
        while stop::another_pass(&whole, rates, behind(self)) {
            let rule = stop::pass_rule(&whole, whole.max_count.saturating_sub(behind(self).rounds));
            let mut pass = Pass::default();
            let ended = self.pass(path, &rule, Phase::Timed, map, usage, &mut pass);
            // A pass that was cut short (a vanished peer, Ctrl-C) counts only when there is no whole one.
            if ended.is_ok() || (rates.is_empty() && pass.answered > 0) {
                rates.push(pass.rate(self.clock));
            }
            ended?;
        }
        Ok(())
    }

    /// Batches until the stop rule. `pass` gets what was answered, also when it ends badly.
    fn pass(
        &mut self,
        path: &mut dyn Batches,
        rule: &StopRule,
        phase: Phase,
        map: &mut MapRecorder,
        usage: &mut UsageSampler,
        pass: &mut Pass,
    ) -> Result<(), PassEnd> {
        let start = self.clock.now();
        let end = start.saturating_add(self.clock.ticks(u64::from(rule.max_ms) * 1_000_000));
        let first_round = self.rounds_of(phase);
        let mut chilled = false;
        loop {
            let now = self.clock.now();
            let progress = stop::Progress {
                elapsed_ns: self.clock.ns(now.saturating_sub(start)),
                rounds: self.rounds_of(phase) - first_round,
                width_percent: rule.interval_percent.and_then(|_| self.recorder.interval_percent()),
            };
            let (rounds, ns) = match stop::next(rule, progress) {
                Next::Batch { rounds, ns } => (rounds, ns),
                Next::Narrow => {
                    self.width_percent = progress.width_percent;
                    break;
                }
                Next::Full => break,
            };
            if chilled {
                // The pause for recording let caches and the peer go cold; a path that idles anyway needs no untimed round.
                self.batch(path, Limit::rounds(1), Phase::Again)?;
            }
            let until = self.clock.now().saturating_add(self.clock.ticks(ns));
            let outcome = self.batch(path, Limit { rounds, until, end }, phase);
            let (count, ticks) = span(&self.rounds.samples);
            // An extra round would come between two of a schedule.
            let paused = self.spec.gap != Gap::default() || self.spec.interval_us.is_some();
            chilled = !paused && count >= BRISK_ROUNDS;
            pass.answered += count;
            pass.active_ticks += ticks;
            map.push_if_due(self.clock.now());
            usage.observe_cpu();
            if let Some(live) = self.live.filter(|_| phase == Phase::Timed) {
                let elapsed_ns = self.clock.ns(self.clock.now().saturating_sub(self.began));
                live.percentiles(self.recorder.latest_interval());
                live.update(self.rounds_of(phase), self.recorder.lost(), elapsed_ns);
            }
            outcome?;
            if self.rounds.lost_in_batch > 0 && (self.peer_ended)() {
                return Err(PassEnd::PeerEnded);
            }
        }
        Ok(())
    }

    fn rounds_of(&self, phase: Phase) -> u64 {
        if phase == Phase::Timed { self.rounds.timed_rounds } else { self.rounds.rounds_sent() }
    }

    /// One batch, recorded also when it ends badly.
    fn batch(&mut self, path: &mut dyn Batches, limit: Limit, phase: Phase) -> Result<(), PassEnd> {
        let outcome = path.batch(self.rounds, limit, phase);
        self.recorder.ingest(&self.rounds.samples);
        outcome
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Pass {
    answered: u64,
    /// From the first send to the last answer of each batch.
    active_ticks: u64,
}

impl Pass {
    fn rate(self, clock: Clock) -> f64 {
        let seconds = clock.ns(self.active_ticks) as f64 / 1e9;
        if seconds > 0.0 { self.answered as f64 / seconds } else { 0.0 }
    }
}

/// Answered rounds of a batch, and the ticks from its first send to its last answer or time-out.
fn span(samples: &[Sample]) -> (u64, u64) {
    let mut answered = 0;
    let mut rounds = samples
        .iter()
        .filter(|sample| !sample.flags.has(SampleFlags::LATE) && !sample.flags.has(SampleFlags::DUPLICATE));
    let Some(first) = rounds.next() else { return (0, 0) };
    let mut last = first;
    for sample in std::iter::once(first).chain(rounds) {
        answered += u64::from(!sample.flags.has(SampleFlags::LOST));
        last = sample;
    }
    (answered, last.received.saturating_sub(first.sent))
}

#[cfg(test)]
mod tests;
