//! Facts of a prepared server, of a small guest, and of this machine.

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
