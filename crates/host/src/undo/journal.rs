//! One change set while it is being made.

use super::fault::fault_point;
use super::log::{LogRecord, SideEffect, Writer};
use super::{SetHeader, SetId, UndoError};
use crate::knob::{Knob, KnobError, Settings};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    pub knob: Knob,
    pub wanted: String,
    /// Why, for people: one line.
    pub why: String,
    /// Whether a value that reads back as another is an error (true) or only reported (false: the kernel rounds it).
    #[serde(default = "yes")]
    pub exact: bool,
}

impl Change {
    pub fn new(knob: Knob, wanted: impl Into<String>, why: &str) -> Self {
        Self { knob, wanted: wanted.into(), why: why.to_owned(), exact: true }
    }
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It had the wanted value already: nothing was logged or written.
    Already,
    Changed {
        before: String,
        after: String,
    },
}

/// An open change set, whose file the first change makes. Only an undo removes a file that holds changes.
#[derive(Debug)]
pub struct Changes {
    pub(super) id: SetId,
    pub(super) path: PathBuf,
    pub(super) header: SetHeader,
    pub(super) log: Option<Writer>,
    pub(super) next: u32,
    pub(super) held: u32,
}

impl Drop for Changes {
    fn drop(&mut self) {
        // All that was tried was refused: there is nothing to undo.
        if self.log.is_some() && self.held == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Changes {
    pub fn id(&self) -> &SetId {
        &self.id
    }

    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Logs the old and the new value and syncs, writes the knob, reads it back and logs what it became; does nothing where
    /// it has the value. After an error the log holds what an undo needs.
    pub fn set(&mut self, settings: &dyn Settings, change: &Change) -> Result<ChangeOutcome, UndoError> {
        let knob = &change.knob;
        if !knob.is_possible() {
            return Err(KnobError::unsupported(knob, "it is no setting of the kernel").into());
        }
        let before = settings.read(knob)?;
        if knob.same(&before, &change.wanted) {
            return Ok(ChangeOutcome::Already);
        }
        if !change.exact && self.was_rounded(change, &before) {
            return Ok(ChangeOutcome::Already);
        }
        fault_point();
        let log = match &mut self.log {
            Some(log) => log,
            none => {
                super::state::remember_number(&self.path)?;
                none.insert(Writer::create(&self.path, &self.header)?)
            }
        };
        let seq = self.next;
        fault_point();
        let mut beside = Vec::new();
        for knob in knob.changes_also() {
            // Where it cannot be read, the kernel has no such setting to change.
            beside.extend(settings.read(&knob).map(|before| SideEffect { knob, before, after: None }));
        }
        let entry = log.announce(seq, change, &before, &beside)?;
        self.next = seq.saturating_add(1);
        self.held += 1;
        fault_point();
        let written = settings.write(knob, &change.wanted);
        fault_point();
        // Also after a refusal: some writes fail half done.
        let found = settings.read(knob);
        for beside in &mut beside {
            // Also where it stayed: putting the knob back may change it.
            beside.after = settings.read(&beside.knob).ok();
        }
        fault_point();
        if let Ok(after) = &found {
            log.append(&LogRecord::After { seq, after: after.clone(), beside })?;
            if knob.same(after, &before) {
                // Refused, or rounded to what it was: the knob is not held by this set.
                log.mark_undone(&entry)?;
                self.held -= 1;
            }
        }
        fault_point();
        written?;
        let after = found?;
        if change.exact && !knob.same(&after, &change.wanted) {
            let knob = Box::new(knob.clone());
            return Err(UndoError::ReadBack { knob, wanted: change.wanted.clone(), found: after });
        }
        Ok(ChangeOutcome::Changed { before, after })
    }

    /// Whether a change set in force asked for this value and the kernel rounded it to the present one.
    fn was_rounded(&self, change: &Change, now: &str) -> bool {
        let folder = self.path.parent().unwrap_or(&self.path);
        let logs = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        let logs = logs.filter_map(|path| super::log::parse(&path, &crate::private::read(&path).ok()?).ok());
        let logs = logs.filter(|log| self.header.shares(&change.knob, &log.header));
        logs.flat_map(|log| log.entries).any(|entry| {
            !entry.undone
                && entry.change.knob == change.knob
                && entry.change.wanted == change.wanted
                && entry.after.as_deref().is_some_and(|after| change.knob.same(after, now))
        })
    }
}
