//! A signal that does nothing but end the blocked call of one thread with EINTR.

use super::{install, not_installed};
use crate::{TaskError, thread_id};

/// The signal used: SIGRTMIN+3. The C library takes the first two real-time signals for itself, and profilers like the next.
pub fn interrupt_signal() -> i32 {
    libc::SIGRTMIN() + 3
}

extern "C" fn nothing(_: libc::c_int) {}

/// Installs a handler that does nothing, without which the signal would end the process, and unblocks it in this thread.
pub fn install_interrupt_handler() -> Result<(), TaskError> {
    let signal = interrupt_signal();
    install(signal, nothing)?;
    // SAFETY: a signal set is plain data that sigemptyset makes valid; both calls get valid addresses.
    let status = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut())
    };
    if status == 0 { Ok(()) } else { Err(not_installed(signal, std::io::Error::from_raw_os_error(status))) }
}

/// Can interrupt one thread of this process.
///
/// A signal that comes just before the thread blocks is lost, so whoever must get through repeats it; see
/// [`crate::Watchdog`] and [`crate::Stopper`]. Once the thread has ended, nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupter {
    process: u32,
    thread: libc::pid_t,
}

impl Interrupter {
    /// For the calling thread; installs the handler first.
    pub fn for_current_thread() -> Result<Self, TaskError> {
        install_interrupt_handler()?;
        Ok(Self::for_thread(thread_id()))
    }

    /// For a thread whose handler is installed.
    pub(crate) fn for_thread(thread: i32) -> Self {
        Self { process: std::process::id(), thread }
    }

    /// Makes the blocked call return EINTR; whether the thread lives. tgkill(2), as pthread_kill(3) is undefined then.
    pub fn interrupt(&self) -> bool {
        // SAFETY: takes numbers only; the handler does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, interrupt_signal()) == 0 }
    }
}
