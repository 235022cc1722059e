//! Change sets of network namespaces: device names and sysctls mean others in each.
//!
//! The header of a set has the namespace it was made in (`netns`), or lies in the state directory of one, `netns-INODE`
//! below the machine's. An inode is given again after its namespace, so the header has the namespace's cookie too.
//! [`StateDir::undo`] writes nothing in another one, and forgets what went with a removed one.

use super::{SetHeader, StateDir, UndoError};
use crate::knob::Knob;
use crate::netns::{self, Search};
use crate::private;
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
        inode: u64,
        /// A file to enter it by.
        file: PathBuf,
    },
    /// Nowhere: the namespace was removed, and they with it.
    Gone { inode: u64 },
    /// In one that is not found from here, and may still be there.
    NotFound {
        inode: u64,
        /// Why, and what to do: one line.
        remedy: String,
    },
    /// Not known: the header that named it is damaged.
    Lost,
}

impl StateDir {
    /// The state directory of the calling thread's network namespace: in the machine's first one this one.
    pub fn of_this_namespace(&self) -> Self {
        match (netns::is_initial(), netns::inode()) {
            (Some(false), Some(inode)) => Self::at(self.path().join(format!("{PREFIX}{inode}"))),
            _ => self.clone(),
        }
    }

    /// Inode of the network namespace that this state directory belongs to, where it belongs to one.
    pub fn inode_of_namespace(&self) -> Option<u64> {
        self.path().file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
    }

    /// Where the settings of a change set in this directory are.
    pub fn namespace_of(&self, header: &SetHeader) -> SetNamespace {
        let Some(inode) = header.netns().or_else(|| self.inode_of_namespace()) else {
            return if header.is_unreadable() { SetNamespace::Lost } else { SetNamespace::This };
        };
        let is_made_in = |cookie| header.netns_cookie.zip(cookie).is_none_or(|(its, found)| its == found);
        match netns::inode() {
            Some(ours) if ours == inode && !is_made_in(netns::cookie()) => SetNamespace::Gone { inode },
            Some(ours) if ours != inode => match netns::find(inode) {
                Search::Found(file) if is_made_in(netns::cookie_of(&file)) => SetNamespace::Other { inode, file },
                Search::Found(_) | Search::Gone => SetNamespace::Gone { inode },
                Search::Unknown { remedy } => SetNamespace::NotFound { inode, remedy },
            },
            _ => SetNamespace::This,
        }
    }

    /// The state directories of namespaces below this one that hold logs of this boot.
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
    pub fn netns(&self) -> Option<u64> {
        self.details.get("netns")?.as_u64()
    }

    /// Whether a knob of one of two sets of a directory is the same of the other.
    pub(super) fn shares(&self, knob: &Knob, other: &Self) -> bool {
        let same_cookie =
            self.netns_cookie.zip(other.netns_cookie).is_none_or(|(a, b)| self.netns().is_none() || a == b);
        let same = self.netns() == other.netns() && same_cookie && !self.is_unreadable() && !other.is_unreadable();
        same || !knob.is_of_network_namespace()
    }
}
