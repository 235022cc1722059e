//! What is known of a build: version, time, architecture, glibc, crates.

use crate::process;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) struct Facts {
    /// Debian's version of the package.
    pub(super) version: String,
    /// Seconds since 1970 of the commit, or of SOURCE_DATE_EPOCH.
    pub(super) epoch: String,
    pub(super) architecture: String,
    /// The newest version of a glibc symbol that the binary asks for.
    pub(super) glibc: (u32, u32),
    pub(super) libraries: Vec<String>,
    /// What is linked into the binary.
    pub(super) crates: Vec<Crate>,
}

/// A crate of another project.
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    pub(super) authors: Vec<String>,
    pub(super) folder: PathBuf,
}

impl Facts {
    pub(super) fn read(binary: &Path) -> Result<Self> {
        let (epoch, version) = commit()?;
        let binary = binary.to_string_lossy();
        let symbols = process::output("objdump", &["-T", &binary])?;
        let headers = process::output("objdump", &["-p", &binary])?;
        let libraries = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
        Ok(Self {
            version,
            epoch,
            architecture: process::output("dpkg", &["--print-architecture"])?.trim().to_owned(),
            glibc: glibc(&symbols).context("the binary asks for no glibc")?,
            libraries: libraries.map(|name| name.trim().to_owned()).collect(),
            crates: crates()?,
        })
    }

    /// Of a file whose bytes are to depend on the commit alone.
    pub(super) fn environment(&self) -> [(&'static str, &str); 2] {
        [("SOURCE_DATE_EPOCH", &self.epoch), ("TZ", "UTC")]
    }
}

/// Time and version. Before a release its version ends in `~` with time and commit, which Debian sorts before the release.
fn commit() -> Result<(String, String)> {
    let release = env!("CARGO_PKG_VERSION");
    let git = |arguments: &[&str]| process::output("git", arguments).map(|text| text.trim().to_owned());
    let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => epoch,
        Err(_) => git(&["log", "-1", "--format=%ct"]).context("set SOURCE_DATE_EPOCH outside of a git checkout")?,
    };
    let seconds: u64 = epoch.parse().with_context(|| format!("SOURCE_DATE_EPOCH={epoch}"))?;
    if git(&["tag", "--points-at", "HEAD"]).is_ok_and(|tags| tags.lines().any(|tag| tag == format!("v{release}"))) {
        return Ok((epoch, format!("{release}-1")));
    }
    let time = process::output("date", &["-u", "-d", &format!("@{seconds}"), "+%Y%m%d%H%M%S"])?;
    let hash = git(&["log", "-1", "--format=%h", "--abbrev=8"]).map(|hash| format!(".{hash}")).unwrap_or_default();
    if git(&["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|changed| !changed.is_empty()) {
        eprintln!("changes that are not committed are packaged under the commit's version");
    }
    Ok((epoch, format!("{release}~{}{hash}-1", time.trim())))
}

/// The newest `GLIBC_MAJOR.MINOR` in objdump's list of dynamic symbols.
fn glibc(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let mut parts = rest.get(..end)?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

/// Crates of others that are linked into the binary: no build scripts, no procedural macros.
fn crates() -> Result<Vec<Crate>> {
    let cargo = process::cargo();
    let tree = ["tree", "--locked", "-p", "windhover", "-e", "normal,no-proc-macro", "--prefix", "none", "--format"];
    let linked = process::output(&cargo, &[&tree[..], &["{p}"]].concat())?;
    let linked: BTreeSet<(&str, &str)> = linked
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let host = process::output("rustc", &["--print=host-tuple"])?;
    let metadata = ["metadata", "--locked", "--format-version=1", "--filter-platform", host.trim()];
    let metadata: Value = serde_json::from_str(&process::output(&cargo, &metadata)?)?;
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().context("cargo metadata names no packages")? {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let (name, version) = (text("name"), text("version"));
        if package["source"].is_null() || !linked.contains(&(name.as_str(), version.as_str())) {
            continue;
        }
        let Some(folder) = Path::new(&text("manifest_path")).parent().map(Path::to_path_buf) else {
            bail!("crate {name} is nowhere");
        };
        let authors = package["authors"].as_array().into_iter().flatten();
        let authors = authors.filter_map(Value::as_str).map(str::to_owned).collect();
        found.push(Crate { name, version, licence: text("license"), authors, folder });
    }
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

#[cfg(test)]
mod unit {
    #[test]
    fn the_newest_glibc_is_found() {
        let symbols =
            "0 DF *UND* 0 (GLIBC_2.9) a\n0 DF *UND* 0 (GLIBC_2.34) b\n0 DO *UND* 0 (GLIBC_2.2.5) c\n0 x (GCC_3.0) d\n";
        assert_eq!(super::glibc(symbols), Some((2, 34)));
        assert_eq!(super::glibc("no symbols"), None);
    }
}
