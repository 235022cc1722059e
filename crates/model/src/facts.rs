//! What a machine and a host are: recorded with every run. Absent means not known, never "no".

use std::collections::BTreeMap;

words! {
    "substrate";
    /// What the hosts of a run are made of. Runs of different ones stand side by side only where a person names both.
    #[derive(Default)]
    pub enum Substrate {
        /// Separate computers.
        Metal = "metal",
        /// Virtual machines.
        Vm = "vm",
        /// Simulated hardware.
        Simulated = "simulated",
        /// Simulated hardware in simulated time: the clocks count instructions.
        SimulatedTime = "simulated-time",
        /// Network namespaces of one machine.
        Netns = "netns",
        /// One network namespace.
        Loopback = "loopback",
        /// A Windows program on another system (Wine): its times say nothing of Windows.
        Wine = "wine",
        /// An imported result's, unless a person says what it is.
        #[default]
        Unknown = "unknown",
    }
}

/// Whether a preemption model, as in [`MachineFacts::preemption`], is that of a real-time kernel.
pub fn is_preempt_rt(preemption: Option<&str>) -> bool {
    preemption.and_then(|model| model.split(' ').next()) == Some("PREEMPT_RT")
}

impl Substrate {
    /// Whether this is among the allowed ones. `simulated` allows simulated time too.
    pub fn is_among(self, allowed: &[Self]) -> bool {
        allowed.contains(&self) || (self == Self::SimulatedTime && allowed.contains(&Self::Simulated))
    }
}

/// A real-time variant of Linux and what gave it away.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct RealtimeVariant {
    /// `PREEMPT_RT`, `RHEL RT`, `SUSE RT`, `Ubuntu RT`, `RedHawk`, `Xenomai 3 Cobalt`, `Xenomai 3 Mercury`, `EVL`,
    /// `RROS` or `RTnet`.
    pub name: String,
    /// What was read: a path, and its value where it has one.
    pub evidence: String,
}

/// One kernel with one boot id.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct MachineFacts {
    /// /proc/sys/kernel/random/boot_id.
    pub boot_id: String,
    /// PRETTY_NAME of os-release(5).
    pub os: Option<String>,
    /// uname release.
    pub kernel_release: Option<String>,
    /// uname version.
    pub kernel_version: Option<String>,
    /// uname machine.
    pub architecture: Option<String>,
    /// `PREEMPT_RT`, `PREEMPT_RT (lazy)`, `PREEMPT_DYNAMIC (full)`, `PREEMPT`, `none` …
    pub preemption: Option<String>,
    /// Real-time variants of Linux found: `PREEMPT_RT, RHEL RT`, `RedHawk`, `Xenomai 3 Cobalt`, `EVL` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_variant: Option<String>,
    /// Timer frequency in Hz where the kernel's configuration is readable.
    pub hz: Option<u32>,
    /// Names the kernel's configuration: equal for equal options, whatever their order. `kernels/RELEASE-ID.config` in a run
    /// directory has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_config_id: Option<String>,
    /// The lines of the kernel's configuration that set something; only on its way from a host, and in what
    /// `windhover doctor --save` writes. Run directories keep it in a file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_config: Option<String>,
    /// Whether interrupts are handled in threads: a real-time kernel, or `threadirqs` on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threadirqs: Option<bool>,
    /// Policies of the kernel's threads that handle interrupts and packets, by a name that is the same on each boot:
    /// `irq eth0-rx-0`, `napi eth0`, `ksoftirqd`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interrupt_threads: BTreeMap<String, String>,
    /// What the fair server may take from real-time tasks in each second, in ns (`50000000`); with the CPUs where these differ
    /// (`50000000 on CPU 0-1, 0 on CPU 2-3`). Absent before Linux 6.12, and where debugfs cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_server_runtime_ns: Option<String>,
    /// Tracers that ftrace has, separated by blanks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracers: Option<String>,
    /// /proc/cmdline.
    pub command_line: Option<String>,
    /// CPU model name.
    pub cpu_model: Option<String>,
    /// Online CPUs.
    pub cpus_online: Option<String>,
    /// Isolated CPUs.
    pub cpus_isolated: Option<String>,
    /// CPUs without a tick.
    pub cpus_nohz_full: Option<String>,
    /// Whether hardware threads are in use.
    pub smt_active: Option<bool>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// Whether its clocks count instructions (a guest of QEMU with `-icount`). The machine cannot see that itself: the lab
    /// that made it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_time: Option<bool>,
    /// Whether the CPU says its time stamp counter is invariant (constant_tsc and nonstop_tsc).
    pub tsc_invariant: Option<bool>,
    /// Scaling governor of CPU 0.
    pub cpufreq_governor: Option<String>,
    /// cpuidle driver.
    pub cpuidle_driver: Option<String>,
    /// Idle states of the CPUs with the time to leave them: `POLL 0 µs`, `C6 133 µs off`, `C1 2 µs off on CPU 2-3`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpuidle_states: Vec<String>,
    /// CPU vulnerability files by name.
    pub mitigations: BTreeMap<String, String>,
    /// Hypervisor, or `none` on bare metal.
    pub virtualisation: Option<String>,
    /// Board, system vendor and product (DMI).
    pub product: Option<String>,
    /// sysctls that matter for latency, by dotted name.
    pub sysctls: BTreeMap<String, String>,
    /// Services that matter for latency (irqbalance, tuned) that were running.
    pub services: Vec<String>,
}

/// One network identity on a machine.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// The machine it is on.
    pub boot_id: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Inode of its network namespace.
    pub netns: Option<u64>,
    /// Whether it runs in the machine's initial network namespace.
    pub netns_initial: Option<bool>,
    /// Its network devices.
    pub nics: Vec<NicFacts>,
    /// sysctls of its network namespace, by dotted name.
    pub sysctls: BTreeMap<String, String>,
    /// User id that the agent runs as.
    pub uid: u32,
    /// What `windhover doctor` found on it at the start of a run, as its document; absent where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<serde_json::Value>,
}

/// One network device.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct NicFacts {
    /// Name.
    pub name: String,
    /// Driver (ethtool -i).
    pub driver: Option<String>,
    /// Driver version.
    pub driver_version: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Bus address.
    pub bus: Option<String>,
    /// Vendor and device as the PCI database or sysfs names them.
    pub model: Option<String>,
    /// Link speed in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// Whether there is a link.
    pub link: Option<bool>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// NUMA node.
    pub numa_node: Option<i32>,
    /// Addresses with prefix length.
    pub addresses: Vec<String>,
    /// Coalescing (ethtool -c) by name.
    pub coalesce: BTreeMap<String, u64>,
    /// Rings (ethtool -g) by name.
    pub rings: BTreeMap<String, u64>,
    /// Channels (ethtool -l) by name.
    pub channels: BTreeMap<String, u64>,
    /// Offloads (ethtool -k) by name.
    pub offloads: BTreeMap<String, bool>,
    /// Queueing discipline.
    pub qdisc: Option<String>,
}
