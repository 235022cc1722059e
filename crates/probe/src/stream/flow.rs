//! One flow on one thread, in one direction.

use crate::{ProbeError, driver, stream};
use clock::Clock;
use host::UsageSampler;
use model::worker::ProbeTask;
use model::{EndUsage, StreamSpec};
use net::bulk::{self, Arrived, FlowShape, Gauge, Rate, ReceivePlan, SendDone, SendPlan};
use net::{DataSocket, PathError};
use record::stream::{FlowCounted, FlowCounter, FlowSink};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// What of a flow's stack is touched beforehand.
const STACK_TOUCHED: usize = stream::STACK_BYTES / 4;

/// What the manager and the flows share.
#[derive(Debug)]
pub(super) struct FlowControl {
    /// Ends those that send.
    pub(super) stop_sending: AtomicBool,
    /// Ends those that receive.
    stop_receiving: AtomicBool,
    /// Lets those send that send.
    pub(super) go: AtomicBool,
    /// Lets the ping-pong beside the stream go on.
    pub(super) pinging: AtomicBool,
    /// First arrival of any flow, in ns of the clock; 0 before it.
    origin_ns: AtomicU64,
}

impl Default for FlowControl {
    fn default() -> Self {
        Self {
            stop_sending: AtomicBool::new(false),
            stop_receiving: AtomicBool::new(false),
            go: AtomicBool::new(false),
            pinging: AtomicBool::new(true),
            origin_ns: AtomicU64::new(0),
        }
    }
}

impl FlowControl {
    /// Ends all.
    pub(super) fn stop(&self) {
        self.stop_sending.store(true, Ordering::Release);
        self.stop_receiving.store(true, Ordering::Release);
        self.pinging.store(false, Ordering::Release);
    }
}

/// What a flow shows while it runs.
#[derive(Debug, Default)]
pub(super) struct FlowProgress {
    pub(super) gauge: Gauge,
    /// Numbers that are missing so far.
    pub(super) missing: AtomicU64,
    ended: AtomicBool,
}

impl FlowProgress {
    /// Whether its loop has ended, for whatever reason.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// What a flow left.
#[derive(Debug, Default)]
pub(super) struct FlowResult {
    pub(super) usage: Option<EndUsage>,
    pub(super) sent: Option<SendDone>,
    pub(super) counted: Option<FlowCounted>,
    pub(super) broken: Option<PathError>,
}

/// What a flow is to do.
pub(super) struct FlowTask<'a> {
    pub(super) task: &'a ProbeTask,
    pub(super) spec: &'a StreamSpec,
    pub(super) socket: &'a DataSocket,
    pub(super) size: u32,
    pub(super) number: u32,
    pub(super) datagrams: bool,
    pub(super) sends: bool,
    /// Datagrams, or bytes of TCP, a second that the endpoint's owner allows this flow.
    pub(super) limit: Option<f64>,
    pub(super) clock: Clock,
    pub(super) tag: u64,
    pub(super) longest: Duration,
    pub(super) shared: &'a FlowControl,
    pub(super) flow: &'a FlowProgress,
}

impl FlowTask<'_> {
    /// Prepares the thread, reports ready and runs until the stop.
    pub(super) fn run(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, ProbeError> {
        self.place_thread()?;
        let end = if self.sends { self.send(ready) } else { self.receive(ready) };
        self.flow.ended.store(true, Ordering::Release);
        end
    }

    fn place_thread(&self) -> Result<(), ProbeError> {
        task::prefault_stack(STACK_TOUCHED);
        if self.spec.flow_pps(self.size).is_some() {
            // Without it a sleep ends up to 50 µs late, and so would every datagram that waits for its time.
            task::set_timer_slack(Duration::from_nanos(1))?;
        }
        let end = &self.task.spec.initiator;
        driver::place_thread(end.cpu, end.policy, Some(self.longest))
    }

    /// Says that it is ready. The machine's figures are the same for all flows, so one of them takes them.
    fn begin(&self, ready: mpsc::Sender<()>) -> Option<UsageSampler> {
        let usage = (self.number == 0).then(|| UsageSampler::start(self.task.spec.initiator.cpu));
        let _ = ready.send(());
        // The counter of ready flows must notice one that failed, so no end of the channel is kept.
        drop(ready);
        usage
    }

    fn shape(&self) -> FlowShape {
        FlowShape::new(self.spec, self.size, self.datagrams)
    }

    fn receive(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, ProbeError> {
        let longest_ms = u32::try_from(self.longest.as_millis()).unwrap_or(u32::MAX);
        let counter = FlowCounter::new(longest_ms, self.spec.gro);
        let mut sink = FlowSink::new(counter, self.size as usize, &self.shared.origin_ns, &self.flow.missing);
        let mut usage = None;
        let ready = || {
            usage = self.begin(ready);
            ReceivePlan {
                spin: self.task.spec.initiator.receive == model::Receive::Spin,
                limit: self.limit,
                clock: self.clock,
                stop: &self.shared.stop_receiving,
                gauge: &self.flow.gauge,
            }
        };
        let done = bulk::receive(self.socket, self.shape(), ready, |arrived| match arrived {
            Arrived::At(now_ns) => {
                sink.at(now_ns);
                true
            }
            Arrived::Datagram(message) => sink.datagram(message.len(), wire::stream::read(self.tag, message)),
            Arrived::Bytes(bytes) => {
                sink.bytes(bytes);
                true
            }
        })?;
        let usage = usage.map(UsageSampler::finish);
        Ok(FlowResult { usage, counted: Some(sink.finish()), broken: done.broken, sent: None })
    }

    fn send(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, ProbeError> {
        let longest = self.clock.ticks(u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX));
        let mut usage = None;
        let ready = || {
            usage = self.begin(ready);
            bulk::wait_for_go(&self.shared.go, &self.shared.stop_sending).then(|| SendPlan {
                rate: Rate::new(self.spec, self.size, self.number),
                limit: self.limit,
                clock: self.clock,
                stop: &self.shared.stop_sending,
                until: self.clock.now().saturating_add(longest),
                gauge: &self.flow.gauge,
            })
        };
        let head = |seq, stamp, message: &mut [u8]| wire::stream::write(seq, self.tag, stamp, message);
        let Some(done) = bulk::send(self.socket, self.shape(), ready, head)? else {
            return Ok(FlowResult::default());
        };
        let usage = usage.map(UsageSampler::finish);
        Ok(FlowResult { usage, sent: Some(done), broken: done.broken, counted: None })
    }
}
