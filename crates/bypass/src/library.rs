//! The preload library as a file: written once, named by its content, where only its owner may change it.

use crate::BypassError;
use bypass_abi::{Start, VARIABLE};
use host::private;
use host::undo::StateDir;
use std::env::{split_paths, var_os};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The library, as the build made it.
static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.so"));
const HASH: &str = env!("WINDHOVER_SHIM_HASH");
const PRELOAD: &str = "LD_PRELOAD";
/// Anybody may load it, nobody but its owner may change it.
const MODE: u32 = 0o644;

/// Folder of the library and the status pages: `WINDHOVER_STATE`, or /run/windhover for root; of others the folder of their
/// session, or one in /tmp that is theirs alone.
pub fn folder() -> PathBuf {
    match private::of_user().filter(|_| var_os("WINDHOVER_STATE").is_none()) {
        Some(own) => own.join("bypass"),
        None => StateDir::usual().path().join("bypass"),
    }
}

#[derive(Debug)]
pub struct Library {
    file: PathBuf,
    folder: PathBuf,
}

impl Library {
    /// Writes it, unless it is there already. Errors: [`BypassError::Library`].
    pub fn install(folder: &Path) -> Result<Self, BypassError> {
        let file = folder.join(format!("libwindhover-shim-{HASH}.so"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause| BypassError::Library { path, cause }
        };
        // Their owners and modes decide what programs load.
        for place in [folder.parent(), Some(folder)].into_iter().flatten() {
            private::folder(place).map_err(failed(place))?;
        }
        let is_there = private::check(&file).is_ok() && std::fs::read(&file).is_ok_and(|bytes| bytes == BYTES);
        if !is_there {
            write(&file).map_err(failed(&file))?;
        }
        Ok(Self { file, folder: folder.to_owned() })
    }

    /// The variables of a program that starts with the library, beside those that it has.
    pub fn environment(&self, start: Start<'_>) -> Vec<(OsString, OsString)> {
        let mut preload = self.file.clone().into_os_string();
        if let Some(others) = var_os(PRELOAD).filter(|others| !others.is_empty()) {
            // Those of a `bypass run` around this one would be loaded twice.
            for other in others_of(&others) {
                preload.push(":");
                preload.push(other);
            }
        }
        let settings = start.with_folder(self.folder.as_os_str()).to_variable();
        vec![(PRELOAD.into(), preload), (VARIABLE.into(), settings)]
    }
}

/// The libraries of LD_PRELOAD, which blanks separate too, less this one.
fn others_of(preload: &OsStr) -> Vec<PathBuf> {
    let is_ours =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libwindhover-shim-"));
    let text = preload.to_string_lossy().replace(' ', ":");
    split_paths(&text).filter(|path| !path.as_os_str().is_empty() && !is_ours(path)).collect()
}

fn write(file: &Path) -> io::Result<()> {
    // Another command may write it at the same time: both rename a whole one.
    let beside = file.with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::write(&beside, BYTES)
        .and_then(|()| std::fs::set_permissions(&beside, Permissions::from_mode(MODE)))
        .and_then(|()| std::fs::rename(&beside, file));
    if written.is_err() {
        // Half a file helps nobody; that it cannot be removed either changes nothing.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Removes the pages of processes that are gone; how many.
pub fn clear(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let pages = entries.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    let gone = pages.filter(|(pid, path)| !crate::stat::is_of_living(*pid, path));
    gone.filter(|(_, path)| std::fs::remove_file(path).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_once_and_written_again_where_it_was_changed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("state/bypass");
        let library = Library::install(&folder).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        let first = inode(&library.file);
        assert_eq!(std::fs::metadata(&library.file).unwrap().permissions().mode() & 0o777, MODE);
        Library::install(&folder).unwrap();
        assert_eq!(inode(&library.file), first, "one that is there is kept");
        std::fs::write(&library.file, "something else").unwrap();
        Library::install(&folder).unwrap();
        assert_eq!(std::fs::read(&library.file).unwrap(), BYTES);
        std::fs::set_permissions(&library.file, Permissions::from_mode(0o666)).unwrap();
        Library::install(&folder).unwrap();
        assert_eq!(std::fs::metadata(&library.file).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn other_libraries_stay_and_this_one_is_not_loaded_twice() {
        let others = others_of(OsStr::new("/a/libx.so /run/windhover/bypass/libwindhover-shim-0.so:liby.so:"));
        assert_eq!(others, ["/a/libx.so", "liby.so"].map(PathBuf::from));
    }
}
