//! Samples to results: loss, order, intervals, outliers, verdict.
//!
//! Floor 0: no I/O, no clock reads, no threads, no unsafe. A [`Recorder`] takes batches of [`model::Sample`] between
//! timed rounds without allocating; [`Recorder::finish`] makes figures of them; [`verdict`] says whether they can be
//! trusted. Everything is kept as RTT in nanoseconds; RTT/2 is made at the very end (see [`latency()`]).
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod captured;
mod corrected;
mod document;
mod evidence;
mod fill;
mod hlog;
mod latency;
mod outliers;
mod paced;
pub mod raw;
mod realtime;
mod recorder;
pub mod repairs;
mod series;
mod shared;
pub mod stream;
pub mod timeline;
mod verdict;

pub use corrected::corrected;
pub use document::{FarEnd, Pass, assemble};
pub use evidence::{EndEvidence, Evidence, PathFacts};
pub use latency::{Distribution, latency};
pub use paced::{
    Arrears, Delivered, PaceFigures, Paced, PacedConfig, PacedPeer, PeerClock, RateEvidence, RemoteEnd, RepairFigures,
    RepairNote, SenderCounts, lost_for_good, saturated,
};
pub use recorder::{Recorded, Recorder, RecorderConfig, Schedule};
pub use verdict::remedy::Program;
pub use verdict::verdict;
