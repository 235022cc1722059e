//! cgroup version 2: shielding by an isolated partition.

use super::state::{State, assert_restored, cgroup};
use super::tasks::Task;
use std::fs;
use std::process::Command;

/// What the other tests stand on: this kernel makes an isolated partition, and taking it away restores everything but
/// the masks of interrupt threads, which it widens.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_has_partitions_and_widens_interrupt_threads() {
    let (placed, free) = (Task::sleeping(Some("3")), Task::sleeping(None));
    let before = State::read();
    let threads = before.tasks("irq/");
    assert!(threads.iter().any(|(_, cpus)| cpus != "0-3"), "no interrupt thread has one CPU: {threads:?}");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset").unwrap();
    fs::create_dir("/sys/fs/cgroup/by-hand").unwrap();
    fs::write("/sys/fs/cgroup/by-hand/cpuset.cpus", "3").unwrap();
    fs::write("/sys/fs/cgroup/by-hand/cpuset.cpus.partition", "isolated").unwrap();
    assert_eq!(cgroup("by-hand/cpuset.cpus.partition"), "isolated");
    assert_eq!(cgroup("cpuset.cpus.isolated"), "3");
    assert_eq!((placed.cpus().as_str(), free.cpus().as_str()), ("0-2", "0-2"));
    fs::remove_dir("/sys/fs/cgroup/by-hand").unwrap();
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "-cpuset").unwrap();
    let widened = before.differences(&State::read());
    assert!(!widened.is_empty() && widened.iter().all(|line| line.contains(" irq/")), "{}", widened.join("\n"));
    for (tid, cpus) in threads {
        assert!(Command::new("taskset").args(["-pc", &cpus, &tid.to_string()]).output().unwrap().status.success());
    }
    assert_restored(&before);
}
