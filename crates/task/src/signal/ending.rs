//! When SIGINT, SIGTERM and their like end the process: at the first, or where that asks for an orderly stop, at the second.

use nix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Signals within this time after the first are the same request: coreutils' `timeout`, terminals and supervisors send two.
pub const SAME_REQUEST_NS: u64 = 200_000_000;

static ORDERLY: AtomicBool = AtomicBool::new(false);
/// When the first signal of an orderly stop came, on the monotonic clock; 0 before.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);

/// Lets a signal end the process, but the first one while [`expect_stop`] holds. Later actions run after this.
pub fn end_at_signal(signal: i32) -> io::Result<()> {
    let action = move || {
        if is_final() {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    // SAFETY: the action (clock, atomics, default action) is async-signal-safe: it does not allocate, lock or unwind.
    unsafe { signal_hook::low_level::register(signal, action) }.map(drop)
}

/// Whether the first signal asks for an orderly stop from now on. A request that came before is forgotten.
pub fn expect_stop(orderly: bool) {
    FIRST_NS.store(0, Ordering::SeqCst);
    ORDERLY.store(orderly, Ordering::SeqCst);
}

fn is_final() -> bool {
    if !ORDERLY.load(Ordering::SeqCst) {
        return true;
    }
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return true };
    let nanoseconds = |part: i64| u64::try_from(part).unwrap_or(0);
    let now = nanoseconds(now.tv_sec()) * 1_000_000_000 + nanoseconds(now.tv_nsec());
    match FIRST_NS.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => false,
        Err(first) => now.saturating_sub(first) > SAME_REQUEST_NS,
    }
}
