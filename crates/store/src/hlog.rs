//! Interval logs of cells, read in pieces by several threads: a day of 100 ms intervals has 0.8 GB.

use crate::{StoreError, cell, folder};
use stats::interval_log::{Extent, Interval, Lines, Survey, Units};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// So much of a line is read on after a piece; the rest of a longer one is left out. No histogram is as long.
const LONGEST_LINE: u64 = 4 << 20;

#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    units: Units,
    parts: Vec<Part>,
    survey: Survey,
}

/// Whole lines of a log, which one thread reads.
#[derive(Debug)]
struct Part {
    bytes: Range<u64>,
    lines_before: usize,
}

impl Log {
    /// The log of a cell, without its histograms, for so many threads; `None` where the cell has none. Errors: [`StoreError::Read`],
    /// [`StoreError::NoFile`].
    pub fn open(run: &Path, index: u32, threads: usize) -> Result<Option<Self>, StoreError> {
        let path = cell::path(run, index, ".hlog");
        let Some(file) = folder::open_if_there(&path)? else { return Ok(None) };
        let failed = |cause| StoreError::reading(&path, cause);
        let mut head = Vec::new();
        (&file).take(PIECE).read_to_end(&mut head).map_err(failed)?;
        let units = Units::of_head(&String::from_utf8_lossy(&head));
        let parts = parts(&file, threads).map_err(failed)?;
        let mut log = Self { path, units, parts, survey: Survey::default() };
        log.look()?;
        let base_s = log.survey.base_s();
        if base_s > 0.0 {
            log.units.base_s = base_s;
            log.look()?;
        }
        Ok(Some(log))
    }

    fn look(&mut self) -> Result<(), StoreError> {
        let units = self.units;
        let found = self.each_part(|pieces| {
            let mut survey = Survey::default();
            loop {
                match pieces.text()? {
                    text if text.is_empty() => return Ok(survey),
                    text => survey.add(&text, units),
                }
            }
        })?;
        self.survey = Survey::default();
        for (part, found) in self.parts.iter_mut().zip(found) {
            part.lines_before = self.survey.lines;
            self.survey.append(found);
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lines that cannot be read: number and why.
    pub fn damaged(&self) -> &[(usize, String)] {
        &self.survey.damaged
    }

    /// The tags of the lines, and those that stand for several reflectors'.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.survey.tags.keys().flat_map(|tag| [tag, bare(tag)])
    }

    /// The tags whose lines are those of a tag, ascending: itself, or all reflectors' where no line has the tag itself.
    pub fn of_tag(&self, tag: &str) -> Vec<&str> {
        match self.survey.tags.get_key_value(tag) {
            Some((own, _)) => vec![own],
            None => self.survey.tags.keys().map(String::as_str).filter(|own| bare(own) == tag).collect(),
        }
    }

    /// When the intervals of a tag are, as [`Log::of_tag`] takes it; `None` without any.
    pub fn extent(&self, tag: &str) -> Option<Extent> {
        self.of_tag(tag).into_iter().filter_map(|own| self.survey.tags.get(own)).copied().reduce(Extent::with)
    }

    /// Reads the log, part by part in the order of lines, each with `work` on a thread of its own. Errors: those of `work`, and
    /// [`StoreError::Read`].
    pub fn each_part<T: Send>(
        &self,
        work: impl Fn(&mut Pieces) -> Result<T, StoreError> + Sync,
    ) -> Result<Vec<T>, StoreError> {
        let work = |part| work(&mut Pieces::open(self, part)?);
        std::thread::scope(|scope| {
            let running: Vec<_> = self.parts.iter().map(|part| scope.spawn(move || work(part))).collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}

/// A tag without the reflector's name.
fn bare(tag: &str) -> &str {
    tag.split_once('@').map_or(tag, |(bare, _)| bare)
}

/// Parts of about one length that begin with a line.
fn parts(file: &File, threads: usize) -> std::io::Result<Vec<Part>> {
    let (length, threads) = (file.metadata()?.len(), threads.clamp(1, 16) as u64);
    let mut reader = BufReader::new(file);
    let mut ends = Vec::new();
    for part in 1..threads {
        let from = length / threads * part;
        reader.seek(SeekFrom::Start(from))?;
        ends.push((from + reader.skip_until(b'\n')? as u64).min(length));
    }
    ends.push(length);
    let begins = std::iter::once(0).chain(ends.clone());
    let parts = begins.zip(ends).map(|(begin, end)| Part { bytes: begin..end, lines_before: 0 });
    Ok(parts.filter(|part| !part.bytes.is_empty()).collect())
}

/// A part of a log, piece by piece.
#[derive(Debug)]
pub struct Pieces {
    path: PathBuf,
    units: Units,
    lines_before: usize,
    file: BufReader<std::io::Take<File>>,
    piece: Vec<u8>,
}

impl Pieces {
    fn open(log: &Log, part: &Part) -> Result<Self, StoreError> {
        let mut file = folder::open(&log.path)?;
        file.seek(SeekFrom::Start(part.bytes.start)).map_err(|cause| StoreError::reading(&log.path, cause))?;
        let file = BufReader::new(file.take(part.bytes.end - part.bytes.start));
        Ok(Self { path: log.path.clone(), units: log.units, lines_before: part.lines_before, file, piece: Vec::new() })
    }

    fn fill(&mut self) -> std::io::Result<()> {
        self.piece.clear();
        self.file.by_ref().take(PIECE).read_to_end(&mut self.piece)?;
        let is_cut = |piece: &[u8]| !piece.is_empty() && !piece.ends_with(b"\n");
        if is_cut(&self.piece) {
            self.file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.piece)?;
        }
        if is_cut(&self.piece) {
            self.file.skip_until(b'\n')?;
        }
        Ok(())
    }

    /// The next piece of whole lines; empty at the end. Bytes that are no text make their line damaged.
    fn text(&mut self) -> Result<Cow<'_, str>, StoreError> {
        self.fill().map_err(|cause| StoreError::reading(&self.path, cause))?;
        // Where nothing is damaged, this is several times faster than the other.
        Ok(std::str::from_utf8(&self.piece).map_or_else(|_| String::from_utf8_lossy(&self.piece), Cow::Borrowed))
    }

    /// Hands each line that can be read to `each`, in order. Errors: [`StoreError::Read`].
    pub fn intervals(&mut self, mut each: impl FnMut(Interval<'_>)) -> Result<(), StoreError> {
        loop {
            let (before, units) = (self.lines_before, self.units);
            let text = self.text()?;
            if text.is_empty() {
                return Ok(());
            }
            let mut lines = Lines::new(&text, before, units);
            lines.by_ref().flatten().for_each(&mut each);
            self.lines_before = lines.read();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(bytes: &[u8], threads: usize) -> (tempfile::TempDir, Log) {
        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(run.path().join("cells")).unwrap();
        std::fs::write(run.path().join("cells/0001.hlog"), bytes).unwrap();
        let log = Log::open(run.path(), 1, threads).unwrap().unwrap();
        (run, log)
    }

    fn intervals(log: &Log) -> Vec<(usize, String, u64, String)> {
        let parts = log.each_part(|pieces| {
            let mut found = Vec::new();
            pieces.intervals(|line| {
                found.push((line.number, line.tag.to_owned(), line.start_ns, line.histogram.to_owned()));
            })?;
            Ok(found)
        });
        parts.unwrap().concat()
    }

    /// Catches: a line read twice or not at all where a piece or a part ends, numbers that begin anew there, and starts since
    /// 1970 that are counted from the first of each part.
    #[test]
    fn parts_and_pieces_are_as_the_whole() {
        let mut text = String::from("#[MaxValueDivisor: 1000.0]\n");
        for number in 0..40_000 {
            let fill = "H".repeat(1 + number * 7919 % 120);
            text.push_str(&format!("Tag=rtt@{},{}.5,1,2,{fill}\n", number % 3, 1_700_000_000 + number));
        }
        text.push_str("bad");
        assert!(text.len() as u64 > 2 * PIECE);
        let (_run, whole) = log(text.as_bytes(), 1);
        let expected = intervals(&whole);
        assert_eq!((expected.len(), expected[39_999].0, expected[39_999].2), (40_000, 40_001, 39_999_000_000_000));
        for threads in [2, 3, 16] {
            let (_run, log) = log(text.as_bytes(), threads);
            assert_eq!(log.parts.len(), threads);
            assert_eq!(intervals(&log), expected);
            assert_eq!((log.damaged(), log.survey.first_s), (whole.damaged(), 1_700_000_000.5));
        }
        assert_eq!(
            (whole.of_tag("rtt").len(), whole.of_tag("rtt@2"), whole.of_tag("rtt@9")),
            (3, vec!["rtt@2"], vec![])
        );
        assert_eq!(whole.tags().collect::<Vec<_>>(), ["rtt@0", "rtt", "rtt@1", "rtt", "rtt@2", "rtt"]);
        assert_eq!(whole.extent("rtt").unwrap().last_ns, 39_999_000_000_000);
        assert_eq!(whole.extent("lateness"), None);
    }

    /// Catches: a line without end that takes all memory, and one that moves the numbers of the others.
    #[test]
    fn a_line_that_is_too_long_is_one_line() {
        let long = "x".repeat(usize::try_from(4 * LONGEST_LINE).unwrap());
        let (_run, log) = log(&[b"1,1,1,H\n", long.as_bytes(), b"\n2,1,1,\xff\n3,1,1,H\n"].concat(), 3);
        assert_eq!(intervals(&log).iter().map(|line| line.0).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(log.damaged().iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2]);
        let pieces = log.each_part(|pieces| pieces.intervals(|_| ()).map(|()| pieces.piece.capacity() as u64)).unwrap();
        assert!(pieces.iter().all(|most| *most < 4 * LONGEST_LINE), "{pieces:?}");
    }

    #[test]
    fn a_cell_need_not_have_a_log() {
        let (run, empty) = log(b"", 2);
        assert_eq!((empty.tags().count(), intervals(&empty).len()), (0, 0));
        assert!(Log::open(run.path(), 2, 2).unwrap().is_none());
    }
}
