//! What goes wrong with tracing.

use std::io;
use std::path::PathBuf;

/// Why kernel events cannot be had, one variant a step.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No tracefs is mounted or may be used.
    #[error("no tracefs at /sys/kernel/tracing: {why}")]
    NoTracefs {
        /// One line, with the remedy where there is one.
        why: String,
    },
    /// A step on a file of the instance failed.
    #[error("{path}: cannot {step}: {cause}")]
    Step {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        cause: io::Error,
    },
}
