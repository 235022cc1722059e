//! Placement of the measuring threads (CPU, policy, memory), and their common start.

use crate::{ProbeError, driver};
use clock::Clock;
use model::{CpuList, Pacer, Policy};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use task::Interrupter;

/// Stack that is touched before a loop begins.
const STACK: usize = 256 << 10;
/// Poll interval while waiting for the others.
const LOOK: Duration = Duration::from_micros(100);

#[derive(Debug, Clone)]
pub(crate) struct ThreadPlacement {
    pub policy: Policy,
    pub send_cpu: Option<u32>,
    pub receive_cpu: Option<u32>,
    pub pacer: Pacer,
    /// The CPUs of a thread that has none of its own.
    pub free: CpuList,
}

/// Role of a measuring thread. A single thread that does both is a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadRole {
    Sender,
    Receiver,
}

/// Prepares the calling thread: first what may start other threads, then CPU and policy.
pub(crate) fn place_thread(placement: &ThreadPlacement, role: ThreadRole) -> Result<(), ProbeError> {
    task::prefault_stack(STACK);
    let cpu = if role == ThreadRole::Sender { placement.send_cpu } else { placement.receive_cpu };
    if cpu.is_none() {
        // The counting thread, which started this one, may have changed its affinity.
        let _ = task::set_affinity(&placement.free);
    }
    // Threads of ordinary policy would sleep 50 µs longer than asked.
    task::set_timer_slack(Duration::from_nanos(1))?;
    driver::place_thread(cpu, placement.policy, None)
}

/// Common start of the measuring threads and the counting thread; at the end it interrupts the former.
#[derive(Debug)]
pub(crate) struct StartBarrier {
    attending: AtomicUsize,
    failed: AtomicBool,
    cancelled: AtomicBool,
    /// When the schedule begins, in ticks; 0 until that is known.
    begin: AtomicU64,
    interrupters: Vec<OnceLock<Interrupter>>,
}

impl StartBarrier {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            attending: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            begin: AtomicU64::new(0),
            interrupters: (0..expected).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The measuring thread of this number is ready. The tick at which the schedule begins; `None` when cancelled.
    pub(crate) fn arrive(&self, number: usize, placed: bool) -> Option<u64> {
        match Interrupter::for_current_thread() {
            Ok(own) if placed => {
                let _ = self.interrupters.get(number).map(|place| place.set(own));
            }
            _ => self.failed.store(true, Ordering::Release),
        }
        self.attending.fetch_add(1, Ordering::AcqRel);
        loop {
            if self.cancelled.load(Ordering::Acquire) {
                return None;
            }
            match self.begin.load(Ordering::Acquire) {
                0 => std::thread::sleep(LOOK),
                begin => return Some(begin),
            }
        }
    }

    /// Waits for all threads and sets the start; nothing when one of them could not be prepared.
    pub(crate) fn begin(&self, clock: Clock, lead_ns: u64) -> Option<u64> {
        while self.attending.load(Ordering::Acquire) < self.interrupters.len() {
            std::thread::sleep(LOOK);
        }
        if self.failed.load(Ordering::Acquire) {
            self.cancel();
            return None;
        }
        let begin = clock.now().saturating_add(clock.ticks(lead_ns)).max(1);
        self.begin.store(begin, Ordering::Release);
        Some(begin)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Ends the calls that the threads may be blocked in.
    pub(crate) fn interrupt(&self) {
        for own in self.interrupters.iter().filter_map(OnceLock::get) {
            own.interrupt();
        }
    }
}
