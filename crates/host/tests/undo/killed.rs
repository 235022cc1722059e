//! Killed at every single step of making and of undoing, then undone: the tree is as before.

use super::tree::{PATIENCE, apply, change, changes, machine, picture, plant, state};
use host::knob::{Knob, Settings as _};
use host::undo::KILL_AT;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

const ROOT: &str = "WINDHOVER_TEST_TREE";
const PART: &str = "WINDHOVER_TEST_PART";

/// Plays the part that the parent asks for; nothing when the tests are run as usual.
#[test]
fn child_part() {
    let (Ok(root), Ok(part)) = (std::env::var(ROOT), std::env::var(PART)) else { return };
    let root = Path::new(&root);
    match part.as_str() {
        "apply" => drop(apply(root, &machine(root), &changes())),
        "undo-oldest" => undo_oldest(root),
        _ => undo_all(root),
    }
}

fn undo_all(root: &Path) {
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    for (id, _) in state.sets().unwrap().into_iter().rev() {
        let report = state.undo(&lock, &machine(root), &id, false, PATIENCE).unwrap();
        assert!(report.conflicts.is_empty() && report.failed.is_empty(), "{report:?}");
    }
}

fn undo_oldest(root: &Path) {
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    if let Some((id, _)) = state.sets().unwrap().first() {
        let report = state.undo(&lock, &machine(root), id, false, PATIENCE).unwrap();
        assert!(report.conflicts.is_empty() && report.failed.is_empty(), "{report:?}");
    }
}

/// Runs a part in a child that dies at the given fault point; false when it lived to its end.
fn dies(root: &Path, part: &str, at: u32) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["killed::child_part", "--exact", "--test-threads=1"])
        .env(ROOT, root)
        .env(PART, part)
        .env(KILL_AT, at.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{part} at {at}: {status}");
    !status.success()
}

#[test]
fn killed_while_making() {
    let mut at = 1;
    loop {
        let tree = tempfile::tempdir().unwrap();
        plant(tree.path());
        let before = picture(tree.path());
        let died = dies(tree.path(), "apply", at);
        undo_all(tree.path());
        assert_eq!(picture(tree.path()), before, "killed at {at}");
        assert!(state(tree.path()).sets().unwrap().is_empty());
        if !died {
            break;
        }
        at += 1;
    }
    assert!(at > 5 * u32::try_from(changes().len()).unwrap(), "only {at} fault points");
}

#[test]
fn killed_while_undoing() {
    let mut at = 1;
    loop {
        let tree = tempfile::tempdir().unwrap();
        plant(tree.path());
        let before = picture(tree.path());
        apply(tree.path(), &machine(tree.path()), &changes());
        let died = dies(tree.path(), "undo", at);
        undo_all(tree.path());
        assert_eq!(picture(tree.path()), before, "killed at {at}");
        if !died {
            break;
        }
        at += 1;
    }
    assert!(at > 3 * u32::try_from(changes().len()).unwrap(), "only {at} fault points");
}

/// The undo is killed again and again until it comes to its end.
#[test]
fn killed_at_each_step_of_one_undo() {
    let tree = tempfile::tempdir().unwrap();
    plant(tree.path());
    let before = picture(tree.path());
    apply(tree.path(), &machine(tree.path()), &changes());
    let mut deaths = 0;
    // The third fault point lies behind the first step's line in the log: each attempt goes one step on.
    while dies(tree.path(), "undo", 4) {
        deaths += 1;
        assert!(deaths < 100);
    }
    assert!(deaths > 3);
    assert_eq!(picture(tree.path()), before);
}

/// Killed while the older of two sets is undone, whose knobs the newer one holds.
#[test]
fn killed_while_handing_over() {
    let mut at = 1;
    loop {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        plant(root);
        let before = picture(root);
        let knobs = [Knob::sysctl("net.core.busy_poll"), Knob::sysctl("kernel.sched_rt_runtime_us")];
        let to = |value: &str| knobs.clone().map(|knob| change(knob, value));
        apply(root, &machine(root), &[to("1"), to("2")].concat());
        apply(root, &machine(root), &to("3"));
        let died = dies(root, "undo-oldest", at);
        while state(root).sets().unwrap().len() > 1 {
            undo_oldest(root);
        }
        assert!(knobs.iter().all(|knob| machine(root).read(knob).unwrap() == "3"), "killed at {at}");
        undo_oldest(root);
        assert_eq!(picture(root), before, "killed at {at}");
        if !died {
            break;
        }
        at += 1;
    }
    assert!(at > 12, "only {at} fault points");
}
