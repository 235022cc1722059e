//! recv and its relatives: attempts that do not wait, then the call itself.

use super::inherit::{each_in, inherited};
use super::until_ready::{is_blocking, when_ready};
use crate::spin::{Call, Spun};
use crate::table::{self, Entry, TABLE};
use crate::user::{self, Control, Incoming, NameBuffer};
use crate::{busy, errno, kernel, real, time};
use bypass_abi::page::{Kind, Outcome};
use libc::{
    MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_WAITALL, MSG_WAITFORONE, POLLIN, c_int, c_uint, c_void, iovec, mmsghdr,
    msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

/// Flags of calls that never wait.
const NEVER_WAITS: c_int = MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB;

/// A receive call: `attempt` does not wait, `real` is what the program called. Both get the descriptor.
#[inline(always)]
fn receive(
    fd: c_int,
    entry: &'static Entry,
    attempt: impl Fn(c_int) -> ssize_t,
    real: impl Fn(c_int) -> ssize_t,
) -> ssize_t {
    let errno = errno::get();
    let call = Call::new(Kind::Recv, Some(entry));
    let first = attempt(fd);
    if first >= 0 {
        call.count(Outcome::Ready);
        errno::set(errno);
        return first;
    }
    if !errno::would_wait() {
        return failed(fd, entry, errno, first, real);
    }
    wait(fd, entry, &call, errno, attempt, real)
}

/// A first attempt that failed. Where the number is no socket any more, the call itself has the answer.
#[cold]
fn failed(fd: c_int, entry: &'static Entry, errno: c_int, first: ssize_t, real: impl Fn(c_int) -> ssize_t) -> ssize_t {
    if errno::get() == libc::ENOTSOCK {
        errno::set(errno);
        table::forget(entry);
        return real(fd);
    }
    first
}

#[inline(always)]
fn wait(
    fd: c_int,
    entry: &'static Entry,
    call: &Call,
    errno: c_int,
    attempt: impl Fn(c_int) -> ssize_t,
    real: impl Fn(c_int) -> ssize_t,
) -> ssize_t {
    if !is_blocking(fd, entry) {
        errno::set(libc::EAGAIN);
        return -1;
    }
    let timeout_ns = kernel::timeout_ns(fd, libc::SO_RCVTIMEO);
    let began = if timeout_ns == u64::MAX { 0 } else { time::now_ns() };
    let spun = call.spin(timeout_ns, timeout_ns != u64::MAX, || {
        let got = attempt(fd);
        (got >= 0 || !errno::would_wait()).then_some(got)
    });
    let closed = matches!(spun, Spun::Closed);
    match spun {
        Spun::Found(got) => {
            if got >= 0 {
                errno::set(errno);
                busy::look_up(fd, entry);
            }
            got
        }
        Spun::Interrupted => fail(libc::EINTR),
        Spun::TimedOut => fail(libc::EAGAIN),
        Spun::Spent | Spun::Closed => {
            errno::set(errno);
            if timeout_ns == u64::MAX {
                call.sleep(fd, closed, real)
            } else {
                call.sleep(fd, closed, |fd| rest_of_timeout(fd, began.saturating_add(timeout_ns), errno, attempt))
            }
        }
    }
}

fn fail(error: c_int) -> ssize_t {
    errno::set(error);
    -1
}

/// Sleeps until there is something to receive, or until the socket's own time-out, a part of which the spin has used.
fn rest_of_timeout(fd: c_int, end_ns: u64, errno: c_int, attempt: impl Fn(c_int) -> ssize_t) -> ssize_t {
    loop {
        let rest = end_ns.saturating_sub(time::now_ns());
        if kernel::poll(&mut [pollfd { fd, events: POLLIN, revents: 0 }], rest) < 0 {
            return -1;
        }
        let got = attempt(fd);
        if got >= 0 {
            errno::set(errno);
        }
        if got >= 0 || !errno::would_wait() || rest == 0 {
            return got;
        }
    }
}

/// A receive call that may wait for more than there is at first: spins until there is something at all.
#[inline(always)]
fn receive_when_ready(fd: c_int, entry: &'static Entry, real: impl Fn(c_int) -> ssize_t) -> ssize_t {
    when_ready(fd, entry, Kind::Recv, libc::SO_RCVTIMEO, real)
}

/// Whether the call waits until its buffer is full.
fn fills(entry: &Entry, flags: c_int) -> bool {
    flags & MSG_WAITALL != 0 && entry.has(table::STREAM)
}

#[inline(always)]
fn receiving(fd: c_int, flags: c_int) -> Option<&'static Entry> {
    TABLE.spinning(fd).filter(|_| flags & NEVER_WAITS == 0)
}

/// A receive call with flags: on the stack in this process, or spinning. `call` is the C library's, with flags.
#[inline(always)]
unsafe fn receive_any(
    fd: c_int,
    (parts, count): (*const iovec, usize),
    name: NameBuffer,
    flags: c_int,
    call: impl Fn(c_int, c_int) -> ssize_t,
) -> ssize_t {
    if user::entry(fd).is_some() && flags & MSG_ERRQUEUE == 0 {
        // SAFETY: the caller's promises about buffers and address.
        let mut incoming = unsafe { Incoming::new(parts, count, flags, name, Control::NONE) };
        if let Some(got) = user::receive(fd, &mut incoming, |more| call(fd, flags | more)) {
            return got;
        }
    }
    receive_from_kernel(fd, flags, call)
}

#[inline(always)]
fn receive_from_kernel(fd: c_int, flags: c_int, call: impl Fn(c_int, c_int) -> ssize_t) -> ssize_t {
    match receiving(fd, flags) {
        None => call(fd, flags),
        Some(entry) if fills(entry, flags) => receive_when_ready(fd, entry, |fd| call(fd, flags)),
        Some(entry) => receive(fd, entry, |fd| call(fd, flags | MSG_DONTWAIT), |fd| call(fd, flags)),
    }
}

/// recvmsg of a socket on the stack in this process.
unsafe fn receive_message(fd: c_int, message: *mut msghdr, flags: c_int) -> Option<ssize_t> {
    if flags & MSG_ERRQUEUE != 0 {
        return None;
    }
    user::entry(fd)?;
    // SAFETY: a message, as of recvmsg(2).
    unsafe {
        let given = message.as_mut()?;
        let name = NameBuffer::new(given.msg_name.cast(), &raw mut given.msg_namelen);
        let control = Control::new(given.msg_control, given.msg_controllen);
        let mut incoming = Incoming::new(given.msg_iov, given.msg_iovlen, flags, name, control);
        let got = user::receive(fd, &mut incoming, |more| real::recvmsg.get()(fd, message, flags | more))?;
        if got >= 0 && !incoming.is_kernels {
            (*message).msg_flags = incoming.message_flags;
            (*message).msg_controllen = incoming.control.used() as _;
            let is_datagram = table::entry(fd).is_some_and(|entry| !entry.has(table::STREAM));
            if (*message).msg_name.is_null() || !is_datagram {
                (*message).msg_namelen = 0;
            }
        }
        Some(got)
    }
}

/// recvmmsg of a socket on the stack in this process: message by message.
unsafe fn receive_messages(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    mut flags: c_int,
    timeout: *const timespec,
) -> Option<c_int> {
    user::entry(fd)?;
    // SAFETY: null or a time, as of recvmmsg(2).
    let end = unsafe { time::from_timespec(timeout) }.map(|ns| time::now_ns().saturating_add(ns));
    let mut got = 0;
    for at in 0..count.min(1024) as usize {
        // SAFETY: `count` messages, as of recvmmsg(2).
        let length = unsafe {
            let message = messages.add(at);
            let length = receive_message(fd, &raw mut (*message).msg_hdr, flags & !MSG_WAITFORONE);
            if let Some(length @ 0..) = length {
                (*message).msg_len = u32::try_from(length).unwrap_or(u32::MAX);
            }
            length
        };
        match length {
            None if got == 0 => return None,
            None | Some(..0) => return Some(if got > 0 { got } else { -1 }),
            Some(_) => got += 1,
        }
        if flags & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        if !timeout.is_null() && end.is_some_and(|end| time::now_ns() >= end) {
            break;
        }
    }
    Some(got)
}

/// recvmsg into parts, without anything else: readv that need not wait.
unsafe fn receive_parts(fd: c_int, parts: *const iovec, count: usize, flags: c_int) -> ssize_t {
    // SAFETY: a message is plain data; the caller's promises about the parts, which are only read.
    unsafe {
        let mut message: msghdr = std::mem::zeroed();
        message.msg_iov = parts.cast_mut();
        message.msg_iovlen = count as _;
        real::recvmsg.get()(fd, &raw mut message, flags)
    }
}

exports! {
    pub(super) fn recv(fd: c_int, data: *mut c_void, size: size_t, flags: c_int) -> ssize_t {
        let part = iovec { iov_base: data, iov_len: size };
        receive_any(fd, (&raw const part, 1), NameBuffer::NONE, flags, |fd, flags| real::recv.get()(fd, data, size, flags))
    }

    /// recv of programs compiled with checks of buffers (_FORTIFY_SOURCE). Where the check fails the C library ends the process.
    fn __recv_chk(fd: c_int, data: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t {
        if size > room {
            return real::__recv_chk.get()(fd, data, size, room, flags);
        }
        recv(fd, data, size, flags)
    }

    fn recvfrom(
        fd: c_int, data: *mut c_void, size: size_t, flags: c_int, from: *mut sockaddr, from_size: *mut socklen_t,
    ) -> ssize_t {
        let part = iovec { iov_base: data, iov_len: size };
        let call = |fd, flags| real::recvfrom.get()(fd, data, size, flags, from, from_size);
        receive_any(fd, (&raw const part, 1), NameBuffer::new(from, from_size), flags, call)
    }

    fn __recvfrom_chk(
        fd: c_int, data: *mut c_void, size: size_t, room: size_t, flags: c_int, from: *mut sockaddr, from_size: *mut socklen_t,
    ) -> ssize_t {
        if size > room {
            return real::__recvfrom_chk.get()(fd, data, size, room, flags, from, from_size);
        }
        recvfrom(fd, data, size, flags, from, from_size)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        if let Some(got) = receive_message(fd, message, flags) {
            return got;
        }
        let spins = receiving(fd, flags).is_some();
        let got = receive_from_kernel(fd, flags, |fd, flags| real::recvmsg.get()(fd, message, flags));
        if got >= 0 && !spins {
            each_in(message, inherited);
        }
        got
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        if let Some(got) = receive_messages(fd, messages, count, flags, timeout) {
            return got;
        }
        let call = |fd: c_int, flags: c_int| real::recvmmsg.get()(fd, messages, count, flags, timeout);
        // Its own time-out is only looked at after each message: the kernel knows best.
        let Some(entry) = receiving(fd, flags).filter(|_| timeout.is_null() && count > 0) else { return call(fd, flags) };
        let wide = |fd: c_int, flags: c_int| call(fd, flags) as ssize_t;
        let got = if (count == 1 || flags & MSG_WAITFORONE != 0) && !fills(entry, flags) {
            receive(fd, entry, |fd| wide(fd, flags | MSG_DONTWAIT), |fd| wide(fd, flags))
        } else {
            receive_when_ready(fd, entry, |fd| wide(fd, flags))
        };
        c_int::try_from(got).unwrap_or(-1)
    }

    pub(super) fn read(fd: c_int, data: *mut c_void, size: size_t) -> ssize_t {
        let call = |fd: c_int| real::read.get()(fd, data, size);
        // Of nothing, read gives 0 at once where recv waits.
        if size == 0 {
            return call(fd);
        }
        if user::entry(fd).is_some() {
            let part = iovec { iov_base: data, iov_len: size };
            let mut incoming = Incoming::new(&raw const part, 1, 0, NameBuffer::NONE, Control::NONE);
            if let Some(got) = user::receive(fd, &mut incoming, |more| real::recv.get()(fd, data, size, more)) {
                return got;
            }
        }
        match TABLE.spinning(fd) {
            Some(entry) => receive(fd, entry, |fd| real::recv.get()(fd, data, size, MSG_DONTWAIT), call),
            None => call(fd),
        }
    }

    fn __read_chk(fd: c_int, data: *mut c_void, size: size_t, room: size_t) -> ssize_t {
        if size > room {
            return real::__read_chk.get()(fd, data, size, room);
        }
        read(fd, data, size)
    }

    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let call = |fd: c_int| real::readv.get()(fd, parts, count);
        let length = count.unsigned_abs() as usize;
        if !(1..=libc::UIO_MAXIOV).contains(&count) || parts.is_null() {
            return call(fd);
        }
        if user::entry(fd).is_some() {
            let mut incoming = Incoming::new(parts, length, 0, NameBuffer::NONE, Control::NONE);
            if let Some(got) = user::receive(fd, &mut incoming, |more| receive_parts(fd, parts, length, more)) {
                return got;
            }
        }
        let is_empty = || std::slice::from_raw_parts(parts, length).iter().all(|part| part.iov_len == 0);
        match TABLE.spinning(fd) {
            Some(entry) if !is_empty() => receive(fd, entry, |fd| receive_parts(fd, parts, length, MSG_DONTWAIT), call),
            _ => call(fd),
        }
    }
}
