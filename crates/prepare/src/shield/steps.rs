//! The steps of a plan, each only when it changes something.

use super::view::View;
use host::knob::{Form, Knob};
use host::undo::Change;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum ShieldStep {
    Set(SetStep),
    /// Tasks are moved, again and again until no new one turns up.
    Sweep(SweepStep),
}

/// A setting that gets another value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SetStep {
    #[serde(flatten)]
    pub change: Change,
    /// The value that it has when the plan is carried out; absent for what the plan makes.
    pub now: Option<String>,
    /// Whether the shield is up also when the kernel refuses this one; the report has it.
    pub tolerated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SweepStep {
    pub kind: SweepKind,
    /// Those that there are when the plan is made; one entry a task.
    pub moves: Vec<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepKind {
    /// From the root cpuset (version 1) into the system's. Not logged: removing that group, which is logged, moves all back.
    Cpuset,
    /// Their CPUs are rewritten, each one logged.
    Affinity,
    /// Their present CPUs are set once more, so that the kernel remembers them; not logged. Else they get all CPUs when a partition comes or goes.
    Remember,
}

pub(super) struct Steps<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) steps: Vec<ShieldStep>,
    pub(super) notes: Vec<String>,
    pub(super) lacks: Vec<String>,
    /// Locations in tables of flow rules that were given out.
    pub(super) locations: Vec<u32>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        Self { view, steps: Vec::new(), notes: Vec::new(), lacks: Vec::new(), locations: Vec::new() }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// A setting that must become this.
    pub(super) fn require(&mut self, knob: Knob, wanted: impl Into<String>, why: &str) {
        self.add(knob, wanted.into(), why, false);
    }

    /// A setting that should become this, where the system has it.
    pub(super) fn wish(&mut self, knob: Knob, wanted: impl Into<String>, why: &str) {
        if self.view.value(&knob).is_some() {
            self.add(knob, wanted.into(), why, true);
        }
    }

    /// The same for a file of a group that the plan may have to make first.
    pub(super) fn wish_in(&mut self, group: &std::path::Path, file: &str, form: Form, wanted: &str, why: &str) {
        let knob = Knob::file(group.join(file), form);
        if self.view.value(&knob).is_some()
            || self.view.value(&Knob::Group { path: group.to_owned() }).as_deref() != Some("present")
        {
            self.add(knob, wanted.to_owned(), why, true);
        }
    }

    pub(super) fn group(&mut self, path: PathBuf, why: &str) {
        self.require(Knob::Group { path }, "present", why);
    }

    fn add(&mut self, knob: Knob, wanted: String, why: &str, tolerated: bool) {
        let now = self.view.value(&knob);
        if now.as_ref().is_some_and(|now| knob.same(now, &wanted)) || (tolerated && self.view.was_tried(&knob)) {
            return;
        }
        let change = Change::new(knob, wanted, why);
        self.steps.push(ShieldStep::Set(SetStep { change, now, tolerated }));
    }

    pub(super) fn sweep(&mut self, kind: SweepKind, moves: Vec<Change>) {
        if !moves.is_empty() {
            self.steps.push(ShieldStep::Sweep(SweepStep { kind, moves }));
        }
    }
}
