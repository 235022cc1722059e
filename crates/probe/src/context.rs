//! What the calling program gives to a measurement, and the outcome it gets back.

use crate::{ProbeError, Recording};
use flow::PassObserver;
use model::{LiveInterval, PgmCarrier, ProbeSpec, Protocol};
use net::capture::{Flow, GroupCarrier, GroupFlow};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// The number of PGM among IP's protocols (IANA).
const PGM: u8 = 113;

/// What the program around a measurement knows and the measurement needs.
#[derive(Debug, Clone)]
pub struct Context {
    /// Set when the program is asked to end: the size being measured ends early, and its result is still given.
    pub stop: Arc<AtomicBool>,
    /// The program that is started as the reflector of protocols within one machine; usually this very executable.
    pub worker_program: PathBuf,
    /// Its arguments; they make it take its descriptors from the environment and serve them (`worker`, usually).
    pub worker_args: Vec<String>,
    /// The build of this tool, as the handshake and findings name it.
    pub tool: String,
    /// When the process started, for the start-up cost.
    pub started: Instant,
    /// Both ends share one host (a loopback lab): a path that never leaves it is no finding.
    pub claims_loopback: bool,
    /// Takes each interval once it is over, where the task asks for them ([`model::worker::ProbeTask::live`]).
    pub live: Option<LiveSink>,
    /// Progress of a closed loop, updated between batches.
    pub(crate) progress: Arc<LiveProgress>,
    /// Captures the packets of the measurement. Each connection and data path is registered before its first packet.
    pub recording: Option<Arc<Recording>>,
}

/// How far the present size of a closed loop is, written by the measuring thread between batches.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LiveProgress {
    sizes: AtomicU32,
    /// Bytes of the present one.
    size: AtomicU32,
    rounds: AtomicU64,
    lost: AtomicU64,
    /// Median and 99th percentile of RTT in the latest interval; 0 before there is one.
    rtt_ns: [AtomicU64; 2],
    /// Largest wake-up latency; 0 of other probes.
    wake_up_max_ns: AtomicU64,
    elapsed_ns: AtomicU64,
}

impl LiveProgress {
    pub(crate) fn begin(&self, size: u32) {
        self.size.store(size, Ordering::Relaxed);
        self.percentiles([0; 2]);
        self.update(0, 0, 0);
        self.sizes.fetch_add(1, Ordering::Release);
    }

    /// Rounds sent and lost so far, and the time since the first.
    pub(crate) fn update(&self, rounds: u64, lost: u64, elapsed_ns: u64) {
        self.rounds.store(rounds, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
        self.elapsed_ns.store(elapsed_ns, Ordering::Release);
    }

    /// Median and 99th percentile of RTT in the latest interval; to be called before [`LiveProgress::update`].
    pub(crate) fn percentiles(&self, rtt_ns: [u64; 2]) {
        self.rtt_ns.iter().zip(rtt_ns).for_each(|(place, ns)| place.store(ns, Ordering::Relaxed));
    }

    /// The largest wake-up latency so far; to be called before [`LiveProgress::update`].
    pub(crate) fn wake_up(&self, max_ns: u64) {
        self.wake_up_max_ns.store(max_ns, Ordering::Relaxed);
    }

    /// What came since `before`, which goes on; nothing before the first size and while nothing new is known.
    pub(crate) fn since(&self, before: &mut LiveCursor) -> Option<LiveInterval> {
        let sizes = self.sizes.load(Ordering::Acquire);
        if sizes != before.sizes {
            *before = LiveCursor { sizes, ..LiveCursor::default() };
        }
        let elapsed_ns = self.elapsed_ns.load(Ordering::Acquire);
        let (rounds, lost) = (self.rounds.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed));
        if elapsed_ns <= before.elapsed_ns {
            return None;
        }
        let [rtt_p50_ns, rtt_p99_ns] =
            self.rtt_ns.each_ref().map(|place| Some(place.load(Ordering::Relaxed)).filter(|ns| *ns > 0));
        let interval = LiveInterval {
            rtt_p50_ns,
            rtt_p99_ns,
            size: self.size.load(Ordering::Relaxed),
            at_ns: before.elapsed_ns,
            interval_ns: elapsed_ns - before.elapsed_ns,
            sent: rounds.saturating_sub(before.rounds),
            received: rounds.saturating_sub(before.rounds).saturating_sub(lost.saturating_sub(before.lost)),
            lost: lost.saturating_sub(before.lost),
            settled: true,
            wake_up_max_ns: Some(self.wake_up_max_ns.load(Ordering::Relaxed)).filter(|ns| *ns > 0),
            ..LiveInterval::default()
        };
        (before.rounds, before.lost, before.elapsed_ns) = (rounds, lost, elapsed_ns);
        Some(interval)
    }
}

/// Begins a size of the live line; what goes on in it is updated between batches.
pub(crate) struct LiveLine(pub Arc<LiveProgress>);

impl PassObserver for LiveLine {
    fn begin(&mut self, size: u32, _: Option<RawFd>) {
        self.0.begin(size);
    }
}

/// What was already reported of [`LiveProgress`].
#[derive(Debug, Default)]
pub(crate) struct LiveCursor {
    sizes: u32,
    rounds: u64,
    lost: u64,
    elapsed_ns: u64,
}

/// Watches a running measurement, on a thread that neither sends nor receives where there is one; must not wait.
#[derive(Clone)]
pub struct LiveSink(Arc<dyn Fn(LiveInterval) + Send + Sync>);

impl LiveSink {
    /// Calls `take` with each interval.
    pub fn new(take: impl Fn(LiveInterval) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub fn report(&self, interval: LiveInterval) {
        (self.0)(interval);
    }
}

impl fmt::Debug for LiveSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveSink")
    }
}

impl Context {
    /// A context for a program whose hidden command `worker` serves inherited descriptors.
    pub fn new(worker_program: PathBuf, tool: impl Into<String>) -> Self {
        Self {
            stop: Arc::new(AtomicBool::new(false)),
            worker_program,
            worker_args: vec!["worker".to_owned()],
            tool: tool.into(),
            started: Instant::now(),
            claims_loopback: false,
            live: None,
            progress: Arc::default(),
            recording: None,
        }
    }

    /// Has a capture follow the control connection to `far`; once more when the own address is known.
    pub(crate) fn capture_control(&self, far: SocketAddr, near: Option<SocketAddr>) -> Result<(), ProbeError> {
        let Some(recording) = &self.recording else { return Ok(()) };
        let near_port = near.map(|near| near.port());
        let flow = Flow { number: Protocol::Tcp.ip_number(), far, near_port, group: None };
        Ok(recording.capture().follow(flow, None)?)
    }

    pub(crate) fn capture_data(
        &self,
        spec: &ProbeSpec,
        far: SocketAddr,
        near: Option<SocketAddr>,
    ) -> Result<(), ProbeError> {
        let (Some(recording), Some(socket)) = (&self.recording, &spec.socket) else { return Ok(()) };
        let own_device = spec.initiator.device.as_deref();
        if let Some(pgm) = &socket.pgm {
            let carrier = match pgm.carrier {
                PgmCarrier::Udp => GroupCarrier::Udp(pgm.udp_port),
                PgmCarrier::Raw => GroupCarrier::Ip(PGM),
            };
            let flow = GroupFlow { carrier, groups: vec![pgm.group, pgm.reply_group()] };
            return Ok(recording.capture().follow_group(flow, pgm.interface.as_deref().or(own_device))?);
        }
        let multicast = socket.multicast.as_ref();
        let flow = Flow {
            number: socket.protocol.ip_number(),
            far,
            near_port: near.map(|near| near.port()),
            group: multicast.map(|multicast| multicast.group),
        };
        let device = multicast.and_then(|multicast| multicast.interface.as_deref());
        Ok(recording.capture().follow(flow, device.or(own_device))?)
    }

    /// Whether the program was asked to end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How a measurement ended when nothing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Sizes whose result was given to the sink.
    pub sizes: u32,
    /// Of them those whose verdict has something invalid.
    pub untrusted: u32,
    /// Whether the program was asked to end before all sizes were done.
    pub interrupted: bool,
}

impl Outcome {
    /// The design's exit code: 130 when interrupted, 4 when a figure cannot be trusted, else 0.
    pub fn exit_code(self) -> u8 {
        if self.interrupted {
            130
        } else if self.untrusted > 0 {
            4
        } else {
            0
        }
    }
}
