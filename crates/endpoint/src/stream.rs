//! The far end of a stream: takes what goes up and counts it, sends what goes down.
//!
//! The session's second thread, which otherwise reflects, is here the manager of one thread a flow. It opens the sockets
//! and has each of them proved: what goes down goes only to an address that showed the session's token on that very
//! socket, and a UDP socket is connected to it from then on. Sending ends with whichever comes first: the client's stop,
//! the end of the control connection, the longest time that the client announced (within the owner's limit of a
//! session). The owner's rate and bandwidth hold for each direction.

mod flow;
mod open;

use crate::reflector::{Failure, ReflectorConfig, ReflectorEvent, SessionLink, StartCommand, failed, place_thread};
use clock::Clock;
use flow::{FlowProgress, FlowResult, FlowTask};
use host::CounterSampler;
use model::stream::{StreamInterval, StreamReceived, StreamSent};
use model::{EndUsage, Finding, FindingId, Limits, StreamSpec};
use net::DataSocket;
use net::bulk::TcpWatch;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use task::Interrupter;
use wire::{OpenRequest, RefuseCode, StopReport, StreamEnd, StreamRequest};

/// Between two looks of the manager.
const LOOK: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);
/// How often the session gets [`ReflectorEvent::Fed`]: more often than its silence limit.
const FED: Duration = Duration::from_millis(250);
/// Stack of a flow's thread, and what of it is touched beforehand.
const STACK_BYTES: usize = 256 << 10;
/// An owner's limit of messages that no flow of single datagrams reaches.
const BEYOND_REACH: u32 = 10_000_000;

/// One stream, ready to be started.
struct Stream<'a> {
    request: &'a OpenRequest,
    stream: &'a StreamRequest,
    clock: Clock,
    tag: u64,
    limits: &'a Limits,
    longest: Duration,
    notes: &'a [Finding],
}

/// Serves a session with a stream.
pub(crate) fn run(
    plan: ReflectorConfig,
    orders: &mpsc::Receiver<StartCommand>,
    link: &SessionLink,
) -> Result<(), Failure> {
    let longest = plan.longest();
    let ReflectorConfig { request, source, token, clock, limits, notes } = plan;
    let Some(stream) = request.stream.clone() else { return Err(bad("no stream was asked for")) };
    link.halt.attach(Interrupter::for_current_thread().map_err(failed)?);
    // Tried on a thread of its own, so that what is not permitted is refused before the client hears of a path.
    let tried = std::thread::scope(|scope| scope.spawn(|| place_thread(&request, longest)).join());
    tried.unwrap_or_else(|_| Err(bad("the flow's thread failed")))?;
    let Some(sockets) = open::open(&request, &stream, &source, &token, link)? else { return Ok(()) };
    let (tag, limits) = (token.tag(), &limits);
    let ready = Stream { request: &request, stream: &stream, clock, tag, limits, longest, notes: &notes };
    let Ok(StartCommand { size, .. }) = orders.recv() else { return Ok(()) };
    let report = ready.once(&sockets, size, link)?;
    link.report(ReflectorEvent::Stopped(Box::new(report)));
    if orders.recv().is_ok() && !link.halt.is_over() {
        return Err(bad("a session carries one stream: open another session for another size"));
    }
    Ok(())
}

fn bad(reason: &str) -> Failure {
    (RefuseCode::BadRequest, reason.to_owned())
}

/// What the manager and the flows share.
pub(super) struct FlowControl {
    /// Ends all flows.
    pub(super) stop: AtomicBool,
    /// Lets those send that send.
    pub(super) go: AtomicBool,
    /// First arrival of any flow, in ns of the clock; 0 before it.
    pub(super) origin_ns: AtomicU64,
}

impl Stream<'_> {
    /// One stream from its start to its end.
    fn once(&self, sockets: &[DataSocket], size: u32, link: &SessionLink) -> Result<StopReport, Failure> {
        let shared =
            FlowControl { stop: AtomicBool::new(false), go: AtomicBool::new(false), origin_ns: AtomicU64::new(0) };
        let flows: Vec<FlowProgress> = sockets.iter().map(|_| FlowProgress::default()).collect();
        let counters = CounterSampler::start();
        let ends = std::thread::scope(|scope| {
            let (ready, heard) = mpsc::channel();
            let mut threads = Vec::with_capacity(sockets.len());
            for (number, (socket, flow)) in sockets.iter().zip(&flows).enumerate() {
                let job = self.job(number, socket, size, &shared, flow);
                let ready = ready.clone();
                let builder = std::thread::Builder::new().name("flow".to_owned()).stack_size(STACK_BYTES);
                let longest = self.longest;
                let request = self.request;
                let paced = self.stream.spec.flow_pps(size).is_some();
                let run = move || {
                    place_thread(request, longest)?;
                    task::prefault_stack(STACK_BYTES / 4);
                    if paced {
                        // Without it a sleep ends up to 50 µs late, and so would every datagram that waits for its time.
                        task::set_timer_slack(Duration::from_nanos(1)).map_err(failed)?;
                    }
                    job.run(ready)
                };
                match builder.spawn_scoped(scope, run) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        shared.stop.store(true, Ordering::Relaxed);
                        return Err(failed(format!("starting a flow's thread failed: {error}")));
                    }
                }
            }
            drop(ready);
            // One that failed has let go of its end of the channel.
            let began = heard.iter().take(sockets.len()).count();
            if began == sockets.len() {
                link.report(ReflectorEvent::Started);
                shared.go.store(true, Ordering::Release);
                self.watch_flows(sockets, &flows, &shared, link);
            }
            shared.stop.store(true, Ordering::Release);
            let ends = threads.into_iter().map(|thread| match thread.join() {
                Ok(end) => end,
                Err(_) => Err(failed("a flow's thread failed")),
            });
            ends.collect::<Result<Vec<FlowResult>, Failure>>()
        })?;
        link.halt.leave();
        Ok(self.summary(sockets, &flows, ends, counters))
    }

    fn job<'a>(
        &'a self,
        number: usize,
        socket: &'a DataSocket,
        size: u32,
        shared: &'a FlowControl,
        flow: &'a FlowProgress,
    ) -> FlowTask<'a> {
        let spec = &self.stream.spec;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let datagrams = !self.request.socket.protocol.is_stream();
        let flows = f64::from(spec.flows.max(1));
        let bits = self.limits.stream_bps(datagrams, !spec.is_up(number));
        let bytes = bits.map(|bits| bits as f64 / 8.0 / flows);
        let limit = if datagrams {
            let reachable = self.limits.max_rate_pps < BEYOND_REACH || spec.gso;
            let counted = reachable.then_some(f64::from(self.limits.max_rate_pps) / flows);
            let carried = bytes.map(|bytes| bytes / f64::from(size.max(1)));
            [counted, carried].into_iter().flatten().reduce(f64::min)
        } else {
            bytes
        };
        FlowTask {
            socket,
            spec,
            size,
            number,
            datagrams,
            receives: spec.is_up(number),
            spin: self.request.end.receive == model::Receive::Spin,
            cpu: self.request.end.cpu,
            limit,
            clock: self.clock,
            tag: self.tag,
            longest_ms: self.stream.longest_ms,
            shared,
            flow,
        }
    }

    /// While it runs: checks for the halt, and samples TCP's state and the received data once a second.
    fn watch_flows(&self, sockets: &[DataSocket], flows: &[FlowProgress], shared: &FlowControl, link: &SessionLink) {
        let spec = &self.stream.spec;
        let senders = sockets.iter().zip(0..).filter(|(_, number)| !spec.is_up(*number)).map(|(socket, _)| socket);
        let mut watch = TcpWatch::new(senders);
        let began = Instant::now();
        let mut seconds = 0_u32;
        let mut told = StreamInterval::default();
        let (mut fed, mut looked) = (0, began);
        while !link.halt.flag().load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
            if looked.elapsed() >= FED {
                looked = Instant::now();
                let received = so_far(flows, spec).received;
                if received > fed {
                    fed = received;
                    link.report(ReflectorEvent::Fed);
                }
            }
            if began.elapsed() < SECOND * (seconds + 1) {
                continue;
            }
            seconds += 1;
            watch.sample();
            if self.stream.live && spec.goes_up() {
                let now = so_far(flows, spec);
                link.report(ReflectorEvent::Interval(StreamInterval {
                    bytes: now.bytes - told.bytes,
                    received: now.received - told.received,
                    lost: now.lost.saturating_sub(told.lost),
                    ..StreamInterval::default()
                }));
                told = now;
            }
        }
        if began.elapsed() > SECOND * seconds + SECOND / 10 {
            watch.sample();
        }
        // Kept with the first flow that sends, where the summary finds it.
        let mut sent = StreamSent::default();
        watch.finish(&mut sent);
        if let Some(flow) = flows.first() {
            flow.keep(sent);
        }
        shared.stop.store(true, Ordering::Release);
    }

    fn summary(
        &self,
        sockets: &[DataSocket],
        flows: &[FlowProgress],
        ends: Vec<FlowResult>,
        counters: CounterSampler,
    ) -> StopReport {
        let spec = &self.stream.spec;
        let mut notes = self.notes.to_vec();
        let mut usage = EndUsage::default();
        let mut sent = flows.first().map(FlowProgress::kept).unwrap_or_default();
        let mut counted = Vec::new();
        let (mut first, mut last) = (u64::MAX, 0);
        for end in ends {
            if let Some(of_flow) = end.usage {
                usage = of_flow;
            }
            if let Some(error) = end.broken {
                let detail = format!("a flow of the reflector broke: {error}");
                notes.push(Finding::at(FindingId::PathBroken, "reflector", detail));
            }
            if let Some(done) = end.sent.filter(|done| done.first > 0) {
                sent.bytes += done.bytes;
                sent.datagrams += if self.request.socket.protocol.is_stream() { 0 } else { done.messages };
                sent.no_buffer += done.no_buffer;
                first = first.min(done.first);
                last = last.max(done.last);
            }
            counted.extend(end.counted);
        }
        if spec.sockets() > 1 {
            // The other flows are no other tasks.
            usage.other_tasks_ns = None;
        }
        sent.elapsed_ns = self.clock.ns(last.saturating_sub(first));
        let received = spec.goes_up().then(|| record::stream::merge(&counted));
        let mut counters = counters.finish();
        counters.socket_overflow += sockets.iter().filter_map(DataSocket::dropped).map(u64::from).sum::<u64>();
        let of = |received: &StreamReceived| (received.received, received.ignored);
        let (arrived, ignored) = received.as_ref().map_or((0, 0), of);
        StopReport {
            usage,
            counters,
            received: arrived,
            sent: sent.datagrams,
            ignored,
            clock_read_ns: Some(self.clock.read_cost_ns()),
            notes,
            stack_environment: host::stack_environment(),
            preloads: host::stack::preloads(),
            stream: Some(StreamEnd { sent: spec.goes_down().then_some(sent), received }),
            ..StopReport::default()
        }
    }
}

/// What the flows that receive have received so far.
fn so_far(flows: &[FlowProgress], spec: &StreamSpec) -> StreamInterval {
    let up = || flows.iter().zip(0..).filter(|(_, number)| spec.is_up(*number)).map(|(flow, _)| flow);
    let sum = |pick: fn(&FlowProgress) -> u64| up().map(pick).sum();
    StreamInterval {
        bytes: sum(|flow| flow.gauge.bytes()),
        received: sum(|flow| flow.gauge.messages()),
        lost: sum(|flow| flow.missing.load(Ordering::Relaxed)),
        ..StreamInterval::default()
    }
}
