//! A folder for a load's files, removed with it.

use crate::LoadError;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "windhover-load-";
/// Locked as long as the folder's owner lives: a process id would not do, because owners live in pid namespaces.
const LOCK: &str = ".lock";
const ATTEMPTS: u32 = 100;

/// A folder that only its owner may enter. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// A new folder in `base`, else in the system's temporary folder. Folders of killed owners are removed.
    pub(crate) fn new(base: Option<&Path>) -> Result<Self, LoadError> {
        let base = base.map_or_else(std::env::temp_dir, Path::to_owned);
        Self::make(&base).map_err(|cause| LoadError::folder(&base, &cause))
    }

    fn make(base: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut last = io::Error::other("no free name");
        for _ in 0..ATTEMPTS {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{PREFIX}{:x}-{}-{number}", clock::realtime_ns(), std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = error;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let lock = File::create(path.join(LOCK))?;
            // Another load that sweeps at this very moment may have taken it for an orphan.
            if lock.try_lock().is_err() {
                last = io::Error::other("swept away by another load");
                continue;
            }
            let scratch = Self { path, _lock: lock };
            scratch.sweep(base);
            return Ok(scratch);
        }
        Err(last)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes folders of the same user whose lock is free. What cannot be removed stays.
    fn sweep(&self, base: &Path) {
        let Ok(own) = std::fs::symlink_metadata(&self.path) else { return };
        let Ok(entries) = std::fs::read_dir(base) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
                && std::fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir() && data.uid() == own.uid());
            if !ours || path == self.path {
                continue;
            }
            if let Ok(lock) = File::open(path.join(LOCK))
                && lock.try_lock().is_ok()
            {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_goes_with_its_owner() {
        let base = Scratch::new(None).unwrap();
        let one = Scratch::new(Some(base.path())).unwrap();
        let two = Scratch::new(Some(base.path())).unwrap();
        assert_ne!(one.path(), two.path());
        assert_eq!(one.path().metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::create_dir(one.path().join("inner")).unwrap();
        std::fs::write(one.path().join("inner/file"), "x").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn orphans_are_swept_and_living_ones_are_not() {
        let base = Scratch::new(None).unwrap();
        let orphan = base.path().join(format!("{PREFIX}orphan"));
        std::fs::create_dir(&orphan).unwrap();
        std::fs::write(orphan.join(LOCK), "").unwrap();
        let stranger = base.path().join("other-folder");
        std::fs::create_dir(&stranger).unwrap();
        std::fs::write(stranger.join(LOCK), "").unwrap();
        let living = Scratch::new(Some(base.path())).unwrap();
        assert!(!orphan.exists() && stranger.exists());
        let _next = Scratch::new(Some(base.path())).unwrap();
        assert!(living.path().exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Scratch::new(Some(Path::new("/nonexistent-folder"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent-folder") && error.contains("name another"), "{error}");
    }
}
