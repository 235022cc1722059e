//! Cycles: a publisher and a receiver of `exchange-io`, each on a thread of its own, and a reflector that echoes each frame.
//!
//! The counting thread, off their CPUs, makes a sample of each cycle: due, sent, echo received. Deadlines are judged by the monitor of
//! the echoes. Each size has a session of its own.

use crate::document::{Figures, Other, Parts, PathInfo, TimedResult};
use crate::driver::{self, Collected, Engine, Pass, PassDone, PassEnd, RT_SLACK};
use crate::measuring_thread::AffinityGuard;
use crate::pace::ring::{Consumer, Producer, Ring};
use crate::pace::threads::{StartBarrier, ThreadPlacement, ThreadRole, place_thread};
use crate::pace::usage::together;
use crate::peer::{self, UnprovedPath};
use crate::session::Session;
use crate::{Context, Outcome, ProbeError, check, cost, thread};
use clock::{Clock, MapRecorder};
use exchange::{Cycle, Overrun};
use exchange_io::{EchoedTopic, Inlet, Listener, Talker};
use flow::PassObserver;
use host::UsageSampler;
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{
    ClockMap, CycleReport, CycleSpec, EndUsage, FindingId, LatencyKind, Pacer, ProbeSpec, Receive, Sample, SampleFlags,
    cycle,
};
use net::PathError;
use record::{Recorded, Recorder, RecorderConfig};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use wire::{CycleRequest, OpenRequest, StopReport, data};

/// How often the counting thread looks.
const LOOK: Duration = Duration::from_millis(20);
/// Between two signals to threads that shall end.
const NUDGE: Duration = Duration::from_millis(1);
/// From the moment that both threads are ready to the first cycle.
const LEAD_NS: u64 = 3_000_000;
/// What the rings hold at least, and for how long the counting thread may be kept from looking at them.
const LEAST_ROOM: u64 = 4096;
const ROOM_NS: u64 = 10_000_000_000;
/// Cycles between two looks at the CPU that the thread is on.
const BATCH: u64 = 1024;
/// Without an echo for this time the control connection is asked, and the peer is taken for dead.
const ASK_NS: u64 = 1_000_000_000;
const SILENT_NS: u64 = 5_000_000_000;

/// Number of a cycle, when it was due, when the publisher began.
type SentEntry = [u64; 3];
/// Number of a cycle, when its echo arrived.
type HeardEntry = [u64; 2];

pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    _: Clock,
    give: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let spec = &task.spec;
    let cycle = spec.cycle().cloned().unwrap_or_default();
    let placement = ThreadPlacement {
        policy: spec.initiator.policy,
        send_cpu: spec.initiator.cpu,
        receive_cpu: cycle.receive_cpu.or(spec.initiator.cpu),
        pacer: cycle.pacer,
        free: task::allowed_cpus().unwrap_or_default(),
    };
    one_cpu(spec, &placement)?;
    if spec.initiator.policy.is_real_time() {
        task::set_rt_limit(Some(Duration::from_millis(u64::from(spec.stop.max_ms)).saturating_add(RT_SLACK)))?;
    }
    let _affinity = AffinityGuard::away_from(&[placement.send_cpu, placement.receive_cpu]);
    let interval_ns = 1000 * u64::from(cycle::period_us(spec));
    let engine = Cycles { task, context, clock: Clock::monotonic(), cycle, placement, interval_ns };
    driver::drive(|| Ok(engine), task, context, &[None], give)
}

/// A real-time thread that spins keeps the other one on its CPU from running.
fn one_cpu(spec: &ProbeSpec, placement: &ThreadPlacement) -> Result<(), ProbeError> {
    let spins = placement.pacer == Pacer::Spin || spec.initiator.receive == Receive::Spin;
    let shared = placement.send_cpu.filter(|_| placement.send_cpu == placement.receive_cpu);
    let Some(cpu) = shared.filter(|_| spins && placement.policy.is_real_time()) else { return Ok(()) };
    check::conflict(
        format!("publisher and receiver are on CPU {cpu} and one of them spins, so the other never runs"),
        "give them different CPUs with --cpu and --receive-cpu, or use --pacer sleep and --receive block",
    )
}

struct Cycles<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    /// The clock of the cycles.
    clock: Clock,
    cycle: CycleSpec,
    placement: ThreadPlacement,
    interval_ns: u64,
}

struct Ends {
    session: Session,
    talker: Talker,
    listener: Listener,
    path_info: PathInfo,
}

struct PhaseDone {
    counter: Counter,
    end: PassEnd,
    usage: EndUsage,
    begin: u64,
    /// Entries that found no room.
    dropped: u64,
    map: ClockMap,
}

impl Engine for Cycles<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let spec = &self.task.spec;
        let config = RecorderConfig {
            outliers: pass.outliers(spec),
            raw_capacity: driver::raw_capacity(spec),
            has_schedule: true,
            ..RecorderConfig::new(self.clock.rate(), LatencyKind::Rtt, spec.stop.max_ms)
        };
        let mut self_cost = SelfCost {
            clock_read_ns: self.clock.read_cost_ns(),
            // One read of the clock is in each figure.
            loop_ns: self.clock.read_cost_ns(),
            record_ns: cost::record_ns(self.clock, config),
            startup_ns: None,
        };
        let mut ends = self.open(pass.size)?;
        ends.session.start(pass.size, pass.size, pass.explains)?;
        let mut ended = None;
        let warm_up = (u64::from(spec.warmup.time_ms) * 1_000_000).div_ceil(self.interval_ns);
        let warm = self.phase(&mut ends, warm_up, Counter::new(None), &mut ended)?;
        if warm.end == PassEnd::Stopped {
            return Ok(None);
        }
        if warm.end != PassEnd::Done {
            let (sessions, name) =
                (std::iter::once(&mut ends.session), ends.path_info.peer.clone().unwrap_or_default());
            let ended = ended.map(|error| (0, error));
            let failure = driver::collect_reports(sessions, &name, pass.size, warm.end, ended).failure;
            return Err(failure.unwrap_or(ProbeError::Interrupted));
        }
        if pass.first {
            self_cost.startup_ns = Some(driver::startup_ns(self.context, self.clock, warm.begin));
        }
        let mut own = StopReport::default();
        let overflowed = ends.listener.overflowed();
        observers.begin(pass.size, None);
        let counter = Counter::new(Some(Recorder::new(config)));
        let done = self.phase(&mut ends, cycle::cycles(spec), counter, &mut ended);
        observers.end(&mut own);
        let mut done = done?;
        if done.end == PassEnd::Stopped && done.counter.published == 0 {
            return Ok(None);
        }
        own.usage = std::mem::take(&mut done.usage);
        own.counters.socket_overflow = ends.listener.overflowed().saturating_sub(overflowed);
        let sent = warm.counter.published + done.counter.published;
        let answers = warm.counter.echoes + done.counter.echoes;
        Ok(Some(self.pass_done(pass.size, done, ends, own, self_cost, (sent, answers), ended)))
    }

    fn close(self) {}
}

impl Cycles<'_> {
    fn open(&self, size: u32) -> Result<Ends, ProbeError> {
        let spec = &self.task.spec;
        let protocol = spec.socket()?.protocol;
        let topic =
            EchoedTopic { bytes: size, period_us: cycle::period_us(spec), deadline_us: self.cycle.deadline_us(spec) };
        let control = net::resolve(&self.task.target.control, net::DEFAULT_PORT, None)?;
        let local = spec.initiator.bind.map_or_else(|| net::route::source_for(control), Ok)?;
        let inlet = Inlet::open(protocol, local, &spec.initiator)?;
        let EchoedTopic { period_us, deadline_us, .. } = topic;
        let asked = CycleRequest { period_us, deadline_us, port: inlet.local().port() };
        let request = OpenRequest { max_size: size, cycle: Some(asked), ..peer::request(spec)? };
        let UnprovedPath { mut session, opened, address, one_machine } =
            peer::request_path(spec, &self.task.target, self.context, request)?;
        session.check_source(Some(inlet.local()))?;
        let proof = data::prove(&opened.token);
        let name = session.name.clone();
        session.prove(protocol, || {
            let shown = inlet.show(&proof, address);
            shown.map_err(|cause| ProbeError::Path { address: name.clone(), size, cause })
        })?;
        let path_info = peer::path_info(self.context, Some(inlet.local()), address);
        let path_info = PathInfo { one_machine, ..path_info };
        let (talker, listener) = inlet.talk(topic, address, self.cycle.pacer)?;
        Ok(Ends { session, talker, listener, path_info })
    }

    /// So many cycles, and their echoes.
    fn phase(
        &self,
        ends: &mut Ends,
        cycles: u64,
        mut counter: Counter,
        ended: &mut Option<ProbeError>,
    ) -> Result<PhaseDone, ProbeError> {
        let room = usize::try_from((ROOM_NS / self.interval_ns).max(LEAST_ROOM)).unwrap_or(usize::MAX);
        let (mut sent, mut heard) = (Ring::<3>::new(room), Ring::<2>::new(room));
        let ((sent_in, sent_out), (heard_in, heard_out)) = (sent.ends(), heard.ends());
        let mut rings = (sent_out, heard_out);
        let Ends { session, talker, listener, .. } = ends;
        listener.renew(talker.renew());
        let shared = Shared {
            stop_sending: AtomicBool::new(false),
            stop_receiving: AtomicBool::new(false),
            barrier: StartBarrier::new(2),
        };
        let mut map = MapRecorder::new(self.clock);
        let outcome = std::thread::scope(|scope| {
            let cancelled = |error| {
                shared.barrier.cancel();
                error
            };
            let receiver =
                thread::spawn_scoped(scope, "receive", || self.hear(listener, &shared, heard_in)).map_err(cancelled)?;
            let sender = thread::spawn_scoped(scope, "send", || self.send(talker, cycles, &shared, sent_in))
                .map_err(cancelled)?;
            let begin = shared.barrier.begin(self.clock, LEAD_NS).unwrap_or(0);
            let threads = (&sender, &receiver);
            let end = self.count(threads, begin, &mut counter, &mut rings, &mut map, (session, ended));
            shared.stop_sending.store(true, Ordering::Release);
            shared.stop_receiving.store(true, Ordering::Release);
            while !(sender.is_finished() && receiver.is_finished()) {
                shared.barrier.interrupt();
                std::thread::sleep(NUDGE);
            }
            counter.collect(&mut rings);
            counter.give_up();
            let (sent, heard) = (thread::joined(sender.join()), thread::joined(receiver.join()));
            Ok::<_, ProbeError>((sent?, heard?, end, begin))
        });
        let (sent, heard, end, begin) = outcome?;
        let broken = sent.broken.or(heard.broken);
        Ok(PhaseDone {
            counter,
            end: broken.map_or(end, PassEnd::Broken),
            usage: together(&sent.usage, &heard.usage, heard.own_ns),
            begin,
            dropped: sent.dropped + heard.dropped,
            map: map.finish(),
        })
    }

    /// Counts until all cycles are sent and echoed or given up.
    fn count(
        &self,
        (sender, receiver): (&ScopedJoinHandle<'_, ThreadResult>, &ScopedJoinHandle<'_, ThreadResult>),
        begin: u64,
        counter: &mut Counter,
        rings: &mut Rings<'_>,
        map: &mut MapRecorder,
        (session, ended): (&mut Session, &mut Option<ProbeError>),
    ) -> PassEnd {
        let timeout_ns = u64::from(self.task.spec.timeout_ms) * 1_000_000;
        let (mut sent_all_at, mut heard_at, mut echoes, mut asked_at) = (None, begin, 0, begin);
        loop {
            std::thread::sleep(LOOK);
            // In this order: what a thread that has ended wrote is all there.
            let (sent_all, deaf) = (sender.is_finished(), receiver.is_finished());
            counter.collect(rings);
            let now = self.clock.now();
            map.push_if_due(now);
            let lost = counter.recorder.as_ref().map_or(0, Recorder::lost);
            if counter.recorder.is_some() {
                self.context.progress.update(counter.published, lost, now.saturating_sub(begin));
            }
            if counter.echoes > echoes {
                (echoes, heard_at) = (counter.echoes, now);
            }
            let since_all = now.saturating_sub(*sent_all_at.get_or_insert(now));
            if !sent_all {
                sent_all_at = None;
            }
            if deaf || (sent_all && (counter.waiting.is_empty() || since_all > timeout_ns)) {
                return PassEnd::Done;
            }
            if self.context.stopping() {
                return PassEnd::Stopped;
            }
            let silent_ns = now.saturating_sub(heard_at);
            if silent_ns > ASK_NS && now.saturating_sub(asked_at) > ASK_NS {
                asked_at = now;
                *ended = session.ended();
                if ended.is_some() {
                    return PassEnd::PeerEnded;
                }
            }
            if silent_ns > SILENT_NS {
                return PassEnd::Silent(SILENT_NS / 1_000_000);
            }
        }
    }

    fn hear(&self, listener: &mut Listener, shared: &Shared, mut ring: Producer<'_, 2>) -> ThreadResult {
        self.on_thread(ThreadRole::Receiver, shared, |_, _| {
            let end = listener.receive(&shared.stop_receiving, |sample| ring.push([sample.cycle, sample.stored_ns]));
            (ring.dropped, end)
        })
    }

    fn send(&self, talker: &mut Talker, cycles: u64, shared: &Shared, mut ring: Producer<'_, 3>) -> ThreadResult {
        self.on_thread(ThreadRole::Sender, shared, |begin, usage| {
            let mut cycle = Cycle::new(self.interval_ns, 0, begin, 0, Overrun::Skip);
            let end_ns = cycle.due_ns().saturating_add(cycles.saturating_mul(self.interval_ns));
            let end = talker.publish(&mut cycle, end_ns, &shared.stop_sending, |number, due_ns, begun_ns| {
                ring.push([number, due_ns, begun_ns]);
                if number.is_multiple_of(BATCH) {
                    usage.observe_cpu();
                }
            });
            (ring.dropped, end)
        })
    }

    /// Places the calling thread, waits for the other one, and works between the samplers.
    fn on_thread(
        &self,
        role: ThreadRole,
        shared: &Shared,
        work: impl FnOnce(u64, &mut UsageSampler) -> (u64, Result<(), PathError>),
    ) -> ThreadResult {
        let (number, cpu) = match role {
            ThreadRole::Sender => (0, self.placement.send_cpu),
            ThreadRole::Receiver => (1, self.placement.receive_cpu),
        };
        let placed = place_thread(&self.placement, role);
        let begin = shared.barrier.arrive(number, placed.is_ok());
        placed?;
        let Some(begin) = begin else { return Ok(ThreadDone::default()) };
        let mut usage = UsageSampler::start(cpu);
        let (dropped, end) = work(begin, &mut usage);
        let (usage, own_ns) = usage.finish_with_own();
        Ok(ThreadDone { usage, own_ns, dropped, broken: end.err() })
    }

    #[expect(clippy::too_many_arguments, reason = "what each part of a pass left")]
    fn pass_done(
        &self,
        size: u32,
        done: PhaseDone,
        mut ends: Ends,
        mut own: StopReport,
        self_cost: SelfCost,
        (sent, answers): (u64, u64),
        ended: Option<ProbeError>,
    ) -> PassDone {
        let spec = &self.task.spec;
        let name = ends.session.name.clone();
        let ended = ended.map(|error| (0, error));
        let sessions = std::iter::once(&mut ends.session);
        let Collected { reports, failure } = driver::collect_reports(sessions, &name, size, done.end, ended);
        let cycles = if done.end == PassEnd::Done { cycle::cycles(spec) } else { done.counter.next };
        let (report, recorded) = self.report(cycles, &done.map, done.counter, &mut ends.listener);
        let overrun = format!(
            "{} cycles were not counted: the thread that counts them had no CPU for {} s. Leave it one, or use a longer --interval-us",
            done.dropped,
            ROOM_NS / 1_000_000_000
        );
        own.notes.extend(driver::counted(done.dropped, FindingId::SamplesOverrun, overrun));
        let lost = recorded.messages.lost;
        own.notes.extend(driver::loss_by_direction(spec, lost, sent, answers, &reports, "warm-up included, "));
        let vanished = driver::vanished(failure.as_ref(), &mut own.notes);
        let other = Other { report: reports.into_iter().next().flatten(), ..Other::only(&ends.path_info) };
        let timed = TimedResult { cycle: Some(report), ..TimedResult::new(recorded) };
        let parts = Parts {
            path_info: ends.path_info,
            map: done.map,
            own,
            others: vec![other],
            self_cost,
            vanished,
            interrupted: done.end == PassEnd::Stopped,
            source: None,
            figures: Figures::Timed(Box::new(timed)),
        };
        if failure.is_none() {
            ends.session.close();
        }
        PassDone { parts, failure, saturated: false }
    }

    /// What became of the deadlines. The monitor begins with the first echo, and cycles before it are missed, too.
    fn report(
        &self,
        cycles: u64,
        map: &ClockMap,
        counter: Counter,
        listener: &mut Listener,
    ) -> (CycleReport, Recorded) {
        let Counter { recorder, published, first_echo, .. } = counter;
        let counters = listener.finish_before(cycles);
        let before = first_echo.unwrap_or(cycles);
        let report = CycleReport {
            interval_ns: self.interval_ns,
            deadline_ns: 1000 * u64::from(self.cycle.deadline_us(&self.task.spec)),
            cycles,
            missed: counters.misses + before,
            runs: counters.miss_runs + u64::from(before > 0),
            longest_run: counters.longest_run.max(before),
            skipped: cycles.saturating_sub(published),
        };
        let empty = RecorderConfig::new(self.clock.rate(), LatencyKind::Rtt, 1);
        (report, recorder.unwrap_or_else(|| Recorder::new(empty)).finish(Some(map)))
    }
}

struct Shared {
    stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
    barrier: StartBarrier,
}

type ThreadResult = Result<ThreadDone, ProbeError>;

#[derive(Default)]
struct ThreadDone {
    usage: EndUsage,
    own_ns: u64,
    dropped: u64,
    broken: Option<PathError>,
}

type Rings<'a> = (Consumer<'a, 3>, Consumer<'a, 2>);

/// Makes samples of cycles and echoes. Echoes are in the order of their cycles, so what was sent before one of them and has none is
/// lost, or came after a newer one.
struct Counter {
    /// Absent while warming up.
    recorder: Option<Recorder>,
    waiting: VecDeque<SentEntry>,
    /// Echoes whose cycle the publisher has not noted yet.
    early: VecDeque<HeardEntry>,
    samples: Vec<Sample>,
    published: u64,
    echoes: u64,
    /// The number behind that of the last cycle.
    next: u64,
    first_echo: Option<u64>,
}

impl Counter {
    fn new(recorder: Option<Recorder>) -> Self {
        Self {
            recorder,
            waiting: VecDeque::new(),
            early: VecDeque::new(),
            samples: Vec::new(),
            published: 0,
            echoes: 0,
            next: 0,
            first_echo: None,
        }
    }

    fn collect(&mut self, (sent, heard): &mut Rings<'_>) {
        // In this order: most cycles of these echoes are noted by then.
        let until = heard.written();
        let sent_until = sent.written();
        while let Some(entry) = sent.pop(sent_until) {
            self.waiting.push_back(entry);
            self.published += 1;
            self.next = entry[0] + 1;
        }
        while let Some(entry) = heard.pop(until) {
            self.early.push_back(entry);
        }
        while let Some([cycle, at]) = self.early.pop_front_if(|[cycle, _]| *cycle < self.next) {
            self.first_echo.get_or_insert(cycle);
            self.echoes += 1;
            while let Some(entry) = self.waiting.pop_front_if(|entry| entry[0] <= cycle) {
                self.sample(entry, (entry[0] == cycle).then_some(at));
            }
        }
        self.hand_over();
    }

    /// What has no echo is lost.
    fn give_up(&mut self) {
        while let Some(entry) = self.waiting.pop_front() {
            self.sample(entry, None);
        }
        self.hand_over();
    }

    fn sample(&mut self, [seq, intended, sent]: SentEntry, received: Option<u64>) {
        let flags = if received.is_none() { SampleFlags::LOST } else { SampleFlags::default() };
        // Nobody waits for a lost one.
        self.samples.push(Sample {
            seq,
            intended,
            sent,
            received: received.unwrap_or(sent),
            flags,
            ..Sample::default()
        });
    }

    fn hand_over(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.ingest(&self.samples);
        }
        self.samples.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings<const W: usize>(entries: &[[u64; W]], ring: &mut Producer<'_, W>) {
        entries.iter().for_each(|entry| ring.push(*entry));
    }

    /// Catches: an echo that arrives before its cycle is noted and is then lost, and a cycle passed over that is not.
    #[test]
    fn each_cycle_is_echoed_or_lost_once() {
        let (mut sent, mut heard) = (Ring::<3>::new(16), Ring::<2>::new(16));
        let ((mut sent_in, sent_out), (mut heard_in, heard_out)) = (sent.ends(), heard.ends());
        let mut both = (sent_out, heard_out);
        let config = RecorderConfig {
            has_schedule: true,
            ..RecorderConfig::new(model::TickRate::NANOSECONDS, LatencyKind::Rtt, 100)
        };
        let mut counter = Counter::new(Some(Recorder::new(config)));
        rings(&[[0, 1000, 1010], [1, 2000, 2010], [2, 3000, 3010]], &mut sent_in);
        rings(&[[0, 1500], [2, 3500], [3, 4500]], &mut heard_in);
        counter.collect(&mut both);
        assert_eq!((counter.echoes, counter.waiting.len(), counter.early.len()), (2, 0, 1), "cycle 3 is not noted yet");
        rings(&[[3, 4000, 4010], [7, 8000, 8010]], &mut sent_in);
        counter.collect(&mut both);
        assert_eq!((counter.echoes, counter.waiting.len(), counter.next), (3, 1, 8));
        counter.give_up();
        let recorded = counter.recorder.unwrap().finish(None);
        assert_eq!((recorded.messages.received, recorded.messages.lost), (3, 2));
        assert_eq!(recorded.latency_intended.unwrap().max_ns, Some(500));
        assert_eq!((counter.first_echo, counter.published), (Some(0), 5));
    }
}
