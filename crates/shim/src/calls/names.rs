//! Calls that name, set and end sockets: passed on, but for what only the stack in this process knows.

use crate::table::{self, EPOLL, INSTANCE, TABLE};
use crate::user::{self, NameBuffer};
use crate::{errno, page, real};
use bypass_abi::page::Reason;
use libc::{c_int, c_long, c_ulong, c_void, sockaddr, sockaddr_in, socklen_t};

/// The entry of a socket that might come to the stack.
fn socket(fd: c_int) -> Option<&'static table::Entry> {
    table::socket(fd).filter(|_| user::is_enabled())
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

exports! {
    fn bind(fd: c_int, to: *const sockaddr, size: socklen_t) -> c_int {
        let bound = real::bind.get()(fd, to, size);
        if bound == 0 || errno::get() != libc::EADDRINUSE || size < 4 || socket(fd).is_none() {
            return bound;
        }
        // The kernel has read more than this; both families have the port at this place.
        let port = u16::from_be((&raw const (*to.cast::<sockaddr_in>()).sin_port).read_unaligned());
        if !user::release_guard(port) {
            errno::set(libc::EADDRINUSE);
            return -1;
        }
        real::bind.get()(fd, to, size)
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        let done = real::listen.get()(fd, backlog);
        if done == 0
            && let Some(entry) = socket(fd).filter(|entry| entry.has(table::STREAM) && entry.on_stack().is_none())
        {
            TABLE.listens(entry, backlog);
            // At once: a connection that the kernel makes meanwhile is the kernel's.
            user::listens(fd, entry);
        }
        done
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        user::shut_down(fd, how).unwrap_or_else(|| real::shutdown.get()(fd, how))
    }

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, size: *mut socklen_t) -> c_int {
        let on_stack = user::get(fd, level, name, value, size);
        on_stack.unwrap_or_else(|| real::getsockopt.get()(fd, level, name, value, size))
    }

    fn getsockname(fd: c_int, to: *mut sockaddr, size: *mut socklen_t) -> c_int {
        let on_stack = user::name(fd, false, NameBuffer::new(to, size));
        on_stack.unwrap_or_else(|| real::getsockname.get()(fd, to, size))
    }

    fn getpeername(fd: c_int, to: *mut sockaddr, size: *mut socklen_t) -> c_int {
        let on_stack = user::name(fd, true, NameBuffer::new(to, size));
        on_stack.unwrap_or_else(|| real::getpeername.get()(fd, to, size))
    }

    /// A process that gives up system calls may be ended by one that only this library makes. (PR_SET_NO_NEW_PRIVS comes before a
    /// filter, but haproxy and others set it alone.) Unused arguments hold whatever the registers hold.
    fn prctl(what: c_int, one: c_ulong, two: c_ulong, three: c_ulong, four: c_ulong) -> c_int {
        if what == libc::PR_SET_SECCOMP {
            leave_all();
        }
        real::prctl.get()(what, one, two, three, four)
    }

    /// seccomp(2) and io_uring_setup(2) have no functions of their own in the C library: libseccomp, libuv and others call them by
    /// number. A ring passes by this library, so programs get the answer of a kernel without one, and do without.
    fn syscall(
        number: c_long, one: c_ulong, two: c_ulong, three: c_ulong, four: c_ulong, five: c_ulong, six: c_ulong,
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
        real::syscall.get()(number, one, two, three, four, five, six)
    }

    /// The end of the process without the C library's other duties.
    fn _exit(code: c_int) {
        crate::end();
        real::_exit.get()(code);
    }

    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Exit(code: c_int) {
        _exit(code);
    }
}
