//! One flow on one thread, one way.

use super::Shared;
use crate::reflector::{Failure, failed};
use clock::Clock;
use host::UsageSampler;
use model::stream::StreamSent;
use model::{EndUsage, StreamSpec};
use net::bulk::{
    ByteReceiver, ByteSender, DatagramReceiver, DatagramSender, DatagramSink, Gauge, Rate, ReceiveDone, ReceivePlan,
    SendDone, SendPlan,
};
use net::{DataSocket, PathError};
use record::stream::{FlowCounted, FlowCounter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Longest read of TCP in bytes.
const MOST_READ: u32 = 1 << 20;

/// What a flow shows while it runs.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) gauge: Gauge,
    /// Numbers that are missing so far.
    pub(super) missing: AtomicU64,
    kept: Mutex<Option<StreamSent>>,
}

impl Flow {
    pub(super) fn keep(&self, sent: StreamSent) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }

    pub(super) fn kept(&self) -> StreamSent {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
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
    pub(super) socket: &'a DataSocket,
    pub(super) spec: &'a StreamSpec,
    pub(super) size: u32,
    pub(super) number: u32,
    pub(super) datagrams: bool,
    pub(super) receives: bool,
    pub(super) spin: bool,
    pub(super) cpu: Option<u32>,
    /// Datagrams, or bytes of TCP, a second that the owner allows this flow.
    pub(super) limit: Option<f64>,
    pub(super) clock: Clock,
    pub(super) tag: u64,
    pub(super) longest_ms: u32,
    pub(super) shared: &'a Shared,
    pub(super) flow: &'a Flow,
}

impl Job<'_> {
    /// Says that it is ready and works until the stop.
    pub(super) fn run(&self, ready: mpsc::Sender<()>) -> Result<FlowEnd, Failure> {
        if self.receives { self.receive(ready) } else { self.send(ready) }
    }

    /// Says that it is ready. The machine's figures are the same for all flows, so one of them takes them.
    fn begin(&self, ready: mpsc::Sender<()>) -> Option<UsageSampler> {
        let usage = (self.number == 0).then(|| UsageSampler::start(self.cpu));
        let _ = ready.send(());
        // Whoever counts those that are ready must see when one fails; so nobody keeps an end of the channel.
        drop(ready);
        usage
    }

    /// Waits until all are ready; `false` when they never were.
    fn may_go(&self) -> bool {
        while !self.shared.go.load(Ordering::Acquire) {
            if self.shared.stop.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }

    fn receive(&self, ready: mpsc::Sender<()>) -> Result<FlowEnd, Failure> {
        let mut sink = Sink {
            counter: FlowCounter::new(self.longest_ms, self.spec.gro),
            tag: self.tag,
            size: self.size as usize,
            origin_ns: &self.shared.origin_ns,
            missing: &self.flow.missing,
            now_ns: 0,
        };
        let plan = ReceivePlan {
            spin: self.spin,
            limit: self.limit,
            clock: self.clock,
            stop: &self.shared.stop,
            gauge: &self.flow.gauge,
        };
        let usage;
        let ReceiveDone { broken } = if self.datagrams {
            let (size, batch) = (self.size as usize, self.spec.batch as usize);
            let receiver = DatagramReceiver::new(self.socket, size, batch, self.spec.gro).map_err(failed)?;
            usage = self.begin(ready);
            receiver.run(&plan, &mut sink)
        } else {
            let receiver = ByteReceiver::new(self.socket, self.size.min(MOST_READ) as usize).map_err(failed)?;
            usage = self.begin(ready);
            receiver.run(&plan, |now_ns, bytes| sink.bytes(now_ns, bytes))
        };
        let usage = usage.map(UsageSampler::finish);
        // A client that ends its connection first does so because it is done, or broken itself: it knows.
        let broken = broken.filter(|error| *error != PathError::Closed);
        Ok(FlowEnd { usage, counted: Some(sink.counter.finish()), broken, sent: None })
    }

    fn send(&self, ready: mpsc::Sender<()>) -> Result<FlowEnd, Failure> {
        let rate = self.spec.flow_pps(self.size).map(|per_second| Rate {
            per_second,
            phase: f64::from(self.number % self.spec.flows.max(1)) / f64::from(self.spec.flows.max(1)),
        });
        let longest_ns = u64::from(self.longest_ms) * 1_000_000;
        let plan = |now: u64| SendPlan {
            rate,
            limit: self.limit,
            clock: self.clock,
            stop: &self.shared.stop,
            until: now.saturating_add(self.clock.ticks(longest_ns)),
            gauge: &self.flow.gauge,
        };
        let tag = self.tag;
        let usage;
        let size = self.size as usize;
        let done = if self.datagrams {
            let (batch, segments) = (self.spec.batch as usize, self.spec.segments(self.size) as usize);
            let sender = DatagramSender::new(self.socket, size, batch, segments).map_err(failed)?;
            usage = self.begin(ready);
            if !self.may_go() {
                return Ok(FlowEnd::default());
            }
            let head = |seq, stamp, message: &mut [u8]| wire::stream::write(seq, tag, stamp, message);
            sender.run(&plan(self.clock.now()), head)
        } else {
            let sender = ByteSender::new(self.socket, size).map_err(failed)?;
            usage = self.begin(ready);
            if !self.may_go() {
                return Ok(FlowEnd::default());
            }
            sender.run(&plan(self.clock.now()))
        };
        let usage = usage.map(UsageSampler::finish);
        let broken = done.broken.filter(|error| *error != PathError::Closed);
        Ok(FlowEnd { usage, sent: Some(done), broken, counted: None })
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
