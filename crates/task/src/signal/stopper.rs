//! Asks a thread that may be blocked in a call to stop, and makes sure that it hears.

use super::interrupt::{Interrupter, install_interrupt_handler};
use crate::{TaskError, thread_id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Between two signals to a thread that has not answered.
const REPEAT: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct State {
    requested: AtomicBool,
    acknowledged: AtomicBool,
    /// The thread to wake; 0 while none has attached itself.
    thread: AtomicI32,
}

/// A stop flag with a signal behind it. Copies refer to the same flag: one stays with the owner, one goes into the
/// thread, which calls [`Stopper::attach`] first, looks at [`Stopper::requested`] whenever a call returns EINTR (and in
/// spinning loops now and then), and calls [`Stopper::acknowledge`] at its end.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    state: Arc<State>,
}

impl Stopper {
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the calling thread as the one to wake.
    pub fn attach(&self) -> Result<(), TaskError> {
        install_interrupt_handler()?;
        self.state.thread.store(thread_id(), Ordering::Release);
        Ok(())
    }

    /// Whether the owner wants the thread to stop. One relaxed load.
    #[inline]
    pub fn requested(&self) -> bool {
        self.state.requested.load(Ordering::Relaxed)
    }

    /// Asks without waiting and without waking; for threads that never block for long.
    pub fn request(&self) {
        self.state.requested.store(true, Ordering::Release);
    }

    /// The thread's last word: it will not block again, so no signal is needed any more.
    pub fn acknowledge(&self) {
        self.state.acknowledged.store(true, Ordering::Release);
    }

    pub fn acknowledged(&self) -> bool {
        self.state.acknowledged.load(Ordering::Acquire)
    }

    /// Asks, and wakes the thread each millisecond until it answers or ends, or the time is over. Whether it answered or ended.
    pub fn stop(&self, timeout: Duration) -> bool {
        self.request();
        let start = Instant::now();
        loop {
            if self.acknowledged() {
                return true;
            }
            let thread = self.state.thread.load(Ordering::Acquire);
            if thread != 0 && !Interrupter::for_thread(thread).interrupt() {
                return true;
            }
            if start.elapsed() >= timeout {
                return false;
            }
            std::thread::sleep(REPEAT);
        }
    }
}
