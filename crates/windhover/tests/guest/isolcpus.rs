//! Booted with `isolcpus=domain,3`: CPU 3 was isolated at boot, and partitions may not take it.

use super::state::{State, assert_restored, cgroup, numbered, read};
use super::support::{assert_code, assert_refused, run, stdout};
use super::tasks::{Partition, Reset, Task, cpus_within};

/// What the other tests stand on: the kernel refuses a partition of the CPU, by what it reads back.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_refuses_a_partition_of_the_isolated_cpu() {
    let before = State::read();
    assert_eq!(read("/sys/devices/system/cpu/isolated"), "3");
    let (partition, said) = Partition::attempt("by-hand", "3");
    drop(partition);
    assert!(said.starts_with("isolated invalid ("), "{said}");
    assert_restored(&before);
}

/// The CPU itself; a list with it, which the kernel would take and then lose count of; and all others, at which this
/// kernel crashes.
#[test]
#[ignore = "runs in a guest"]
fn partitions_of_the_isolated_cpu_or_of_all_others_are_refused() {
    let _reset = Reset;
    let before = State::read();
    let v2 = |cpus: &'static str| ["shield", "-a", cpus, "--backend", "v2", "--yes", "--allow-boot-cpu"];
    assert_refused(&v2("3"), 2, &["3", "isolcpus"]);
    assert_refused(&v2("2-3"), 2, &["3", "isolcpus"]);
    assert_refused(&v2("0-2"), 2, &["0-2"]);
    assert_restored(&before);
}

/// Another CPU can be had.
#[test]
#[ignore = "runs in a guest"]
fn another_cpu_can_be_shielded() {
    let _reset = Reset;
    let (here, there) = (Task::sleeping(None), Task::sleeping(Some("3")));
    let before = State::read();
    assert_code(&run(&["shield", "-a", "2", "--backend", "v2", "--yes"]), 0);
    assert_eq!(cgroup("windhover-shield/cpuset.cpus.partition"), "isolated");
    assert_eq!(cgroup("cpuset.cpus.isolated"), "2-3");
    let cpus = (here.cpus(), there.cpus());
    assert_code(&run(&["shield", "-r"]), 0);
    assert_eq!(cpus, ("0-1".to_owned(), "3".to_owned()), "nothing else may come to CPU 3 either");
    assert_eq!(cgroup("cpuset.cpus.isolated"), "3");
    assert_restored(&before);
}

/// What was isolated at boot needs no group: interrupts and work of any CPU are looked after.
#[test]
#[ignore = "runs in a guest"]
fn the_isolated_cpu_is_shielded_without_a_group() {
    let _reset = Reset;
    let before = State::read();
    assert_code(&run(&["shield", "-a", "3", "--yes"]), 0);
    let status: serde_json::Value = serde_json::from_str(&stdout(&run(&["shield", "-c", "--json"]))).unwrap();
    let irqs: Vec<String> = numbered("/proc/irq")
        .into_iter()
        .filter(|irq| *irq != 0 && !read(format!("/sys/kernel/irq/{irq}/actions")).is_empty())
        .map(|irq| read(format!("/proc/irq/{irq}/smp_affinity_list")))
        .collect();
    let default = read("/proc/irq/default_smp_affinity");
    assert_code(&run(&["shield", "-r"]), 0);
    assert_eq!(status["backend"], "isolcpus", "{status}");
    assert_eq!(status["cpus"][3]["procs"], true, "{status}");
    assert!(irqs.iter().all(|cpus| cpus_within(cpus, "0-2")), "{irqs:?}");
    assert_eq!(default, "7");
    assert_restored(&before);
}
