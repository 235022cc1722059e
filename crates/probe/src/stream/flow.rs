//! One flow on one thread, one way.

use crate::{ProbeError, stream};
use clock::Clock;
use host::UsageSampler;
use model::worker::ProbeTask;
use model::{EndUsage, Policy, StreamSpec};
use net::bulk::{
    ByteReceiver, ByteSender, DatagramReceiver, DatagramSender, DatagramSink, Gauge, Rate, ReceiveDone, ReceivePlan,
    SendDone, SendPlan,
};
use net::{DataSocket, PathError};
use record::stream::{FlowCounted, FlowCounter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Longest read of TCP in bytes.
const MOST_READ: u32 = 1 << 20;
/// What of a flow's stack is touched beforehand.
const STACK_TOUCHED: usize = stream::STACK_BYTES / 4;

/// What the manager and the flows share.
#[derive(Debug)]
pub(super) struct Shared {
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

impl Default for Shared {
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

impl Shared {
    /// Ends all.
    pub(super) fn stop(&self) {
        self.stop_sending.store(true, Ordering::Release);
        self.stop_receiving.store(true, Ordering::Release);
        self.pinging.store(false, Ordering::Release);
    }
}

/// What a flow shows while it runs.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) gauge: Gauge,
    /// Numbers that are missing so far.
    pub(super) missing: AtomicU64,
    ended: AtomicBool,
}

impl Flow {
    /// Whether its loop has ended, for whatever reason.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// What a flow left.
#[derive(Debug, Default)]
pub(super) struct FlowEnd {
    pub(super) usage: Option<EndUsage>,
    pub(super) sent: Option<SendDone>,
    pub(super) counted: Option<FlowCounted>,
    pub(super) broken: Option<PathError>,
}

/// What a flow is to do.
pub(super) struct Job<'a> {
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
    pub(super) shared: &'a Shared,
    pub(super) flow: &'a Flow,
}

impl Job<'_> {
    /// Takes its place, says that it is ready and works until the stop.
    pub(super) fn run(&self, ready: mpsc::Sender<()>) -> Result<FlowEnd, ProbeError> {
        self.settle()?;
        let end = if self.sends { self.send(ready) } else { self.receive(ready) };
        self.flow.ended.store(true, Ordering::Release);
        end
    }

    fn settle(&self) -> Result<(), ProbeError> {
        let end = &self.task.spec.initiator;
        task::prefault_stack(STACK_TOUCHED);
        if let Some(cpu) = end.cpu {
            // The kernel refuses a CPU behind a shield to who is not in its control group.
            host::shield::enter(&[cpu].into_iter().collect())?;
            task::pin(cpu)?;
        }
        if self.spec.flow_pps(self.size).is_some() {
            // Without it a sleep ends up to 50 µs late, and so would every datagram that waits for its time.
            task::set_timer_slack(Duration::from_nanos(1))?;
        }
        if end.policy != Policy::Other {
            if end.policy.is_real_time() {
                task::set_rt_limit(Some(self.longest.saturating_add(stream::RT_SLACK)))?;
            }
            task::apply_policy(end.policy)?;
        }
        Ok(())
    }

    /// Says that it is ready. The machine's figures are the same for all flows, so one of them takes them.
    fn begin(&self, ready: mpsc::Sender<()>) -> Option<UsageSampler> {
        let usage = (self.number == 0).then(|| UsageSampler::start(self.task.spec.initiator.cpu));
        let _ = ready.send(());
        // Whoever counts those that are ready must see when one fails; so nobody keeps an end of the channel.
        drop(ready);
        usage
    }

    /// Waits until the far end is ready too; `false` when it never was.
    fn may_go(&self) -> bool {
        while !self.shared.go.load(Ordering::Acquire) {
            if self.shared.stop_sending.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }

    fn receive(&self, ready: mpsc::Sender<()>) -> Result<FlowEnd, ProbeError> {
        let longest_ms = u32::try_from(self.longest.as_millis()).unwrap_or(u32::MAX);
        let mut sink = Sink {
            counter: FlowCounter::new(longest_ms, self.spec.gro),
            tag: self.tag,
            size: self.size as usize,
            origin_ns: &self.shared.origin_ns,
            missing: &self.flow.missing,
            now_ns: 0,
        };
        let plan = ReceivePlan {
            spin: self.task.spec.initiator.receive == model::Receive::Spin,
            limit: self.limit,
            clock: self.clock,
            stop: &self.shared.stop_receiving,
            gauge: &self.flow.gauge,
        };
        let usage;
        let ReceiveDone { broken } = if self.datagrams {
            let (size, batch) = (self.size as usize, self.spec.batch as usize);
            let receiver = DatagramReceiver::new(self.socket, size, batch, self.spec.gro)?;
            usage = self.begin(ready);
            receiver.run(&plan, &mut sink)
        } else {
            let receiver = ByteReceiver::new(self.socket, self.size.min(MOST_READ) as usize)?;
            usage = self.begin(ready);
            receiver.run(&plan, |now_ns, bytes| sink.bytes(now_ns, bytes))
        };
        let usage = usage.map(UsageSampler::finish);
        Ok(FlowEnd { usage, counted: Some(sink.counter.finish()), broken, sent: None })
    }

    fn send(&self, ready: mpsc::Sender<()>) -> Result<FlowEnd, ProbeError> {
        let flows = f64::from(self.spec.flows.max(1));
        let rate = self
            .spec
            .flow_pps(self.size)
            .map(|per_second| Rate { per_second, phase: f64::from(self.number % self.spec.flows.max(1)) / flows });
        let plan = SendPlan {
            rate,
            limit: self.limit,
            clock: self.clock,
            stop: &self.shared.stop_sending,
            until: u64::MAX,
            gauge: &self.flow.gauge,
        };
        let longest = self.clock.ticks(u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX));
        let until = || self.clock.now().saturating_add(longest);
        let tag = self.tag;
        let usage;
        let size = self.size as usize;
        let done = if self.datagrams {
            let (batch, segments) = (self.spec.batch as usize, self.spec.segments(self.size) as usize);
            let sender = DatagramSender::new(self.socket, size, batch, segments)?;
            usage = self.begin(ready);
            if !self.may_go() {
                return Ok(FlowEnd::default());
            }
            let head = |seq, stamp, message: &mut [u8]| wire::stream::write(seq, tag, stamp, message);
            sender.run(&SendPlan { until: until(), ..plan }, head)
        } else {
            let sender = ByteSender::new(self.socket, size)?;
            usage = self.begin(ready);
            if !self.may_go() {
                return Ok(FlowEnd::default());
            }
            sender.run(&SendPlan { until: until(), ..plan })
        };
        let usage = usage.map(UsageSampler::finish);
        Ok(FlowEnd { usage, sent: Some(done), broken: done.broken, counted: None })
    }
}

/// Hands what arrives to the counter.
struct Sink<'a> {
    counter: FlowCounter,
    tag: u64,
    size: usize,
    origin_ns: &'a AtomicU64,
    missing: &'a AtomicU64,
    now_ns: u64,
}

impl Sink<'_> {
    /// The first arrival of this flow, and perhaps of the stream.
    #[cold]
    fn begin(&mut self) {
        let now = self.now_ns.max(1);
        let origin = match self.origin_ns.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => now,
            Err(earlier) => earlier,
        };
        self.counter.begin(origin, now);
        self.counter.arrived(now);
    }

    fn bytes(&mut self, now_ns: u64, bytes: u64) {
        self.now_ns = now_ns;
        if !self.counter.has_begun() {
            self.begin();
        }
        self.counter.arrived(now_ns);
        self.counter.bytes(bytes);
    }
}

impl DatagramSink for Sink<'_> {
    #[inline]
    fn arrived(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.counter.arrived(now_ns);
        self.missing.store(self.counter.missing(), Ordering::Relaxed);
    }

    #[inline]
    fn datagram(&mut self, message: &[u8]) -> bool {
        let ours = if message.len() == self.size { wire::stream::read(self.tag, message) } else { None };
        let Some((seq, sent_ns)) = ours else {
            self.counter.ignored();
            return false;
        };
        if !self.counter.has_begun() {
            self.begin();
        }
        self.counter.datagram(seq, sent_ns, message.len() as u64);
        true
    }
}
