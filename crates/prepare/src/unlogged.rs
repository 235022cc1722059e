//! Undoes on a copy of the logs where the state directory is read-only; the logs still name the settings afterwards.

use host::private;
use host::undo::{SetId, StateDir, UndoError, UndoReport};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A copy of the logs of this boot, removed with this value. Sets that are undone on one copy know of each other.
#[derive(Debug)]
pub struct StateCopy {
    original: PathBuf,
    folder: PathBuf,
    state: StateDir,
}

impl StateCopy {
    /// Whether an undo failed because its log cannot be written.
    pub fn helps(error: &UndoError) -> bool {
        matches!(error, UndoError::Log { cause, .. } if cause.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Copies the logs to a place that can be written; [`UndoError::Log`] where there is none, and for unreadable logs.
    pub fn of(state: &StateDir) -> Result<Self, UndoError> {
        let from = state.folder()?;
        let name = format!("windhover-undo-{}", std::process::id());
        let places = [std::env::temp_dir(), "/dev/shm".into(), "/run".into()];
        let made = places.map(|place| place.join(&name)).into_iter().find(|folder| private::folder(folder).is_ok());
        let folder = made
            .ok_or_else(|| UndoError::log(&std::env::temp_dir(), "write")(io::ErrorKind::ReadOnlyFilesystem.into()))?;
        // A directory of a network namespace is known by its name.
        let path = folder.join(state.path().file_name().unwrap_or("state".as_ref()));
        let copy = Self { original: state.path().to_owned(), folder, state: StateDir::at(path) };
        copy.fill(&from, &copy.state.folder()?)?;
        Ok(copy)
    }

    fn fill(&self, from: &Path, to: &Path) -> Result<(), UndoError> {
        private::folder(to).map_err(UndoError::log(to, "create"))?;
        for entry in std::fs::read_dir(from).map_err(UndoError::log(from, "read"))? {
            let entry = entry.map_err(UndoError::log(from, "read"))?;
            let (path, copy) = (entry.path(), to.join(entry.file_name()));
            if path.extension().is_some_and(|ending| ending == "jsonl" || ending == "json") {
                let text = private::read(&path).map_err(UndoError::log(&path, "read"))?;
                private::create(&copy)
                    .and_then(|mut file| file.write_all(&text))
                    .map_err(UndoError::log(&copy, "write"))?;
            }
        }
        Ok(())
    }

    /// As [`StateDir::undo`]; the report also has that it could not be logged.
    pub fn undo(
        &self,
        kernel: &crate::Kernel,
        id: &SetId,
        force: bool,
        patience: Duration,
    ) -> Result<UndoReport, UndoError> {
        let lock = self.state.lock(patience)?;
        let mut report = self.state.undo(&lock, kernel, id, force, patience)?;
        report.lost.push(format!(
            "its log could not be written, because {} is read-only: make it writable, then type `windhover undo` once more",
            self.original.display()
        ));
        Ok(report)
    }
}

impl Drop for StateCopy {
    fn drop(&mut self) {
        // What stays in a temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
