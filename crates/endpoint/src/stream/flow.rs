//! One flow on one thread, in one direction.

use super::FlowControl;
use crate::reflector::{Failure, failed};
use clock::Clock;
use host::UsageSampler;
use model::stream::StreamSent;
use model::{EndUsage, StreamSpec};
use net::bulk::{self, Arrived, FlowShape, Gauge, Rate, ReceivePlan, SendDone, SendPlan};
use net::{DataSocket, PathError};
use record::stream::{FlowCounted, FlowCounter, FlowSink};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError, mpsc};

/// What a flow shows while it runs.
#[derive(Debug, Default)]
pub(super) struct FlowProgress {
    pub(super) gauge: Gauge,
    /// Numbers that are missing so far.
    pub(super) missing: AtomicU64,
    kept: Mutex<Option<StreamSent>>,
}

impl FlowProgress {
    pub(super) fn keep(&self, sent: StreamSent) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }

    pub(super) fn kept(&self) -> StreamSent {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
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
    pub(super) shared: &'a FlowControl,
    pub(super) flow: &'a FlowProgress,
}

impl FlowTask<'_> {
    /// Says that it is ready and works until the stop.
    pub(super) fn run(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, Failure> {
        if self.receives { self.receive(ready) } else { self.send(ready) }
    }

    /// Says that it is ready. The machine's figures are the same for all flows, so one of them takes them.
    fn begin(&self, ready: mpsc::Sender<()>) -> Option<UsageSampler> {
        let usage = (self.number == 0).then(|| UsageSampler::start(self.cpu));
        let _ = ready.send(());
        // The counter of ready flows must notice one that failed, so no end of the channel is kept.
        drop(ready);
        usage
    }

    fn shape(&self) -> FlowShape {
        FlowShape::new(self.spec, self.size, self.datagrams)
    }

    fn receive(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, Failure> {
        let counter = FlowCounter::new(self.longest_ms, self.spec.gro);
        let mut sink = FlowSink::new(counter, self.size as usize, &self.shared.origin_ns, &self.flow.missing);
        let mut usage = None;
        let ready = || {
            usage = self.begin(ready);
            ReceivePlan {
                spin: self.spin,
                limit: self.limit,
                clock: self.clock,
                stop: &self.shared.stop,
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
        })
        .map_err(failed)?;
        let usage = usage.map(UsageSampler::finish);
        // A client that ends its connection first does so because it is done, or broken itself: it knows.
        let broken = done.broken.filter(|error| *error != PathError::Closed);
        Ok(FlowResult { usage, counted: Some(sink.finish()), broken, sent: None })
    }

    fn send(&self, ready: mpsc::Sender<()>) -> Result<FlowResult, Failure> {
        let longest = self.clock.ticks(u64::from(self.longest_ms) * 1_000_000);
        let mut usage = None;
        let ready = || {
            usage = self.begin(ready);
            bulk::wait_for_go(&self.shared.go, &self.shared.stop).then(|| SendPlan {
                rate: Rate::new(self.spec, self.size, self.number),
                limit: self.limit,
                clock: self.clock,
                stop: &self.shared.stop,
                until: self.clock.now().saturating_add(longest),
                gauge: &self.flow.gauge,
            })
        };
        let head = |seq, stamp, message: &mut [u8]| wire::stream::write(seq, self.tag, stamp, message);
        let Some(done) = bulk::send(self.socket, self.shape(), ready, head).map_err(failed)? else {
            return Ok(FlowResult::default());
        };
        let usage = usage.map(UsageSampler::finish);
        let broken = done.broken.filter(|error| *error != PathError::Closed);
        Ok(FlowResult { usage, sent: Some(done), broken, counted: None })
    }
}
