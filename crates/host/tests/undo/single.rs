//! One set: made, found made, undone, or left to another.

use super::tree::{PATIENCE, apply, change, changes, header, machine, picture, plant, state, task};
use host::knob::{Knob, KnobError, Settings, TaskKey};
use host::undo::{Change, ChangeOutcome, UndoError};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[test]
fn what_was_made_is_undone() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let before = picture(root);
    let machine = machine(root);
    let id = apply(root, &machine, &changes());
    assert_ne!(picture(root), before);
    assert_eq!(machine.read(&changes()[4].knob).unwrap(), "/sys/fs/cgroup/cpuset/windhover");
    let state = state(root);
    assert_eq!(state.sets().unwrap().len(), 1);
    assert_eq!(state.changes(&id).unwrap().len(), changes().len());
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &machine, &id, false, PATIENCE).unwrap();
    assert!(report.conflicts.is_empty() && report.failed.is_empty(), "{report:?}");
    assert_eq!(picture(root), before);
    assert!(state.sets().unwrap().is_empty());
    let again = state.undo(&lock, &machine, &id, false, PATIENCE);
    assert!(matches!(again, Err(UndoError::NoSuchSet { .. })));
    let next = state.begin(&lock, &header()).unwrap();
    assert_ne!(*next.id(), id, "a number never comes back: a keeper may wait with it");
}

#[test]
fn a_second_call_writes_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let once: Vec<_> = changes().into_iter().filter(|change| !matches!(change.wanted.as_str(), "50" | "0")).collect();
    apply(root, &machine, &once);
    let state = state(root);
    let folder = || {
        let names = std::fs::read_dir(state.folder().unwrap()).unwrap();
        names
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
            .collect::<BTreeMap<_, _>>()
    };
    let (files, logs) = (picture(root), folder());
    let lock = state.lock(PATIENCE).unwrap();
    let mut set = state.begin(&lock, &header()).unwrap();
    for change in &once {
        assert_eq!(set.set(&ReadOnly(&machine), change).unwrap(), ChangeOutcome::Already);
    }
    assert!(set.is_empty());
    drop(set);
    assert_eq!(picture(root), files);
    assert_eq!(folder(), logs);
}

/// Fails the test when it is written to.
struct ReadOnly<'a>(&'a dyn Settings);

impl Settings for ReadOnly<'_> {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        self.0.read(knob)
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        panic!("{knob} was set to {value}");
    }
}

#[test]
fn what_another_changed_is_reported_and_left() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    std::fs::create_dir_all(root.join("proc/812")).unwrap();
    std::fs::write(root.join("proc/812/comm"), "irqbalance\n").unwrap();
    let machine = machine(root);
    let mask = changes().swap_remove(5);
    let wanted = [change(Knob::sysctl("net.core.busy_poll"), "50"), mask.clone()];
    let id = apply(root, &machine, &wanted);
    machine.write(&mask.knob, "1").unwrap();
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &machine, &id, false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.conflicts.len()), (1, 1));
    let conflict = &report.conflicts[0];
    assert_eq!((conflict.ours.as_str(), conflict.now.as_str(), conflict.before.as_str()), ("7", "1", "f"));
    assert!(conflict.who.as_deref().unwrap().contains("irqbalance (process 812)"));
    assert_eq!(machine.read(&mask.knob).unwrap(), "1");
    assert_eq!(machine.read(&wanted[0].knob).unwrap(), "0");
    assert!(state.sets().unwrap().is_empty(), "nothing of it is ours any more");
}

#[test]
fn force_puts_back_what_another_changed() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let knob = Knob::sysctl("net.core.busy_poll");
    let id = apply(root, &machine, &[change(knob.clone(), "50")]);
    machine.write(&knob, "20").unwrap();
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &machine, &id, true, PATIENCE).unwrap();
    assert_eq!((report.restored, report.conflicts.len()), (1, 0));
    assert_eq!(machine.read(&knob).unwrap(), "0");
}

#[test]
fn a_number_that_another_task_got_is_not_touched() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let machine = machine(root);
    let group = "/sys/fs/cgroup/cpuset/made-before";
    std::fs::create_dir(machine.path(group.as_ref())).unwrap();
    std::fs::write(machine.path(group.as_ref()).join("tasks"), "").unwrap();
    let hierarchy = std::path::PathBuf::from("/sys/fs/cgroup/cpuset");
    let member = |task| Knob::Member { hierarchy: hierarchy.clone(), task };
    let id = apply(root, &machine, &[change(member(task()), group)]);
    let stat = root.join("proc/42/stat");
    let other = std::fs::read_to_string(&stat).unwrap().replace(" 777 ", " 778 ");
    std::fs::write(&stat, other).unwrap();
    assert!(!task().lives(&machine));
    let heir = TaskKey::of_at(&machine, 42).unwrap();
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &machine, &id, false, PATIENCE).unwrap();
    assert_eq!((report.already, report.failed.len(), report.conflicts.len()), (1, 0, 0));
    assert_eq!(machine.read(&member(heir)).unwrap(), group);
}

#[test]
fn what_reads_back_otherwise_is_an_error_and_undone() {
    /// A partition as the kernel refuses it: the write succeeds, the value tells.
    struct Partition(RefCell<String>);
    impl Settings for Partition {
        fn read(&self, _: &Knob) -> Result<String, KnobError> {
            Ok(self.0.borrow().clone())
        }
        fn write(&self, _: &Knob, value: &str) -> Result<(), KnobError> {
            *self.0.borrow_mut() = if value == "isolated" { "isolated invalid (busy)".into() } else { value.into() };
            Ok(())
        }
    }
    let tree = tempfile::tempdir().unwrap();
    let state = state(tree.path());
    let settings = Partition(RefCell::new("member".to_owned()));
    let lock = state.lock(PATIENCE).unwrap();
    let mut set = state.begin(&lock, &header()).unwrap();
    let failed = set.set(&settings, &change(Knob::text("/sys/p"), "isolated"));
    assert!(matches!(&failed, Err(UndoError::ReadBack { found, .. }) if found.contains("invalid")), "{failed:?}");
    let report = state.undo(&lock, &settings, set.id(), false, PATIENCE).unwrap();
    assert_eq!((report.restored, settings.0.into_inner().as_str()), (1, "member"));
}

/// A kernel in which `rt` cannot come back while `fair` is off, and answers EBUSY a few times besides.
struct Ordered {
    values: RefCell<BTreeMap<Knob, String>>,
    busy: RefCell<u32>,
}

impl Settings for Ordered {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        Ok(self.values.borrow()[knob].clone())
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        let busy = || Err(KnobError::writing(knob, value, std::io::Error::from_raw_os_error(16)));
        let fair_is_off = self.values.borrow()[&Knob::text("/sys/fair")] == "0";
        if *knob == Knob::text("/sys/rt") && value != "-1" && fair_is_off {
            return busy();
        }
        let left = *self.busy.borrow();
        if left > 0 {
            *self.busy.borrow_mut() = left - 1;
            return busy();
        }
        self.values.borrow_mut().insert(knob.clone(), value.to_owned());
        Ok(())
    }
}

#[test]
fn the_order_is_reversed_and_busy_knobs_are_tried_again() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    let (rt, fair) = (Knob::text("/sys/rt"), Knob::text("/sys/fair"));
    let first = BTreeMap::from([(rt.clone(), "950000".to_owned()), (fair.clone(), "50".to_owned())]);
    let kernel = Ordered { values: RefCell::new(first.clone()), busy: RefCell::new(0) };
    let id = apply(root, &kernel, &[change(rt, "-1"), change(fair, "0")]);
    *kernel.busy.borrow_mut() = 3;
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &kernel, &id, false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.failed.len()), (2, 0), "{report:?}");
    assert_eq!(*kernel.values.borrow(), first);
}

#[test]
fn what_stays_busy_keeps_its_log() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    let (a, b) = (Knob::text("/sys/fair"), Knob::text("/sys/b"));
    let first = BTreeMap::from([(a.clone(), "1".to_owned()), (b.clone(), "1".to_owned())]);
    let kernel = Ordered { values: RefCell::new(first.clone()), busy: RefCell::new(0) };
    let id = apply(root, &kernel, &[change(a, "2"), change(b, "2")]);
    *kernel.busy.borrow_mut() = u32::MAX;
    let state = state(root);
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &kernel, &id, false, std::time::Duration::from_millis(50)).unwrap();
    assert_eq!((report.restored, report.failed.len()), (0, 2));
    assert_eq!(state.sets().unwrap().len(), 1);
    *kernel.busy.borrow_mut() = 0;
    let report = state.undo(&lock, &kernel, &id, false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.failed.len()), (2, 0));
    assert_eq!(*kernel.values.borrow(), first);
}

/// A ring of a network device: the kernel rounds up to a multiple of 8, and refuses more than 4096.
struct Ring(RefCell<u32>);

impl Settings for Ring {
    fn read(&self, _: &Knob) -> Result<String, KnobError> {
        Ok(self.0.borrow().to_string())
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        let wanted: u32 = value.parse().unwrap();
        if wanted > 4096 {
            return Err(KnobError::writing(knob, value, std::io::Error::from_raw_os_error(22)));
        }
        *self.0.borrow_mut() = wanted.next_multiple_of(8);
        Ok(())
    }
}

#[test]
fn what_the_kernel_rounds_is_asked_for_once() {
    let tree = tempfile::tempdir().unwrap();
    let state = state(tree.path());
    let ring = Ring(RefCell::new(256));
    let wanted = Change { exact: false, ..change(Knob::text("/sys/ring"), "100") };
    let id = apply(tree.path(), &ring, std::slice::from_ref(&wanted));
    assert_eq!(*ring.0.borrow(), 104);
    let lock = state.lock(PATIENCE).unwrap();
    let mut again = state.begin(&lock, &header()).unwrap();
    assert_eq!(again.set(&ReadOnly(&ring), &wanted).unwrap(), ChangeOutcome::Already);
    drop(again);
    assert_eq!(state.undo(&lock, &ring, &id, false, PATIENCE).unwrap().restored, 1);
    assert_eq!(*ring.0.borrow(), 256);
}

#[test]
fn what_was_refused_is_not_ours() {
    let tree = tempfile::tempdir().unwrap();
    let state = state(tree.path());
    let ring = Ring(RefCell::new(256));
    let lock = state.lock(PATIENCE).unwrap();
    let mut set = state.begin(&lock, &header()).unwrap();
    let refused = change(Knob::text("/sys/ring"), "5000");
    assert!(matches!(set.set(&ring, &refused), Err(UndoError::Knob(KnobError::Write { .. }))));
    assert!(set.is_empty());
    drop(set);
    assert!(state.sets().unwrap().is_empty(), "nothing was changed");
}
