//! Files and folders, with the path in each error.

use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}

/// All files below a folder, sorted; links are not followed.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in listed(folder)? {
        if path.is_dir() && !path.is_symlink() { found.extend(below(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

pub(crate) fn has_ending(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|extension| extension == ending)
}

pub(crate) fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

pub(crate) fn fresh(folder: &Path) -> Result<()> {
    remove(folder)?;
    create(folder)
}

pub(crate) fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

pub(crate) fn write(file: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::write(file, bytes).with_context(|| file.display().to_string())
}

/// Writes a file below a root, with the folders above it, whatever the umask is.
pub(crate) fn put(root: &Path, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let file = root.join(path);
    let mut made = root.to_path_buf();
    for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
        made.push(part);
        if !made.is_dir() {
            fs::create_dir(&made).with_context(|| made.display().to_string())?;
        }
        fs::set_permissions(&made, fs::Permissions::from_mode(0o755))?;
    }
    write(&file, bytes)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).with_context(|| file.display().to_string())
}
