//! Whole lives on trees: up, again, another, drifted, down.

use super::super::{Drift, Guard, apply, plan, reset, status};
use super::tree::{Tree, all, differences};
use model::{ShieldBackend, ShieldReport, ShieldSpec};

fn up(tree: &Tree, spec: &ShieldSpec) -> ShieldReport {
    let plan = plan(spec, &tree.kernel(), &tree.state()).unwrap();
    apply(&plan, &tree.kernel(), &tree.state(), None, "test").unwrap().report
}

fn assert_down(tree: &Tree, before: &std::collections::BTreeMap<String, String>) {
    let report = reset(&tree.kernel(), &tree.state(), false).unwrap();
    assert!(report.conflicts.is_empty() && report.failed.is_empty(), "{report:?}");
    let lines = differences(before, &tree.snapshot());
    assert!(lines.is_empty(), "{lines:#?}");
    assert!(host::shield::current(&tree.state()).is_none());
    assert!(tree.state().sets().unwrap().is_empty());
}

fn tree_with(cpus: u32) -> Tree {
    let tree = Tree::new(cpus);
    tree.process(1, "daemon", &format!("0-{}", cpus - 1), "/");
    tree.process(2, "pinned", "3", "/");
    tree.kernel_thread(3, "kswapd0", false, &format!("0-{}", cpus - 1));
    tree.kernel_thread(4, "irq/24-ahci", false, "1");
    tree
}

fn all_kinds() -> [(ShieldBackend, Tree); 4] {
    let isolated = tree_with(4);
    isolated.put("sys/devices/system/cpu/isolated", "3");
    [
        (ShieldBackend::V2, tree_with(4).with_v2("cpuset cpu memory")),
        (ShieldBackend::V1, tree_with(4).with_v1(4)),
        (ShieldBackend::Affinity, tree_with(4)),
        (ShieldBackend::Isolcpus, isolated),
    ]
}

#[test]
fn up_and_down_is_as_before() {
    for (backend, tree) in all_kinds() {
        let before = tree.snapshot();
        let spec = ShieldSpec { unlimited_realtime: true, ..all("3") };
        let report = up(&tree, &spec);
        assert_eq!(report.backend, backend);
        assert!(report.changed > 3, "{backend}: {report:?}");
        let shield = host::shield::current(&tree.state()).unwrap();
        assert_eq!((shield.backend, &shield.spec), (backend, &spec));
        assert_eq!(tree.read("proc/irq/24/smp_affinity_list"), "0-2");
        assert_eq!(tree.read("proc/sys/kernel/sched_rt_runtime_us"), "-1");
        let row = &status(&tree.kernel(), &tree.state()).cpus[3];
        assert!(row.procs && row.irqs && !row.housekeeping, "{backend}: {row:?}");
        assert_eq!(row.partition, "windhover");
        assert_down(&tree, &before);
    }
}

#[test]
fn a_second_identical_call_writes_nothing() {
    for (backend, tree) in all_kinds() {
        up(&tree, &all("3"));
        let before = (tree.snapshot(), logs(&tree));
        let again = plan(&all("3"), &tree.kernel(), &tree.state()).unwrap();
        assert!(again.is_done(), "{backend}: {:#?}", again.steps);
        let same = ShieldSpec { backend, ..all("3") };
        let done = apply(&again, &tree.kernel(), &tree.state(), None, "test").unwrap();
        assert_eq!((done.report.changed, done.made), (0, false), "{backend}");
        assert_eq!(up(&tree, &same).changed, 0, "{backend}");
        assert_eq!((tree.snapshot(), logs(&tree)), before, "{backend}");
    }
}

/// The names of the change sets and how much each holds.
fn logs(tree: &Tree) -> Vec<String> {
    let sets = tree.state().sets().unwrap();
    sets.iter().map(|(id, _)| format!("{id} {}", tree.state().changes(id).unwrap().len())).collect()
}

#[test]
fn another_shield_replaces_the_first() {
    for (backend, tree) in all_kinds().into_iter().take(3) {
        let before = tree.snapshot();
        up(&tree, &all("3"));
        let first = host::shield::current(&tree.state()).unwrap().set;
        let planned = plan(&all("2"), &tree.kernel(), &tree.state()).unwrap();
        assert_eq!(planned.replaces, std::slice::from_ref(&first), "{backend}");
        // The plan is that of the machine after the first one is gone.
        let irq = planned.steps.iter().find_map(|step| match step {
            super::super::ShieldStep::Set(set) if set.change.knob.to_string().contains("/irq/24/") => Some(set),
            _ => None,
        });
        let irq = irq.unwrap();
        assert_eq!((irq.now.as_deref(), irq.change.wanted.as_str()), (Some("0-3"), "0-1,3"), "{backend}");
        apply(&planned, &tree.kernel(), &tree.state(), None, "test").unwrap();
        let second = host::shield::current(&tree.state()).unwrap();
        assert_ne!(second.set, first);
        assert_eq!(tree.read("proc/irq/24/smp_affinity_list"), "0-1,3");
        assert_eq!(tree.state().sets().unwrap().len(), 1);
        assert_down(&tree, &before);
    }
}

#[test]
fn a_shield_that_was_never_finished_is_put_back_first() {
    let tree = tree_with(4).with_v2("cpuset");
    let before = tree.snapshot();
    up(&tree, &all("3"));
    let set = host::shield::current(&tree.state()).unwrap().set;
    // As a death before the last step leaves it.
    host::shield::forget(&tree.state(), &set).unwrap();
    assert!(status(&tree.kernel(), &tree.state()).notes.iter().any(|note| note.contains("never finished")));
    let planned = plan(&all("3"), &tree.kernel(), &tree.state()).unwrap();
    assert_eq!(planned.replaces, [set]);
    apply(&planned, &tree.kernel(), &tree.state(), None, "test").unwrap();
    assert_eq!(tree.read("sys/fs/cgroup/windhover-shield/cpuset.cpus.partition"), "isolated");
    assert_down(&tree, &before);
}

#[test]
fn the_guard_repairs_what_drifts() {
    let tree = tree_with(4).with_v2("cpuset");
    let before = tree.snapshot();
    up(&tree, &all("3"));
    let guard = Guard::new(tree.kernel(), tree.state(), all("3"));
    assert_eq!(guard.round().unwrap(), []);
    tree.put("sys/fs/cgroup/windhover-shield/cpuset.cpus.partition", "isolated invalid (Cpu list not exclusive)");
    assert!(!status(&tree.kernel(), &tree.state()).cpus[3].procs);
    tree.irq(50, "0-3", "late");
    let drifts = guard.round().unwrap();
    let words: Vec<String> = drifts.iter().map(ToString::to_string).collect();
    assert!(words.iter().any(|line| line.contains("was 'isolated invalid (Cpu list not exclusive)'")), "{words:?}");
    assert!(words.iter().any(|line| line.contains("/proc/irq/50/")), "{words:?}");
    assert_eq!(tree.read("sys/fs/cgroup/windhover-shield/cpuset.cpus.partition"), "isolated");
    assert_eq!(guard.round().unwrap(), []);
    reset(&tree.kernel(), &tree.state(), false).unwrap();
    assert_eq!(guard.round().unwrap(), [Drift::Gone]);
    assert_eq!(tree.read("proc/irq/50/smp_affinity_list"), "0-3");
    std::fs::remove_dir_all(tree.root().join("proc/irq/50")).unwrap();
    std::fs::remove_dir_all(tree.root().join("sys/kernel/irq/50")).unwrap();
    assert!(differences(&before, &tree.snapshot()).is_empty());
}

#[test]
fn what_the_kernel_refuses_is_tried_once() {
    let tree = tree_with(4).with_v2("cpuset");
    up(&tree, &all("3"));
    // As a kernel leaves it that took the write and did something else, such as for the timer's interrupt.
    let set = host::shield::current(&tree.state()).unwrap().set;
    let log = tree.state().folder().unwrap().join(format!("{set}.jsonl"));
    let text = std::fs::read_to_string(&log).unwrap();
    let seq = text.lines().find(|line| line.contains("/proc/irq/24/")).unwrap().to_owned();
    let seq: serde_json::Value = serde_json::from_str(&seq).unwrap();
    let after = |line: &str| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_it = value.get("after").is_some() && value["seq"] == seq["seq"];
        if is_it {
            value["after"] = "0-3".into();
        }
        // Lines without a checksum are taken as they are.
        value.as_object_mut().unwrap().retain(|key, _| key != "sum" && key != "state" && key != "changes");
        value.to_string()
    };
    let changed: Vec<String> = text.lines().map(after).collect();
    assert_ne!(changed.join("\n"), text.trim());
    std::fs::write(&log, format!("{}\n", changed.join("\n"))).unwrap();
    tree.put("proc/irq/24/smp_affinity_list", "0-3");
    let again = plan(&all("3"), &tree.kernel(), &tree.state()).unwrap();
    assert!(again.is_done(), "{:#?}", again.steps);
    assert!(status(&tree.kernel(), &tree.state()).cpus[3].irqs);
    // As the log has it of a kernel that refused the write.
    let mut refused = changed;
    for line in &mut refused {
        if line.contains("/proc/irq/24/") && line.contains("before") {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["before"] = "0-3".into();
            *line = value.to_string();
        }
    }
    refused.push(serde_json::json!({ "step": "undone", "seq": seq["seq"] }).to_string());
    std::fs::write(&log, format!("{}\n", refused.join("\n"))).unwrap();
    let again = plan(&all("3"), &tree.kernel(), &tree.state()).unwrap();
    assert!(again.is_done(), "{:#?}", again.steps);
    // Another value is drift, and is repaired.
    tree.put("proc/irq/24/smp_affinity_list", "3");
    tree.put("proc/irq/24/smp_affinity_list", "2-3");
    assert!(!plan(&all("3"), &tree.kernel(), &tree.state()).unwrap().is_done());
}

#[test]
fn new_tasks_are_swept_by_the_guard() {
    let tree = tree_with(4);
    up(&tree, &all("3"));
    tree.process(9, "newcomer", "0-3", "/");
    let guard = Guard::new(tree.kernel(), tree.state(), all("3"));
    assert_eq!(guard.round().unwrap(), [Drift::Tasks { names: vec!["newcomer".to_owned()], count: 1 }]);
    assert_eq!(guard.round().unwrap(), []);
    reset(&tree.kernel(), &tree.state(), false).unwrap();
    assert!(tree.read("proc/5000009/status").ends_with("0-3"));
}

#[test]
fn what_another_changed_is_left_and_told() {
    let tree = tree_with(4).with_v1(4);
    up(&tree, &all("3"));
    tree.put("proc/irq/24/smp_affinity_list", "1");
    let report = reset(&tree.kernel(), &tree.state(), false).unwrap();
    assert_eq!(report.conflicts.len(), 1, "{report:?}");
    assert_eq!(tree.read("proc/irq/24/smp_affinity_list"), "1");
    assert!(!tree.root().join("sys/fs/cgroup/cpuset/windhover-system").exists());
}

#[test]
fn groups_without_a_log_go_by_force() {
    let tree = tree_with(4).with_v2("cpuset");
    let before = tree.snapshot();
    tree.v2_group("windhover-shield");
    assert_eq!(reset(&tree.kernel(), &tree.state(), false).unwrap().restored, 0);
    assert_eq!(reset(&tree.kernel(), &tree.state(), true).unwrap().restored, 1);
    assert!(differences(&before, &tree.snapshot()).is_empty());
}
