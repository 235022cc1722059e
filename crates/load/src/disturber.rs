//! Short disturbances of one CPU at known times: what an explanation of late messages is tested with.

use crate::LoadError;
use model::Policy;
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use random::SplitMix64;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The priority of threads that take a CPU, stop a process, or measure how long a disturbance is.
const PRIORITY: u8 = 80;
/// Of threads whose call disturbs: they run once the measured thread sleeps, but before any load.
const LOW: Policy = Policy::Fifo(1);
/// How long the handler of the timers is to run, the fewest and the most timers, and how long before they are set.
const TIMERS_NS: u64 = 300_000;
const TIMERS: std::ops::RangeInclusive<u64> = 500..=10_000;
const AHEAD_NS: u64 = 25_000_000;
/// How long a process is stopped.
const STOPPED: Duration = Duration::from_micros(400);
/// Sockets that one packet is delivered to.
const RECEIVERS: usize = 300;
/// Instructions of the filter that each of them runs.
const FILTER: usize = 1_000;
/// The time between two disturbances: it varies, so that they keep no step with anything.
const PERIOD_NS: std::ops::Range<u64> = 8_000_000..16_000_000;
/// An address of the block for use within a site (RFC 2365, section 6.2), which stays on the loopback here.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 87, 72);

/// What disturbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// A real-time thread of high priority runs so many µs.
    Hog(u64),
    /// Many timers expire at once: the CPU is in the handler of its timer interrupt.
    Timers,
    /// A packet is delivered to many sockets: the CPU is in the software interrupt that receives.
    Packets,
    /// A process is stopped by a signal to its thread of this name.
    Stop(u32, &'static str),
}

impl Disturbance {
    /// Name of its thread.
    pub const fn thread(self) -> &'static str {
        match self {
            Self::Hog(_) => "wh-hog",
            Self::Timers => "wh-timers",
            Self::Packets => "wh-packets",
            Self::Stop(..) => "wh-stop",
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
    /// Starts on a CPU. Equal `epoch_ns` (CLOCK_MONOTONIC) disturb at the same times, others at that distance. Errors:
    /// the thread cannot be started; later ones are those of [`Self::finish`].
    pub fn start(what: Disturbance, cpu: u32, epoch_ns: u64) -> Result<Self, LoadError> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let work = move || {
            task::pin(cpu)?;
            disturb(what, epoch_ns, &ends)
        };
        let thread =
            std::thread::Builder::new().name(what.thread().to_owned()).spawn(work).map_err(LoadError::thread)?;
        Ok(Self { over, thread: Some(thread) })
    }

    /// Ends it. Errors: the CPU, the policy, the timers or the sockets were refused.
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

fn disturb(what: Disturbance, epoch_ns: u64, over: &AtomicBool) -> Result<Vec<Disturbed>, LoadError> {
    task::apply_policy(Policy::Fifo(PRIORITY))?;
    let mut once: Box<dyn FnMut() -> Result<Option<Disturbed>, LoadError>> = match what {
        Disturbance::Hog(us) => Box::new(move || Ok(Some(hog(us)))),
        Disturbance::Timers => {
            let timers = Timers::open()?;
            task::apply_policy(LOW)?;
            Box::new(move || {
                let one = timers.set()?;
                let _ = clock::sleep_until(clock::monotonic_ns() + AHEAD_NS + 2 * TIMERS_NS);
                Ok(one)
            })
        }
        Disturbance::Packets => {
            let sockets = Sockets::open().map_err(LoadError::socket("multicast", "loopback"))?;
            let deliver = move || sockets.deliver().map_err(LoadError::socket("multicast", "loopback"));
            // How long it takes is measured while nothing else runs: later the call ends when the thread has its CPU again. Each socket
            // has a filter of its own, which is not in the cache after a pause; a packet right after another takes a third of the time.
            let after_pause = || {
                let _ = clock::sleep_until(clock::monotonic_ns() + PERIOD_NS.start);
                deliver().map(|one| one.end_ns - one.start_ns)
            };
            let mut lengths = (0..9).map(|_| after_pause()).collect::<Result<Vec<_>, _>>()?;
            lengths.sort_unstable();
            let length_ns = lengths[4];
            task::apply_policy(LOW)?;
            let at_least = move |one: Disturbed| Disturbed { end_ns: one.end_ns.min(one.start_ns + length_ns), ..one };
            Box::new(move || deliver().map(|one| Some(at_least(one))))
        }
        Disturbance::Stop(process, name) => {
            let mut thread = None;
            Box::new(move || {
                thread = thread.or_else(|| task::thread_named(process, name));
                let stopped = thread.and_then(stop);
                thread = thread.filter(|_| stopped.is_some());
                Ok(stopped)
            })
        }
    };
    let (mut varies, mut at_ns) = (SplitMix64::default(), epoch_ns);
    let mut done = Vec::new();
    while !over.load(Ordering::Acquire) {
        at_ns += PERIOD_NS.start + varies.below(PERIOD_NS.end - PERIOD_NS.start);
        if at_ns > clock::monotonic_ns() {
            let _ = clock::sleep_until(at_ns);
            done.extend(once()?);
        }
    }
    Ok(done)
}

fn hog(us: u64) -> Disturbed {
    let start_ns = clock::monotonic_ns();
    while clock::monotonic_ns() - start_ns < 1000 * us {
        std::hint::spin_loop();
    }
    Disturbed { start_ns, end_ns: clock::monotonic_ns() }
}

/// `None`: the thread has ended. The thread that gets the signal stops first, others late on a busy machine.
fn stop(thread: i32) -> Option<Disturbed> {
    task::send_signal(thread, Signal::SIGSTOP as i32).ok()?;
    let start_ns = clock::monotonic_ns();
    std::thread::sleep(STOPPED);
    let end_ns = clock::monotonic_ns();
    // It may have ended.
    let _ = task::send_signal(thread, Signal::SIGCONT as i32);
    Some(Disturbed { start_ns, end_ns })
}

/// Timers that expire at once, as many as keep the handler for the wanted time on this machine.
struct Timers {
    timers: Vec<TimerFd>,
    handler_ns: u64,
}

impl Timers {
    /// The calling thread has its CPU for itself meanwhile.
    fn open() -> Result<Self, LoadError> {
        task::raise_open_files(TIMERS.end() + 500)?;
        let mut this = Self { timers: Vec::new(), handler_ns: 0 };
        let mut count = *TIMERS.start();
        // Of many timers each takes another time than of few.
        for _ in 0..3 {
            while (this.timers.len() as u64) < count {
                this.timers.push(timer(count)?);
            }
            let lengths = (0..3).map(|_| this.measure()).collect::<Result<Vec<_>, _>>()?;
            this.handler_ns = lengths.into_iter().flatten().min().unwrap_or(TIMERS_NS).max(1);
            count = (count * TIMERS_NS / this.handler_ns).clamp(count, *TIMERS.end());
        }
        Ok(this)
    }

    /// All expire in `AHEAD_NS`. `None` where the first of them would have expired before the last one was set.
    fn set(&self) -> Result<Option<Disturbed>, LoadError> {
        let start_ns = clock::monotonic_ns() + AHEAD_NS;
        let at = TimeSpec::from_duration(Duration::from_nanos(start_ns));
        for timer in &self.timers {
            let set = timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
            set.map_err(|cause| LoadError::Failed(format!("a timer cannot be set: {cause}")))?;
        }
        let is_early = clock::monotonic_ns() < start_ns;
        Ok(is_early.then_some(Disturbed { start_ns, end_ns: start_ns + self.handler_ns }))
    }

    /// How long the handler takes, in ns: the longest time that the CPU is taken from this thread while they expire.
    fn measure(&self) -> Result<Option<u64>, LoadError> {
        let Some(Disturbed { start_ns, .. }) = self.set()? else { return Ok(None) };
        let _ = clock::sleep_until(start_ns - TIMERS_NS);
        let (mut before_ns, mut longest_ns) = (clock::monotonic_ns(), 0);
        // Of a thread that wakes up too late they have expired.
        if before_ns > start_ns {
            return Ok(None);
        }
        while before_ns < start_ns + TIMERS_NS {
            let now_ns = clock::monotonic_ns();
            longest_ns = (now_ns - before_ns).max(longest_ns);
            before_ns = now_ns;
        }
        Ok(Some(longest_ns))
    }
}

fn timer(count: u64) -> Result<TimerFd, LoadError> {
    TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).map_err(|cause| {
        LoadError::Failed(format!("{count} timers cannot be made: {cause}; raise the limit of open files"))
    })
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
