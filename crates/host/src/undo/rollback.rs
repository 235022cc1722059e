//! Undoing a change set: from its last change to its first.

use super::fault::fault_point;
use super::log::{Entry, Log, LogRecord, SideEffect, Writer};
use super::{Conflict, SetNamespace, UndoError, UndoReport};
use crate::knob::{Knob, KnobError, Settings};
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two attempts at a knob that is busy.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub(super) struct UndoOptions<'a> {
    pub(super) namespace: &'a SetNamespace,
    /// Also what another has changed.
    pub(super) force: bool,
    pub(super) deadline: Instant,
}

/// Undoes what a log still holds; `newer` are the sets made after it, oldest first. Also names knobs of no known namespace.
pub(super) fn undo_all(
    settings: &dyn Settings,
    writer: &mut Writer,
    log: &Log,
    newer: &mut [(Writer, Log)],
    options: UndoOptions<'_>,
) -> (UndoReport, Option<String>) {
    let mut report = UndoReport::default();
    let mut unplaced = Vec::new();
    for entry in log.entries.iter().rev().filter(|entry| !entry.undone) {
        fault_point();
        let outcome = undo_change(settings, entry, log, newer, options);
        fault_point();
        match outcome {
            Outcome::Restored => report.restored += 1,
            Outcome::Already => report.already += 1,
            Outcome::HandedOver => report.handed_over += 1,
            Outcome::Forgotten => report.forgotten.push(entry.change.knob.clone()),
            Outcome::Conflict(conflict) => report.conflicts.push(*conflict),
            Outcome::Unplaced => {
                unplaced.push(format!("{} (was '{}')", entry.change.knob, entry.before));
                continue;
            }
            Outcome::Failed(why) => {
                report.failed.push(why);
                continue;
            }
        }
        // Without the mark a second attempt finds the old value in place.
        let _ = writer.mark_undone(entry);
        fault_point();
    }
    let unplaced = (!unplaced.is_empty()).then(|| {
        format!("the network namespace of {} is lost with it: set it by hand where it was changed", unplaced.join(", "))
    });
    (report, unplaced)
}

fn undo_change(
    settings: &dyn Settings,
    entry: &Entry,
    log: &Log,
    newer: &mut [(Writer, Log)],
    options: UndoOptions<'_>,
) -> Outcome {
    if entry.change.knob.is_of_network_namespace() {
        match options.namespace {
            SetNamespace::Gone { .. } => return Outcome::Forgotten,
            SetNamespace::Lost => return Outcome::Unplaced,
            SetNamespace::NotFound { inode, remedy } => {
                let knob = &entry.change.knob;
                return Outcome::Failed(format!(
                    "{knob}: its network namespace (inode {inode}) is not found: {remedy}"
                ));
            }
            SetNamespace::This | SetNamespace::Other { .. } => {}
        }
    }
    match hand_over(entry, newer) {
        Err(why) => Outcome::Failed(why),
        Ok(true) => Outcome::HandedOver,
        Ok(false) if in_own_group(entry, log) => {
            // Best effort: only the group's removal counts. A partition becomes a member although the group resists.
            let _ = settings.write(&entry.change.knob, &entry.before);
            Outcome::Restored
        }
        Ok(false) => restore(settings, entry, newer, options),
    }
}

enum Outcome {
    Restored,
    Already,
    HandedOver,
    Forgotten,
    /// Its network namespace is not known.
    Unplaced,
    Conflict(Box<Conflict>),
    Failed(String),
}

/// Where a newer set holds the knob, the value in place is its own: the oldest such set inherits our old value, and
/// those that the kernel changed with it. False when there is none, or it did not find our value.
fn hand_over(entry: &Entry, newer: &mut [(Writer, Log)]) -> Result<bool, String> {
    let knob = &entry.change.knob;
    let handed_over = inherit(knob, &entry.before, &|found| entry.made(found), newer, false)?;
    if handed_over {
        for beside in &entry.beside {
            inherit_beside(beside, newer)?;
        }
    }
    Ok(handed_over)
}

/// The same for a knob that the kernel changed with this one.
fn inherit_beside(beside: &SideEffect, newer: &mut [(Writer, Log)]) -> Result<bool, String> {
    let is_kernels = |found: &str| beside.after.as_ref().is_none_or(|after| beside.knob.same(after, found));
    inherit(&beside.knob, &beside.before, &is_kernels, newer, true)
}

/// Makes the oldest newer set that changed a knob, itself or by what the kernel did, put back `before`. False when there
/// is none, or when it did not find `ours`. A knob that the kernel might have changed with another, and did not, is only
/// looked at where `also_stayed`.
fn inherit(
    knob: &Knob,
    before: &str,
    ours: &dyn Fn(&str) -> bool,
    newer: &mut [(Writer, Log)],
    also_stayed: bool,
) -> Result<bool, String> {
    let told = |told: Result<(), UndoError>| told.map_err(|error| untold(knob, &error));
    for (writer, log) in newer {
        for held in log.entries.iter_mut().filter(|held| !held.undone) {
            let seq = held.seq;
            if held.change.knob == *knob {
                // Done before a death, or the value went there and back.
                let done = knob.same(&held.before, before);
                if !done && ours(&held.before) {
                    told(writer.append(&LogRecord::Rebase { seq, before: before.to_owned() }))?;
                    before.clone_into(&mut held.before);
                    return Ok(true);
                }
                return Ok(done);
            }
            let Some(beside) = held.beside.iter_mut().find(|beside| beside.knob == *knob) else { continue };
            let stayed = beside.stayed();
            if stayed && !also_stayed {
                continue;
            }
            if knob.same(&beside.before, before) {
                return Ok(true);
            }
            if ours(&beside.before) {
                let now = SideEffect { before: before.to_owned(), ..beside.clone() };
                told(writer.append(&LogRecord::RebaseBeside { seq, now: now.clone() }))?;
                *beside = now;
                return Ok(true);
            }
            if !stayed {
                return Ok(false);
            }
        }
    }
    Ok(false)
}

/// What a newer set found in place and the kernel left so goes back with our change: it will find the old value.
fn take_along(entry: &Entry, newer: &mut [(Writer, Log)]) -> Result<(), String> {
    let knob = &entry.change.knob;
    for (writer, log) in newer {
        for held in log.entries.iter_mut().filter(|held| !held.undone) {
            let seq = held.seq;
            let found =
                |beside: &&mut SideEffect| beside.knob == *knob && beside.stayed() && entry.made(&beside.before);
            for beside in held.beside.iter_mut().filter(found) {
                let (before, after) = (entry.before.clone(), Some(entry.before.clone()));
                let now = SideEffect { knob: knob.clone(), before, after };
                let told = writer.append(&LogRecord::RebaseBeside { seq, now: now.clone() });
                told.map_err(|error| untold(knob, &error))?;
                *beside = now;
            }
        }
    }
    Ok(())
}

fn untold(knob: &Knob, error: &UndoError) -> String {
    format!("{knob}: a newer change set holds it, and cannot be told ({error})")
}

/// Whether a change was made to a file of a group that the same set made: the group's removal undoes it.
fn in_own_group(entry: &Entry, log: &Log) -> bool {
    let Knob::File { path, .. } = &entry.change.knob else { return false };
    log.entries.iter().any(|made| match &made.change.knob {
        Knob::Group { path: group } => {
            !made.undone && made.seq < entry.seq && made.before == "absent" && path.parent() == Some(group)
        }
        _ => false,
    })
}

fn restore(settings: &dyn Settings, entry: &Entry, newer: &mut [(Writer, Log)], options: UndoOptions<'_>) -> Outcome {
    let UndoOptions { force, deadline, .. } = options;
    let knob = &entry.change.knob;
    let failed = |error: &dyn std::fmt::Display| Outcome::Failed(error.to_string());
    loop {
        let now = match settings.read(knob) {
            Ok(now) => now,
            Err(KnobError::Absent { .. }) => return Outcome::Already,
            Err(error) if error.may_pass() && pause(deadline) => continue,
            Err(error) => return failed(&error),
        };
        let holds = !knob.same(&now, &entry.before);
        if holds && !force && !entry.made(&now) {
            return Outcome::Conflict(Box::new(Conflict {
                knob: knob.clone(),
                ours: entry.ours().to_owned(),
                now,
                before: entry.before.clone(),
                who: settings.suspects(knob),
            }));
        }
        // Also where the knob itself is as before: an undo may have died between the two.
        let beside = take_along(entry, newer).and_then(|()| look_beside(settings, entry, newer, holds, force));
        let beside = match beside {
            Ok(beside) => beside,
            Err(why) => return Outcome::Failed(why),
        };
        let written = if holds { put_back(settings, entry) } else { Ok(()) };
        match written.and_then(|()| put_back_beside(settings, &beside)) {
            Ok(()) if !holds => return Outcome::Already,
            Ok(()) => break,
            Err(KnobError::Absent { .. }) => return Outcome::Already,
            Err(error) if error.may_pass() && pause(deadline) => {}
            Err(error) => return failed(&error),
        }
    }
    match settings.read(knob) {
        Ok(now) if entry.change.exact && !knob.same(&now, &entry.before) && !moved_up(entry, &now) => {
            Outcome::Failed(format!("{knob}: put back to '{}', but reads back '{now}'", entry.before))
        }
        Ok(_) | Err(KnobError::Absent { .. }) => Outcome::Restored,
        Err(error) => failed(&error),
    }
}

/// What the kernel changed on its own with a change, and the value that it shall have: that of before the change, where it
/// still is what the kernel had made of it; else the value that it has right before the undo, which may make the kernel
/// change it once more. A newer set that holds it gets the value of before to put back. Whether the kernel changed it is
/// not always known: then it `holds` with the knob itself.
fn look_beside<'a>(
    settings: &dyn Settings,
    entry: &'a Entry,
    newer: &mut [(Writer, Log)],
    holds: bool,
    force: bool,
) -> Result<Vec<(&'a Knob, String)>, String> {
    let mut found = Vec::new();
    for beside in &entry.beside {
        let Ok(now) = settings.read(&beside.knob) else { continue };
        let is_kernels = beside.after.as_ref().map_or(holds, |after| beside.knob.same(after, &now));
        let stays = inherit_beside(beside, newer)? || !(is_kernels || force);
        found.push((&beside.knob, if stays { now } else { beside.before.clone() }));
    }
    Ok(found)
}

fn put_back_beside(settings: &dyn Settings, beside: &[(&Knob, String)]) -> Result<(), KnobError> {
    for (knob, wanted) in beside {
        if settings.read(knob).is_ok_and(|now| !knob.same(&now, wanted)) {
            settings.write(knob, wanted)?;
        }
    }
    Ok(())
}

/// Writes the old value. A task whose old group was removed goes to the nearest group above that is left.
fn put_back(settings: &dyn Settings, entry: &Entry) -> Result<(), KnobError> {
    let knob = &entry.change.knob;
    let Knob::Member { hierarchy, .. } = knob else { return settings.write(knob, &entry.before) };
    let mut group = Path::new(&entry.before);
    loop {
        match settings.write(knob, &group.display().to_string()) {
            Err(error) if error.errno() == Some(libc::ENOENT) && group != hierarchy => match group.parent() {
                Some(parent) => group = parent,
                None => return Err(error),
            },
            result => return result,
        }
    }
}

/// Whether a task went to a group above its old one, which was removed.
fn moved_up(entry: &Entry, now: &str) -> bool {
    matches!(entry.change.knob, Knob::Member { .. }) && Path::new(&entry.before).starts_with(now)
}

/// Waits a little; false when the time is over.
fn pause(deadline: Instant) -> bool {
    if Instant::now() >= deadline {
        return false;
    }
    std::thread::sleep(PAUSE);
    true
}
