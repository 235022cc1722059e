//! The folders of a run and whole files in them, complete or not there at all, also after a kill or a power cut. Others may
//! change them meanwhile: a folder is opened once, used by its descriptor, and no symbolic link in it is written through.

use crate::StoreError;
#[cfg(feature = "raw")]
use nix::errno::Errno;
#[cfg(feature = "raw")]
use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
#[cfg(feature = "raw")]
use std::os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What a file is called until it is complete ends in this.
const INCOMPLETE: &str = "tmp";
/// Several times the largest file of a run that is read as a whole.
const MOST_BYTES: u64 = 256 << 20;

/// A folder that files are written to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Windows opens no directory as a file: there, without the feature, the path is used.
    #[cfg(feature = "raw")]
    opened: File,
}

impl Folder {
    /// Opens a folder that a person named, perhaps by a link. Errors: [`StoreError::Read`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::opened(path, path, true).map_err(|cause| StoreError::reading(path, cause))
    }

    /// Opens a folder in this one, which is made where it is missing. Errors: [`StoreError::Link`] for a symbolic link,
    /// [`StoreError::Write`].
    pub fn within(&self, name: &str) -> Result<Self, StoreError> {
        let (path, at) = (self.path.join(name), self.at(name));
        let opened = match fs::create_dir(&at) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
            _ => Self::opened(&path, &at, false),
        };
        opened.map_err(|cause| self.refused(name, cause))
    }

    #[cfg(feature = "raw")]
    fn opened(path: &Path, at: &Path, follows: bool) -> io::Result<Self> {
        #[cfg(feature = "raw")]
        use nix::libc::{O_DIRECTORY, O_NOFOLLOW};
        let flags = if follows { O_DIRECTORY } else { O_DIRECTORY | O_NOFOLLOW };
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(at)?;
        Ok(Self { path: path.to_owned(), opened })
    }

    #[cfg(not(feature = "raw"))]
    fn opened(path: &Path, at: &Path, _: bool) -> io::Result<Self> {
        fs::metadata(at)?.is_dir().then(|| Self { path: path.to_owned() }).ok_or(io::ErrorKind::NotADirectory.into())
    }

    /// A file by the descriptor of its folder: what openat(2) takes as two arguments (proc(5)).
    fn at(&self, name: &str) -> PathBuf {
        #[cfg(feature = "raw")]
        {
            PathBuf::from(format!("/proc/self/fd/{}/{name}", self.opened.as_raw_fd()))
        }
        #[cfg(not(feature = "raw"))]
        {
            self.path.join(name)
        }
    }

    /// Why something in this folder could not be opened or written.
    fn refused(&self, name: &str, cause: io::Error) -> StoreError {
        let path = self.path.join(name);
        let is_link = fs::symlink_metadata(self.at(name)).is_ok_and(|found| found.is_symlink());
        if is_link { StoreError::Link(path) } else { StoreError::writing(&path, cause) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.at(name)).is_ok()
    }

    /// Opens a regular file for writing.
    pub(crate) fn file(&self, name: &str, options: &mut OpenOptions) -> Result<File, StoreError> {
        #[cfg(feature = "raw")]
        options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        let file = options.open(self.at(name)).map_err(|cause| self.refused(name, cause))?;
        let found = file.metadata().map_err(|cause| self.refused(name, cause))?;
        if found.is_file() { Ok(file) } else { Err(StoreError::NoFile(self.path.join(name))) }
    }

    /// A new file. What has its name, such as a link, is removed first: the name belongs to a file that was not completed.
    fn fresh(&self, name: &str) -> Result<File, StoreError> {
        self.remove(name)?;
        self.file(name, OpenOptions::new().write(true).create_new(true))
    }

    /// Writes a file under a temporary name, fsyncs it and gives it its name (rename(2) replaces in one step, a link, too). The
    /// directory still has to be fsynced: `Folder::sync`, once for all files of a cell. Errors: [`StoreError::DiskFull`],
    /// [`StoreError::Write`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let temporary = format!("{name}.{INCOMPLETE}");
        let mut file = self.fresh(&temporary)?;
        let mut complete = || {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(self.at(&temporary), self.at(name))
        };
        complete().map_err(|cause| {
            // What could not be completed only takes space that is missing elsewhere.
            let _ = fs::remove_file(self.at(&temporary));
            StoreError::writing(&self.path.join(name), cause)
        })
    }

    /// As [`Folder::write`], with the directory's entry on disk too.
    pub(crate) fn write_synced(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.write(name, bytes)?;
        self.sync()
    }

    /// Takes space until [`Folder::remove`] or a resume gives it back; none where fallocate(2) fails but for a full disk.
    #[cfg(feature = "raw")]
    pub(crate) fn reserve(&self, name: &str, bytes: u64) -> Result<(), StoreError> {
        let length = i64::try_from(bytes).unwrap_or(i64::MAX);
        match fallocate(&self.fresh(name)?, FallocateFlags::empty(), 0, length) {
            Err(full @ (Errno::ENOSPC | Errno::EDQUOT)) => {
                let _ = fs::remove_file(self.at(name));
                Err(StoreError::writing(&self.path.join(name), full.into()))
            }
            _ => Ok(()),
        }
    }

    /// Removes a file that need not be there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match fs::remove_file(self.at(name)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::writing(&self.path.join(name), cause))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn remove_incomplete(&self) -> Result<(), StoreError> {
        let failed = |cause| StoreError::reading(&self.path, cause);
        for entry in fs::read_dir(self.at("")).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str().filter(|name| name.ends_with(&format!(".{INCOMPLETE}"))) {
                self.remove(name)?;
            }
        }
        Ok(())
    }

    /// Makes names made or changed in the folder survive a power cut (fsync(2): syncing a file does not sync its entry).
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        #[cfg(feature = "raw")]
        self.opened.sync_all().map_err(|cause| StoreError::writing(&self.path, cause))?;
        Ok(())
    }
}

/// Opens a regular file to read it. A pipe without a writer is not waited for.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    #[cfg(feature = "raw")]
    options.custom_flags(nix::libc::O_NONBLOCK);
    let file = options.read(true).open(path).map_err(|cause| StoreError::reading(path, cause))?;
    let found = file.metadata().map_err(|cause| StoreError::reading(path, cause))?;
    if found.is_file() { Ok(file) } else { Err(StoreError::NoFile(path.to_owned())) }
}

/// As [`open`], of a file that need not be there.
pub(crate) fn open_if_there(path: &Path) -> Result<Option<File>, StoreError> {
    match open(path) {
        Err(StoreError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The bytes of a file of a run that need not be there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    read_most(path, MOST_BYTES)
}

fn read_most(path: &Path, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(file) = open_if_there(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|cause| StoreError::reading(path, cause))?;
    if bytes.len() as u64 > most {
        return Err(StoreError::TooLarge { path: path.to_owned(), most_mib: most >> 20 });
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn replaces_and_leaves_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        folder.write_synced("run.json", b"one").unwrap();
        folder.write_synced("run.json", b"two").unwrap();
        assert_eq!(fs::read(place.path().join("run.json")).unwrap(), b"two");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    /// Catches: a file elsewhere that is written because a link has the name, or the temporary name, of a file of the run.
    #[test]
    fn nothing_is_written_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("run")).unwrap();
        fs::create_dir(at("other")).unwrap();
        fs::write(at("other/file"), "theirs").unwrap();
        for name in ["report.html", "report.html.tmp"] {
            symlink(at("other/file"), at("run").join(name)).unwrap();
        }
        symlink(at("other"), at("run/cells")).unwrap();
        let folder = Folder::open(&at("run")).unwrap();
        folder.write("report.html", b"ours").unwrap();
        assert!(!at("run/report.html").is_symlink() && !at("run/report.html.tmp").exists());
        assert_eq!(fs::read(at("run/report.html")).unwrap(), b"ours");
        let error = folder.within("cells").unwrap_err();
        assert!(matches!(&error, StoreError::Link(path) if *path == at("run/cells")), "{error}");
        // Another folder in its place changes nothing.
        let cells = folder.within("plots").unwrap();
        fs::rename(at("run/plots"), at("moved")).unwrap();
        symlink(at("other"), at("run/plots")).unwrap();
        cells.write("file", b"ours").unwrap();
        assert_eq!(fs::read(at("moved/file")).unwrap(), b"ours");
        assert_eq!(fs::read(at("other/file")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(at("other")).unwrap().count(), 1);
    }

    /// Catches: a pipe that is waited for, and a file without end that takes all memory.
    #[test]
    fn only_regular_files_of_a_size_are_read() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        for path in [at("pipe"), PathBuf::from("/dev/zero"), place.path().to_owned()] {
            let error = read(&path).unwrap_err();
            assert!(matches!(&error, StoreError::NoFile(named) if *named == path), "{error}");
        }
        fs::write(at("file"), [7; 100]).unwrap();
        assert_eq!(read_most(&at("file"), 100).unwrap().unwrap().len(), 100);
        assert!(matches!(read_most(&at("file"), 99), Err(StoreError::TooLarge { .. })));
        assert!(read(&at("nothing")).unwrap().is_none());
    }
}
