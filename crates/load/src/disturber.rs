//! Short disturbances of one CPU at known times: what an explanation of late messages is tested with.

use crate::LoadError;
use model::Policy;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use random::SplitMix64;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use task::{Attributes, Class};

/// A thread that takes the CPU runs this long.
const HOG_NS: u64 = 300_000;
/// Its priority.
const HOG_PRIORITY: u8 = 80;
/// Timers that expire at once, and about what the handler takes for one.
const TIMERS: u64 = 1_500;
const TIMER_NS: u64 = 200;
/// They are set so long before.
const AHEAD_NS: u64 = 25_000_000;
/// Sockets that one packet is delivered to.
const RECEIVERS: usize = 300;
/// Instructions of the filter that each of them runs.
const FILTER: usize = 1_000;
/// The mean time between two disturbances, and how much they vary to both sides.
const PERIOD: Duration = Duration::from_millis(12);
const VARIES: Duration = Duration::from_millis(4);
/// An address of the block for use within a site (RFC 2365, section 6.2), which stays on the loopback here.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 87, 72);

/// What disturbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// A real-time thread of high priority runs.
    Hog,
    /// Many timers expire at once: the CPU is in the handler of its timer interrupt.
    Timers,
    /// A packet is delivered to many sockets: the CPU is in the software interrupt that receives.
    Packets,
}

impl Disturbance {
    /// Name of its thread.
    pub const fn thread(self) -> &'static str {
        match self {
            Self::Hog => "wh-hog",
            Self::Timers => "wh-timers",
            Self::Packets => "wh-packets",
        }
    }
}

/// When a disturbance happened, in ns of CLOCK_MONOTONIC. The CPU was taken at least so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbed {
    /// Its begin.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

/// A thread that disturbs a CPU every few milliseconds until it is finished or dropped.
#[derive(Debug)]
pub struct Disturber {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Disturbed>, LoadError>>>,
}

impl Disturber {
    /// Starts on a CPU.
    ///
    /// # Errors
    /// The thread cannot be started. What fails within it is the error of [`Self::finish`].
    pub fn start(what: Disturbance, cpu: u32) -> Result<Self, LoadError> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let work = move || {
            task::pin(cpu)?;
            disturb(what, &ends)
        };
        let thread =
            std::thread::Builder::new().name(what.thread().to_owned()).spawn(work).map_err(LoadError::thread)?;
        Ok(Self { over, thread: Some(thread) })
    }

    /// Ends it.
    ///
    /// # Errors
    /// The CPU, the policy, the timers or the sockets were refused.
    pub fn finish(mut self) -> Result<Vec<Disturbed>, LoadError> {
        self.over.store(true, Ordering::Release);
        self.thread.take().map_or(Ok(Vec::new()), |thread| thread.join().map_err(|_| LoadError::broken())?)
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The pauses between disturbances: 8 to 16 ms, so that they keep no step with anything.
#[derive(Debug, Clone, Default)]
pub struct Pauses(SplitMix64);

impl Pauses {
    /// The next one.
    pub fn pause(&mut self) -> Duration {
        let varies = u64::try_from(2 * VARIES.as_nanos()).unwrap_or(u64::MAX);
        PERIOD - VARIES + Duration::from_nanos(self.0.below(varies))
    }
}

fn disturb(what: Disturbance, over: &AtomicBool) -> Result<Vec<Disturbed>, LoadError> {
    let mut once: Box<dyn FnMut() -> Result<Option<Disturbed>, LoadError>> = match what {
        Disturbance::Hog => {
            task::apply_policy(Policy::Fifo(HOG_PRIORITY))?;
            Box::new(|| Ok(Some(hog())))
        }
        Disturbance::Timers => {
            at_once()?;
            let timers = timers()?;
            Box::new(move || expire(&timers))
        }
        Disturbance::Packets => {
            let sockets = Sockets::open().map_err(LoadError::socket("multicast", "loopback"))?;
            // How long it takes is measured while nothing else runs: later the call ends when the thread has its CPU again.
            task::apply_policy(Policy::Fifo(HOG_PRIORITY))?;
            let deliver = move || sockets.deliver().map_err(LoadError::socket("multicast", "loopback"));
            let lengths =
                (0..10).map(|_| deliver().map(|one| one.end_ns - one.start_ns)).collect::<Result<Vec<_>, _>>()?;
            let length_ns = lengths.into_iter().min().unwrap_or(0);
            at_once()?;
            Box::new(move || deliver().map(|one| Some(Disturbed { end_ns: one.start_ns + length_ns, ..one })))
        }
    };
    let mut pauses = Pauses::default();
    let mut done = Vec::new();
    while !over.load(Ordering::Acquire) {
        std::thread::sleep(pauses.pause());
        done.extend(once()?);
    }
    Ok(done)
}

/// An ordinary thread that gets its CPU as soon as real-time threads leave it.
fn at_once() -> Result<(), LoadError> {
    let ordinary = Attributes { nice: -20, ..Attributes::new(Class::Plain(Policy::Other)) };
    Ok(task::set_attributes(0, &ordinary)?)
}

fn hog() -> Disturbed {
    let start_ns = clock::monotonic_ns();
    while clock::monotonic_ns() - start_ns < HOG_NS {
        std::hint::spin_loop();
    }
    Disturbed { start_ns, end_ns: clock::monotonic_ns() }
}

fn timers() -> Result<Vec<TimerFd>, LoadError> {
    task::raise_open_files(TIMERS + 500)?;
    (0..TIMERS)
        .map(|_| TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK))
        .collect::<Result<_, _>>()
        .map_err(|cause| {
            LoadError::Failed(format!("{TIMERS} timers cannot be made: {cause}; raise the limit of open files"))
        })
}

/// `None` where the first of them would have expired before the last one was set.
fn expire(timers: &[TimerFd]) -> Result<Option<Disturbed>, LoadError> {
    let start_ns = clock::monotonic_ns() + AHEAD_NS;
    let at = TimeSpec::from_duration(Duration::from_nanos(start_ns));
    for timer in timers {
        let set = timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
        set.map_err(|cause| LoadError::Failed(format!("a timer cannot be set: {cause}")))?;
    }
    let is_early = clock::monotonic_ns() < start_ns;
    let _ = clock::sleep_until(start_ns + 1_000_000);
    Ok(is_early.then_some(Disturbed { start_ns, end_ns: start_ns + TIMERS * TIMER_NS }))
}

/// Sockets that all get each packet that one of them sends. Each drops it after a long filter.
struct Sockets {
    sender: Socket,
    group: SocketAddr,
    _receivers: Vec<Socket>,
}

impl Sockets {
    fn open() -> std::io::Result<Self> {
        let socket = || Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
        // A += 1 again and again, then the packet is dropped (linux/bpf_common.h).
        let add = |_| SockFilter::new(0x04, 0, 0, 1);
        let filter: Vec<SockFilter> = (0..FILTER).map(add).chain([SockFilter::new(0x06, 0, 0, 0)]).collect();
        let mut port = 0;
        let mut receivers = Vec::new();
        for _ in 0..RECEIVERS {
            let receiver = socket()?;
            receiver.set_reuse_address(true)?;
            receiver.attach_filter(&filter)?;
            receiver.bind(&SocketAddrV4::new(GROUP, port).into())?;
            receiver.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST)?;
            port = receiver.local_addr()?.as_socket().map_or(port, |address| address.port());
            receivers.push(receiver);
        }
        let sender = socket()?;
        sender.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
        sender.set_multicast_loop_v4(true)?;
        sender.set_multicast_ttl_v4(0)?;
        Ok(Self { sender, group: SocketAddrV4::new(GROUP, port).into(), _receivers: receivers })
    }

    fn deliver(&self) -> std::io::Result<Disturbed> {
        let start_ns = clock::monotonic_ns();
        self.sender.send_to(&[0; 64], &self.group.into())?;
        Ok(Disturbed { start_ns, end_ns: clock::monotonic_ns() })
    }
}
