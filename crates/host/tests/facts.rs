//! Facts of a prepared server, of a small guest, and of this machine.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::Path;
use windhover_host::knob::Machine;
use windhover_host::{facts, netns, stack};

fn tree(name: &str) -> Machine {
    Machine::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
}

#[test]
fn a_prepared_server() {
    let facts = facts::machine(&tree("metal"));
    assert_eq!(facts.boot_id, "3f1c9a52-77b1-4a0e-9a54-0c1d2e3f4a5b");
    assert_eq!(facts.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(facts.kernel_release.as_deref(), Some("6.1.0-28-rt-amd64"));
    assert_eq!(facts.preemption.as_deref(), Some("PREEMPT_RT"));
    assert_eq!(facts.hz, Some(250));
    assert_eq!(facts.cpu_model.as_deref(), Some("Intel(R) Xeon(R) CPU E5-2667 v3 @ 3.20GHz"));
    assert_eq!(facts.cpus_isolated.as_deref(), Some("4-7"));
    assert_eq!(facts.cpus_nohz_full.as_deref(), Some("4-7"));
    assert_eq!(facts.smt_active, Some(false));
    assert_eq!(facts.numa_nodes, Some(2));
    assert_eq!(facts.memory_bytes, Some(65_789_012 * 1024));
    assert_eq!(facts.clocksource.as_deref(), Some("tsc"));
    assert_eq!(facts.tsc_invariant, Some(true));
    assert_eq!(facts.cpufreq_governor.as_deref(), Some("performance"));
    assert_eq!(facts.mitigations.len(), 2);
    // The vendor of the board also makes a hypervisor, but the CPU says there is none.
    assert_eq!(facts.virtualisation.as_deref(), Some("none"));
    assert_eq!(facts.product.as_deref(), Some("Microsoft Corporation Rack Server 2U (Supermicro X10DRi)"));
    assert_eq!(facts.sysctls["kernel.sched_rt_runtime_us"], "-1");
    assert_eq!(facts.sysctls["net.core.busy_poll"], "50");
    assert_eq!(facts.sysctls["transparent_hugepage"], "never");
    assert_eq!(facts.services, ["irqbalance", "phc2sys", "tuned (realtime)"]);
    let host = facts::host(&tree("metal"));
    assert_eq!(host.hostname.as_deref(), Some("kestrel"));
    assert_eq!(host.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
    assert_eq!(host.boot_id, facts.boot_id);
}

#[test]
fn a_small_guest_where_much_is_not_known() {
    let facts = facts::machine(&tree("guest"));
    assert_eq!(facts.os.as_deref(), Some("Ubuntu"));
    assert_eq!(facts.architecture, None);
    assert_eq!(facts.preemption.as_deref(), Some("PREEMPT_DYNAMIC (voluntary)"));
    assert_eq!(facts.hz, None);
    // Known to be none is not the same as not known.
    assert_eq!(facts.cpus_nohz_full.as_deref(), Some(""));
    assert_eq!(facts.smt_active, None);
    assert_eq!(facts.numa_nodes, None);
    assert_eq!(facts.tsc_invariant, Some(false));
    assert_eq!(facts.cpufreq_governor, None);
    assert_eq!(facts.virtualisation.as_deref(), Some("kvm"));
    assert_eq!(facts.product, None);
    assert!(facts.services.is_empty());
}

/// A tree of these files.
fn made(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }
    let machine = Machine::at(folder.path());
    (folder, machine)
}

/// /proc/PID/stat of a thread of the kernel, with its policy and priority (fields 40 and 41).
fn kernel_thread(id: u32, name: &str, policy: u32, priority: u32) -> String {
    let zeros = |count: usize| vec!["0"; count].join(" ");
    format!("{id} ({name}) S 2 0 0 0 -1 2129984 {} 17 0 {priority} {policy} {}", zeros(28), zeros(11))
}

#[test]
fn what_a_kernel_does_with_interrupts_and_idle_cpus() {
    const CPU: &str = "sys/devices/system/cpu";
    const FAIR: &str = "sys/kernel/debug/sched/fair_server";
    let threads = [
        (20, "irq/25-eth0-rx-0", 1, 50),
        (21, "irq/26-eth0-rx-1", 1, 60),
        (22, "napi/eth0-8193", 0, 0),
        (23, "napi/eth0-8194", 1, 40),
        (24, "ksoftirqd/0", 0, 0),
        (25, "ksoftirqd/1", 0, 0),
        (26, "kworker/0:1", 0, 0),
    ];
    let mut files: Vec<(String, String)> = threads
        .iter()
        .flat_map(|(id, name, policy, priority)| {
            [
                (format!("proc/{id}/comm"), (*name).to_owned()),
                (format!("proc/{id}/stat"), kernel_thread(*id, name, *policy, *priority)),
            ]
        })
        .collect();
    // A process of that name is no thread of the kernel.
    files.push(("proc/30/comm".into(), "irq/1-fake".into()));
    files.push(("proc/30/stat".into(), kernel_thread(30, "irq/1-fake", 1, 99).replace("2129984", "4194304")));
    for (cpu, name, latency, disable) in
        [(0, "POLL", "0", ["0", "0"]), (1, "C1", "2", ["0", "1"]), (2, "C6", "133", ["1", "1"])]
    {
        for (number, disable) in disable.iter().enumerate() {
            let folder = format!("{CPU}/cpu{number}/cpuidle/state{cpu}");
            files.push((format!("{folder}/name"), name.into()));
            files.push((format!("{folder}/latency"), latency.into()));
            files.push((format!("{folder}/disable"), (*disable).into()));
        }
    }
    for (path, text) in [
        ("proc/sys/kernel/osrelease", "6.12.9-x"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC x"),
        ("proc/cmdline", "quiet threadirqs"),
        ("sys/kernel/tracing/available_tracers", "timerlat osnoise blk nop"),
        ("lib/modules/6.12.9-x/config", "# comment\nCONFIG_HZ=1000\n# CONFIG_KASAN is not set\nCONFIG_PREEMPT=y"),
    ] {
        files.push((path.into(), text.into()));
    }
    for (cpu, runtime) in [("cpu0", "50000000"), ("cpu1", "0"), ("cpu2", "0")] {
        files.push((format!("{FAIR}/{cpu}/runtime"), runtime.into()));
    }
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (_folder, machine) = made(&borrowed);
    let facts = facts::machine(&machine);
    let own: Vec<(&str, &str)> =
        facts.interrupt_threads.iter().map(|(name, policy)| (name.as_str(), policy.as_str())).collect();
    let expected = [
        ("irq eth0-rx-0", "fifo:50"),
        ("irq eth0-rx-1", "fifo:60"),
        ("ksoftirqd", "other"),
        ("napi eth0", "fifo:40 other"),
    ];
    assert_eq!(own, expected);
    assert_eq!(facts.cpuidle_states, ["POLL 0 µs", "C1 2 µs off on CPU 1", "C6 133 µs off"]);
    assert_eq!(facts.fair_server_runtime_ns.as_deref(), Some("50000000 on CPU 0, 0 on CPU 1-2"));
    assert_eq!(facts.threadirqs, Some(true));
    assert_eq!(facts.tracers.as_deref(), Some("timerlat osnoise blk nop"));
    assert_eq!((facts.hz, facts.preemption.as_deref()), (Some(1000), Some("PREEMPT_DYNAMIC (full)")));
    let config = facts::kernel_config(&machine).unwrap();
    assert_eq!(config, "CONFIG_HZ=1000\nCONFIG_PREEMPT=y\n");
    assert_eq!(facts.kernel_config_id, Some(model::kconfig::id(&config)));
    assert_eq!(facts.kernel_config, None, "it is handed over only where it is asked for");
}

#[test]
fn what_cannot_be_read_is_not_known() {
    let facts = facts::machine(&tree("guest"));
    assert_eq!((facts.kernel_config_id, facts.fair_server_runtime_ns, facts.tracers), (None, None, None));
    assert!(facts.interrupt_threads.is_empty() && facts.cpuidle_states.is_empty());
    let (_folder, bare) = made(&[("proc/sys/kernel/version", "#1 SMP PREEMPT_RT x")]);
    assert_eq!(facts::machine(&bare).threadirqs, Some(true), "a real-time kernel has no choice");
    let (_folder, unknown) = made(&[("proc/sys/kernel/version", "#1 SMP x")]);
    assert_eq!(facts::machine(&unknown).threadirqs, None);
}

#[test]
fn nothing_at_all_is_no_error() {
    assert_eq!(facts::machine(&tree("no-such-tree")), model::MachineFacts::default());
}

#[test]
fn this_machine() {
    let facts = facts::machine(&Machine::running());
    assert_eq!(facts.boot_id.len(), 36);
    assert!(facts.preemption.is_some());
    assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    let host = facts::host(&Machine::running());
    assert_eq!(host.netns, netns::inode());
    assert!(host.nics.iter().any(|nic| nic.name == "lo"));
}

#[test]
fn variables_of_stacks() {
    for name in ["LD_PRELOAD", "EF_POLL_USEC", "VMA_SPEC", "XLIO_TRACELEVEL", "ONLOAD_PRELOAD", "SFNT_OPTS"] {
        assert!(stack::is_stack_variable(name), "{name}");
    }
    for name in ["PATH", "EFFECT", "LD_BIND_NOW_X", "vma_spec"] {
        assert!(!stack::is_stack_variable(name), "{name}");
    }
}
