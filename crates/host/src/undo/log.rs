//! A change set's file: a header, then a line a step. Each line is one write, synced before what it announces is done.

use super::{Change, SetHeader, UndoError};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The format that is written and read.
pub(super) const FORMAT: u32 = 1;

/// One line after the header.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(super) enum Line {
    /// Written before the knob is.
    Before {
        /// Number of the change in this set, from 1.
        seq: u32,
        /// What is to be set.
        #[serde(flatten)]
        change: Change,
        /// Its value before.
        before: String,
    },
    /// Written when the knob was read back.
    After {
        /// Which change.
        seq: u32,
        /// What it became.
        after: String,
    },
    /// An older set that held the same knob was undone: this is now the value to put back.
    Rebase {
        /// Which change.
        seq: u32,
        /// Its value before.
        before: String,
    },
    /// Undone, or left to another with reason.
    Undone {
        /// Which change.
        seq: u32,
    },
}

/// A change as its lines tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: u32,
    pub(super) change: Change,
    pub(super) before: String,
    pub(super) after: Option<String>,
    pub(super) undone: bool,
}

impl Entry {
    /// Whether a value is what this change made of the knob.
    pub(super) fn made(&self, value: &str) -> bool {
        match &self.after {
            Some(after) => self.change.knob.same(value, after),
            // Killed between writing and reading back: a value that the kernel may round is taken for ours.
            None => !self.change.exact || self.change.knob.same(value, &self.change.wanted),
        }
    }

    /// Whether the kernel refused the change: it left the knob as it was.
    pub(super) fn was_refused(&self) -> bool {
        self.undone && self.after.as_ref().is_some_and(|after| self.change.knob.same(after, &self.before))
    }

    /// What this change made of the knob, as far as known.
    pub(super) fn ours(&self) -> &str {
        self.after.as_deref().unwrap_or(&self.change.wanted)
    }
}

/// A log as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) header: SetHeader,
    pub(super) entries: Vec<Entry>,
    /// Length up to the end of the last whole line.
    whole: usize,
}

impl Log {
    /// The next free number.
    pub(super) fn next(&self) -> u32 {
        self.entries.iter().map(|entry| entry.seq).max().map_or(1, |seq| seq.saturating_add(1))
    }
}

/// Reads a log's text. A last line without its end was being written when its writer died: the step that it announces
/// was not done, so it is left out. Any other line that cannot be read is an error.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Log, UndoError> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let bad = |line: usize, why: String| UndoError::Line { path: path.to_owned(), line: line + 1, why };
    let (_, first) = lines.next().ok_or_else(|| bad(0, "there is no header".to_owned()))?;
    let header: SetHeader = serde_json::from_slice(first).map_err(|error| bad(0, error.to_string()))?;
    if header.format != FORMAT {
        return Err(bad(0, format!("format {} is not known to this version", header.format)));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in lines {
        let line: Line = serde_json::from_slice(line).map_err(|error| bad(number, error.to_string()))?;
        let known = |entries: &mut Vec<Entry>, seq: u32| {
            let place = entries.iter().position(|entry| entry.seq == seq);
            place.ok_or_else(|| bad(number, format!("step {seq} was not announced")))
        };
        match line {
            Line::Before { seq, change, before } => {
                if entries.last().is_some_and(|last| last.seq >= seq) {
                    return Err(bad(number, format!("step {seq} comes out of order")));
                }
                entries.push(Entry { seq, change, before, after: None, undone: false });
            }
            Line::After { seq, after } => {
                let place = known(&mut entries, seq)?;
                entries[place].after = Some(after);
            }
            Line::Rebase { seq, before } => {
                let place = known(&mut entries, seq)?;
                entries[place].before = before;
            }
            Line::Undone { seq } => {
                let place = known(&mut entries, seq)?;
                entries[place].undone = true;
            }
        }
    }
    Ok(Log { header, entries, whole })
}

/// A log as text, for fuzzers.
#[doc(hidden)]
pub fn exercise_log(bytes: &[u8]) {
    if let Ok(log) = parse(Path::new("0001.jsonl"), bytes) {
        let _ = log.next();
        assert!(log.whole <= bytes.len());
    }
}

/// A log open for more lines.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Writer {
    /// Makes a new log with its header: under another name first, so that a log never lacks it.
    pub(super) fn create(path: &Path, header: &SetHeader) -> Result<Self, UndoError> {
        let fresh = path.with_extension("new");
        let failed = |step| move |cause| UndoError::Log { path: path.to_owned(), step, cause };
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).open(&fresh).map_err(failed("create"))?;
        let line = line_of(header).map_err(failed("write"))?;
        file.write_all(&line).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        if path.exists() {
            return Err(failed("create")(io::Error::from(io::ErrorKind::AlreadyExists)));
        }
        std::fs::rename(&fresh, path).map_err(failed("create"))?;
        sync_folder(path)?;
        Ok(Self { path: path.to_owned(), file, length: line.len() as u64 })
    }

    /// Opens a log that exists and cuts off a line that its writer died in.
    pub(super) fn open(path: &Path) -> Result<(Self, Log), UndoError> {
        let failed = |step| move |cause| UndoError::Log { path: path.to_owned(), step, cause };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed("read"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed("read"))?;
        let log = parse(path, &text)?;
        let length = log.whole as u64;
        if log.whole < text.len() {
            file.set_len(length).map_err(failed("write"))?;
        }
        file.seek(SeekFrom::Start(length)).map_err(failed("write"))?;
        Ok((Self { path: path.to_owned(), file, length }, log))
    }

    /// Appends a line with one write and syncs it.
    pub(super) fn append(&mut self, line: &Line) -> Result<(), UndoError> {
        let path = self.path.clone();
        let failed = |step| move |cause| UndoError::Log { path, step, cause };
        let line = line_of(line).map_err(failed.clone()("write"))?;
        match self.file.write(&line) {
            Ok(taken) if taken == line.len() => {}
            result => {
                // Half a line in the middle would make the log unreadable.
                let _ = self.file.set_len(self.length);
                let _ = self.file.seek(SeekFrom::Start(self.length));
                let cause = result.err().unwrap_or_else(|| io::Error::from(io::ErrorKind::WriteZero));
                return Err(failed("write")(cause));
            }
        }
        self.length += line.len() as u64;
        self.file.sync_data().map_err(failed("sync"))
    }
}

fn line_of(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Makes sure that a name in a folder, or its removal, is on the medium.
pub(super) fn sync_folder(file: &Path) -> Result<(), UndoError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|cause| UndoError::Log {
        path: folder.to_owned(),
        step: "sync",
        cause,
    })
}
