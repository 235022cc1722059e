//! Messages through shared memory of two processes: no system call while the receiver spins, one futex(2) call at each
//! end while it sleeps. It is the least that such a message can take, the floor under all other figures. Each direction
//! has a file of its own: a header with two indices on their own cache lines, then slots.

use crate::path::PathError;
use crate::sys;
use crate::transport::{ReceiveStep, Transport};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

pub(crate) const LONGEST: usize = 65_504;
/// Messages on the way in one direction; a sender that is further ahead waits.
const SLOTS: u32 = 16;
/// A length in the first 4 bytes, and the message.
const SLOT_BYTES: usize = 65_536;
const HEADER_BYTES: usize = 4096;
pub(crate) const FILE_BYTES: usize = HEADER_BYTES + SLOTS as usize * SLOT_BYTES;
/// Where a slot's message begins: as far as the next 16 bytes, so that copies are aligned.
const MESSAGE_AT: usize = 16;

pub(crate) fn make() -> io::Result<OwnedFd> {
    sys::memory_file(c"windhover", FILE_BYTES)
}

/// What both ends see at the beginning of the file.
#[repr(C)]
struct Header {
    written: Index,
    read: Index,
}

/// A free-running count, changed by one end, and whether the other end sleeps until it changes.
#[repr(C, align(64))]
struct Index {
    count: AtomicU32,
    awaited: AtomicU32,
}

impl Index {
    /// Raises the count by one and wakes the end that sleeps for it.
    #[inline]
    fn advance(&self, from: u32) {
        self.count.store(from.wrapping_add(1), Ordering::Release);
        // Either the other end sees the new count before it sleeps, or this one sees that it is about to.
        fence(Ordering::SeqCst);
        if self.awaited.load(Ordering::Relaxed) != 0 {
            self.awaited.store(0, Ordering::Relaxed);
            sys::futex_wake(&self.count);
        }
    }

    /// Sleeps until the count is no longer `seen`. `false`: a signal came.
    fn sleep(&self, seen: u32) -> bool {
        self.awaited.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        sys::futex_wait(&self.count, seen) != Some(libc::EINTR)
    }
}

struct Channel {
    start: NonNull<u8>,
    /// Our own count: of what was written at the sending end, of what was read at the receiving end.
    own: u32,
}

// SAFETY: the mapping belongs to this value and is not bound to a thread; what both ends change is atomic.
unsafe impl Send for Channel {}

impl Channel {
    fn map(fd: RawFd) -> io::Result<Self> {
        let channel = Self { start: sys::map_shared(fd, FILE_BYTES)?, own: 0 };
        Ok(channel)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is longer than the header, consists of atomics only, and lives as long as this value.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    #[inline]
    fn slot(&self) -> *mut u8 {
        // SAFETY: the number of a slot is below SLOTS, and the mapping holds them all.
        unsafe { self.start.as_ptr().add(HEADER_BYTES + (self.own % SLOTS) as usize * SLOT_BYTES) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        sys::unmap(self.start, FILE_BYTES);
    }
}

pub(crate) struct Memory {
    read_fd: RawFd,
    inbox: Channel,
    outbox: Channel,
}

impl Memory {
    /// The end that reads from one file and writes to the other; goes on where the files' indices are.
    pub(crate) fn new(read: RawFd, write: RawFd) -> io::Result<Self> {
        let (mut inbox, mut outbox) = (Channel::map(read)?, Channel::map(write)?);
        inbox.own = inbox.header().read.count.load(Ordering::Acquire);
        outbox.own = outbox.header().written.count.load(Ordering::Acquire);
        Ok(Self { read_fd: read, inbox, outbox })
    }

    /// Messages on the way out that the other end has not read.
    #[inline]
    fn unread(&self) -> (u32, u32) {
        let read = self.outbox.header().read.count.load(Ordering::Acquire);
        (self.outbox.own.wrapping_sub(read), read)
    }

    #[inline]
    fn put(&mut self, message: &[u8]) -> Result<(), PathError> {
        if message.len() > LONGEST {
            return Err(PathError::TooLarge { bytes: message.len() });
        }
        let slot = self.outbox.slot();
        #[expect(clippy::cast_ptr_alignment, reason = "slots begin at multiples of 4096")]
        // SAFETY: the slot has room for the longest message behind its length; until the count is raised it is this side's.
        unsafe {
            slot.cast::<u32>().write(u32::try_from(message.len()).unwrap_or(0));
            slot.add(MESSAGE_AT).copy_from_nonoverlapping(message.as_ptr(), message.len());
        }
        self.outbox.header().written.advance(self.outbox.own);
        self.outbox.own = self.outbox.own.wrapping_add(1);
        Ok(())
    }
}

impl Transport for Memory {
    fn read_fd(&self) -> RawFd {
        self.read_fd
    }

    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        loop {
            match self.unread() {
                (SLOTS.., read) => {
                    if !self.outbox.header().read.sleep(read) {
                        return Err(PathError::Interrupted);
                    }
                }
                _ => return self.put(message),
            }
        }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<bool, PathError> {
        if self.unread().0 >= SLOTS { Ok(false) } else { self.put(message).map(|()| true) }
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let seen = self.inbox.header().written.count.load(Ordering::Acquire);
        if seen == self.inbox.own {
            if !WAIT {
                std::hint::spin_loop();
                return ReceiveStep::Nothing;
            }
            return if self.inbox.header().written.sleep(seen) {
                ReceiveStep::Nothing
            } else {
                ReceiveStep::Interrupted
            };
        }
        let slot = self.inbox.slot();
        #[expect(clippy::cast_ptr_alignment, reason = "slots begin at multiples of 4096")]
        // SAFETY: the sender wrote the slot before it raised the count, and leaves it alone until this side's is raised.
        let length = (unsafe { slot.cast::<u32>().read() } as usize).min(LONGEST);
        let taken = length.min(buffer.len());
        // SAFETY: as above; the slot holds `length` bytes, the buffer at least `taken`, and they do not overlap.
        unsafe { buffer.as_mut_ptr().copy_from_nonoverlapping(slot.add(MESSAGE_AT), taken) };
        self.inbox.header().read.advance(self.inbox.own);
        self.inbox.own = self.inbox.own.wrapping_add(1);
        ReceiveStep::Whole(length)
    }

    fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
        let mut dropped = 0;
        while let ReceiveStep::Whole(_) = self.receive::<false>(scratch) {
            dropped += 1;
        }
        Ok(dropped)
    }
}
