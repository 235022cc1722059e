//! The four rings that AF_XDP shares with the kernel (Documentation/networking/af_xdp.rst). Each has one producer and one
//! consumer; the producer's and the consumer's index are free-running 32-bit numbers.

use crate::sys::Mapping;
use libc::xdp_ring_offset;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapped ring of entries of type `T`, which the kernel defines.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    // Keeps the memory behind the pointers.
    _mapping: Mapping,
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    entries: *mut T,
    mask: u32,
    /// The other side's index as it was last read.
    seen: u32,
    /// Our own index, which may be ahead of the published one.
    own: u32,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: a shared reference reaches only atomics; entries are read and written through exclusive ones.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `entries` (a power of two) at `page_offset`, laid out by `offsets`.
    pub(crate) fn map(fd: RawFd, page_offset: i64, offsets: &xdp_ring_offset, entries: u32) -> io::Result<Self> {
        let misplaced = |_| io::Error::from(io::ErrorKind::InvalidData);
        let at = |offset: u64| usize::try_from(offset).map_err(misplaced);
        let bytes = entries as usize * size_of::<T>();
        let mapping = Mapping::new(Some(fd), at(offsets.desc)? + bytes, page_offset)?;
        let index =
            |offset| Ok::<_, io::Error>(mapping.at(at(offset)?, size_of::<u32>()).cast::<AtomicU32>().cast_const());
        let first = mapping.at(at(offsets.desc)?, bytes).cast::<T>();
        let (producer, consumer, flags) = (index(offsets.producer)?, index(offsets.consumer)?, index(offsets.flags)?);
        Ok(Self { producer, consumer, flags, entries: first, mask: entries - 1, seen: 0, own: 0, _mapping: mapping })
    }

    /// Whether the kernel asks for a system call before it goes on (XDP_RING_NEED_WAKEUP).
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        load(self.flags, Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Entries that we may write, at most `most`. For rings whose producer we are.
    #[inline]
    pub(crate) fn free(&mut self, most: u32) -> u32 {
        let room = |ring: &Self| (ring.mask + 1).wrapping_sub(ring.own.wrapping_sub(ring.seen));
        if room(self) < most {
            self.seen = load(self.consumer, Ordering::Acquire);
        }
        room(self).min(most)
    }

    /// Writes the next entry. There is room: [`Ring::free`] said so.
    #[inline]
    pub(crate) fn write(&mut self, entry: T) {
        // SAFETY: the index is below the number of entries, all of which are mapped, and until it is published the entry is
        // the producer's: us.
        unsafe { self.entries.add((self.own & self.mask) as usize).write_volatile(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// Lets the kernel see what was written.
    #[inline]
    pub(crate) fn publish(&self) {
        // SAFETY: the pointer is into the mapping that this value holds; the kernel accesses it atomically.
        unsafe { &*self.producer }.store(self.own, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_consumed(&self) -> bool {
        load(self.consumer, Ordering::Acquire) == self.own
    }

    /// Entries that wait for us, at most `most`. For rings whose consumer we are.
    #[inline]
    pub(crate) fn waiting(&mut self, most: u32) -> u32 {
        if self.seen == self.own {
            self.seen = load(self.producer, Ordering::Acquire);
        }
        self.seen.wrapping_sub(self.own).min(most)
    }

    /// Reads the next entry. There is one: [`Ring::waiting`] said so.
    #[inline]
    pub(crate) fn read(&mut self) -> T {
        // SAFETY: as in `write`; what is waiting was written by the kernel before it published its index.
        let entry = unsafe { self.entries.add((self.own & self.mask) as usize).read_volatile() };
        self.own = self.own.wrapping_add(1);
        entry
    }

    /// Gives what was read back to the kernel.
    #[inline]
    pub(crate) fn release(&self) {
        // SAFETY: as in `publish`.
        unsafe { &*self.consumer }.store(self.own, Ordering::Release);
    }
}

#[inline]
fn load(index: *const AtomicU32, order: Ordering) -> u32 {
    // SAFETY: called with pointers into the mapping of the ring that has them; the kernel accesses them atomically.
    unsafe { &*index }.load(order)
}
