//! The far end of a stream: takes what goes up and counts it, sends what goes down.
//!
//! The session's second thread manages one thread a flow. What goes down goes only to an address that showed the session's
//! token on that very socket. Sending ends with the client's stop, the end of the control connection, or the longest time
//! announced, whichever comes first. The owner's rate and bandwidth hold for each direction.

mod open;

use crate::reflector::{Failure, ReflectorConfig, ReflectorEvent, SessionLink, StartCommand, failed, place_thread};
use clock::Clock;
use flow::{EndCounts, FlowControl, FlowPlan, FlowProgress, FlowResult, PassObserver};
use model::stream::{StreamInterval, StreamReceived, StreamSent};
use model::{Finding, FindingId, Limits, Role, StreamSpec};
use net::bulk::TcpWatch;
use net::{DataSocket, PathError};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use task::Interrupter;
use wire::{OpenRequest, RefuseCode, StopReport, StreamEnd, StreamRequest};

/// Between two looks of the manager.
const LOOK: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);
/// How often the session gets [`ReflectorEvent::DataArrived`]: more often than its silence limit.
const FED: Duration = Duration::from_millis(250);
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

impl Stream<'_> {
    fn once(&self, sockets: &[DataSocket], size: u32, link: &SessionLink) -> Result<StopReport, Failure> {
        let control = FlowControl::default();
        let flows: Vec<FlowProgress> = sockets.iter().map(|_| FlowProgress::default()).collect();
        let mut observers = flow::pass_observers();
        observers.begin(size, None);
        let plan = FlowPlan {
            spec: &self.stream.spec,
            end: &self.request.end,
            initiator: false,
            sockets,
            progress: &flows,
            size,
            datagrams: !self.request.socket.protocol.is_stream(),
            limits: self.limits,
            clock: self.clock,
            tag: self.tag,
            longest: Duration::from_millis(u64::from(self.stream.longest_ms)),
            control: &control,
        };
        let place = || place_thread(self.request, self.longest);
        let (ends, sent) = flow::run(plan, place, failed, || {
            link.report(ReflectorEvent::Started);
            control.go.store(true, Ordering::Release);
            Ok(self.watch_flows(sockets, &flows, link))
        })?;
        link.halt.leave();
        Ok(self.summary(sockets, ends, sent.unwrap_or_default(), &mut observers))
    }

    /// While it runs: checks for the halt, and samples TCP's state and the received data once a second.
    fn watch_flows(&self, sockets: &[DataSocket], flows: &[FlowProgress], link: &SessionLink) -> StreamSent {
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
                    link.report(ReflectorEvent::DataArrived);
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
        let mut sent = StreamSent::default();
        watch.finish(&mut sent);
        sent
    }

    fn summary(
        &self,
        sockets: &[DataSocket],
        ends: Vec<FlowResult>,
        sent: StreamSent,
        observers: &mut dyn PassObserver,
    ) -> StopReport {
        let spec = &self.stream.spec;
        let datagrams = !self.request.socket.protocol.is_stream();
        let EndCounts { usage, sent, received, broken } = EndCounts::of(ends, sent, datagrams, self.clock);
        let mut notes = self.notes.to_vec();
        // A client that ends its connection first does so because it is done, or broken itself: it knows.
        notes.extend(broken.iter().filter(|error| **error != PathError::Closed).map(|error| {
            Finding::at(FindingId::PathBroken, Role::Reflector, format!("a flow of the reflector broke: {error}"))
        }));
        let received = spec.goes_up().then_some(received);
        let mut report = StopReport { usage, notes, ..StopReport::default() };
        observers.end(&mut report);
        report.counters.socket_overflow += sockets.iter().filter_map(DataSocket::dropped).map(u64::from).sum::<u64>();
        let of = |received: &StreamReceived| (received.received, received.ignored);
        let (arrived, ignored) = received.as_ref().map_or((0, 0), of);
        observers.judge(&mut report, &[]);
        StopReport {
            received: arrived,
            sent: sent.datagrams,
            ignored,
            clock_read_ns: Some(self.clock.read_cost_ns()),
            stream: Some(StreamEnd { sent: spec.goes_down().then_some(sent), received }),
            ..report
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
