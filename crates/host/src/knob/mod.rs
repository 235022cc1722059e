//! Settings of a running system, and the one way to change them.
//!
//! A [`Knob`] names a setting, a text is its value, [`Settings`] reads and writes it. Nothing here remembers: whoever
//! changes a knob does it through [`crate::undo`].

mod device;
mod error;
pub(crate) mod ethtool;
mod flow;
mod form;
mod generic;
mod group;
mod machine;
mod member;
pub(crate) mod napi;
mod suspects;

pub use error::KnobError;
pub use ethtool::{feature_names, features_of, is_switch, names as ethtool_names};
pub use flow::{FlowRule, flow_locations, free_location};
pub use form::Form;
pub use machine::Machine;

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Which setting. Two equal knobs are the same setting of the same boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Knob {
    /// A file whose content is the value: a sysctl, a file in /sys, an interrupt's mask, a file of a control group.
    File {
        /// As the running system sees it: `/proc/sys/net/core/busy_poll`.
        path: PathBuf,
        /// How two contents are compared.
        form: Form,
    },
    /// A control group's directory: `present` or `absent`. A removal first moves its members to the parent.
    Group { path: PathBuf },
    /// The control group of a task; its value is the path of the group's directory.
    Member {
        /// The mount of the hierarchy: `/sys/fs/cgroup/cpuset`.
        hierarchy: PathBuf,
        task: TaskKey,
    },
    /// The CPUs that a thread may run on, as a CPU list (sched_setaffinity(2)).
    Affinity { task: TaskKey },
    /// The scheduling policy of a thread: `other`, `fifo:50` … (sched_setscheduler(2)).
    Policy { task: TaskKey },
    /// The longest wake-up of a CPU in µs that a process of Windhover asks for (PM QoS, /dev/cpu_dma_latency), or `none`.
    CpuLatency,
    /// A service: `active` or `inactive` (systemctl(1)).
    Service {
        /// Its unit: `irqbalance.service`.
        unit: String,
    },
    /// A property of a network device that ethtool(8) sets, in the network namespace of the caller.
    Ethtool {
        device: String,
        part: EthtoolPart,
        /// ethtool's name of it: `rx-usecs`, `combined`, `generic-receive-offload`.
        name: String,
    },
    /// A flow rule (ethtool -N) at a location of a device's table; its value is `absent` or the rule as text.
    Flow { device: String, location: u32 },
    /// A property of a NAPI instance (netlink family `netdev`, Documentation/networking/napi.rst).
    Napi {
        device: String,
        id: u32,
        /// The attribute: `threaded`, `defer-hard-irqs`, `gro-flush-timeout`, `irq-suspend-timeout`.
        name: String,
    },
}

/// Which of ethtool(8)'s commands a property belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EthtoolPart {
    /// `-c`/`-C`.
    Coalesce,
    /// `-g`/`-G`.
    Ring,
    /// `-l`/`-L`.
    Channels,
    /// `-k`/`-K`.
    Feature,
    /// `-a`/`-A`.
    Pause,
    /// `--show-eee`/`--set-eee`.
    Eee,
}

/// A task of this boot: its id alone may be given to another.
#[derive(Debug, Clone, Eq, serde::Serialize, serde::Deserialize)]
pub struct TaskKey {
    pub tid: i32,
    /// When it was started, in clock ticks since boot (field 22 of /proc/PID/stat, proc_pid_stat(5)).
    pub started: u64,
    /// By how many ns beyond whole ticks the time namespace of `started` is ahead. Not part of the key.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset_part_ns: u32,
    /// Its name, for people; not part of the key.
    pub name: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(ns: &u32) -> bool {
    *ns == 0
}

impl PartialEq for TaskKey {
    fn eq(&self, other: &Self) -> bool {
        (self.tid, self.started) == (other.tid, other.started)
    }
}

impl PartialOrd for TaskKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TaskKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.tid, self.started).cmp(&(other.tid, other.started))
    }
}

impl std::hash::Hash for TaskKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.tid, self.started).hash(state);
    }
}

impl Knob {
    /// A file compared as text.
    pub fn text(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), form: Form::Text }
    }

    pub fn file(path: impl Into<PathBuf>, form: Form) -> Self {
        Self::File { path: path.into(), form }
    }

    /// A sysctl by its dotted name: `net.core.busy_poll` is /proc/sys/net/core/busy_poll (sysctl(8)).
    pub fn sysctl(name: &str) -> Self {
        Self::text(PathBuf::from("/proc/sys").join(name.replace('.', "/")))
    }

    /// Whether this can be a setting: a log that names another file was not written by Windhover. Groups' files are known by name alone.
    pub fn is_possible(&self) -> bool {
        let plain = |path: &Path| path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        match self {
            Self::File { path, .. } => {
                let known = ["/proc/sys", "/proc/irq", "/sys"].iter().any(|folder| path.starts_with(folder));
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let of_group =
                    name == "tasks" || ["cgroup.", "cpuset.", "cpu."].iter().any(|head| name.starts_with(head));
                plain(path) && (known || of_group)
            }
            Self::Group { path } | Self::Member { hierarchy: path, .. } => plain(path),
            _ => true,
        }
    }

    /// Whether each network namespace has its own: what is set of it goes with the namespace. Of /proc/sys/net that is what a
    /// namespace other than the machine's first can write.
    pub fn is_of_network_namespace(&self) -> bool {
        match self {
            Self::Ethtool { .. } | Self::Flow { .. } | Self::Napi { .. } => true,
            Self::File { path, .. } => path.starts_with("/proc/sys/net") || path.starts_with("/sys/class/net"),
            _ => false,
        }
    }

    /// Also changed by the kernel: huge pages raise `vm.min_free_kbytes` for good (`set_recommended_min_free_kbytes`).
    pub fn changes_also(&self) -> Vec<Self> {
        match self {
            Self::File { path, .. } if path.ends_with("kernel/mm/transparent_hugepage/enabled") => {
                vec![Self::sysctl("vm.min_free_kbytes")]
            }
            _ => Vec::new(),
        }
    }

    /// Whether two texts are the same value of this knob.
    pub fn same(&self, a: &str, b: &str) -> bool {
        match self {
            Self::File { form, .. } => form.same(a, b),
            Self::Affinity { .. } => Form::CpuList.same(a, b),
            _ => a.trim() == b.trim(),
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } | Self::Group { path } => write!(f, "{}", path.display()),
            Self::Member { task, .. } => write!(f, "control group of {task}"),
            Self::Affinity { task } => write!(f, "CPUs of {task}"),
            Self::Policy { task } => write!(f, "policy of {task}"),
            Self::CpuLatency => f.write_str("/dev/cpu_dma_latency"),
            Self::Service { unit } => write!(f, "service {unit}"),
            Self::Ethtool { device, part, name } => write!(f, "{device} {} {name}", part.word()),
            Self::Flow { device, location } => write!(f, "{device} flow rule {location}"),
            Self::Napi { device, id, name } => write!(f, "{device} NAPI {id} {name}"),
        }
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} ({})", self.tid, self.name)
    }
}

impl EthtoolPart {
    /// The word used in keys of profiles (`nic.coalesce.rx-usecs`) and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Coalesce => "coalesce",
            Self::Ring => "ring",
            Self::Channels => "channels",
            Self::Feature => "feature",
            Self::Pause => "pause",
            Self::Eee => "eee",
        }
    }
}

/// Reads and writes knobs. The undo log, plans and doctors use only this, so that tests can replace the system.
pub trait Settings {
    /// The value in the kernel's form, without the newline; [`KnobError::Absent`] where the system has no such setting.
    fn read(&self, knob: &Knob) -> Result<String, KnobError>;

    /// Sets a value. The caller has logged the old one and reads it back.
    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError>;

    /// Who may have changed the knob meanwhile, for people: best effort, `None` where no candidate is known.
    fn suspects(&self, knob: &Knob) -> Option<String> {
        let _ = knob;
        None
    }
}
