//! What can fail while a clock is made.

/// A clock that could not be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ClockError {
    #[error("CLOCK_MONOTONIC_RAW cannot be read: {cause}; windhover needs Linux with that clock")]
    NoRawClock { cause: std::io::Error },
    #[error("CLOCK_MONOTONIC_RAW stood still over {span_ns} ns of sleep: this machine's clock is broken")]
    Standstill { span_ns: u64 },
}
