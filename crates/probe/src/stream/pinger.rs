//! A UDP ping-pong with a session of its own: what a small message experiences without the stream, then beside it. A round each
//! millisecond at most, on any CPU; it waits for each answer, as an application with one question at a time.

use crate::pace::ring::{Producer, Ring};
use crate::peer::SHOW;
use crate::session::{OPENING, Session};
use crate::{Context, ProbeError};
use clock::{Clock, MapRecorder};
use model::worker::ProbeTask;
use model::{EndSpec, Latency, LatencyKind, Probe, Protocol, Sample, SampleFlags, SocketSpec};
use net::bulk::Exchange;
use net::{DataSocket, PathError};
use record::{Recorder, RecorderConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::{Key, OpenRequest, Tier, data};

/// Bytes of a message: the papers' size.
const SIZE: usize = 32;
const SIZE_BYTES: u32 = 32;
/// Between two rounds.
const PERIOD_NS: u64 = 1_000_000;
/// Rounds that the p99 of idle latency needs, with some to spare.
const ENOUGH: u64 = 1100;
/// The longest that idle latency is measured.
const LONGEST_NS: u64 = 4_000_000_000;
/// A round without an answer is lost after this time.
const TIMEOUT_NS: u64 = 500_000_000;
/// Rounds kept for the live view: four seconds of them.
pub(super) const RECENT: usize = 4096;

/// The newest round trips in ns that the live view has not got yet.
pub(super) type RecentRtts = Ring<1>;

pub(super) struct Pinger {
    session: Option<Session>,
    socket: DataSocket,
    tag: u64,
    clock: Clock,
    number: u64,
    longest_ms: u32,
}

impl Drop for Pinger {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take() {
            // Its report is not needed.
            let _ = session.stop(true);
            session.close();
        }
    }
}

impl Pinger {
    /// Opens a session and a UDP socket beside those of the stream.
    pub(super) fn open(task: &ProbeTask, context: &Context, clock: Clock) -> Result<Self, ProbeError> {
        let control = net::resolve(&task.target.control, net::DEFAULT_PORT, None)?;
        let key = task.target.key.as_deref().map(Key::from_hex).transpose()?;
        let mut session = Session::connect(control, key, &context.stop)?;
        let socket = SocketSpec { ttl: task.spec.socket()?.ttl, ..SocketSpec::new(Protocol::Udp) };
        let (ours, theirs) = (&task.spec.initiator, &task.spec.reflector);
        let end = |of: &EndSpec| EndSpec { bind: of.bind, device: of.device.clone(), ..EndSpec::default() };
        let request = OpenRequest::new(Probe::Pingpong, Protocol::Udp, SIZE_BYTES);
        let opened = session.open(OpenRequest { socket: socket.clone(), end: end(theirs), ..request })?;
        let Some(address) = session.data_address(&opened) else {
            return Err(session.out_of_order(OPENING));
        };
        let mut socket = DataSocket::connect(&socket, &end(ours), address, SHOW)?;
        let proof = data::prove(&opened.token);
        session.prove(Protocol::Udp, || Ok(socket.send_once(&proof, SHOW)?))?;
        session.start(SIZE_BYTES, SIZE_BYTES, false)?;
        let longest_ms = task.spec.stop.max_ms;
        Ok(Self { session: Some(session), socket, tag: opened.token.tag(), clock, number: 0, longest_ms })
    }

    /// Measures until its p99 has enough samples, for [`LONGEST_NS`] at most, or until the program is asked to end.
    pub(super) fn measure_idle(&mut self, stop: &AtomicBool) -> Result<Latency, ProbeError> {
        let end = self.clock.now().saturating_add(self.clock.ticks(LONGEST_NS));
        let goes_on = |now, answered| now < end && answered < ENOUGH && !stop.load(Ordering::Relaxed);
        Ok(self.measure(goes_on, RecentRtts::new(1).ends().0)?.0)
    }

    /// Measures while a flag is set. Gives the interval log too.
    pub(super) fn measure_until(
        &mut self,
        going: &AtomicBool,
        recent_rtts: Producer<'_, 1>,
    ) -> Result<(Latency, String), ProbeError> {
        self.measure(|_, _| going.load(Ordering::Relaxed), recent_rtts)
    }

    fn measure(
        &mut self,
        goes_on: impl Fn(u64, u64) -> bool,
        mut recent_rtts: Producer<'_, 1>,
    ) -> Result<(Latency, String), ProbeError> {
        let exchange = Exchange::new(&self.socket)?;
        let config = RecorderConfig::new(self.clock.rate(), LatencyKind::Rtt, self.longest_ms);
        let mut recorder = Recorder::new(config);
        let map = MapRecorder::new(self.clock);
        let mut message = [0x5a; SIZE];
        let period = self.clock.ticks(PERIOD_NS);
        let timeout = self.clock.ticks(TIMEOUT_NS);
        let mut due = self.clock.now();
        while goes_on(self.clock.now(), recorder.received()) {
            let early = due.saturating_sub(self.clock.now());
            if early > 0 {
                std::thread::sleep(Duration::from_nanos(self.clock.ns(early)));
            }
            self.number += 1;
            data::write(self.number, self.tag, &mut message);
            let sent = self.clock.now();
            let broken = |cause: PathError| {
                let address = self.session.as_ref().map(|session| session.name.clone()).unwrap_or_default();
                ProbeError::broken_path(address, SIZE_BYTES, cause)
            };
            let mut sample = Sample { seq: self.number, intended: sent, sent, received: sent, ..Sample::default() };
            exchange.send(&message).map_err(broken)?;
            sample.flags = SampleFlags::LOST;
            while sample.received.saturating_sub(sent) < timeout {
                let found = exchange.receive(&mut message).map_err(broken)?;
                sample.received = self.clock.now();
                let ours = found.and_then(|bytes| data::read(Tier::Tagged, self.tag, message.get(..bytes)?));
                if ours == Some(self.number) {
                    sample.flags = SampleFlags::default();
                    break;
                }
                if !goes_on(sample.received, recorder.received()) {
                    // Neither answered nor given up in time: it is not counted at all.
                    sample.flags = SampleFlags::WARMUP;
                    break;
                }
            }
            recorder.ingest(&[sample]);
            if sample.flags == SampleFlags::default() {
                recent_rtts.push_over(self.clock.ns(sample.received.saturating_sub(sent)));
            }
            due = (due + period).max(sample.received);
        }
        let recorded = recorder.finish(Some(&map.finish()));
        Ok((recorded.latency, recorded.hlog))
    }
}
