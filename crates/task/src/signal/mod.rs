//! Signals: one that wakes a blocked receive, and the threads that send it.

pub(crate) mod ending;
pub(crate) mod interrupt;
pub(crate) mod stopper;
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
        return Err(not_installed(signal, io::Error::last_os_error()));
    }
    Ok(())
}

pub(crate) fn not_installed(signal: i32, cause: io::Error) -> TaskError {
    TaskError::refused(format!("the handler of signal {signal} cannot be installed"), cause)
}

/// Whether the process ignores a signal, as nohup(1) makes its programs do with SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data; the call with no new action only fills it in.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}
