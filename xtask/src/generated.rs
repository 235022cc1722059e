//! Documents made by the binary itself: man pages, completions, schemas, the command reference.

use crate::{files, process};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FOLDER: &str = "docs/generated";

/// The tests of the documents compare what is kept with what the binary makes.
pub(crate) fn run() -> Result<()> {
    let cargo = process::cargo();
    let fresh = process::target().join("generated");
    files::remove(&fresh)?;
    let folder = fresh.to_string_lossy().into_owned();
    process::run(&cargo, &["run", "--quiet", "--locked", "--package", "windhover", "--", "generate", &folder])?;
    let kept = process::root().join(FOLDER);
    let (new, old) = (read(&fresh)?, read(&kept)?);
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        std::fs::remove_file(kept.join(name)).with_context(|| name.display().to_string())?;
    }
    for (name, bytes) in &new {
        let file = kept.join(name);
        file.parent().map_or(Ok(()), files::create)?;
        files::write(&file, bytes)?;
    }
    println!("generated: {} documents in {FOLDER}", new.len());
    Ok(())
}

fn read(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let all = if folder.exists() { files::below(folder)? } else { Vec::new() };
    all.into_iter().map(|path| Ok((path.strip_prefix(folder)?.to_path_buf(), std::fs::read(&path)?))).collect()
}
