//! Logs that were damaged, state folders without space, and state that others could have written.

use super::tree::{PATIENCE, apply, change, header, machine, plant, state};
use host::knob::{Knob, Machine, Settings as _};
use host::undo::{SetHeader, SetId, StateDir, UndoReport};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Sysctls of the tree that are there to be changed.
fn knob(number: u32) -> Knob {
    Knob::sysctl(&format!("kernel.test_{number}"))
}

fn plant_many(root: &Path, count: u32) {
    plant(root);
    for number in 0..count {
        std::fs::write(root.join(format!("proc/sys/kernel/test_{number}")), "0\n").unwrap();
    }
}

/// The knobs of a range that are not as they were planted.
fn changed(machine: &Machine, numbers: std::ops::Range<u32>) -> Vec<u32> {
    numbers.filter(|&number| machine.read(&knob(number)).unwrap() != "0").collect()
}

fn undo_all(state: &StateDir, machine: &Machine) -> Vec<UndoReport> {
    let sets = state.sets().unwrap();
    let lock = state.lock(PATIENCE).unwrap();
    let undo = |(id, _): &(SetId, SetHeader)| state.undo(&lock, machine, id, false, PATIENCE).unwrap();
    sets.iter().rev().map(undo).collect()
}

/// Three sets of three changes each; their log files.
fn three_sets(root: &Path) -> Vec<PathBuf> {
    plant_many(root, 9);
    let folder = state(root).folder().unwrap();
    let set = |first: u32| {
        let changes: Vec<_> = (first..first + 3).map(|number| change(knob(number), "7")).collect();
        folder.join(format!("{}.jsonl", apply(root, &machine(root), &changes)))
    };
    [0, 3, 6].map(set).to_vec()
}

#[test]
fn one_damaged_byte_is_named_and_stops_nothing_else() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    let logs = three_sets(root);
    let whole: Vec<Vec<u8>> = logs.iter().map(|log| std::fs::read(log).unwrap()).collect();
    let machine = machine(root);
    let mut silent = Vec::new();
    for place in (0..whole[1].len()).step_by(19) {
        for damage in [1_u8, 0x20, b'\n'] {
            for (log, text) in logs.iter().zip(&whole) {
                let mut text = text.clone();
                if log == &logs[1] {
                    text[place] = if damage == b'\n' { b'\n' } else { text[place] ^ damage };
                }
                std::fs::write(log, text).unwrap();
            }
            (0..9).for_each(|number| machine.write(&knob(number), "7").unwrap());
            let reports = undo_all(&state(root), &machine);
            assert_eq!(reports.len(), 3);
            assert!(reports[0].is_clean() && reports[2].is_clean(), "byte {place}: {reports:?}");
            assert_eq!(changed(&machine, 0..3).len() + changed(&machine, 6..9).len(), 0, "byte {place}");
            if reports[1].is_clean() && !changed(&machine, 3..6).is_empty() {
                silent.push(place);
            }
            let kept = state(root).damaged().unwrap();
            assert_eq!(kept.len(), usize::from(!reports[1].lost.is_empty()));
            kept.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        }
    }
    assert!(silent.is_empty(), "damage that nobody was told of: {silent:?}");
}

#[test]
fn a_log_that_was_cut_off_says_how_many_changes_are_missing() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    let logs = three_sets(root);
    let whole = std::fs::read(&logs[1]).unwrap();
    let machine = machine(root);
    for length in (0..whole.len()).step_by(31) {
        (3..6).for_each(|number| machine.write(&knob(number), "7").unwrap());
        std::fs::write(&logs[1], &whole[..length]).unwrap();
        let lock = state(root).lock(PATIENCE).unwrap();
        let report = state(root).undo(&lock, &machine, &SetId("0002".to_owned()), false, PATIENCE).unwrap();
        let missing = changed(&machine, 3..6).len();
        assert_eq!(report.lost.is_empty(), missing == 0, "cut at {length}: {report:?}");
        let header = whole.iter().position(|&byte| byte == b'\n').unwrap();
        if missing > 0 && length > header {
            let words = format!("{missing} of 3 changes are missing");
            assert!(report.lost.iter().any(|loss| loss.contains(&words)), "cut at {length}: {report:?}");
        }
        state(root).damaged().unwrap().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

#[test]
fn an_empty_log_stops_neither_undo_nor_new_sets() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    let logs = three_sets(root);
    std::fs::write(&logs[1], "").unwrap();
    let machine = machine(root);
    let id = apply(root, &machine, &[change(Knob::sysctl("net.core.busy_poll"), "50")]);
    assert_eq!(id.0, "0004");
    let reports = undo_all(&state(root), &machine);
    assert!(reports.iter().filter(|report| report.is_clean()).count() == 3, "{reports:?}");
    assert_eq!(changed(&machine, 0..9), [3, 4, 5]);
    assert!(reports[2].lost[0].contains("0002.damaged"), "{reports:?}");
}

/// A header names the network namespace of its set: without it nobody knows where a sysctl of one is to be put back.
#[test]
fn without_its_header_a_set_writes_to_no_network_namespace() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant_many(root, 1);
    let (machine, state) = (machine(root), state(root));
    let poll = Knob::sysctl("net.core.busy_poll");
    let id = apply(root, &machine, &[change(poll.clone(), "50"), change(knob(0), "7")]);
    let log = state.folder().unwrap().join(format!("{id}.jsonl"));
    let mut text = std::fs::read(&log).unwrap();
    text[20] ^= 1;
    std::fs::write(&log, text).unwrap();
    let report = undo_all(&state, &machine).remove(0);
    assert_eq!(machine.read(&poll).unwrap(), "50", "{report:?}");
    assert!(changed(&machine, 0..1).is_empty());
    assert_eq!((report.restored, report.failed.len(), report.conflicts.len()), (1, 0, 0), "{report:?}");
    let named = "the network namespace of /proc/sys/net/core/busy_poll (was '0') is lost";
    assert!(report.lost.iter().any(|loss| loss.contains(named)), "{report:?}");
    assert_eq!(state.damaged().unwrap().len(), 1);
}

/// A file system of 12 KiB that only the calling thread sees; false where none can be made.
fn small_place(folder: &Path, test: &str) -> bool {
    std::fs::create_dir(folder).unwrap();
    let nothing = None::<&str>;
    let mounted = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing))
        .and_then(|()| mount(Some("none"), folder, Some("tmpfs"), MsFlags::empty(), Some("size=12k,mode=700")));
    if let Err(errno) = mounted {
        eprintln!("SKIPPED {test}: no file system can be mounted here: {errno}");
    }
    mounted.is_ok()
}

#[test]
fn an_undo_needs_no_space() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    if !small_place(&root.join("state"), "an_undo_needs_no_space") {
        return;
    }
    plant_many(root, 300);
    let (machine, state) = (machine(root), state(root));
    let lock = state.lock(PATIENCE).unwrap();
    let mut set = state.begin(&lock, &header()).unwrap();
    let made = (0..300).map_while(|number| set.set(&machine, &change(knob(number), "7")).ok()).count();
    assert!((5..300).contains(&made), "the log never became full: {made}");
    assert!(!changed(&machine, 0..300).is_empty());
    let report = state.undo(&lock, &machine, set.id(), false, PATIENCE).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(changed(&machine, 0..300).is_empty());
    assert!(state.sets().unwrap().is_empty());

    drop(set);
    // Filled by somebody else, with one knob that resists: what is undone stays undone, the rest is named and kept.
    let mut set = state.begin(&lock, &header()).unwrap();
    (0..6).for_each(|number| drop(set.set(&machine, &change(knob(number), "7")).unwrap()));
    let filler = root.join("state/filler");
    let full = std::fs::write(&filler, vec![0; 16384]);
    assert!(full.is_err(), "it is not full");
    let busy = root.join("proc/sys/kernel/test_3");
    std::fs::remove_file(&busy).unwrap();
    std::fs::create_dir(&busy).unwrap();
    let report = state.undo(&lock, &machine, set.id(), false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.failed.len()), (5, 1), "{report:?}");
    assert!(report.failed[0].contains("test_3"), "{report:?}");
    assert_eq!(state.changes(set.id()).unwrap().len(), 1, "only what resisted is left to do");
    std::fs::remove_dir(&busy).unwrap();
    std::fs::write(&busy, "7\n").unwrap();
    let report = state.undo(&lock, &machine, set.id(), false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.already, report.failed.len()), (1, 0, 0), "{report:?}");
    assert!(changed(&machine, 0..300).is_empty());
}

/// A log as somebody else would plant it.
fn planted(path: &Path) -> String {
    let header = r#"{"format":1,"what":"tune x","command":"c","owner":null,"made_ns":1,"details":null}"#;
    let knob = serde_json::json!({ "kind": "file", "path": path, "form": "text" });
    let before = serde_json::json!({
        "step": "before", "seq": 1, "knob": knob, "wanted": "mine", "why": "w", "exact": false, "before": "evil"
    });
    format!("{header}\n{before}\n")
}

#[test]
fn a_planted_log_writes_nowhere() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let victim = root.join("victim");
    std::fs::write(&victim, "mine\n").unwrap();
    let state = StateDir::at(root.join("state"));
    let folder = state.folder().unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    let log = folder.join("0001.jsonl");
    // A file that is no setting, also by way of one that is.
    let trick = PathBuf::from(format!("/proc/sys/../..{}", victim.display()));
    for path in [&victim, &trick] {
        std::fs::write(&log, planted(path)).unwrap();
        let reports = undo_all(&state, &Machine::running());
        assert!(reports[0].lost.iter().any(|loss| loss.contains("is no setting")), "{reports:?}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine\n");
    }
    // Somebody else's file, where the test may give files away.
    std::fs::write(&log, planted(Path::new("/proc/sys/kernel/no_such_thing"))).unwrap();
    if std::os::unix::fs::chown(&log, Some(65_534), None).is_ok() {
        let reports = undo_all(&state, &Machine::running());
        assert!(reports[0].lost.iter().any(|loss| loss.contains("belongs to user 65534")), "{reports:?}");
        std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
        let refused = state.sets().unwrap_err().to_string();
        assert!(refused.contains("belongs to user 65534") && refused.contains("remove it"), "{refused}");
        std::os::unix::fs::chown(&folder, Some(0), None).unwrap();
    } else {
        eprintln!("SKIPPED a_planted_log_writes_nowhere: files of another user need root");
    }
    // A folder that others may write to.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(state.sets().unwrap_err().to_string().contains("others may write to it"));
}
