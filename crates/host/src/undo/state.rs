//! The directory of undo logs: its lock, its change sets, undoing one.

use super::fault::fault_point;
use super::log::{Entry, FORMAT, Writer, sync_folder};
use super::{Changes, UndoError};
use crate::knob::{Knob, Settings, TaskKey};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Between two looks at the lock.
const LOOK: Duration = Duration::from_millis(20);

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
    /// Format number of the log: 1.
    pub format: u32,
    /// What makes it: `shield`, `tune paper-2012`, `campaign`.
    pub what: String,
    /// The command, for people.
    pub command: String,
    /// Process that it goes with; absent: it stays until it is undone by hand.
    #[serde(default)]
    pub owner: Option<TaskKey>,
    /// Wall clock since 1970.
    pub made_ns: u64,
    /// What the maker wants to remember (a shield's spec), as JSON.
    #[serde(default)]
    pub details: serde_json::Value,
}

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
    boot: Option<String>,
}

/// Held while a machine is changed: a file lock (flock(2)) on a descriptor that is closed on exec.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

/// A value that is not ours any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Conflict {
    /// Which knob.
    pub knob: Knob,
    /// What we had set.
    pub ours: String,
    /// What it is now.
    pub now: String,
    /// What it was before, and is not put back to.
    pub before: String,
    /// Who changed it, where that can be told.
    pub who: Option<String>,
}

/// What an undo did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UndoReport {
    /// Knobs put back.
    pub restored: u32,
    /// Knobs that had their old value already, or whose task is gone.
    pub already: u32,
    /// Knobs that a newer change set holds: it will put back the value that this set would have.
    #[serde(default)]
    pub handed_over: u32,
    /// Knobs that another changed meanwhile: left as they are.
    pub conflicts: Vec<Conflict>,
    /// Knobs that could not be put back, with the reason; their log is kept.
    pub failed: Vec<String>,
}

impl StateDir {
    /// The usual place: `WINDHOVER_STATE`, or /run/windhover.
    #[must_use]
    pub fn usual() -> Self {
        let path = std::env::var_os("WINDHOVER_STATE").map_or_else(|| PathBuf::from("/run/windhover"), PathBuf::from);
        Self { path, boot: None }
    }

    /// Another place.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), boot: None }
    }

    /// The same place in another boot, for tests.
    #[must_use]
    pub fn in_boot(self, id: &str) -> Self {
        Self { boot: Some(id.to_owned()), ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of this boot.
    ///
    /// # Errors
    /// [`UndoError::NoBootId`].
    pub fn folder(&self) -> Result<PathBuf, UndoError> {
        let id = self.boot.clone().or_else(crate::boot_id).filter(|id| is_boot_id(id)).ok_or(UndoError::NoBootId)?;
        Ok(self.path.join(id))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`UndoError::Locked`] when the time is over.
    pub fn lock(&self, patience: Duration) -> Result<Lock, UndoError> {
        let path = self.path.join("lock");
        let failed = |step| {
            let path = path.clone();
            move |cause| UndoError::Log { path, step, cause }
        };
        std::fs::create_dir_all(&self.path).map_err(failed("create"))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed("create"))?;
        let deadline = Instant::now() + patience;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(mut file) => {
                    // Only words for those who wait.
                    let _ = file.set_len(0);
                    let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
                    return Ok(Lock { _file: file });
                }
                Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) => {
                    if Instant::now() >= deadline {
                        let holder = std::fs::read_to_string(&path).unwrap_or_default();
                        let holder = Some(holder.trim().to_owned()).filter(|holder| !holder.is_empty());
                        return Err(UndoError::Locked { holder: holder.unwrap_or_else(|| "unknown".to_owned()) });
                    }
                    file = back;
                    std::thread::sleep(LOOK.min(deadline.saturating_duration_since(Instant::now())));
                }
                Err((_, errno)) => return Err(failed("lock")(errno.into())),
            }
        }
    }

    /// The change sets of this boot, oldest first.
    ///
    /// # Errors
    /// [`UndoError::Log`] and [`UndoError::Line`].
    pub fn sets(&self) -> Result<Vec<(SetId, SetHeader)>, UndoError> {
        let folder = self.folder()?;
        let mut sets = Vec::new();
        for number in self.numbers(&folder)? {
            let path = folder.join(file_of(number));
            match std::fs::read(&path) {
                Ok(text) => sets.push((id_of(number), header_of(&path, &text)?)),
                // Undone by another meanwhile.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(UndoError::Log { path, step: "read", cause }),
            }
        }
        Ok(sets)
    }

    /// The changes of a set that are not undone, in the order they were made: knob, value before, value made, why.
    ///
    /// # Errors
    /// [`UndoError`], also when there is no such set.
    pub fn changes(&self, id: &SetId) -> Result<Vec<Held>, UndoError> {
        let path = self.existing(id)?;
        let text = std::fs::read(&path).map_err(|cause| UndoError::Log { path: path.clone(), step: "read", cause })?;
        let entries = super::log::parse(&path, &text)?.entries;
        let held = |entry: Entry| Held {
            ours: entry.ours().to_owned(),
            wanted: entry.change.wanted,
            knob: entry.change.knob,
            before: entry.before,
            why: entry.change.why,
        };
        Ok(entries.into_iter().filter(|entry| !entry.undone).map(held).collect())
    }

    /// The knobs that the kernel would not change for a set, and the value that they kept. To ask again would change
    /// nothing.
    ///
    /// # Errors
    /// As [`StateDir::changes`].
    pub fn refused(&self, id: &SetId) -> Result<Vec<(Knob, String)>, UndoError> {
        let path = self.existing(id)?;
        let text = std::fs::read(&path).map_err(|cause| UndoError::Log { path: path.clone(), step: "read", cause })?;
        let entries = super::log::parse(&path, &text)?.entries;
        Ok(entries.into_iter().filter(Entry::was_refused).map(|entry| (entry.change.knob, entry.before)).collect())
    }

    /// Opens a new change set. Its file is made with the first change, so that one without changes leaves no trace.
    /// Folders of earlier boots are removed.
    ///
    /// # Errors
    /// [`UndoError::Log`].
    pub fn begin(&self, _lock: &Lock, header: &SetHeader) -> Result<Changes, UndoError> {
        let folder = self.folder()?;
        std::fs::create_dir_all(&folder).map_err(|cause| UndoError::Log {
            path: folder.clone(),
            step: "create",
            cause,
        })?;
        self.forget_other_boots(&folder);
        let number = self.numbers(&folder)?.last().copied().max(last_number(&folder)).unwrap_or(0).saturating_add(1);
        let header = SetHeader { format: FORMAT, ..header.clone() };
        Ok(Changes { id: id_of(number), path: folder.join(file_of(number)), header, log: None, next: 1, held: 0 })
    }

    /// Opens a change set that exists, to add to it.
    ///
    /// # Errors
    /// [`UndoError::NoSuchSet`].
    pub fn reopen(&self, _lock: &Lock, id: &SetId) -> Result<Changes, UndoError> {
        let path = self.existing(id)?;
        let (writer, log) = Writer::open(&path)?;
        let next = log.next();
        let held = u32::try_from(log.entries.iter().filter(|entry| !entry.undone).count()).unwrap_or(u32::MAX);
        Ok(Changes { id: id.clone(), path, header: log.header, log: Some(writer), next, held })
    }

    /// Undoes a change set in strict reverse order: each knob only where its value is still ours (or with `force`),
    /// read back, retried while the kernel says EBUSY until `patience` is over. The log goes when nothing failed; a
    /// conflict does not keep it. What the shield of this set told others (`shield.json`) goes first.
    ///
    /// # Errors
    /// [`UndoError`] when the log cannot be read or written; knobs that resist are in the report.
    pub fn undo(
        &self,
        _lock: &Lock,
        settings: &dyn Settings,
        id: &SetId,
        force: bool,
        patience: Duration,
    ) -> Result<UndoReport, UndoError> {
        let path = self.existing(id)?;
        crate::shield::forget(self, id)?;
        let (mut writer, log) = Writer::open(&path)?;
        let mut newer = Vec::new();
        let folder = self.folder()?;
        for number in self.numbers(&folder)?.into_iter().filter(|&number| id_of(number) != *id) {
            // Numbers never return, so a higher one is newer.
            if number > number_of(id).unwrap_or(0) {
                newer.push(Writer::open(&folder.join(file_of(number)))?);
            }
        }
        let report = super::apart::take(settings, &mut writer, &log, &mut newer, force, patience)?;
        if report.failed.is_empty() {
            fault_point();
            remember_number(&folder, number_of(id).unwrap_or(0))?;
            fault_point();
            std::fs::remove_file(&path).map_err(|cause| UndoError::Log {
                path: path.clone(),
                step: "remove",
                cause,
            })?;
            sync_folder(&path)?;
        }
        Ok(report)
    }

    /// The log of a set that exists.
    fn existing(&self, id: &SetId) -> Result<PathBuf, UndoError> {
        let missing = || UndoError::NoSuchSet { id: id.to_string() };
        let number = number_of(id).ok_or_else(missing)?;
        let path = self.folder()?.join(file_of(number));
        if path.is_file() { Ok(path) } else { Err(missing()) }
    }

    /// The numbers of the sets in a folder, ascending; none when there is no folder.
    fn numbers(&self, folder: &Path) -> Result<Vec<u32>, UndoError> {
        let failed = |cause| UndoError::Log { path: folder.to_owned(), step: "read", cause };
        let names = match std::fs::read_dir(folder) {
            Ok(names) => names,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed(cause)),
        };
        let mut numbers = Vec::new();
        for name in names {
            let name = name.map_err(failed)?.file_name();
            numbers.extend(name.to_string_lossy().strip_suffix(".jsonl").and_then(|number| number.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
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

/// A change that is in force.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Held {
    /// Which knob.
    pub knob: Knob,
    /// What an undo puts back.
    pub before: String,
    /// What the set made of it.
    pub ours: String,
    /// What it was asked to make of it: another value where the kernel rounds.
    #[serde(default)]
    pub wanted: String,
    /// Why.
    pub why: String,
}

impl SetHeader {
    /// A header of this moment and this format.
    #[must_use]
    pub fn new(what: impl Into<String>, command: impl Into<String>, owner: Option<TaskKey>) -> Self {
        let made = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            format: FORMAT,
            what: what.into(),
            command: command.into(),
            owner,
            made_ns: u64::try_from(made.as_nanos()).unwrap_or(u64::MAX),
            details: serde_json::Value::Null,
        }
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

fn header_of(path: &Path, text: &[u8]) -> Result<SetHeader, UndoError> {
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(first).map_err(|error| UndoError::Line {
        path: path.to_owned(),
        line: 1,
        why: error.to_string(),
    })
}

/// The highest number that was ever used and undone: a keeper that waits with a number must never meet another set.
fn last_number(folder: &Path) -> Option<u32> {
    std::fs::read_to_string(folder.join("last")).ok()?.trim().parse().ok()
}

fn remember_number(folder: &Path, number: u32) -> Result<(), UndoError> {
    if last_number(folder).is_some_and(|last| last >= number) {
        return Ok(());
    }
    let path = folder.join("last");
    let fresh = folder.join("last.new");
    let written = std::fs::write(&fresh, format!("{number}\n")).and_then(|()| std::fs::rename(&fresh, &path));
    written.map_err(|cause| UndoError::Log { path, step: "write", cause })
}
