//! Where the control groups of a machine are, which of the two versions has the cpuset controller, and who else has
//! taken CPUs for himself.

use super::topology::list_in;
use host::knob::Machine;
use host::tasks::{Mount, parse_mounts};
use model::CpuList;
use std::path::{Path, PathBuf};

/// The group of version 2 whose tasks may use the shielded CPUs.
pub(super) const V2_SHIELD: &str = "windhover-shield";
/// The same of version 1.
pub(super) const V1_SHIELD: &str = "windhover-shield";
/// The group of version 1 for everything else.
pub(super) const V1_SYSTEM: &str = "windhover-system";

/// How deep control groups are looked through.
const DEPTH: u32 = 16;

/// A hierarchy of version 2 with cpusets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct V2 {
    /// Its mount.
    pub(super) root: PathBuf,
}

/// A hierarchy of version 1 with cpusets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct V1 {
    /// Its mount.
    pub(super) root: PathBuf,
}

/// What of both can be used, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) v2: Result<V2, String>,
    pub(super) v1: Result<V1, String>,
}

impl V2 {
    pub(super) fn shield(&self) -> PathBuf {
        self.root.join(V2_SHIELD)
    }
}

impl V1 {
    pub(super) fn shield(&self) -> PathBuf {
        self.root.join(V1_SHIELD)
    }

    pub(super) fn system(&self) -> PathBuf {
        self.root.join(V1_SYSTEM)
    }
}

impl Layout {
    pub(super) fn read(machine: &Machine) -> Self {
        let table = machine.text("/proc/self/mounts").or_else(|_| machine.text("/proc/mounts")).unwrap_or_default();
        let mounts = parse_mounts(&table);
        Self { v2: v2(machine, &mounts), v1: v1(machine, &mounts) }
    }
}

fn v2(machine: &Machine, mounts: &[Mount]) -> Result<V2, String> {
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
    Ok(V2 { root })
}

fn v1(machine: &Machine, mounts: &[Mount]) -> Result<V1, String> {
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
    Ok(V1 { root })
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

/// A group that is not ours and names CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) path: PathBuf,
    /// The CPUs it was given.
    pub(super) cpus: CpuList,
    /// Whether it has them for itself: a partition (version 2), an exclusive set (version 1).
    pub(super) alone: bool,
    /// How deep below the root: 1 is a child of it.
    pub(super) depth: u32,
}

/// All groups below a root that are not ours and were given CPUs; parents before their children.
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
        let ours = depth == 1 && [V2_SHIELD, V1_SHIELD, V1_SYSTEM].contains(&name.as_str());
        if ours || !machine.is_directory(&path) {
            continue;
        }
        let file = |name: &str| machine.text(path.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default();
        let partition = file("cpuset.cpus.partition");
        let alone = !partition.is_empty() && partition != "member" || file("cpuset.cpu_exclusive") == "1";
        let list = |name: &str| list_in(machine, &path.join(name).display().to_string()).unwrap_or_default();
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
