//! `stream`: bulk data to the endpoint, from it, or both at once.
//!
//! The calling thread manages one thread a flow; these get the policy and the CPU asked for, and it keeps off that CPU. What
//! goes up the endpoint counts and reports each second, and these reports are kept when it vanishes; what comes down is counted
//! here. With `working_latency` a UDP ping-pong runs first alone, then beside the stream.

mod document;
mod open;
mod pinger;

use crate::document::{Figures, Other, Parts};
use crate::driver::{self, Engine, Pass, PassDone};
use crate::measuring_thread::AffinityGuard;
use crate::pace::ring::Consumer;
use crate::session::Session;
use crate::{Context, Outcome, ProbeError, thread};
use clock::{Clock, MapRecorder};
pub(crate) use document::StreamResult;
use flow::{EndCounts, FlowControl, FlowPlan, FlowProgress, FlowResult, PassObserver};
use model::result::SelfCost;
use model::stream::{StreamInterval, StreamSent};
use model::worker::{Measured, ProbeTask};
use model::{Latency, LiveInterval, StreamSpec};
use net::bulk::{self, TcpWatch};
use net::{DataSocket, Fallback};
use open::OpenStream;
use pinger::{Pinger, RECENT, RecentRtts};
use stats::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{StopReport, StreamEnd};

/// Between two looks of the manager; the control connection is listened to meanwhile.
const LOOK: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);
/// How long datagrams in flight may take to arrive after the last send.
const TAIL: Duration = Duration::from_millis(100);
/// How long the endpoint's last second is waited for after the end.
const LAST: Duration = Duration::from_millis(20);
/// How long TCP may take to have everything acknowledged, and senders of datagrams to end.
const DRAIN: Duration = Duration::from_secs(3);
/// Between two signs of life.
const HEARTBEAT_MS: u32 = 1000;

pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    clock: Clock,
    sink: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let _affinity = AffinityGuard::away_from(&[task.spec.initiator.cpu]);
    driver::drive(|| Ok(StreamEngine { task, context, clock }), task, context, &[None], sink)
}

/// The engine of `stream`: each size has sessions of its own.
struct StreamEngine<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
}

impl Engine for StreamEngine<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let (task, context, clock) = (self.task, self.context, self.clock);
        let mut opened = open::open(task, context, pass.size)?;
        let mut pinger = opened.stream.working_latency.then(|| Pinger::open(task, context, clock)).transpose()?;
        let idle = pinger.as_mut().map(|pinger| pinger.measure_idle(&context.stop)).transpose()?;
        let stream = Stream { task, context, clock, size: pass.size, opened: &mut opened };
        let done = stream.run(pinger, observers)?.finish(clock, pass.size, &opened, idle);
        opened.session.close();
        Ok(Some(done))
    }

    fn close(self) {}
}

fn longest(task: &ProbeTask) -> Duration {
    Duration::from_millis(u64::from(task.spec.stop.max_ms))
}

struct Stream<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
    size: u32,
    opened: &'a mut OpenStream,
}

struct StreamRun {
    ends: Vec<FlowResult>,
    own: StopReport,
    map: model::ClockMap,
    managed: Managed,
    interrupted: bool,
}

#[derive(Default)]
struct Managed {
    started_ns: u64,
    tcp: StreamSent,
    report: Option<StopReport>,
    /// Intervals that the endpoint reported while it ran.
    intervals: Vec<StreamInterval>,
    /// Latency beside the stream, and its interval log.
    working: Option<(Latency, String)>,
    vanished: Option<String>,
}

impl Stream<'_> {
    fn run(self, mut pinger: Option<Pinger>, observers: &mut dyn PassObserver) -> Result<StreamRun, ProbeError> {
        let (task, size, clock) = (self.task, self.size, self.clock);
        let OpenStream { session, sockets, stream, tag, datagrams, .. } = self.opened;
        let (sockets, spec, tag, datagrams): (&[DataSocket], &StreamSpec, _, _) = (sockets, stream, *tag, *datagrams);
        let shared = FlowControl::default();
        // Lets the ping-pong beside the stream go on.
        let pinging = AtomicBool::new(true);
        let mut recent_rtts = RecentRtts::new(RECENT);
        let (pushed, recent_rtts) = recent_rtts.ends();
        let flows: Vec<FlowProgress> = sockets.iter().map(|_| FlowProgress::default()).collect();
        let up = sockets.iter().zip(0..).filter(|(_, number)| spec.is_up(*number));
        let senders: Vec<&DataSocket> = up.map(|(socket, _)| socket).collect();
        let end = &task.spec.initiator;
        let plan = FlowPlan {
            spec,
            end,
            initiator: true,
            sockets,
            progress: &flows,
            size,
            datagrams,
            limits: &session.limits.clone(),
            clock,
            tag,
            longest: longest(task),
            control: &shared,
        };
        let place = || driver::place_thread(end.cpu, end.policy, Some(longest(task)));
        let mut map = MapRecorder::new(clock);
        observers.begin(size, None);
        let (ends, managed) = flow::run(plan, place, ProbeError::from, || {
            let mut done = Managed::default();
            let mut watch = TcpWatch::new(senders.iter().copied());
            session.start(size, size, false)?;
            std::thread::scope(|scope| {
                let pings = pinger.is_some();
                let pinging = &pinging;
                // The scope joins the ping-pong also where the manager panics.
                let _ending = EndAll { pinging, flows: &shared };
                let beside = pinger.take().map(|mut pinger| scope.spawn(move || pinger.measure_until(pinging, pushed)));
                done.started_ns = clock::realtime_ns();
                shared.go.store(true, Ordering::Release);
                let attended = StreamWatch {
                    context: self.context,
                    clock,
                    live: task.live,
                    size,
                    spec,
                    asked_pps: record::stream::asked(spec, size, datagrams).1,
                    flows: &flows,
                    longest: longest(task),
                }
                .watch_flows(
                    session,
                    &mut watch,
                    &mut map,
                    &mut done.intervals,
                    pings.then_some(recent_rtts),
                );
                pinging.store(false, Ordering::Release);
                shared.stop_sending.store(true, Ordering::Release);
                done.vanished = attended.err().map(|error| error.last_words());
                watch.finish(&mut done.tcp);
                done.end(session, spec, datagrams, (&senders, &flows));
                beside.map_or(Ok(()), |beside| done.beside(thread::joined(beside.join())))?;
                Ok(done)
            })
        })?;
        let mut own = StopReport::default();
        observers.end(&mut own);
        own.counters.socket_overflow = sockets.iter().filter_map(DataSocket::dropped).map(u64::from).sum();
        Ok(StreamRun {
            ends,
            own,
            map: map.finish(),
            managed: managed.unwrap_or_default(),
            interrupted: self.context.stopping(),
        })
    }
}

/// Ends the ping-pong and all flows when dropped.
struct EndAll<'a> {
    pinging: &'a AtomicBool,
    flows: &'a FlowControl,
}

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        self.pinging.store(false, Ordering::Release);
        self.flows.stop();
    }
}

impl Managed {
    /// Waits for what is under way, and takes the endpoint's report.
    fn end(
        &mut self,
        session: &mut Session,
        spec: &StreamSpec,
        datagrams: bool,
        (senders, flows): (&[&DataSocket], &[FlowProgress]),
    ) {
        await_tail(!datagrams, senders, flows, spec, true);
        match session.stop(self.vanished.is_some()) {
            Ok(stopped) => self.report = Some(stopped),
            Err(error) => self.lose(&error),
        }
        if spec.goes_down() && self.vanished.is_none() {
            await_tail(!datagrams, &[], flows, spec, false);
        }
    }

    fn beside(&mut self, found: Result<(Latency, String), ProbeError>) -> Result<(), ProbeError> {
        match found {
            Ok(found) => self.working = Some(found),
            Err(error) if error.is_lost_host() => self.lose(&error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The endpoint has vanished; the first cause counts.
    fn lose(&mut self, error: &ProbeError) {
        self.vanished.get_or_insert_with(|| error.last_words());
    }
}

/// Waits until what was sent has arrived: TCP until all is acknowledged and its flows have ended, datagrams a moment after the last
/// send, as one that comes after the stop counts as lost.
fn await_tail(tcp: bool, senders: &[&DataSocket], flows: &[FlowProgress], spec: &StreamSpec, up: bool) {
    let began = Instant::now();
    let unacknowledged = || senders.iter().any(|socket| bulk::unacknowledged(socket).is_some_and(|bytes| bytes > 0));
    let running = || flows.iter().zip(0..).any(|(flow, number)| spec.is_up(number) == up && !flow.has_ended());
    while began.elapsed() < DRAIN && (tcp && unacknowledged() || (tcp || up) && running()) {
        std::thread::sleep(LOOK);
    }
    if !tcp {
        std::thread::sleep(TAIL);
    }
}

struct StreamWatch<'a> {
    context: &'a Context,
    clock: Clock,
    live: bool,
    size: u32,
    spec: &'a StreamSpec,
    asked_pps: Option<f64>,
    flows: &'a [FlowProgress],
    longest: Duration,
}

#[derive(Debug, Default)]
struct LiveState<'a> {
    before: FlowTotals,
    recent_rtts: Option<Consumer<'a, 1>>,
    /// A second that was reported before the endpoint's report of it had come.
    unsettled: Option<LiveInterval>,
}

impl StreamWatch<'_> {
    /// Until the time is over, the program is asked to end, or every flow has ended by itself.
    fn watch_flows(
        &self,
        session: &mut Session,
        watch: &mut TcpWatch<'_>,
        map: &mut MapRecorder,
        intervals: &mut Vec<StreamInterval>,
        recent_rtts: Option<Consumer<'_, 1>>,
    ) -> Result<(), ProbeError> {
        let began = Instant::now();
        let mut seconds = 0_u32;
        let mut before = LiveState { recent_rtts, ..LiveState::default() };
        let mut heartbeats = 0;
        while began.elapsed() < self.longest && !self.context.stopping() {
            if self.flows.iter().all(FlowProgress::has_ended) {
                break;
            }
            let patience = LOOK.min(self.longest.saturating_sub(began.elapsed()));
            if let Some(interval) = session.receive_interval(patience)? {
                intervals.push(interval);
                if self.spec.goes_up() {
                    self.report_second(began, &mut before, interval);
                }
            }
            if began.elapsed() >= Duration::from_millis(u64::from(HEARTBEAT_MS)) * (heartbeats + 1) {
                heartbeats += 1;
                session.alive()?;
            }
            map.push_if_due(self.clock.now());
            let late = Duration::from_nanos(before.before.at_ns) + SECOND * 3 / 2;
            if self.spec.goes_up() && before.unsettled.is_none() && began.elapsed() >= late {
                // The endpoint's report shares a path with the data, which may be full; the live view does not wait for it.
                let second = self.second_so_far(began, &mut before);
                self.report_live(second.clone());
                before.unsettled = Some(second);
            }
            if began.elapsed() >= SECOND * (seconds + 1) {
                seconds += 1;
                self.second(began, &mut before, watch);
            }
        }
        if began.elapsed() >= SECOND * (seconds + 1) {
            // The last one ended with the stream.
            self.second(began, &mut before, watch);
        } else if began.elapsed() > SECOND * seconds + SECOND / 10 {
            watch.sample();
        }
        // The far end's last second is over a moment later.
        let ended = Instant::now();
        while self.spec.goes_up() && ended.elapsed() < LAST {
            if let Some(interval) = session.receive_interval(LOOK)? {
                intervals.push(interval);
                self.report_second(began, &mut before, interval);
            }
        }
        Ok(())
    }

    fn second(&self, began: Instant, before: &mut LiveState<'_>, watch: &mut TcpWatch<'_>) {
        watch.sample();
        if !self.spec.goes_up() {
            self.report_second(began, before, StreamInterval::default());
        }
    }

    /// Reports what came down here, and what the endpoint reported as received there.
    fn report_second(&self, began: Instant, state: &mut LiveState<'_>, up: StreamInterval) {
        let second = state.unsettled.take().unwrap_or_else(|| self.second_so_far(began, state));
        self.report_live(LiveInterval {
            received: second.received + up.received,
            lost: second.lost + up.lost,
            bytes: second.bytes.map(|bytes| bytes + up.bytes),
            settled: true,
            ..second
        });
    }

    fn report_live(&self, second: LiveInterval) {
        if let Some(live) = self.context.live.as_ref().filter(|_| self.live) {
            live.report(second);
        }
    }

    /// What this end knows of the time since the last second.
    fn second_so_far(&self, began: Instant, state: &mut LiveState<'_>) -> LiveInterval {
        let (before, now) = (state.before, FlowTotals::of(self.flows, self.spec, began));
        state.before = now;
        let rtt = state.recent_rtts.as_mut().map(|recent| {
            let mut rtts = Histogram::new();
            let until = recent.written();
            std::iter::from_fn(|| recent.pop(until)).for_each(|[rtt_ns]| rtts.record(rtt_ns));
            rtts
        });
        let at = |q: f64| rtt.as_ref().and_then(|rtt| rtt.quantile(q));
        LiveInterval {
            size: self.size,
            asked_pps: self.asked_pps,
            at_ns: before.at_ns,
            interval_ns: now.at_ns - before.at_ns,
            sent: now.sent - before.sent,
            received: now.received - before.received,
            lost: now.lost.saturating_sub(before.lost),
            bytes: Some(now.bytes - before.bytes),
            rounds: rtt.as_ref().map(Histogram::count),
            rtt_p50_ns: at(0.5),
            rtt_p99_ns: at(0.99),
            rtt_max_ns: rtt.as_ref().and_then(Histogram::max),
            ..LiveInterval::default()
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct FlowTotals {
    at_ns: u64,
    sent: u64,
    received: u64,
    bytes: u64,
    lost: u64,
}

impl FlowTotals {
    fn of(flows: &[FlowProgress], spec: &StreamSpec, began: Instant) -> Self {
        let mut sums = Self { at_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX), ..Self::default() };
        for (flow, number) in flows.iter().zip(0..) {
            if spec.is_up(number) {
                sums.sent += flow.gauge.messages();
            } else {
                sums.received += flow.gauge.messages();
                sums.bytes += flow.gauge.bytes();
                sums.lost += flow.missing.load(Ordering::Relaxed);
            }
        }
        sums
    }
}

impl StreamRun {
    fn finish(self, clock: Clock, size: u32, opened: &OpenStream, idle: Option<Latency>) -> PassDone {
        let spec = &opened.stream;
        let Managed { started_ns, tcp, report, intervals, working, vanished } = self.managed;
        let (working, hlog) = working.unzip();
        let EndCounts { usage, sent, received, broken } = EndCounts::of(self.ends, tcp, opened.datagrams, clock);
        let received = spec.goes_down().then_some(received);
        let mut own = StopReport { usage, ..self.own };
        let found = &mut own.notes;
        let rate = |bytes: u64, ns: u64| (ns > 0).then(|| bytes as f64 * 8.0 / (ns as f64 / 1e9));
        let came_down = received.as_ref().and_then(|received| rate(received.bytes, received.elapsed_ns));
        found.extend(opened.held_back(size, [rate(sent.bytes, sent.elapsed_ns), came_down]));
        found.extend(driver::fell_back(Fallback::of(&opened.sockets)));
        let address = opened.session.name.clone();
        let failure = match (&vanished, broken.into_iter().next()) {
            (Some(why), _) => Some(ProbeError::PeerVanished { address, size, why: why.clone() }),
            (None, Some(cause)) => {
                found.push(driver::broken_path(cause));
                Some(ProbeError::broken_path(address, size, cause))
            }
            (None, None) => None,
        };
        let streamed = StreamResult {
            spec: spec.clone(),
            size,
            datagrams: opened.datagrams,
            started_ns,
            sent: spec.goes_up().then_some(sent),
            received,
            intervals,
            endpoint: StreamEnd::default(),
            idle,
            working,
            hlog: hlog.unwrap_or_default(),
        };
        let path_info = opened.path_info.clone();
        let other = Other { report, ..Other::only(&path_info) };
        let parts = Parts {
            path_info,
            map: self.map,
            own,
            others: vec![other],
            self_cost: SelfCost { clock_read_ns: clock.read_cost_ns(), ..SelfCost::default() },
            vanished,
            interrupted: self.interrupted,
            figures: Figures::Stream(Box::new(streamed)),
            source: None,
        };
        PassDone { parts, failure, saturated: false }
    }
}
