//! What goes wrong with the undo log.

use crate::knob::{Knob, KnobError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a change or an undo failed, one variant a step.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The state directory or a log in it cannot be used; the step is `create`, `write`, `sync`, `read`, `lock` …
    #[error("undo log {path}: cannot {step}: {cause}")]
    Log { path: PathBuf, step: &'static str, cause: io::Error },
    #[error("another windhover (process {0}) is changing this machine: wait for it, or end it")]
    Locked(String),
    #[error("undo log {path}: line {line} cannot be read: {why}")]
    Line { path: PathBuf, line: usize, why: String },
    /// No boot id can be read, so logs of earlier boots cannot be distinguished.
    #[error("/proc/sys/kernel/random/boot_id cannot be read: no settings are changed without it")]
    NoBootId,
    #[error("there is no change set {0} to undo: see `windhover undo --list`")]
    NoSuchSet(String),
    /// A change set belongs to another network namespace that still exists.
    #[error("change set {set} was made in another network namespace (inode {netns}): `windhover undo {set}` enters it")]
    OtherNamespace { set: String, netns: u64 },
    #[error(transparent)]
    Knob(#[from] KnobError),
    #[error("{knob}: set to '{wanted}', but reads back '{found}'")]
    ReadBack { knob: Box<Knob>, wanted: String, found: String },
}

impl UndoError {
    /// What a step on a file or directory of the log came to.
    pub fn log(path: &Path, step: &'static str) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Log { path: path.to_owned(), step, cause }
    }
}
