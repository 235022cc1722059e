//! The engine of `pace`: every rate of every size, each a result of its own.

use super::cost;
use super::count::PhaseCounter;
use super::group::{self, Group};
use super::in_flight::InFlightConfig;
use super::loops::{Ended, LoopConfig};
use super::open::{PacePaths, Remote};
use super::phase::{Phase, PhaseDone};
use super::schedule::{self, Schedule};
use super::threads::ThreadPlacement;
use crate::document::{Figures, Other, Parts, TimedResult};
use crate::driver::{self, Collected, Engine, Pass, PassDone, PassEnd, RT_SLACK};
use crate::measuring_thread::AffinityGuard;
use crate::{Context, Outcome, ProbeError};
use clock::Clock;
use flow::{PassObserver, PassObservers};
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{FindingId, LatencyKind, PaceSpec, Pacer, ProbeSpec, Protocol, Receive, Role, SampleFlags, Shape};
use net::{Fallback, PathOptions};
use pgm_io::PgmSocketCounts;
use record::{Delivered, Paced, PacedConfig, PacedPeer, PeerClock, RateEvidence, Recorded, RemoteEnd, SenderCounts};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::AtomicBool;
use wire::StopReport;

/// How long a sender that is behind may catch up after its schedule is over.
const CATCH_UP_NS: u64 = 1_000_000_000;
/// What the rings hold at least, in messages, and how long the counting thread may be kept from looking at them.
const LEAST_ROOM: f64 = 16_384.0;
const ROOM_SECONDS: f64 = 2.0;
const MOST_ROOM: f64 = 1_048_576.0;
/// Rates above this are not reached by one thread; memory is taken for no more.
const REACHABLE_PPS: f64 = 4e6;

/// Measures what the task asks for. Called on a thread of ordinary policy, which counts while others measure.
pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    clock: Clock,
    give: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let spec = &task.spec;
    let pace = spec.pace().cloned().unwrap_or_default();
    let paths = super::open::open(task, context, clock)?;
    if spec.initiator.policy.is_real_time() {
        let longest = std::time::Duration::from_micros(crate::check::longest_pace_us(spec));
        task::set_rt_limit(Some(longest + RT_SLACK))?;
    }
    let placement = ThreadPlacement {
        policy: spec.initiator.policy,
        send_cpu: spec.initiator.cpu,
        receive_cpu: pace.receive_cpu.or(spec.initiator.cpu),
        pacer: pace.pacer,
        free: task::allowed_cpus().unwrap_or_default(),
    };
    let _affinity = AffinityGuard::away_from(&[placement.send_cpu, placement.receive_cpu]);
    let rates: Vec<_> = match &pace.shape {
        // Its rate follows from its times.
        shape @ Shape::Times { .. } => vec![Some(schedule::mean_rate(shape, 0.0))],
        _ => pace.rates_pps.iter().copied().map(Some).collect(),
    };
    let engine = OpenLoop { task, context, clock, pace: &pace, paths, placement, number: 0, before: None };
    driver::drive(|| Ok(engine), task, context, &rates, give)
}

struct OpenLoop<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
    pace: &'a PaceSpec,
    paths: PacePaths,
    placement: ThreadPlacement,
    /// Number of the next message on the wire; numbers go on from pass to pass, so that stragglers are told apart.
    number: u64,
    /// What became of the rate before, and its size.
    before: Option<(u32, Delivered)>,
}

/// The rate of a pass of an open loop, in messages a second.
fn rate_of(pass: Pass) -> f64 {
    pass.rate.unwrap_or(1.0)
}

impl Engine for OpenLoop<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let spec = &self.task.spec;
        let warm_up_ns = u64::from(spec.warmup.time_ms) * 1_000_000;
        // The same at an even rate, untimed, for the warm-up's time: addresses are resolved, caches warm, the far clocks known.
        let (warm, warm_reports) = self.phase(
            pass,
            Schedule::even(rate_of(pass), warm_up_ns, u64::MAX),
            warm_up_ns,
            None,
            (&mut PassObservers::new(), SampleFlags::WARMUP),
        )?;
        if let Some(failure) = warm_reports.failure {
            return Err(failure);
        }
        if warm.end == PassEnd::Stopped {
            return Ok(None);
        }
        let config = self.config(pass, &warm_reports.reports);
        let mut self_cost = cost::measure(self.clock, &config, pass.size);
        if pass.first {
            self_cost.startup_ns = Some(driver::startup_ns(self.context, self.clock, warm.begin));
        }
        let mut paced = Paced::new(config);
        let limit_ns = limit_ns(spec);
        let schedule = Schedule::new(self.pace, rate_of(pass), limit_ns, spec.stop.max_count);
        let dropped_before = self.paths.dropped();
        let counted_before = self.paths.group.as_mut().map(Group::begin);
        let (mut done, collected) =
            self.phase(pass, schedule, limit_ns, Some(&mut paced), (observers, SampleFlags::default()))?;
        done.own.counters.socket_overflow = self.paths.dropped().saturating_sub(dropped_before);
        paced.sender(SenderCounts {
            // The rest is not unsent when the sender was interrupted or its path broke.
            unsent: if done.send.ended == Ended::Done { done.send.unsent } else { 0 },
            blocked: done.send.blocked,
            blocked_ns: self.clock.ns(done.send.blocked_ticks),
            run_queue_wait_ns: done.send.run_queue_wait_ns,
            involuntary_switches: done.send.involuntary_switches,
            stolen_ns: done.send.stolen_ns,
        });
        let of_group = self.of_group(pass, &done, &collected.reports, counted_before, &mut paced);
        let stamps: Vec<_> = collected.reports.iter().map(|report| report.as_ref()?.stamps.clone()).collect();
        paced.stamp_clocks(self.paths.sockets.stamp_clock().as_ref(), &stamps);
        let recorded = paced.finish(Some(&done.map));
        Ok(Some(self.pass_done(pass, done, recorded, self_cost, collected, of_group)))
    }

    fn close(self) {
        self.paths.close();
    }
}

impl OpenLoop<'_> {
    /// One phase: what the schedule wants for `length_ns`, and the reports. A warm-up has no recorder and no observer.
    fn phase(
        &mut self,
        pass: Pass,
        schedule: Schedule<'_>,
        length_ns: u64,
        mut paced: Option<&mut Paced>,
        (observers, flags): (&mut dyn PassObserver, SampleFlags),
    ) -> Result<(PhaseDone, Collected), ProbeError> {
        for remote in &mut self.paths.remotes {
            remote.session.start(pass.size, pass.size, pass.explains)?;
        }
        let live = self.context.live.as_ref().filter(|_| self.task.live && paced.is_some());
        let mut ended = None;
        // The recorder tells messages apart by the calls that carry them: a stream's have none of their own.
        let is_datagram = self.task.spec.socket()?.protocol == Protocol::Udp;
        let only = match self.paths.sockets.list.as_slice() {
            [one] if is_datagram => Some(one.as_fd().as_raw_fd()),
            _ => None,
        };
        observers.begin(pass.size, only);
        let mut done = self.send_and_receive(pass, schedule, length_ns, paced.as_deref_mut(), flags, &mut ended)?;
        observers.end(&mut done.own);
        if let (Some(paced), Some(live)) = (paced, live) {
            paced.close_intervals();
            paced.intervals().into_iter().for_each(|interval| live.report(interval));
        }
        let name = self.paths.remotes.first().map_or_else(String::new, |remote| remote.session.name.clone());
        let sessions = self.paths.remotes.iter_mut().map(|remote| &mut remote.session);
        let collected = driver::collect_reports(sessions, &name, pass.size, done.end, ended);
        Ok((done, collected))
    }

    fn send_and_receive(
        &mut self,
        pass: Pass,
        schedule: Schedule<'_>,
        length_ns: u64,
        paced: Option<&mut Paced>,
        flags: SampleFlags,
        ended: &mut Option<(usize, ProbeError)>,
    ) -> Result<PhaseDone, ProbeError> {
        let spec = &self.task.spec;
        let live = self.context.live.as_ref().filter(|_| self.task.live);
        let PacePaths { sockets, group, remotes, .. } = &mut self.paths;
        let counter = PhaseCounter::new(paced, live, self.context, self.clock, remotes, ended);
        let peers = sockets.peers;
        let every = u64::from(self.pace.every.max(1));
        // Message 0 is one that is answered.
        self.number = self.number.next_multiple_of(every);
        let timeout_ns = u64::from(spec.timeout_ms) * 1_000_000;
        let rate = rate_of(pass).min(REACHABLE_PPS);
        let burst = f64::from(self.pace.shape.burst());
        let in_flight = 2.0 * rate * (timeout_ns as f64 / 1e9 + 0.2) + 2.0 * burst + LEAST_ROOM;
        let room = (rate * ROOM_SECONDS + 2.0 * burst).clamp(LEAST_ROOM, MOST_ROOM);
        let halt = AtomicBool::new(false);
        let phase = Phase {
            clock: self.clock,
            placement: &self.placement,
            loop_config: LoopConfig {
                begin: 0,
                until: self.clock.ticks(length_ns.saturating_add(CATCH_UP_NS)),
                rate: self.clock.rate(),
                first_number: self.number,
                tags: sockets.tags.clone(),
                bytes: pass.size as usize,
                wall: sockets.stamped(),
                peers,
                repairs: spec.protocol() == Some(Protocol::Pgm),
            },
            schedule,
            in_flight_config: InFlightConfig {
                first_number: self.number,
                every,
                peers,
                timeout: self.clock.ticks(timeout_ns),
                flags,
                room: whole(in_flight),
            },
            room: whole(room),
            sent_stamps: sockets.sent_stamps(pass.size as usize)?,
            counts_losses: spec.counts_losses(),
            halt: &halt,
            counter,
        };
        let options = PathOptions {
            receive: if self.pace.pacer == Pacer::Spin { Receive::Spin } else { spec.initiator.receive },
            idle: spec.initiator.idle,
            clock: self.clock,
            timeout_ns: 0,
            stop: &halt,
        };
        let done = match group {
            Some(group) => group.way.with_duplex(&options, phase)??,
            None => net::with_duplex(&mut sockets.list, &options, phase)??,
        };
        self.number += done.send.sent;
        Ok(done)
    }

    fn config(&self, pass: Pass, reports: &[Option<StopReport>]) -> PacedConfig {
        let spec = &self.task.spec;
        let paths = &self.paths;
        let peers = paths.remotes.iter().zip(reports).map(|(remote, report)| PacedPeer {
            host: remote.session.host.clone(),
            clock: self.clock_of(remote, report.as_ref(), pass.size),
        });
        PacedConfig {
            size: pass.size,
            burst: self.pace.shape.burst(),
            random_delay: self.pace.random_delay_percent.is_some(),
            every: self.pace.every.max(1),
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            outliers: pass.outliers(spec),
            raw_capacity: driver::raw_capacity(spec),
            line_pps: paths.line_pps(pass.size),
            peers: peers.collect(),
            stamps: paths.sockets.stamp_clock().map_or(model::Stamps::None, |clock| clock.stamps),
            repairs: paths.group.is_some(),
            ..PacedConfig::new(self.clock.rate(), LatencyKind::Rtt, rate_of(pass))
        }
    }

    /// What is known of a reflector's clock: processes of one machine with one kind of clock read one counter.
    fn clock_of(&self, remote: &Remote, report: Option<&StopReport>, size: u32) -> PeerClock {
        let Some((rate, source)) = report.and_then(|report| Some((report.ticks?, report.clock?))) else {
            return PeerClock::Unknown;
        };
        if (size as usize) < wire::data::STAMPED_BYTES {
            return PeerClock::Unknown;
        }
        if remote.path_info.one_machine && source == self.clock.source() {
            PeerClock::SameCounter
        } else {
            PeerClock::Other(rate)
        }
    }

    /// What PGM did in a pass, where it carried the messages.
    fn of_group(
        &self,
        pass: Pass,
        done: &PhaseDone,
        reports: &[Option<StopReport>],
        before: Option<PgmSocketCounts>,
        paced: &mut Paced,
    ) -> group::PgmOutcome {
        let (Some(group), Some(before)) = (&self.paths.group, before) else { return group::PgmOutcome::default() };
        let clocks = self.paths.remotes.iter().zip(reports);
        let same_ticks: Vec<bool> = clocks
            .map(|(remote, report)| self.clock_of(remote, report.as_ref(), pass.size) == PeerClock::SameCounter)
            .collect();
        let over = group::PgmPass {
            before,
            clock: self.clock,
            begin: done.begin,
            first_number: self.number.saturating_sub(done.send.sent),
            sent: done.send.sent,
            remotes: &self.paths.remotes,
            reports,
            same_ticks: &same_ticks,
        };
        group.finish(&over, paced)
    }

    fn pass_done(
        &mut self,
        pass: Pass,
        mut done: PhaseDone,
        mut recorded: Recorded,
        self_cost: SelfCost,
        collected: Collected,
        of_group: group::PgmOutcome,
    ) -> PassDone {
        let Collected { reports, failure } = collected;
        let remotes = &self.paths.remotes;
        let names: Vec<String> = match remotes.as_slice() {
            [_] => vec![Role::Reflector.to_string()],
            several => several.iter().map(|remote| remote.session.host.clone()).collect(),
        };
        // A run that was cut short does not show its rate.
        if done.end == PassEnd::Done {
            let ends: Vec<RemoteEnd<'_>> = reports
                .iter()
                .zip(&names)
                .filter_map(|(report, name)| {
                    let report = report.as_ref()?;
                    Some(RemoteEnd {
                        name,
                        received: report.received,
                        over_rate: report.over_rate,
                        counters: &report.counters,
                        usage: &report.usage,
                    })
                })
                .collect();
            // Of the same size.
            let before = self.before.filter(|(size, _)| *size == pass.size).map(|(_, delivered)| delivered);
            recorded.judge_rate(&RateEvidence { initiator: &done.own.counters, remotes: &ends, before });
        }
        self.before = Delivered::of(&recorded).map(|delivered| (pass.size, delivered));
        let saturated = recorded.pace.as_ref().is_some_and(|pace| pace.rate.saturated.is_some());
        let found = &mut done.own.notes;
        let overrun = format!(
            "{} samples were dropped, because the counting thread had no CPU for {ROOM_SECONDS:.0} s or more: leave it a CPU without real-time work",
            done.overrun
        );
        let unmatched =
            format!("{} unmatched messages came: of another session, length or run, or not asked for", done.unmatched);
        found.extend(driver::counted(done.overrun, FindingId::SamplesOverrun, overrun));
        found.extend(driver::counted(done.unmatched, FindingId::Order, unmatched));
        found.extend(driver::fell_back(Fallback::of(&self.paths.sockets.list)));
        found.extend(of_group.found);
        let repairs = recorded.pace.as_mut().and_then(|pace| pace.repairs.take());
        let pgm = self.paths.group.as_ref().map(|group| repairs.unwrap_or_default().report(&group.spec, of_group.ends));
        let (lost, sent) = (recorded.messages.lost, done.send.sent.saturating_mul(reports.len() as u64));
        found.extend(driver::loss_by_direction(&self.task.spec, lost, sent, done.answered, &reports, ""));
        let vanished = driver::vanished(failure.as_ref(), found);
        let timed = TimedResult { pgm, events: of_group.events, ..TimedResult::new(recorded) };
        let is_one = remotes.len() == 1;
        let others = remotes.iter().zip(names).zip(reports).map(|((remote, name), report)| Other {
            name: Some(name).filter(|_| !is_one),
            address: remote.path_info.peer.clone(),
            one_machine: remote.path_info.one_machine,
            report,
        });
        let parts = Parts {
            others: others.collect(),
            path_info: remotes.first().map(|remote| remote.path_info.clone()).unwrap_or_default(),
            map: done.map,
            own: done.own,
            self_cost,
            vanished,
            interrupted: done.end == PassEnd::Stopped,
            source: None,
            figures: Figures::Timed(Box::new(timed)),
        };
        PassDone { parts, failure, saturated: saturated && !self.pace.beyond_saturation }
    }
}

/// How long the schedule may last; for ever when only messages are counted.
fn limit_ns(spec: &ProbeSpec) -> u64 {
    if spec.stop.max_ms == u32::MAX { u64::MAX / 4 } else { u64::from(spec.stop.max_ms) * 1_000_000 }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and bounded; `as` saturates")]
fn whole(count: f64) -> usize {
    count as usize
}
