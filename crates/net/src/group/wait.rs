//! Waiting for one or two sockets, with a time-out.

use super::GroupSocket;
use crate::idle::Idle;
use crate::path::PathError;
use crate::{NetError, sys};
use libc::c_int;
use model::{IdleDescriptors, Receive};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Beyond this a time-out in whole milliseconds is exact enough, in ns.
const COARSE_NS: u64 = 20_000_000;
const MS: u64 = 1_000_000;
/// Sockets that are waited for at most.
const MOST: usize = 2;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Woken {
    /// Something may be there, for each socket in the order of [`GroupWait::new`].
    Ready([bool; 2]),
    /// Nothing came in time.
    TimedOut,
    /// A signal came first.
    Interrupted,
}

enum Kind {
    Spin,
    Poll(Vec<libc::pollfd>),
    Epoll(OwnedFd),
}

/// A way to wait.
pub struct GroupWait {
    kind: Kind,
    sockets: usize,
    _idle: Idle,
}

impl std::fmt::Debug for GroupWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupWait")
            .field("sockets", &self.sockets)
            .field("spins", &self.spins())
            .finish_non_exhaustive()
    }
}

impl GroupWait {
    /// Waits for up to two sockets by poll(2) (which is what blocking means here, because there is a time-out), epoll(7)
    /// or not at all. Idle descriptors are in the set too.
    ///
    /// # Errors
    /// Another mode, or a set that could not be made.
    pub fn new(sockets: &[&GroupSocket], receive: Receive, idle: &IdleDescriptors) -> Result<Self, NetError> {
        let idle = Idle::open(idle)?;
        let sockets = sockets.get(..sockets.len().min(MOST)).unwrap_or_default();
        let kind = match receive {
            Receive::Spin => Kind::Spin,
            Receive::Block | Receive::Poll => {
                let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                Kind::Poll(sockets.iter().map(|socket| socket.fd()).chain(idle.watched()).map(entry).collect())
            }
            Receive::Epoll => Kind::Epoll(set(sockets, &idle)?),
            mode @ (Receive::Select | Receive::EpollMod | Receive::EpollAdddel) => {
                return Err(NetError::GroupWait { mode });
            }
        };
        Ok(Self { kind, sockets: sockets.len(), _idle: idle })
    }

    /// Waits by poll(2), with nothing else in the set.
    ///
    /// # Errors
    /// None that is known of.
    pub fn blocking(sockets: &[&GroupSocket]) -> Result<Self, NetError> {
        Self::new(sockets, Receive::Block, &IdleDescriptors::default())
    }

    /// Whether [`Self::wait`] returns at once: the owner polls.
    #[must_use]
    pub fn spins(&self) -> bool {
        matches!(self.kind, Kind::Spin)
    }

    /// Waits until a socket has something, `timeout_ns` are over, or a signal comes.
    ///
    /// # Errors
    /// The set is broken.
    #[inline]
    pub fn wait(&mut self, timeout_ns: u64) -> Result<Woken, PathError> {
        let all = [self.sockets > 0, self.sockets > 1];
        match &mut self.kind {
            Kind::Spin => Ok(Woken::Ready(all)),
            Kind::Poll(set) => {
                let time = timespec(timeout_ns);
                let count = set.len() as libc::nfds_t;
                // SAFETY: the pointers and the count describe `set` and `time`, which live through the call; no mask.
                let result = unsafe { libc::ppoll(set.as_mut_ptr(), count, &raw const time, std::ptr::null()) };
                if result <= 0 {
                    return ended(result, "ppoll");
                }
                let ready = |at: usize| set.get(at).is_some_and(|entry| entry.revents != 0);
                Ok(Woken::Ready([all[0] && ready(0), all[1] && ready(1)]))
            }
            Kind::Epoll(epoll) => {
                let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST + 1];
                let result = epoll_wait(epoll.as_raw_fd(), &mut events, timeout_ns);
                if result <= 0 {
                    return ended(result, "epoll_wait");
                }
                let mut ready = [false; MOST];
                for event in events.iter().take(usize::try_from(result).unwrap_or(0)) {
                    let at = event.u64;
                    if let Some(ready) = usize::try_from(at).ok().and_then(|at| ready.get_mut(at)) {
                        *ready = true;
                    }
                }
                Ok(Woken::Ready(ready))
            }
        }
    }
}

fn timespec(ns: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / SECOND).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % SECOND).try_into().unwrap_or(0),
    }
}

/// epoll_pwait2(2) for short times, because milliseconds are too coarse for them; epoll_wait(2) for long ones and on kernels
/// before 5.11, where a short time is rounded up.
#[inline]
fn epoll_wait(epoll: RawFd, events: &mut [libc::epoll_event], timeout_ns: u64) -> c_int {
    let most = c_int::try_from(events.len()).unwrap_or(1);
    if timeout_ns < COARSE_NS {
        let time = timespec(timeout_ns);
        // SAFETY: the pointers and the count describe `events` and `time`, which live through the call; no mask.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll,
                events.as_mut_ptr(),
                most,
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if result >= 0 || sys::errno() != libc::ENOSYS {
            return c_int::try_from(result).unwrap_or(-1);
        }
    }
    let milliseconds = c_int::try_from(timeout_ns.div_ceil(MS)).unwrap_or(c_int::MAX);
    // SAFETY: as above.
    unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), most, milliseconds) }
}

#[inline]
fn ended(result: c_int, call: &'static str) -> Result<Woken, PathError> {
    if result == 0 {
        return Ok(Woken::TimedOut);
    }
    match sys::errno() {
        libc::EINTR => Ok(Woken::Interrupted),
        errno => Err(PathError::Failed { call, errno }),
    }
}

fn set(sockets: &[&GroupSocket], idle: &Idle) -> Result<OwnedFd, NetError> {
    let failed = |cause| NetError::Epoll { cause };
    // SAFETY: no pointers.
    let epoll = sys::own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map_err(failed)?;
    let numbered = sockets.iter().enumerate().map(|(at, socket)| (socket.fd(), at as u64));
    for (fd, number) in numbered.chain(idle.watched().map(|fd| (fd, u64::MAX))) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        // SAFETY: the event lives through the call.
        if unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } < 0 {
            return Err(failed(sys::last()));
        }
    }
    Ok(epoll)
}
