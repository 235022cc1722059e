//! What a shield is refused for, before anything is changed.

use super::super::{ShieldError, plan};
use super::tree::{Tree, all};
use model::{ShieldBackend, ShieldSpec};

fn refused(tree: &Tree, spec: &ShieldSpec) -> ShieldError {
    let before = tree.snapshot();
    let error = plan(spec, &tree.kernel(), &tree.state()).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    assert_eq!(tree.snapshot(), before);
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    error
}

fn v2() -> Tree {
    Tree::new(4).with_v2("cpuset cpu memory")
}

#[test]
fn nothing_asked() {
    assert!(matches!(refused(&v2(), &ShieldSpec::default()), ShieldError::NothingAsked));
}

#[test]
fn unknown_and_offline_cpus() {
    let tree = v2();
    tree.put("sys/devices/system/cpu/online", "0-2");
    for cpus in ["3", "1,7"] {
        let error = refused(&tree, &all(cpus));
        assert!(matches!(error, ShieldError::UnknownCpu { .. }), "{error}");
        assert!(error.to_string().contains("0-2"), "{error}");
    }
}

#[test]
fn the_boot_cpu_needs_a_word() {
    let tree = v2();
    assert!(matches!(refused(&tree, &all("0-1")), ShieldError::BootCpu(0)));
    let allowed = ShieldSpec { allow_boot_cpu: true, ..all("0-1") };
    plan(&allowed, &tree.kernel(), &tree.state()).unwrap();
}

#[test]
fn the_last_housekeeping_cpu() {
    let tree = v2();
    let everything = ShieldSpec { allow_boot_cpu: true, ..all("0-3") };
    assert!(matches!(refused(&tree, &everything), ShieldError::NoHousekeeping { .. }));
    // The same when those that would be left are gone already: isolated at boot, offline, taken by another.
    tree.put("sys/devices/system/cpu/isolated", "3");
    let rest = ShieldSpec { allow_boot_cpu: true, ..all("0-2") };
    let error = refused(&tree, &rest);
    assert!(
        matches!(error, ShieldError::NoHousekeeping { .. }) && error.to_string().contains("3 is isolated"),
        "{error}"
    );
    tree.put("sys/devices/system/cpu/isolated", "");
    tree.put("sys/devices/system/cpu/online", "0-2");
    let error = refused(&tree, &rest);
    assert!(error.to_string().contains("3 is offline"), "{error}");
    tree.put("sys/devices/system/cpu/online", "0-3");
    tree.v2_group("theirs");
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus", "0,3");
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus.partition", "root");
    let error = refused(&tree, &all("1-2"));
    assert!(matches!(error, ShieldError::NoHousekeeping { .. }), "{error}");
    assert!(error.to_string().contains("0,3 belongs to partitions"), "{error}");
    // One fewer is fine.
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus", "3");
    plan(&all("1-2"), &tree.kernel(), &tree.state()).unwrap();
}

#[test]
fn interrupts_need_a_cpu_too() {
    let spec = ShieldSpec { interrupts: "0-3".parse().unwrap(), allow_boot_cpu: true, ..ShieldSpec::default() };
    assert!(matches!(refused(&v2(), &spec), ShieldError::NoHousekeeping { whom: "device interrupts", .. }));
}

#[test]
fn partitions_and_boot_isolation_do_not_mix() {
    let tree = v2();
    tree.put("sys/devices/system/cpu/isolated", "3");
    // On kernel 6.12 the partition {2,3} is accepted and breaks the kernel's books: it must not come to that.
    for (cpus, backend) in [("2-3", ShieldBackend::V2), ("3", ShieldBackend::V2), ("2-3", ShieldBackend::Auto)] {
        let error = refused(&tree, &ShieldSpec { backend, ..all(cpus) });
        assert!(matches!(error, ShieldError::BootIsolated { .. }), "{error}");
        assert!(error.to_string().contains("--backend isolcpus"), "{error}");
    }
    let plan = |spec: &ShieldSpec| plan(spec, &tree.kernel(), &tree.state()).unwrap();
    assert_eq!(plan(&all("3")).backend, ShieldBackend::Isolcpus);
    assert_eq!(plan(&all("2")).backend, ShieldBackend::V2);
    let error = refused(&tree, &ShieldSpec { backend: ShieldBackend::Isolcpus, ..all("2-3") });
    assert!(matches!(error, ShieldError::NotBootIsolated { .. }), "{error}");
}

#[test]
fn backends_that_are_not_there_say_why() {
    let no_cpuset = Tree::new(4).with_v2("cpu memory");
    let error = refused(&no_cpuset, &ShieldSpec { backend: ShieldBackend::V2, ..all("1") });
    assert!(matches!(error, ShieldError::Backend { .. }) && error.to_string().contains("lists cpu memory"), "{error}");
    let error = refused(&no_cpuset, &ShieldSpec { backend: ShieldBackend::V1, ..all("1") });
    assert!(error.to_string().contains("no cpusets of version 1"), "{error}");
    let namespace = v2();
    namespace.put("sys/fs/cgroup/cgroup.type", "domain");
    let error = refused(&namespace, &ShieldSpec { backend: ShieldBackend::V2, ..all("1") });
    assert!(error.to_string().contains("container"), "{error}");
    let together = Tree::new(4);
    together.put("proc/mounts", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset,cpu 0 0");
    let error = refused(&together, &ShieldSpec { backend: ShieldBackend::V1, ..all("1") });
    assert!(error.to_string().contains("together with cpu"), "{error}");
}

#[test]
fn partitions_of_others_are_left_alone() {
    let tree = v2();
    tree.v2_group("machine.slice");
    tree.v2_group("machine.slice/theirs");
    tree.put("sys/fs/cgroup/machine.slice/theirs/cpuset.cpus.exclusive", "2");
    tree.put("sys/fs/cgroup/machine.slice/theirs/cpuset.cpus.partition", "isolated");
    let error = refused(&tree, &all("2-3"));
    assert!(matches!(&error, ShieldError::ForeignPartition { path, .. } if path.ends_with("theirs")), "{error}");
    let tree = Tree::new(4).with_v1(4);
    tree.v1_group("theirs", "2");
    tree.put("sys/fs/cgroup/cpuset/theirs/cpuset.cpu_exclusive", "1");
    assert!(matches!(refused(&tree, &all("2-3")), ShieldError::ForeignPartition { .. }));
}

#[test]
fn a_group_of_ours_without_a_log() {
    let tree = v2();
    tree.v2_group("windhover-shield");
    let error = refused(&tree, &all("1"));
    assert!(matches!(error, ShieldError::LeftOver { .. }) && error.to_string().contains("--reset --force"), "{error}");
}

#[test]
fn memory() {
    let memory = |cpus: &str, backend| ShieldSpec { memory: cpus.parse().unwrap(), backend, ..all("2-3") };
    let one = v2();
    assert!(matches!(refused(&one, &memory("2-3", ShieldBackend::Auto)), ShieldError::NoMemoryLeft { .. }));
    let two = v2().with_nodes(4);
    assert!(matches!(refused(&two, &memory("1-3", ShieldBackend::Auto)), ShieldError::NoMemoryLeft { .. }));
    let node = ShieldSpec { processes: "3".parse().unwrap(), ..memory("2-3", ShieldBackend::Auto) };
    assert!(matches!(refused(&two, &node), ShieldError::MemoryAlone { .. }));
    assert!(matches!(refused(&two, &memory("2-3", ShieldBackend::Affinity)), ShieldError::Backend { .. }));
    plan(&memory("2-3", ShieldBackend::Auto), &two.kernel(), &two.state()).unwrap();
}

#[test]
fn keeping_and_devices() {
    let tree = v2();
    let keep = ShieldSpec { keep: vec!["sshd".to_owned()], ..all("1") };
    assert!(matches!(refused(&tree, &keep), ShieldError::CannotKeep { .. }));
    let nic = ShieldSpec { nics: vec!["eth7".to_owned()], ..all("1") };
    assert!(matches!(refused(&tree, &nic), ShieldError::Nic(_)));
    let nowhere = ShieldSpec { nics: vec!["eth7".to_owned()], timers: "1".parse().unwrap(), ..ShieldSpec::default() };
    assert!(matches!(refused(&tree, &nowhere), ShieldError::NicWithoutCpus { .. }));
    let flow = ShieldSpec { flows: vec!["udp4 dst-port 7000".to_owned()], ..all("1") };
    assert!(matches!(refused(&tree, &flow), ShieldError::FlowWithoutNic { .. }));
    let unread = ShieldSpec { flows: vec!["udp4 dst-port many".to_owned()], nics: vec!["eth7".to_owned()], ..all("1") };
    assert!(matches!(refused(&tree, &unread), ShieldError::FlowRule { .. }));
}
