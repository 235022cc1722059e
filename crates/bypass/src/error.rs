//! What can fail, with operand, cause and remedy.

use std::io;
use std::path::PathBuf;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum BypassError {
    /// A profile that is neither built in nor a file.
    #[error("unknown profile '{name}': use {known}, or a file that ends in .toml")]
    UnknownProfile {
        /// As it was written.
        name: String,
        /// The built-in ones.
        known: String,
    },
    /// A profile's file that cannot be read.
    #[error("profile {path} cannot be read: {cause}")]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A profile's content that is wrong.
    #[error("profile {profile}: {why}")]
    Profile {
        /// Its name or file.
        profile: String,
        /// What is wrong, with the remedy.
        why: String,
    },
    /// A variable that overrides nothing, or with a value that cannot be.
    #[error("variable {variable}: {why}")]
    Variable {
        /// Its name.
        variable: String,
        /// What is wrong, with the remedy.
        why: String,
    },
    /// The library cannot be put where the loader finds it.
    #[error("the preload library cannot be written to {path}: {cause}")]
    Library {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
}
