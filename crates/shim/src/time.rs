//! Times: the clock, pauses, and the times that calls take. `u64::MAX` ns means a time without end.

use libc::{c_int, timespec};

pub(crate) static NOW: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// CLOCK_MONOTONIC, ns.
#[expect(clippy::cast_sign_loss, reason = "the clock starts at 0")]
pub(crate) fn now_ns() -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time to `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps for a moment, so that a thread of lower priority on the same CPU gets on, too.
pub(crate) fn pause() {
    sleep_ns(20_000);
}

/// Sleeps so long, or until a signal.
pub(crate) fn sleep_ns(ns: u64) {
    let time = to_timespec(ns);
    // SAFETY: reads `time`; the rest of an interrupted sleep is not asked for.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

pub(crate) fn yield_cpu() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}

/// A time of `u64::MAX` ns has no use here: those calls take a null pointer.
#[expect(clippy::cast_possible_wrap, reason = "at most 18 thousand million seconds, and less than a second")]
pub(crate) fn to_timespec(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// In ns, `u64::MAX` for a null pointer; nothing where the kernel would refuse it.
pub(crate) unsafe fn from_timespec(time: *const timespec) -> Option<u64> {
    // SAFETY: null or a time, as of the calls that take it.
    let Some(time) = (unsafe { time.as_ref() }) else { return Some(u64::MAX) };
    let (s, ns) =
        (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000)?);
    Some(s.saturating_mul(1_000_000_000).saturating_add(ns).min(u64::MAX - 1))
}

pub(crate) fn from_ms(ms: c_int) -> u64 {
    u64::try_from(ms).map_or(u64::MAX, |ms| ms * 1_000_000)
}

/// The next whole ms, for kernels that know nothing finer.
pub(crate) fn ms_of(ns: u64) -> c_int {
    c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

/// Calls with the time as a pointer, null for one without end.
pub(crate) fn sleep_for(rest: u64, call: impl FnOnce(*const timespec) -> c_int) -> c_int {
    if rest == u64::MAX {
        return call(std::ptr::null());
    }
    let rest = to_timespec(rest);
    call(&raw const rest)
}
