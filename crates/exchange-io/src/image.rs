//! The image of a topic: a file in shared memory with the latest sample and a ring of those before, for any number of readers.
//!
//! The file consists of 64-bit words of this machine. Each slot has a lock word that is odd while the slot is written; a reader
//! copies the slot and looks at the word again. A reader therefore never delays the writer, and a writer that dies within a
//! write leaves a locked slot, until the next writer frees it; readers take the sample before it from the ring meanwhile.
//!
//! ```text
//! words  0..10  constant: magic, version, layout hash, data bytes, ring length, topic, period, deadline, stale age, on_stale
//!        10     checksum of those                                 11      writer's process
//!        16     heartbeat: CLOCK_MONOTONIC of the writer, ns      24      samples written
//!        32..38 received, missing, duplicates, reordered, misses, longest run
//!        38     1 where frames carry no sequence numbers: then sequence, missing, duplicates and reordered mean nothing
//!        64..   slots: the latest, then the ring. A slot: lock, quality + 1 (0: none), sequence, epoch, cycle, scheduled, sent
//!               and stored time, data; rounded up to 64 bytes
//! ```

use crate::ImageError;
use exchange::{Counters, OnStale, Quality, Topic, fnv1a};
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use xsk::SharedWords;

/// Where images are.
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "windhover.";
const MAGIC: u64 = u64::from_le_bytes(*b"WHIMAGE\0");
const VERSION: u64 = 1;

const HEAD_WORDS: usize = 10;
const AT_CHECKSUM: usize = 10;
const AT_PID: usize = 11;
const AT_HEARTBEAT: usize = 16;
const AT_WRITTEN: usize = 24;
const AT_COUNTS: usize = 32;
const AT_UNNUMBERED: usize = 38;
const AT_SLOTS: usize = 64;
/// Words of a slot before its data.
const SAMPLE_WORDS: usize = 8;
/// Attempts of a reader at a slot that is being written.
const ATTEMPTS: u32 = 1000;
/// A writer whose heartbeat is older is taken for dead.
const DEAD_NS: u64 = 500_000_000;

/// The image of a node's topic; `is_input`: the one that an application writes for the node to publish.
pub fn image_path(node: &str, topic: &str, is_input: bool) -> PathBuf {
    Path::new(FOLDER).join(format!("{PREFIX}{node}.{topic}{}", if is_input { ".in" } else { "" }))
}

/// The images that there are, of all users.
pub fn images() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(FOLDER)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What an image is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSpec {
    pub layout: u64,
    pub data_bytes: usize,
    pub history: u32,
    pub topic_id: u32,
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub stale_ns: u64,
    pub on_stale: OnStale,
}

impl ImageSpec {
    pub fn new(topic: &Topic) -> Self {
        Self {
            layout: topic.layout(),
            data_bytes: topic.bytes(),
            history: topic.history,
            topic_id: topic.id,
            period_ns: topic.period_ns(),
            deadline_ns: topic.deadline_ns(),
            stale_ns: topic.stale_ns(),
            on_stale: topic.on_stale,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry::new(self.data_bytes, self.history as usize)
    }

    /// The words that do not change.
    fn head(&self) -> [u64; HEAD_WORDS] {
        let Self { layout, data_bytes, history, topic_id, period_ns, deadline_ns, stale_ns, on_stale } = *self;
        let (history, topic_id) = (u64::from(history), u64::from(topic_id));
        let on_stale = on_stale as u64;
        [MAGIC, VERSION, layout, data_bytes as u64, history, topic_id, period_ns, deadline_ns, stale_ns, on_stale]
    }
}

fn checksum(head: &[u64; HEAD_WORDS]) -> u64 {
    fnv1a(&head.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
}

/// Where slots are.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    slot_words: usize,
    history: usize,
}

impl Geometry {
    fn new(data_bytes: usize, history: usize) -> Self {
        Self { slot_words: (SAMPLE_WORDS + data_bytes.div_ceil(8)).next_multiple_of(8), history }
    }

    fn words(self) -> usize {
        AT_SLOTS + self.slot_words * (self.history + 1)
    }

    fn bytes(self) -> u64 {
        self.words() as u64 * 8
    }

    /// The ring's slot of the sample that was written as number `written`, from 0.
    fn ring(self, written: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "below the length of the ring")]
        let at = (written % self.history.max(1) as u64) as usize;
        AT_SLOTS + self.slot_words * (at + 1)
    }
}

/// A sample beside its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub quality: Quality,
    pub sequence: u64,
    pub epoch: u64,
    pub cycle: u64,
    /// In ns since 1970, by the publisher's clock.
    pub scheduled_ns: u64,
    pub sent_ns: u64,
    /// CLOCK_MONOTONIC of this host when the image was written.
    pub stored_ns: u64,
}

/// The one writer of an image. The file stays when it is dropped, so that readers find the next writer's samples where they
/// have it mapped, unless [`ImageWriter::remove_at_end`] was called.
#[derive(Debug)]
pub struct ImageWriter {
    words: SharedWords,
    is_removed_at_end: bool,
    geometry: Geometry,
    path: PathBuf,
    written: u64,
    /// Holds the lock by which others know that there is a writer. The kernel frees it when the process ends.
    _file: File,
}

impl ImageWriter {
    /// Makes the image, or goes on with that of a writer that died. One of another layout is replaced by a new file. Errors: it
    /// belongs to another user or another process writes it.
    pub fn create(path: &Path, spec: &ImageSpec) -> Result<Self, ImageError> {
        let geometry = spec.geometry();
        let head = spec.head();
        let mut file = Self::open(path)?;
        let found = file.metadata().map_err(|cause| open_failed(path, cause))?.len();
        // Nothing that is no image is overwritten. One whose making was cut short has no magic number yet.
        if found != 0 && ![0, MAGIC].contains(&map(path, &file, 1)?[0].load(Relaxed)) {
            return Err(ImageError::Damaged { path: path.to_owned(), why: "it has no magic number: remove it" });
        }
        let is_fit = found == geometry.bytes() && {
            let words = map(path, &file, geometry.words())?;
            (0..).zip(&head).all(|(at, word)| words[at].load(Relaxed) == *word)
        };
        if found != 0 && !is_fit {
            // Never shortened or overwritten: readers have it mapped.
            std::fs::remove_file(path).map_err(|cause| open_failed(path, cause))?;
            file = Self::open(path)?;
        }
        if !is_fit {
            file.set_len(geometry.bytes()).map_err(|cause| open_failed(path, cause))?;
        }
        let words = map(path, &file, geometry.words())?;
        (1..).zip(head.iter().skip(1)).for_each(|(at, word)| words[at].store(*word, Relaxed));
        words[AT_CHECKSUM].store(checksum(&head), Relaxed);
        words[AT_PID].store(u64::from(std::process::id()), Relaxed);
        words[AT_HEARTBEAT].store(clock::monotonic_ns(), Relaxed);
        words[0].store(MAGIC, Release);
        // What a dead writer left half written is no sample.
        for slot in words.get(AT_SLOTS..).unwrap_or_default().chunks_exact(geometry.slot_words) {
            if slot[0].load(Relaxed) % 2 == 1 {
                slot[1].store(0, Relaxed);
                slot[0].fetch_add(1, Release);
            }
        }
        let written = words[AT_WRITTEN].load(Relaxed);
        Ok(Self { words, is_removed_at_end: false, geometry, path: path.to_owned(), written, _file: file })
    }

    /// Opens the file with the writer's lock.
    fn open(path: &Path) -> Result<File, ImageError> {
        let mut options = OpenOptions::new();
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let file = match options.open(path) {
            // fs.protected_regular: another user's file in a folder that all may write to.
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                check_owner(path, &std::fs::symlink_metadata(path).map_err(|cause| open_failed(path, cause))?)?;
                return Err(open_failed(path, cause));
            }
            opened => opened.map_err(|cause| open_failed(path, cause))?,
        };
        check_owner(path, &file.metadata().map_err(|cause| open_failed(path, cause))?)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                let pid = SharedWords::map(&file, AT_SLOTS).map_or(0, |words| words[AT_PID].load(Relaxed));
                Err(ImageError::InUse { path: path.to_owned(), pid })
            }
            Err(TryLockError::Error(cause)) => Err(open_failed(path, cause)),
        }
    }

    /// Writes a sample: into the slot of the latest, then into the ring.
    #[inline]
    pub fn write(&mut self, sample: &Sample, data: &[u8]) {
        let words: &[AtomicU64] = &self.words;
        let slot_words = self.geometry.slot_words;
        store(&words[AT_SLOTS..AT_SLOTS + slot_words], sample, data);
        if self.geometry.history > 0 {
            let at = self.geometry.ring(self.written);
            store(&words[at..at + slot_words], sample, data);
        }
        self.written += 1;
        words[AT_HEARTBEAT].store(sample.stored_ns, Relaxed);
        words[AT_WRITTEN].store(self.written, Release);
    }

    /// Says that the writer lives.
    #[inline]
    pub fn beat(&self, monotonic_ns: u64) {
        self.words[AT_HEARTBEAT].store(monotonic_ns, Relaxed);
    }

    /// Writes the totals.
    #[inline]
    pub fn count(&self, counters: &Counters) {
        let Counters { received, missing, duplicates, reordered, misses, longest_run, .. } = *counters;
        let counts = [received, missing, duplicates, reordered, misses, longest_run];
        self.words[AT_COUNTS..].iter().zip(counts).for_each(|(word, count)| word.store(count, Relaxed));
    }

    /// Says whether frames carry sequence numbers.
    #[must_use]
    pub fn numbered(self, is_numbered: bool) -> Self {
        self.words[AT_UNNUMBERED].store(u64::from(!is_numbered), Relaxed);
        self
    }

    /// Removes the file when this value is dropped; readers keep what they have mapped.
    #[must_use]
    pub fn remove_at_end(mut self) -> Self {
        self.is_removed_at_end = true;
        self
    }
}

impl Drop for ImageWriter {
    fn drop(&mut self) {
        if self.is_removed_at_end {
            // If it cannot be removed, the next writer goes on with it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[inline]
fn store(slot: &[AtomicU64], sample: &Sample, data: &[u8]) {
    let Some((head, body)) = slot.split_first_chunk::<SAMPLE_WORDS>() else { return };
    let locked = head[0].load(Relaxed) | 1;
    // Who sees the lock sees the sample before it in the ring.
    head[0].store(locked, Release);
    fence(Release);
    head[1].store(sample.quality as u64 + 1, Relaxed);
    head[2].store(sample.sequence, Relaxed);
    head[3].store(sample.epoch, Relaxed);
    head[4].store(sample.cycle, Relaxed);
    head[5].store(sample.scheduled_ns, Relaxed);
    head[6].store(sample.sent_ns, Relaxed);
    head[7].store(sample.stored_ns, Relaxed);
    let (whole, rest) = data.as_chunks::<8>();
    body.iter().zip(whole).for_each(|(word, bytes)| word.store(u64::from_le_bytes(*bytes), Relaxed));
    if let Some(word) = body.get(whole.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        word.store(u64::from_le_bytes(last), Relaxed);
    }
    head[0].store(locked.wrapping_add(1), Release);
}

/// A slot that stayed locked: its writer was interrupted within a write, or died there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sample is locked: its writer was interrupted or died while it wrote")]
pub struct Busy;

/// Copies a slot; nothing where it has no sample.
#[inline]
fn load(slot: &[AtomicU64], data: &mut [u8]) -> Result<Option<Sample>, Busy> {
    let Some((head, body)) = slot.split_first_chunk::<SAMPLE_WORDS>() else { return Ok(None) };
    for _ in 0..ATTEMPTS {
        let before = head[0].load(Acquire);
        if before % 2 == 1 {
            std::hint::spin_loop();
            continue;
        }
        let quality = head[1].load(Relaxed);
        let sample = Sample {
            quality: Quality::from_bits(quality.wrapping_sub(1)),
            sequence: head[2].load(Relaxed),
            epoch: head[3].load(Relaxed),
            cycle: head[4].load(Relaxed),
            scheduled_ns: head[5].load(Relaxed),
            sent_ns: head[6].load(Relaxed),
            stored_ns: head[7].load(Relaxed),
        };
        let (whole, rest) = data.as_chunks_mut::<8>();
        whole.iter_mut().zip(body).for_each(|(bytes, word)| *bytes = word.load(Relaxed).to_le_bytes());
        if let Some(word) = body.get(whole.len()) {
            rest.iter_mut().zip(word.load(Relaxed).to_le_bytes()).for_each(|(to, from)| *to = from);
        }
        fence(Acquire);
        if head[0].load(Relaxed) == before {
            return Ok((quality != 0).then_some(sample));
        }
    }
    Err(Busy)
}

/// A reader of an image. It writes nothing there.
#[derive(Debug)]
pub struct ImageReader {
    words: SharedWords,
    geometry: Geometry,
    spec: ImageSpec,
}

impl ImageReader {
    /// Opens an image; with `layout` only one of this layout hash. Errors: it is not there, belongs to another user, or is no
    /// whole image.
    pub fn open(path: &Path, layout: Option<u64>) -> Result<Self, ImageError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        let facts = std::fs::symlink_metadata(path).map_err(|cause| open_failed(path, cause))?;
        check_owner(path, &facts)?;
        let file = options.open(path).map_err(|cause| open_failed(path, cause))?;
        let facts = file.metadata().map_err(|cause| open_failed(path, cause))?;
        check_owner(path, &facts)?;
        let damaged = |why| ImageError::Damaged { path: path.to_owned(), why };
        if !facts.is_file() || facts.len() < AT_SLOTS as u64 * 8 {
            return Err(damaged("it is shorter than a header"));
        }
        let words = map(path, &file, AT_SLOTS)?;
        let word = |at: usize| words[at].load(Relaxed);
        if words[0].load(Acquire) != MAGIC {
            return Err(damaged("it has no magic number"));
        }
        if word(1) != VERSION {
            return Err(damaged("it has another version"));
        }
        let head: [u64; HEAD_WORDS] = std::array::from_fn(word);
        if word(AT_CHECKSUM) != checksum(&head) {
            return Err(damaged("its header has a wrong checksum"));
        }
        let spec = spec_of(&head).ok_or_else(|| damaged("its header has values out of range"))?;
        let geometry = spec.geometry();
        if facts.len() != geometry.bytes() {
            return Err(ImageError::Size { path: path.to_owned(), bytes: facts.len(), expected: geometry.bytes() });
        }
        if layout.is_some_and(|layout| layout != spec.layout) {
            return Err(ImageError::Layout { path: path.to_owned() });
        }
        Ok(Self { words: map(path, &file, geometry.words())?, geometry, spec })
    }

    pub fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    /// The process of the latest writer.
    pub fn pid(&self) -> u64 {
        self.words[AT_PID].load(Relaxed)
    }

    /// Copies the latest sample; nothing where there has been none. While its slot is locked, that before it from the ring.
    /// Errors: there is no ring and the slot stayed locked.
    #[inline]
    pub fn latest(&self, data: &mut [u8]) -> Result<Option<Sample>, Busy> {
        let words: &[AtomicU64] = &self.words;
        match load(&words[AT_SLOTS..AT_SLOTS + self.geometry.slot_words], data) {
            Ok(Some(sample)) => Ok(Some(sample)),
            other => self.before(other.is_err(), data),
        }
    }

    #[cold]
    fn before(&self, is_busy: bool, data: &mut [u8]) -> Result<Option<Sample>, Busy> {
        let found = self.written().checked_sub(1).and_then(|number| self.numbered(number, data).ok().flatten());
        if found.is_none() && is_busy { Err(Busy) } else { Ok(found) }
    }

    /// Copies the sample that was written as number `number`, from 0; nothing where the ring does not have it any more or there
    /// are fewer. Errors: the slot stayed locked.
    pub fn numbered(&self, number: u64, data: &mut [u8]) -> Result<Option<Sample>, Busy> {
        let is_kept = |written: u64| number < written && written - number <= self.geometry.history as u64;
        if !is_kept(self.written()) {
            return Ok(None);
        }
        let at = self.geometry.ring(number);
        let sample = load(&self.words[at..at + self.geometry.slot_words], data)?;
        // The slot may have got a newer sample, which is counted only behind it.
        Ok(sample.filter(|_| is_kept(self.written() + 1)))
    }

    /// Samples written so far.
    #[inline]
    pub fn written(&self) -> u64 {
        self.words[AT_WRITTEN].load(Acquire)
    }

    /// What the subscriber counted; what an image does not keep is 0.
    pub fn counts(&self) -> Counters {
        let [received, missing, duplicates, reordered, misses, longest_run] =
            std::array::from_fn(|at| self.words[AT_COUNTS + at].load(Relaxed));
        Counters { received, missing, duplicates, reordered, misses, longest_run, ..Counters::default() }
    }

    /// Whether samples and counts have what needs sequence numbers.
    pub fn is_numbered(&self) -> bool {
        self.words[AT_UNNUMBERED].load(Relaxed) == 0
    }

    /// Whether the writer gave a sign of life within the last 500 ms.
    #[inline]
    pub fn is_writer_alive(&self, monotonic_ns: u64) -> bool {
        monotonic_ns.saturating_sub(self.words[AT_HEARTBEAT].load(Relaxed)) <= DEAD_NS
    }
}

fn spec_of(head: &[u64; HEAD_WORDS]) -> Option<ImageSpec> {
    let [_, _, layout, data_bytes, history, topic_id, period_ns, deadline_ns, stale_ns, on_stale] = *head;
    Some(ImageSpec {
        layout,
        data_bytes: usize::try_from(data_bytes).ok().filter(|bytes| *bytes <= exchange::MAX_DATA_BYTES)?,
        history: u32::try_from(history).ok().filter(|history| *history <= 65_536)?,
        topic_id: u32::try_from(topic_id).ok()?,
        period_ns,
        deadline_ns,
        stale_ns,
        on_stale: match on_stale {
            0 => OnStale::Mark,
            1 => OnStale::Hold,
            2 => OnStale::Zero,
            3 => OnStale::Default,
            _ => return None,
        },
    })
}

fn map(path: &Path, file: &File, words: usize) -> Result<SharedWords, ImageError> {
    SharedWords::map(file, words).map_err(|cause| ImageError::Map { path: path.to_owned(), cause })
}

fn open_failed(path: &Path, cause: io::Error) -> ImageError {
    ImageError::Open { path: path.to_owned(), cause }
}

fn check_owner(path: &Path, facts: &std::fs::Metadata) -> Result<(), ImageError> {
    let own = nix::unistd::geteuid().as_raw();
    if facts.uid() == own {
        return Ok(());
    }
    Err(ImageError::Owner { path: path.to_owned(), owner: facts.uid(), own })
}

#[cfg(test)]
mod tests;
