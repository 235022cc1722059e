//! Which QEMU runs a guest: the installed one, or where that lacks a device, a newer one in the cache.

use crate::apt::{self, Apt, BACKPORTS, CacheFolder, is_on_path};
use crate::nic::NicRule;
use crate::{Cache, GuestError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use task::Launch;

pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// The newer one: program, files that it loads, firmware. Libraries are the machine's, as for the installed one.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-data", "seabios"];
/// Unpacked, and not for guests.
const UNUSED: [&str; 2] = ["usr/bin/qemu-system-i386", "usr/bin/qemu-system-x86_64-microvm"];
/// Where files of the unpacked packages are, for `-L`.
const FILES: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
/// How long it may take to say what it can emulate.
const ASKING: Duration = Duration::from_secs(30);

/// A path as a value among QEMU's options, where commas end values.
pub(crate) fn option_value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Emulator {
    pub(crate) program: PathBuf,
    /// What it always needs.
    pub(crate) arguments: Vec<String>,
}

impl Emulator {
    /// Refuses where there is none.
    pub(crate) fn check() -> Result<(), GuestError> {
        if is_on_path(QEMU) {
            return Ok(());
        }
        GuestError::refused(format!("there is no {QEMU}: install qemu-system-x86 (with seabios)"))
    }

    /// The one that can emulate this NIC: the installed one, or else that of Debian's backports, which is fetched once.
    pub(crate) fn find(nic: Option<&NicRule>, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<Self, GuestError> {
        let installed = Self { program: PathBuf::from(QEMU), arguments: Vec::new() };
        let Some(nic) = nic else { return Ok(installed) };
        if installed.lacks(nic.device)?.is_none() {
            return Ok(installed);
        }
        let what = format!("a QEMU that has the NIC {}", nic.device);
        let otherwise = "or install QEMU 8.0 or newer";
        let (name, size, space) = ("debian-backports", "13 MB", 150_000_000);
        let wanted = CacheFolder { what, part: "emulators", name, suites: BACKPORTS, size, space, otherwise };
        let (folder, _) = apt::ready(&wanted, cache, note, |apt, unpacked| unpack(nic, apt, unpacked))?;
        Ok(Self::unpacked(&folder))
    }

    fn unpacked(folder: &Path) -> Self {
        let arguments = FILES.iter().flat_map(|files| ["-L".to_owned(), folder.join(files).display().to_string()]);
        Self { program: folder.join("usr/bin").join(QEMU), arguments: arguments.collect() }
    }

    /// Its error where it cannot emulate a device; nothing where it can.
    fn lacks(&self, device: &str) -> Result<Option<String>, GuestError> {
        let asked = ["-machine", "none", "-display", "none", "-device"];
        let launch = Launch::new(&self.program).args(&self.arguments).args(asked).arg(format!("{device},help"));
        let done = launch.env("LC_ALL", "C").finish(b"", ASKING)?;
        // Its status is 0 for a device that it does not know, too.
        if done.status.success() && !done.stdout.is_empty() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        Ok(Some(said.lines().next_back().unwrap_or("without a word").to_owned()))
    }
}

/// Gives back the version. What cannot be started here is not kept.
fn unpack(nic: &NicRule, apt: &Apt<'_>, unpacked: &Path) -> Result<String, GuestError> {
    let suite = BACKPORTS.first().map_or("", |(_, suite)| suite);
    let packages = PACKAGES.map(|package| format!("{package}/{suite}"));
    apt.unpack(&packages.each_ref().map(String::as_str), unpacked)?;
    UNUSED.iter().try_for_each(|unused| apt::clear(&unpacked.join(unused)))?;
    let emulator = Emulator::unpacked(unpacked);
    if let Some(why) = emulator.lacks(nic.device)? {
        let remedy = "install qemu-system-x86, whose libraries it needs";
        return GuestError::refused(format!("the fetched QEMU cannot be used here ({why}): {remedy}"));
    }
    let told = Launch::new(&emulator.program).arg("--version").finish(b"", ASKING)?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    Ok(told.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::GuestNic;

    fn program(folder: &Path, script: &str) -> Emulator {
        let path = folder.join("usr/bin").join(QEMU);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = path.with_extension("text");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // By another program: a child that another test forks now has our descriptor until it becomes its program, and what is
        // open for writing cannot be run (ETXTBSY).
        let made = std::process::Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap();
        assert!(made.success());
        Emulator::unpacked(folder)
    }

    #[test]
    fn what_an_emulator_lacks_is_in_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let lacks = |script: &str| program(folder.path(), script).lacks("igb").unwrap();
        assert_eq!(lacks("echo igb options:"), None);
        for status in [0, 1] {
            let said = format!("echo \"qemu: device '$9' is not there\" >&2; exit {status}");
            assert_eq!(lacks(&said).as_deref(), Some("qemu: device '-device' is not there"));
        }
        // It gets the place of its files.
        let files = folder.path().join("usr/share/seabios");
        assert_eq!(lacks(&format!("test \"$4\" = '{}' && echo igb options:", files.display())), None);
    }

    #[test]
    fn without_a_nic_nothing_is_asked_or_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        let found = Emulator::find(crate::nic::rule(GuestNic::Veth), &cache, &mut |_| panic!("fetched")).unwrap();
        assert_eq!((found.program, found.arguments), (PathBuf::from(QEMU), Vec::new()));
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
