//! `cargo xtask bpf`: the recorder's BPF programs are compiled, and the objects in the repository are those that the sources give.
//!
//! Builds need no clang: the objects are stored, with the checksums of what they were made of and of themselves. The checksums are checked
//! everywhere. Versions of clang differ in their code, so objects are compiled again only by the one that made them.

use crate::{files, process};
use anyhow::{Result, bail};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::Path;

const FOLDER: &str = "crates/trace/bpf";
const SOURCES: [&str; 3] = ["kernel.h", "recorder.bpf.c", "live.bpf.c"];
/// Each of the source of its name.
const OBJECTS: [&str; 2] = ["recorder.bpf.o", "live.bpf.o"];
/// As sha256sum(1) writes it, below the version of clang.
const SUMS: &str = "recorder.bpf.sha256";
const REMEDY: &str = "run `cargo xtask bpf` with clang and llvm-strip installed";

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Write nothing; fail when an object is not made of the sources.
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = process::root().join(FOLDER);
    if !arguments.check {
        OBJECTS.iter().try_for_each(|object| compile(&folder, &folder.join(object)))?;
        return files::write(&folder.join(SUMS), sums(&folder, &clang()?)?);
    }
    let stored = files::read(&folder.join(SUMS))?;
    let version = stored.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    check(&folder, &stored, version)?;
    if process::find("llvm-strip").is_some() && process::find("clang").is_some() && clang()? == version {
        for object in OBJECTS {
            let again = process::target().join(object);
            compile(&folder, &again)?;
            if std::fs::read(&again)? != std::fs::read(folder.join(object))? {
                bail!("{version} compiles {FOLDER} to something else than {object}: {REMEDY}");
            }
        }
    }
    Ok(())
}

fn check(folder: &Path, stored: &str, version: &str) -> Result<()> {
    if sums(folder, version)? != stored {
        bail!("{FOLDER}: {SUMS} is not of the files there: {REMEDY}");
    }
    Ok(())
}

fn sums(folder: &Path, version: &str) -> Result<String> {
    let mut text = format!("# {version}\n");
    for name in SOURCES.into_iter().chain(OBJECTS) {
        for byte in Sha256::digest(std::fs::read(folder.join(name))?) {
            write!(text, "{byte:02x}")?;
        }
        writeln!(text, "  {name}")?;
    }
    Ok(text)
}

/// The first line of what clang says of itself.
fn clang() -> Result<String> {
    let text = process::output("clang", &["--version"])?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The folder is no part of the object: it is the same wherever it is compiled.
fn compile(folder: &Path, object: &Path) -> Result<()> {
    let source = object.with_extension("c").file_name().unwrap_or_default().display().to_string();
    let object = object.display().to_string();
    let flags = "-O2 -g -fdebug-compilation-dir=. -target bpf -mcpu=v3 -Wall -Werror -c";
    let flags: Vec<&str> = flags.split(' ').chain([source.as_str(), "-o", object.as_str()]).collect();
    process::output_in(folder, "clang", &flags)?;
    process::output("llvm-strip", &["-g", &object]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_source_or_object_is_found() {
        let folder = std::env::temp_dir().join(format!("xtask-bpf-{}", std::process::id()));
        files::fresh(&folder).unwrap();
        for name in SOURCES.into_iter().chain(OBJECTS) {
            files::write(&folder.join(name), name).unwrap();
        }
        let stored = sums(&folder, "clang").unwrap();
        let unchanged = check(&folder, &stored, "clang").is_ok();
        let found: Vec<bool> = SOURCES
            .into_iter()
            .chain(OBJECTS)
            .map(|name| {
                files::write(&folder.join(name), "changed").unwrap();
                let found = check(&folder, &stored, "clang").is_err();
                files::write(&folder.join(name), name).unwrap();
                found
            })
            .collect();
        files::remove(&folder).unwrap();
        assert!(unchanged && found == [true; 5], "{found:?}");
    }
}
