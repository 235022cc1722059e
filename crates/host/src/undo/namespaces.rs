//! Change sets of network namespaces: device names and sysctls mean others in each.
//!
//! A set says in its header which namespace it was made in (`netns`), or lies in the state directory of one, `netns-INODE`
//! below the machine's. [`StateDir::undo`] writes nothing in another one, and forgets what went with one that is gone.

use super::{SetHeader, StateDir, UndoError};
use crate::{netns, private};
use std::path::PathBuf;

/// What the names of these directories begin with.
const PREFIX: &str = "netns-";

/// Where a change set's settings of its network namespace are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetNamespace {
    /// In that of the calling thread, or the set has none.
    This,
    /// In another one.
    Other {
        /// Inode of the namespace.
        inode: u64,
        /// A file to enter it by.
        file: PathBuf,
    },
    /// Nowhere: the namespace is gone, and they with it.
    Gone {
        /// Inode that the namespace had.
        inode: u64,
    },
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

    /// Where the settings of a change set in this directory are.
    #[must_use]
    pub fn namespace_of(&self, header: &SetHeader) -> SetNamespace {
        let inode = header.netns().or_else(|| self.inode_of_namespace());
        let Some(inode) = inode.filter(|inode| netns::inode().is_some_and(|ours| ours != *inode)) else {
            return SetNamespace::This;
        };
        netns::find(inode).map_or(SetNamespace::Gone { inode }, |file| SetNamespace::Other { inode, file })
    }

    /// The state directories of namespaces below this one that hold logs of this boot.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn namespaces(&self) -> Result<Vec<Self>, UndoError> {
        let mut found = Vec::new();
        if private::check(self.path()).is_err() {
            return Ok(found);
        }
        for entry in std::fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let state = Self::at(entry.path());
            if state.inode_of_namespace().is_some() && !(state.sets()?.is_empty() && state.damaged()?.is_empty()) {
                found.push(state);
            }
        }
        found.sort_by_key(Self::inode_of_namespace);
        Ok(found)
    }
}

impl SetHeader {
    /// Inode of the network namespace whose settings the set changed; absent where it changed none or only the machine's.
    #[must_use]
    pub fn netns(&self) -> Option<u64> {
        self.details.get("netns")?.as_u64()
    }
}
