//! Background loads: what is asked for and what was delivered.

use crate::{CpuList, ModelError};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The built-in loads.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LoadProfile {
    /// Compiling in a loop: fork, exec, page touching, file writing and real compilation.
    Build,
    /// Arithmetic.
    Cpu,
    /// Memory bandwidth.
    Memory,
    /// File writes with fsync.
    Disk,
    /// TCP streams over loopback.
    Net,
    /// Context switches: groups of senders and receivers over sockets (as hackbench).
    Context,
}

impl LoadProfile {
    /// All profiles, in the order that help texts list them.
    pub const ALL: [Self; 6] = [Self::Build, Self::Cpu, Self::Memory, Self::Disk, Self::Net, Self::Context];

    /// The word used in flags, plans and documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Net => "net",
            Self::Context => "context",
        }
    }
}

impl fmt::Display for LoadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for LoadProfile {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        Self::ALL.into_iter().find(|profile| profile.word() == text).ok_or_else(|| ModelError::UnknownWord {
            what: "load",
            given: text.to_owned(),
            accepted: "build, cpu, memory, disk, net or context",
        })
    }
}

/// A load as asked for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct LoadSpec {
    /// What it does.
    pub profile: LoadProfile,
    /// Parallel jobs; absent: 11 for `build` (the papers' `make -j11`), else one a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// The CPUs it may use; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// `build` only: a command run in a loop by `sh -c` instead of the built-in tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Folder that `command` runs in, or that files are written to; absent: a temporary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
}

impl LoadSpec {
    /// A profile with its defaults.
    #[must_use]
    pub fn new(profile: LoadProfile) -> Self {
        Self { profile, jobs: None, cpus: None, command: None, directory: None }
    }
}

/// What a load delivered while a cell was measured.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct LoadReport {
    /// What was asked for.
    pub spec: LoadSpec,
    /// Work done in units of the profile (files compiled, buffers written, switches …).
    pub work: u64,
    /// Machine-wide busy share while it ran, in percent of all CPUs it may use.
    pub busy_percent: f64,
    /// Coefficient of variation of its work per 100 ms (CPU time used for `build`), once steady.
    pub work_cv: Option<f64>,
    /// How long it took until it was steady.
    pub steady_after_ns: u64,
    /// Whether it was steady when the measurement began; otherwise the time given for that ran out.
    pub steady: bool,
    /// How long it ran after that.
    pub elapsed_ns: u64,
}
