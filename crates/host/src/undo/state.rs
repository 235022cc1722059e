//! The directory of undo logs: its lock, its change sets, undoing one.

use super::fault::fault_point;
use super::log::{Entry, FORMAT, Log, Writer, sync_folder};
use super::rollback::{self, UndoOptions};
use super::{Changes, Lock, SetNamespace, UndoError};
use crate::knob::{Knob, Settings, TaskKey};
use crate::{netns, private};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const USUAL: &str = "/run/windhover";
/// What a set is whose header cannot be read.
const UNREADABLE: &str = "(unreadable)";

/// Names a change set: its number as text (`0003`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SetId(pub String);

impl std::fmt::Display for SetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a change set is, in the first line of its log.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SetHeader {
    pub format: u32,
    /// What makes it: `shield`, `tune paper-2012`, `campaign`.
    pub what: String,
    pub command: String,
    /// Process that it goes with; absent: it stays until it is undone by hand.
    #[serde(default)]
    pub owner: Option<TaskKey>,
    /// Wall clock since 1970.
    pub made_ns: u64,
    /// Number of the network namespace that it was made in: see [`netns::cookie`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns_cookie: Option<u64>,
    /// What the maker wants to remember (a shield's spec), as JSON.
    #[serde(default)]
    pub details: serde_json::Value,
}

/// The state directory. What cannot be used of it is [`UndoError::Log`]; a set that is not in it, [`UndoError::NoSuchSet`].
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
    boot: Option<String>,
}

/// A value that something else has changed since.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Conflict {
    pub knob: Knob,
    pub ours: String,
    pub now: String,
    /// What it was before, and is not put back to.
    pub before: String,
    /// Who changed it, where that is known.
    pub who: Option<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knob, ours, now, before, who } = self;
        let who = who.as_ref().map(|who| format!(" ({who})")).unwrap_or_default();
        write!(f, "{knob}: changed to '{now}' by another{who} since it was set to '{ours}'; left so, was '{before}'")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UndoReport {
    pub restored: u32,
    /// Knobs that had their old value already, or whose task has ended.
    pub already: u32,
    /// Knobs that a newer change set holds: it will put back the value that this set would have.
    #[serde(default)]
    pub handed_over: u32,
    /// Knobs that went with their network namespace.
    #[serde(default)]
    pub forgotten: Vec<Knob>,
    /// Knobs that another changed meanwhile: left as they are.
    pub conflicts: Vec<Conflict>,
    /// Knobs that could not be put back, with the reason; their log is kept.
    pub failed: Vec<String>,
    /// What of the set's log was lost, so that it could not be undone, with where the rest is kept.
    #[serde(default)]
    pub lost: Vec<String>,
}

impl UndoReport {
    /// Whether everything is as it was before the set.
    pub fn is_clean(&self) -> bool {
        self.conflicts.is_empty() && self.failed.is_empty() && self.lost.is_empty()
    }

    /// What is not as it was before the set, one line each.
    pub fn not_put_back(&self) -> Vec<String> {
        self.failed.iter().cloned().chain(self.conflicts.iter().map(ToString::to_string)).collect()
    }

    pub fn add(&mut self, other: Self) {
        self.restored += other.restored;
        self.already += other.already;
        self.handed_over += other.handed_over;
        self.forgotten.extend(other.forgotten);
        self.conflicts.extend(other.conflicts);
        self.failed.extend(other.failed);
        self.lost.extend(other.lost);
    }
}

impl StateDir {
    /// The usual place: `WINDHOVER_STATE`, or /run/windhover.
    pub fn usual() -> Self {
        let path = std::env::var_os("WINDHOVER_STATE").map_or_else(|| PathBuf::from(USUAL), PathBuf::from);
        Self { path, boot: None }
    }

    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), boot: None }
    }

    /// The same place in another boot, for tests.
    #[must_use]
    pub fn in_boot(self, id: &str) -> Self {
        Self { boot: Some(id.to_owned()), ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the state directory, for its owner alone. One whose place was chosen by the user keeps its mode.
    pub fn make(&self) -> Result<(), UndoError> {
        let own = self.path == Path::new(USUAL) || self.inode_of_namespace().is_some();
        let made = if own { private::folder(&self.path) } else { private::chosen_folder(&self.path) };
        made.map_err(UndoError::log(&self.path, "use"))
    }

    /// The folder of this boot, when what is in it may be believed; `None` when there is none.
    fn trusted_folder(&self) -> Result<Option<PathBuf>, UndoError> {
        let folder = self.folder()?;
        for path in [&self.path, &folder] {
            match private::check(path) {
                Ok(()) => {}
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(cause) => return Err(UndoError::log(path, "use")(cause)),
            }
        }
        Ok(Some(folder))
    }

    /// The folder of this boot; [`UndoError::NoBootId`] where there is none.
    pub fn folder(&self) -> Result<PathBuf, UndoError> {
        let id = self.boot.clone().or_else(crate::boot_id).filter(|id| is_boot_id(id)).ok_or(UndoError::NoBootId)?;
        Ok(self.path.join(id))
    }

    /// The change sets of this boot, oldest first. One whose header cannot be read is called `(unreadable)`.
    pub fn sets(&self) -> Result<Vec<(SetId, SetHeader)>, UndoError> {
        let Some(folder) = self.trusted_folder()? else { return Ok(Vec::new()) };
        let mut sets = Vec::new();
        for number in numbers(&folder, LOG)? {
            let path = folder.join(file_of(number));
            match private::read(&path) {
                Ok(text) => {
                    let header = super::log::parse(&path, &text).map(|log| log.header);
                    sets.push((id_of(number), header.unwrap_or_else(|_| SetHeader::unreadable())));
                }
                // Undone by another meanwhile.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(UndoError::log(&path, "read")(cause));
                }
                // Its undo reports why, and moves it away.
                Err(_) => sets.push((id_of(number), SetHeader::unreadable())),
            }
        }
        Ok(sets)
    }

    /// Logs of this boot that were damaged: undone as far as they could be read, and kept under another name.
    pub fn damaged(&self) -> Result<Vec<PathBuf>, UndoError> {
        let Some(folder) = self.trusted_folder()? else { return Ok(Vec::new()) };
        let path = |number| folder.join(file_of(number)).with_extension(DAMAGED);
        Ok(numbers(&folder, DAMAGED)?.into_iter().map(path).collect())
    }

    /// The changes of a set that are not undone, in the order they were made: knob, value before, value made, why.
    pub fn changes(&self, id: &SetId) -> Result<Vec<ChangeInForce>, UndoError> {
        let held = |entry: Entry| ChangeInForce {
            ours: entry.ours().to_owned(),
            wanted: entry.change.wanted,
            knob: entry.change.knob,
            before: entry.before,
            why: entry.change.why,
        };
        Ok(self.read(id)?.entries.into_iter().filter(|entry| !entry.undone).map(held).collect())
    }

    /// What of a set's log is lost, one line each; none when it is whole.
    pub fn losses(&self, id: &SetId) -> Result<Vec<String>, UndoError> {
        Ok(self.read(id)?.losses())
    }

    /// The knobs that the kernel would not change for a set, with their values: to ask again would change nothing.
    pub fn refused(&self, id: &SetId) -> Result<Vec<(Knob, String)>, UndoError> {
        let entries = self.read(id)?.entries;
        Ok(entries.into_iter().filter(Entry::was_refused).map(|entry| (entry.change.knob, entry.before)).collect())
    }

    fn read(&self, id: &SetId) -> Result<Log, UndoError> {
        let path = self.existing(id)?;
        let text = private::read(&path).map_err(UndoError::log(&path, "read"))?;
        super::log::parse(&path, &text)
    }

    /// Opens a new change set, whose file the first change makes. Folders of earlier boots are removed.
    pub fn begin(&self, _lock: &Lock, header: &SetHeader) -> Result<Changes, UndoError> {
        let folder = self.folder()?;
        self.make()?;
        private::folder(&folder).map_err(UndoError::log(&folder, "use"))?;
        self.forget_other_boots(&folder);
        let number = numbers(&folder, LOG)?.last().copied().max(last_number(&folder)).unwrap_or(0).saturating_add(1);
        let netns_cookie = header.netns_cookie.or_else(netns::cookie);
        let header = SetHeader { format: FORMAT, netns_cookie, ..header.clone() };
        Ok(Changes { id: id_of(number), path: folder.join(file_of(number)), header, log: None, next: 1, held: 0 })
    }

    /// Opens a change set that exists, to add to it.
    pub fn reopen(&self, _lock: &Lock, id: &SetId) -> Result<Changes, UndoError> {
        let path = self.existing(id)?;
        let (writer, log) = Writer::open(&path)?;
        let next = log.next();
        let held = u32::try_from(log.entries.iter().filter(|entry| !entry.undone).count()).unwrap_or(u32::MAX);
        Ok(Changes { id: id.clone(), path, header: log.header, log: Some(writer), next, held })
    }

    /// Undoes a change set in strict reverse order: each knob only where its value is still the set's (or with
    /// `force`), read back, retried while the kernel answers EBUSY until `patience` is over. The log goes when nothing
    /// failed; a conflict does not keep it. The announcement of this set's shield (`shield.json`) goes first. Knobs of
    /// a network namespace that was removed are forgotten; those of one that is not found, or not known, are left and
    /// named. Errors: [`UndoError`] when the log cannot be read or written; [`UndoError::OtherNamespace`], before
    /// anything is undone; knobs that resist are in the report.
    pub fn undo(
        &self,
        _lock: &Lock,
        settings: &dyn Settings,
        id: &SetId,
        force: bool,
        patience: Duration,
    ) -> Result<UndoReport, UndoError> {
        let path = self.existing(id)?;
        let folder = self.folder()?;
        let kept = path.with_extension(DAMAGED);
        let (mut writer, log) = match Writer::open(&path) {
            Ok(opened) => opened,
            // Not to be trusted: see [`private::check`].
            Err(UndoError::Log { cause, .. }) if cause.kind() == io::ErrorKind::Other => {
                let report = UndoReport { lost: vec![lost(&kept, &cause.to_string())], ..UndoReport::default() };
                set_aside(&path, &kept)?;
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        let namespace = self.require_namespace(id, &log.header)?;
        crate::shield::forget(self, id)?;
        let mut newer: Vec<(Writer, Log)> = Vec::new();
        // Numbers never return, so a higher one is newer.
        for number in numbers(&folder, LOG)?.into_iter().filter(|&number| number > number_of(id).unwrap_or(0)) {
            // One that cannot be opened is its own undo's to name.
            newer.extend(Writer::open(&folder.join(file_of(number))));
        }
        // The same knob of another network namespace is another.
        for (_, other) in &mut newer {
            other.entries.retain(|entry| log.header.shares(&entry.change.knob, &other.header));
        }
        let options = UndoOptions { namespace: &namespace, force, deadline: Instant::now() + patience };
        let (mut report, unplaced) = rollback::undo_all(settings, &mut writer, &log, &mut newer, options);
        report.lost = log.losses().iter().chain(&unplaced).map(|loss| lost(&kept, loss)).collect();
        if report.failed.is_empty() {
            fault_point();
            if report.lost.is_empty() {
                std::fs::remove_file(&path).map_err(UndoError::log(&path, "remove"))?;
                sync_folder(&path)?;
            } else {
                set_aside(&path, &kept)?;
            }
            self.remove_if_finished()?;
        }
        Ok(report)
    }

    /// As [`StateDir::namespace_of`], where a set can be undone by the caller; else [`UndoError::OtherNamespace`].
    pub fn require_namespace(&self, id: &SetId, header: &SetHeader) -> Result<SetNamespace, UndoError> {
        match self.namespace_of(header) {
            SetNamespace::Other { inode, .. } => Err(UndoError::OtherNamespace { set: id.to_string(), netns: inode }),
            namespace => Ok(namespace),
        }
    }

    /// Removes the state directory of a network namespace when no log is left in it.
    fn remove_if_finished(&self) -> Result<(), UndoError> {
        let Some(folder) = self.trusted_folder()?.filter(|_| self.inode_of_namespace().is_some()) else {
            return Ok(());
        };
        if numbers(&folder, LOG)?.is_empty() && numbers(&folder, DAMAGED)?.is_empty() {
            std::fs::remove_dir_all(&self.path).map_err(UndoError::log(&self.path, "remove"))?;
        }
        Ok(())
    }

    fn existing(&self, id: &SetId) -> Result<PathBuf, UndoError> {
        let missing = || UndoError::NoSuchSet(id.to_string());
        let number = number_of(id).ok_or_else(missing)?;
        let path = self.trusted_folder()?.ok_or_else(missing)?.join(file_of(number));
        if path.is_file() { Ok(path) } else { Err(missing()) }
    }

    /// Removes what earlier boots left: their settings died with them. What cannot be removed does no harm.
    fn forget_other_boots(&self, folder: &Path) {
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(is_boot_id) && entry.path() != folder;
            if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChangeInForce {
    pub knob: Knob,
    /// What an undo puts back.
    pub before: String,
    /// What the set made of it.
    pub ours: String,
    /// What it was asked to make of it: another value where the kernel rounds.
    #[serde(default)]
    pub wanted: String,
    pub why: String,
}

impl SetHeader {
    /// A header of this moment and this format.
    pub fn new(what: impl Into<String>, command: impl Into<String>, owner: Option<TaskKey>) -> Self {
        Self {
            format: FORMAT,
            what: what.into(),
            command: command.into(),
            owner,
            made_ns: clock::realtime_ns(),
            netns_cookie: None,
            details: serde_json::Value::Null,
        }
    }

    /// In the place of one that cannot be read.
    pub(super) fn unreadable() -> Self {
        Self { made_ns: 0, ..Self::new(UNREADABLE, "", None) }
    }

    pub(super) fn is_unreadable(&self) -> bool {
        self.what == UNREADABLE
    }
}

/// Whether a name looks like a boot id (a UUID), so that nothing else is ever removed or made.
fn is_boot_id(name: &str) -> bool {
    name.len() == 36
        && name.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn id_of(number: u32) -> SetId {
    SetId(format!("{number:04}"))
}

fn number_of(id: &SetId) -> Option<u32> {
    let digits = !id.0.is_empty() && id.0.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| id.0.parse().ok()).flatten()
}

fn file_of(number: u32) -> String {
    format!("{number:04}.jsonl")
}

/// The end of a log's name, and of one's that was damaged.
const LOG: &str = "jsonl";
const DAMAGED: &str = "damaged";

/// The numbers of the files of this kind in a folder, ascending; none when there is no folder.
fn numbers(folder: &Path, kind: &str) -> Result<Vec<u32>, UndoError> {
    let failed = UndoError::log(folder, "read");
    let names = match std::fs::read_dir(folder) {
        Ok(names) => names,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut numbers = Vec::new();
    for name in names {
        let name = PathBuf::from(name.map_err(&failed)?.file_name());
        let number = name.file_stem().filter(|_| name.extension().is_some_and(|extension| extension == kind));
        numbers.extend(number.and_then(|number| number.to_str()?.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn lost(kept: &Path, why: &str) -> String {
    format!("its log was damaged: {why}; what is left of it is kept as {}", kept.display())
}

/// Takes a damaged log out of the way of the others.
fn set_aside(path: &Path, kept: &Path) -> Result<(), UndoError> {
    std::fs::rename(path, kept).map_err(UndoError::log(path, "rename"))?;
    sync_folder(path)
}

/// The highest number that was ever used: a keeper that waits with a number must never meet another set.
fn last_number(folder: &Path) -> Option<u32> {
    std::str::from_utf8(&private::read(&folder.join("last")).ok()?).ok()?.trim().parse().ok()
}

/// Remembers the number of a set that is being made, so that its undo has nothing to write.
pub(super) fn remember_number(log: &Path) -> Result<(), UndoError> {
    let folder = log.parent().unwrap_or(Path::new("."));
    let number = log.file_stem().and_then(|number| number.to_str()?.parse::<u32>().ok()).unwrap_or(0);
    if last_number(folder).is_some_and(|last| last >= number) {
        return Ok(());
    }
    let path = folder.join("last");
    // Always of one length, so that it is written in place.
    let written = private::open(&path, OpenOptions::new().write(true).create(true).truncate(false))
        .and_then(|mut file| file.write_all(format!("{number:010}\n").as_bytes()));
    written.map_err(UndoError::log(&path, "write"))
}
