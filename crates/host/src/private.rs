//! Folders and files that only their owner may use: their content decides what a privileged process does.
//!
//! Modes are set, whatever the umask; owners are checked before use. Errors are the kernel's, or
//! [`io::ErrorKind::Other`] with the reason and the remedy.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
/// "Group and others may write" of chmod(2).
const WRITE: u32 = 0o022;

/// Makes a folder of mode 0700, with those above it that are missing. One that is there gets this mode when it is the caller's,
/// and is refused when it belongs to a user that is not to be trusted.
pub fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    let found = std::fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == user() && found.mode() & 0o777 != FOLDER {
        std::fs::set_permissions(path, Permissions::from_mode(FOLDER))?;
    }
    check(path)
}

/// Makes a folder chosen by the user. One with files keeps its mode; refused where others may write to it.
pub fn chosen_folder(path: &Path) -> io::Result<()> {
    let is_used = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    if is_used { check(path) } else { folder(path) }
}

/// Checks that a file or folder belongs to root or the caller (for root: to root) and that others cannot write to it.
pub fn check(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Err(io::Error::other("it is a symbolic link, so nothing in it is used: remove it"));
    }
    // In a sticky folder, such as /tmp, only the owner of a file removes or renames it.
    let is_sticky = found.is_dir() && found.mode() & libc::S_ISVTX != 0;
    trust(found.uid(), if is_sticky { 0 } else { found.mode() })
}

/// Where a user other than root keeps state of this boot: the session's folder, else one in /tmp. `None` for root.
pub fn of_user() -> Option<PathBuf> {
    let user = nix::unistd::geteuid();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = || session.map_or_else(|| PathBuf::from(format!("/tmp/windhover-{user}")), |path| path.join("windhover"));
    (!user.is_root()).then(own)
}

fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn trust(owner: u32, mode: u32) -> io::Result<()> {
    let me = user();
    if owner != 0 && owner != me {
        let trusted = if me == 0 { "root" } else { "root or you" };
        let why = format!("it belongs to user {owner} and not to {trusted}, so nothing in it is used: remove it");
        return Err(io::Error::other(why));
    }
    if mode & WRITE != 0 {
        let why = "others may write to it, so nothing in it is used: look at what is in it, then remove it or take \
                   their permission away (chmod go-w)";
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// Opens a file that is to be trusted, as `options` say, without following a link; makes it with mode 0600.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(FILE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file: remove it"));
    }
    trust(found.uid(), found.mode())?;
    if found.uid() == user() && found.mode() & 0o777 != FILE {
        file.set_permissions(Permissions::from_mode(FILE))?;
    }
    Ok(file)
}

/// Makes a file of mode 0600, or empties it.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open(path, OpenOptions::new().write(true).create(true).truncate(false))?;
    file.set_len(0)?;
    Ok(file)
}

/// Writes a file of mode 0600 with one rename, so that no reader sees half of it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = create(&fresh)?;
    file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&fresh, path))
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn modes_are_set_and_not_left_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let folder_path = place.path().join("a/b");
        std::fs::create_dir_all(&folder_path).unwrap();
        std::fs::set_permissions(&folder_path, Permissions::from_mode(0o755)).unwrap();
        folder(&folder_path).unwrap();
        assert_eq!(mode(&folder_path), 0o700);
        let file = folder_path.join("f");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&file).unwrap(), b"x");
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn what_others_may_write_to_is_not_believed() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("f");
        std::fs::write(&file, "x").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("others may write"));
        let link = place.path().join("l");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(read(&link).is_err());
        let open_to_all = place.path().join("d");
        std::fs::create_dir(&open_to_all).unwrap();
        std::fs::set_permissions(&open_to_all, Permissions::from_mode(0o777)).unwrap();
        std::fs::write(open_to_all.join("of somebody"), "").unwrap();
        assert!(chosen_folder(&open_to_all).is_err());
        assert_eq!(mode(&open_to_all), 0o777, "a folder that is in use keeps its mode");
    }
}
