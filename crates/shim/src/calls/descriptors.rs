//! Calls that make, copy, change and close descriptors: what the table knows comes from here.

use super::inherit::flags_of;
use crate::table::{self, TABLE};
use crate::{page, real, thread, user};
use bypass_abi::page::Reason;
use libc::{SOCK_CLOEXEC, SOCK_NONBLOCK, SOL_SOCKET, c_int, c_ulong, c_void, epoll_event, socklen_t};

/// Notes whether the open file of a descriptor blocks.
fn set_blocking(fd: c_int, blocks: bool) {
    let Some(entry) = table::socket(fd) else { return };
    for one in TABLE.same(entry) {
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
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => super::close::duplicate(fd, result),
            _ => {}
        }
    }
    result
}

/// After SO_RCVLOWAT or SO_PEEK_OFF was set, of a socket: an early receive call gives another result.
fn note_partial(fd: c_int, name: c_int, value: c_int) {
    let Some(entry) = table::socket(fd) else { return };
    if (name == libc::SO_RCVLOWAT && value > 1) || (name == libc::SO_PEEK_OFF && value >= 0) {
        entry.set(table::PARTIAL);
        if entry.has(table::SHARED) {
            TABLE.mark_shared(table::PARTIAL);
        }
        // A connection on the stack in this process obeys it.
        if !user::is_enabled() || !entry.has(table::STREAM) || name != libc::SO_RCVLOWAT {
            page::fall_back(Some(entry), Reason::PartialReceive);
        }
    }
}

exports! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let fd = real::socket.get()(domain, kind, protocol);
        if fd >= 0 {
            let flags = kind & SOCK_NONBLOCK;
            let kind = kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC);
            // One that the stack makes for itself is the kernel's.
            table::open(fd, if thread::is_in_stack() { 0 } else { flags_of(domain, kind, protocol, flags != 0) });
        }
        fd
    }

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) -> c_int {
        let done = real::setsockopt.get()(fd, level, name, value, size);
        // From here on the kernel has read the value.
        if done == 0 && user::is_enabled() && !thread::is_in_stack() {
            user::set(fd, level, name, value, size);
        }
        if done == 0 && level == SOL_SOCKET && matches!(name, libc::SO_RCVLOWAT | libc::SO_PEEK_OFF) {
            note_partial(fd, name, value.cast::<c_int>().read_unaligned());
        }
        done
    }

    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        control(fd, command, argument, || real::fcntl.get()(fd, command, argument))
    }

    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        control(fd, command, argument, || real::fcntl64.get()(fd, command, argument))
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        if let Some(done) = user::ioctl(fd, request, argument) {
            return done;
        }
        let done = real::ioctl.get()(fd, request, argument);
        if done == 0 && request == libc::FIONBIO {
            set_blocking(fd, argument.cast::<c_int>().read_unaligned() == 0);
        }
        done
    }

    fn epoll_create(size: c_int) -> c_int {
        let fd = real::epoll_create.get()(size);
        table::open(fd, table::INSTANCE);
        fd
    }

    fn epoll_create1(flags: c_int) -> c_int {
        let fd = real::epoll_create1.get()(flags);
        table::open(fd, table::INSTANCE);
        fd
    }

    fn epoll_ctl(fd: c_int, what: c_int, of: c_int, event: *mut epoll_event) -> c_int {
        let on_stack = if user::is_enabled() { user::control(fd, what, of, event) } else { None };
        let done = on_stack.unwrap_or_else(|| real::epoll_ctl.get()(fd, what, of, event));
        if done == 0 && what == libc::EPOLL_CTL_ADD && TABLE.is_socket(of) {
            table::add_to_epoll(fd);
        }
        done
    }
}
