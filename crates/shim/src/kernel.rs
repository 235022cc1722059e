//! Calls of the kernel that are safe to make: they take numbers and values of this library.

use crate::{errno, real, time};
use libc::{SOL_SOCKET, c_int, c_short, pollfd, socklen_t};

pub(crate) fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    // SAFETY: takes numbers only.
    unsafe { real::fcntl.get()(fd, command, argument) }
}

pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    let flags = fcntl(fd, libc::F_GETFL, 0);
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

pub(crate) fn closes_on_exec(fd: c_int) -> bool {
    fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0
}

/// Closes a descriptor; errno stays.
pub(crate) fn close(fd: c_int) {
    let before = errno::get();
    // SAFETY: the caller's own, which no other code uses.
    unsafe { real::close.get()(fd) };
    errno::set(before);
}

/// A socket of the kernel, without an entry in the table; negative: none.
pub(crate) fn socket(is_v6: bool, kind: c_int) -> c_int {
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: takes numbers only.
    unsafe { real::socket.get()(family, kind, 0) }
}

pub(crate) fn shut_down(fd: c_int, how: c_int) {
    // SAFETY: takes numbers only.
    unsafe { real::shutdown.get()(fd, how) };
}

/// poll of one descriptor: what it is ready for, or 0; negative: an error. `ms`: -1 waits without end.
pub(crate) fn poll_one(fd: c_int, events: c_short, ms: c_int) -> c_int {
    let mut one = pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    let ready = unsafe { real::poll.get()(&raw mut one, 1, ms) };
    if ready > 0 { c_int::from(one.revents) } else { ready }
}

pub(crate) fn poll(fds: &mut [pollfd], ns: u64) -> c_int {
    let time = time::to_timespec(ns);
    // SAFETY: entries, a time, no mask.
    unsafe { real::ppoll.get()(fds.as_mut_ptr(), fds.len() as _, &raw const time, std::ptr::null()) }
}

pub(crate) fn set_option<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &T) -> bool {
    let size = socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the kernel reads a value of this size.
    unsafe { real::setsockopt.get()(fd, level, name, std::ptr::from_ref(value).cast(), size) == 0 }
}

/// An option's value, and its length.
pub(crate) type Value = ([u8; 16], socklen_t);

/// An option of at most 16 bytes.
pub(crate) fn value(fd: c_int, (level, name): (c_int, c_int)) -> Option<Value> {
    let (mut bytes, mut size) = ([0; 16], 16);
    // SAFETY: the kernel writes no more than the size.
    let done = unsafe { real::getsockopt.get()(fd, level, name, bytes.as_mut_ptr().cast(), &raw mut size) };
    (done == 0).then_some((bytes, size))
}

pub(crate) fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let ([b0, b1, b2, b3, ..], _) = value(fd, (level, name))?;
    Some(c_int::from_ne_bytes([b0, b1, b2, b3]))
}

/// SO_RCVTIMEO or SO_SNDTIMEO in ns; `u64::MAX` without one.
pub(crate) fn timeout_ns(fd: c_int, option: c_int) -> u64 {
    let part = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let ns = value(fd, (SOL_SOCKET, option)).map_or(0, |(bytes, _)| {
        let (s, us) = bytes.split_at(8);
        part(s).saturating_mul(1_000_000_000).saturating_add(part(us) * 1000)
    });
    if ns == 0 { u64::MAX } else { ns }
}

/// Has a socket drop what a program of classic BPF selects. Whether the kernel allows it.
pub(crate) fn attach_filter(fd: c_int, code: &mut [libc::sock_filter]) -> bool {
    let program = libc::sock_fprog { len: u16::try_from(code.len()).unwrap_or(0), filter: code.as_mut_ptr() };
    set_option(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

pub(crate) fn detach_filter(fd: c_int) {
    set_option(fd, SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
}

/// Writes to an eventfd, which wakes whoever waits for it.
pub(crate) fn wake(wake_fd: c_int) {
    let one: u64 = 1;
    // SAFETY: eight bytes, which is what an eventfd takes.
    unsafe { libc::syscall(libc::SYS_write, wake_fd, &raw const one, 8) };
}

/// Reads an eventfd, so that it can wake again.
pub(crate) fn take_wake(wake_fd: c_int) {
    let mut count: u64 = 0;
    // SAFETY: reads the eight bytes of an eventfd.
    unsafe { libc::syscall(libc::SYS_read, wake_fd, &raw mut count, 8) };
}

/// Sends the calling thread the signal of a connection without a reader.
pub(crate) fn raise_pipe() {
    // SAFETY: a signal to the calling thread, as the kernel sends it.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
}
