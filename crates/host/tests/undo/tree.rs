//! A tree of files that looks like a system, and changes to make to it.

use host::knob::{Form, Knob, Machine, Settings, TaskKey};
use host::undo::{Change, SetHeader, SetId, StateDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Makes the tree: a sysctl, a mask, a control group hierarchy of version 1, and a task.
pub(crate) fn plant(root: &Path) {
    for (file, content) in [
        ("proc/sys/net/core/busy_poll", "0\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/irq/default_smp_affinity", "f\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/fs/cgroup/cpuset/tasks", "\n"),
        ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n"),
        ("proc/mounts", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"),
        ("proc/42/stat", "42 (a) R 1 () S 1 42 42 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 777 0 0 0\n"),
        ("proc/42/cgroup", "3:cpuset:/\n0::/\n"),
    ] {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

pub(crate) fn task() -> TaskKey {
    TaskKey { tid: 42, started: 777, offset_part_ns: 0, name: "a) R 1 (".to_owned() }
}

pub(crate) fn change(knob: Knob, wanted: &str) -> Change {
    Change { knob, wanted: wanted.to_owned(), why: "a test".to_owned(), exact: true }
}

/// Changes of every kind that a tree of files knows, in the order that a shield makes them.
pub(crate) fn changes() -> Vec<Change> {
    let cpuset = PathBuf::from("/sys/fs/cgroup/cpuset");
    let group = cpuset.join("windhover");
    let file = |name: &str| group.join(name);
    vec![
        change(Knob::sysctl("net.core.busy_poll"), "50"),
        change(Knob::Group { path: group.clone() }, "present"),
        change(Knob::file(file("cpuset.cpus"), Form::CpuList), "3"),
        change(Knob::text(file("cpuset.cpu_exclusive")), "1"),
        change(Knob::Member { hierarchy: cpuset, task: task() }, "/sys/fs/cgroup/cpuset/windhover"),
        change(Knob::file("/proc/irq/default_smp_affinity", Form::CpuMask), "7"),
        change(Knob::sysctl("net.core.busy_poll"), "0"),
        change(Knob::sysctl("kernel.sched_rt_runtime_us"), "-1"),
    ]
}

pub(crate) fn state(root: &Path) -> StateDir {
    StateDir::at(root.join("state")).in_boot(BOOT)
}

pub(crate) fn header() -> SetHeader {
    SetHeader::new("test", "cargo test", None)
}

/// Makes all changes as one set.
pub(crate) fn apply(root: &Path, settings: &dyn Settings, changes: &[Change]) -> SetId {
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let mut set = state.begin(&lock, &header()).unwrap();
    for change in changes {
        set.set(settings, change).unwrap();
    }
    set.id().clone()
}

/// Everything in the tree but the state directory.
pub(crate) fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if name == Path::new("state") || name == Path::new("sys/fs/cgroup/cpuset/tasks") {
                // Which ids were written into `tasks` last is no state: the task's own file says where it is.
                continue;
            }
            if path.is_dir() {
                found.insert(name, "a folder".to_owned());
                folders.push(path);
            } else {
                let content = std::fs::read_to_string(&path).unwrap();
                found.insert(name, content.trim().to_owned());
            }
        }
    }
    found
}

pub(crate) fn machine(root: &Path) -> Machine {
    Machine::at(root)
}
