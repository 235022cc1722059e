//! Calls that are made once their descriptor is ready: no attempt of them would not wait.

use crate::spin::{Call, Spun};
use crate::table::{self, Entry};
use crate::{errno, kernel, page};
use bypass_abi::page::{Kind, Outcome, Reason};
use libc::{POLLIN, c_int, c_short};

/// Whether the socket blocks: other descriptors and processes may have changed that.
pub(super) fn is_blocking(fd: c_int, entry: &Entry) -> bool {
    if kernel::is_nonblocking(fd) {
        entry.set(table::NONBLOCK);
        page::fall_back(Some(entry), Reason::NonBlocking);
        return false;
    }
    true
}

/// Spins until the descriptor is ready, then makes the call. `option`: the socket's time-out, which it would restart.
#[inline(always)]
pub(super) fn when_ready<T: From<i8>>(
    fd: c_int,
    entry: &'static Entry,
    kind: Kind,
    option: c_int,
    real: impl FnOnce(c_int) -> T,
) -> T {
    let errno = errno::get();
    let call = Call::new(kind, Some(entry));
    let ready = is_ready(fd, POLLIN);
    errno::set(errno);
    if ready {
        call.count(Outcome::Ready);
        return real(fd);
    }
    if !is_blocking(fd, entry) {
        return real(fd);
    }
    if kernel::timeout_ns(fd, option) != u64::MAX {
        page::fall_back(None, Reason::Timeout);
        call.count(Outcome::NotSpun);
        return real(fd);
    }
    spin_until_ready(fd, &call, POLLIN, errno, real)
}

fn is_ready(fd: c_int, events: c_short) -> bool {
    kernel::poll_one(fd, events, 0) != 0
}

#[inline(always)]
pub(super) fn spin_until_ready<T: From<i8>>(
    fd: c_int,
    call: &Call,
    events: c_short,
    errno: c_int,
    real: impl FnOnce(c_int) -> T,
) -> T {
    let spun = call.spin(u64::MAX, false, || is_ready(fd, events).then_some(()));
    errno::set(errno);
    match spun {
        Spun::Found(()) => real(fd),
        Spun::Interrupted => {
            errno::set(libc::EINTR);
            T::from(-1)
        }
        Spun::TimedOut | Spun::Spent => call.sleep(fd, false, real),
        Spun::Closed => call.sleep(fd, true, real),
    }
}
