//! What goes wrong with a knob.

use super::Knob;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    #[error("{0}: not on this system")]
    Absent(Box<Knob>),
    #[error("{knob}: cannot read: {cause}")]
    Read { knob: Box<Knob>, cause: io::Error },
    #[error("{knob}: cannot set to '{value}': {cause}")]
    Write { knob: Box<Knob>, value: String, cause: io::Error },
    #[error("{knob}: cannot be set here: {why}")]
    Unsupported { knob: Box<Knob>, why: String },
}

impl KnobError {
    pub fn absent(knob: &Knob) -> Self {
        Self::Absent(Box::new(knob.clone()))
    }

    pub fn unsupported(knob: &Knob, why: impl Into<String>) -> Self {
        Self::Unsupported { knob: Box::new(knob.clone()), why: why.into() }
    }

    /// A failed read: what is not there is [`Self::Absent`].
    pub fn reading(knob: &Knob, cause: io::Error) -> Self {
        let knob = Box::new(knob.clone());
        match cause.kind() {
            io::ErrorKind::NotFound => Self::Absent(knob),
            _ => Self::Read { knob, cause },
        }
    }

    /// A failed write: what is not there is [`Self::Absent`].
    pub fn writing(knob: &Knob, value: &str, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::NotFound => Self::absent(knob),
            _ => Self::unwritten(knob, value, cause),
        }
    }

    /// A failed write of a setting that is there, though a program or group may be missing: an undo must not drop the setting.
    pub fn unwritten(knob: &Knob, value: &str, cause: io::Error) -> Self {
        Self::Write { knob: Box::new(knob.clone()), value: value.to_owned(), cause }
    }

    /// Whether the kernel may take it a moment later (EBUSY, EAGAIN, EINTR).
    pub fn may_pass(&self) -> bool {
        matches!(self.errno(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR))
    }

    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Read { cause, .. } | Self::Write { cause, .. } => cause.raw_os_error(),
            Self::Absent { .. } | Self::Unsupported { .. } => None,
        }
    }
}
