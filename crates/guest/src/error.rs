//! What can go wrong with a guest.

use std::path::{Path, PathBuf};

/// A step that failed. Steps that differ only in their words share a variant.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// What was asked for cannot be had here: what, and the remedy. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// A program failed, or the guest did not do what it should: what, and its output.
    #[error("{0}")]
    Failed(String),
    #[error("cannot {step} {}: {cause}{}", path.display(), remedy(cause))]
    File { step: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("interrupted")]
    Interrupted,
}

pub(crate) const FULL: &str = "free some, or set XDG_CACHE_HOME to a folder on another disk";

fn remedy(cause: &std::io::Error) -> String {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    if matches!(cause.kind(), StorageFull | QuotaExceeded) { format!(": {FULL}") } else { String::new() }
}

impl From<task::TaskError> for GuestError {
    fn from(error: task::TaskError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl GuestError {
    pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Refused(why.into()))
    }

    pub(crate) fn failed<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Failed(why.into()))
    }

    pub(crate) fn file(step: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { step, path, cause }
    }

    /// Exit code: 2 for what the caller can put right by asking otherwise, 130 for an interruption, 1 for a failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) => 2,
            Self::Interrupted => 130,
            Self::Failed(_) | Self::File { .. } => 1,
        }
    }
}
