//! Timer wake-ups: threads sleep until absolute times and note how late they woke up, as cyclictest does.
//!
//! Each thread ([`sleeper`]) writes into a ring; the counting thread, off their CPUs, makes samples ([`count`]): a deadline is
//! "sent" when it was due and "received" when the thread noticed. One that sleeps through further deadlines is late for each of
//! them; cyclictest leaves these out.

mod count;
mod sleeper;

use crate::document::{Figures, Parts, PathInfo, TimedResult};
use crate::driver::{self, Engine, Pass, PassDone, PassEnd};
use crate::measuring_thread::AffinityGuard;
use crate::pace::ring::Ring;
use crate::pace::threads::StartBarrier;
use crate::pace::usage::together;
use crate::{Context, Outcome, ProbeError, cost, stop, thread};
use clock::{Clock, MapRecorder};
use count::Counter;
use flow::PassObserver;
use host::UsageSampler;
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{EndUsage, Finding, FindingId, LatencyKind, ProbeSpec, Role, WakeReport};
use record::RecorderConfig;
use sleeper::{ENTRY_WORDS, Sleeper, SleeperReport};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use wire::StopReport;

/// How often the counting thread looks: rarely, because on a machine with one CPU it takes that from the sleepers.
const LOOK: Duration = Duration::from_millis(20);
/// Between two signals to threads that shall end.
const NUDGE: Duration = Duration::from_millis(1);
/// From the moment that all threads are ready to the first deadline.
const LEAD_NS: u64 = 3_000_000;
/// What the rings hold at least, and for how long the counting thread may be kept from looking at them.
const LEAST_ROOM: u64 = 4096;
const ROOM_NS: u64 = 10_000_000_000;
/// Share of wake-ups after the next deadline, in percent, beyond which the interval is shorter than practically any of them.
const OVERSLEPT_PERCENT: f64 = 90.0;

pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    _: Clock,
    give: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let cpus: Vec<Option<u32>> = task.spec.initiator_cpus().collect();
    let _affinity = AffinityGuard::away_from(&cpus);
    let engine = WakeUps { task, context, clock: Clock::monotonic(), cpus };
    driver::drive(|| Ok(engine), task, context, &[None], give)
}

struct WakeUps<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    /// The clock of the timers.
    clock: Clock,
    cpus: Vec<Option<u32>>,
}

struct SleepersReport {
    sleepers: Vec<SleeperReport>,
    end: PassEnd,
    begin: u64,
    own: StopReport,
    map: model::ClockMap,
    /// The width of the interval that ended it.
    width_percent: Option<f64>,
}

impl Engine for WakeUps<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let spec = &self.task.spec;
        let config = RecorderConfig { outliers: pass.outliers(spec), ..recorder_config(spec, self.clock) };
        let mut self_cost = SelfCost {
            clock_read_ns: self.clock.read_cost_ns(),
            // One read of the clock is in each figure.
            loop_ns: self.clock.read_cost_ns(),
            record_ns: cost::record_ns(self.clock, config),
            startup_ns: None,
        };
        let mut counter = Counter::new(config, self.interval_ns(), &self.cpus);
        let done = self.sleep(&mut counter, observers)?;
        if pass.first {
            self_cost.startup_ns = Some(driver::startup_ns(self.context, self.clock, done.begin));
        }
        if done.end == PassEnd::Stopped && counter.count() == 0 {
            return Ok(None);
        }
        let (recorded, wake) = counter.finish(&done.map, done.sleepers.iter().map(|one| one.slack_ns).max());
        let mut own = StopReport { usage: usage(&done.sleepers), ..done.own };
        // Nothing is sent.
        own.carried = None;
        own.notes.extend(findings(spec, &wake, &done.sleepers, &self.cpus));
        own.notes.extend(overrun(done.sleepers.iter().map(|one| one.dropped).sum()));
        let timed = TimedResult { width_percent: done.width_percent, wake: Some(wake), ..TimedResult::new(recorded) };
        let parts = Parts {
            path_info: PathInfo { one_machine: true, ..PathInfo::default() },
            map: done.map,
            own,
            others: Vec::new(),
            self_cost,
            vanished: None,
            interrupted: done.end == PassEnd::Stopped,
            source: None,
            figures: Figures::Timed(Box::new(timed)),
        };
        Ok(Some(PassDone { parts, failure: None, saturated: false }))
    }

    fn close(self) {}
}

impl WakeUps<'_> {
    fn interval_ns(&self) -> u64 {
        1000 * u64::from(self.task.spec.interval_us.unwrap_or(model::wake::INTERVAL_US))
    }

    /// Runs all threads until their deadlines are over, and counts meanwhile.
    fn sleep(&self, counter: &mut Counter, observers: &mut dyn PassObserver) -> Result<SleepersReport, ProbeError> {
        let spec = &self.task.spec;
        let interval_ns = self.interval_ns();
        let room = (ROOM_NS / interval_ns).max(LEAST_ROOM);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut rings: Vec<Ring<ENTRY_WORDS>> = self.cpus.iter().map(|_| Ring::new(room)).collect();
        let (producers, mut consumers): (Vec<_>, Vec<_>) = rings.iter_mut().map(Ring::ends).unzip();
        let (halt, barrier) = (AtomicBool::new(false), StartBarrier::new(self.cpus.len()));
        let sleeper = Sleeper {
            policy: spec.initiator.policy,
            slack_ns: spec.wake().and_then(|wake| wake.timer_slack_ns),
            interval_ns,
            warm_up: (u64::from(spec.warmup.time_ms) * 1_000_000).div_ceil(interval_ns),
            deadlines: model::wake::deadlines(spec),
            halt: &halt,
            barrier: &barrier,
        };
        let mut map = MapRecorder::new(self.clock);
        observers.begin(0, None);
        std::thread::scope(|scope| {
            let mut threads: Vec<ScopedJoinHandle<'_, Result<SleeperReport, ProbeError>>> = Vec::new();
            for ((number, cpu), ring) in self.cpus.iter().enumerate().zip(producers) {
                let sleeper = &sleeper;
                let thread = thread::spawn_scoped(scope, "wake", move || sleeper.run(number, *cpu, ring));
                threads.push(thread.inspect_err(|_| barrier.cancel())?);
            }
            let begin = barrier.begin(self.clock, LEAD_NS);
            counter.begin(begin.map_or(u64::MAX, |begin| sleeper.first(begin)), sleeper.deadlines);
            let mut width_percent = None;
            let end = loop {
                std::thread::sleep(LOOK);
                // In this order: what a thread that has ended wrote is all there.
                let ended = threads.iter().all(ScopedJoinHandle::is_finished);
                counter.collect(&mut consumers);
                let now = self.clock.now();
                map.push_if_due(now);
                let elapsed_ns = now.saturating_sub(counter.first());
                self.context.progress.wake_up(counter.max_ns());
                self.context.progress.update(counter.count(), 0, elapsed_ns);
                let progress = stop::Progress {
                    elapsed_ns,
                    rounds: counter.count() / self.cpus.len().max(1) as u64,
                    width_percent: spec.stop.interval_percent.and_then(|_| counter.interval_percent()),
                };
                if stop::next(&spec.stop, progress) == stop::Next::Narrow {
                    width_percent = progress.width_percent;
                    break PassEnd::Done;
                }
                if ended {
                    break PassEnd::Done;
                }
                if self.context.stopping() {
                    break PassEnd::Stopped;
                }
            };
            halt.store(true, Ordering::Release);
            while !threads.iter().all(ScopedJoinHandle::is_finished) {
                barrier.interrupt();
                std::thread::sleep(NUDGE);
            }
            counter.collect(&mut consumers);
            let joined = threads.into_iter().map(|thread| thread::joined(thread.join()));
            let sleepers = joined.collect::<Result<_, _>>()?;
            let begin = begin.unwrap_or_default();
            let mut own = StopReport::default();
            observers.end(&mut own);
            Ok(SleepersReport { sleepers, end, begin, own, map: map.finish(), width_percent })
        })
    }
}

fn recorder_config(spec: &ProbeSpec, clock: Clock) -> RecorderConfig {
    let ms = model::wake::deadlines(spec).saturating_mul(u64::from(spec.interval_us.unwrap_or(1))) / 1000;
    RecorderConfig {
        raw_capacity: driver::raw_capacity(spec),
        has_header: false,
        ..RecorderConfig::new(clock.rate(), LatencyKind::WakeUp, u32::try_from(ms).unwrap_or(u32::MAX))
    }
}

fn usage(sleepers: &[SleeperReport]) -> EndUsage {
    let all = sleepers.iter().filter_map(|one| one.usage.clone());
    all.reduce(|first, next| together(&first, &next, 0)).unwrap_or_default()
}

fn overrun(dropped: u64) -> Option<Finding> {
    let seconds = ROOM_NS / 1_000_000_000;
    let detail = format!(
        "{dropped} wake-ups were not counted: the thread that counts them had no CPU for {seconds} s. Leave it one, or use a longer \
         --interval-us"
    );
    driver::counted(dropped, FindingId::SamplesOverrun, detail)
}

/// What is wrong with the deadlines and the threads.
fn findings(spec: &ProbeSpec, wake: &WakeReport, sleepers: &[SleeperReport], cpus: &[Option<u32>]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |id, detail| found.push(Finding::at(id, Role::Initiator, detail));
    let wanted = spec.initiator.policy;
    if let Some(one) = sleepers.iter().find(|one| one.policy.is_some_and(|policy| policy != wanted)) {
        let had = one.policy.unwrap_or_default();
        add(
            FindingId::PathNotAsClaimed,
            format!(
                "policy {wanted} was asked for, and a thread ended with policy {had}: something else changed it meanwhile (a \
                 tuning daemon, chrt, rtkit)"
            ),
        );
    }
    // Of one thread the rules for every end say it.
    let several = cpus.len() > 1;
    let moved = sleepers.iter().zip(cpus).find_map(|(one, cpu)| {
        let usage = one.usage.as_ref().filter(|usage| several && usage.migrations > 0)?;
        Some((usage.migrations, (*cpu)?))
    });
    if let Some((migrations, cpu)) = moved {
        add(
            FindingId::Migrated,
            format!("the thread of CPU {cpu} moved {migrations} times: let nothing else change its affinity"),
        );
    }
    let counts = [wake.deadlines, wake.missed, wake.overslept, wake.interval_ns].map(Option::unwrap_or_default);
    let [deadlines, missed, overslept, interval_ns] = counts;
    if missed > 0 {
        let share = 100.0 * missed as f64 / deadlines.max(1) as f64;
        let passed = format!(
            "{missed} of {deadlines} deadlines ({share:.3} %) passed before the thread had woken up from the one before"
        );
        let wake_ups = deadlines - missed.min(deadlines);
        if 100.0 * overslept as f64 / wake_ups.max(1) as f64 > OVERSLEPT_PERCENT {
            let interval_us = interval_ns / 1000;
            let remedy = format!(
                "an interval of {interval_us} µs is too short here, and the figures are about the interval: use a longer --interval-us"
            );
            add(FindingId::IntervalTooShort, format!("{passed}: {remedy}"));
        } else {
            add(
                FindingId::DeadlinesMissed,
                format!("{passed}; each counts with how late it was, where cyclictest leaves it out"),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests;
