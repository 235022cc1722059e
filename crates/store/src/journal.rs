//! `journal.jsonl`: one [`JournalLine`] a line, fsynced before anything relies on it.

use crate::{Folder, StoreError, cell, folder};
use model::JournalLine;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const NAME: &str = "journal.jsonl";

/// The journal's lines, and the length of the file up to the end of the last whole one: a last line without its newline was
/// torn, and is left out. `path` is only named in errors.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<(Vec<JournalLine>, u64), StoreError> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    Ok((cell::parse_lines(path, &bytes[..whole], false).map_err(or_newer)?, whole as u64))
}

/// A line whose step this version does not know is whole, and of a newer one.
fn or_newer(error: StoreError) -> StoreError {
    let StoreError::DamagedLine { path, line, why } = error else { return error };
    match why.strip_prefix("unknown variant `").and_then(|rest| rest.split_once('`')) {
        Some((step, _)) => StoreError::NewerLine { path, line, step: step.to_owned() },
        None => StoreError::DamagedLine { path, line, why },
    }
}

/// Appends lines. Its file lock (flock(2), close-on-exec) keeps a second runner away, and ends with the process.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    path: PathBuf,
    file: File,
    /// Length up to the end of the last line known to be on disk.
    length: u64,
}

impl JournalWriter {
    pub(crate) fn create(run: &Folder) -> Result<Self, StoreError> {
        let path = run.path().join(NAME);
        let file = run.file(NAME, OpenOptions::new().append(true).create_new(true))?;
        lock(&path, &file)?;
        Ok(Self { path, file, length: 0 })
    }

    /// Opens a journal, locks it, reads it, and cuts off a torn last line. Where there is none an empty one is made.
    pub(crate) fn open(run: &Folder) -> Result<(Self, Vec<JournalLine>), StoreError> {
        let path = run.path().join(NAME);
        let mut file = run.file(NAME, OpenOptions::new().read(true).append(true).create(true))?;
        lock(&path, &file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|cause| StoreError::reading(&path, cause))?;
        let (lines, length) = parse(&path, &bytes)?;
        file.set_len(length).map_err(|cause| StoreError::writing(&path, cause))?;
        Ok((Self { path, file, length }, lines))
    }

    /// Writes one line and waits until it is on disk. One that could not be written whole is cut off again.
    pub(crate) fn append(&mut self, line: &JournalLine) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec(line).map_err(|error| StoreError::encoding("journal line", &error))?;
        text.push(b'\n');
        match self.file.write_all(&text).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(cause) => {
                let _ = self.file.set_len(self.length);
                Err(StoreError::writing(&self.path, cause))
            }
        }
    }
}

/// How often the lock is tried, as a listing takes it for a moment, and the time between.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

fn lock(path: &Path, file: &File) -> Result<(), StoreError> {
    let run = path.parent().unwrap_or(path);
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            Err(TryLockError::Error(cause)) => return Err(StoreError::writing(path, cause)),
        }
    }
    Err(StoreError::Busy(run.to_owned()))
}

/// Whether a living process holds the journal's lock. A file that cannot be asked is taken as free.
pub(crate) fn is_locked(path: &Path) -> bool {
    folder::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn start(index: u32) -> JournalLine {
        JournalLine::Start { index, at_ns: 7 }
    }

    #[test]
    fn a_torn_last_line_is_left_out_at_every_byte() {
        let whole = format!(
            "{}\n{}\n",
            serde_json::to_string(&start(1)).unwrap(),
            serde_json::to_string(&JournalLine::Done { index: 1, at_ns: 9 }).unwrap()
        );
        let first = whole.find('\n').unwrap() + 1;
        for cut in 0..=whole.len() {
            let (lines, _) = parse(Path::new("j"), &whole.as_bytes()[..cut]).unwrap();
            let expected = usize::from(cut >= first) + usize::from(cut == whole.len());
            assert_eq!(lines.len(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn any_other_damaged_line_is_named() {
        for text in
            ["{}\n", "{\"step\":\"start\"\n{\"step\":\"end\",\"at_ns\":1,\"outcome\":\"done\"}\n", "\n", "\u{0}\n"]
        {
            let error = parse(Path::new("run/journal.jsonl"), text.as_bytes()).err().unwrap().to_string();
            assert!(error.contains("run/journal.jsonl: line 1 is damaged"), "{error}");
            assert!(!error.contains('\n'));
        }
        let text = b"{\"step\":\"start\",\"index\":1,\"at_ns\":1}\n\xff\xfe\n{\"step\"";
        let error = parse(Path::new("j"), text).err().unwrap().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    /// Catches: a run that a newer version went on with was told to be damaged, and to be measured again.
    #[test]
    fn a_step_of_a_newer_version_is_no_damage() {
        let text = b"{\"step\":\"start\",\"index\":1,\"at_ns\":1}\n{\"step\":\"hibernated\",\"at_ns\":2}\n";
        let error = parse(Path::new("run/journal.jsonl"), text).err().unwrap();
        assert_eq!(
            error.to_string(),
            "run/journal.jsonl: line 2 (step 'hibernated') was written by a newer windhover: use that one"
        );
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn reopening_cuts_the_torn_line_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let run = Folder::open(folder.path()).unwrap();
        let mut writer = JournalWriter::create(&run).unwrap();
        writer.append(&start(1)).unwrap();
        drop(writer);
        let mut torn = fs::read(&path).unwrap();
        torn.extend_from_slice(b"{\"step\":\"done\",\"ind");
        fs::write(&path, &torn).unwrap();
        let (mut writer, lines) = JournalWriter::open(&run).unwrap();
        assert_eq!(lines, [start(1)]);
        writer.append(&start(2)).unwrap();
        assert_eq!(parse(&path, &fs::read(&path).unwrap()).unwrap().0, [start(1), start(2)]);
    }

    #[test]
    fn one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let run = Folder::open(folder.path()).unwrap();
        let writer = JournalWriter::create(&run).unwrap();
        assert!(is_locked(&path));
        let error = JournalWriter::open(&run).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        drop(writer);
        assert!(!is_locked(&path));
        JournalWriter::open(&run).unwrap();
    }

    #[test]
    fn a_full_disk_leaves_the_journal_whole() {
        // /dev/full cannot be locked or cut, so the writer is put together by hand.
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        let mut writer = JournalWriter { path, file, length: 0 };
        let error = writer.append(&start(1)).unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        assert_eq!(writer.length, 0);
    }
}
