//! How an end waits for a message. Each way is a type of its own, so that nothing is decided per message.

use crate::NetError;
use crate::idle::Idle;
use crate::path::{PathError, PathOptions, Received};
use crate::sys;
use crate::transport::{ReceiveStep, Transport, broken};
use clock::Clock;
use libc::c_int;
use model::Receive;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Empty polls between two looks at clock and stop flag: at some 100 ns each, a deadline is seen within about 10 µs.
const POLLS_PER_LOOK: u32 = 64;

pub(crate) trait Waiter {
    fn receive<T: Transport>(&mut self, transport: &mut T, buffer: &mut [u8]) -> Result<Received, PathError>;
}

/// What is to be compiled for each way to wait.
pub(crate) trait Waiting {
    type Output;

    fn with<W: Waiter + Send>(self, waiter: W) -> Self::Output;
}

/// Makes the waiter that `options` ask for over the descriptor `fd`: the one decision, before any loop.
pub(crate) fn choose<C: Waiting>(
    fd: RawFd,
    options: &PathOptions<'_>,
    idle: &Idle,
    loops: C,
) -> Result<C::Output, NetError> {
    let stop = options.stop;
    Ok(match options.receive {
        Receive::Block => loops.with(Block::new(stop)),
        Receive::Spin => loops.with(Spin::new(Patience::new(options))),
        Receive::Poll => loops.with(Poll::new(fd, idle, stop)),
        Receive::Select => loops.with(Select::new(fd, idle, stop)?),
        Receive::Epoll => loops.with(Epoll::<false, false>::new(fd, idle, stop)?),
        Receive::EpollMod => loops.with(Epoll::<true, false>::new(fd, idle, stop)?),
        Receive::EpollAdddel => loops.with(Epoll::<false, true>::new(fd, idle, stop)?),
        Receive::Completion => return Err(NetError::OnlyWindows { mode: options.receive }),
    })
}

/// What a signal means: the end, when the stop flag is set.
#[cold]
fn interrupted(stop: &AtomicBool) -> Received {
    if stop.load(Ordering::Relaxed) { Received::Stopped } else { Received::Interrupted }
}

/// The receive call itself waits.
pub(crate) struct Block<'a> {
    stop: &'a AtomicBool,
}

impl<'a> Block<'a> {
    pub(crate) fn new(stop: &'a AtomicBool) -> Self {
        Self { stop }
    }
}

impl Waiter for Block<'_> {
    #[inline]
    fn receive<T: Transport>(&mut self, transport: &mut T, buffer: &mut [u8]) -> Result<Received, PathError> {
        loop {
            match transport.receive::<true>(buffer) {
                ReceiveStep::Whole(bytes) => return Ok(Received::Bytes(bytes)),
                ReceiveStep::More | ReceiveStep::Nothing => {}
                ReceiveStep::Interrupted => return Ok(interrupted(self.stop)),
                ReceiveStep::Broken(error) => return Err(error),
            }
        }
    }
}

/// How long a spinning wait goes on: until its deadline or the stop flag.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    clock: Clock,
    /// 0: for ever.
    timeout_ticks: u64,
    stop: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(options: &PathOptions<'a>) -> Self {
        let timeout_ticks = match options.timeout_ns {
            0 => 0,
            ns => options.clock.rate().ticks(ns).max(1),
        };
        Self { clock: options.clock, timeout_ticks, stop: options.stop }
    }

    /// One wait begins. The clock is read only after the first [`POLLS_PER_LOOK`] empty polls.
    #[inline]
    pub(crate) fn begin(self) -> Waited<'a> {
        Waited { patience: self, polls: 0, began: None }
    }

    pub(crate) fn interrupted(self) -> Received {
        interrupted(self.stop)
    }
}

pub(crate) struct Waited<'a> {
    patience: Patience<'a>,
    polls: u32,
    began: Option<u64>,
}

impl Waited<'_> {
    /// A poll found nothing: goes on, or returns why not.
    #[inline]
    pub(crate) fn nothing(&mut self) -> Option<Received> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_LOOK) { self.look() } else { None }
    }

    #[cold]
    fn look(&mut self) -> Option<Received> {
        if self.patience.stop.load(Ordering::Relaxed) {
            return Some(Received::Stopped);
        }
        if self.patience.timeout_ticks == 0 {
            return None;
        }
        let now = self.patience.clock.now();
        let lasted = now.saturating_sub(*self.began.get_or_insert(now));
        (lasted >= self.patience.timeout_ticks).then_some(Received::TimedOut)
    }

    /// What a failed call means, by errno: nothing yet, a signal, or a broken path.
    #[inline]
    pub(crate) fn after_error(&mut self, call: &'static str) -> Result<Option<Received>, PathError> {
        match sys::errno() {
            libc::EAGAIN => Ok(self.nothing()),
            libc::EINTR => Ok(Some(self.patience.interrupted())),
            errno => Err(broken(call, errno)),
        }
    }
}

pub(crate) struct Spin<'a> {
    patience: Patience<'a>,
}

impl<'a> Spin<'a> {
    pub(crate) fn new(patience: Patience<'a>) -> Self {
        Self { patience }
    }
}

impl Waiter for Spin<'_> {
    #[inline]
    fn receive<T: Transport>(&mut self, transport: &mut T, buffer: &mut [u8]) -> Result<Received, PathError> {
        let mut waited = self.patience.begin();
        loop {
            match transport.receive::<false>(buffer) {
                ReceiveStep::Whole(bytes) => return Ok(Received::Bytes(bytes)),
                ReceiveStep::More => {}
                ReceiveStep::Nothing => {
                    if let Some(ended) = waited.nothing() {
                        return Ok(ended);
                    }
                }
                ReceiveStep::Interrupted => return Ok(self.patience.interrupted()),
                ReceiveStep::Broken(error) => return Err(error),
            }
        }
    }
}

pub(crate) enum Ready {
    Now,
    Interrupted,
    Broken(PathError),
}

#[inline]
pub(crate) fn ready(result: c_int, call: &'static str) -> Ready {
    if result >= 0 { Ready::Now } else { not_ready(call) }
}

#[cold]
fn not_ready(call: &'static str) -> Ready {
    match sys::errno() {
        libc::EINTR => Ready::Interrupted,
        errno => Ready::Broken(PathError::Failed { call, errno }),
    }
}

/// Waits, then receives without waiting, until a message is whole. Idle descriptors may make it spin until `stop`.
#[inline]
fn receive_when_ready<T: Transport>(
    transport: &mut T,
    buffer: &mut [u8],
    stop: &AtomicBool,
    mut wait: impl FnMut() -> Ready,
) -> Result<Received, PathError> {
    loop {
        match wait() {
            Ready::Now => {}
            Ready::Interrupted => return Ok(interrupted(stop)),
            Ready::Broken(error) => return Err(error),
        }
        match transport.receive::<false>(buffer) {
            ReceiveStep::Whole(bytes) => return Ok(Received::Bytes(bytes)),
            ReceiveStep::More => {}
            ReceiveStep::Nothing => {
                if stop.load(Ordering::Relaxed) {
                    return Ok(Received::Stopped);
                }
            }
            ReceiveStep::Interrupted => return Ok(interrupted(stop)),
            ReceiveStep::Broken(error) => return Err(error),
        }
    }
}

pub(crate) struct Poll<'a> {
    set: Vec<libc::pollfd>,
    stop: &'a AtomicBool,
}

impl<'a> Poll<'a> {
    pub(crate) fn new(fd: RawFd, idle: &Idle, stop: &'a AtomicBool) -> Self {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        Self { set: idle.watched().chain([fd]).map(entry).collect(), stop }
    }
}

impl Waiter for Poll<'_> {
    #[inline]
    fn receive<T: Transport>(&mut self, transport: &mut T, buffer: &mut [u8]) -> Result<Received, PathError> {
        let set = &mut self.set;
        receive_when_ready(transport, buffer, self.stop, || ready(sys::poll(set, -1), "poll"))
    }
}

pub(crate) struct Select<'a> {
    all: libc::fd_set,
    limit: c_int,
    stop: &'a AtomicBool,
}

/// A set for select(2), and its first argument.
pub(crate) fn select_set(descriptors: impl Iterator<Item = RawFd>) -> Result<(libc::fd_set, c_int), NetError> {
    // SAFETY: fd_set is a plain array of bits, and all zeros is the empty set.
    let mut all: libc::fd_set = unsafe { std::mem::zeroed() };
    let mut limit = 0;
    for fd in descriptors {
        if usize::try_from(fd).map_or(true, |fd| fd >= libc::FD_SETSIZE) {
            return Err(NetError::SelectLimit { fd });
        }
        // SAFETY: `all` is an initialised set, and the descriptor is within its FD_SETSIZE bits.
        unsafe { libc::FD_SET(fd, &raw mut all) };
        limit = limit.max(fd + 1);
    }
    Ok((all, limit))
}

impl<'a> Select<'a> {
    pub(crate) fn new(fd: RawFd, idle: &Idle, stop: &'a AtomicBool) -> Result<Self, NetError> {
        let (all, limit) = select_set(idle.watched().chain([fd]))?;
        Ok(Self { all, limit, stop })
    }
}

impl Waiter for Select<'_> {
    #[inline]
    fn receive<T: Transport>(&mut self, transport: &mut T, buffer: &mut [u8]) -> Result<Received, PathError> {
        let (all, limit) = (self.all, self.limit);
        receive_when_ready(transport, buffer, self.stop, || {
            // select overwrites its set.
            let mut set = all;
            let null = std::ptr::null_mut();
            // SAFETY: `set` is initialised and lives through the call; the other sets and the time-out may be null.
            let result = unsafe { libc::select(limit, &raw mut set, null, null, std::ptr::null_mut()) };
            ready(result, "select")
        })
    }
}

#[derive(Debug)]
pub(crate) struct EpollSet(OwnedFd);

impl EpollSet {
    /// What an idle descriptor is called in the set.
    const IDLE: u64 = u64::MAX;

    pub(crate) fn new(idle: &Idle) -> Result<Self, NetError> {
        // SAFETY: no pointers.
        let set = Self(sys::own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map_err(Self::failed)?);
        for fd in idle.watched() {
            set.add(fd, Self::IDLE)?;
        }
        Ok(set)
    }

    fn failed(cause: std::io::Error) -> NetError {
        NetError::Epoll { cause }
    }

    /// Adds a descriptor, called `number` in what a wait finds.
    pub(crate) fn add(&self, fd: RawFd, number: u64) -> Result<(), NetError> {
        if self.control(libc::EPOLL_CTL_ADD, fd, number) < 0 { Err(Self::failed(sys::last())) } else { Ok(()) }
    }

    /// One change of the set for one descriptor.
    #[inline]
    pub(crate) fn control(&self, operation: c_int, fd: RawFd, number: u64) -> c_int {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        // SAFETY: the event lives through the call.
        unsafe { libc::epoll_ctl(self.fd(), operation, fd, &raw mut event) }
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    #[inline]
    fn wait(&self) -> Ready {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1];
        // SAFETY: the pointer and count describe `events`, which lives through the call.
        let result = unsafe { libc::epoll_wait(self.fd(), events.as_mut_ptr(), 1, -1) };
        ready(result, "epoll_wait")
    }
}

/// epoll_wait(2). `MODIFY`: EPOLL_CTL_MOD before each wait. `ADD`: EPOLL_CTL_ADD before and _DEL after each wait.
pub(crate) struct Epoll<'a, const MODIFY: bool, const ADD: bool> {
    set: EpollSet,
    data: RawFd,
    stop: &'a AtomicBool,
}

impl<'a, const MODIFY: bool, const ADD: bool> Epoll<'a, MODIFY, ADD> {
    pub(crate) fn new(data: RawFd, idle: &Idle, stop: &'a AtomicBool) -> Result<Self, NetError> {
        let set = EpollSet::new(idle)?;
        if !ADD {
            set.add(data, 0)?;
        }
        Ok(Self { set, data, stop })
    }
}

impl<const MODIFY: bool, const ADD: bool> Waiter for Epoll<'_, MODIFY, ADD> {
    #[inline]
    fn receive<T: Transport>(&mut self, transport: &mut T, buffer: &mut [u8]) -> Result<Received, PathError> {
        let control = |operation| ready(self.set.control(operation, self.data, 0), "epoll_ctl");
        receive_when_ready(transport, buffer, self.stop, || {
            if MODIFY || ADD {
                match control(if ADD { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD }) {
                    Ready::Now => {}
                    other => return other,
                }
            }
            let waited = self.set.wait();
            if !ADD {
                return waited;
            }
            // Also after a signal: the set must be as it was.
            match control(libc::EPOLL_CTL_DEL) {
                Ready::Now => waited,
                other => other,
            }
        })
    }
}
