//! Where kernels and images are kept.

use crate::GuestError;
use crate::error::FULL;
use nix::sys::statvfs::statvfs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder that holds `kernels/` and `images/`.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// `$XDG_CACHE_HOME/windhover`, else `~/.cache/windhover`; an error where neither variable is set.
    pub fn usual() -> Result<Self, GuestError> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        match folder {
            Some(folder) => Ok(Self::at(&folder.join("windhover"))),
            None => GuestError::refused("there is no folder for kernels and images: set HOME or XDG_CACHE_HOME"),
        }
    }

    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// A folder in it, made where needed. Whatever is in it decides what runs in guests of this user.
    pub(crate) fn part(&self, name: &str) -> Result<PathBuf, GuestError> {
        let path = self.folder.join(name);
        std::fs::create_dir_all(&path)
            .and_then(|()| host::private::check(&path))
            .map_err(GuestError::file("write to the folder", &path))?;
        Ok(path)
    }

    /// Waits until no other process changes a part, and keeps others from it as long as the value lives.
    pub(crate) fn lock(part: &Path) -> Result<File, GuestError> {
        let path = part.join(".lock");
        let file = File::create(&path).map_err(GuestError::file("write", &path))?;
        file.lock().map_err(GuestError::file("lock", &path))?;
        Ok(file)
    }
}

/// Whether a part has this file; it is then among the last used ones, which are not removed. The part is locked.
pub(crate) fn has(path: &Path) -> bool {
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    path.is_file()
}

/// Writes a file of a part whole or not at all. The part is locked ([`Cache::lock`]).
pub(crate) fn keep(path: &Path, content: &[u8]) -> Result<(), GuestError> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, content).and_then(|()| std::fs::rename(&fresh, path)).map_err(|cause| {
        let _ = std::fs::remove_file(&fresh);
        GuestError::file("write", path)(cause)
    })
}

/// Refuses to begin what would end with a full disk.
pub(crate) fn need_space(folder: &Path, bytes: u64, what: &str) -> Result<(), GuestError> {
    let Ok(found) = statvfs(folder) else { return Ok(()) };
    let free = found.blocks_available().saturating_mul(found.fragment_size());
    if free < bytes {
        let (free, needed) = (free / 1_000_000, bytes / 1_000_000);
        return GuestError::refused(format!(
            "{} has {free} MB left, {what} needs {needed} MB: {FULL}",
            folder.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        need_space(folder.path(), 1, "a test").unwrap();
        let error = need_space(folder.path(), u64::MAX, "a test").unwrap_err();
        assert!(error.to_string().contains("a test needs") && error.exit_code() == 2, "{error}");
    }

    /// The disk fills while a file is written: /dev/full stands for it.
    #[test]
    fn a_disk_that_fills_leaves_no_half_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.cpio");
        std::os::unix::fs::symlink("/dev/full", path.with_extension("new")).unwrap();
        let error = keep(&path, b"content").unwrap_err().to_string();
        let words = ["cannot write ", "image.cpio: No space left on device", ": free some, or set XDG_CACHE_HOME"];
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains('\n'), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
        keep(&path, b"content").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Cache::at(&file).part("images").unwrap_err().to_string();
        assert!(error.starts_with("cannot write to the folder ") && error.contains("file/images"), "{error}");
    }
}
