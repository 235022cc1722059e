//! Waiting for a peer before anything is measured: it ends when the program is asked to end.

use crate::{ProbeError, thread};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How often the program's stop flag is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn check(stop: &AtomicBool) -> Result<(), ProbeError> {
    if stop.load(Ordering::Relaxed) { Err(ProbeError::Interrupted) } else { Ok(()) }
}

/// Runs a step that waits for a peer. It has a thread of its own, which is left behind when the program is asked to end.
///
/// # Errors
/// [`ProbeError::Interrupted`], or the thread cannot be started.
pub(crate) fn unless_stopped<T: Send + 'static>(
    stop: &AtomicBool,
    step: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProbeError> {
    let (sender, done) = sync_channel(1);
    let thread = thread::spawn("opening", move || drop(sender.send(step())))?;
    loop {
        match done.recv_timeout(LOOK) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => check(stop)?,
            Err(RecvTimeoutError::Disconnected) => {
                thread::joined(thread.join());
                return Err(ProbeError::Interrupted);
            }
        }
    }
}
