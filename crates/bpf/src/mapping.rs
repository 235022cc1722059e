//! Memory that a map and this process share.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared memory, unmapped when dropped. The kernel writes it at any time, so all reads are atomic, word by word.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: it is only read and written through atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `fd`, all of it there at once.
    pub(crate) fn new(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        // SAFETY: no address is asked for, so no memory in use is replaced.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_fd().as_raw_fd(),
                0,
            )
        };
        let start = NonNull::new(start.cast::<AtomicU64>()).filter(|_| start != libc::MAP_FAILED);
        Ok(Self { start: start.ok_or_else(io::Error::last_os_error)?, words: bytes / 8 })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words, "a word outside of the mapping");
        // SAFETY: the word is inside the mapping, which lives as long as `self`; a page is aligned for it.
        unsafe { self.start.add(at).as_ref() }
    }

    /// The 64-bit word at byte `at`, which is a multiple of 8. Panics: it is outside of the mapping.
    pub fn read(&self, at: usize) -> u64 {
        self.word(at / 8).load(Ordering::Acquire)
    }

    /// Writes that word. Panics: it is outside of the mapping.
    pub fn write(&self, at: usize, value: u64) {
        self.word(at / 8).store(value, Ordering::Release);
    }

    /// Writes that word where it is 0; whether it was. Panics: it is outside of the mapping.
    pub fn claim(&self, at: usize, value: u64) -> bool {
        self.word(at / 8).compare_exchange(0, value, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The bytes from byte `at` on, which is a multiple of 8. Words that are written meanwhile are old or new each. Panics: they are
    /// outside of the mapping.
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        for (word, chunk) in bytes.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&self.read(at + 8 * word).to_ne_bytes()[..chunk.len()]);
        }
        bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}
