//! What goes wrong with a knob.

use super::Knob;
use std::io;

/// Why a knob could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    /// This system has no such setting.
    #[error("{knob}: not on this system")]
    Absent {
        /// Which.
        knob: Box<Knob>,
    },
    /// It cannot be read.
    #[error("{knob}: cannot read: {cause}")]
    Read {
        /// Which.
        knob: Box<Knob>,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// It cannot be written.
    #[error("{knob}: cannot set to '{value}': {cause}")]
    Write {
        /// Which.
        knob: Box<Knob>,
        /// What it should have become.
        value: String,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// It is of a kind that this reader does not handle.
    #[error("{knob}: cannot be set here: {why}")]
    Unsupported {
        /// Which.
        knob: Box<Knob>,
        /// One line.
        why: String,
    },
}

impl KnobError {
    /// The kernel's error number, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Read { cause, .. } | Self::Write { cause, .. } => cause.raw_os_error(),
            Self::Absent { .. } | Self::Unsupported { .. } => None,
        }
    }
}
