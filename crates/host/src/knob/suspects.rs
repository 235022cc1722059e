//! Who else changes settings: daemons that are known for it and run.

use super::{Knob, Machine};

/// Names of daemons as /proc/PID/comm has them (15 bytes at most).
const INTERRUPTS: &[&str] = &["irqbalance", "tuned"];
const POWER: &[&str] = &["tuned", "power-profiles-", "thermald", "auto-cpufreq", "tlp"];
const SYSCTLS: &[&str] = &["tuned", "NetworkManager"];
const TASKS: &[&str] = &["tuned", "stalld", "rtkit-daemon", "ananicy", "irqbalance"];
const GROUPS: &[&str] = &["systemd", "dockerd", "containerd", "crio", "libvirtd"];
const DEVICES: &[&str] = &["tuned", "NetworkManager", "systemd-network", "systemd-udevd"];

/// The first known daemon that runs, in words.
pub(super) fn running(machine: &Machine, knob: &Knob) -> Option<String> {
    let known = match knob {
        Knob::File { path, .. } if path.starts_with("/proc/irq") => INTERRUPTS,
        Knob::File { path, .. } if path.starts_with("/sys/devices/system/cpu") => POWER,
        Knob::File { path, .. } if path.starts_with("/sys/fs/cgroup") => GROUPS,
        Knob::File { path, .. } if path.starts_with("/sys/class/net") => DEVICES,
        Knob::File { .. } => SYSCTLS,
        Knob::Group { .. } | Knob::Member { .. } => GROUPS,
        Knob::Affinity { .. } | Knob::Policy { .. } => TASKS,
        Knob::Ethtool { .. } | Knob::Flow { .. } | Knob::Napi { .. } => DEVICES,
        Knob::Service { .. } | Knob::CpuLatency => return None,
    };
    let (id, name) = crate::tasks::processes(machine).find(|(_, name)| known.contains(&name.as_str()))?;
    Some(format!("perhaps {name} (process {id}), which runs and changes such settings"))
}
