//! The directory of undo logs: its lock, its change sets, undoing one.

use super::{Changes, UndoError};
use crate::knob::{Knob, Settings};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names a change set: its number as text (`0003`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SetId(pub String);

impl std::fmt::Display for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a change set is, in the first line of its log.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SetHeader {
    /// Format number of the log: 1.
    pub format: u32,
    /// What makes it: `shield`, `tune paper-2012`, `campaign`.
    pub what: String,
    /// The command, for people.
    pub command: String,
    /// Process that it goes with; absent: it stays until it is undone by hand.
    #[serde(default)]
    pub owner: Option<crate::knob::TaskKey>,
    /// Wall clock since 1970.
    pub made_ns: u64,
    /// What the maker wants to remember (a shield's spec), as JSON.
    #[serde(default)]
    pub details: serde_json::Value,
}

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

/// Held while a machine is changed: a file lock (flock(2)) on a descriptor that children do not inherit.
#[derive(Debug)]
pub struct Lock {
    pub(crate) _file: File,
}

/// A value that is not ours any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Conflict {
    /// Which knob.
    pub knob: Knob,
    /// What we had set.
    pub ours: String,
    /// What it is now.
    pub now: String,
    /// What it was before, and is not put back to.
    pub before: String,
    /// Who changed it, where that can be told.
    pub who: Option<String>,
}

/// What an undo did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UndoReport {
    /// Knobs put back.
    pub restored: u32,
    /// Knobs that had their old value already, or whose task is gone.
    pub already: u32,
    /// Knobs that another changed meanwhile: left as they are.
    pub conflicts: Vec<Conflict>,
    /// Knobs that could not be put back, with the reason; their log is kept.
    pub failed: Vec<String>,
}

impl StateDir {
    /// The usual place: `WINDHOVER_STATE`, or /run/windhover.
    #[must_use]
    pub fn usual() -> Self {
        let path = std::env::var_os("WINDHOVER_STATE").map_or_else(|| PathBuf::from("/run/windhover"), PathBuf::from);
        Self { path }
    }

    /// Another place.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`UndoError::Locked`] when the time is over.
    pub fn lock(&self, patience: Duration) -> Result<Lock, UndoError> {
        let _ = patience;
        Err(UndoError::Locked { holder: "not built yet".to_owned() })
    }

    /// The change sets of this boot, oldest first.
    ///
    /// # Errors
    /// [`UndoError::Log`] and [`UndoError::Line`].
    pub fn sets(&self) -> Result<Vec<(SetId, SetHeader)>, UndoError> {
        Ok(Vec::new())
    }

    /// Opens a new change set.
    ///
    /// # Errors
    /// [`UndoError::Log`].
    pub fn begin(&self, _lock: &Lock, _header: &SetHeader) -> Result<Changes, UndoError> {
        Err(UndoError::NoBootId)
    }

    /// Opens a change set that exists, to add to it.
    ///
    /// # Errors
    /// [`UndoError::NoSuchSet`].
    pub fn reopen(&self, _lock: &Lock, id: &SetId) -> Result<Changes, UndoError> {
        Err(UndoError::NoSuchSet { id: id.to_string() })
    }

    /// Undoes a change set in strict reverse order: each knob only where its value is still ours (or with `force`),
    /// read back, retried while the kernel says EBUSY until `patience` is over. The log goes when nothing failed.
    ///
    /// # Errors
    /// [`UndoError`] when the log cannot be read or written; knobs that resist are in the report.
    pub fn undo(
        &self,
        _lock: &Lock,
        _settings: &dyn Settings,
        id: &SetId,
        _force: bool,
        _patience: Duration,
    ) -> Result<UndoReport, UndoError> {
        Err(UndoError::NoSuchSet { id: id.to_string() })
    }
}
