//! What plans say on machines of many kinds.

use super::super::{ShieldPlan, ShieldStep, plan, status};
use super::tree::{BASE, Tree, all};
use host::knob::Knob;
use model::{ShieldBackend, ShieldSpec};

/// Steps as `knob now>wanted`.
fn steps(plan: &ShieldPlan) -> Vec<String> {
    let one = |step: &ShieldStep| match step {
        ShieldStep::Set(set) => {
            vec![format!("{} {}>{}", set.change.knob, set.now.as_deref().unwrap_or("-"), set.change.wanted)]
        }
        ShieldStep::Sweep(sweep) => {
            sweep.moves.iter().map(|change| format!("{:?} {} >{}", sweep.kind, change.knob, change.wanted)).collect()
        }
    };
    plan.steps.iter().flat_map(one).collect()
}

fn planned(tree: &Tree, spec: &ShieldSpec) -> ShieldPlan {
    plan(spec, &tree.kernel(), &tree.state()).unwrap()
}

fn place(steps: &[String], part: &str) -> usize {
    steps.iter().position(|step| step.contains(part)).unwrap_or_else(|| panic!("no '{part}' in {steps:#?}"))
}

fn says(lines: &[String], part: &str) -> bool {
    lines.iter().any(|line| line.contains(part))
}

#[test]
fn a_partition_is_made_in_order() {
    let tree = Tree::new(4).with_v2("cpuset cpu memory");
    tree.put("sys/fs/cgroup/user.slice/cpuset.cpus", "0-3");
    tree.process(1, "pinned", "3", "/system.slice");
    tree.process(2, "both", "2-3", "/system.slice");
    tree.task(BASE + 2, BASE + 3, "one-thread", 0, "3", "/system.slice");
    tree.kernel_thread(4, "irq/9-acpi", false, "1");
    tree.kernel_thread(5, "ksoftirqd/3", true, "3");
    let plan = planned(&tree, &all("3"));
    assert_eq!(plan.backend, ShieldBackend::V2);
    let steps = steps(&plan);
    let order = [
        "cgroup.subtree_control cpu memory>cpu memory cpuset",
        "user.slice/cpuset.cpus 0-3>0-2",
        "windhover-shield absent>present",
        "cgroup.type ->threaded",
        "windhover-shield/cpuset.cpus ->3",
        // Whole processes come to the root, then the threads that belong there go in.
        "control group of task 5000001 (pinned) /sys/fs/cgroup/system.slice>/sys/fs/cgroup",
        "control group of task 5000001 (pinned) /sys/fs/cgroup/system.slice>/sys/fs/cgroup/windhover-shield",
        "control group of task 5000002 (both) /sys/fs/cgroup/system.slice>/sys/fs/cgroup",
        "control group of task 5000003 (one-thread) /sys/fs/cgroup/system.slice>/sys/fs/cgroup/windhover-shield",
        // The kernel would give threads of interrupts all CPUs.
        "Remember CPUs of task 5000004 (irq/9-acpi) >1",
        "cpuset.cpus.partition ->isolated",
        "watchdog_cpumask 0-3>0-2",
        "/proc/irq/24/smp_affinity_list 0-3>0-2",
        "default_smp_affinity f>7",
    ];
    let places: Vec<usize> = order.iter().map(|part| place(&steps, part)).collect();
    assert!(places.is_sorted(), "{places:?}\n{steps:#?}");
    assert!(!says(&steps, "task 5000002 (both) /sys/fs/cgroup/system.slice>/sys/fs/cgroup/windhover-shield"));
    assert!(says(&plan.notes, "ksoftirqd/3") && says(&plan.notes, "leaves /sys/fs/cgroup/system.slice"));
}

#[test]
fn workqueues_are_left_to_kernels_that_look_after_them() {
    let tree = Tree::new(4).with_v2("cpuset");
    assert!(says(&steps(&planned(&tree, &all("3"))), "workqueue/cpumask f>7"));
    tree.put("sys/devices/virtual/workqueue/cpumask_isolated", "0");
    assert!(!says(&steps(&planned(&tree, &all("3"))), "workqueue"));
}

#[test]
fn cpusets_take_everything_that_comes_back_as_it_was() {
    let tree = Tree::new(4).with_v1(4);
    tree.v1_group("docker", "0-3");
    tree.v1_group("docker/inner", "2-3");
    tree.v1_group("theirs", "3");
    tree.process(1, "daemon", "0-3", "/");
    tree.process(2, "pinned", "3", "/");
    tree.process(3, "narrow", "0-1", "/");
    tree.process(4, "inner", "2-3", "/docker/inner");
    tree.process(5, "guest", "3", "/theirs");
    tree.kernel_thread(6, "kswapd0", false, "0-3");
    tree.kernel_thread(7, "kcompactd1", false, "2-3");
    tree.kernel_thread(8, "irq/9-acpi", false, "3");
    tree.kernel_thread(9, "migration/3", true, "3");
    let plan = planned(&tree, &all("3"));
    assert_eq!(plan.backend, ShieldBackend::V1);
    let steps = steps(&plan);
    let order = [
        "windhover-system absent>present",
        "windhover-system/cpuset.mems ->0",
        "windhover-system/cpuset.cpus ->0-2",
        "windhover-shield absent>present",
        "windhover-shield/cpuset.cpus ->3",
        "(pinned) /sys/fs/cgroup/cpuset>/sys/fs/cgroup/cpuset/windhover-shield",
        // The innermost first: a set's CPUs hold those of the sets in it.
        "docker/inner/cpuset.cpus 2-3>2",
        "docker/cpuset.cpus 0-3>0-2",
        // PID 1 too: what it starts must stay away.
        "Cpuset control group of task 1 (systemd) >/sys/fs/cgroup/cpuset/windhover-system",
        "Cpuset control group of task 5000001 (daemon)",
        "Cpuset control group of task 5000003 (narrow)",
        "Cpuset control group of task 5000006 (kswapd0)",
        "windhover-shield/cpuset.sched_load_balance ->0",
        "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance 1>0",
        "CPUs of task 5000007 (kcompactd1) 2-3>2",
    ];
    let places: Vec<usize> = order.iter().map(|part| place(&steps, part)).collect();
    assert!(places.is_sorted(), "{places:?}\n{steps:#?}");
    // A set with shielded CPUs only was put there by somebody; threads of interrupts, bound threads, kthreadd never move.
    for part in ["guest", "irq/9-acpi", "migration/3", "kthreadd", "theirs", "inner)", "cpu_exclusive"] {
        assert!(!says(&steps, part), "{part}: {steps:#?}");
    }
    assert!(says(&plan.notes, "migration/3") && says(&plan.notes, "theirs") && says(&plan.notes, "kthreadd"));
}

#[test]
fn old_kernels_forget_the_cpus_that_tasks_asked_for() {
    let tree = Tree::new(4).with_v1(4);
    tree.put("proc/sys/kernel/osrelease", "4.18.0-553.el8");
    tree.process(1, "narrow", "0-1", "/");
    tree.process(2, "both", "2-3", "/");
    tree.process(3, "daemon", "0-3", "/");
    tree.process(4, "pinned", "3", "/");
    let steps = steps(&planned(&tree, &all("3")));
    assert!(says(&steps, "CPUs of task 5000002 (both) 2-3>2"), "{steps:#?}");
    assert!(
        !says(&steps, "(pinned)"),
        "it stays in the root set, which gives nothing that it would forget: {steps:#?}"
    );
    assert!(says(&steps, "Cpuset control group of task 5000003 (daemon)"));
    assert!(!says(&steps, "(narrow)"));
    assert!(!says(&steps, "Cpuset control group of task 5000002"));
}

#[test]
fn affinity_spares_the_first_process_unless_told() {
    let tree = Tree::new(4);
    tree.process(1, "daemon", "0-3", "/");
    tree.process(2, "pinned", "3", "/");
    tree.process(3, "elsewhere", "0-1", "/");
    tree.kernel_thread(4, "irq/9-acpi", false, "0-3");
    tree.kernel_thread(5, "kworker/3:0", true, "3");
    tree.kernel_thread(6, "kswapd0", false, "0-3");
    let plan = planned(&tree, &all("3"));
    assert_eq!(plan.backend, ShieldBackend::Affinity);
    assert!(says(&plan.reasons, "not v2") && says(&plan.reasons, "not v1"), "{:?}", plan.reasons);
    let sweep = |plan: &ShieldPlan| -> Vec<String> {
        let name = |step: &String| Some(step.strip_prefix("Affinity CPUs of task ")?.split_once(' ')?.1.to_owned());
        steps(plan).iter().filter_map(name).collect()
    };
    assert_eq!(sweep(&plan), ["(daemon) >0-2", "(kswapd0) >0-2"]);
    assert!(says(&plan.notes, "PID 1") && says(&plan.notes, "--guard"), "{:?}", plan.notes);
    let told = ShieldSpec { include_ancestors: true, ..all("3") };
    assert_eq!(sweep(&planned(&tree, &told)), ["(systemd) >0-2", "(daemon) >0-2", "(kswapd0) >0-2"]);
    let kept = ShieldSpec { keep: vec!["daemon".to_owned()], ..all("3") };
    assert_eq!(sweep(&planned(&tree, &kept)), ["(kswapd0) >0-2"]);
}

#[test]
fn interrupts_that_cannot_move_are_named() {
    let tree = Tree::new(4).with_v2("cpuset");
    tree.managed_irq(36, "2-3", "nvme0q1");
    tree.irq(37, "3", "eth0-rx-0");
    tree.irq(38, "0-1", "usb");
    let plan = planned(&tree, &all("3"));
    let steps = steps(&plan);
    assert!(says(&steps, "/proc/irq/24/") && !says(&steps, "/proc/irq/36/"));
    // RedHawk's rule: one that may go to shielded CPUs only stays.
    assert!(!says(&steps, "/proc/irq/37/") && !says(&steps, "/proc/irq/38/"));
    assert!(says(&plan.notes, "36 nvme0q1") && says(&plan.notes, "managed_irq,3") && says(&plan.notes, "37 eth0-rx-0"));
    // Only processes: no interrupt is touched.
    let processes = ShieldSpec { processes: "3".parse().unwrap(), ..ShieldSpec::default() };
    assert!(!says(&self::steps(&planned(&tree, &processes)), "/proc/irq"));
}

#[test]
fn a_device_comes_onto_the_shield() {
    let tree = Tree::new(4).with_v2("cpuset");
    tree.put("sys/class/net/eth0/ifindex", "2");
    for (irq, name) in [(40, "eth0-rx-0"), (41, "eth0-rx-1"), (42, "eth0-tx-0"), (43, "eth0")] {
        tree.put(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix");
        tree.irq(irq, "0-3", name);
    }
    tree.put("sys/class/net/eth0/queues/rx-0/rps_cpus", "3");
    tree.put("sys/class/net/eth0/queues/rx-1/rps_cpus", "0");
    tree.put("sys/class/net/eth0/queues/tx-0/xps_cpus", "f");
    tree.kernel_thread(9, "napi/eth0-8193", false, "0-3");
    let spec = ShieldSpec { nics: vec!["eth0".to_owned()], ..all("2-3") };
    let steps = steps(&planned(&tree, &spec));
    for part in [
        "/proc/irq/40/smp_affinity_list 0-3>2",
        "/proc/irq/41/smp_affinity_list 0-3>3",
        "/proc/irq/42/smp_affinity_list 0-3>2",
        "/proc/irq/24/smp_affinity_list 0-3>0-1",
        "rps_cpus 3>c",
        "xps_cpus f>c",
        "control group of task 5000009 (napi/eth0-8193)",
        "CPUs of task 5000009 (napi/eth0-8193) 0-3>2-3",
    ] {
        place(&steps, part);
    }
    // No mask means the interrupt's own CPU, which is on the shield.
    assert!(!says(&steps, "rx-1/rps_cpus"));
    let flows = ["udp4 dst-port 7000", "tcp4 src-ip 192.0.2.1 queue 1"].map(str::to_owned).to_vec();
    let plan = planned(&tree, &ShieldSpec { flows, ..spec });
    let rule = |wanted: &str, location: u32| {
        plan.steps.iter().any(|step| match step {
            ShieldStep::Set(set) => {
                set.change.wanted == wanted && set.change.knob == Knob::Flow { device: "eth0".to_owned(), location }
            }
            ShieldStep::Sweep(_) => false,
        })
    };
    // The first gets a queue of the shield, the second keeps the one it names; neither takes the other's place.
    assert!(rule("udp4 dst-port 7000 queue 0", 0) && rule("tcp4 src-ip 192.0.2.1 queue 1", 1), "{:#?}", plan.steps);
}

#[test]
fn siblings_memory_and_timers_are_told() {
    let tree = Tree::new(8).with_smt(8).with_nodes(8).with_v1(8);
    tree.put("sys/fs/cgroup/cpuset/cpuset.mems", "0-1");
    tree.put("sys/devices/system/cpu/nohz_full", "4-5");
    let node = "4-7".parse().unwrap();
    let plan = planned(&tree, &ShieldSpec { memory: node, timers: "5-6".parse().unwrap(), ..all("4-7") });
    assert!(says(&steps(&plan), "windhover-system/cpuset.mems ->0"));
    assert!(says(&steps(&plan), "windhover-shield/cpuset.mems ->0-1"));
    assert!(
        says(&plan.notes, "CPU 4 shares its core with CPU 0") && says(&plan.notes, "sibling:4"),
        "{:?}",
        plan.notes
    );
    assert_eq!(plan.lacks.len(), 1);
    assert!(plan.lacks[0].ends_with("nohz_full=4-6 rcu_nocbs=4-6"), "{}", plan.lacks[0]);
    // "Everything" takes what can be had and tells of the rest.
    let (timers, memory, notes) = super::super::attainable(&"4-7".parse().unwrap(), &tree.kernel());
    assert_eq!((timers.to_string(), memory.to_string()), ("4-5".to_owned(), "4-7".to_owned()));
    assert!(says(&notes, "nohz_full=4-7"), "{notes:?}");
    let (_, half, _) = super::super::attainable(&"4-5".parse().unwrap(), &tree.kernel());
    assert!(half.is_empty());
}

#[test]
fn real_time_limits_come_last_and_in_pairs() {
    let tree = Tree::new(4).with_v2("cpuset");
    let unlimited = ShieldSpec { unlimited_realtime: true, ..all("3") };
    let plan = planned(&tree, &unlimited);
    assert!(steps(&plan).last().unwrap().ends_with("sched_rt_runtime_us 950000>-1"));
    assert!(says(&plan.notes, "cannot be read"), "{:?}", plan.notes);
    tree.put("sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000");
    assert!(says(&planned(&tree, &unlimited).notes, "CPU 3: 50000000 ns"));
    assert!(says(&planned(&tree, &all("3")).notes, "--unlimited-rt"));
    tree.put("proc/sys/kernel/osrelease", "6.1.0");
    std::fs::remove_dir_all(tree.root().join("sys/kernel/debug")).unwrap();
    assert!(!says(&planned(&tree, &unlimited).notes, "fair server"));
}

#[test]
fn the_state_without_a_shield() {
    let tree = Tree::new(4).with_v2("cpuset").with_smt(4).with_nodes(4);
    tree.put("sys/devices/system/cpu/online", "0-2");
    tree.put("sys/devices/system/cpu/isolated", "2");
    tree.put("sys/devices/system/cpu/nohz_full", "2");
    tree.v2_group("theirs");
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus", "1");
    tree.put("sys/fs/cgroup/theirs/cpuset.cpus.partition", "isolated");
    let status = status(&tree.kernel(), &tree.state());
    assert!(status.backend.is_none() && status.set.is_none());
    let words: Vec<String> = status
        .cpus
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {} {} [{}] {:?} {} {}",
                row.cpu,
                row.online,
                row.procs,
                row.irqs,
                row.ltmrs,
                row.siblings,
                row.node,
                row.housekeeping,
                row.partition
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            "0 true false false false [2] Some(0) true ",
            "1 true false false false [] Some(0) false /sys/fs/cgroup/theirs",
            "2 true true false true [0] Some(1) false isolcpus",
            "3 false false false false [1] Some(1) false ",
        ]
    );
    let usable: Vec<String> =
        status.backends.iter().filter(|known| known.usable).map(|known| known.backend.to_string()).collect();
    assert_eq!(usable, ["v2", "affinity", "isolcpus"]);
}
