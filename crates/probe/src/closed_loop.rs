//! The closed loop: `pingpong`, `rr` and `ping` measure size after size against one peer. A thread of its own measures.

use crate::document::{Figures, Other, Parts, TimedResult};
use crate::driver::{self, Collected, Engine, Pass, PassDone, PassEnd};
use crate::echo::{self, EchoPath};
use crate::framing::Framing;
use crate::peer::{self, DataPath, Peer};
use crate::rounds::{Plan, Rounds};
use crate::session::Session;
use crate::size::{SizeDone, SizeLoop};
use crate::stop::BATCH_ROUNDS;
use crate::{Context, Outcome, ProbeError, cost};
use clock::Clock;
use flow::PassObserver;
use model::worker::{Measured, ProbeTask};
use model::{Finding, FindingId, PeerProgram, ProbeSpec, Role};
use net::icmp::EchoSocket;
use net::{Fallback, PathOptions, PathVisitor, TransactionClient};
use record::{Recorder, RecorderConfig};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;
use task::{Interrupter, Progress, Watchdog};
use wire::Tier;

pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    clock: Clock,
    give: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    // The child of a local protocol is started by this thread, which outlives it, before it gets its CPU.
    let peer = peer::open(task, context)?;
    driver::drive(|| ClosedLoop::prepare(task, context, clock, peer), task, context, &[None], give)
}

/// The measuring thread's own state. Made on that thread.
struct ClosedLoop<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
    peer: Peer,
    progress: Progress,
    /// Watches waits that have no time-out of their own. Ends with the engine.
    _watchdog: Watchdog,
    /// The first round's number of the next size.
    number: u64,
}

impl<'a> ClosedLoop<'a> {
    /// Prepares the calling thread: first what starts other threads, so that only this one gets CPU and policy.
    fn prepare(task: &'a ProbeTask, context: &'a Context, clock: Clock, peer: Peer) -> Result<Self, ProbeError> {
        let spec = &task.spec;
        let progress = Progress::new();
        let timeout = Duration::from_millis(u64::from(spec.timeout_ms));
        let target = Interrupter::for_current_thread()?;
        let watchdog = Watchdog::start(progress.clone(), target, timeout, spec.initiator.cpu)?;
        task::prefault_stack(512 * 1024);
        driver::place_thread(spec.initiator.cpu, spec.initiator.policy, Some(longest_size(spec)))?;
        Ok(Self { task, context, clock, peer, progress, _watchdog: watchdog, number: 1 })
    }
}

impl Engine for ClosedLoop<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let (spec, context, size) = (&self.task.spec, self.context, pass.size);
        let response = spec.rr().and_then(|rr| rr.response_size).unwrap_or(size);
        let plan = self.plan(size, response);
        let config = RecorderConfig { outliers: pass.outliers(spec), ..self.recorder_config(&plan) };
        let mut self_cost = cost::measure(self.clock, plan, config);
        let mut recorder = Recorder::new(config);
        let stop = &*context.stop;
        let progress = self.progress.clone();
        let mut rounds = Rounds::new(self.clock, plan, self.number, BATCH_ROUNDS, stop, &progress);
        let Peer { session, data_path, .. } = &mut self.peer;
        if let Some(session) = session {
            session.start(size, response, pass.explains)?;
        }
        let mut ended = None;
        let mut peer_ended = || {
            ended = session.as_mut().and_then(Session::ended);
            ended.is_some()
        };
        let dropped = |path: &DataPath| path.socket().and_then(net::DataSocket::dropped).map_or(0, u64::from);
        let dropped_before = dropped(data_path);
        let visitor = SizeLoop {
            spec,
            clock: self.clock,
            rounds: &mut rounds,
            recorder: &mut recorder,
            live: context.live.is_some().then(|| &*context.progress),
            size,
            socket: data_path.socket().map(|socket| socket.as_fd().as_raw_fd()),
            observers,
            began: 0,
            width_percent: None,
            peer_ended: &mut peer_ended,
        };
        let options = PathOptions {
            receive: spec.initiator.receive,
            idle: spec.initiator.idle,
            clock: self.clock,
            timeout_ns: plan.timeout_ns,
            stop,
        };
        let (mut done, fallback) = run_on_path(spec, data_path, &options, size, visitor)?;
        self.number = rounds.next_number;
        let mut own = std::mem::take(&mut done.own);
        own.counters.socket_overflow = dropped(data_path).saturating_sub(dropped_before);
        if pass.first {
            self_cost.startup_ns = Some(driver::startup_ns(context, self.clock, done.first_message));
        }
        let Collected { reports, failure } = self.collect_reports(size, &done, ended, recorder.received());
        let recorded = recorder.finish(Some(&done.map));
        own.notes.extend(self.findings(rounds.unmatched.overrun, fallback));
        let (lost, sent) = (recorded.messages.lost, rounds.rounds_sent().saturating_mul(u64::from(spec.pings)));
        let scope = "warm-up included, ";
        own.notes.extend(driver::loss_by_direction(spec, lost, sent, rounds.answers, &reports, scope));
        let vanished = driver::vanished(failure.as_ref(), &mut own.notes);
        let path_info = self.peer.path_info.clone();
        let report = reports.into_iter().next().flatten();
        let other = Other { report, ..Other::only(&path_info) };
        let (rates, width_percent) = (done.rates, done.width_percent);
        let timed = TimedResult { rates, width_percent, ..TimedResult::new(recorded) };
        let parts = Parts {
            path_info,
            map: done.map,
            own,
            others: vec![other],
            self_cost,
            vanished,
            interrupted: done.end == PassEnd::Stopped,
            source: None,
            figures: Figures::Timed(Box::new(timed)),
        };
        Ok(Some(PassDone { parts, failure, saturated: false }))
    }

    fn close(mut self) {
        if let Some(session) = self.peer.session.take() {
            session.close();
        }
    }
}

impl ClosedLoop<'_> {
    fn plan(&self, size: u32, response: u32) -> Plan {
        let spec = &self.task.spec;
        let (send_bytes, receive_bytes) = (size as usize, response as usize);
        let plan = Plan {
            pings: spec.pings,
            pongs: spec.pongs,
            send_bytes,
            receive_bytes,
            more: spec.socket.as_ref().is_some_and(|socket| socket.more),
            framing: self.framing(send_bytes, receive_bytes),
            counts_losses: spec.counts_losses(),
            fresh: false,
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            gap: spec.gap,
            interval_ns: u64::from(spec.interval_us.unwrap_or(0)) * 1000,
            pace_ns: self
                .peer
                .session
                .as_ref()
                .map_or(0, |session| min_gap_ns(session.limits.max_rate_pps, spec.pings)),
        };
        match self.peer.data_path {
            DataPath::Data(_) => plan,
            // The server's answer is not made from the request.
            DataPath::ConnectEach(_) => Plan {
                framing: Framing::Own { tier: Tier::Nothing, tag: self.peer.tag },
                counts_losses: true,
                fresh: true,
                ..plan
            },
            DataPath::Echo(_) => {
                let bytes = echo::buffer_bytes(send_bytes);
                let framing = Framing::Own { tier: Tier::Truncated(echo::NUMBER_BYTES), tag: 0 };
                Plan {
                    send_bytes: bytes,
                    receive_bytes: bytes,
                    framing,
                    pings: 1,
                    pongs: 1,
                    counts_losses: true,
                    ..plan
                }
            }
        }
    }

    fn framing(&self, send_bytes: usize, receive_bytes: usize) -> Framing {
        match self.task.spec.peer {
            PeerProgram::Windhover => {
                Framing::Own { tier: Tier::for_exchange(send_bytes, receive_bytes), tag: self.peer.tag }
            }
            PeerProgram::Sockperf => Framing::Sockperf,
        }
    }

    fn recorder_config(&self, plan: &Plan) -> RecorderConfig {
        let spec = &self.task.spec;
        RecorderConfig {
            raw_capacity: driver::raw_capacity(spec),
            has_header: plan.framing.number_bytes() > 0,
            has_schedule: plan.interval_ns > 0,
            ..RecorderConfig::new(self.clock.rate(), spec.probe().latency_kind(spec.rtt), spec.stop.max_ms)
        }
    }

    /// What is found of a pass beside its figures.
    fn findings(&self, unmatched: u64, fallback: Fallback) -> Vec<Finding> {
        let overrun = format!(
            "{unmatched} late or duplicate answers were dropped, as the sample buffer was full: something repeats our messages"
        );
        let overrun = driver::counted(unmatched, FindingId::SamplesOverrun, overrun);
        let mut found: Vec<Finding> = overrun.into_iter().chain(driver::fell_back(fallback)).collect();
        if let Some(session) = &self.peer.session {
            let most_pps = session.limits.max_rate_pps;
            found.extend(rate_limited(min_gap_ns(most_pps, self.task.spec.pings), most_pps));
        }
        found
    }

    /// Takes the reflector's report, and the failure where there is one.
    fn collect_reports(
        &mut self,
        size: u32,
        done: &SizeDone,
        ended: Option<ProbeError>,
        rounds_answered: u64,
    ) -> Collected {
        let name = self.peer.name();
        let program = self.task.spec.peer;
        if self.peer.session.is_none() && rounds_answered == 0 && done.end != PassEnd::Stopped {
            let failure = match (program, done.end) {
                (PeerProgram::Windhover, PassEnd::Done) => Some(ProbeError::NoEcho(name.clone())),
                (PeerProgram::Windhover, _) => None,
                _ => Some(ProbeError::SilentServer { address: name.clone(), program }),
            };
            if failure.is_some() {
                return Collected { failure, ..Collected::default() };
            }
        }
        driver::collect_reports(self.peer.session.iter_mut(), &name, size, done.end, ended.map(|error| (0, error)))
    }
}

/// The least time between rounds that keeps an endpoint's limit of messages a second, as more are dropped; 0 without one.
fn min_gap_ns(max_rate_pps: u32, pings: u32) -> u64 {
    const BEYOND_REACH: u32 = 1_000_000;
    if max_rate_pps >= BEYOND_REACH {
        return 0;
    }
    u64::from(pings) * 1_000_000_000 / u64::from(max_rate_pps.max(1)) + 1000
}

fn rate_limited(gap_ns: u64, max_rate_pps: u32) -> Option<Finding> {
    (gap_ns > 0).then(|| {
        Finding::at(
            FindingId::NotPermitted,
            Role::Reflector,
            format!(
                "the endpoint's owner allows {max_rate_pps} messages a second, so rounds were kept at least {} µs apart: \
                 its paths may have gone cold between them; have --max-rate raised there",
                gap_ns / 1000
            ),
        )
    })
}

/// Runs the visitor on the data path; returns which of its connections fell back, too.
fn run_on_path(
    spec: &ProbeSpec,
    data_path: &mut DataPath,
    options: &PathOptions<'_>,
    size: u32,
    visitor: SizeLoop<'_, '_>,
) -> Result<(SizeDone, Fallback), ProbeError> {
    match data_path {
        DataPath::Data(socket) => {
            let done = net::with_path(socket, options, visitor)?;
            Ok((done, Fallback::of([&**socket])))
        }
        DataPath::ConnectEach(to) => {
            let mut client = TransactionClient::new(spec.socket()?, &spec.initiator, *to, options, size as usize)?;
            Ok((visitor.visit(&mut client), client.fallback))
        }
        DataPath::Echo(to) => {
            let socket = EchoSocket::open(*to, spec.socket()?, &spec.initiator, options, size as usize)?;
            Ok((visitor.visit(&mut EchoPath::new(socket, size as usize)), Fallback::default()))
        }
    }
}

/// The longest that one size may take, without what it waits for.
fn longest_size(spec: &ProbeSpec) -> Duration {
    Duration::from_millis(
        u64::from(spec.warmup.time_ms)
            .saturating_add(u64::from(spec.stop.max_ms))
            .saturating_add(u64::from(spec.timeout_ms)),
    )
}
