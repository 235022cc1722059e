//! What could not keep up with a rate: a pure function of what both ends counted.

use crate::Recorded;
use model::{Counters, EndUsage, Saturated};

/// One far end, as far as it told.
#[derive(Debug, Clone, Copy)]
pub struct FarEnd<'a> {
    /// Its host or address where there are several, else `reflector`.
    pub name: &'a str,
    /// Messages that it received.
    pub received: u64,
    /// Messages that it did not answer because its owner limits the rate.
    pub over_rate: u64,
    /// Where its host dropped messages.
    pub counters: &'a Counters,
    /// What it cost.
    pub usage: &'a EndUsage,
}

/// What is looked at beside the recorder's own figures.
#[derive(Debug, Clone, Copy)]
pub struct RateEvidence<'a> {
    /// Where the initiator's host dropped messages.
    pub initiator: &'a Counters,
    /// The far ends; those that vanished are left out.
    pub far: &'a [FarEnd<'a>],
}

/// Who could not keep up, if the rate was not held.
#[must_use]
pub fn saturated(_recorded: &Recorded, _evidence: &RateEvidence<'_>) -> Option<Saturated> {
    None
}
