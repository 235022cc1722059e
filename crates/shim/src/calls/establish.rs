//! accept and connect: both wait for something that no call can try without waiting, so they spin on poll(2).

use super::until_ready::{spin_until_ready, when_ready};
use crate::spin::Call;
use crate::table::{self, Entry, TABLE};
use crate::user::{self, NameBuffer};
use crate::{errno, kernel, page, real};
use bypass_abi::page::{Kind, Outcome, Reason};
use libc::{POLLOUT, c_int, sockaddr, socklen_t};

#[inline(always)]
fn accept_any(fd: c_int, flags: c_int, real: impl Fn(c_int) -> c_int) -> c_int {
    let accepted = match TABLE.spinning(fd) {
        None => real(fd),
        Some(entry) => when_ready(fd, entry, Kind::Accept, libc::SO_RCVTIMEO, real),
    };
    if accepted >= 0 {
        table::accepted(fd, accepted, flags);
    }
    accepted
}

exports! {
    fn accept(fd: c_int, from: *mut sockaddr, size: *mut socklen_t) -> c_int {
        let on_stack = user::accept(fd, NameBuffer::new(from, size), 0);
        on_stack.unwrap_or_else(|| accept_any(fd, 0, |fd| real::accept.get()(fd, from, size)))
    }

    fn accept4(fd: c_int, from: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
        let on_stack = user::accept(fd, NameBuffer::new(from, size), flags);
        on_stack.unwrap_or_else(|| accept_any(fd, flags, |fd| real::accept4.get()(fd, from, size, flags)))
    }

    fn connect(fd: c_int, to: *const sockaddr, size: socklen_t) -> c_int {
        let real = |fd: c_int| real::connect.get()(fd, to, size);
        if user::is_enabled() {
            if let Some(done) = user::connect(fd, to, size) {
                return done;
            }
            if user::entry(fd).is_some_and(|entry| !entry.has(table::STREAM)) {
                let done = real(fd);
                user::reconnected(fd);
                return done;
            }
        }
        match TABLE.spinning(fd).filter(|entry| entry.has(table::STREAM)) {
            Some(entry) => connect_spinning(fd, entry, real),
            None => real(fd),
        }
    }
}

fn connect_spinning(fd: c_int, entry: &'static Entry, real: impl Fn(c_int) -> c_int) -> c_int {
    let errno = errno::get();
    let call = Call::new(Kind::Connect, Some(entry));
    // One that others have must not be non-blocking, not even for a moment.
    let is_shared = entry.has(table::SHARED);
    if is_shared || kernel::timeout_ns(fd, libc::SO_SNDTIMEO) != u64::MAX {
        page::fall_back(None, if is_shared { Reason::SharedConnect } else { Reason::Timeout });
        call.count(Outcome::NotSpun);
        return real(fd);
    }
    match begin(fd, &real) {
        // The same call again waits for the connection that has been begun, as it does after a signal.
        Some(begun) if begun != 0 && errno::get() == libc::EINPROGRESS => {
            spin_until_ready(fd, &call, POLLOUT, errno, real)
        }
        Some(done) => {
            call.count(Outcome::Ready);
            done
        }
        None => real(fd),
    }
}

/// Begins a connection without waiting for it: connect has no flag for it, so the socket is non-blocking for a moment.
fn begin(fd: c_int, connect: &impl Fn(c_int) -> c_int) -> Option<c_int> {
    let flags = kernel::fcntl(fd, libc::F_GETFL, 0);
    if flags < 0 || flags & libc::O_NONBLOCK != 0 {
        return None;
    }
    if kernel::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) != 0 {
        return None;
    }
    let before = errno::get();
    let begun = connect(fd);
    let after = if begun == 0 { before } else { errno::get() };
    kernel::fcntl(fd, libc::F_SETFL, flags);
    errno::set(after);
    Some(begun)
}
