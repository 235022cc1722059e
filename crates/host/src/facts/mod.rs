//! What a machine and a host are. `root` is `/`, or a tree of fixtures in tests; what needs a system call is asked for
//! only when it is `/`.

mod cpu;
mod kernel;
mod nic;
mod services;
mod sysctls;
mod variant;
mod virtualisation;

pub use cpu::{CpuInfo, parse_cpuinfo};
pub use kernel::{parse_config_hz, parse_os_release, preemption};
pub use nic::parse_pci_ids;
pub use sysctls::is_known_sysctl;

use crate::netns;
use model::facts::RealtimeVariant;
use model::{CpuList, HostFacts, MachineFacts};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files below a root. Everything read is trimmed; what is not there or not readable is `None`.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a>(&'a Path);

impl Tree<'_> {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    pub(crate) fn is_this_machine(&self) -> bool {
        self.0 == Path::new("/")
    }

    fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// Facts of the machine: the same for all its network namespaces.
#[must_use]
pub fn machine(root: &Path) -> MachineFacts {
    let tree = Tree(root);
    let release = tree.read("proc/sys/kernel/osrelease");
    let version = tree.read("proc/sys/kernel/version");
    let config = release.as_ref().and_then(|release| tree.read(&format!("boot/config-{release}")));
    let command_line = tree.read("proc/cmdline");
    let cpu = tree.read("proc/cpuinfo").map(|text| parse_cpuinfo(&text)).unwrap_or_default();
    let list = |path: &str| tree.read(path).map(|text| if text == "(null)" { String::new() } else { text });
    let preemption = version.as_deref().map(|version| {
        preemption(&kernel::PreemptionEvidence {
            version,
            real_time: tree.read("sys/kernel/realtime").as_deref() == Some("1"),
            dynamic: tree.read("sys/kernel/debug/sched/preempt").as_deref(),
            command_line: command_line.as_deref(),
            config: config.as_deref(),
        })
    });
    let variants: Vec<String> =
        variant::all(tree, preemption.as_deref()).into_iter().map(|variant| variant.name).collect();
    MachineFacts {
        boot_id: tree.read("proc/sys/kernel/random/boot_id").unwrap_or_default(),
        realtime_variant: (!variants.is_empty()).then(|| variants.join(", ")),
        os: tree.read("etc/os-release").or_else(|| tree.read("usr/lib/os-release")).and_then(|t| parse_os_release(&t)),
        architecture: kernel::architecture(tree),
        preemption,
        hz: config.as_deref().and_then(parse_config_hz),
        cpus_online: list("sys/devices/system/cpu/online"),
        cpus_isolated: list("sys/devices/system/cpu/isolated"),
        cpus_nohz_full: list("sys/devices/system/cpu/nohz_full"),
        smt_active: match tree.read("sys/devices/system/cpu/smt/active").as_deref() {
            Some("1") => Some(true),
            Some("0") => Some(false),
            _ => None,
        },
        numa_nodes: tree
            .read("sys/devices/system/node/online")
            .and_then(|text| text.parse::<CpuList>().ok())
            .and_then(|nodes| u32::try_from(nodes.len()).ok()),
        memory_bytes: tree.read("proc/meminfo").and_then(|text| memory_bytes(&text)),
        clocksource: tree.read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        tsc_invariant: cpu.tsc_invariant,
        cpufreq_governor: tree.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cpuidle_driver: tree.read("sys/devices/system/cpu/cpuidle/current_driver"),
        mitigations: directory(tree, "sys/devices/system/cpu/vulnerabilities"),
        virtualisation: virtualisation::name(tree, &cpu),
        product: virtualisation::product(tree),
        sysctls: sysctls::machine(tree),
        services: services::running(tree),
        cpu_model: cpu.model,
        kernel_release: release,
        kernel_version: version,
        command_line,
    }
}

/// The real-time variants of Linux that this machine is found to run, each with what gave it away.
#[must_use]
pub fn realtime_variants(root: &Path) -> Vec<RealtimeVariant> {
    variant::all(Tree(root), machine(root).preemption.as_deref())
}

/// Facts of the host, that is of the calling thread's network namespace.
#[must_use]
pub fn host(root: &Path) -> HostFacts {
    let tree = Tree(root);
    HostFacts {
        boot_id: tree.read("proc/sys/kernel/random/boot_id").unwrap_or_default(),
        hostname: tree.read("proc/sys/kernel/hostname"),
        netns: tree.is_this_machine().then(netns::inode).flatten(),
        netns_initial: tree.is_this_machine().then(netns::is_initial).flatten(),
        nics: if tree.is_this_machine() { nic::all(tree) } else { Vec::new() },
        sysctls: sysctls::host(tree),
        uid: nix::unistd::geteuid().as_raw(),
        environment: None,
    }
}

fn directory(tree: Tree<'_>, path: &str) -> BTreeMap<String, String> {
    tree.names(path)
        .into_iter()
        .filter_map(|name| {
            let value = tree.read(&format!("{path}/{name}"))?;
            Some((name, value))
        })
        .collect()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
