//! The logs of network namespaces: device names and sysctls mean others in each, so each has a state directory of its
//! own, `netns-INODE`, below the machine's.

use super::{StateDir, UndoError};
use crate::{netns, private};
use std::path::PathBuf;

/// What the names of these directories begin with.
const PREFIX: &str = "netns-";

/// The state directory of a network namespace.
#[derive(Debug, Clone)]
pub struct NamespaceState {
    /// Where its logs are.
    pub state: StateDir,
    /// Inode of the namespace.
    pub inode: u64,
    /// A file to enter it by; absent when it is gone, and its settings with it.
    pub file: Option<PathBuf>,
}

impl StateDir {
    /// The state directory of the calling thread's network namespace: in the machine's first one this one.
    #[must_use]
    pub fn of_this_namespace(&self) -> Self {
        match (netns::is_initial(), netns::inode()) {
            (Some(false), Some(inode)) => Self::at(self.path().join(format!("{PREFIX}{inode}"))),
            _ => self.clone(),
        }
    }

    /// Inode of the network namespace that this state directory belongs to, where it belongs to one.
    #[must_use]
    pub fn inode_of_namespace(&self) -> Option<u64> {
        self.path().file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
    }

    /// The state directories of namespaces below this one that hold logs of this boot.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn namespaces(&self) -> Result<Vec<NamespaceState>, UndoError> {
        let mut found = Vec::new();
        if private::check(self.path()).is_err() {
            return Ok(found);
        }
        for entry in std::fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let state = Self::at(entry.path());
            let Some(inode) = state.inode_of_namespace() else { continue };
            if state.sets()?.is_empty() && state.damaged()?.is_empty() {
                continue;
            }
            found.push(NamespaceState { state, inode, file: netns::find(inode) });
        }
        found.sort_by_key(|namespace| namespace.inode);
        Ok(found)
    }
}

impl NamespaceState {
    /// Removes the logs of a namespace that is gone: its settings went with it.
    ///
    /// # Errors
    /// [`UndoError::Log`].
    pub fn remove(&self) -> Result<(), UndoError> {
        self.state.remove()
    }
}
