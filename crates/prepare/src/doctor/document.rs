//! What a doctor writes down. Stored with campaigns as the record of the environment, and compared between two ends.

use model::facts::RealtimeVariant;
use model::{CpuList, HostFacts, MachineFacts};
use std::fmt;

use super::measure::Measured;

/// Format number of [`Document`]; it rises only when a meaning changes.
pub const FORMAT: u32 = 1;

/// One examination of one machine, as seen by one host.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Document {
    /// Format number: 1.
    pub format: u32,
    /// Version of Windhover that wrote it.
    pub tool: String,
    /// What was asked for.
    pub scope: Scope,
    /// What the machine is made of.
    pub substrate: Substrate,
    /// Real-time variants found, each with what gave it away.
    pub realtime: Vec<RealtimeVariant>,
    /// The machine.
    pub machine: MachineFacts,
    /// The host: its network namespace and devices.
    pub host: HostFacts,
    /// What was measured, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be examined, and why. Never to be read as "in order".
    pub skipped: Vec<Skipped>,
}

/// What the examination is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Scope {
    /// The CPUs to measure on; empty when none are known.
    #[schemars(with = "String")]
    pub cpus: CpuList,
    /// Where these come from.
    pub from: ScopeOrigin,
    /// The network device to measure over, when one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Only these checks; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

model::words! {
    /// Where the CPUs of a scope come from.
    #[derive(Default)]
    pub enum ScopeOrigin {
        /// There are none: what is examined is the machine as a whole.
        #[default]
        None = "none",
        /// They were named.
        Asked = "asked",
        /// They are behind Windhover's shield.
        Shield = "shield",
        /// They were isolated by somebody else, at boot or by a partition.
        Isolated = "isolated",
    }
}

model::words! {
    /// What a machine is made of, as far as it can tell from within.
    #[derive(Default)]
    pub enum Substrate {
        /// Nothing tells.
        #[default]
        Unknown = "unknown",
        /// A computer.
        Metal = "metal",
        /// A virtual machine.
        Vm = "vm",
        /// A container; `machine.virtualisation` says what the kernel below runs on.
        Container = "container",
        /// A machine whose CPU is emulated in software: its times mean nothing.
        Simulated = "simulated",
    }
}

model::words! {
    /// How much a finding matters. The order is that of worth: the worst is the greatest.
    pub enum Severity {
        /// Examined and in order.
        Ok = "ok",
        /// To be known when reading figures; nothing need be done.
        Note = "note",
        /// Costs microseconds, or makes figures vary.
        Warning = "warning",
        /// Spoils a measurement: stalls of milliseconds, wrong figures, or a setting that is not what it seems.
        Bad = "bad",
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// The check: `cpu.foreign-tasks`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// What is the case, in one line.
    pub text: String,
    /// What was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<Reading>,
    /// Why it matters.
    pub why: String,
    /// What to do, each a step of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// On what this rests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

/// A value and where it was read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Reading {
    /// A path, or what was asked of a device: `eth0 coalesce rx-usecs`.
    pub path: String,
    /// The value, on one line.
    pub value: String,
}

/// A step that mends a finding.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Remedy {
    /// `windhover tune apply --set KEY=VALUE`.
    Tune {
        /// The setting.
        setting: model::Setting,
        /// The network device it is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nic: Option<String>,
    },
    /// `windhover shield ARGUMENTS`.
    Shield {
        /// As typed: `-a 1`.
        arguments: String,
    },
    /// Another command, as typed.
    Command {
        /// The whole line.
        line: String,
    },
    /// Words for the kernel's command line; needs a reboot.
    Boot {
        /// As on the line: `nohz_full=1 rcu_nocbs=1`.
        words: String,
    },
    /// Something to be done by hand.
    Advice {
        /// One sentence.
        text: String,
    },
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tune { setting, nic: None } => write!(f, "windhover tune apply --set {}", shell_word(setting)),
            Self::Tune { setting, nic: Some(nic) } => {
                write!(f, "windhover tune apply --nic {nic} --set {}", shell_word(setting))
            }
            Self::Shield { arguments } => write!(f, "windhover shield {arguments}"),
            Self::Command { line } => f.write_str(line),
            Self::Boot { words } => write!(f, "boot with: {words}"),
            Self::Advice { text } => f.write_str(text),
        }
    }
}

pub fn shell_word(setting: &model::Setting) -> String {
    let text = setting.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "=._-,:/".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Skipped {
    /// The check.
    pub id: String,
    /// Of what kind the reason is.
    pub because: SkipKind,
    /// Why, in one line.
    pub reason: String,
}

model::words! {
    /// Why a check could not be made.
    pub enum SkipKind {
        /// This kernel or machine has nothing of the kind.
        NotHere = "not-here",
        /// The kernel is locked down.
        LockedDown = "locked-down",
        /// It is there and may not be read.
        Denied = "denied",
        /// It was read and not understood.
        NotUnderstood = "not-understood",
        /// It needs `--cpus`, `--nic` or `--measure`.
        NotAsked = "not-asked",
    }
}

impl Document {
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    pub fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Finding> + 'a {
        self.findings.iter().filter(move |finding| finding.id == id)
    }
}
