//! Trees of files that look like machines.

use crate::Kernel;
use host::knob::Machine;
use host::undo::StateDir;
use model::ShieldSpec;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// Above any id that the kernel gives (PID_MAX_LIMIT), so that no task of a tree is taken for the test itself.
pub(super) const BASE: i32 = 5_000_000;
const KERNEL: u64 = 0x0020_0000;
const FIXED: u64 = 0x0400_0000;

pub(super) struct Tree(tempfile::TempDir);

impl Tree {
    /// A machine with CPUs 0 to N-1 and nothing special.
    pub(super) fn new(cpus: u32) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        let all = format!("0-{}", cpus - 1);
        let mask = format!("{:x}", (1_u64 << cpus) - 1);
        for file in ["online", "present", "possible"] {
            tree.put(&format!("sys/devices/system/cpu/{file}"), &all);
        }
        tree.put("sys/devices/system/cpu/isolated", "");
        // What a kernel without the option prints.
        tree.put("sys/devices/system/cpu/nohz_full", "(null)");
        tree.put("sys/devices/system/node/node0/cpulist", &all);
        for cpu in 0..cpus {
            tree.put(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &cpu.to_string());
        }
        tree.put("proc/sys/kernel/osrelease", "6.12.95");
        tree.put("proc/sys/kernel/sched_rt_runtime_us", "950000");
        tree.put("proc/sys/kernel/watchdog_cpumask", &all);
        tree.put("sys/devices/virtual/workqueue/cpumask", &mask);
        tree.put("sys/devices/virtual/workqueue/writeback/cpumask", &mask);
        tree.put("proc/irq/default_smp_affinity", &mask);
        tree.irq(24, &all, "ahci");
        tree.put("proc/mounts", "proc /proc proc rw 0 0");
        tree.task(1, 1, "systemd", 0, &all, "/");
        tree.task(2, 2, "kthreadd", KERNEL, &all, "/");
        tree
    }

    /// Two threads a core: CPU N and CPU N + cpus/2.
    pub(super) fn with_smt(self, cpus: u32) -> Self {
        for cpu in 0..cpus {
            let first = cpu % (cpus / 2);
            let core = format!("{first},{}", first + cpus / 2);
            self.put(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &core);
        }
        self
    }

    /// Two memory nodes with half of the CPUs each.
    pub(super) fn with_nodes(self, cpus: u32) -> Self {
        let half = cpus / 2;
        self.put("sys/devices/system/node/node0/cpulist", &format!("0-{}", half - 1));
        self.put("sys/devices/system/node/node1/cpulist", &format!("{half}-{}", cpus - 1));
        self
    }

    /// A hierarchy of version 2 as systemd makes it, its controllers given.
    pub(super) fn with_v2(self, controllers: &str) -> Self {
        self.mount("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
        self.put("sys/fs/cgroup/cgroup.controllers", controllers);
        self.put("sys/fs/cgroup/cgroup.subtree_control", "cpu memory");
        for file in ["cgroup.procs", "cgroup.threads"] {
            self.put(&format!("sys/fs/cgroup/{file}"), "");
        }
        for slice in ["system.slice", "user.slice"] {
            self.v2_group(slice);
        }
        self
    }

    /// A group of version 2 with the kernel's files.
    pub(super) fn v2_group(&self, path: &str) {
        for (file, content) in [
            ("cgroup.controllers", "cpuset"),
            ("cgroup.type", "domain"),
            ("cgroup.procs", ""),
            ("cgroup.threads", ""),
            ("cpuset.cpus", ""),
            ("cpuset.mems", ""),
            ("cpuset.cpus.partition", "member"),
        ] {
            self.put(&format!("sys/fs/cgroup/{path}/{file}"), content);
        }
    }

    /// Cpusets of version 1.
    pub(super) fn with_v1(self, cpus: u32) -> Self {
        self.mount("cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0");
        self.v1_group("", &format!("0-{}", cpus - 1));
        self
    }

    /// A cpuset of version 1 with the kernel's files; the root's path is empty.
    pub(super) fn v1_group(&self, path: &str, cpus: &str) {
        for (file, content) in [
            ("tasks", ""),
            ("cgroup.procs", ""),
            ("cpuset.cpus", cpus),
            ("cpuset.mems", "0"),
            ("cpuset.cpu_exclusive", "0"),
            ("cpuset.sched_load_balance", "1"),
        ] {
            self.put(&format!("sys/fs/cgroup/cpuset/{path}/{file}"), content);
        }
    }

    fn mount(&self, line: &str) {
        let table = std::fs::read_to_string(self.root().join("proc/mounts")).unwrap();
        self.put("proc/mounts", &format!("{}\n{line}", table.trim()));
    }

    /// A thread; the first of its process when both numbers are the same. `group` is its group in both versions.
    pub(super) fn task(&self, process: i32, tid: i32, name: &str, flags: u64, cpus: &str, group: &str) {
        let folder = format!("proc/{tid}");
        let parent = i32::from(process > 2);
        self.put(
            &format!("{folder}/stat"),
            &format!("{tid} ({name}) S {parent} 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0", 100 + tid % 1000),
        );
        self.put(&format!("{folder}/status"), &format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}"));
        self.put(&format!("{folder}/comm"), name);
        self.put(&format!("{folder}/cgroup"), &format!("3:cpuset:{group}\n0::{group}"));
        let threads = self.root().join(format!("proc/{process}/task"));
        std::fs::create_dir_all(&threads).unwrap();
        symlink(format!("../../{tid}"), threads.join(tid.to_string())).unwrap();
    }

    /// An ordinary process that may run everywhere or on some CPUs.
    pub(super) fn process(&self, number: i32, name: &str, cpus: &str, group: &str) {
        self.task(BASE + number, BASE + number, name, 0, cpus, group);
    }

    /// A thread of the kernel; a fixed one belongs to its CPU.
    pub(super) fn kernel_thread(&self, number: i32, name: &str, fixed: bool, cpus: &str) {
        let flags = if fixed { KERNEL | FIXED } else { KERNEL };
        self.task(BASE + number, BASE + number, name, flags, cpus, "/");
    }

    pub(super) fn irq(&self, number: u32, cpus: &str, action: &str) {
        self.put(&format!("proc/irq/{number}/smp_affinity_list"), cpus);
        self.put(&format!("sys/kernel/irq/{number}/actions"), action);
    }

    /// An interrupt that its driver spread: the kernel takes the write bits away.
    pub(super) fn managed_irq(&self, number: u32, cpus: &str, action: &str) {
        self.irq(number, cpus, action);
        let file = self.root().join(format!("proc/irq/{number}/smp_affinity_list"));
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o444)).unwrap();
    }

    pub(super) fn put(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{content}\n")).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap().trim().to_owned()
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn kernel(&self) -> Kernel {
        Kernel::at(Machine::at(self.root()))
    }

    /// Beside the tree's files, so that those can be compared.
    pub(super) fn state(&self) -> StateDir {
        StateDir::at(self.root().join("run/windhover"))
    }

    /// All files and directories outside of the state directory, with their content.
    pub(super) fn snapshot(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        self.walk(self.root(), &mut found);
        found
    }

    fn walk(&self, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(self.root()).unwrap().display().to_string();
            // Files that only take: the kernel's show their members, which the tasks' own files do here.
            let takes = ["/cgroup.procs", "/cgroup.threads", "/tasks"].iter().any(|end| name.ends_with(end));
            if name.starts_with("run") || takes {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                found.insert(format!("{name}/"), String::new());
                self.walk(&path, found);
            } else if kind.is_file() {
                found.insert(name, std::fs::read_to_string(&path).unwrap().trim().to_owned());
            }
        }
    }
}

/// Shields processes and interrupts.
pub(super) fn all(cpus: &str) -> ShieldSpec {
    ShieldSpec { processes: cpus.parse().unwrap(), interrupts: cpus.parse().unwrap(), ..ShieldSpec::default() }
}

/// Lines that differ, for messages.
pub(super) fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in before {
        if after.get(name) != Some(value) {
            lines.push(format!("{name}: '{value}' -> {:?}", after.get(name)));
        }
    }
    lines.extend(after.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("{name}: new")));
    lines
}
