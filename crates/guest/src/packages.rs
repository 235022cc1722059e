//! Packages of Debian 12 that programs on this machine use from the cache.

use crate::apt::{self, Apt, BOOKWORM, CacheFolder};
use crate::{Cache, GuestError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy)]
pub struct PackageSet<'a> {
    pub what: &'a str,
    /// Its folder in the cache.
    pub name: &'a str,
    /// Packages of Debian 12.
    pub packages: &'a [&'a str],
    /// What of their dependencies is fetched too: packages whose names begin so. The rest is the machine's own.
    pub follow: &'a [&'a str],
    /// What is downloaded, for people.
    pub size: &'a str,
    /// What the download and its unpacked content need at most, in bytes.
    pub space: u64,
    /// What else can be done where apt cannot fetch it.
    pub otherwise: &'a str,
}

impl PackageSet<'_> {
    /// The folder with all files; apt fetches and verifies missing ones. Removal renews it. `note`: what is fetched.
    pub fn fetch(&self, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, GuestError> {
        let &Self { what, name, size, space, otherwise, .. } = self;
        let wanted = CacheFolder {
            what: what.to_owned(),
            part: name,
            name: "debian-12",
            suites: BOOKWORM,
            size,
            space,
            otherwise,
        };
        let (folder, _) = apt::ready(&wanted, cache, note, |apt, unpacked| self.unpack(apt, unpacked))?;
        Ok(folder)
    }

    fn unpack(&self, apt: &Apt<'_>, unpacked: &Path) -> Result<String, GuestError> {
        let mut all: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<String> = self.packages.iter().map(|package| (*package).to_owned()).collect();
        while let Some(package) = open.pop() {
            let depends = apt.depends(&package)?;
            if all.insert(package) {
                let followed = |name: &String| self.follow.iter().any(|start| name.starts_with(start));
                open.extend(depends.into_iter().filter(followed));
            }
        }
        apt.unpack(&all.iter().map(String::as_str).collect::<Vec<_>>(), unpacked)?;
        Ok(all.into_iter().collect::<Vec<_>>().join(" "))
    }
}
