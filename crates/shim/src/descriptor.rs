//! Descriptors of this library's own. They have high numbers: programs count on the lowest free ones for their own.

use crate::table::{OWN, TABLE};
use crate::{kernel, table, time};
use descriptors::table::Entry;
use libc::{EFD_CLOEXEC, EFD_NONBLOCK, F_DUPFD_CLOEXEC, c_int};

/// Where programs do not expect their next descriptor.
const HIGH: c_int = 900;

/// A copy of a descriptor; at the lowest number where RLIMIT_NOFILE allows no high one. -1: none.
pub(crate) fn copy(fd: c_int) -> c_int {
    let above = |least| Some(kernel::fcntl(fd, F_DUPFD_CLOEXEC, least)).filter(|copy| *copy >= 0);
    let copy = above(HIGH).or_else(|| above(3)).unwrap_or(-1);
    table::open(copy, OWN);
    copy
}

/// An eventfd that does not block. -1: none.
pub(crate) fn wake_fd() -> c_int {
    // SAFETY: takes numbers only.
    let low = unsafe { libc::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
    let high = kernel::fcntl(low, F_DUPFD_CLOEXEC, HIGH);
    if high >= 0 {
        kernel::close(low);
    }
    let wake_fd = if high < 0 { low } else { high };
    table::open(wake_fd, OWN);
    wake_fd
}

/// Closes one of this library's own; errno stays.
pub(crate) fn close(fd: c_int) {
    table::open(fd, 0);
    kernel::close(fd);
}

/// Gives back what [`descriptors::table::Table::inherit`] gave.
pub(crate) fn release(heir: c_int) {
    if table::entry(heir).is_some_and(|heir| heir.visitors.release()) {
        close(heir);
    }
}

/// Lets the threads that spin on a descriptor go on with a copy of it, and waits until none uses the number any more.
#[cold]
pub(crate) fn leave_heir(fd: c_int, entry: &Entry) {
    /// Longer than a spinning thread takes for one attempt, and than it waits for a CPU; after that one call of it may hit another file.
    const PATIENCE_NS: u64 = 3_000_000_000;
    let errno = crate::errno::get();
    let heir = copy(fd);
    let known = table::entry(heir);
    entry.visitors.begin_closing(known.map(|known| (heir, &known.visitors)));
    let end = time::now_ns() + PATIENCE_NS;
    while entry.visitors.is_visited() && time::now_ns() < end {
        time::pause();
    }
    entry.visitors.end_closing();
    if known.is_some() {
        release(heir);
    } else if heir >= 0 {
        // Without an entry it has no users.
        close(heir);
    }
    crate::errno::set(errno);
}

pub(crate) fn forked() {
    TABLE.fork(close, table::list);
}
