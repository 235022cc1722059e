//! Calls that name, set and end sockets: passed on, but for what only the stack in this process knows.

use crate::table::{self, EPOLL, INSTANCE, TABLE};
use crate::{errno, page, real, user};
use bypass_abi::page::Reason;
use libc::{c_int, c_long, c_ulong, c_void, sockaddr, sockaddr_in, socklen_t};

/// The entry of a socket that might come to the stack.
fn socket(fd: c_int) -> Option<&'static table::Entry> {
    table::socket(fd).filter(|_| user::is_enabled())
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn bind(fd: c_int, to: *const sockaddr, size: socklen_t) -> c_int {
    // SAFETY: passed on as they came.
    let bound = unsafe { real::bind.get()(fd, to, size) };
    if bound == 0 || errno::get() != libc::EADDRINUSE || size < 4 || socket(fd).is_none() {
        return bound;
    }
    // SAFETY: the kernel has read more than this; both families have the port at this place.
    let port = u16::from_be(unsafe { (&raw const (*to.cast::<sockaddr_in>()).sin_port).read_unaligned() });
    if !user::release_guard(port) {
        errno::set(libc::EADDRINUSE);
        return -1;
    }
    // SAFETY: passed on as they came.
    unsafe { real::bind.get()(fd, to, size) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: passed on as they came.
    let done = unsafe { real::listen.get()(fd, backlog) };
    if done == 0
        && let Some(entry) = socket(fd).filter(|entry| entry.has(table::STREAM) && entry.on_stack().is_none())
    {
        TABLE.listens(entry, backlog);
        // At once: a connection that the kernel makes meanwhile is the kernel's.
        user::listens(fd, entry);
    }
    done
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: passed on as they came.
    user::shut_down(fd, how).unwrap_or_else(|| unsafe { real::shutdown.get()(fd, how) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    size: *mut socklen_t,
) -> c_int {
    // SAFETY: passed on as they came.
    unsafe {
        user::get(fd, level, name, value, size).unwrap_or_else(|| real::getsockopt.get()(fd, level, name, value, size))
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getsockname(fd: c_int, to: *mut sockaddr, size: *mut socklen_t) -> c_int {
    // SAFETY: passed on as they came.
    unsafe { user::name(fd, false, to, size).unwrap_or_else(|| real::getsockname.get()(fd, to, size)) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getpeername(fd: c_int, to: *mut sockaddr, size: *mut socklen_t) -> c_int {
    // SAFETY: passed on as they came.
    unsafe { user::name(fd, true, to, size).unwrap_or_else(|| real::getpeername.get()(fd, to, size)) }
}

/// Leaves all sockets to the kernel, but for those that are on the stack in this process already, and those to come.
#[cold]
fn leave_all() {
    if page::is_own_process() {
        // Instances may have sockets of the stack.
        let kept = if user::is_enabled() { INSTANCE | EPOLL } else { INSTANCE };
        TABLE.leave_all(kept, |entry| page::fall_back(Some(entry), Reason::Sandbox));
    }
}

/// A process that gives up system calls may be ended by one that only this library makes. (PR_SET_NO_NEW_PRIVS comes before a
/// filter, but haproxy and others set it alone.)
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn prctl(what: c_int, one: c_ulong, two: c_ulong, three: c_ulong, four: c_ulong) -> c_int {
    if what == libc::PR_SET_SECCOMP {
        leave_all();
    }
    // SAFETY: passed on as they came; unused arguments hold whatever the registers hold.
    unsafe { real::prctl.get()(what, one, two, three, four) }
}

/// seccomp(2) and io_uring_setup(2) have no functions of their own in the C library: libseccomp, libuv and others call them by number.
/// A ring passes by this library, so programs get the answer of a kernel without one, and do without.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    one: c_ulong,
    two: c_ulong,
    three: c_ulong,
    four: c_ulong,
    five: c_ulong,
    six: c_ulong,
) -> c_long {
    let sets = [libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER];
    if number == libc::SYS_seccomp && sets.iter().any(|mode| c_ulong::from(*mode) == one) {
        leave_all();
    }
    if number == libc::SYS_io_uring_setup && user::is_enabled() {
        page::fall_back(None, Reason::IoUring);
        errno::set(libc::ENOSYS);
        return -1;
    }
    // SAFETY: passed on as they came; unused arguments hold whatever is in their places.
    unsafe { real::syscall.get()(number, one, two, three, four, five, six) }
}

/// The end of the process without the C library's other duties.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn _exit(code: c_int) {
    crate::end();
    // SAFETY: passed on as it came.
    unsafe { real::_exit.get()(code) };
}

#[cfg_attr(not(test), unsafe(export_name = "_Exit"))]
unsafe extern "C-unwind" fn exit_now(code: c_int) {
    // SAFETY: passed on as it came.
    unsafe { _exit(code) };
}
