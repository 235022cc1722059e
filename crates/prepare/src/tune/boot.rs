//! The profile that the machine gets at each boot: a file in /etc/windhover, which windhover-tune.service applies.

use super::{Profile, TuneError};
use host::knob::Machine;
use host::private;
use std::io;
use std::path::{Path, PathBuf};

/// The file. The unit names it, too.
const FILE: &str = "/etc/windhover/boot-profile.json";
pub const BOOT_UNIT: &str = "windhover-tune.service";

const UNIT_FOLDERS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// A profile as it was when it was chosen: files that it came from may change later.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BootProfile {
    /// The profile, with single settings laid over it.
    pub profile: Profile,
    /// The network device of its `nic.` settings.
    pub nic: Option<String>,
}

/// What becomes of a [`BootProfile`] at the next boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootState {
    /// The unit applies it.
    Enabled,
    /// The unit is installed and off.
    Disabled,
    NoUnit,
    NoSystemd,
}

impl BootState {
    pub fn of(machine: &Machine) -> Self {
        let installed = |folder: &str| machine.exists(format!("{folder}/{BOOT_UNIT}"));
        if !machine.is_directory("/run/systemd/system") {
            Self::NoSystemd
        } else if std::fs::symlink_metadata(machine.path(Path::new(&wants()))).is_ok() {
            Self::Enabled
        } else if UNIT_FOLDERS.into_iter().any(installed) {
            Self::Disabled
        } else {
            Self::NoUnit
        }
    }
}

fn wants() -> String {
    format!("/etc/systemd/system/multi-user.target.wants/{BOOT_UNIT}")
}

impl BootProfile {
    /// The one of this machine; an error where it is damaged, or another user than root may have written it.
    pub fn read(machine: &Machine) -> Result<Option<Self>, TuneError> {
        match private::read(&file(machine)) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            content => content
                .and_then(|content| Ok(serde_json::from_slice(&content)?))
                .map(Some)
                .map_err(|cause| failed("cannot read", machine, &cause)),
        }
    }

    pub fn write(&self, machine: &Machine) -> Result<(), TuneError> {
        let path = file(machine);
        let written = || -> io::Result<()> {
            if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
                private::folder(folder)?;
            }
            private::replace(&path, &serde_json::to_vec_pretty(self)?)
        };
        written().map_err(|cause| failed("cannot write", machine, &cause))
    }

    pub fn remove(machine: &Machine) -> Result<(), TuneError> {
        match std::fs::remove_file(file(machine)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(failed("cannot remove", machine, &cause)),
            _ => Ok(()),
        }
    }
}

fn file(machine: &Machine) -> PathBuf {
    machine.path(Path::new(FILE))
}

fn failed(step: &str, machine: &Machine, cause: &io::Error) -> TuneError {
    let remedy = match cause.kind() {
        io::ErrorKind::PermissionDenied => ": run as root",
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            ": remove it, and apply the profile with --boot again"
        }
        _ => "",
    };
    TuneError::Failed(format!("{step} {}: {cause}{remedy}", file(machine).display()))
}
