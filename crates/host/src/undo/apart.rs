//! Taking a change set apart: from its last change to its first.

use super::fault::fault_point;
use super::log::{Beside, Entry, Line, Log, Writer};
use super::{Conflict, UndoReport};
use crate::knob::{Knob, KnobError, Settings};
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two attempts at a knob that is busy.
const PAUSE: Duration = Duration::from_millis(20);

/// Undoes what a log still holds. `newer` are the sets made after it, oldest first.
pub(super) fn take(
    settings: &dyn Settings,
    writer: &mut Writer,
    log: &Log,
    newer: &mut [(Writer, Log)],
    force: bool,
    patience: Duration,
) -> UndoReport {
    let mut report = UndoReport::default();
    let deadline = Instant::now() + patience;
    for entry in log.entries.iter().rev().filter(|entry| !entry.undone) {
        fault_point();
        let fate = match hand_over(entry, newer) {
            Err(why) => Fate::Failed(why),
            Ok(true) => Fate::HandedOver,
            Ok(false) if in_own_group(entry, log) => {
                // Best effort: what counts is that the group goes. A partition falls back to a member this way even
                // when the group resists.
                let _ = settings.write(&entry.change.knob, &entry.before);
                Fate::Restored
            }
            Ok(false) => restore(settings, entry, force, deadline),
        };
        fault_point();
        match fate {
            Fate::Restored => report.restored += 1,
            Fate::Already => report.already += 1,
            Fate::HandedOver => report.handed_over += 1,
            Fate::Conflict(conflict) => report.conflicts.push(*conflict),
            Fate::Failed(why) => {
                report.failed.push(why);
                continue;
            }
        }
        // Without the mark a second attempt finds the old value in place.
        let _ = writer.mark_undone(entry);
        fault_point();
    }
    report
}

enum Fate {
    Restored,
    Already,
    HandedOver,
    Conflict(Box<Conflict>),
    Failed(String),
}

/// When a newer set holds the knob, the value that is there is its own: the oldest such set gets our old value as the one
/// to put back. False when there is none, or when it did not find our value.
fn hand_over(entry: &Entry, newer: &mut [(Writer, Log)]) -> Result<bool, String> {
    let knob = &entry.change.knob;
    for (writer, log) in newer {
        let Some(holder) = log.entries.iter_mut().find(|held| !held.undone && held.change.knob == *knob) else {
            continue;
        };
        if knob.same(&holder.before, &entry.before) {
            // Done before a death, or the value went there and back.
            return Ok(true);
        }
        if !entry.made(&holder.before) {
            return Ok(false);
        }
        let rebased = writer.append(&Line::Rebase { seq: holder.seq, before: entry.before.clone() });
        rebased.map_err(|error| format!("{knob}: a newer change set holds it, and cannot be told ({error})"))?;
        holder.before.clone_from(&entry.before);
        return Ok(true);
    }
    Ok(false)
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

fn restore(settings: &dyn Settings, entry: &Entry, force: bool, deadline: Instant) -> Fate {
    let knob = &entry.change.knob;
    let failed = |error: &dyn std::fmt::Display| Fate::Failed(error.to_string());
    loop {
        let now = match settings.read(knob) {
            Ok(now) => now,
            Err(KnobError::Absent { .. }) => return Fate::Already,
            Err(error) if error.may_pass() && pause(deadline) => continue,
            Err(error) => return failed(&error),
        };
        if knob.same(&now, &entry.before) {
            return Fate::Already;
        }
        if !force && !entry.made(&now) {
            return Fate::Conflict(Box::new(Conflict {
                knob: knob.clone(),
                ours: entry.ours().to_owned(),
                now,
                before: entry.before.clone(),
                who: settings.suspects(knob),
            }));
        }
        let beside = look_beside(settings, entry);
        let written = put_back(settings, entry);
        match written.and_then(|()| put_back_beside(settings, &beside, force)) {
            Ok(()) => break,
            Err(KnobError::Absent { .. }) => return Fate::Already,
            Err(error) if error.may_pass() && pause(deadline) => {}
            Err(error) => return failed(&error),
        }
    }
    match settings.read(knob) {
        Ok(now) if entry.change.exact && !knob.same(&now, &entry.before) && !moved_up(entry, &now) => {
            Fate::Failed(format!("{knob}: put back to '{}', but reads back '{now}'", entry.before))
        }
        Ok(_) | Err(KnobError::Absent { .. }) => Fate::Restored,
        Err(error) => failed(&error),
    }
}

/// What the kernel changed on its own with a change, and what that is now.
fn look_beside<'a>(settings: &dyn Settings, entry: &'a Entry) -> Vec<(&'a Beside, String)> {
    entry.beside.iter().filter_map(|beside| Some((beside, settings.read(&beside.knob).ok()?))).collect()
}

/// Gives each of them the value of before the change, where it still was what the kernel had made of it; else the value
/// that it had right before the undo, which may have made the kernel change it once more.
fn put_back_beside(settings: &dyn Settings, beside: &[(&Beside, String)], force: bool) -> Result<(), KnobError> {
    for (beside, now) in beside {
        let is_kernels = beside.after.as_ref().is_none_or(|after| beside.knob.same(after, now));
        let wanted = if is_kernels || force { &beside.before } else { now };
        if settings.read(&beside.knob).is_ok_and(|now| !beside.knob.same(&now, wanted)) {
            settings.write(&beside.knob, wanted)?;
        }
    }
    Ok(())
}

/// Writes the old value. A task whose old group is gone goes to the nearest group above that is left.
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

/// Whether a task went to a group above its old one, which is gone.
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
