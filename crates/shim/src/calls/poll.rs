//! poll, ppoll and the waiting calls of epoll: the same call with a time-out of 0, then with what is left of its own.

use crate::spin::{Call, Spun};
use crate::table::{self, Entry, TABLE};
use crate::time::{self, NOW, from_ms, from_timespec, ms_of, sleep_for};
use crate::{busy, errno, real, thread, user};
use bypass_abi::page::{Kind, Outcome};
use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, size_t, timespec};
use std::ptr::null;

/// Waits for several descriptors: `attempt` does not wait, `sleep` waits the rest in ns (`u64::MAX`: without end).
#[inline(always)]
pub(super) fn wait(
    kind: Kind,
    timeout_ns: u64,
    mut attempt: impl FnMut() -> c_int,
    sleep: impl FnOnce(u64) -> c_int,
) -> c_int {
    let errno = errno::get();
    let call = Call::new(kind, None);
    let first = attempt();
    if first != 0 {
        call.count(Outcome::Ready);
        return first;
    }
    let began = time::now_ns();
    match call.spin(timeout_ns, true, || Some(attempt()).filter(|ready| *ready != 0)) {
        Spun::Found(ready) => {
            if ready > 0 {
                errno::set(errno);
            }
            ready
        }
        Spun::Interrupted => {
            errno::set(libc::EINTR);
            -1
        }
        Spun::TimedOut | Spun::Spent | Spun::Closed => {
            errno::set(errno);
            let rest = match timeout_ns {
                u64::MAX => u64::MAX,
                _ => timeout_ns.saturating_sub(time::now_ns().saturating_sub(began)),
            };
            let ready = sleep(rest);
            thread::slept();
            ready
        }
    }
}

/// Whether one of the descriptors is a socket of the stack.
unsafe fn has_socket(fds: *const pollfd, count: nfds_t) -> bool {
    if fds.is_null() {
        return false;
    }
    // SAFETY: `count` entries, as of poll(2).
    let fds = usize::try_from(count).map(|count| unsafe { std::slice::from_raw_parts(fds, count) });
    fds.is_ok_and(|fds| fds.iter().any(|one| TABLE.is_socket(one.fd)))
}

/// poll with sockets of the stack in this process among the descriptors.
pub(super) unsafe fn poll_stack(
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ns: u64,
    mask: *const sigset_t,
    kind: Kind,
) -> Option<c_int> {
    if !user::is_enabled() || fds.is_null() {
        return None;
    }
    // SAFETY: `count` entries, as of poll(2).
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, usize::try_from(count).ok()?) };
    user::poll(&mut user::Polled { fds, timeout_ns, mask, kind })
}

/// Whether the buffer of `room` bytes holds this many entries.
fn fits(count: nfds_t, room: size_t) -> bool {
    usize::try_from(count).is_ok_and(|count| room / size_of::<pollfd>() >= count)
}

/// The entry of an epoll instance that has a socket of the stack.
#[inline(always)]
fn epoll(fd: c_int) -> Option<&'static Entry> {
    table::entry(fd).filter(|entry| entry.has(table::EPOLL) && !TABLE.has_left())
}

/// The waiting calls of epoll with a time-out in ms, negative for none, which `real` gets.
#[inline(always)]
unsafe fn epoll_ms(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
    real: impl Fn(c_int) -> c_int,
) -> c_int {
    let timeout_ns = from_ms(timeout);
    // SAFETY: the caller's promises about the pointers are those of epoll_pwait(2).
    if let Some(ready) = unsafe { epoll_stack(fd, events, most, timeout_ns, mask) } {
        return ready;
    }
    let Some(entry) = epoll(fd).filter(|_| timeout != 0) else { return real(timeout) };
    busy::set_epoll(fd, entry);
    let attempt = || attempt_epoll(mask, || real(0));
    wait(Kind::Epoll, timeout_ns, attempt, |rest| match rest {
        u64::MAX => real(-1),
        // In whole ms it would be longer or shorter than asked for.
        _ if real::epoll_pwait2.exists() => {
            // SAFETY: as above.
            let done = sleep_for(rest, |rest| unsafe { real::epoll_pwait2.get()(fd, events, most, rest, mask) });
            if done < 0 && errno::get() == libc::ENOSYS { real(ms_of(rest)) } else { done }
        }
        _ => real(ms_of(rest)),
    })
}

/// A call of epoll that does not wait. Unlike ppoll it lets no signal in that only the call's own mask allows.
#[inline(always)]
fn attempt_epoll(mask: *const sigset_t, call: impl FnOnce() -> c_int) -> c_int {
    let ready = call();
    if ready != 0 || mask.is_null() {
        return ready;
    }
    // SAFETY: no descriptors, a time, and the caller's mask.
    unsafe { real::ppoll.get()(std::ptr::null_mut(), 0, &raw const NOW, mask) }
}

/// The waiting calls of epoll where sockets of the stack in this process may be in the instance, or may come to be.
unsafe fn epoll_stack(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ns: u64,
    mask: *const sigset_t,
) -> Option<c_int> {
    if !user::is_enabled() {
        return None;
    }
    if let Some(entry) = epoll(fd) {
        busy::set_epoll(fd, entry);
    }
    // SAFETY: the caller's promises about the pointers are those of epoll_pwait(2).
    unsafe { user::wait_epoll(fd, events, most, timeout_ns, mask) }
}

exports! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        if let Some(ready) = poll_stack(fds, count, from_ms(timeout), null(), Kind::Poll) {
            return ready;
        }
        if timeout == 0 || !has_socket(fds, count) {
            return real::poll.get()(fds, count, timeout);
        }
        let sleep = |time| real::ppoll.get()(fds, count, time, null());
        wait(Kind::Poll, from_ms(timeout), || real::poll.get()(fds, count, 0), |rest| sleep_for(rest, sleep))
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
        if !fits(count, room) {
            return real::__poll_chk.get()(fds, count, timeout, room);
        }
        poll(fds, count, timeout)
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        let real = |timeout: *const timespec| real::ppoll.get()(fds, count, timeout, mask);
        if let Some(ready) = from_timespec(timeout).and_then(|ns| poll_stack(fds, count, ns, mask, Kind::Poll)) {
            return ready;
        }
        let Some(timeout_ns) = from_timespec(timeout).filter(|ns| *ns > 0 && has_socket(fds, count)) else {
            return real(timeout);
        };
        wait(Kind::Poll, timeout_ns, || real(&raw const NOW), |rest| sleep_for(rest, real))
    }

    fn __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t,
    ) -> c_int {
        if !fits(count, room) {
            return real::__ppoll_chk.get()(fds, count, timeout, mask, room);
        }
        ppoll(fds, count, timeout, mask)
    }

    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        epoll_ms(fd, events, most, timeout, null(), |timeout| real::epoll_wait.get()(fd, events, most, timeout))
    }

    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int {
        epoll_ms(fd, events, most, timeout, mask, |timeout| real::epoll_pwait.get()(fd, events, most, timeout, mask))
    }

    fn epoll_pwait2(
        fd: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        let real = |timeout: *const timespec| real::epoll_pwait2.get()(fd, events, most, timeout, mask);
        if let Some(ready) = from_timespec(timeout).and_then(|ns| epoll_stack(fd, events, most, ns, mask)) {
            return ready;
        }
        let Some(timeout_ns) = from_timespec(timeout).filter(|ns| *ns > 0) else { return real(timeout) };
        let Some(entry) = epoll(fd) else { return real(timeout) };
        busy::set_epoll(fd, entry);
        let attempt = || attempt_epoll(mask, || real(&raw const NOW));
        wait(Kind::Epoll, timeout_ns, attempt, |rest| sleep_for(rest, real))
    }
}
