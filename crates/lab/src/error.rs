//! What can go wrong when a lab is made, used or removed.

use std::path::PathBuf;

/// A step of a lab that failed. Steps that differ only in their words share a variant.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// What was asked for cannot be had here, or a program cannot be started: what, and the remedy.
    #[error("{0}")]
    Refused(String),
    /// `ip` refused a command, a link did not come up, or something is left after a removal: what, and the remedy.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
    /// A lab was removed whose record could not be read: which, and where the record is now.
    #[error("{0}")]
    SetAside(String),
    #[error("registry of labs: cannot {step} {}: {cause}", path.display())]
    Registry { step: &'static str, path: PathBuf, cause: std::io::Error },
    #[error(
        "{} does not describe a lab ({why}): windhover lab down {} sets it aside and removes the namespaces of that name",
        path.display(),
        path.file_stem().unwrap_or_default().display()
    )]
    Damaged { path: PathBuf, why: String },
}

impl From<task::TaskError> for LabError {
    fn from(error: task::TaskError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl LabError {
    pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Refused(why.into()))
    }

    pub(crate) fn no_lab(name: &str) -> Self {
        Self::Refused(format!("there is no lab named '{name}': windhover lab list shows those that are up"))
    }

    pub(crate) fn not_started(program: &str, why: impl std::fmt::Display) -> Self {
        Self::Refused(format!("cannot start {program}: {why}"))
    }

    pub(crate) fn left<T>(what: &str, lab: &str, why: &str) -> Result<T, Self> {
        Err(Self::Failed(format!("{what} of lab '{lab}' could not be removed: {why}")))
    }

    /// Exit code: 2 for what the caller can put right by asking otherwise, 130 for an interruption, 1 for a failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) => 2,
            Self::Interrupted => 130,
            Self::Failed(_) | Self::SetAside(_) | Self::Registry { .. } | Self::Damaged { .. } => 1,
        }
    }
}
