//! errno of the calling thread. Attempts of a spin change it; a call that succeeds must leave it as it was.

use libc::c_int;

pub(crate) fn get() -> c_int {
    // SAFETY: the C library gives the address of the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

/// Whether the last call of this thread failed because it would have had to wait.
pub(crate) fn would_wait() -> bool {
    get() == libc::EAGAIN
}
