//! Several sets, several callers, several boots.

use super::tree::{PATIENCE, apply, change, header, machine, plant, state};
use host::knob::{Knob, Settings};
use host::undo::{SetHeader, StateDir, UndoError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Two sets that hold one knob, undone in either order: at the end it has its first value, and in between it is never
/// taken from the set that is left.
#[test]
fn sets_that_share_a_knob() {
    // Values of the knob: at first, by the older set, by the newer; the last case goes there and back.
    for (first, older, newer) in [("0", "50", "20"), ("0", "50", "0")] {
        for older_first in [false, true] {
            let tree = tempfile::tempdir().unwrap();
            let root = tree.path();
            plant(root);
            let machine = machine(root);
            let knob = Knob::sysctl("net.core.busy_poll");
            let value = || machine.read(&knob).unwrap();
            assert_eq!(value(), first);
            let below = apply(root, &machine, &[change(knob.clone(), older)]);
            let above = apply(root, &machine, &[change(knob.clone(), newer)]);
            let state = state(root);
            let lock = state.lock(PATIENCE).unwrap();
            let undo = |id| state.undo(&lock, &machine, id, false, PATIENCE).unwrap();
            if older_first {
                let report = undo(&below);
                assert_eq!((report.handed_over, report.conflicts.len()), (1, 0));
                assert_eq!(value(), newer, "the newer set keeps its value");
                let report = undo(&above);
                assert!(report.conflicts.is_empty());
            } else {
                assert_eq!(undo(&above).restored, 1);
                assert_eq!(value(), older);
                assert_eq!(undo(&below).restored, 1);
            }
            assert_eq!(value(), first);
            assert!(state.sets().unwrap().is_empty());
        }
    }
}

/// A knob of two network namespaces is two knobs: the newer set of another one holds nothing of ours.
#[test]
fn a_set_of_another_namespace_inherits_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let knob = Knob::sysctl("net.core.busy_poll");
    let make = |netns: Option<u64>| {
        let header = SetHeader { details: serde_json::json!({ "netns": netns }), ..header() };
        let mut set = state.begin(&lock, &header).unwrap();
        set.set(&machine, &change(knob.clone(), "50")).unwrap();
        set.id().clone()
    };
    let ours = make(host::netns::inode());
    // In the other namespace it has its own value, the same one.
    machine.write(&knob, "0").unwrap();
    make(Some(17));
    let report = state.undo(&lock, &machine, &ours, false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.handed_over), (1, 0));
    assert_eq!(machine.read(&knob).unwrap(), "0");
}

#[test]
fn three_sets_undone_from_the_middle() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let knob = Knob::sysctl("net.core.busy_poll");
    let ids: Vec<_> =
        ["1", "2", "3"].into_iter().map(|value| apply(root, &machine, &[change(knob.clone(), value)])).collect();
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    for (id, then) in [(&ids[1], "3"), (&ids[0], "3"), (&ids[2], "0")] {
        let report = state.undo(&lock, &machine, id, false, PATIENCE).unwrap();
        assert!(report.conflicts.is_empty() && report.failed.is_empty(), "{report:?}");
        assert_eq!(machine.read(&knob).unwrap(), then);
    }
}

#[test]
fn a_value_changed_between_two_sets_is_a_conflict_of_the_older() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let knob = Knob::sysctl("net.core.busy_poll");
    let below = apply(root, &machine, &[change(knob.clone(), "50")]);
    machine.write(&knob, "7").unwrap();
    let above = apply(root, &machine, &[change(knob.clone(), "20")]);
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    assert_eq!(state.undo(&lock, &machine, &below, false, PATIENCE).unwrap().conflicts.len(), 1);
    assert_eq!(state.undo(&lock, &machine, &above, false, PATIENCE).unwrap().restored, 1);
    assert_eq!(machine.read(&knob).unwrap(), "7");
}

#[test]
fn two_at_once_come_one_after_the_other() {
    let tree = tempfile::tempdir().unwrap();
    let state = state(tree.path());
    let inside = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let _lock = state.lock(Duration::from_secs(60)).unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two hold the lock");
                    std::thread::yield_now();
                    inside.store(false, Ordering::SeqCst);
                }
            });
        }
    });
    let _lock = state.lock(PATIENCE).unwrap();
    let refused = state.lock(Duration::from_millis(50));
    let own = std::process::id().to_string();
    assert!(matches!(refused, Err(UndoError::Locked(holder)) if holder == own));
}

#[test]
fn another_boot_is_forgotten_and_nothing_else() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let knob = Knob::sysctl("net.core.busy_poll");
    apply(root, &machine, &[change(knob, "50")]);
    let old = state(root).folder().unwrap();
    std::fs::create_dir(root.join("state/keep-this")).unwrap();
    let booted = StateDir::at(root.join("state")).in_boot("ffffffff-89ab-cdef-0123-456789abcdef");
    assert!(booted.sets().unwrap().is_empty());
    let lock = booted.lock(PATIENCE).unwrap();
    booted.begin(&lock, &header()).unwrap();
    assert!(!old.exists());
    assert!(root.join("state/keep-this").exists());
    let wrong = StateDir::at(root.join("state")).in_boot("../etc");
    assert!(matches!(wrong.sets(), Err(UndoError::NoBootId)));
}

#[test]
fn a_torn_end_is_left_out_and_a_torn_middle_is_named() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let knob = Knob::sysctl("net.core.busy_poll");
    let id = apply(root, &machine, &[change(knob.clone(), "50")]);
    let state = state(root);
    let log = state.folder().unwrap().join(format!("{id}.jsonl"));
    let whole = std::fs::read_to_string(&log).unwrap();
    let lock = state.lock(PATIENCE).unwrap();

    let mut lines: Vec<&str> = whole.lines().collect();
    lines[1] = "{\"step\":\"bef";
    std::fs::write(&log, lines.join("\n") + "\n").unwrap();
    let report = state.undo(&lock, &machine, &id, false, PATIENCE).unwrap();
    assert!(report.lost.iter().any(|loss| loss.contains("line 2")), "{report:?}");
    assert!(report.lost.iter().any(|loss| loss.contains("1 of 1 changes are missing")), "{report:?}");
    assert_eq!(machine.read(&knob).unwrap(), "50");

    // The writer died in the line after the value was read back.
    std::fs::write(&log, &whole[..whole.len() - 5]).unwrap();
    let more = Knob::sysctl("kernel.sched_rt_runtime_us");
    state.reopen(&lock, &id).unwrap().set(&machine, &change(more.clone(), "-1")).unwrap();
    let report = state.undo(&lock, &machine, &id, false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.conflicts.len()), (2, 0));
    assert_eq!((machine.read(&knob).unwrap().as_str(), machine.read(&more).unwrap().as_str()), ("0", "950000"));
}
