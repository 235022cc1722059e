//! Wakes a thread whose receive never ends, as its datagram was lost. A socket time-out would cost every message a
//! timer; this costs one relaxed store a message, read by an ordinary thread on another CPU.

use super::interrupt::Interrupter;
use crate::{TaskError, cpu};
use model::Policy;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two signals to a thread that stays stuck.
const REPEAT: Duration = Duration::from_millis(1);
/// Longest distance of two looks.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// On a cache line of its own, so that the looks disturb nothing but the counter.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared {
    count: AtomicU64,
    armed: AtomicBool,
}

/// The measured loop's side of a watchdog: shows that the loop is alive. Written by one thread only.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    shared: Arc<Shared>,
}

impl Progress {
    /// A counter at 0, disarmed.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more step is done. A relaxed load and store: no locked instruction, no fence.
    #[inline]
    pub fn advance(&self) {
        let count = self.shared.count.load(Ordering::Relaxed);
        self.shared.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// From here on standing still is an error.
    pub fn arm(&self) {
        self.advance();
        self.shared.armed.store(true, Ordering::Release);
    }

    /// From here on standing still is right: between sizes, at the end. A signal already under way may still arrive.
    pub fn disarm(&self) {
        self.shared.armed.store(false, Ordering::Release);
        self.advance();
    }

    pub fn count(&self) -> u64 {
        self.shared.count.load(Ordering::Relaxed)
    }
}

/// A thread that interrupts another one when that makes no progress. Dropping it stops it.
#[derive(Debug)]
pub struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    interrupts: Arc<AtomicU64>,
}

impl Watchdog {
    /// Watches `progress` and interrupts the thread behind `target` when an armed counter does not advance for `timeout`,
    /// then each millisecond until it moves. The time-out is kept to a quarter of itself or 100 ms, whichever is less.
    ///
    /// The watchdog runs as SCHED_OTHER, off the CPU `measuring` when the process has another one.
    pub fn start(
        progress: Progress,
        target: Interrupter,
        timeout: Duration,
        measuring: Option<u32>,
    ) -> Result<Self, TaskError> {
        let interrupts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&interrupts);
        let (stop, stopped) = mpsc::channel();
        // Found here, because the new thread inherits the CPUs of this one.
        let cpus = cpu::Mask::new(&cpu::housekeeping_cpus(measuring));
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                // Both only make it a better neighbour; it does its work without them too.
                let _ = crate::apply_policy(Policy::Other);
                let _ = cpus.apply();
                watch(&progress, target, timeout, &stopped, &counted);
            })
            .map_err(|cause| TaskError::Thread { name: "watchdog", cause })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), interrupts })
    }

    /// How often it has interrupted so far.
    pub fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// Ends the thread, waits for it, and returns how often it interrupted.
    pub fn stop(mut self) -> u64 {
        self.end();
        self.interrupts()
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end();
    }
}

fn watch(
    progress: &Progress,
    target: Interrupter,
    timeout: Duration,
    stopped: &mpsc::Receiver<()>,
    interrupts: &AtomicU64,
) {
    let look = (timeout / 4).clamp(REPEAT, LONGEST_LOOK);
    let mut pause = look;
    let mut seen = progress.count();
    let mut since = Instant::now();
    // The sender is only ever dropped: a time-out means "go on".
    while stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
        let count = progress.count();
        let armed = progress.shared.armed.load(Ordering::Acquire);
        if count != seen || !armed {
            (seen, since, pause) = (count, Instant::now(), look);
        } else if since.elapsed() >= timeout {
            interrupts.fetch_add(1, Ordering::Relaxed);
            target.interrupt();
            pause = REPEAT;
        }
    }
}
