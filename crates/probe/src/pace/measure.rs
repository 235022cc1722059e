//! `pace` from its first word to its last: every rate of every size, each a result of its own.

use super::cost;
use super::count::PhaseCounter;
use super::group::{self, Group};
use super::in_flight::InFlightConfig;
use super::loops::{Ended, LoopConfig};
use super::open::{PacePaths, Remote};
use super::phase::{EarlyEnd, Phase, PhaseDone};
use super::schedule::{self, Schedule};
use super::threads::ThreadPlacement;
use crate::document::{self, Parts};
use crate::{Context, Outcome, ProbeError};
use clock::Clock;
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{Finding, FindingId, LatencyKind, PaceSpec, Pacer, ProbeSpec, Protocol, Receive, SampleFlags, Shape};
use net::PathOptions;
use pgm_io::WayCounts;
use record::{Delivered, Paced, PacedConfig, PacedPeer, PeerClock, RateEvidence, Recorded, RemoteEnd, SenderCounts};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wire::StopReport;

/// Raw samples kept at most.
const MOST_RAW: u64 = 4_000_000;
/// How long a sender that is behind may catch up after its schedule is over.
const CATCH_UP_NS: u64 = 1_000_000_000;
/// What the rings hold at least, in messages, and how long the counting thread may be kept from looking at them.
const LEAST_ROOM: f64 = 16_384.0;
const ROOM_SECONDS: f64 = 2.0;
const MOST_ROOM: f64 = 1_048_576.0;
/// Rates above this are not reached by one thread; memory is taken for no more.
const REACHABLE_PPS: f64 = 4e6;
/// Beyond the time that a pass may take, what a real-time thread may run without blocking before the kernel ends it.
const RT_SLACK: Duration = Duration::from_secs(30);

/// Measures what the task asks for. Called on a thread of ordinary policy, which counts while others measure.
pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    clock: Clock,
    give: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let spec = &task.spec;
    let pace = spec.pace.clone().unwrap_or_default();
    let mut paths = super::open::open(task, context, clock)?;
    let mut found = Vec::new();
    if let Err(refused) = task::lock_memory() {
        found.push(Finding::at(FindingId::NotPermitted, "initiator", refused.to_string()));
    }
    if spec.initiator.policy.is_real_time() {
        task::set_rt_limit(Some(longest_pass(spec) + RT_SLACK))?;
    }
    let placement = ThreadPlacement {
        policy: spec.initiator.policy,
        send_cpu: spec.initiator.cpu,
        receive_cpu: pace.receive_cpu.or(spec.initiator.cpu),
        pacer: pace.pacer,
        free: task::allowed_cpus().unwrap_or_default(),
    };
    let _affinity = AffinityGuard::from(&placement);
    let mut engine = Engine {
        task,
        context,
        clock,
        pace: &pace,
        placement,
        found,
        number: 0,
        outcome: Outcome::default(),
        before: None,
    };
    let result = engine.all(&mut paths, give);
    paths.close();
    result.map(|()| engine.outcome)
}

struct Engine<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
    pace: &'a PaceSpec,
    placement: ThreadPlacement,
    found: Vec<Finding>,
    /// Number of the next message on the wire. Numbers go on from pass to pass, so that a straggler of one is none of the
    /// next one's.
    number: u64,
    outcome: Outcome,
    /// What became of the rate before, and its size.
    before: Option<(u32, Delivered)>,
}

/// One rate of one size.
#[derive(Debug, Clone, Copy)]
struct RatePoint {
    size: u32,
    /// Mean rate in messages a second.
    rate: f64,
}

/// The reflectors' reports of a finished pass.
struct RemoteReports {
    reports: Vec<Option<StopReport>>,
    failure: Option<ProbeError>,
}

impl Engine<'_> {
    fn all(&mut self, paths: &mut PacePaths, give: &mut dyn FnMut(Measured)) -> Result<(), ProbeError> {
        let asked: Vec<f64> = match &self.pace.shape {
            // Its rate follows from its times.
            shape @ Shape::Times { .. } => vec![schedule::mean_rate(shape, 0.0)],
            _ => self.pace.rates_pps.clone(),
        };
        for size in self.task.spec.sizes.iter() {
            for &rate in &asked {
                if self.context.stopping() {
                    self.outcome.interrupted = true;
                }
                if self.outcome.interrupted {
                    return Ok(());
                }
                let saturated = self.pass(paths, RatePoint { size, rate }, give)?;
                // Higher rates would say the same.
                if saturated && !self.pace.beyond_saturation {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One pass; whether something could not keep up with its rate.
    fn pass(
        &mut self,
        paths: &mut PacePaths,
        pass: RatePoint,
        give: &mut dyn FnMut(Measured),
    ) -> Result<bool, ProbeError> {
        let first = self.outcome.sizes == 0;
        let (warm, warm_told) = self.warm_up(paths, pass)?;
        if let Some(failure) = warm_told.failure {
            return Err(failure);
        }
        if warm.cut == Some(EarlyEnd::Stopped) {
            self.outcome.interrupted = true;
            return Ok(false);
        }
        let config = self.config(paths, pass, &warm_told.reports);
        let mut self_cost = cost::measure(self.clock, &config, pass.size);
        if first {
            self_cost.startup_ns = Some(self.startup_ns(warm.begin));
        }
        let mut paced = Paced::new(config);
        for remote in &mut paths.remotes {
            remote.session.start(pass.size, pass.size)?;
        }
        let spec = &self.task.spec;
        let schedule = Schedule::new(&self.pace.shape, pass.rate, self.pace.seed, limit_ns(spec), spec.stop.max_count);
        let length_ns = limit_ns(spec).saturating_add(CATCH_UP_NS);
        let dropped_before = paths.dropped();
        let counted_before = paths.group.as_mut().map(Group::begin);
        let mut ended = None;
        let mut done = {
            let live = self.context.live.as_ref().filter(|_| self.task.live);
            let mut count =
                PhaseCounter::new(Some(&mut paced), live, self.context, self.clock, &mut paths.remotes, &mut ended);
            self.phase(
                &mut paths.sockets,
                paths.group.as_mut(),
                &mut count,
                pass,
                schedule,
                length_ns,
                SampleFlags::default(),
            )?
        };
        done.counters.socket_overflow = paths.dropped().saturating_sub(dropped_before);
        paced.sender(SenderCounts {
            // The rest is not unsent when the sender was interrupted or its path broke.
            unsent: if done.send.ended == Ended::Done { done.send.unsent } else { 0 },
            blocked: done.send.blocked,
            blocked_ns: self.clock.ns(done.send.blocked_ticks),
            run_queue_wait_ns: done.send.run_queue_wait_ns,
            involuntary_switches: done.send.involuntary_switches,
        });
        if let Some(live) = self.context.live.as_ref().filter(|_| self.task.live) {
            paced.close_intervals();
            paced.intervals().into_iter().for_each(|interval| live.tell(interval));
        }
        let told = self.collect_reports(paths, pass.size, &done, ended);
        self.outcome.interrupted |= done.cut == Some(EarlyEnd::Stopped);
        let of_group = self.of_group(paths, pass, &done, &told, counted_before, &mut paced);
        let remote: Vec<_> = told.reports.iter().map(|report| report.as_ref()?.stamps.clone()).collect();
        paced.stamp_clocks(paths.sockets.stamp_clock().as_ref(), &remote);
        let recorded = paced.finish(Some(&done.map));
        self.give(paths, pass, done, recorded, self_cost, told, of_group, give)
    }

    /// What PGM did in a pass, where it carried the messages.
    fn of_group(
        &self,
        paths: &PacePaths,
        pass: RatePoint,
        done: &PhaseDone,
        told: &RemoteReports,
        before: Option<WayCounts>,
        paced: &mut Paced,
    ) -> group::PgmOutcome {
        let (Some(group), Some(before)) = (&paths.group, before) else { return group::PgmOutcome::default() };
        let clocks = paths.remotes.iter().zip(&told.reports);
        let same_ticks: Vec<bool> = clocks
            .map(|(remote, report)| self.clock_of(remote, report.as_ref(), pass.size) == PeerClock::SameCounter)
            .collect();
        let over = group::PgmPass {
            before,
            clock: self.clock,
            begin: done.begin,
            first_number: self.number.saturating_sub(done.send.sent),
            sent: done.send.sent,
            remotes: &paths.remotes,
            reports: &told.reports,
            same_ticks: &same_ticks,
        };
        group.finish(&over, paced)
    }

    /// The same at an even rate, untimed: resolves addresses, warms caches and pages, and has the reflectors report
    /// their clocks. It lasts as long as the warm-up's time; its count is for rounds.
    fn warm_up(&mut self, paths: &mut PacePaths, pass: RatePoint) -> Result<(PhaseDone, RemoteReports), ProbeError> {
        for remote in &mut paths.remotes {
            remote.session.start(pass.size, pass.size)?;
        }
        let length_ns = u64::from(self.task.spec.warmup.time_ms) * 1_000_000;
        let schedule = Schedule::even(pass.rate, length_ns);
        let mut ended = None;
        let done = {
            let mut count = PhaseCounter::new(None, None, self.context, self.clock, &mut paths.remotes, &mut ended);
            let until = length_ns.saturating_add(CATCH_UP_NS);
            self.phase(
                &mut paths.sockets,
                paths.group.as_mut(),
                &mut count,
                pass,
                schedule,
                until,
                SampleFlags::WARMUP,
            )?
        };
        let told = self.collect_reports(paths, pass.size, &done, ended);
        Ok((done, told))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one phase, each from another hand")]
    fn phase(
        &mut self,
        sockets: &mut super::open::Sockets,
        group: Option<&mut Group>,
        count: &mut PhaseCounter<'_>,
        pass: RatePoint,
        schedule: Schedule<'_>,
        length_ns: u64,
        flags: SampleFlags,
    ) -> Result<PhaseDone, ProbeError> {
        let spec = &self.task.spec;
        let peers = sockets.peers();
        let every = u64::from(self.pace.every.max(1));
        // Message 0 is one that is answered.
        self.number = self.number.next_multiple_of(every);
        let timeout_ns = u64::from(spec.timeout_ms) * 1_000_000;
        let rate = pass.rate.min(REACHABLE_PPS);
        let burst = if let Shape::Burst { count } = self.pace.shape { f64::from(count) } else { 0.0 };
        let in_flight = 2.0 * rate * (timeout_ns as f64 / 1e9 + 0.2) + 2.0 * burst + LEAST_ROOM;
        let room = (rate * ROOM_SECONDS + 2.0 * burst).clamp(LEAST_ROOM, MOST_ROOM);
        let halt = AtomicBool::new(false);
        let phase = Phase {
            clock: self.clock,
            placement: &self.placement,
            loop_config: LoopConfig {
                begin: 0,
                until: self.clock.ticks(length_ns),
                rate: self.clock.rate(),
                first_number: self.number,
                tags: sockets.tags(),
                bytes: pass.size as usize,
                wall: sockets.stamped(),
                peers,
                repairs: spec.socket.protocol == Protocol::Pgm,
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
            stream: spec.socket.protocol.is_stream(),
            halt: &halt,
            count,
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

    fn config(&self, paths: &PacePaths, pass: RatePoint, reports: &[Option<StopReport>]) -> PacedConfig {
        let spec = &self.task.spec;
        let peers = paths.remotes.iter().zip(reports).map(|(remote, report)| PacedPeer {
            host: remote.host(),
            clock: self.clock_of(remote, report.as_ref(), pass.size),
        });
        let raw = if spec.raw { spec.stop.max_count.min(MOST_RAW) } else { 0 };
        let burst = if let Shape::Burst { count } = self.pace.shape { count } else { 1 };
        PacedConfig {
            size: pass.size,
            burst,
            every: self.pace.every.max(1),
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            outliers: spec.outliers,
            raw_capacity: usize::try_from(raw).unwrap_or(usize::MAX),
            line_pps: paths.line_pps(pass.size),
            peers: peers.collect(),
            stamps: paths.sockets.stamp_clock().map_or(model::Stamps::None, |clock| clock.stamps),
            repairs: paths.group.is_some(),
            ..PacedConfig::new(self.clock.rate(), LatencyKind::Rtt, pass.rate)
        }
    }

    /// What became of the rate before it, of the same size.
    fn before_of(&self, pass: RatePoint) -> Option<Delivered> {
        self.before.filter(|(size, _)| *size == pass.size).map(|(_, delivered)| delivered)
    }

    /// What is known of a reflector's clock: the ticks of one machine's processes are of one counter when they are of one
    /// kind.
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

    /// Start of the process to the first message of the warm-up.
    fn startup_ns(&self, first_message: u64) -> u64 {
        let since_message = self.clock.ns(self.clock.now().saturating_sub(first_message));
        let since_start = u64::try_from(self.context.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        since_start.saturating_sub(since_message)
    }

    /// Takes the reflectors' reports, and says what went wrong if something did.
    fn collect_reports(
        &self,
        paths: &mut PacePaths,
        size: u32,
        done: &PhaseDone,
        ended: Option<(usize, ProbeError)>,
    ) -> RemoteReports {
        let broken = done.broken();
        let hasty = broken.is_some() || !matches!(done.cut, None | Some(EarlyEnd::Stopped));
        let gone = ended.as_ref().map(|(at, _)| *at);
        let mut last_words =
            ended.map(|(at, error)| (paths.remotes.get(at).map_or_else(String::new, Remote::name), error));
        let mut reports = Vec::with_capacity(paths.remotes.len());
        for (at, remote) in paths.remotes.iter_mut().enumerate() {
            if gone == Some(at) {
                reports.push(None);
                continue;
            }
            match remote.session.stop(hasty) {
                Ok(report) => reports.push(Some(report)),
                Err(error) => {
                    last_words.get_or_insert_with(|| (remote.session.name().to_owned(), error));
                    reports.push(None);
                }
            }
        }
        let name = paths.remotes.first().map_or_else(String::new, Remote::name);
        // An endpoint's own reason is more precise than what was seen here.
        let because = |seen: String, words: Option<(String, ProbeError)>| match words {
            Some((address, words)) => ProbeError::PeerVanished { address, size, why: words.last_words() },
            None => ProbeError::PeerVanished { address: name.clone(), size, why: seen },
        };
        // A reflector that could not go on says why; here it only looks silent.
        let stuck = reports.iter().zip(&paths.remotes).find_map(|(report, remote)| {
            let note = report.as_ref()?.notes.iter().find(|note| note.id == FindingId::PathBroken)?;
            Some(ProbeError::Reflector { address: remote.name(), size, why: note.detail.clone() })
        });
        let failure = match (broken, done.cut) {
            (Some(cause), _) if cause.peer_is_gone() => Some(because(cause.to_string(), last_words)),
            (Some(cause), _) => Some(ProbeError::Path { address: name.clone(), size, cause }),
            (None, Some(EarlyEnd::PeerEnded)) => Some(because("the control connection ended".to_owned(), last_words)),
            (None, Some(EarlyEnd::Silent)) if stuck.is_some() => stuck,
            (None, Some(EarlyEnd::Silent)) => {
                Some(because("nothing came back for 5 s and more".to_owned(), last_words))
            }
            (None, None | Some(EarlyEnd::Stopped)) => last_words.map(|words| because(String::new(), Some(words))),
        };
        RemoteReports { reports, failure }
    }

    #[expect(clippy::too_many_arguments, reason = "the ends of one pass, each from another hand")]
    fn give(
        &mut self,
        paths: &PacePaths,
        pass: RatePoint,
        done: PhaseDone,
        mut recorded: Recorded,
        self_cost: SelfCost,
        told: RemoteReports,
        of_group: group::PgmOutcome,
        give: &mut dyn FnMut(Measured),
    ) -> Result<bool, ProbeError> {
        let RemoteReports { mut reports, failure } = told;
        let names: Vec<String> = match paths.remotes.as_slice() {
            [_] => vec!["reflector".to_owned()],
            several => several.iter().map(Remote::name).collect(),
        };
        let remote: Vec<RemoteEnd<'_>> = reports
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
        // A run that was cut short says nothing about its rate.
        if done.cut.is_none() && done.broken().is_none() {
            recorded.judge_rate(&RateEvidence {
                initiator: &done.counters,
                far: &remote,
                before: self.before_of(pass),
            });
        }
        self.before = Delivered::of(&recorded).map(|delivered| (pass.size, delivered));
        let saturated = recorded.pace.as_ref().is_some_and(|pace| pace.rate.saturated.is_some());
        let mut found = self.found.clone();
        found.extend(overrun(done.overrun));
        found.extend(unmatched_messages(done.unmatched));
        found.extend(of_group.found);
        let repairs = recorded.pace.as_mut().and_then(|pace| pace.repairs.take());
        let pgm = paths.group.as_ref().map(|group| group.report(of_group.ends, repairs));
        found.extend(loss_by_direction(&self.task.spec, &recorded, &reports, &done));
        // The first one's are added with its report.
        for (report, name) in reports.iter().zip(&names).skip(1) {
            let notes = report.iter().flat_map(|report| &report.notes);
            found.extend(notes.map(|note| Finding { detail: format!("{name}: {}", note.detail), ..note.clone() }));
        }
        let vanished = match &failure {
            Some(ProbeError::PeerVanished { why, .. }) => Some(why.clone()),
            // Its own note says it already.
            Some(ProbeError::Reflector { .. }) | None => None,
            Some(ProbeError::Path { cause, .. }) => {
                let detail = format!("the initiator's data path broke: {cause}");
                found.push(Finding::at(FindingId::PathBroken, "initiator", detail));
                None
            }
            Some(other) => Some(other.to_string()),
        };
        let path_info = paths.remotes.first().map(|remote| remote.path_info.clone()).unwrap_or_default();
        let measured = document::assemble(Parts {
            task: self.task,
            size: pass.size,
            rate: Some(pass.rate),
            path_info: &path_info,
            recorded,
            map: done.map,
            usage: done.usage,
            counters: done.counters,
            reflector: if reports.is_empty() { None } else { reports.swap_remove(0) },
            rates: &[],
            width_percent: None,
            self_cost,
            found,
            vanished,
            interrupted: done.cut == Some(EarlyEnd::Stopped),
            pgm,
            events: of_group.events,
        });
        self.outcome.sizes += 1;
        self.outcome.untrusted += u32::from(!measured.result.verdict.trusted);
        give(measured);
        failure.map_or(Ok(saturated), Err)
    }
}

/// Keeps the counting thread off the measuring CPUs, and lets it back when dropped.
struct AffinityGuard(Option<model::CpuList>);

impl AffinityGuard {
    fn from(placement: &ThreadPlacement) -> Self {
        let measuring = [placement.send_cpu, placement.receive_cpu];
        if measuring == [None, None] {
            return Self(None);
        }
        let others: model::CpuList = task::housekeeping_cpus(placement.send_cpu)
            .iter()
            .filter(|cpu| Some(*cpu) != placement.receive_cpu)
            .collect();
        // Best effort: on a machine without another CPU it shares theirs.
        if !others.is_empty() {
            let _ = task::set_affinity(&others);
        }
        Self(Some(placement.free.clone()))
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = task::set_affinity(before);
        }
    }
}

/// How long the schedule may last; for ever when only messages are counted.
fn limit_ns(spec: &ProbeSpec) -> u64 {
    if spec.stop.max_ms == u32::MAX { u64::MAX / 4 } else { u64::from(spec.stop.max_ms) * 1_000_000 }
}

/// The longest that one pass may take, without what it waits for.
fn longest_pass(spec: &ProbeSpec) -> Duration {
    Duration::from_micros(crate::check::longest_pace_us(spec))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and bounded; `as` saturates")]
fn whole(count: f64) -> usize {
    count as usize
}

fn overrun(messages: u64) -> Option<Finding> {
    (messages > 0).then(|| {
        Finding::at(
            FindingId::SamplesOverrun,
            "initiator",
            format!(
                "what {messages} messages did found no room, because the thread that counts was kept from its CPU for {ROOM_SECONDS:.0} s and more: leave it a CPU without real-time work"
            ),
        )
    })
}

fn unmatched_messages(messages: u64) -> Option<Finding> {
    (messages > 0).then(|| {
        Finding::at(
            FindingId::Order,
            "initiator",
            format!("{messages} messages came that belong to none of ours: of another session, length or run, or not asked for"),
        )
    })
}

/// In which direction messages were lost, by the reflectors' counts.
fn loss_by_direction(
    spec: &ProbeSpec,
    recorded: &Recorded,
    reports: &[Option<StopReport>],
    done: &PhaseDone,
) -> Option<Finding> {
    if recorded.messages.lost == 0 || spec.socket.protocol.is_stream() || reports.iter().any(Option::is_none) {
        return None;
    }
    let told = || reports.iter().flatten();
    let sent = done.send.sent.saturating_mul(reports.len() as u64);
    let out = sent.saturating_sub(told().map(|report| report.received).sum());
    let sent_back: u64 = told().map(|report| report.sent).sum();
    let back = sent_back.saturating_sub(done.answered);
    Some(Finding::at(
        FindingId::Loss,
        "reflector",
        format!(
            "{out} of {sent} messages never reached the reflector, and {back} of the {sent_back} that it sent back did not arrive in time"
        ),
    ))
}
