//! A guest's folder: sockets, console, what QEMU complained of.

use crate::GuestError;
use host::knob::TaskKey;
use std::path::Path;
use task::{Keeper, Launch, LongWait, OwnFolder, remove_unowned};

const PREFIX: &str = "windhover-guest-";

/// A folder that goes with the value, and with the calling process when that is killed.
#[derive(Debug)]
pub struct RunFolder {
    folder: OwnFolder,
    /// Dropped after the folder was removed: then it finds nothing to do.
    _keeper: Keeper,
}

impl RunFolder {
    /// Makes one in the folder for temporary files. `program` (windhover) is started as its keeper.
    pub fn make(program: &Path) -> Result<Self, GuestError> {
        let all = std::env::temp_dir();
        let folder = OwnFolder::make(&all, PREFIX).map_err(GuestError::file("make a folder in", &all))?;
        let pid = std::process::id();
        let own = i32::try_from(pid).ok().and_then(TaskKey::of).map_or(0, |key| key.started);
        let launch = Launch::new(program).args(["keeper", "--owner", &format!("{pid}:{own}"), "--folder"]);
        match Keeper::start(launch.arg(folder.path()))? {
            Some(keeper) => Ok(Self { folder, _keeper: keeper }),
            None => {
                let remedy = "is the windhover program still where it was?";
                GuestError::refused(format!("the keeper of the guest's folder could not be started: {remedy}"))
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes a guest's folder, where it is one without an owner.
pub fn remove(path: &Path) {
    remove_unowned(path, PREFIX);
}

/// The same for a keeper: a child of the ended owner may briefly hold the lock, or the emulator write into the folder.
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

/// A keeper's process: waits until its owner (id, start) has ended or released it. `ready` prints [`Keeper::READY`].
pub fn wait_for_owner(owner: (i32, u64), ready: impl FnOnce()) -> Result<(), GuestError> {
    task::own_session();
    let wait = LongWait::new()?;
    ready();
    let lives = || TaskKey::of(owner.0).is_some_and(|now| now.began(owner.1));
    wait.wait(Some(owner.0), &lives)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a keeper that tries once, while a child of the killed owner has the lock's descriptor still.
    #[test]
    fn a_keeper_waits_for_the_lock_of_a_child_that_is_ending() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{PREFIX}1-0"));
        std::fs::create_dir(&path).unwrap();
        let lock = std::fs::File::open(&path).unwrap();
        lock.lock().unwrap();
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
        let used = OwnFolder::make(folder.path(), PREFIX).unwrap();
        // As it looks from elsewhere: no process has the number there.
        let elsewhere = folder.path().join(format!("{PREFIX}999999999-0"));
        std::fs::rename(used.path(), &elsewhere).unwrap();
        let named = |name: String| folder.path().join(name);
        let left = named(format!("{PREFIX}{}-999999999", std::process::id()));
        // Of another program, with a name that begins alike.
        let other = named(format!("{PREFIX}program-999999999"));
        for path in [&left, &other] {
            host::private::folder(path).unwrap();
        }
        std::fs::write(left.join("console"), "x").unwrap();
        drop(OwnFolder::make(folder.path(), PREFIX).unwrap());
        assert_eq!([elsewhere.exists(), left.exists(), other.exists()], [true, false, true]);
        for kept in [&other, &elsewhere] {
            remove(kept);
            assert!(kept.exists(), "removed {}", kept.display());
        }
        drop(used);
        remove(&elsewhere);
        assert!(!elsewhere.exists());
    }

    /// Catches: two processes with one id (in two PID namespaces) shared a folder.
    #[test]
    fn a_folder_that_is_there_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: u32| folder.path().join(format!("{PREFIX}{}-{number}", std::process::id()));
        (0..8).for_each(|number| std::fs::create_dir(name(number)).unwrap());
        // Locked, so that they are not taken for left over.
        let locks: Vec<_> = (0..8).map(|number| std::fs::File::open(name(number)).unwrap()).collect();
        locks.iter().for_each(|lock| lock.lock().unwrap());
        let made = OwnFolder::make(folder.path(), PREFIX).unwrap();
        assert!((0..8).all(|number| name(number) != made.path()), "{}", made.path().display());
    }
}
