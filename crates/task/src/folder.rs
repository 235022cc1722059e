//! Temporary folders that go with their owner, and are found when it was killed.
//!
//! The owner holds a lock (flock(2)) on its folder as long as it lives. Who finds the lock free may remove the folder: a process
//! id in its name would mean another process in another PID namespace, or none.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that only its owner may enter. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
    /// The folder itself, locked; no other program that is started gets it.
    _lock: File,
}

impl OwnFolder {
    /// A new folder in `base`, named by `prefix`, the process id and a number. Those of killed owners are removed.
    pub fn make(base: &Path, prefix: &str) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
            remove_unowned(&entry.path(), prefix);
        }
        loop {
            let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = base.join(format!("{prefix}{pid}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                // Of a process with this id in another PID namespace, or left by one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            lock.lock()?;
            // Who found it without a lock has removed it.
            let inode = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| found.ino());
            if inode(std::fs::metadata(&path)) == inode(lock.metadata()) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes a folder of an [`OwnFolder`] with this prefix and of this user, unless its owner lives. What cannot be removed stays.
pub fn remove_unowned(path: &Path, prefix: &str) {
    let name = path.file_name().and_then(|name| name.to_str());
    let parts = name.and_then(|name| name.strip_prefix(prefix)?.split_once('-'));
    let is_named = parts.is_some_and(|(pid, number)| pid.parse::<u32>().is_ok() && number.parse::<u32>().is_ok());
    let is_own = |found: std::fs::Metadata| found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if is_named
        && std::fs::symlink_metadata(path).is_ok_and(is_own)
        && let Ok(folder) = File::open(path)
        && folder.try_lock().is_ok()
    {
        let _ = std::fs::remove_dir_all(path);
    }
}
