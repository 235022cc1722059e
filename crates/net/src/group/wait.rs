//! Waiting for one or two sockets, with a time-out.

use super::GroupSocket;
use crate::idle::Idle;
use crate::path::PathError;
use crate::wait::{EpollSet, select_set};
use crate::{NetError, sys};
use libc::c_int;
use model::{IdleDescriptors, Receive};
use std::os::fd::RawFd;

/// Beyond this a time-out in whole milliseconds is exact enough, in ns.
const COARSE_NS: u64 = 20_000_000;
const MS: u64 = 1_000_000;
/// Sockets that are waited for at most.
const MOST: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Woken {
    /// Something may be there, for each socket in the order of [`GroupWait::new`].
    Ready([bool; 2]),
    TimedOut,
    Interrupted,
}

#[derive(Debug)]
enum WaitSet {
    Spin,
    Poll(Vec<libc::pollfd>),
    Select(Select),
    Epoll(Set),
}

#[derive(Debug)]
pub struct GroupWait {
    kind: WaitSet,
    sockets: usize,
    _idle: Idle,
}

impl GroupWait {
    /// Waits for up to two sockets by poll(2) (which is what blocking means here, because there is a time-out), select(2),
    /// epoll(7) or not at all. [`Receive::EpollMod`] and [`Receive::EpollAdddel`] change the set for each of the sockets at
    /// each wait. Idle descriptors are in the set too, and stay there. Errors: a set that could not be made, or a
    /// descriptor that select cannot hold.
    pub fn new(sockets: &[&GroupSocket], receive: Receive, idle: &IdleDescriptors) -> Result<Self, NetError> {
        let idle = Idle::open(idle)?;
        let sockets: Vec<RawFd> = sockets.iter().take(MOST).map(|socket| socket.fd()).collect();
        let kind = match receive {
            Receive::Spin => WaitSet::Spin,
            Receive::Block | Receive::Poll => {
                let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                WaitSet::Poll(sockets.iter().copied().chain(idle.watched()).map(entry).collect())
            }
            Receive::Select => WaitSet::Select(Select::new(&sockets, &idle)?),
            Receive::Epoll => WaitSet::Epoll(Set::new(&sockets, &idle, None, None)?),
            Receive::EpollMod => WaitSet::Epoll(Set::new(&sockets, &idle, Some(libc::EPOLL_CTL_MOD), None)?),
            Receive::EpollAdddel => {
                let (add, delete) = (Some(libc::EPOLL_CTL_ADD), Some(libc::EPOLL_CTL_DEL));
                WaitSet::Epoll(Set::new(&sockets, &idle, add, delete)?)
            }
            Receive::Completion => return Err(NetError::OnlyWindows { mode: receive }),
        };
        Ok(Self { kind, sockets: sockets.len(), _idle: idle })
    }

    /// Waits by poll(2), with nothing else in the set. Errors: none that is known of.
    pub fn blocking(sockets: &[&GroupSocket]) -> Result<Self, NetError> {
        Self::new(sockets, Receive::Block, &IdleDescriptors::default())
    }

    /// Whether [`Self::wait`] returns at once: the owner polls.
    pub fn spins(&self) -> bool {
        matches!(self.kind, WaitSet::Spin)
    }

    /// Waits until a socket has something, `timeout_ns` are over, or a signal comes. Errors: the set is broken.
    #[inline]
    pub fn wait(&mut self, timeout_ns: u64) -> Result<Woken, PathError> {
        let all = [self.sockets > 0, self.sockets > 1];
        match &mut self.kind {
            WaitSet::Spin => Ok(Woken::Ready(all)),
            WaitSet::Poll(set) => {
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
            WaitSet::Select(select) => select.wait(timeout_ns),
            WaitSet::Epoll(set) => set.wait(timeout_ns),
        }
    }
}

/// pselect(2): select(2) with a time-out that is fine enough.
#[derive(Debug)]
struct Select {
    all: libc::fd_set,
    limit: c_int,
    sockets: [Option<RawFd>; MOST],
}

impl Select {
    fn new(sockets: &[RawFd], idle: &Idle) -> Result<Self, NetError> {
        let (all, limit) = select_set(sockets.iter().copied().chain(idle.watched()))?;
        Ok(Self { all, limit, sockets: [sockets.first().copied(), sockets.get(1).copied()] })
    }

    #[inline]
    fn wait(&self, timeout_ns: u64) -> Result<Woken, PathError> {
        // The call overwrites its set.
        let mut set = self.all;
        let time = timespec(timeout_ns);
        let null = std::ptr::null_mut();
        // SAFETY: `set` is initialised, `time` is valid, both live through the call; the other sets and the mask may be null.
        let result = unsafe { libc::pselect(self.limit, &raw mut set, null, null, &raw const time, std::ptr::null()) };
        if result <= 0 {
            return ended(result, "pselect");
        }
        // SAFETY: `set` is initialised, and the descriptors were found to be within its bits.
        Ok(Woken::Ready(self.sockets.map(|fd| fd.is_some_and(|fd| unsafe { libc::FD_ISSET(fd, &raw const set) }))))
    }
}

/// A set of epoll(7), and what is done to it for each socket before and after each wait.
#[derive(Debug)]
struct Set {
    epoll: EpollSet,
    sockets: Vec<RawFd>,
    before: Option<c_int>,
    after: Option<c_int>,
}

impl Set {
    fn new(sockets: &[RawFd], idle: &Idle, before: Option<c_int>, after: Option<c_int>) -> Result<Self, NetError> {
        let epoll = EpollSet::new(idle)?;
        // Otherwise each wait adds them.
        if before != Some(libc::EPOLL_CTL_ADD) {
            for (number, fd) in (0..).zip(sockets) {
                epoll.add(*fd, number)?;
            }
        }
        Ok(Self { epoll, sockets: sockets.to_vec(), before, after })
    }

    #[inline]
    fn each_socket(&self, operation: c_int) -> Result<(), PathError> {
        for (number, fd) in (0..).zip(&self.sockets) {
            if self.epoll.control(operation, *fd, number) < 0 {
                return Err(PathError::Failed { call: "epoll_ctl", errno: sys::errno() });
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&self, timeout_ns: u64) -> Result<Woken, PathError> {
        self.before.map_or(Ok(()), |operation| self.each_socket(operation))?;
        let woken = self.look(timeout_ns);
        // Also after a time-out and a signal: the set must be as it was.
        self.after.map_or(Ok(()), |operation| self.each_socket(operation))?;
        woken
    }

    #[inline]
    fn look(&self, timeout_ns: u64) -> Result<Woken, PathError> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST + 1];
        let result = epoll_wait(self.epoll.fd(), &mut events, timeout_ns);
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

fn timespec(ns: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / SECOND).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % SECOND).try_into().unwrap_or(0),
    }
}

/// epoll_pwait2(2) for short times (finer than ms); epoll_wait(2) for long ones and before Linux 5.11, rounded up.
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

#[cfg(test)]
mod tests {
    use super::super::{Carrier, GroupOptions};
    use super::*;
    use crate::address::RawAddress;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    const WAITING: [Receive; 6] =
        [Receive::Block, Receive::Poll, Receive::Select, Receive::Epoll, Receive::EpollMod, Receive::EpollAdddel];
    const LONG_NS: u64 = 10_000_000_000;

    /// A socket on the loopback interface, at a port of its own.
    fn socket() -> GroupSocket {
        let options = GroupOptions {
            carrier: Carrier::Udp { port: 0 },
            local: IpAddr::V4(Ipv4Addr::LOCALHOST),
            interface: crate::interface::index_of("lo").unwrap(),
            loopback: true,
            ttl: 1,
            router_alert: false,
            stamps: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            busy_poll_us: None,
        };
        GroupSocket::own(&options, true).unwrap()
    }

    fn address(socket: &GroupSocket) -> SocketAddr {
        let mut own = RawAddress::EMPTY;
        sys::getsockname(socket.fd(), own.room()).unwrap();
        own.decode().unwrap()
    }

    fn send(to: &GroupSocket) {
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address(to)).unwrap();
    }

    fn take(from: &GroupSocket) {
        assert_eq!(sys::recv(from.fd(), &mut [0; 10], libc::MSG_DONTWAIT), 1);
    }

    fn idle() -> IdleDescriptors {
        IdleDescriptors { pipes: 3, unix_datagrams: 2, udp: 2, ..IdleDescriptors::default() }
    }

    #[test]
    fn who_has_something_is_told_and_a_wait_ends_in_time() {
        let (first, second) = (socket(), socket());
        for mode in WAITING {
            for idle in [IdleDescriptors::default(), idle()] {
                let mut wait = GroupWait::new(&[&first, &second], mode, &idle).unwrap();
                assert!(!wait.spins());
                // Twice: the set has to be as it was after each end of a wait.
                for _ in 0..2 {
                    // Times below and above the one from which milliseconds are exact enough.
                    for time_ns in [0, 300_000, 21_000_000] {
                        let begin = Instant::now();
                        assert_eq!(wait.wait(time_ns).unwrap(), Woken::TimedOut, "{mode}");
                        assert!(begin.elapsed() >= Duration::from_nanos(time_ns), "{mode} {time_ns}");
                    }
                    send(&first);
                    assert_eq!(wait.wait(LONG_NS).unwrap(), Woken::Ready([true, false]), "{mode}");
                    send(&second);
                    assert_eq!(wait.wait(LONG_NS).unwrap(), Woken::Ready([true, true]), "{mode}");
                    take(&first);
                    assert_eq!(wait.wait(LONG_NS).unwrap(), Woken::Ready([false, true]), "{mode}");
                    take(&second);
                }
                let mut wait = GroupWait::new(&[&second], mode, &idle).unwrap();
                send(&first);
                assert_eq!(wait.wait(1_000_000).unwrap(), Woken::TimedOut, "{mode}: not in the set");
                take(&first);
            }
        }
    }

    #[test]
    fn who_spins_is_told_to_look() {
        let (first, second) = (socket(), socket());
        let mut wait = GroupWait::new(&[&first, &second], Receive::Spin, &idle()).unwrap();
        assert!(wait.spins());
        assert_eq!(wait.wait(LONG_NS).unwrap(), Woken::Ready([true, true]));
    }

    #[test]
    fn a_signal_ends_a_wait() {
        extern "C" fn nothing(_: c_int) {}
        // SAFETY: the handler does nothing at all, and no other test of this crate uses the signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        let only = socket();
        for mode in WAITING {
            let mut wait = GroupWait::new(&[&only], mode, &idle()).unwrap();
            let done = AtomicBool::new(false);
            // SAFETY: no arguments, cannot fail.
            let me = unsafe { libc::pthread_self() };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_millis(1));
                        // SAFETY: the thread waits for this one, so it exists.
                        unsafe { libc::pthread_kill(me, libc::SIGUSR2) };
                    }
                });
                let woken = wait.wait(LONG_NS);
                done.store(true, Ordering::Release);
                assert_eq!(woken.unwrap(), Woken::Interrupted, "{mode}");
            });
            send(&only);
            assert_eq!(wait.wait(LONG_NS).unwrap(), Woken::Ready([true, false]), "{mode}: the set is as it was");
            take(&only);
        }
    }

    #[test]
    fn select_says_where_it_ends() {
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap().0;
        if limit <= 1100 {
            eprintln!("SKIPPED select_says_where_it_ends: a process may have no more than {limit} descriptors here");
            return;
        }
        // A single high one, so that tests beside this one do not get such.
        let low = socket();
        // SAFETY: no pointers.
        let fd = sys::own(unsafe { libc::fcntl(low.fd(), libc::F_DUPFD_CLOEXEC, 1050) }).unwrap();
        let high = GroupSocket { fd, ..low };
        let error = GroupWait::new(&[&high], Receive::Select, &IdleDescriptors::default()).unwrap_err();
        assert!(matches!(error, NetError::SelectLimit { fd: 1050.. }), "{error}");
    }
}
