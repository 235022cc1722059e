//! What a shield is refused for, and what goes wrong with one.

use super::list::CpuListError;
use host::knob::KnobError;
use host::nic::NicError;
use host::undo::{UndoError, UndoReport};

/// Why there is no shield. Steps that differ only in their words share a variant.
#[derive(Debug, thiserror::Error)]
pub enum ShieldError {
    /// A rule refuses what was asked for, or the kernel did not isolate a partition: which, and the remedy.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    List(#[from] CpuListError),
    #[error("a network device cannot be put onto the shield: {0}")]
    Nic(#[from] NicError),
    /// What this user may not do, what resists, or what does not come to an end.
    #[error("{0}")]
    Failed(String),
    /// A step failed; what was done before it was put back.
    #[error("{cause}; {undone}")]
    Step { cause: Box<Self>, undone: String },
    #[error(transparent)]
    Undo(#[from] UndoError),
    #[error(transparent)]
    Knob(#[from] KnobError),
}

impl ShieldError {
    pub(super) fn refused<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Refused(why.into()))
    }

    /// Exit code: 2 for what is refused before a change and for a partition that is not isolated, 1 for what fails.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Step { cause, .. } => cause.exit_code(),
            Self::Failed(_) | Self::Undo(_) | Self::Knob(_) => 1,
            Self::Refused(_) | Self::List(_) | Self::Nic(_) => 2,
        }
    }
}

pub(super) fn undone(result: &Result<UndoReport, UndoError>) -> String {
    match result {
        Ok(report) if report.is_clean() => "everything was put back".to_owned(),
        Ok(report) => {
            let left = report.not_put_back();
            let count = left.len();
            format!("{count} settings could not be put back (see `windhover shield --reset`): {}", left.join(", "))
        }
        Err(error) => format!("and putting back failed: {error}"),
    }
}
