//! Files and folders, with the path in each error.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// What is in a folder, sorted.
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

/// Removes a folder with all that is in it, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// An empty folder.
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
