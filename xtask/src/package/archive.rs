//! The relocatable archive: unpack it anywhere and start the binary there.

use super::facts::Facts;
use super::{Contents, name, plans};
use crate::files::put;
use crate::{files, process};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn build(contents: &Contents, facts: &Facts, into: &Path) -> Result<PathBuf> {
    let (major, minor) = facts.glibc;
    let upstream = facts.version.trim_end_matches("-1").replace('~', "-");
    let top = format!("windhover-{upstream}-{}-glibc{major}.{minor}", std::env::consts::ARCH);
    let parent = process::target().join("package/archive");
    files::fresh(&parent)?;
    let root = parent.join(&top);
    fs::create_dir(&root)?;
    put(&root, "windhover", &fs::read(&contents.binary)?, 0o755)?;
    for (folder, place) in [("man", "man/man1"), ("completions", "completions")] {
        for file in contents.generated(folder)? {
            put(&root, &format!("{place}/{}", name(&file)), &fs::read(&file)?, 0o644)?;
        }
    }
    for plan in plans()? {
        put(&root, &format!("campaigns/{}", name(&plan)), &fs::read(&plan)?, 0o644)?;
    }
    for (place, guide) in contents.guides()? {
        put(&root, &format!("docs/{place}"), &fs::read(&guide)?, 0o644)?;
    }
    put(&root, "copyright", &fs::read(&contents.copyright)?, 0o644)?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE"] {
        put(&root, file, &fs::read(process::root().join(file))?, 0o644)?;
    }
    for unit in super::UNITS {
        let bytes = fs::read(process::root().join("packaging/systemd").join(unit))?;
        put(&root, &format!("systemd/{unit}"), &bytes, 0o644)?;
    }
    let file = into.join(format!("{top}.tar.gz"));
    let time = format!("--mtime=@{}", facts.epoch);
    let fixed = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", &time];
    process::finish(
        process::command("tar", &fixed)
            // Without the time that gzip would write.
            .args(["--use-compress-program=gzip -9 -n", "-cf"])
            .arg(&file)
            .arg("-C")
            .args([parent.as_os_str(), top.as_ref()])
            .envs(facts.environment()),
    )?;
    Ok(file)
}
