//! What a shield is asked to be, and what it became.

use crate::{CpuList, ModelError};
use std::fmt;
use std::str::FromStr;

words! {
    "shield backend";
    /// What keeps other tasks off shielded CPUs.
    #[derive(Default)]
    pub enum ShieldBackend {
        /// The best that the system has: `v2`, else `v1`, else `affinity`.
        #[default]
        Auto = "auto",
        /// An isolated partition of control group version 2 (Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition).
        V2 = "v2",
        /// Cpusets of control group version 1.
        V1 = "v1",
        /// The affinity of every task, once and again by a guard: what the papers' cpuguard did.
        Affinity = "affinity",
        /// Nothing to do at run time: the CPUs were isolated at boot (`isolcpus=`).
        Isolcpus = "isolcpus",
    }
}

/// A shield to put up. CPU lists are plain numbers here: `nic:IF`, `node:N` and `sibling:N` were resolved before.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ShieldSpec {
    /// CPUs that no process may use unless it was placed there (RedHawk's `-p`).
    pub processes: CpuList,
    /// CPUs that no device interrupt may go to (`-i`).
    pub interrupts: CpuList,
    /// CPUs without a local timer interrupt (`-l`).
    pub timers: CpuList,
    /// CPUs whose node's memory others may not use (`-m`).
    pub memory: CpuList,
    /// What keeps others away.
    pub backend: ShieldBackend,
    /// Network devices whose interrupts, queues and threads go *onto* the shielded CPUs.
    pub nics: Vec<String>,
    /// Flows that these devices put into a queue of the shield, as `tune`'s `nic.flow` writes them; a rule without
    /// `queue N` gets the first queue whose interrupt is on the shield.
    pub flows: Vec<String>,
    /// Whether the boot CPU may be shielded.
    pub allow_boot_cpu: bool,
    /// Processes by id, name or unit that stay where they are.
    pub keep: Vec<String>,
    /// Whether backend `affinity` also rewrites the CPUs of PID 1 and of the processes that the caller descends from. The
    /// others move these too: a control group rewrites no task's own CPUs.
    pub include_ancestors: bool,
    /// Also takes away the limit on real-time CPU time (`kernel.sched_rt_runtime_us = -1`).
    pub unlimited_realtime: bool,
}

/// A shield that is up.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ShieldReport {
    /// What keeps others away; never `auto`.
    pub backend: ShieldBackend,
    /// The CPUs without processes, as a CPU list.
    pub processes: String,
    /// The CPUs without interrupts, as a CPU list.
    pub interrupts: String,
    /// Settings that were changed.
    pub changed: u32,
    /// What it does not do, or does in another way than RedHawk's: one line each.
    pub notes: Vec<String>,
}

/// One setting of a tuning profile or plan: `net.core.busy_poll = 50`, `nic.coalesce.rx-usecs = 0`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Setting {
    /// Its key, in the grammar of `windhover tune`.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl FromStr for Setting {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { key: key.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(ModelError::grammar("setting", text, "write KEY=VALUE, such as net.core.busy_poll=50")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for word in ["auto", "v2", "v1", "affinity", "isolcpus"] {
            assert_eq!(word.parse::<ShieldBackend>().unwrap().to_string(), word);
        }
        assert!("v3".parse::<ShieldBackend>().is_err());
        let setting: Setting = "net.core.busy_poll = 50".parse().unwrap();
        assert_eq!(setting.to_string(), "net.core.busy_poll=50");
        assert!("net.core.busy_poll".parse::<Setting>().is_err());
        assert!("=1".parse::<Setting>().is_err());
    }
}
