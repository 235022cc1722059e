//! Ticks, their calibration, and the clock map.
//!
//! [`Clock::calibrate`] chooses the fastest clock that can be trusted on this machine: the processor's counter where it
//! is invariant and the kernel itself keeps time by it, else CLOCK_MONOTONIC_RAW. A measured loop reads it with
//! [`Clock::now`] and nothing else; [`MapRecorder`] notes how ticks relate to the kernel's clocks, so that stamps of
//! other origins can be joined later and a drift of the counter is seen.
//!
//! Floor 1. Reads clocks and sleeps by them: it never sets one, and it keeps no state outside its values.
#![expect(unsafe_code, reason = "reading the processor's counter, clock_gettime and clock_nanosleep need it")]

mod calibrate;
mod counter;
mod error;
mod map;
mod system;

pub use calibrate::Clock;
pub use error::ClockError;
pub use map::MapRecorder;
pub use system::{SleepEnd, monotonic_ns, raw_ns, realtime_ns, sleep_until};
