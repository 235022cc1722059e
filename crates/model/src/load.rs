//! Background loads: what is asked for and what was delivered.

use crate::CpuList;
use std::path::PathBuf;

words! {
    "load";
    /// The built-in loads.
    pub enum LoadProfile {
        /// Compiling in a loop: fork, exec, page touching, file writing and real compilation.
        Build = "build",
        /// Arithmetic.
        Cpu = "cpu",
        /// Memory bandwidth.
        Memory = "memory",
        /// File writes with fsync.
        Disk = "disk",
        /// TCP streams over loopback.
        Net = "net",
        /// Context switches: groups of senders and receivers over sockets (as hackbench).
        Context = "context",
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
