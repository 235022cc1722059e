//! What a shield is refused for, before anything is changed.

use super::super::plan;
use super::tree::{Tree, all};
use model::{ShieldBackend, ShieldSpec};

/// Each spec is refused in words that hold these.
#[track_caller]
fn refused(tree: &Tree, cases: impl IntoIterator<Item = (ShieldSpec, &'static str)>) {
    let before = tree.snapshot();
    for (spec, words) in cases {
        let error = plan(&spec, &tree.kernel(), &tree.state()).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && !text.contains('\n'), "'{words}' is not in: {text}");
    }
    assert_eq!(tree.snapshot(), before);
}

#[track_caller]
fn accepted(tree: &Tree, spec: &ShieldSpec) -> ShieldBackend {
    plan(spec, &tree.kernel(), &tree.state()).unwrap().backend
}

fn v2() -> Tree {
    Tree::new(4).with_v2("cpuset cpu memory")
}

fn by(backend: ShieldBackend, cpus: &str) -> ShieldSpec {
    ShieldSpec { backend, ..all(cpus) }
}

#[test]
fn cpus_that_there_are_not_and_the_boot_cpu() {
    let tree = v2();
    tree.put("sys/devices/system/cpu/online", "0-2");
    let unknown = "does not exist here or is offline: use some of 0-2";
    refused(&tree, [(ShieldSpec::default(), "no CPU is named"), (all("3"), unknown), (all("1,7"), unknown)]);
    refused(&tree, [(all("0-1"), "CPU 0 is the boot CPU")]);
    accepted(&tree, &ShieldSpec { allow_boot_cpu: true, ..all("0-1") });
}

#[test]
fn the_last_housekeeping_cpu() {
    let tree = v2();
    let boot = |cpus: &str| ShieldSpec { allow_boot_cpu: true, ..all(cpus) };
    let interrupts = ShieldSpec { processes: model::CpuList::default(), ..boot("0-3") };
    refused(
        &tree,
        [
            (boot("0-3"), "no CPU would be left for everything else: 0-3 is to be shielded;"),
            (interrupts, "no CPU would be left for device interrupts: 0-3"),
        ],
    );
    // The same when those that would be left are gone already: isolated at boot, offline, taken by another.
    tree.put("sys/devices/system/cpu/isolated", "3");
    refused(&tree, [(boot("0-2"), "left for everything else: 0-2 is to be shielded, 3 is isolated")]);
    tree.put("sys/devices/system/cpu/isolated", "");
    tree.put("sys/devices/system/cpu/online", "0-2");
    refused(&tree, [(boot("0-2"), "0-2 is to be shielded, 3 is offline")]);
    tree.put("sys/devices/system/cpu/online", "0-3");
    tree.v2_group("theirs");
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus", "0,3");
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus.partition", "root");
    refused(&tree, [(all("1-2"), "left for everything else: 1-2 is to be shielded, 0,3 belongs to partitions")]);
    // One fewer is fine.
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus", "3");
    accepted(&tree, &all("1-2"));
}

#[test]
fn partitions_and_boot_isolation_do_not_mix() {
    let tree = v2();
    tree.put("sys/devices/system/cpu/isolated", "3");
    // On kernel 6.12 the partition {2,3} is accepted and breaks the kernel's books: it must not come to that.
    let mixed = "3 was isolated at boot (/sys/devices/system/cpu/isolated; isolcpus=), and backend v2 must not be mixed with that: shield 3 alone with --backend isolcpus";
    refused(
        &tree,
        [
            (by(ShieldBackend::V2, "2-3"), mixed),
            (by(ShieldBackend::V2, "3"), mixed),
            (by(ShieldBackend::Auto, "2-3"), mixed),
            (by(ShieldBackend::Isolcpus, "2-3"), "backend isolcpus needs CPU 2 isolated at boot"),
        ],
    );
    assert_eq!(accepted(&tree, &all("3")), ShieldBackend::Isolcpus);
    assert_eq!(accepted(&tree, &all("2")), ShieldBackend::V2);
}

#[test]
fn backends_that_are_not_there_say_why() {
    let no_cpuset = Tree::new(4).with_v2("cpu memory");
    refused(
        &no_cpuset,
        [
            (
                by(ShieldBackend::V2, "1"),
                "backend v2 cannot be used here: /sys/fs/cgroup/cgroup.controllers lists cpu memory",
            ),
            (by(ShieldBackend::V1, "1"), "backend v1 cannot be used here: no cpusets of version 1"),
        ],
    );
    let namespace = v2();
    namespace.put("sys/fs/cgroup/cgroup.type", "domain");
    refused(&namespace, [(by(ShieldBackend::V2, "1"), "container")]);
    let together = Tree::new(4);
    together.put("proc/mounts", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset,cpu 0 0");
    refused(&together, [(by(ShieldBackend::V1, "1"), "together with cpu")]);
}

#[test]
fn partitions_of_others_are_left_alone() {
    let tree = v2();
    tree.v2_group("machine.slice");
    tree.v2_group("machine.slice/theirs");
    tree.put("sys/fs/cgroup/machine.slice/theirs/cpuset.cpus.exclusive", "2");
    tree.put("sys/fs/cgroup/machine.slice/theirs/cpuset.cpus.partition", "isolated");
    let words = "CPU 2 belongs to /sys/fs/cgroup/machine.slice/theirs, which is not ours";
    refused(&tree, [(all("2-3"), words)]);
    let tree = Tree::new(4).with_v1(4);
    tree.v1_group("theirs", "2");
    tree.put("sys/fs/cgroup/cpuset/theirs/cpuset.cpu_exclusive", "1");
    refused(&tree, [(all("2-3"), "CPU 2 belongs to /sys/fs/cgroup/cpuset/theirs, which is not ours")]);
    let tree = v2();
    tree.v2_group("windhover-shield");
    refused(&tree, [(all("1"), "`windhover shield --reset --force`, which removes it")]);
}

#[test]
fn memory() {
    let memory = |cpus: &str, backend| ShieldSpec { memory: cpus.parse().unwrap(), ..by(backend, "2-3") };
    let none_left = "no memory node would be left for everything else";
    refused(&v2(), [(memory("2-3", ShieldBackend::Auto), none_left)]);
    let two = v2().with_nodes(4);
    let alone = ShieldSpec { processes: "3".parse().unwrap(), ..memory("2-3", ShieldBackend::Auto) };
    refused(
        &two,
        [
            (memory("1-3", ShieldBackend::Auto), none_left),
            (alone, "-m: memory is closed to others only together with its CPUs: add CPU 2 to -p"),
            (memory("2-3", ShieldBackend::Affinity), "backend affinity cannot be used here: memory nodes are closed"),
        ],
    );
    accepted(&two, &memory("2-3", ShieldBackend::Auto));
}

#[test]
fn keeping_and_devices() {
    let nics = vec!["eth7".to_owned()];
    let flow = |rule: &str| ShieldSpec { flows: vec![rule.to_owned()], ..all("1") };
    let nowhere = ShieldSpec { nics: nics.clone(), timers: "1".parse().unwrap(), ..ShieldSpec::default() };
    refused(
        &v2(),
        [
            (ShieldSpec { keep: vec!["sshd".to_owned()], ..all("1") }, "--keep sshd: a v2 partition is closed"),
            (
                ShieldSpec { nics: nics.clone(), ..all("1") },
                "cannot be put onto the shield: there is no network device",
            ),
            (nowhere, "--nic eth7: no CPU is shielded"),
            (flow("udp4 dst-port 7000"), "--flow 'udp4 dst-port 7000': no device is on the shield"),
            (
                ShieldSpec { nics, ..flow("udp4 dst-port many") },
                "--flow: flow rule 'udp4 dst-port many queue 0': 'many'",
            ),
        ],
    );
}
