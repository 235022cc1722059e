//! Settings that matter for latency.

use super::read;
use crate::knob::{Form, Machine};
use crate::netns;
use nix::sched::{CloneFlags, setns};
use std::collections::BTreeMap;
use std::fs::File;

/// Settings of the machine, by dotted name, in /proc/sys.
const MACHINE: [&str; 23] = [
    "kernel.sched_rt_runtime_us",
    "kernel.sched_rt_period_us",
    "kernel.sched_rr_timeslice_ms",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_schedstats",
    "kernel.sched_min_granularity_ns",
    "kernel.sched_wakeup_granularity_ns",
    "kernel.sched_migration_cost_ns",
    "kernel.timer_migration",
    "kernel.numa_balancing",
    "kernel.watchdog",
    "kernel.nmi_watchdog",
    "kernel.soft_watchdog",
    "kernel.watchdog_thresh",
    "kernel.watchdog_cpumask",
    "vm.stat_interval",
    "vm.swappiness",
    "vm.compaction_proactiveness",
    "vm.compact_unevictable_allowed",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.zone_reclaim_mode",
];

/// Settings of the machine that only its initial network namespace shows.
const INITIAL_NETWORK: [&str; 15] = [
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.dev_weight",
    "net.core.default_qdisc",
    "net.core.bpf_jit_enable",
    "net.core.rps_sock_flow_entries",
    "net.core.netdev_tstamp_prequeue",
    "net.core.skb_defer_max",
];

/// Whether this is the name of a sysctl that some kernel has: those recorded here.
pub fn is_known_sysctl(name: &str) -> bool {
    [&MACHINE[..], &INITIAL_NETWORK, &HOST].iter().any(|names| names.contains(&name))
}

/// Settings of a network namespace.
const HOST: [&str; 23] = [
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.somaxconn",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_early_demux",
    "net.ipv4.udp_early_demux",
    "net.ipv4.tcp_early_demux",
    "net.ipv4.udp_mem",
    "net.ipv4.udp_rmem_min",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.ping_group_range",
    "net.ipv4.icmp_ratelimit",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv6.conf.all.disable_ipv6",
    "net.ipv6.conf.all.forwarding",
];

/// Files that are no sysctls and are listed with them, by the name given here.
const FILES: [(&str, &str); 5] = [
    ("transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("transparent_hugepage.defrag", "/sys/kernel/mm/transparent_hugepage/defrag"),
    ("ksm.run", "/sys/kernel/mm/ksm/run"),
    ("sched.fair_server.cpu0.runtime_ns", "/sys/kernel/debug/sched/fair_server/cpu0/runtime"),
    ("workqueue.cpumask", "/sys/devices/virtual/workqueue/cpumask"),
];

pub(crate) fn machine(machine: &Machine) -> BTreeMap<String, String> {
    let mut found = read_all(machine, &MACHINE);
    for (name, path) in FILES {
        if let Some(value) = read(machine, path) {
            found.insert(name.to_owned(), Form::Choice.value(&value));
        }
    }
    let inside_another = machine.is_running() && netns::is_initial() == Some(false);
    let network = if inside_another { from_initial_namespace() } else { Some(read_all(machine, &INITIAL_NETWORK)) };
    found.extend(network.unwrap_or_default());
    found
}

pub(crate) fn host(machine: &Machine) -> BTreeMap<String, String> {
    read_all(machine, &HOST)
}

/// /proc/sys/net shows the reader's namespace, so a thread enters the initial one: that of process 1, else of our parent.
fn from_initial_namespace() -> Option<BTreeMap<String, String>> {
    let processes = [1, nix::unistd::getppid().as_raw()];
    processes.into_iter().find_map(|process| {
        let namespace = File::open(format!("/proc/{process}/ns/net")).ok()?;
        let reader = std::thread::Builder::new().name("initial-netns".to_owned()).spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).ok()?;
            (netns::is_initial() == Some(true)).then(|| read_all(&Machine::running(), &INITIAL_NETWORK))
        });
        reader.ok()?.join().ok()?
    })
}

fn read_all(machine: &Machine, names: &[&str]) -> BTreeMap<String, String> {
    names
        .iter()
        .filter_map(|name| {
            let value = read(machine, &format!("/proc/sys/{}", name.replace('.', "/")))?;
            Some(((*name).to_owned(), value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")))
        })
        .collect()
}
