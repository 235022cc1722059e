//! Calls that make, copy, change and close descriptors: what the table knows comes from here.

use crate::{errno, page, real, table, thread, user};
use bypass_abi::page::Reason;
use libc::{
    AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET,
    c_int, c_uint, c_ulong, c_void, epoll_event, msghdr, socklen_t,
};

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: takes numbers only.
    let fd = unsafe { real::socket.get()(domain, kind, protocol) };
    if fd >= 0 {
        let flags = kind & SOCK_NONBLOCK;
        let kind = kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC);
        // One that the stack makes for itself is the kernel's.
        table::open(fd, if thread::is_in_stack() { 0 } else { flags_of(domain, kind, protocol, flags != 0) });
    }
    fd
}

/// Flags of a socket; none where it is not accelerated.
fn flags_of(domain: c_int, kind: c_int, protocol: c_int, is_nonblocking: bool) -> u32 {
    if !matches!(domain, AF_INET | AF_INET6) || !matches!(kind, SOCK_STREAM | SOCK_DGRAM) {
        page::fall_back(None, Reason::OtherSocket);
        return 0;
    }
    // UDP-Lite, MPTCP, SCTP and ICMP are datagrams or streams, too, and can spin.
    let is_known = matches!((kind, protocol), (SOCK_STREAM, 0 | IPPROTO_TCP) | (SOCK_DGRAM, 0 | IPPROTO_UDP));
    let mut flags = table::SOCKET;
    for (flag, has) in [
        (table::STREAM, kind == SOCK_STREAM),
        (table::IPV6, domain == AF_INET6),
        (table::NONBLOCK, is_nonblocking),
        (table::UNKNOWN_OPTION, !is_known),
    ] {
        if has {
            flags |= flag;
        }
    }
    // A stream comes there when it connects or listens.
    if user::is_enabled() && kind == SOCK_DGRAM && is_known {
        flags |= table::CANDIDATE;
    }
    flags
}

/// Notes a connection that a listening socket gave.
pub(crate) fn accepted(listening: c_int, fd: c_int, flags: c_int) {
    let Some(from) = table::entry(listening).filter(|entry| entry.has(table::SOCKET)) else {
        // What listens is unknown, or not of the internet; what came out of it has a number that may have been a socket's.
        table::open(fd, 0);
        return;
    };
    let kept = [table::SOCKET, table::STREAM, table::IPV6, table::PARTIAL].into_iter().filter(|flag| from.has(*flag));
    let nonblocking = if flags & SOCK_NONBLOCK != 0 { table::NONBLOCK } else { 0 };
    table::open(fd, kept.fold(nonblocking, |all, flag| all | flag));
}

/// Looks up a descriptor that came from elsewhere: inherited at the start, or received from another process.
pub(crate) fn inherited(fd: c_int) {
    let option = |name: c_int| {
        let mut value: c_int = 0;
        let mut size: socklen_t = 4;
        // SAFETY: the kernel writes no more than `size` bytes, which is the size of `value`.
        let done = unsafe { libc::getsockopt(fd, SOL_SOCKET, name, (&raw mut value).cast(), &raw mut size) };
        (done == 0).then_some(value)
    };
    let (Some(domain), Some(kind), Some(protocol)) =
        (option(libc::SO_DOMAIN), option(libc::SO_TYPE), option(libc::SO_PROTOCOL))
    else {
        table::open(fd, 0);
        return;
    };
    // SAFETY: takes numbers only.
    let status = unsafe { real::fcntl.get()(fd, libc::F_GETFL) };
    let mut flags = flags_of(domain, kind, protocol, status & libc::O_NONBLOCK != 0);
    if flags != 0 {
        flags |= table::SHARED;
    }
    if flags != 0 && user::is_enabled() && option(libc::SO_ACCEPTCONN) == Some(1) {
        flags |= table::CANDIDATE | table::LISTENS;
    }
    if flags != 0 && option(libc::SO_RCVLOWAT).is_some_and(|bytes| bytes > 1) {
        flags |= table::PARTIAL;
    }
    table::open(fd, flags);
}

/// The descriptors in a message.
pub(super) unsafe fn each_in(message: *const msghdr, found: fn(c_int)) {
    // SAFETY: a message that is sent, or that the kernel has filled; its control data are walked as cmsg(3) says.
    unsafe {
        if (*message).msg_controllen == 0 {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = header.as_ref() {
            if control.cmsg_level == SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
                let bytes = control.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                (0..bytes / size_of::<c_int>()).for_each(|at| found(data.add(at).read_unaligned()));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    size: socklen_t,
) -> c_int {
    // SAFETY: passed on as they came.
    let done = unsafe { real::setsockopt.get()(fd, level, name, value, size) };
    if done == 0 && user::is_enabled() && !thread::is_in_stack() {
        // SAFETY: the kernel has read it.
        unsafe { user::set(fd, level, name, value, size) };
    }
    if done == 0
        && level == SOL_SOCKET
        && matches!(name, libc::SO_RCVLOWAT | libc::SO_PEEK_OFF)
        && let Some(entry) = table::entry(fd).filter(|entry| entry.has(table::SOCKET))
    {
        // SAFETY: the kernel has read an int from there.
        let value = unsafe { value.cast::<c_int>().read_unaligned() };
        if (name == libc::SO_RCVLOWAT && value > 1) || (name == libc::SO_PEEK_OFF && value >= 0) {
            entry.set(table::PARTIAL);
            if entry.has(table::SHARED) {
                table::mark_shared(table::PARTIAL);
            }
            // A connection on the stack in this process obeys it.
            if !user::is_enabled() || !entry.has(table::STREAM) || name != libc::SO_RCVLOWAT {
                page::fall_back(Some(entry), Reason::PartialReceive);
            }
        }
    }
    done
}

/// Notes whether the open file of a descriptor blocks.
fn set_blocking(fd: c_int, blocks: bool) {
    let Some(entry) = table::entry(fd).filter(|entry| entry.has(table::SOCKET)) else { return };
    for one in table::same(entry) {
        match (blocks, one.has(table::NONBLOCK)) {
            (true, true) => {
                one.clear(table::NONBLOCK);
                page::accelerated(one);
            }
            (false, false) => {
                one.set(table::NONBLOCK);
                // On the stack in this process it is accelerated all the same.
                if !one.has_any(table::ON_STACK | table::CANDIDATE) {
                    page::fall_back(Some(one), Reason::NonBlocking);
                }
            }
            _ => {}
        }
    }
}

/// fcntl takes one more argument at most, a number or a pointer; the same registers hold it.
#[inline(always)]
fn control(fd: c_int, command: c_int, argument: c_ulong, real: impl FnOnce() -> c_int) -> c_int {
    let result = real();
    if result >= 0 {
        match command {
            libc::F_SETFL => set_blocking(fd, argument & c_ulong::from(libc::O_NONBLOCK.unsigned_abs()) == 0),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => table::duplicate(fd, result),
            _ => {}
        }
    }
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: passed on as they came.
    control(fd, command, argument, || unsafe { real::fcntl.get()(fd, command, argument) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: passed on as they came.
    control(fd, command, argument, || unsafe { real::fcntl64.get()(fd, command, argument) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promises about the argument.
    if let Some(done) = unsafe { user::ioctl(fd, request, argument) } {
        return done;
    }
    // SAFETY: passed on as they came.
    let done = unsafe { real::ioctl.get()(fd, request, argument) };
    if done == 0 && request == libc::FIONBIO {
        // SAFETY: the kernel has read an int from there.
        set_blocking(fd, unsafe { argument.cast::<c_int>().read_unaligned() } == 0);
    }
    done
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(super) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if table::entry(fd).is_some_and(|entry| entry.has_any(table::OWN)) && !thread::is_in_stack() {
        // Programs close all numbers that there may be.
        errno::set(libc::EBADF);
        return -1;
    }
    table::closing(fd);
    // SAFETY: passed on as it came.
    unsafe { real::close.get()(fd) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: passed on as they came, but for this library's own.
    let real = |first, last| unsafe { real::close_range.get()(first, last, flags) };
    let only_marks = flags & libc::CLOSE_RANGE_CLOEXEC.cast_signed() != 0;
    if only_marks || first > last || !page::is_own_process() {
        return real(first, last);
    }
    // What the kernel refuses closes nothing. No descriptor has the highest number.
    if real(c_uint::MAX, c_uint::MAX) != 0 {
        return -1;
    }
    table::closing_range(first, last);
    between_own(first, last, real)
}

/// Closes a range, less what is this library's own in it.
fn between_own(first: c_uint, last: c_uint, close: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    let mut from = first;
    for own in table::own(first, last) {
        if own > from && close(from, own - 1) != 0 {
            return -1;
        }
        from = own + 1;
    }
    if from <= last { close(from, last) } else { 0 }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    let first = u32::try_from(first).unwrap_or(0);
    if page::is_own_process() {
        table::closing_range(first, c_uint::MAX);
        between_own(first, c_uint::MAX, |first, last| {
            // SAFETY: takes numbers only.
            unsafe {
                if last == c_uint::MAX {
                    real::closefrom.get()(first.cast_signed());
                } else {
                    (first..=last).for_each(|fd| _ = real::close.get()(fd.cast_signed()));
                }
            }
            0
        });
        return;
    }
    // SAFETY: takes a number.
    unsafe { real::closefrom.get()(first.cast_signed()) };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: passed on as it came.
    let new = unsafe { real::dup.get()(fd) };
    table::duplicate(fd, new);
    new
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    replace(fd, to, || {
        // SAFETY: passed on as they came.
        unsafe { real::dup2.get()(fd, to) }
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    replace(fd, to, || {
        // SAFETY: passed on as they came.
        unsafe { real::dup3.get()(fd, to, flags) }
    })
}

/// A copy that takes the place of another descriptor.
fn replace(fd: c_int, to: c_int, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: takes numbers only.
    let is_open = fd != to && unsafe { real::fcntl.get()(fd, libc::F_GETFD) } >= 0;
    if is_open {
        table::closing(to);
    }
    let new = real();
    if page::is_own_process() {
        table::duplicate(fd, new);
    }
    new
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: takes a number.
    let fd = unsafe { real::epoll_create.get()(size) };
    table::open(fd, table::INSTANCE);
    fd
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: takes a number.
    let fd = unsafe { real::epoll_create1.get()(flags) };
    table::open(fd, table::INSTANCE);
    fd
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_ctl(fd: c_int, what: c_int, of: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: the caller's promises about the event.
    let on_stack = if user::is_enabled() { unsafe { user::control(fd, what, of, event) } } else { None };
    // SAFETY: passed on as they came.
    let done = on_stack.unwrap_or_else(|| unsafe { real::epoll_ctl.get()(fd, what, of, event) });
    if done == 0 && what == libc::EPOLL_CTL_ADD && table::is_socket(of) {
        table::add_to_epoll(fd);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_has_two_protocols() {
        for (kind, protocol, is_known) in [
            (SOCK_STREAM, 0, true),
            (SOCK_STREAM, IPPROTO_TCP, true),
            (SOCK_STREAM, libc::IPPROTO_MPTCP, false),
            (SOCK_STREAM, libc::IPPROTO_SCTP, false),
            (SOCK_DGRAM, 0, true),
            (SOCK_DGRAM, IPPROTO_UDP, true),
            (SOCK_DGRAM, libc::IPPROTO_UDPLITE, false),
            (SOCK_DGRAM, libc::IPPROTO_ICMP, false),
        ] {
            let flags = flags_of(AF_INET, kind, protocol, false);
            assert_eq!(flags & table::UNKNOWN_OPTION == 0, is_known, "{kind} {protocol}");
        }
    }
}
