//! A guest's folder: sockets, console, what QEMU complained of.
//!
//! Its owner holds a lock (flock(2)) on it as long as it lives. Who finds the lock free may remove the folder: a process id
//! in its name would mean another process in another PID namespace, or none.

use crate::GuestError;
use host::knob::TaskKey;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use task::{Keeper, Launch, LongWait};

/// What the folders are called before the process id of the owner.
const PREFIX: &str = "windhover-guest-";

/// A folder that goes with the value, and with the calling process when that is killed.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The folder itself, locked; no other program that is started gets it.
    _lock: File,
    /// Dropped after the folder was removed: then it finds nothing to do.
    _keeper: Keeper,
}

impl RunFolder {
    /// Makes one in the folder for temporary files. `program` (windhover) is started as its keeper.
    pub fn make(program: &Path) -> Result<Self, GuestError> {
        let all = std::env::temp_dir();
        remove_stale(&all);
        let (path, lock) = make_locked(&all)?;
        let pid = std::process::id();
        let own = i32::try_from(pid).ok().and_then(TaskKey::of).map_or(0, |key| key.started);
        let launch = Launch::new(program).args(["keeper", "--owner", &format!("{pid}:{own}"), "--folder"]).arg(&path);
        let kept = Keeper::start(launch).map_err(GuestError::from).and_then(|keeper| match keeper {
            Some(keeper) => Ok(keeper),
            None => {
                let remedy = "is the windhover program still where it was?";
                GuestError::refused(format!("the keeper of the guest's folder could not be started: {remedy}"))
            }
        });
        match kept {
            Ok(keeper) => Ok(Self { path, _lock: lock, _keeper: keeper }),
            Err(error) => {
                let _ = std::fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if host::private::check(&self.path).is_ok() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes a folder of a name that is free, and takes its lock.
fn make_locked(all: &Path) -> Result<(PathBuf, File), GuestError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = all.join(format!("{PREFIX}{pid}-{number}"));
        let failed = || GuestError::file("make the folder", &path);
        match DirBuilder::new().mode(0o700).create(&path) {
            // Of a process with this id in another PID namespace, or left by one.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made.map_err(failed())?,
        }
        host::private::folder(&path).map_err(failed())?;
        let lock = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened.map_err(failed())?,
        };
        lock.lock().map_err(failed())?;
        // Who found it without a lock has removed it.
        let inode = |found: std::io::Result<std::fs::Metadata>| found.ok().map(|found| found.ino());
        if inode(std::fs::metadata(&path)) == inode(lock.metadata()) {
            return Ok((path, lock));
        }
    }
}

/// Removes a guest's folder, where it is one without an owner.
pub fn remove(path: &Path) {
    if is_named(path)
        && host::private::check(path).is_ok()
        && let Ok(folder) = File::open(path)
        && folder.try_lock().is_ok()
    {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// The same by a keeper, whose owner has ended: for a moment a child of the owner may have the lock still, or the emulator writes
/// into the folder while it is removed.
pub fn remove_behind_owner(path: &Path) {
    const TIMES: u32 = 100;
    for _ in 0..TIMES {
        remove(path);
        if !path.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Whether a folder has the name of a guest's: a process id and a number.
fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let parts = name.and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
    parts.is_some_and(|(pid, count)| pid.parse::<u32>().is_ok() && count.parse::<u32>().is_ok())
}

/// The life of a keeper, in a process of its own: waits until its owner (process id and start time) has ended or released
/// it. `ready` writes [`Keeper::READY`] to standard output.
pub fn wait_for_owner(owner: (i32, u64), ready: impl FnOnce()) -> Result<(), GuestError> {
    task::own_session();
    let wait = LongWait::new()?;
    ready();
    let lives = || TaskKey::of(owner.0).is_some_and(|now| now.began(owner.1));
    wait.wait(Some(owner.0), &lives)?;
    Ok(())
}

/// Removes the folders of owners that were killed together with their keepers.
fn remove_stale(all: &Path) {
    for path in std::fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path()) {
        remove(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a keeper that tries once, while a child of the killed owner has the lock's descriptor still.
    #[test]
    fn a_keeper_waits_for_the_lock_of_a_child_that_is_ending() {
        let folder = tempfile::tempdir().unwrap();
        let (path, lock) = make_locked(folder.path()).unwrap();
        let ending = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(lock);
        });
        remove_behind_owner(&path);
        assert!(!path.exists());
        ending.join().unwrap();
    }

    /// Catches: a process of another PID namespace, which has no such id, removed the folder of a guest that runs; the owner
    /// of a folder is whoever has its lock, not who has the number in its name.
    #[test]
    fn folders_without_an_owner_go_whatever_their_number() {
        let folder = tempfile::tempdir().unwrap();
        let (used, lock) = make_locked(folder.path()).unwrap();
        // As it looks from elsewhere: the number is nobody's there.
        let elsewhere = folder.path().join(format!("{PREFIX}999999999-0"));
        std::fs::rename(&used, &elsewhere).unwrap();
        let named = |name: String| folder.path().join(name);
        let left = named(format!("{PREFIX}{}-999999999", std::process::id()));
        // Of another program, with a name that begins alike.
        let other = named(format!("{PREFIX}program-999999999"));
        for path in [&left, &other] {
            host::private::folder(path).unwrap();
        }
        std::fs::write(left.join("console"), "x").unwrap();
        remove_stale(folder.path());
        assert_eq!([elsewhere.exists(), left.exists(), other.exists()], [true, false, true]);
        for kept in [&other, &elsewhere] {
            remove(kept);
            assert!(kept.exists(), "removed {}", kept.display());
        }
        drop(lock);
        remove(&elsewhere);
        assert!(!elsewhere.exists());
    }

    /// Catches: two processes with one id (in two PID namespaces) shared a folder.
    #[test]
    fn a_folder_that_is_there_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: u32| folder.path().join(format!("{PREFIX}{}-{number}", std::process::id()));
        (0..8).for_each(|number| std::fs::create_dir(name(number)).unwrap());
        let (path, _lock) = make_locked(folder.path()).unwrap();
        assert!((0..8).all(|number| name(number) != path), "{}", path.display());
    }
}
