//! Whole files that are there completely or not at all, also after a kill or a power cut.

use crate::StoreError;
#[cfg(feature = "raw")]
use nix::errno::Errno;
#[cfg(feature = "raw")]
use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a file is called until it is complete.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

/// Writes a file under a temporary name, fsyncs it and gives it its name (rename(2) replaces in one step). The
/// directory still has to be fsynced: [`sync_directory`], once for all files of a cell.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = temporary(path);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    written.map_err(|cause| {
        // What could not be completed only takes space that is missing elsewhere.
        let _ = fs::remove_file(&temporary);
        StoreError::writing(path, cause)
    })
}

/// Takes space under a name that a resume removes, until [`remove`] gives it back. Where fallocate(2) fails
/// for another reason than a full disk, nothing is taken.
#[cfg(feature = "raw")]
pub(crate) fn reserve(path: &Path, bytes: u64) -> Result<(), StoreError> {
    let length = i64::try_from(bytes).unwrap_or(i64::MAX);
    let taken = File::create(path).and_then(|file| match fallocate(&file, FallocateFlags::empty(), 0, length) {
        Err(full @ (Errno::ENOSPC | Errno::EDQUOT)) => Err(full.into()),
        _ => Ok(()),
    });
    taken.map_err(|cause| {
        let _ = fs::remove_file(path);
        StoreError::writing(path, cause)
    })
}

/// The bytes of a file that need not be there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(StoreError::reading(path, cause)),
    }
}

/// Removes a file that need not be there.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(StoreError::writing(path, cause)),
        _ => Ok(()),
    }
}

/// Makes names made or changed in a directory survive a power cut (fsync(2): syncing a file does not sync its entry).
/// Windows opens no directory as a file.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    if cfg!(windows) {
        return Ok(());
    }
    File::open(path).and_then(|directory| directory.sync_all()).map_err(|cause| StoreError::writing(path, cause))
}

/// As [`write`], with the directory's entry on disk too.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write(path, bytes)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        write_synced(&path, b"one").unwrap();
        write_synced(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_has_its_own_name() {
        // /dev/full answers each write with ENOSPC; the temporary name is a link to it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, b"before").unwrap();
        std::os::unix::fs::symlink("/dev/full", temporary(&path)).unwrap();
        let error = write(&path, b"after").unwrap_err();
        assert!(matches!(&error, StoreError::DiskFull(named) if *named == path), "{error}");
        assert!(error.to_string().contains("disk full") && error.to_string().contains("run.json"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert!(!temporary(&path).exists());
    }
}
