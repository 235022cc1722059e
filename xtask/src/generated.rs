//! Documents made by the binary itself: man pages, completions, schemas, the command reference.

use crate::process;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where they are kept.
const FOLDER: &str = "docs/generated";

pub(crate) fn run(check: bool) -> Result<()> {
    let cargo = process::cargo();
    let fresh = process::target().join("generated");
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).with_context(|| fresh.display().to_string())?;
    }
    let folder = fresh.to_string_lossy().into_owned();
    process::run(&cargo, &["run", "--quiet", "--locked", "--package", "windhover", "--", "generate", &folder])?;
    let kept = process::root().join(FOLDER);
    let (new, old) = (read(&fresh)?, read(&kept)?);
    let differing: Vec<String> = new
        .keys()
        .chain(old.keys())
        .filter(|name| new.get(*name) != old.get(*name))
        .map(|name| name.display().to_string())
        .collect();
    if check {
        if !differing.is_empty() {
            bail!("not fresh in {FOLDER}: {}; run 'cargo xtask generate'", differing.join(", "));
        }
        println!("generated: {} documents, all fresh", new.len());
        return Ok(());
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        std::fs::remove_file(kept.join(name)).with_context(|| name.display().to_string())?;
    }
    for (name, bytes) in &new {
        let file = kept.join(name);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        std::fs::write(&file, bytes).with_context(|| file.display().to_string())?;
    }
    println!("generated: {} documents in {FOLDER}", new.len());
    Ok(())
}

fn read(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        if !next.exists() {
            continue;
        }
        for entry in std::fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_path_buf();
                files.insert(name, std::fs::read(&path).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(files)
}
