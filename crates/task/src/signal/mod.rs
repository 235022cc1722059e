//! Signals: one that wakes a blocked receive, those that end a command, and the threads that send the first.

pub(crate) mod interrupt;
pub(crate) mod stopper;
pub(crate) mod termination;
pub(crate) mod watchdog;

use crate::TaskError;
use std::io;

/// Installs a handler without SA_RESTART, so that blocked calls return EINTR.
pub(crate) fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<(), TaskError> {
    // SAFETY: sigaction is plain data; all zero means no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // SAFETY: the structure is valid for the call, and the handlers passed here only touch atomics.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } == -1 {
        return Err(TaskError::Handler { signal, cause: io::Error::last_os_error() });
    }
    Ok(())
}
