//! Descriptors of this library's own. They have high numbers: programs count on the lowest free ones for theirs.

use crate::{real, table};
use libc::{EFD_CLOEXEC, EFD_NONBLOCK, F_DUPFD_CLOEXEC, c_int};

/// Where programs do not expect their next descriptor.
const HIGH: c_int = 900;

fn copy_above(fd: c_int, least: c_int) -> c_int {
    // SAFETY: takes numbers only.
    unsafe { real::fcntl.get()(fd, F_DUPFD_CLOEXEC, least) }
}

/// A copy of a descriptor; at the lowest number where RLIMIT_NOFILE allows no high one. -1: none.
pub(crate) fn copy(fd: c_int) -> c_int {
    let copy = Some(copy_above(fd, HIGH)).filter(|copy| *copy >= 0).unwrap_or_else(|| copy_above(fd, 3));
    table::open(copy, table::OWN);
    copy
}

/// An eventfd that does not block. -1: none.
pub(crate) fn wake_fd() -> c_int {
    // SAFETY: takes numbers only.
    let low = unsafe { libc::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
    let mut wake_fd = copy_above(low, HIGH);
    if wake_fd < 0 {
        wake_fd = low;
    } else {
        // SAFETY: made above, and used nowhere else.
        unsafe { real::close.get()(low) };
    }
    table::open(wake_fd, table::OWN);
    wake_fd
}

/// Closes one of this library's own.
pub(crate) fn close(fd: c_int) {
    table::open(fd, 0);
    // SAFETY: the caller's own, which nobody else uses.
    unsafe { real::close.get()(fd) };
}
