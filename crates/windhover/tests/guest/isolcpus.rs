//! Booted with `isolcpus=domain,3`: CPU 3 was isolated at boot, and partitions may not take it.

use super::state::{State, assert_restored, cgroup, read};
use std::fs;

/// What the other tests stand on: the kernel refuses a partition of the CPU, by what it reads back.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_refuses_a_partition_of_the_isolated_cpu() {
    let before = State::read();
    assert_eq!(read("/sys/devices/system/cpu/isolated"), "3");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset").unwrap();
    fs::create_dir("/sys/fs/cgroup/by-hand").unwrap();
    fs::write("/sys/fs/cgroup/by-hand/cpuset.cpus", "3").unwrap();
    fs::write("/sys/fs/cgroup/by-hand/cpuset.cpus.partition", "isolated").unwrap();
    let said = cgroup("by-hand/cpuset.cpus.partition");
    fs::remove_dir("/sys/fs/cgroup/by-hand").unwrap();
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "-cpuset").unwrap();
    assert!(said.starts_with("isolated invalid ("), "{said}");
    assert_restored(&before);
}
