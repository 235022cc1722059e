//! What goes wrong with tuning.

use host::undo::UndoError;

/// Why a profile cannot be read, or a machine not be tuned. Steps that differ only in their words share a variant.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A profile, a key or a value that there is not: which, and what is wrong with it.
    #[error("{0}")]
    Wrong(String),
    #[error(transparent)]
    Layers(#[from] host::layers::LayerError),
    #[error(transparent)]
    Nic(#[from] host::nic::NicError),
    /// What may not be changed, or was refused: what, why, and what became of the changes before it.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Undo(#[from] UndoError),
}

impl TuneError {
    pub(super) fn profile(profile: &str, why: impl std::fmt::Display) -> Self {
        Self::Wrong(format!("profile {profile}: {why}"))
    }

    /// No setting has this key; `nearest` is `: did you mean '…'?` or where to look.
    pub(super) fn unknown_key(key: &str, nearest: &str) -> Self {
        Self::Wrong(format!("unknown setting '{key}'{nearest}"))
    }

    pub(super) fn not_permitted(what: &str, capabilities: &str) -> Self {
        Self::Failed(format!("not permitted: {what} (run as root, or grant {capabilities})"))
    }

    /// The design's exit code: 2 for what was asked wrongly or may not be done, 1 for what failed.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Wrong(_) | Self::Layers(_) | Self::Nic(_)) { 2 } else { 1 }
    }
}
