//! What both ends share: the observers of a pass; a flow of bulk data on one thread, in one direction, and the counts of all flows.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod explainer;
mod far;
mod live;
mod observer;
mod only_recording;
mod thread_times;
mod windows;

use clock::Clock;
pub use explainer::NearExplainer;
use host::UsageSampler;
pub use live::{LiveExplainer, LiveReport};
use model::stream::{StreamReceived, StreamSent};
use model::{EndSpec, EndUsage, Limits, Receive, StreamSpec};
use net::bulk::{self, Arrived, Gauge, Rate, ReceivePlan, SendDone, SendPlan};
use net::{DataSocket, NetError, PathError};
pub use observer::{PassObserver, PassObservers, far_observers, pass_observers};
use record::stream::{FlowCounted, FlowCounter, FlowSink};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use task::TaskError;
pub use thread_times::this_thread_measures;

/// Stack of a flow's thread. A quarter of it is touched beforehand.
const STACK_BYTES: usize = 256 << 10;
/// An owner's limit of messages that no flow of single datagrams reaches.
pub const BEYOND_REACH_PPS: u32 = 10_000_000;

/// A flow that could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Net(#[from] NetError),
}

#[derive(Debug, Default)]
pub struct FlowControl {
    /// Lets those send that send.
    pub go: AtomicBool,
    /// Ends those that send.
    pub stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
    /// First arrival of any flow, in ns of the clock; 0 before it.
    origin_ns: AtomicU64,
}

impl FlowControl {
    pub fn stop(&self) {
        self.stop_sending.store(true, Ordering::Release);
        self.stop_receiving.store(true, Ordering::Release);
    }
}

#[derive(Debug, Default)]
pub struct FlowProgress {
    /// Messages and bytes so far.
    pub gauge: Gauge,
    /// Numbers that are missing so far.
    pub missing: AtomicU64,
    ended: AtomicBool,
}

impl FlowProgress {
    /// Whether its loop has ended, for whatever reason.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
pub struct FlowResult {
    usage: Option<EndUsage>,
    sent: Option<SendDone>,
    counted: Option<FlowCounted>,
    broken: Option<PathError>,
}

#[derive(Debug, Clone, Copy)]
pub struct FlowPlan<'a> {
    pub spec: &'a StreamSpec,
    /// This end: its CPU, and whether it spins.
    pub end: &'a EndSpec,
    /// Whether it is the initiator, which sends what goes up.
    pub initiator: bool,
    pub sockets: &'a [DataSocket],
    pub progress: &'a [FlowProgress],
    /// Bytes of a datagram or write.
    pub size: u32,
    /// Whether datagrams carry them.
    pub datagrams: bool,
    pub limits: &'a Limits,
    pub clock: Clock,
    pub tag: u64,
    /// No message is sent later than this after the first.
    pub longest: Duration,
    pub control: &'a FlowControl,
}

/// Runs flows on a thread each: `place` gives a thread its CPU and policy. Once all are ready `manage` looks after them;
/// when it returns they are stopped. It is not called where one could not begin.
///
/// # Errors
/// A thread that could not be started or placed, a socket that could not be prepared, or what `manage` returns.
pub fn run<E: Send, R>(
    plan: FlowPlan<'_>,
    place: impl Fn() -> Result<(), E> + Sync,
    failed: fn(FlowError) -> E,
    manage: impl FnOnce() -> Result<R, E>,
) -> Result<(Vec<FlowResult>, Option<R>), E> {
    let thread = |cause| failed(FlowError::Task(TaskError::Thread { name: "flow", cause }));
    let place = &place;
    std::thread::scope(|scope| {
        // Whatever fails below, no flow goes on.
        let _ending = StopOnDrop(plan.control);
        let (ready, heard) = mpsc::channel();
        let mut threads = Vec::new();
        for ((number, socket), progress) in (0..).zip(plan.sockets).zip(plan.progress) {
            let ready = ready.clone();
            let work = move || {
                task::prefault_stack(STACK_BYTES / 4);
                place()?;
                Flow { plan, number, socket, progress }.run(ready).map_err(failed)
            };
            let builder = std::thread::Builder::new().name("flow".to_owned()).stack_size(STACK_BYTES);
            threads.push(builder.spawn_scoped(scope, work).map_err(thread)?);
        }
        drop(ready);
        // A flow that cannot begin lets go of its end of the channel, and the reason comes when it is joined.
        let are_ready = heard.iter().take(threads.len()).count() == threads.len();
        let managed = are_ready.then(manage);
        plan.control.stop();
        let joined = threads.into_iter().map(|thread| thread.join());
        let ends = joined.map(|end| end.unwrap_or_else(|_| Err(thread(std::io::Error::other("it panicked")))));
        let ends = ends.collect::<Result<Vec<_>, E>>()?;
        Ok((ends, managed.transpose()?))
    })
}

/// Ends all flows when dropped.
struct StopOnDrop<'a>(&'a FlowControl);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// One flow. Everything is taken before the first message.
struct Flow<'a> {
    plan: FlowPlan<'a>,
    number: u32,
    socket: &'a DataSocket,
    progress: &'a FlowProgress,
}

impl Flow<'_> {
    fn run(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, FlowError> {
        if self.plan.spec.flow_pps(self.plan.size).is_some() {
            // Without it a sleep ends up to 50 µs late, and so would every datagram that waits for its time.
            task::set_timer_slack(Duration::from_nanos(1))?;
        }
        let FlowPlan { spec, initiator, limits, size, datagrams, .. } = self.plan;
        let sends = spec.is_up(self.number) == initiator;
        let limit = limit(limits, spec, size, datagrams, sends && !initiator);
        let end = if sends { self.send(ready, limit) } else { self.receive(ready, limit) };
        self.progress.ended.store(true, Ordering::Release);
        Ok(end?)
    }

    /// Says that it is ready. The machine's figures are the same for all flows, so one of them takes them.
    fn begin(&self, ready: mpsc::Sender<()>) -> Option<UsageSampler> {
        let usage = (self.number == 0).then(|| UsageSampler::start(self.plan.end.cpu));
        let _ = ready.send(());
        // The counter of ready flows must notice one that failed, so no end of the channel is kept.
        drop(ready);
        usage
    }

    fn receive(&self, ready: mpsc::Sender<()>, limit: Option<f64>) -> Result<FlowResult, NetError> {
        let longest_ms = u32::try_from(self.plan.longest.as_millis()).unwrap_or(u32::MAX);
        let counter = FlowCounter::new(longest_ms, self.plan.spec.gro);
        let mut sink =
            FlowSink::new(counter, self.plan.size as usize, &self.plan.control.origin_ns, &self.progress.missing);
        let mut usage = None;
        let ready = || {
            usage = self.begin(ready);
            ReceivePlan {
                spin: self.plan.end.receive == Receive::Spin,
                limit,
                clock: self.plan.clock,
                stop: &self.plan.control.stop_receiving,
                gauge: &self.progress.gauge,
            }
        };
        let done = bulk::receive(self.socket, self.plan.spec, self.plan.size, self.plan.datagrams, ready, |arrived| {
            match arrived {
                Arrived::At(now_ns) => {
                    sink.at(now_ns);
                    true
                }
                Arrived::Datagram(message) => sink.datagram(message.len(), wire::stream::read(self.plan.tag, message)),
                Arrived::Bytes(bytes) => {
                    sink.bytes(bytes);
                    true
                }
            }
        })?;
        let usage = usage.map(UsageSampler::finish);
        Ok(FlowResult { usage, counted: Some(sink.finish()), broken: done.broken, sent: None })
    }

    fn send(&self, ready: mpsc::Sender<()>, limit: Option<f64>) -> Result<FlowResult, NetError> {
        let longest = self.plan.clock.ticks(u64::try_from(self.plan.longest.as_nanos()).unwrap_or(u64::MAX));
        let mut usage = None;
        let ready = || {
            usage = self.begin(ready);
            bulk::wait_for_go(&self.plan.control.go, &self.plan.control.stop_sending).then(|| SendPlan {
                rate: Rate::new(self.plan.spec, self.plan.size, self.number),
                limit,
                clock: self.plan.clock,
                stop: &self.plan.control.stop_sending,
                until: self.plan.clock.now().saturating_add(longest),
                gauge: &self.progress.gauge,
            })
        };
        let head = |seq, stamp, message: &mut [u8]| wire::stream::write(seq, self.plan.tag, stamp, message);
        let Some(done) = bulk::send(self.socket, self.plan.spec, self.plan.size, self.plan.datagrams, ready, head)?
        else {
            return Ok(FlowResult::default());
        };
        let usage = usage.map(UsageSampler::finish);
        Ok(FlowResult { usage, sent: Some(done), broken: done.broken, counted: None })
    }
}

/// What the owner of an endpoint allows each flow of one direction, in datagrams or bytes of TCP a second; absent: anything.
pub fn limit(limits: &Limits, spec: &StreamSpec, size: u32, datagrams: bool, down: bool) -> Option<f64> {
    let flows = f64::from(spec.flows.max(1));
    let bytes = limits.stream_bps(datagrams, down).map(|bits| bits as f64 / 8.0 / flows);
    if !datagrams {
        return bytes;
    }
    let pps = limits.max_rate_pps;
    let reachable = pps < BEYOND_REACH_PPS || (spec.gso && pps < u32::MAX);
    let counted = reachable.then(|| f64::from(pps) / flows);
    [counted, bytes.map(|bytes| bytes / f64::from(size.max(1)))].into_iter().flatten().reduce(f64::min)
}

#[derive(Debug, Default)]
pub struct EndCounts {
    /// CPU, scheduling and faults, taken by one of the flows.
    pub usage: EndUsage,
    pub sent: StreamSent,
    pub received: StreamReceived,
    pub broken: Vec<PathError>,
}

impl EndCounts {
    /// Adds the flows up. `sent` holds what TCP reported of those that send.
    pub fn of(flows: Vec<FlowResult>, sent: StreamSent, datagrams: bool, clock: Clock) -> Self {
        let mut sum = Self { sent, ..Self::default() };
        let several = flows.len() > 1;
        let mut counted = Vec::new();
        let (mut first, mut last) = (u64::MAX, 0);
        for flow in flows {
            if let Some(usage) = flow.usage {
                sum.usage = usage;
            }
            sum.broken.extend(flow.broken);
            if let Some(done) = flow.sent.filter(|done| done.first > 0) {
                sum.sent.bytes += done.bytes;
                sum.sent.datagrams += if datagrams { done.messages } else { 0 };
                sum.sent.no_buffer += done.no_buffer;
                first = first.min(done.first);
                last = last.max(done.last);
            }
            counted.extend(flow.counted);
        }
        if several {
            // The other flows are no other tasks.
            sum.usage.other_tasks_ns = None;
        }
        sum.sent.elapsed_ns = clock.ns(last.saturating_sub(first));
        sum.received = record::stream::merge(&counted);
        sum
    }
}
