//! Why messages are late: a recorder around a pass, and a thread beside it that explains each late message soon after it is over.

use crate::PassObserver;
use crate::far::{FAR_QUANTILE, MOST_SENT, checked, far_end, far_windows};
use crate::only_recording::OnlyRecording;
use crate::thread_times::{self, ThreadTimes, ThreadWatch};
use crate::windows::{MOST_EVENTS, WorstWindows};
use explain::blame::TRACER;
use explain::{Explained, Side, Stay, Timeline, Usual, explain_stay, join};
use model::result::Outlier;
use model::worker::Measured;
use model::{
    Cause, EndSpec, EventWindow, ExplainOver, ExplainedStay, Explanation, FarStays, LatencyKind, PathSegment, Policy,
    Receive,
};
use net::{CallObserver, ObservedCalls};
use nix::sys::socket::{SockaddrStorage, getsockname};
use stats::Histogram;
use std::cell::Cell;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use trace::recorder::BEHIND_NS;
use trace::{Calls, Recorder, Subject};
use wire::StopReport;

/// How often what was recorded is read. The ring of a CPU holds 0.2 s at 170,000 events a second.
const PERIOD: Duration = Duration::from_millis(5);
/// The collecting thread sleeps after so much work, so that ordinary threads of another session run (sched(7), autogroup).
const BURST_NS: u64 = 50_000;
const REST: Duration = Duration::from_micros(100);
/// Events are kept so much longer than the oldest message that is not explained yet.
const KEPT_NS: u64 = 100_000_000;
/// And not longer than this.
const LONGEST_NS: u64 = 2_000_000_000;
/// Late messages that are explained in one step: where it came late there are many.
const MOST_A_STEP: usize = 5_000;
/// Before so many messages are counted, it is not known what is usual.
const LEAST_MESSAGES: u64 = 64;
/// Most late messages that are kept.
const MOST_LATE: usize = 100_000;
/// The ends, as causes have them.
pub(crate) const NEAR: &str = "initiator";
pub(crate) const FAR: &str = "reflector";
/// Late messages that are stored with their segments and causes: the worst.
const MOST_STORED: usize = 500;
/// Shorter messages have no room for their numbers.
const LEAST_BYTES: u32 = 4;

/// Which messages are late.
#[derive(Clone, Copy)]
pub(crate) enum Late {
    /// Those above a limit in ns and above a quantile of their own pass, as the recorder makes a pass slower.
    Over(u64, f64),
    /// Those beyond a quantile of the stays at their end, with what the packet waited before it.
    Beyond(f64),
}

impl Late {
    /// From which time on a message is late, as far as is known.
    pub(crate) fn threshold_ns(self, usual: &Usual) -> u64 {
        match self {
            Self::Over(ns, q) if q > 0.0 => ns.max(usual.stay_quantile(q).unwrap_or(0)),
            Self::Over(ns, _) => ns,
            Self::Beyond(q) => usual.deferred_stay_quantile(q).unwrap_or(0),
        }
    }
}

/// What a pass left.
pub(crate) struct Collected {
    pub(crate) usual: Usual,
    /// The longest first, each with the time by which it is that, in ns.
    pub(crate) stays: Vec<(u64, ExplainedStay)>,
    pub(crate) windows: WorstWindows,
    /// Late messages that found no room.
    pub(crate) dropped: u64,
    /// Why less is known than could be.
    pub(crate) limits: Vec<String>,
}

/// The recorder and the thread that reads it. Dropping it ends both, as where a client vanishes within a pass.
pub(crate) struct Collector {
    over: Arc<AtomicBool>,
    /// Of the thread, once it runs.
    id: Arc<AtomicI32>,
    thread: Option<JoinHandle<Collected>>,
    /// Stamps the calls of the threads that measure.
    calls: Option<ObservedCalls>,
}

struct StampedCalls(Calls);

impl CallObserver for StampedCalls {
    fn sent(&self, message: &[u8]) {
        self.0.sent(message);
    }

    fn sends(&self, message: &[u8]) {
        self.0.sends(message);
    }

    fn received(&self, message: &[u8]) {
        self.0.received(message);
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // Before another one may begin.
        self.calls = None;
        self.over.store(true, Ordering::Release);
    }
}

impl Collector {
    /// Begins to record. The calling thread is one of those that measure.
    pub(crate) fn start(
        side: Side,
        socket: Option<RawFd>,
        late: Late,
        (policy, cpu, spins): (Policy, Option<u32>, bool),
    ) -> Result<Self, String> {
        let of_messages = || {
            let socket = socket.ok_or("the recorder follows one socket, and no stream of messages, nor PGM")?;
            let carried = host::stack::carried(&[socket]).unwrap_or_default();
            let by = carried.first().map_or("kernel", |one| one.by.as_str());
            // One that only spins leaves the messages to the kernel.
            let is_past_kernel = !["kernel", "spin"].contains(&by);
            let port = if is_past_kernel { 0 } else { port(socket) };
            if port == 0 && !is_past_kernel {
                return Err(
                    "the recorder follows messages over UDP and TCP, and those of stacks in the process".to_owned()
                );
            }
            Ok::<_, String>((port, is_past_kernel, by != "kernel", socket))
        };
        let messages = if side == Side::Timer { None } else { Some(of_messages()?) };
        let subject = match messages {
            None => Subject::Sleeps,
            Some((port, ..)) if side == Side::Near => Subject::Near(port),
            Some((port, ..)) => Subject::Far(port),
        };
        let only = OnlyRecording::begin()?;
        let recorder = Recorder::start(&subject).map_err(|error| error.to_string())?;
        let calls = messages.map(|(_, is_past_kernel, _, socket)| Ok((socket, recorder.calls(is_past_kernel)?)));
        let calls = calls.transpose().map_err(|error: trace::TraceError| error.to_string())?;
        let mut collecting = Collecting::new(side, late, policy, recorder);
        collecting.spins = spins || messages.is_some_and(|(_, _, spins, _)| spins);
        let mut collector = Self::spawn(collecting, cpu, only, |_| {})?;
        collector.calls = calls.map(|(socket, calls)| ObservedCalls::by(socket, Arc::new(StampedCalls(calls))));
        Ok(collector)
    }

    /// `watch` sees what is collected before each step.
    pub(crate) fn spawn(
        collecting: Collecting,
        cpu: Option<u32>,
        only: OnlyRecording,
        watch: impl FnMut(&mut Collecting) + Send + 'static,
    ) -> Result<Self, String> {
        let over = Arc::new(AtomicBool::new(false));
        let id = Arc::new(AtomicI32::new(0));
        let (ends, of_thread) = (Arc::clone(&over), Arc::clone(&id));
        let work = move || {
            // Real time, below the measured thread: an ordinary thread would read too late, but where real-time threads spin on
            // all CPUs (the fair server).
            let own =
                if collecting.policy.is_real_time() && !collecting.spins { Policy::Fifo(1) } else { Policy::Other };
            of_thread.store(task::thread_id(), Ordering::Release);
            let _ = task::apply_policy(own).or_else(|_| task::apply_policy(Policy::Other));
            // Threads that sleep may have several CPUs, and the calling one is on none of them.
            let moved = match collecting.side {
                Side::Timer => Ok(()),
                _ => task::set_affinity(&task::housekeeping_cpus(cpu)),
            };
            let mut collected = collecting.run(&ends, watch);
            let shares = |why| format!("the recorder shares the measured thread's CPU: {why}");
            collected.limits.extend(moved.err().map(shares));
            drop(only);
            collected
        };
        let named = std::thread::Builder::new().name(TRACER.to_owned());
        let thread = named.spawn(work).map_err(|error| format!("starting the thread that explains failed: {error}"))?;
        Ok(Self { over, id, thread: Some(thread), calls: None })
    }

    pub(crate) fn finish(mut self) -> Result<Collected, String> {
        self.calls = None;
        self.over.store(true, Ordering::Release);
        let id = self.id.load(Ordering::Acquire);
        if id != 0 {
            // The other end may spin on that CPU until this one has its result; this one's is free.
            let _ = task::set_policy_of(id, Policy::Other);
            let _ = task::set_affinity_of(id, &task::housekeeping_cpus(None));
        }
        let collected = self.thread.take().and_then(|thread| thread.join().ok());
        collected.ok_or_else(|| "the thread that explains ended by itself".to_owned())
    }
}

/// Sleeps if the thread has worked for a while since `rested_ns`.
fn rest(rested_ns: &Cell<u64>) {
    if clock::monotonic_ns().saturating_sub(rested_ns.get()) > BURST_NS {
        std::thread::sleep(REST);
        rested_ns.set(clock::monotonic_ns());
    }
}

fn port(descriptor: RawFd) -> u16 {
    let address = getsockname::<SockaddrStorage>(descriptor).ok();
    let inet = |address: SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::port);
        v4.or(address.as_sockaddr_in6().map(nix::sys::socket::SockaddrIn6::port))
    };
    address.and_then(inet).unwrap_or(0)
}

/// What the thread does.
pub(crate) struct Collecting {
    side: Side,
    late: Late,
    /// From which time on a message is late, as of this step.
    pub(crate) over_ns: u64,
    policy: Policy,
    /// Whether an end spins.
    spins: bool,
    /// Whether the process is another one, whose threads have policies of their own.
    pub(crate) is_other: bool,
    /// The end, as causes have it.
    pub(crate) host: String,
    recorder: Recorder,
    pub(crate) usual: Usual,
    /// Times of the messages since whoever watches emptied it.
    pub(crate) recent: Histogram,
    /// Messages whose events may not all be there yet.
    waiting: VecDeque<Stay>,
    /// When the last step was, and the last one that found messages that are over.
    step_ns: u64,
    progress_ns: u64,
    /// When the thread slept last.
    rested_ns: Cell<u64>,
    /// The worst, the least of them first.
    stays: BinaryHeap<std::cmp::Reverse<(u64, u64)>>,
    pub(crate) explained: std::collections::BTreeMap<u64, ExplainedStay>,
    windows: WorstWindows,
    dropped: u64,
}

impl Collecting {
    pub(crate) fn new(side: Side, late: Late, policy: Policy, recorder: Recorder) -> Self {
        let (usual, waiting) = (Usual::new(side), VecDeque::new());
        Self {
            side,
            late,
            over_ns: 0,
            policy,
            spins: false,
            is_other: false,
            host: if side == Side::Far { FAR } else { NEAR }.to_owned(),
            recorder,
            usual,
            recent: Histogram::new(),
            waiting,
            step_ns: 0,
            progress_ns: clock::monotonic_ns(),
            rested_ns: Cell::new(0),
            stays: BinaryHeap::new(),
            explained: std::collections::BTreeMap::new(),
            windows: WorstWindows::default(),
            dropped: 0,
        }
    }

    fn run(mut self, ends: &AtomicBool, mut watch: impl FnMut(&mut Self)) -> Collected {
        while !ends.load(Ordering::Acquire) {
            std::thread::sleep(PERIOD);
            watch(&mut self);
            self.step(clock::monotonic_ns(), false);
        }
        // What is counted now is read by the last step.
        self.step(clock::monotonic_ns(), false);
        std::thread::sleep(Duration::from_nanos(BEHIND_NS));
        self.step(clock::monotonic_ns(), true);
        let mut limits: Vec<String> = Vec::new();
        let missing: Vec<&str> = self.recorder.missing().collect();
        if !missing.is_empty() {
            limits.push(format!("this kernel has no {}", missing.join(", ")));
        }
        for (lost, what) in [(self.recorder.lost(), "events"), (self.recorder.skipped(), "messages")] {
            if lost > 0 {
                limits.push(format!("{lost} {what} were overwritten before they were read"));
            }
        }
        let longest = self.stays.into_sorted_vec();
        let stay = |std::cmp::Reverse((ns, seq))| Some((ns, self.explained.remove(&seq)?));
        let stays = longest.into_iter().filter_map(stay).collect();
        Collected { usual: self.usual, stays, windows: self.windows, dropped: self.dropped, limits }
    }

    fn step(&mut self, now_ns: u64, last: bool) {
        // Those under way began before the last one was over, or little later.
        let oldest = self.waiting.front().map_or(now_ns, |stay| stay.start_ns(self.side)).min(self.progress_ns);
        // A client that sends little makes nothing wait longer.
        let kept_ns = if self.is_other { LONGEST_NS } else { KEPT_NS };
        let since_ns = oldest.saturating_sub(kept_ns).max(now_ns.saturating_sub(LONGEST_NS));
        self.rested_ns.set(clock::monotonic_ns());
        let over = self.recorder.read(since_ns);
        if !over.is_empty() {
            self.progress_ns = now_ns;
        }
        for seq in over {
            rest(&self.rested_ns);
            if let Some(stay) = self.recorder.stay(seq) {
                self.usual.add(&stay);
                stay.ns(self.side).into_iter().for_each(|ns| self.recent.record(ns));
                self.waiting.push_back(stay);
            }
        }
        if self.usual.messages() < LEAST_MESSAGES && !last {
            return;
        }
        self.over_ns = self.late.threshold_ns(&self.usual);
        // Events are read a step after they happened.
        let until_ns = std::mem::replace(&mut self.step_ns, now_ns).saturating_sub(BEHIND_NS);
        let mut explained = 0;
        while let Some(stay) = self.waiting.front().copied().filter(|stay| last || stay.end_ns() <= until_ns) {
            self.waiting.pop_front();
            let ns = self.time_of(&stay);
            // Between messages a far end that polls is idle, so a stay there may be late though others waited longer.
            let is_long = stay.is_polled() && self.side == Side::Far;
            let is_long = is_long && stay.ns(self.side) > self.usual.stay_quantile(FAR_QUANTILE);
            if ns <= self.over_ns && !is_long {
                continue;
            }
            if explained == MOST_A_STEP {
                self.dropped += 1;
            } else {
                explained += 1;
                self.explain(&stay, ns);
            }
        }
    }

    /// The time by which a message is late or not, in ns.
    fn time_of(&self, stay: &Stay) -> u64 {
        let waited_ns = if matches!(self.late, Late::Beyond(_)) { stay.deferral_ns() } else { 0 };
        stay.ns(self.side).unwrap_or(0) + waited_ns
    }

    /// Explains a message that took `ns`. Where there is no room the shortest is dropped.
    fn explain(&mut self, stay: &Stay, ns: u64) {
        let most = if matches!(self.late, Late::Beyond(_)) { MOST_SENT } else { MOST_LATE };
        let shortest =
            self.stays.peek().filter(|_| self.stays.len() >= most).map(|std::cmp::Reverse(shortest)| *shortest);
        if shortest.is_some_and(|(shortest, _)| shortest >= ns) {
            self.dropped += 1;
            return;
        }
        let real_time = if self.is_other { priority_of(stay, self.side) } else { self.policy.priority() };
        let priority = real_time.map_or(120, |priority| 99 - priority.min(99));
        let (recorder, rested_ns) = (&self.recorder, &self.rested_ns);
        let explained = explain_stay(stay, &self.usual, priority, &self.host, &mut |cpu, from_ns, to_ns, thread| {
            rest(rested_ns);
            let known_from_ns = recorder.known_from(cpu, to_ns);
            let events = recorder.events(cpu, from_ns, to_ns, thread);
            Timeline { known_from_ns, ..Timeline::new(&events, from_ns, to_ns) }
        });
        // How long a message waited for a thread that polls is known only now.
        let way = |cause: &&Cause| cause.segment == PathSegment::WireOut;
        let waited_ns = || explained.causes.iter().filter(way).map(|cause| cause.ns).sum::<u64>();
        let is_idle = stay.is_polled() && self.side == Side::Far;
        let ns = if is_idle { explained.ns.saturating_add(waited_ns()) } else { ns };
        if !self.is_other {
            self.windows.offer(stay, ns, |cpu, from_ns, to_ns| recorder.events(cpu, from_ns, to_ns, 0));
        }
        if let Some((shortest_ns, seq)) = shortest {
            self.dropped += 1;
            if shortest_ns >= ns {
                return;
            }
            self.explained.remove(&seq);
            self.stays.pop();
        }
        self.stays.push(std::cmp::Reverse((ns, stay.seq)));
        self.explained.insert(stay.seq, explained);
    }
}

/// The real-time priority that the thread of a message has.
fn priority_of(stay: &Stay, side: Side) -> Option<u8> {
    let thread = stay.slices(side).first()?.thread;
    let stat = host::tasks::parse_stat(&std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?)?;
    u8::try_from(stat.priority).ok().filter(|priority| *priority > 0)
}

/// Asks for a further pass, records it, and adds to the result of the first why messages were late.
pub struct NearExplainer {
    over: ExplainOver,
    policy: Policy,
    cpu: Option<u32>,
    spins: bool,
    /// Messages, or sleeps.
    side: Side,
    /// What is late, once the first pass is over.
    late: Option<Late>,
    p50_before_ns: Option<u64>,
    collector: Option<Result<Collector, String>>,
    collected: Option<Result<Collected, String>>,
    /// Where the recorder cannot be had.
    watch: Option<ThreadWatch>,
    times: Option<ThreadTimes>,
    far: Vec<FarStays>,
}

impl NearExplainer {
    pub fn new(over: ExplainOver, initiator: &EndSpec, reflector: &EndSpec) -> Self {
        Self {
            over,
            policy: initiator.policy,
            cpu: initiator.cpu,
            spins: [initiator, reflector].iter().any(|end| end.receive == Receive::Spin),
            side: Side::Near,
            late: None,
            p50_before_ns: None,
            collector: None,
            collected: None,
            watch: None,
            times: None,
            far: Vec::new(),
        }
    }
}

impl PassObserver for NearExplainer {
    fn begin(&mut self, size: u32, socket: Option<RawFd>) {
        if let Some(late) = self.late {
            let started = if self.side != Side::Timer && size < LEAST_BYTES {
                Err(format!("messages shorter than {LEAST_BYTES} bytes carry no number"))
            } else {
                Collector::start(self.side, socket, late, (self.policy, self.cpu, self.spins))
            };
            self.watch = started.is_err().then(|| ThreadWatch::start(self.cpu, None)).flatten();
            self.collector = Some(started);
        }
    }

    fn end(&mut self, _: &mut StopReport) {
        self.collected = self.collector.take().map(|started| started.and_then(Collector::finish));
        self.times = self.watch.take().map(ThreadWatch::finish);
    }

    fn judge(&mut self, _: &mut StopReport, others: &[&StopReport]) {
        self.far = others.iter().filter_map(|other| other.explained.clone()).map(checked).collect();
    }

    fn wants_further_pass(&mut self, result: &Measured) -> bool {
        let Some(latency) = result.result.latency.as_ref() else { return false };
        self.side = if latency.kind == LatencyKind::WakeUp { Side::Timer } else { Side::Near };
        let round_trips = if latency.kind == LatencyKind::RttHalf { 2 } else { 1 };
        let (ns, q) = match self.over {
            ExplainOver::Ns(ns) => (Some(ns), 0.0),
            ExplainOver::Auto => (latency.p99_ns.or(latency.max_ns).map(|ns| ns * round_trips), 0.99),
            ExplainOver::P999 => (latency.p99_9_ns.or(latency.max_ns).map(|ns| ns * round_trips), 0.999),
        };
        self.late = ns.map(|ns| Late::Over(ns, q));
        self.p50_before_ns = latency.p50_ns.map(|ns| ns * round_trips);
        self.late.is_some()
    }

    fn take_further_pass(&mut self, result: &mut Measured, further: &Measured) {
        let Some(late) = self.late.take() else { return };
        let far = std::mem::take(&mut self.far);
        let kind = if self.side == Side::Timer { LatencyKind::WakeUp } else { LatencyKind::Rtt };
        let mut explanation = Explanation { kind, p50_before_ns: self.p50_before_ns, ..Explanation::default() };
        match (self.collected.take(), self.times.take()) {
            (Some(Ok(collected)), _) => explain_pass(late, &mut explanation, collected, &far, result, further),
            (Some(Err(why)), Some(times)) => {
                explanation.limits.extend(times.limits(&why));
                explain_by_times(late, &mut explanation, times, &far, result, further);
            }
            (Some(Err(why)), None) => explanation.limits.push(why),
            (None, _) => explanation.limits.push("nothing was recorded".to_owned()),
        }
        result.result.explanation = Some(explanation);
    }
}

/// Adds what late messages lost and to which causes, and what percentiles all messages have.
pub(crate) fn summarize(explanation: &mut Explanation, late: &[Explained], all: &Histogram) {
    explanation.messages = all.count();
    let sum = |of: &dyn Fn(&Cause) -> bool| -> u64 {
        late.iter().flat_map(|message| &message.causes).filter(|cause| of(cause)).map(|cause| cause.ns).sum()
    };
    let lost_ns = sum(&|_| true);
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = sum(&|cause| cause.class.is_known()) as f64 / lost_ns.max(1) as f64;
    explanation.explained = share;
    let quantile = |q| all.quantile_if_supported(q, Histogram::BEYOND);
    (explanation.p50_ns, explanation.p99_ns, explanation.p99_9_ns) = (quantile(0.5), quantile(0.99), quantile(0.999));
    explanation.causes = explain::blame_table(late, all, explanation.over_ns);
    // What has too few messages for a percentile has none without a cause either.
    for cause in &mut explanation.causes {
        cause.p99_without_ns = cause.p99_without_ns.filter(|_| explanation.p99_ns.is_some());
        cause.p99_9_without_ns = cause.p99_9_without_ns.filter(|_| explanation.p99_9_ns.is_some());
    }
}

fn explain_pass(
    late: Late,
    explanation: &mut Explanation,
    collected: Collected,
    far: &[FarStays],
    result: &mut Measured,
    further: &Measured,
) {
    let Collected { usual, mut stays, windows, dropped, limits } = collected;
    explanation.over_ns = late.threshold_ns(&usual);
    // The threshold was lower where little was known.
    stays.retain(|(_, stay)| stay.ns > explanation.over_ns);
    explanation.limits = limits;
    let far = far_end(explanation, far);
    if dropped > 0 {
        explanation.limits.push(format!("{dropped} late messages found no room"));
    }
    // Where it has only the times of its threads, nothing is known of single messages there.
    let far = far.filter(|far| far.usual_ns > 0);
    let same_clock = far.is_some_and(thread_times::has_same_clock);
    result.windows = windows.finish(NEAR, MOST_EVENTS, true);
    result.windows.extend(far.into_iter().flat_map(|far| far_windows(far, &stays, same_clock)));
    // Both ends of a message, one after the other.
    let rank = |window: &EventWindow| stays.iter().position(|(_, stay)| stay.seq == window.seq).unwrap_or(usize::MAX);
    result.windows.sort_by_cached_key(rank);
    let late: Vec<Explained> = stays.into_iter().map(|(_, near)| join(near, &usual, far, same_clock)).collect();
    explanation.late = u64::try_from(late.len()).unwrap_or(u64::MAX) + dropped;
    summarize(explanation, &late, usual.stays());
    explanation.messages = usual.messages();
    store(late, explanation, result, further);
}

/// Explains the late messages among those that the pass kept, by what its threads did meanwhile.
fn explain_by_times(
    late: Late,
    explanation: &mut Explanation,
    mut times: ThreadTimes,
    far: &[FarStays],
    result: &mut Measured,
    further: &Measured,
) {
    let Late::Over(ns, q) = late else { return };
    if explanation.kind == LatencyKind::WakeUp && times.threads() > 1 {
        explanation.limits.push("several threads sleep, and which of them a wake-up was of is not known".to_owned());
        times = ThreadTimes::default();
    }
    let all = thread_times::all_messages(&further.hlog);
    let far = far_end(explanation, far);
    let over_ns = ns.max(all.quantile(q).filter(|_| q > 0.0).unwrap_or(0));
    let (over_ns, late) = times.explain(thread_times::since_1970_ns(), over_ns, &all, &further.outliers, far);
    (explanation.over_ns, explanation.late) = (over_ns, late.len() as u64);
    summarize(explanation, &late, &all);
    store(late, explanation, result, further);
}

/// Keeps the worst late messages.
fn store(late: Vec<Explained>, explanation: &Explanation, result: &mut Measured, further: &Measured) {
    let mut worst = late;
    worst.sort_by_key(|message| std::cmp::Reverse(message.rtt_ns));
    worst.truncate(MOST_STORED);
    let since_1970_ns = thread_times::since_1970_ns();
    // Sleeps are counted from the begin of their warm-up.
    let is_known = |one: &&Outlier, seq| one.seq == seq && explanation.kind == LatencyKind::Rtt;
    let known = |seq| further.outliers.iter().find(|one| is_known(one, seq)).cloned().unwrap_or_default();
    result.outliers.extend(worst.into_iter().map(|message| Outlier {
        seq: message.seq,
        realtime_ns: Some(since_1970_ns + message.start_ns),
        rtt_ns: message.rtt_ns,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        explained_percent: (!message.causes.is_empty()).then_some((100.0 * message.explained).round() as u8),
        segments: message.segments,
        causes: message.causes,
        ..known(message.seq)
    }));
}

#[cfg(test)]
mod tests;
