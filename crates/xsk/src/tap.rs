//! Copies of frames for another process, which captures them: a ring in memory that both share. Whoever has the frames writes
//! ([`Tap`]), without a system call, a lock or a wait; what finds no room is counted. Whoever captures reads ([`TapReader`]).
//!
//! The memory is a file without a name that the reader makes and seals, so that it cannot shrink under the writer. The writer
//! opens it through `/proc/PID/fd/FD`, and keeps no descriptor. Nothing is left when both have ended, however they did. Each end
//! keeps its own position to itself, and checks the other's: a hostile end loses or garbles frames, and does nothing else.

use crate::Backend;
use crate::sys::{self, Mapping};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const MAGIC: u64 = u64::from_ne_bytes(*b"WHTAP\0\0\x01");
/// Words of the ring's head, a page. [`TAIL`], [`HEAD`] and [`DROPPED`] have cache lines of their own.
const HEAD_WORDS: usize = 512;
const AT_MAGIC: usize = 0;
/// The process that writes; 0: none.
const AT_OWNER: usize = 1;
/// Bytes kept of each frame.
const AT_SNAP: usize = 2;
/// Back-end + 1, and the interface's name in two words.
const AT_BACKEND: usize = 3;
const AT_NAME: usize = 4;
/// Words written and read since the ring was made.
const AT_HEAD: usize = 8;
const AT_TAIL: usize = 16;
/// Frames that found no room.
const AT_DROPPED: usize = 24;
/// Words of a record before its frame: lengths and direction, then the time.
const RECORD_WORDS: u64 = 2;
/// Width of a length in a record's first word.
const LENGTH_BITS: u32 = 24;
const LENGTH: u64 = (1 << LENGTH_BITS) - 1;
/// The longest frame that is kept whole: a TCP segment before segmentation.
const LONGEST: usize = 65_536 + 64;
/// Sizes of a ring in MiB.
const MOST_MIB: u32 = 1024;
/// How the file is called in `/proc/PID/fd`.
const FILE_NAME: &str = "/memfd:windhover-capture (deleted)";

/// Memory that several processes share, as words. The file must not become shorter.
#[derive(Debug)]
pub struct SharedWords(Mapping);

impl SharedWords {
    /// Maps the first `words` of a file that has as many. Errors: the file is too short, or the kernel refuses.
    pub fn map(file: &File, words: usize) -> io::Result<Self> {
        if file.metadata()?.len() < words as u64 * 8 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Mapping::new(Some(file.as_raw_fd()), words * 8, 0).map(Self)
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        let bytes = self.0.len();
        #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
        let first = self.0.at(0, bytes).cast::<AtomicU64>().cast_const();
        // SAFETY: the mapping has this many words, aligned, lives as long as this value, and every process accesses it atomically.
        unsafe { std::slice::from_raw_parts(first, bytes / 8) }
    }
}

fn at<W: Deref<Target = [AtomicU64]>>(words: &W, index: usize) -> u64 {
    words.get(index).map_or(0, |word| word.load(Relaxed))
}

fn put<W: Deref<Target = [AtomicU64]>>(words: &W, index: usize, value: u64) {
    if let Some(word) = words.get(index) {
        word.store(value, Relaxed);
    }
}

/// The ring's records from a position on: those up to the ring's end, then those from its start.
fn parts<W: Deref<Target = [AtomicU64]>>(words: &W, position: u64) -> (&[AtomicU64], &[AtomicU64]) {
    let records = words.get(HEAD_WORDS..).unwrap_or_default();
    let mask = records.len().saturating_sub(1);
    #[expect(clippy::cast_possible_truncation, reason = "the mask keeps what is below the ring's length")]
    let (before, behind) = records.split_at_checked(position as usize & mask).unwrap_or_default();
    (behind, before)
}

/// Words for records in memory of this many words; none where that is no ring.
fn capacity(words: usize) -> Option<u64> {
    words.checked_sub(HEAD_WORDS).filter(|records| records.is_power_of_two()).map(|records| records as u64)
}

#[derive(Debug)]
struct Writer<W> {
    words: W,
    capacity: u64,
    snap: usize,
    head: u64,
    /// What the reader said last.
    tail: u64,
    dropped: u64,
}

impl<W: Deref<Target = [AtomicU64]>> Writer<W> {
    /// Goes on where the ring is; `None` where it is none.
    fn new(words: W) -> Option<Self> {
        let capacity = capacity(words.len()).filter(|_| at(&words, AT_MAGIC) == MAGIC)?;
        let snap = usize::try_from(at(&words, AT_SNAP)).unwrap_or(LONGEST).min(LONGEST);
        let (head, tail, dropped) = (at(&words, AT_HEAD), at(&words, AT_TAIL), at(&words, AT_DROPPED));
        Some(Self { words, capacity, snap, head, tail, dropped })
    }

    /// Words that may be written; a reader that is said to be ahead leaves none.
    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.head.wrapping_sub(self.tail))
    }

    /// Copies a frame; the time is asked for only where it has room.
    #[inline]
    fn frame(&mut self, time_ns: impl FnOnce() -> u64, leaving: bool, frame: &[u8]) {
        let kept = frame.get(..self.snap).unwrap_or(frame);
        let needed = RECORD_WORDS + kept.len().div_ceil(8) as u64;
        if self.room() < needed {
            self.tail = self.words.get(AT_TAIL).map_or(self.tail, |tail| tail.load(Acquire));
            if self.room() < needed {
                self.dropped = self.dropped.wrapping_add(1);
                put(&self.words, AT_DROPPED, self.dropped);
                return;
            }
        }
        let lengths = kept.len() as u64 | (frame.len() as u64 & LENGTH) << LENGTH_BITS;
        let first = lengths | u64::from(leaving) << (2 * LENGTH_BITS);
        let (whole, rest) = kept.as_chunks::<8>();
        let content = self.head.wrapping_add(RECORD_WORDS);
        self.store(self.head, &[first.to_ne_bytes(), time_ns().to_ne_bytes()]);
        self.store(content, whole);
        if !rest.is_empty() {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.store(content.wrapping_add(whole.len() as u64), &[last]);
        }
        self.head = self.head.wrapping_add(needed);
        if let Some(head) = self.words.get(AT_HEAD) {
            head.store(self.head, Release);
        }
    }

    /// Writes words from a position on, around the ring's end.
    #[inline]
    fn store(&self, position: u64, values: &[[u8; 8]]) {
        let (behind, before) = parts(&self.words, position);
        let (first, second) = values.split_at(values.len().min(behind.len()));
        for (slots, values) in [(behind, first), (before, second)] {
            for (slot, value) in slots.iter().zip(values) {
                slot.store(u64::from_ne_bytes(*value), Relaxed);
            }
        }
    }
}

/// A frame as it was captured; its bytes are in the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TappedFrame {
    /// When the program took it or gave it to the interface, CLOCK_REALTIME in ns.
    pub time_ns: u64,
    /// Whether the program sent it.
    pub leaving: bool,
    /// Its length before it was cut, in bytes.
    pub length: u32,
}

/// The other end wrote what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ring of frames is damaged: the program, or its memory, is broken")]
pub struct DamagedRing;

#[derive(Debug)]
struct Reading<W> {
    words: W,
    capacity: u64,
    tail: u64,
}

impl<W: Deref<Target = [AtomicU64]>> Reading<W> {
    fn new(words: W) -> Option<Self> {
        let capacity = capacity(words.len())?;
        let tail = at(&words, AT_TAIL);
        Some(Self { words, capacity, tail })
    }

    fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<TappedFrame>, DamagedRing> {
        let head = self.words.get(AT_HEAD).map_or(self.tail, |head| head.load(Acquire));
        let waiting = head.wrapping_sub(self.tail);
        if waiting == 0 {
            return Ok(None);
        }
        if !(RECORD_WORDS..=self.capacity).contains(&waiting) {
            return Err(DamagedRing);
        }
        let (behind, before) = parts(&self.words, self.tail);
        let mut record = behind.iter().chain(before).map(|word| word.load(Relaxed));
        let (Some(first), Some(time_ns)) = (record.next(), record.next()) else { return Err(DamagedRing) };
        let (kept, length) = (first & LENGTH, first >> LENGTH_BITS & LENGTH);
        let words = kept.div_ceil(8);
        let bytes = usize::try_from(kept).ok().filter(|bytes| *bytes <= LONGEST).ok_or(DamagedRing)?;
        if kept > length || RECORD_WORDS + words > waiting {
            return Err(DamagedRing);
        }
        frame.clear();
        record.take(bytes.div_ceil(8)).for_each(|word| frame.extend_from_slice(&word.to_ne_bytes()));
        frame.truncate(bytes);
        self.tail = self.tail.wrapping_add(RECORD_WORDS + words);
        if let Some(tail) = self.words.get(AT_TAIL) {
            tail.store(self.tail, Release);
        }
        let leaving = first >> (2 * LENGTH_BITS) & 1 == 1;
        Ok(Some(TappedFrame { time_ns, leaving, length: u32::try_from(length).unwrap_or(u32::MAX) }))
    }
}

/// Where a reader's ring is, by what it handed over: process, and descriptor + 1.
fn place(request: u64) -> String {
    format!("/proc/{}/fd/{}", request >> 32, (request & u64::from(u32::MAX)).wrapping_sub(1))
}

/// Whether a reader that handed this over still has its ring.
pub fn is_tap_open(request: u64) -> bool {
    request != 0 && fs::read_link(place(request)).is_ok_and(|file| file.as_os_str() == FILE_NAME)
}

/// The end that copies frames into the ring.
#[derive(Debug)]
pub struct Tap {
    ring: Writer<SharedWords>,
    request: u64,
    file: (u64, u64),
    process: u64,
}

impl Tap {
    /// Opens a reader's ring. One process at a time writes. Errors: the reader has ended, belongs to another user, has
    /// another writer (EBUSY), or what it handed over is no such ring (EINVAL).
    pub fn open(request: u64) -> io::Result<Self> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let busy = || io::Error::from_raw_os_error(libc::EBUSY);
        let process = u64::from(std::process::id());
        let is_ours = |owner: u64| owner == 0 || owner == process;
        let options = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).write(true).custom_flags(options).open(place(request))?;
        // SAFETY: takes numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let facts = file.metadata()?;
        let words = usize::try_from(facts.len() / 8).unwrap_or(0);
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || capacity(words).is_none() {
            return Err(invalid());
        }
        let mut owner = [0; 8];
        file.read_exact_at(&mut owner, AT_OWNER as u64 * 8)?;
        if !is_ours(u64::from_ne_bytes(owner)) {
            return Err(busy());
        }
        let words = SharedWords::map(&file, words)?;
        if at(&words, AT_MAGIC) != MAGIC {
            return Err(invalid());
        }
        let claimed = words.get(AT_OWNER).map(|owner| owner.compare_exchange(0, process, Acquire, Relaxed));
        if !matches!(claimed, Some(Ok(_))) && !claimed.is_some_and(|was| was.is_err_and(is_ours)) {
            return Err(busy());
        }
        let ring = Writer::new(words).ok_or_else(invalid)?;
        Ok(Self { ring, request, file: (facts.dev(), facts.ino()), process })
    }

    /// Tells the reader what it captures on.
    pub fn describe(&mut self, interface: &str, backend: Backend) {
        let mut name = [0; 16];
        name.iter_mut().zip(interface.bytes()).for_each(|(to, from)| *to = from);
        for (index, eight) in name.as_chunks::<8>().0.iter().enumerate() {
            put(&self.ring.words, AT_NAME + index, u64::from_ne_bytes(*eight));
        }
        let number = Backend::ALL.iter().position(|one| *one == backend).map_or(0, |index| index as u64 + 1);
        // Last: whoever sees the back-end sees the name.
        if let Some(word) = self.ring.words.get(AT_BACKEND) {
            word.store(number, Release);
        }
    }

    /// Copies a frame, with the time.
    pub fn frame(&mut self, leaving: bool, frame: &[u8]) {
        self.ring.frame(sys::real_time_ns, leaving, frame);
    }

    pub fn request(&self) -> u64 {
        self.request
    }

    /// Whether the reader still has the ring: makes a system call.
    pub fn has_reader(&self) -> bool {
        fs::metadata(place(self.request)).is_ok_and(|facts| (facts.dev(), facts.ino()) == self.file)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if let Some(owner) = self.ring.words.get(AT_OWNER) {
            // Whoever else wrote there has it.
            let _ = owner.compare_exchange(self.process, 0, Release, Relaxed);
        }
    }
}

/// The end that makes the ring and reads frames.
#[derive(Debug)]
pub struct TapReader {
    ring: Reading<SharedWords>,
    file: OwnedFd,
}

impl TapReader {
    /// A ring of this many MiB (a power of two up to 1024) that keeps `snap` bytes of each frame. Errors:
    /// [`io::ErrorKind::InvalidInput`] for another size; the memory is not there.
    pub fn new(mib: u32, snap: u32) -> io::Result<Self> {
        if !mib.is_power_of_two() || mib > MOST_MIB {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let words = HEAD_WORDS + ((mib as usize) << 17);
        let file = File::from(sys::sealed_memory(c"windhover-capture", words * 8)?);
        let words = SharedWords::map(&file, words)?;
        put(&words, AT_SNAP, u64::from(snap));
        put(&words, AT_MAGIC, MAGIC);
        let ring = Reading::new(words).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { ring, file: file.into() })
    }

    /// What [`Tap::open`] takes, in another process.
    pub fn request(&self) -> u64 {
        let descriptor = u64::from(self.file.as_raw_fd().unsigned_abs()) + 1;
        u64::from(std::process::id()) << 32 | descriptor
    }

    pub fn owner(&self) -> Option<u32> {
        let owner = self.ring.words.get(AT_OWNER).map_or(0, |owner| owner.load(Acquire));
        u32::try_from(owner).ok().filter(|process| *process != 0)
    }

    /// Lets another process write, after `owner` has died.
    pub fn release(&self, owner: u32) {
        if let Some(word) = self.ring.words.get(AT_OWNER) {
            let _ = word.compare_exchange(u64::from(owner), 0, Release, Relaxed);
        }
    }

    /// Name of the writer's interface, and how its frames get past the kernel: none before the writer has given them.
    pub fn described(&self) -> (String, Option<Backend>) {
        let number = self.ring.words.get(AT_BACKEND).map_or(0, |word| word.load(Acquire));
        let backend = usize::try_from(number).ok().and_then(|number| Backend::ALL.get(number.checked_sub(1)?)).copied();
        let name = [AT_NAME, AT_NAME + 1].map(|index| at(&self.ring.words, index).to_ne_bytes()).concat();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).replace(|letter: char| letter.is_control(), "?");
        (name, backend)
    }

    /// The next frame, its bytes in `frame`; `None` where none waits. Errors: the writer is broken: nothing more can be
    /// read.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<TappedFrame>, DamagedRing> {
        self.ring.next(frame)
    }

    /// Frames that found no room so far.
    pub fn dropped(&self) -> u64 {
        at(&self.ring.words, AT_DROPPED)
    }
}

/// For fuzzing: reads whatever another process may have written into a ring.
#[doc(hidden)]
pub fn exercise_tap(bytes: &[u8]) {
    const RECORDS: usize = 64;
    let words: Vec<AtomicU64> = (0..HEAD_WORDS + RECORDS).map(|_| AtomicU64::new(0)).collect();
    let mut values = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_ne_bytes(*eight));
    for index in [AT_TAIL, AT_HEAD, AT_DROPPED, AT_SNAP].into_iter().chain(HEAD_WORDS..HEAD_WORDS + RECORDS) {
        put(&words, index, values.next().unwrap_or(0));
    }
    put(&words, AT_MAGIC, MAGIC);
    let (Some(mut reading), mut frame) = (Reading::new(&*words), Vec::new()) else { return };
    let mut read = 0;
    while let Ok(Some(one)) = reading.next(&mut frame) {
        read += 1;
        assert!(frame.len() <= RECORDS * 8 && frame.len() <= one.length as usize);
        assert!(read <= RECORDS, "each takes words");
    }
    // The other direction: whatever the reader's position is said to be.
    if let Some(mut writer) = Writer::new(&*words) {
        let before = writer.dropped;
        writer.frame(|| 1, true, bytes);
        assert!(writer.dropped.wrapping_sub(before) <= 1);
    }
}

#[cfg(test)]
mod tests;
