//! Brings a reflector out of its loop: a flag, and a signal that ends the call it may be blocked in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use task::Interrupter;

/// Between two signals to a reflector that has not come out.
const REPEAT: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct Halt {
    /// What the loop looks at.
    flag: AtomicBool,
    /// Whether the reflector is in a loop that only the flag and the signal end.
    busy: AtomicBool,
    /// Whether the session is over, not only a size.
    over: AtomicBool,
    target: Mutex<Option<Interrupter>>,
}

impl Halt {
    pub(crate) fn attach(&self, target: Interrupter) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    }

    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The reflector is about to enter its loop: called before the command is passed on, so that no halt is overwritten.
    pub(crate) fn enter(&self) {
        self.flag.store(false, Ordering::Relaxed);
        self.busy.store(true, Ordering::Release);
    }

    /// The reflector is out of its loop and will not block again in it.
    pub(crate) fn leave(&self) {
        self.busy.store(false, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Brings the reflector out of its loop; returns whether it came within `timeout`.
    pub(crate) fn halt(&self, timeout: Duration) -> bool {
        self.flag.store(true, Ordering::Release);
        let started = Instant::now();
        while self.busy.load(Ordering::Acquire) {
            if started.elapsed() >= timeout {
                return false;
            }
            self.wake();
            std::thread::sleep(REPEAT);
        }
        true
    }

    /// Ends the session for the reflector, whatever it is doing.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.flag.store(true, Ordering::Release);
    }

    pub(crate) fn wake(&self) {
        let target = *self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = target {
            target.interrupt();
        }
    }
}
