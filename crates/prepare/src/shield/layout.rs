//! Where a machine's control groups are, which version has the cpuset controller, and who else has taken CPUs.

use host::knob::Machine;
use host::tasks::{Mount, parse_mounts};
use model::{CpuList, ShieldBackend};
use std::path::{Path, PathBuf};

/// The group whose tasks may use the shielded CPUs.
pub(super) const SHIELD: &str = "windhover-shield";
/// The group of version 1 for everything else.
pub(super) const SYSTEM: &str = "windhover-system";

const DEPTH: u32 = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cpusets {
    pub(super) root: PathBuf,
}

/// What of both versions can be used, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) v2: Result<Cpusets, String>,
    pub(super) v1: Result<Cpusets, String>,
}

impl Cpusets {
    pub(super) fn shield(&self) -> PathBuf {
        self.root.join(SHIELD)
    }

    pub(super) fn system(&self) -> PathBuf {
        self.root.join(SYSTEM)
    }
}

impl Layout {
    pub(super) fn read(machine: &Machine) -> Self {
        let table = machine.text("/proc/self/mounts").or_else(|_| machine.text("/proc/mounts")).unwrap_or_default();
        let mounts = parse_mounts(&table);
        Self { v2: v2(machine, &mounts), v1: v1(machine, &mounts) }
    }

    pub(super) fn of(&self, backend: ShieldBackend) -> Option<&Cpusets> {
        match backend {
            ShieldBackend::V2 => self.v2.as_ref().ok(),
            ShieldBackend::V1 => self.v1.as_ref().ok(),
            _ => None,
        }
    }
}

fn v2(machine: &Machine, mounts: &[Mount]) -> Result<Cpusets, String> {
    let mount = mounts.iter().rfind(|mount| mount.kind == "cgroup2");
    let root = mount.map(|mount| mount.path.clone()).ok_or("no control groups of version 2 are mounted")?;
    let file = root.join("cgroup.controllers");
    let controllers = machine.text(&file).map_err(|cause| format!("{}: {cause}", file.display()))?;
    if !controllers.split_ascii_whitespace().any(|name| name == "cpuset") {
        let has = controllers.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        let has = if has.is_empty() { "nothing".to_owned() } else { has };
        return Err(format!("{} lists {has} and not cpuset, which version 1 or nobody has", file.display()));
    }
    if machine.exists(root.join("cgroup.type")) {
        return Err(format!(
            "{} is no root: this is a container's control group namespace, from which no partition can be made",
            root.display()
        ));
    }
    Ok(Cpusets { root })
}

fn v1(machine: &Machine, mounts: &[Mount]) -> Result<Cpusets, String> {
    let mount = mounts
        .iter()
        .rfind(|mount| mount.kind == "cgroup" && mount.options.iter().any(|option| option == "cpuset"))
        .ok_or("no cpusets of version 1 are mounted")?;
    let root = mount.path.clone();
    let others: Vec<&str> =
        mount.options.iter().map(String::as_str).filter(|option| CONTROLLERS.contains(option)).collect();
    if !others.is_empty() {
        return Err(format!(
            "{} is mounted together with {}, which would move with the cpusets",
            root.display(),
            others.join(", ")
        ));
    }
    if !machine.exists(root.join("cpuset.cpus")) {
        return Err(format!("{} has no cpuset.cpus (mounted with noprefix?)", root.display()));
    }
    Ok(Cpusets { root })
}

/// Controllers of version 1 that a mount may have beside cpuset.
const CONTROLLERS: [&str; 13] = [
    "cpu",
    "cpuacct",
    "blkio",
    "memory",
    "devices",
    "freezer",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
    "hugetlb",
    "misc",
];

/// A group of another program that names CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) path: PathBuf,
    pub(super) cpus: CpuList,
    /// Whether it has them for itself: a partition (version 2), an exclusive set (version 1).
    pub(super) alone: bool,
    /// How deep below the root: 1 is a child of it.
    pub(super) depth: u32,
}

/// All groups of other programs below a root that were given CPUs; parents before their children.
pub(super) fn foreign(machine: &Machine, root: &Path) -> Vec<Foreign> {
    let mut found = Vec::new();
    walk(machine, root, 1, &mut found);
    found
}

fn walk(machine: &Machine, folder: &Path, depth: u32, found: &mut Vec<Foreign>) {
    if depth > DEPTH {
        return;
    }
    for name in machine.names(folder).unwrap_or_default() {
        let path = folder.join(&name);
        let ours = depth == 1 && [SHIELD, SYSTEM].contains(&name.as_str());
        if ours || !machine.is_directory(&path) {
            continue;
        }
        let file = |name: &str| machine.trimmed(path.join(name)).unwrap_or_default();
        let partition = file("cpuset.cpus.partition");
        let alone = !partition.is_empty() && partition != "member" || file("cpuset.cpu_exclusive") == "1";
        let list = |name: &str| machine.cpu_list(path.join(name)).unwrap_or_default();
        let mut cpus = list("cpuset.cpus");
        if alone && cpus.is_empty() {
            cpus = list("cpuset.cpus.exclusive");
        }
        if !cpus.is_empty() {
            found.push(Foreign { path: path.clone(), cpus, alone, depth });
        }
        walk(machine, &path, depth + 1, found);
    }
}
