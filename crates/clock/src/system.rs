//! The kernel's clocks, read through the vDSO where it has them. Nothing here allocates.

use std::io;

/// Reads one of the kernel's clocks, in nanoseconds.
#[inline]
pub(crate) fn read(id: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let status = unsafe { libc::clock_gettime(id, &raw mut time) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // Before 1970 only a wall clock set wrongly can be; 0 then.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

/// CLOCK_MONOTONIC_RAW in nanoseconds since some point before boot: not steered by NTP (clock_gettime(2)).
/// 0 where the kernel lacks the clock; [`crate::Clock::calibrate`] reports that as an error.
#[inline]
pub fn raw_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW).unwrap_or(0)
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of timers and of most kernel events; its rate is steered by NTP.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// CLOCK_REALTIME in nanoseconds since 1970-01-01 UTC; may be set back or forth at any time.
#[inline]
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// Sleeps until CLOCK_MONOTONIC reads this many nanoseconds (clock_nanosleep(2), TIMER_ABSTIME); returns at once when that
/// is past. Says whether a signal ended it earlier. How late it wakes up is the scheduler's and the timer slack's doing.
#[inline]
pub fn sleep_until(monotonic_ns: u64) -> SleepEnd {
    let until = libc::timespec {
        tv_sec: libc::time_t::try_from(monotonic_ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        // Below 10^9, which fits.
        tv_nsec: libc::c_long::try_from(monotonic_ns % 1_000_000_000).unwrap_or(0),
    };
    // SAFETY: `until` is a valid timespec that outlives the call; an absolute sleep writes no remaining time.
    let status = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
    };
    if status == 0 { SleepEnd::Through } else { SleepEnd::Interrupted }
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SleepEnd {
    /// The time came.
    Through,
    /// A signal came first.
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_lasts_until_its_time_and_not_for_it() {
        let until = monotonic_ns() + 3_000_000;
        assert_eq!(sleep_until(until), SleepEnd::Through);
        assert!(monotonic_ns() >= until);
        let now = monotonic_ns();
        assert_eq!(sleep_until(until), SleepEnd::Through, "what is past is no reason to sleep");
        assert_eq!(sleep_until(0), SleepEnd::Through);
        assert!(monotonic_ns() - now < 1_000_000_000);
    }
}
