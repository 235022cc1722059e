//! What a machine and a host are. What needs a system call is asked of the running system only, not of a tree of files.

mod cpu;
mod kernel;
mod nic;
mod services;
mod sysctls;
mod threads;
mod variant;
mod virtualisation;

pub use cpu::{CpuInfo, parse_cpuinfo};
pub use kernel::{boot_value, parse_config_hz, parse_os_release, preemption};
pub use nic::parse_pci_ids;
pub use sysctls::is_known_sysctl;

use crate::knob::Machine;
use crate::netns;
use crate::tasks::status_field;
use model::facts::RealtimeVariant;
use model::{HostFacts, MachineFacts};
use std::collections::BTreeMap;

/// A file's content, trimmed; `None` where it is not there or not readable.
fn read(machine: &Machine, path: &str) -> Option<String> {
    machine.trimmed(path).ok()
}

const TRACERS: [&str; 2] = ["/sys/kernel/tracing/available_tracers", "/sys/kernel/debug/tracing/available_tracers"];

/// The lines of the running kernel's configuration that set something; `None` where it cannot be read.
pub fn kernel_config(machine: &Machine) -> Option<String> {
    kernel::config(machine).as_deref().map(model::kconfig::set_lines)
}

/// Facts of the machine: the same for all its network namespaces.
pub fn machine(machine: &Machine) -> MachineFacts {
    let release = read(machine, "/proc/sys/kernel/osrelease");
    let version = read(machine, "/proc/sys/kernel/version");
    let config = kernel::config(machine);
    let command_line = read(machine, "/proc/cmdline");
    let cpu = read(machine, "/proc/cpuinfo").map(|text| parse_cpuinfo(&text)).unwrap_or_default();
    let list = |path: &str| read(machine, path).map(|text| if text == "(null)" { String::new() } else { text });
    let preemption = version.as_deref().map(|version| {
        preemption(&kernel::PreemptionEvidence {
            version,
            real_time: read(machine, "/sys/kernel/realtime").as_deref() == Some("1"),
            dynamic: read(machine, "/sys/kernel/debug/sched/preempt").as_deref(),
            command_line: command_line.as_deref(),
            config: config.as_deref(),
        })
    });
    let variants: Vec<String> =
        variant::all(machine, preemption.as_deref()).into_iter().map(|variant| variant.name).collect();
    MachineFacts {
        boot_id: read(machine, "/proc/sys/kernel/random/boot_id").unwrap_or_default(),
        realtime_variant: (!variants.is_empty()).then(|| variants.join(", ")),
        os: read(machine, "/etc/os-release")
            .or_else(|| read(machine, "/usr/lib/os-release"))
            .and_then(|t| parse_os_release(&t)),
        architecture: kernel::architecture(machine),
        threadirqs: kernel::threadirqs(preemption.as_deref(), command_line.as_deref()),
        preemption,
        hz: config.as_deref().and_then(parse_config_hz),
        kernel_config_id: config.as_deref().map(model::kconfig::id),
        // It is large: who stores it asks for it.
        kernel_config: None,
        interrupt_threads: threads::policies(machine),
        fair_server_runtime_ns: kernel::fair_server(machine),
        tracers: TRACERS.iter().find_map(|path| read(machine, path)),
        cpus_online: list("/sys/devices/system/cpu/online"),
        cpus_isolated: list("/sys/devices/system/cpu/isolated"),
        cpus_nohz_full: list("/sys/devices/system/cpu/nohz_full"),
        smt_active: match read(machine, "/sys/devices/system/cpu/smt/active").as_deref() {
            Some("1") => Some(true),
            Some("0") => Some(false),
            _ => None,
        },
        numa_nodes: machine
            .cpu_list("/sys/devices/system/node/online")
            .and_then(|nodes| u32::try_from(nodes.len()).ok()),
        memory_bytes: read(machine, "/proc/meminfo").and_then(|text| memory_bytes(&text)),
        clocksource: read(machine, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        simulated_time: None,
        tsc_invariant: cpu.tsc_invariant,
        cpufreq_governor: read(machine, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cpuidle_driver: read(machine, "/sys/devices/system/cpu/cpuidle/current_driver"),
        cpuidle_states: cpu::idle_states(machine),
        mitigations: directory(machine, "/sys/devices/system/cpu/vulnerabilities"),
        virtualisation: virtualisation::name(machine, &cpu),
        product: virtualisation::product(machine),
        sysctls: sysctls::machine(machine),
        services: services::running(machine),
        cpu_model: cpu.model,
        kernel_release: release,
        kernel_version: version,
        command_line,
    }
}

/// The real-time variants of Linux that this machine is found to run, each with what gave it away.
pub fn realtime_variants(machine: &Machine, facts: &MachineFacts) -> Vec<RealtimeVariant> {
    variant::all(machine, facts.preemption.as_deref())
}

/// Facts of the host, that is of the calling thread's network namespace.
pub fn host(machine: &Machine) -> HostFacts {
    HostFacts {
        boot_id: read(machine, "/proc/sys/kernel/random/boot_id").unwrap_or_default(),
        hostname: read(machine, "/proc/sys/kernel/hostname"),
        netns: machine.is_running().then(netns::inode).flatten(),
        netns_initial: machine.is_running().then(netns::is_initial).flatten(),
        nics: if machine.is_running() { nic::all(machine) } else { Vec::new() },
        sysctls: sysctls::host(machine),
        uid: nix::unistd::geteuid().as_raw(),
        environment: None,
    }
}

fn directory(machine: &Machine, path: &str) -> BTreeMap<String, String> {
    let names = machine.names(path).unwrap_or_default().into_iter();
    let entry = |name: String| read(machine, &format!("{path}/{name}")).map(|value| (name, value));
    names.filter_map(entry).collect()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    status_field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
