//! A change set's file: a header, then a line a step. Each line is one write, synced before what it announces is done.
//!
//! A line is a JSON object that ends with a checksum of all before it. Two things in a log are changed in place, which
//! needs no space: the header's count of changes, so that a log that was cut off is known by it; and each change's mark
//! of being undone, so that an undo works where nothing more can be written.

use super::{Change, SetHeader, UndoError};
use crate::knob::Knob;
use crate::private;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

pub(super) const FORMAT: u32 = 1;
/// Digits of the count of changes.
const DIGITS: usize = 10;
/// The values of a change's mark: two words that no damage to a single byte makes of each other.
const HELD: &str = "held";
const UNDONE: &str = "gone";

/// A setting that the kernel changes on its own when another is changed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct SideEffect {
    pub(super) knob: Knob,
    pub(super) before: String,
    /// What it was after the change; absent until that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}

impl SideEffect {
    /// Whether the kernel left it as it was; false where that is not known.
    pub(super) fn stayed(&self) -> bool {
        self.after.as_ref().is_some_and(|after| self.knob.same(after, &self.before))
    }
}

/// One line after the header.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(super) enum LogRecord {
    /// Written before the knob is.
    Before {
        /// Number of the change in this set, from 1.
        seq: u32,
        #[serde(flatten)]
        change: Change,
        before: String,
        /// What the kernel may change with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<SideEffect>,
    },
    /// Written when the knob was read back.
    After {
        seq: u32,
        after: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<SideEffect>,
    },
    /// An older set that held the same knob was undone: this is now the value to put back.
    Rebase { seq: u32, before: String },
    /// The same for a knob that the kernel may have changed with this set's.
    RebaseBeside {
        seq: u32,
        /// What is now known of that knob.
        now: SideEffect,
    },
    /// Undone, or left to another with reason. Written only where the change's own line has no mark for it.
    Undone { seq: u32 },
}

/// A change as its lines tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: u32,
    pub(super) change: Change,
    pub(super) before: String,
    pub(super) after: Option<String>,
    pub(super) beside: Vec<SideEffect>,
    pub(super) undone: bool,
    /// Where in the file the mark of being undone is.
    mark: Option<u64>,
}

impl Entry {
    pub(super) fn made(&self, value: &str) -> bool {
        match &self.after {
            Some(after) => self.change.knob.same(value, after),
            // Killed between writing and reading back: a value that the kernel may round counts as this set's.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) header: SetHeader,
    pub(super) entries: Vec<Entry>,
    /// What is wrong with the log, one line each.
    pub(super) damage: Vec<String>,
    /// How many changes it once held, as far as known.
    announced: u32,
    /// Length up to the end of the last whole line.
    whole: usize,
    /// Where in the file the count of changes is.
    count: Option<u64>,
}

impl Log {
    pub(super) fn next(&self) -> u32 {
        self.announced.saturating_add(1)
    }

    /// How many changes were made whose lines are lost.
    pub(super) fn missing(&self) -> u32 {
        self.announced.saturating_sub(u32::try_from(self.entries.len()).unwrap_or(u32::MAX))
    }

    /// What of it is lost, one line each; none when it is whole.
    pub(super) fn losses(&self) -> Vec<String> {
        let missing = (self.missing() > 0).then(|| {
            format!("{} of {} changes are missing from it: what they set stays", self.missing(), self.announced)
        });
        self.damage.iter().cloned().chain(missing).collect()
    }
}

/// Reads a log. Unreadable lines are named, a last one without end is left out. [`UndoError::Line`] for another format.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Log, UndoError> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let (entries, damage) = (Vec::new(), Vec::new());
    let mut log = Log { header: SetHeader::unreadable(), entries, damage, announced: 0, whole, count: None };
    let mut start = 0;
    for (number, line) in text[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
        let (at, content) = (start, &line[..line.len() - 1]);
        start += line.len();
        if content.is_empty() {
            continue;
        }
        let read = if number == 0 { log.read_header(content, at) } else { log.read_line(content, at) };
        if let Err(why) = read {
            log.damage.push(format!("line {} cannot be read ({why})", number + 1));
        }
    }
    if whole == 0 {
        log.damage.push("it is empty".to_owned());
    }
    if log.header.format != FORMAT {
        let why = format!("format {} is not known to this version", log.header.format);
        return Err(UndoError::Line { path: path.to_owned(), line: 1, why });
    }
    Ok(log)
}

impl Log {
    fn read_header(&mut self, line: &[u8], at: usize) -> Result<(), String> {
        let (object, tail) = unseal(line)?;
        self.header = serde_json::from_slice(&object).map_err(|error| error.to_string())?;
        if let Some((digits, from)) = field(tail, ",\"changes\":\"", DIGITS) {
            self.announced = digits.parse::<u32>().map_err(|_| format!("{digits} is no count of changes"))?;
            self.count = Some((at + object.len() - 1 + from) as u64);
        }
        Ok(())
    }

    fn read_line(&mut self, line: &[u8], at: usize) -> Result<(), String> {
        let (object, tail) = unseal(line)?;
        let line: LogRecord = serde_json::from_slice(&object).map_err(|error| error.to_string())?;
        let seq = match &line {
            LogRecord::Before { seq, .. }
            | LogRecord::After { seq, .. }
            | LogRecord::Rebase { seq, .. }
            | LogRecord::RebaseBeside { seq, .. }
            | LogRecord::Undone { seq } => *seq,
        };
        if let LogRecord::Before { change, before, beside, .. } = line {
            if seq == 0 || self.entries.last().is_some_and(|last| last.seq >= seq) {
                return Err(format!("step {seq} comes out of order"));
            }
            self.announced = self.announced.max(seq);
            if !change.knob.is_possible() {
                return Err(format!("{} is no setting", change.knob));
            }
            let mark = field(tail, ",\"state\":\"", HELD.len());
            let undone = mark.is_some_and(|(word, _)| word == UNDONE);
            let mark = mark.map(|(_, from)| (at + object.len() - 1 + from) as u64);
            self.entries.push(Entry { seq, change, before, after: None, beside, undone, mark });
            return Ok(());
        }
        let entry = self.entries.iter_mut().rfind(|entry| entry.seq == seq);
        let entry = entry.ok_or_else(|| format!("step {seq} was not announced"))?;
        match line {
            LogRecord::After { after, beside, .. } => {
                entry.after = Some(after);
                entry.beside = beside;
            }
            LogRecord::Rebase { before, .. } => entry.before = before,
            LogRecord::RebaseBeside { now, .. } => {
                entry.beside.iter_mut().filter(|beside| beside.knob == now.knob).for_each(|beside| {
                    beside.clone_from(&now);
                });
            }
            LogRecord::Undone { .. } | LogRecord::Before { .. } => entry.undone = true,
        }
        Ok(())
    }
}

/// A log as text, for fuzzers.
#[doc(hidden)]
pub fn exercise_log(bytes: &[u8]) {
    if let Ok(log) = parse(Path::new("0001.jsonl"), bytes) {
        let _ = (log.next(), log.losses());
        assert!(log.whole <= bytes.len());
        let inside = |at: Option<u64>| at.is_none_or(|at| usize::try_from(at).is_ok_and(|at| at < bytes.len()));
        assert!(inside(log.count) && log.entries.iter().all(|entry| inside(entry.mark)));
    }
}

/// An object as a line: `tail` is what may be changed later, and the checksum is over all before it.
fn seal(value: &impl serde::Serialize, tail: &str) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    // The closing brace comes again at the end.
    line.pop();
    let sum = checksum(&line);
    line.extend(format!("{tail},\"sum\":\"{sum:08x}\"}}\n").bytes());
    Ok(line)
}

/// A line as its object and its tail. One without a checksum, as earlier versions wrote it, is all object.
fn unseal(line: &[u8]) -> Result<(Vec<u8>, &str), String> {
    const SUM: &str = ",\"sum\":\"";
    let body = line.len().checked_sub(SUM.len() + 10).filter(|&body| line[body..].starts_with(SUM.as_bytes()));
    let Some(body) = body else { return Ok((line.to_vec(), "")) };
    let sum = std::str::from_utf8(&line[body + SUM.len()..body + SUM.len() + 8]).unwrap_or_default();
    let tails = [0, ",\"state\":\"\"".len() + HELD.len(), ",\"changes\":\"\"".len() + DIGITS];
    for length in tails {
        let Some((object, tail)) = body.checked_sub(length).map(|end| line[..body].split_at(end)) else { continue };
        if format!("{:08x}", checksum(object)) == sum {
            let tail = std::str::from_utf8(tail).map_err(|error| error.to_string())?;
            return Ok(([object, b"}"].concat(), tail));
        }
    }
    Err("its checksum is wrong".to_owned())
}

fn field<'a>(tail: &'a str, name: &str, length: usize) -> Option<(&'a str, usize)> {
    Some((tail.strip_prefix(name)?.get(..length)?, name.len()))
}

/// FNV-1a of 32 bits: it finds every change of a single byte.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A log open for more lines.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    length: u64,
    count: Option<u64>,
}

impl Writer {
    /// Makes a new log with its header: under another name first, so that a log never lacks it.
    pub(super) fn create(path: &Path, header: &SetHeader) -> Result<Self, UndoError> {
        let fresh = path.with_extension("new");
        let failed = |step| UndoError::log(path, step);
        let mut file = private::create(&fresh).map_err(failed("create"))?;
        let none = "0".repeat(DIGITS);
        let line = seal(header, &format!(",\"changes\":\"{none}\"")).map_err(failed("write"))?;
        file.write_all(&line).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        if path.exists() {
            return Err(failed("create")(io::Error::from(io::ErrorKind::AlreadyExists)));
        }
        std::fs::rename(&fresh, path).map_err(failed("create"))?;
        sync_folder(path)?;
        let log = parse(path, &line)?;
        Ok(Self { path: path.to_owned(), file, length: line.len() as u64, count: log.count })
    }

    /// Opens a log that exists and cuts off a line that its writer died in.
    pub(super) fn open(path: &Path) -> Result<(Self, Log), UndoError> {
        let failed = |step| UndoError::log(path, step);
        let mut file = private::open(path, OpenOptions::new().read(true).write(true)).map_err(failed("read"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed("read"))?;
        let log = parse(path, &text)?;
        let length = log.whole as u64;
        if log.whole < text.len() {
            file.set_len(length).map_err(failed("write"))?;
        }
        file.seek(SeekFrom::Start(length)).map_err(failed("write"))?;
        Ok((Self { path: path.to_owned(), file, length, count: log.count }, log))
    }

    /// Announces a change, counts it in the header, and syncs both.
    pub(super) fn announce(
        &mut self,
        seq: u32,
        change: &Change,
        before: &str,
        beside: &[SideEffect],
    ) -> Result<Entry, UndoError> {
        let (change, before, beside) = (change.clone(), before.to_owned(), beside.to_vec());
        let entry = Entry { seq, change, before, after: None, beside, undone: false, mark: None };
        let Entry { change, before, beside, .. } = entry.clone();
        self.put(&LogRecord::Before { seq, change, before, beside }, &format!(",\"state\":\"{HELD}\""))?;
        if let Some(at) = self.count {
            let counted = self.file.write_all_at(format!("{seq:0DIGITS$}").as_bytes(), at);
            counted.map_err(self.failed("write"))?;
        }
        self.sync()?;
        // In `held","sum":"01234567"}` and a newline the mark begins 24 bytes before the end.
        Ok(Entry { mark: self.length.checked_sub(24), ..entry })
    }

    /// Appends a line with one write and syncs it.
    pub(super) fn append(&mut self, line: &LogRecord) -> Result<(), UndoError> {
        self.put(line, "")?;
        self.sync()
    }

    pub(super) fn mark_undone(&mut self, entry: &Entry) -> Result<(), UndoError> {
        match entry.mark {
            Some(at) => {
                self.file.write_all_at(UNDONE.as_bytes(), at).map_err(self.failed("write"))?;
                self.sync()
            }
            None => self.append(&LogRecord::Undone { seq: entry.seq }),
        }
    }

    fn put(&mut self, line: &LogRecord, tail: &str) -> Result<(), UndoError> {
        let line = seal(line, tail).map_err(self.failed("write"))?;
        match self.file.write(&line) {
            Ok(taken) if taken == line.len() => {}
            result => {
                // Half a line in the middle would make what follows unreadable.
                let _ = self.file.set_len(self.length);
                let _ = self.file.seek(SeekFrom::Start(self.length));
                let cause = result.err().unwrap_or_else(|| io::Error::from(io::ErrorKind::StorageFull));
                return Err(self.failed("write")(cause));
            }
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn sync(&self) -> Result<(), UndoError> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn failed(&self, step: &'static str) -> impl Fn(io::Error) -> UndoError {
        UndoError::log(&self.path, step)
    }
}

/// Makes sure that a name in a folder, or its removal, is on the medium.
pub(super) fn sync_folder(file: &Path) -> Result<(), UndoError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(UndoError::log(folder, "sync"))
}
