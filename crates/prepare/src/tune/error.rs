//! What goes wrong with tuning.

use host::undo::{UndoError, UndoReport};
use std::path::PathBuf;

/// Why a profile cannot be read, or a machine not be tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// No built-in profile has this name, and it is no file.
    #[error("there is no profile '{name}': the built-in ones are {known}; a file's name ends in .toml")]
    UnknownProfile {
        /// As asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A profile's file cannot be read.
    #[error("profile {path}: cannot read: {cause}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// A profile is no profile.
    #[error("profile {profile}: {why}")]
    Profile {
        /// Which.
        profile: String,
        /// One line.
        why: String,
    },
    /// No setting has this key.
    #[error("unknown setting '{key}'{nearest}")]
    UnknownKey {
        /// As given.
        key: String,
        /// Empty, or `: did you mean '…'?`.
        nearest: String,
    },
    /// A setting cannot have this value.
    #[error("{key}={value}: {why}")]
    Value {
        /// Its key.
        key: String,
        /// As given.
        value: String,
        /// One line.
        why: String,
    },
    /// The network device cannot be looked at.
    #[error(transparent)]
    Nic(#[from] host::nic::NicError),
    /// The caller may not change some of the settings.
    #[error("not permitted: {what} (run as root, or grant {capabilities})")]
    NotPermitted {
        /// What is out of reach.
        what: String,
        /// The missing capabilities, as capabilities(7) names them.
        capabilities: String,
    },
    /// A change was refused; all that were made before it are undone.
    #[error("{0}; everything changed before it is put back")]
    Refused(Box<TuneError>),
    /// A change was refused, and what was made before it could not all be put back.
    #[error("{cause}; and not everything changed before it could be put back: {left}; try `windhover undo`")]
    RolledBackPartly {
        /// What failed.
        cause: Box<TuneError>,
        /// What the undo did.
        report: Box<UndoReport>,
        /// One line.
        left: String,
    },
    /// Nobody would undo the settings when this process dies.
    #[error("no keeper, so nothing was changed: {0}")]
    Keeper(String),
    /// The undo log cannot be used.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

impl TuneError {
    /// The design's exit code: 2 for what was asked wrongly or may not be done, 1 for what failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownProfile { .. }
            | Self::Unreadable { .. }
            | Self::Profile { .. }
            | Self::UnknownKey { .. }
            | Self::Value { .. }
            | Self::Nic(_) => 2,
            _ => 1,
        }
    }
}
