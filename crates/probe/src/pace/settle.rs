//! A measuring thread's place: CPU, policy, memory; and how such threads begin together.

use crate::ProbeError;
use clock::Clock;
use model::{CpuList, Pacer, Policy};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use task::Interrupter;

/// Stack that is touched before a loop begins.
const STACK: usize = 256 << 10;
/// Between two looks whether the others are ready.
const LOOK: Duration = Duration::from_micros(100);

/// Where and how the measuring threads run.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub policy: Policy,
    pub send_cpu: Option<u32>,
    pub receive_cpu: Option<u32>,
    pub pacer: Pacer,
    /// The CPUs of a thread that has none of its own.
    pub free: CpuList,
}

/// Which of the two threads; one that does both sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    Sends,
    Receives,
}

/// Gives the calling thread its place. First what may start other threads, then CPU and policy.
pub(crate) fn settle(places: &Places, hand: Hand) -> Result<(), ProbeError> {
    task::prefault_stack(STACK);
    let cpu = if hand == Hand::Sends { places.send_cpu } else { places.receive_cpu };
    if let Some(cpu) = cpu {
        // The kernel refuses a CPU behind a shield to who is not in its control group.
        host::shield::enter(&[cpu].into_iter().collect())?;
        task::pin(cpu)?;
    } else {
        // The counting thread, which started this one, may have stepped aside.
        let _ = task::set_affinity(&places.free);
    }
    // Threads of ordinary policy would sleep 50 µs longer than asked.
    task::set_timer_slack(Duration::from_nanos(1))?;
    if places.policy != Policy::Other {
        task::apply_policy(places.policy)?;
    }
    Ok(())
}

/// How the measuring threads and the counting one begin together, and how the first are woken at the end.
#[derive(Debug)]
pub(crate) struct Meeting {
    expected: u32,
    attending: AtomicU32,
    failed: AtomicBool,
    called_off: AtomicBool,
    /// When the schedule begins, in ticks; 0 until that is known.
    begin: AtomicU64,
    interrupters: [OnceLock<Interrupter>; 2],
}

impl Meeting {
    pub(crate) fn new(expected: u32) -> Self {
        Self {
            expected,
            attending: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            called_off: AtomicBool::new(false),
            begin: AtomicU64::new(0),
            interrupters: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// A measuring thread is here. It comes back with the tick at which the schedule begins, or with nothing when the
    /// phase was called off.
    pub(crate) fn attend(&self, hand: Hand, settled: bool) -> Option<u64> {
        match Interrupter::for_current_thread() {
            Ok(own) if settled => {
                let _ = self.interrupters[usize::from(hand == Hand::Receives)].set(own);
            }
            _ => self.failed.store(true, Ordering::Release),
        }
        self.attending.fetch_add(1, Ordering::AcqRel);
        loop {
            if self.called_off.load(Ordering::Acquire) {
                return None;
            }
            match self.begin.load(Ordering::Acquire) {
                0 => std::thread::sleep(LOOK),
                begin => return Some(begin),
            }
        }
    }

    /// Waits for all threads and sets the beginning; nothing when one of them could not settle.
    pub(crate) fn begin(&self, clock: Clock, lead_ns: u64) -> Option<u64> {
        while self.attending.load(Ordering::Acquire) < self.expected {
            std::thread::sleep(LOOK);
        }
        if self.failed.load(Ordering::Acquire) {
            self.call_off();
            return None;
        }
        let begin = clock.now().saturating_add(clock.ticks(lead_ns)).max(1);
        self.begin.store(begin, Ordering::Release);
        Some(begin)
    }

    /// Nothing begins.
    pub(crate) fn call_off(&self) {
        self.called_off.store(true, Ordering::Release);
    }

    /// Ends the calls that the threads may be blocked in.
    pub(crate) fn nudge(&self) {
        for own in self.interrupters.iter().filter_map(OnceLock::get) {
            own.interrupt();
        }
    }
}
