//! The state of the machine as the kernel tells it, to compare before and after.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where cgroup version 2 is mounted.
pub(crate) const CGROUP: &str = "/sys/fs/cgroup";

/// Files whose whole content is state.
const FILES: [&str; 34] = [
    "/proc/irq/default_smp_affinity",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/cpumask_requested",
    "/sys/devices/virtual/workqueue/cpumask_isolated",
    "/sys/devices/virtual/workqueue/writeback/cpumask",
    "/sys/devices/system/cpu/online",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
    "/sys/kernel/mm/ksm/run",
    "/sys/module/workqueue/parameters/power_efficient",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/sched_rt_period_us",
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/watchdog",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/watchdog_cpumask",
    "/proc/sys/kernel/hung_task_timeout_secs",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_bytes",
    "/proc/sys/vm/dirty_background_bytes",
    "/proc/sys/net/core/busy_poll",
    "/proc/sys/net/core/busy_read",
    "/proc/sys/net/core/rps_sock_flow_entries",
    "/proc/sys/net/core/netdev_budget",
    "/proc/sys/net/core/netdev_budget_usecs",
    "/proc/sys/net/ipv4/tcp_fastopen",
    "/sys/kernel/debug/sched/fair_server/cpu0/runtime",
    "/sys/kernel/debug/sched/fair_server/cpu3/runtime",
    "/sys/kernel/debug/sched/preempt",
];

/// Files of each cgroup.
const CGROUP_FILES: [&str; 7] = [
    "cgroup.type",
    "cgroup.subtree_control",
    "cpuset.cpus",
    "cpuset.cpus.effective",
    "cpuset.cpus.exclusive",
    "cpuset.cpus.isolated",
    "cpuset.cpus.partition",
];

/// What `ethtool` shows of a network device.
const ETHTOOL: [&str; 5] = ["-c", "-g", "-k", "-a", "-l"];

/// Name of each piece of state and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State(BTreeMap<String, String>);

impl State {
    /// Reads everything.
    pub(crate) fn read() -> Self {
        let mut all = BTreeMap::new();
        for path in FILES {
            all.insert(path.to_owned(), read(path));
        }
        for irq in numbered("/proc/irq") {
            let path = format!("/proc/irq/{irq}/smp_affinity_list");
            all.insert(path.clone(), read(&path));
        }
        cgroups(Path::new(CGROUP), &mut all);
        tasks(&mut all);
        for device in fs::read_dir("/sys/class/net").unwrap().flatten() {
            network_device(&device.file_name().to_string_lossy(), &mut all);
        }
        Self(all)
    }

    /// Id and CPUs of the threads whose name begins like this.
    pub(crate) fn tasks(&self, begin: &str) -> Vec<(u32, String)> {
        let cpus = |value: &str| value.strip_prefix("CPUs ")?.split_once(", ").map(|(cpus, _)| cpus.to_owned());
        let task = |(key, value): (&String, &String)| {
            let (tid, name) = key.strip_prefix("task ")?.split_once(' ')?;
            Some((tid.parse().ok()?, cpus(value)?)).filter(|_| name.starts_with(begin))
        };
        self.0.iter().filter_map(task).collect()
    }

    /// The lines in which two states differ; what only one of them has is a difference too, except for a task that has
    /// ended or begun.
    pub(crate) fn differences(&self, after: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, before) in &self.0 {
            match after.0.get(name) {
                Some(now) if now == before => {}
                None if name.starts_with("task ") => {}
                now => lines.push(format!("{name}: {before} -> {}", now.map_or("(gone)", String::as_str))),
            }
        }
        let new = after.0.iter().filter(|(name, _)| !self.0.contains_key(*name) && !name.starts_with("task "));
        lines.extend(new.map(|(name, now)| format!("{name}: (new) -> {now}")));
        lines
    }
}

/// Fails with every line that differs.
#[track_caller]
pub(crate) fn assert_restored(before: &State) {
    let lines = before.differences(&State::read());
    assert!(lines.is_empty(), "not as before:\n{}", lines.join("\n"));
}

/// A file's content without the last line feed, or the error's name in angle brackets.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    match fs::read_to_string(path.as_ref()) {
        Ok(text) => text.trim_end().to_owned(),
        Err(error) => format!("<{}>", error.kind()),
    }
}

/// A file of the root cgroup or one below.
pub(crate) fn cgroup(file: &str) -> String {
    read(Path::new(CGROUP).join(file))
}

fn status(folder: &str, key: &str) -> String {
    let text = read(format!("{folder}/status"));
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or("<gone>").trim().to_owned()
}

/// Names in a folder that are numbers.
pub(crate) fn numbered(folder: &str) -> Vec<u32> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn cgroups(folder: &Path, all: &mut BTreeMap<String, String>) {
    for file in CGROUP_FILES {
        let path = folder.join(file);
        if path.exists() {
            all.insert(path.display().to_string(), read(&path));
        }
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            cgroups(&entry.path(), all);
        }
    }
}

/// Affinity, policy and cgroup of each thread. Workers of workqueues come and go with their pools, whose masks are read
/// above.
fn tasks(all: &mut BTreeMap<String, String>) {
    for pid in numbered("/proc") {
        for tid in numbered(&format!("/proc/{pid}/task")) {
            let folder = format!("/proc/{pid}/task/{tid}");
            let (name, stat) = (read(format!("{folder}/comm")), read(format!("{folder}/stat")));
            if name.starts_with("kworker") || name.starts_with('<') {
                continue;
            }
            // Fields 40 and 41 of proc_pid_stat(5), counted from the one after the name: rt_priority and policy.
            let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
            let scheduling = (fields.get(37).copied().unwrap_or_default(), fields.get(38).copied().unwrap_or_default());
            let cgroup = read(format!("{folder}/cgroup"));
            let cpus = status(&folder, "Cpus_allowed_list");
            let value = format!("CPUs {cpus}, priority {}, policy {}, cgroup {cgroup}", scheduling.0, scheduling.1);
            all.insert(format!("task {tid} {name}"), value);
        }
    }
}

fn network_device(device: &str, all: &mut BTreeMap<String, String>) {
    let folder = format!("/sys/class/net/{device}");
    for file in ["threaded", "napi_defer_hard_irqs", "gro_flush_timeout", "mtu", "tx_queue_len"] {
        let path = format!("{folder}/{file}");
        all.insert(path.clone(), read(&path));
    }
    for queue in fs::read_dir(format!("{folder}/queues")).into_iter().flatten().flatten() {
        for file in ["rps_cpus", "rps_flow_cnt", "xps_cpus"] {
            let path = queue.path().join(file);
            if path.exists() {
                all.insert(path.display().to_string(), read(&path));
            }
        }
    }
    for option in ETHTOOL {
        all.insert(format!("ethtool {option} {device}"), ethtool(&[option, device]));
    }
}

/// What `ethtool` prints, errors too.
pub(crate) fn ethtool(arguments: &[&str]) -> String {
    let output = Command::new("ethtool").args(arguments).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)).trim().to_owned()
}
