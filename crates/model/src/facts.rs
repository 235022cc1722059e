//! What a machine and a host are: recorded with every run. Absent means not known, never "no".

use std::collections::BTreeMap;

words! {
    /// What the hosts of a run are made of. Tables never mix these without saying so.
    pub enum Substrate {
        /// Separate computers.
        Metal = "metal",
        /// Virtual machines.
        Vm = "vm",
        /// Simulated hardware.
        Simulated = "simulated",
        /// Network namespaces of one machine.
        Netns = "netns",
        /// One network namespace.
        Loopback = "loopback",
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
    /// `PREEMPT_RT`, `PREEMPT_DYNAMIC (full)`, `PREEMPT`, `none` …
    pub preemption: Option<String>,
    /// Real-time variants of Linux found: `PREEMPT_RT, RHEL RT`, `RedHawk`, `Xenomai 3 Cobalt`, `EVL` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_variant: Option<String>,
    /// Timer frequency in Hz where the kernel's configuration is readable.
    pub hz: Option<u32>,
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
    /// Whether the CPU says its time stamp counter is invariant (constant_tsc and nonstop_tsc).
    pub tsc_invariant: Option<bool>,
    /// Scaling governor of CPU 0.
    pub cpufreq_governor: Option<String>,
    /// cpuidle driver.
    pub cpuidle_driver: Option<String>,
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
