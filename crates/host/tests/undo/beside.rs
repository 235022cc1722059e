//! What the kernel changes on its own with a knob: put back with it, also where several sets hold one of both.

use super::tree::{PATIENCE, apply, change, header, state};
use host::knob::{Form, Knob, KnobError, Settings};
use host::undo::Change;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Transparent huge pages that set another knob when they are switched on, and also when switched off, or not.
struct Pages(RefCell<BTreeMap<Knob, String>>, bool);

impl Pages {
    fn new(when_off: bool) -> Self {
        let values = [(pages(), "madvise".to_owned()), (reserve(), "5000".to_owned())];
        Self(RefCell::new(values.into()), when_off)
    }

    fn values(&self) -> (String, String) {
        (self.read(&pages()).unwrap(), self.read(&reserve()).unwrap())
    }
}

impl Settings for Pages {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        Ok(self.0.borrow()[knob].clone())
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        self.0.borrow_mut().insert(knob.clone(), value.to_owned());
        if *knob == pages() && (self.1 || value != "never") {
            self.0.borrow_mut().insert(reserve(), if value == "never" { "11" } else { "67584" }.to_owned());
        }
        Ok(())
    }
}

fn pages() -> Knob {
    Knob::file("/sys/kernel/mm/transparent_hugepage/enabled", Form::Text)
}

fn reserve() -> Knob {
    Knob::sysctl("vm.min_free_kbytes")
}

#[test]
fn what_the_kernel_changes_on_its_own_is_put_back() {
    for (when_off, meanwhile, expected) in
        [(true, None, "5000"), (true, Some("9000"), "9000"), (false, None, "5000"), (false, Some("9000"), "9000")]
    {
        let tree = tempfile::tempdir().unwrap();
        let settings = Pages::new(when_off);
        let state = state(tree.path());
        let lock = state.lock(PATIENCE).unwrap();
        let mut set = state.begin(&lock, &header()).unwrap();
        set.set(&settings, &change(pages(), "never")).unwrap();
        assert_eq!(settings.read(&reserve()).unwrap(), if when_off { "11" } else { "5000" });
        if let Some(value) = meanwhile {
            settings.write(&reserve(), value).unwrap();
        }
        let report = state.undo(&lock, &settings, set.id(), false, PATIENCE).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(settings.read(&pages()).unwrap(), "madvise");
        assert_eq!(settings.read(&reserve()).unwrap(), expected);
    }
}

/// Each order in which three things can be done.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn sets_that_overlap_in_it_leave_the_original_whatever_the_order() {
    let switch = |value: &str| change(pages(), value);
    let reserved = |value: &str| change(reserve(), value);
    let cases: [[Change; 3]; 6] = [
        [switch("always"), switch("never"), switch("always")],
        [switch("never"), switch("always"), switch("never")],
        [switch("always"), reserved("9000"), switch("never")],
        [reserved("9000"), switch("always"), reserved("7000")],
        [reserved("9000"), switch("never"), switch("always")],
        [switch("never"), reserved("9000"), reserved("7000")],
    ];
    for when_off in [false, true] {
        for changes in &cases {
            for order in ORDERS {
                let tree = tempfile::tempdir().unwrap();
                let settings = Pages::new(when_off);
                let sets: Vec<_> =
                    changes.iter().map(|one| apply(tree.path(), &settings, std::slice::from_ref(one))).collect();
                let state = state(tree.path());
                let lock = state.lock(PATIENCE).unwrap();
                for one in order {
                    let report = state.undo(&lock, &settings, &sets[one], false, PATIENCE).unwrap();
                    assert!(report.is_clean(), "{when_off} {changes:?} {order:?}: {report:?}");
                }
                let values = settings.values();
                assert_eq!(values, ("madvise".to_owned(), "5000".to_owned()), "{when_off} {changes:?} {order:?}");
                assert!(state.sets().unwrap().is_empty());
            }
        }
    }
}

#[test]
fn an_undo_that_died_between_both_is_finished_by_the_next() {
    let tree = tempfile::tempdir().unwrap();
    let settings = Pages::new(false);
    let set = apply(tree.path(), &settings, &[change(pages(), "always")]);
    assert_eq!(settings.values(), ("always".to_owned(), "67584".to_owned()));
    settings.write(&pages(), "madvise").unwrap();
    let state = state(tree.path());
    let lock = state.lock(PATIENCE).unwrap();
    assert_eq!(state.undo(&lock, &settings, &set, false, PATIENCE).unwrap().already, 1);
    assert_eq!(settings.values(), ("madvise".to_owned(), "5000".to_owned()));
}
