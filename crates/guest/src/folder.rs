//! A guest's folder: sockets, console, what QEMU complained of.

use crate::GuestError;
use host::knob::TaskKey;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use task::{Keeper, Launch, LongWait};

/// What the folders are called before the process id of the owner.
const PREFIX: &str = "windhover-guest-";

/// A folder that goes with the value, and with the calling process when that is killed.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Dropped after the folder was removed: then it finds nothing to do.
    _keeper: Keeper,
}

impl RunFolder {
    /// Makes one in the folder for temporary files. `program` (windhover) is started as its keeper.
    ///
    /// # Errors
    /// [`GuestError::File`]; [`GuestError::Refused`] without a keeper.
    pub fn make(program: &Path) -> Result<Self, GuestError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let all = std::env::temp_dir();
        remove_stale(&all);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = all.join(format!("{PREFIX}{pid}-{number}"));
        let own = i32::try_from(pid).ok().and_then(TaskKey::of).map_or(0, |key| key.started);
        let launch = Launch::new(program).args(["keeper", "--owner", &format!("{pid}:{own}"), "--folder"]).arg(&path);
        let Some(keeper) = Keeper::start(launch)? else {
            let remedy = "is the windhover program still where it was?";
            return GuestError::refused(format!("the keeper of the guest's folder could not be started: {remedy}"));
        };
        host::private::folder(&path).map_err(GuestError::file("make the folder", &path))?;
        Ok(Self { path, _keeper: keeper })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a guest's folder, where it is one.
pub fn remove(path: &Path) {
    if owner(path).is_some() && host::private::check(path).is_ok() {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// The process id in a folder's name.
fn owner(path: &Path) -> Option<u32> {
    let (pid, count) = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    count.parse::<u32>().ok()?;
    pid.parse().ok()
}

/// The life of a keeper, in a process of its own: waits until its owner (process id and start time) has ended or let it go.
/// `ready` writes [`Keeper::READY`] to standard output.
///
/// # Errors
/// [`GuestError::Refused`] when the owner cannot be waited for.
pub fn wait_for_owner(owner: (i32, u64), ready: impl FnOnce()) -> Result<(), GuestError> {
    task::own_session();
    let wait = LongWait::new()?;
    ready();
    let lives = || TaskKey::of(owner.0).is_some_and(|now| now.began(owner.1));
    wait.wait(Some(owner.0), &lives)?;
    Ok(())
}

/// Removes the folders of owners that were killed together with their keepers. A number that is somebody else's now only keeps
/// a folder a while longer.
fn remove_stale(all: &Path) {
    for path in std::fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if owner(&path).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_owners_go() {
        let folder = tempfile::tempdir().unwrap();
        // Of another program, with a name that begins alike.
        let other = format!("{PREFIX}program-999999999");
        let (dead, alive) = (folder.path().join(format!("{PREFIX}999999999-0")), folder.path().join(other));
        let own = folder.path().join(format!("{PREFIX}{}-0", std::process::id()));
        for path in [&dead, &alive, &own] {
            host::private::folder(path).unwrap();
        }
        remove_stale(folder.path());
        assert_eq!([dead.exists(), alive.exists(), own.exists()], [false, true, true]);
        remove(&alive);
        assert!(alive.exists(), "removed what is no guest's");
    }
}
