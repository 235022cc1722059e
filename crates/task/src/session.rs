//! Waiting for the end of a process that is not a child, in a session of one's own.

use crate::TaskError;
use crate::launch::process_descriptor;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    Process,
    /// Nobody holds the other end of standard input any more.
    Input,
    /// SIGTERM came.
    Asked,
}

/// Waits for the end of other processes. It takes SIGTERM and blocks SIGINT, SIGHUP and SIGQUIT: make it before threads.
#[derive(Debug)]
pub struct LongWait {
    signals: SignalFd,
}

/// Between two looks where the kernel has no process descriptors (before Linux 5.3).
const LOOK: Duration = Duration::from_millis(500);

impl LongWait {
    /// Takes the signals over.
    pub fn new() -> Result<Self, TaskError> {
        let failed = |errno: nix::errno::Errno| crate::signal::not_installed(libc::SIGTERM, errno.into());
        let asked = SigSet::from_iter([Signal::SIGTERM]);
        let shut_out = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT]);
        shut_out.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self { signals: SignalFd::with_flags(&asked, flags).map_err(failed)? })
    }

    /// Waits until a process has ended, standard input ends, or SIGTERM comes. `lives`: the number is still that process'.
    pub fn wait(&self, process: Option<i32>, lives: &dyn Fn() -> bool) -> Result<WaitEnd, TaskError> {
        let number = process.and_then(|process| u32::try_from(process).ok());
        let descriptor = number.and_then(process_descriptor);
        let stdin = io::stdin();
        // The descriptor is looked at after it was made: should the number have changed hands before, it is seen here.
        loop {
            if process.is_some() && !lives() {
                return Ok(WaitEnd::Process);
            }
            let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let process = descriptor.as_ref().map_or(-1, |descriptor| descriptor.as_raw_fd());
            let mut entries = [entry(process), entry(self.signals.as_fd().as_raw_fd()), entry(stdin.as_raw_fd())];
            let most = if process < 0 { i32::try_from(LOOK.as_millis()).unwrap_or(500) } else { -1 };
            // SAFETY: three valid entries; poll(2) skips negative descriptors.
            if unsafe { libc::poll(entries.as_mut_ptr(), 3, most) } == -1 {
                let cause = io::Error::last_os_error();
                if cause.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(TaskError::refused("the owner cannot be waited for", cause));
            }
            let [process, signals, input] = entries.map(|entry| entry.revents != 0);
            if process {
                return Ok(WaitEnd::Process);
            }
            if signals && matches!(self.signals.read_signal(), Ok(Some(_))) {
                return Ok(WaitEnd::Asked);
            }
            if input && ended(stdin.as_raw_fd()) {
                return Ok(WaitEnd::Input);
            }
        }
    }
}

/// Reads away what is there; whether it was the end.
fn ended(descriptor: i32) -> bool {
    let mut bytes = [0_u8; 256];
    // SAFETY: the kernel writes at most `bytes.len()` bytes into the buffer.
    let count = unsafe { libc::read(descriptor, bytes.as_mut_ptr().cast(), bytes.len()) };
    count == 0 || (count < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted)
}

/// Leaves the starter's session (setsid(2)) and its terminal's signals. A process that leads a group stays.
pub fn own_session() {
    let _ = nix::unistd::setsid();
}
