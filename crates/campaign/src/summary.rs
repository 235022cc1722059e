//! How a campaign ended.

use std::path::PathBuf;

model::words! {
    /// How the whole run ended, in run.json and in the journal.
    pub enum Outcome {
        /// All steps were tried.
        Done = "done",
        /// The machine of this process is booted into another kernel, and the run goes on there.
        Rebooting = "rebooting",
        /// A person ended it.
        Interrupted = "interrupted",
        /// It gave up.
        Failed = "failed",
    }
}

/// The counts of a run, those of earlier parts included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub path: PathBuf,
    pub outcome: Outcome,
    pub steps: usize,
    pub done: usize,
    /// Steps that were tried in this part and failed.
    pub failed: usize,
    /// Results that cannot be trusted.
    pub untrusted: usize,
    /// Settings that could not be put back as they were.
    pub not_restored: usize,
}

impl Summary {
    /// Exit code: 130 interrupted, 1 a cell failed or a setting was not put back, 4 a result cannot be trusted, else 0.
    pub fn exit_code(&self) -> u8 {
        match self.outcome {
            Outcome::Interrupted => 130,
            Outcome::Failed => 1,
            Outcome::Rebooting => 0,
            Outcome::Done if self.failed > 0 || self.not_restored > 0 => 1,
            Outcome::Done if self.untrusted > 0 => 4,
            Outcome::Done => 0,
        }
    }
}
