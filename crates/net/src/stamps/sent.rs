//! Stamps of what was sent: read from the error queue, numbered by messages. A non-empty error queue makes a socket
//! ready for poll(2) and epoll, so a wait by readiness empties it itself ([`Passed`]); else [`SentStamps`] does.

use super::Reader;
use crate::control::Pair;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stamps that may wait to be collected: more than the kernel keeps in a receive buffer of the usual size.
const ROOM: u64 = 1024;

/// Stamps that a waiting thread took out of the error queue for the collector. Without room they are dropped.
#[derive(Debug)]
pub(crate) struct Passed {
    slots: Box<[[AtomicU64; 2]]>,
    written: AtomicU64,
    read: AtomicU64,
}

impl Passed {
    pub(super) fn new() -> Self {
        let slots = (0..ROOM).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        Self { slots, written: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    fn slot(&self, at: u64) -> Option<&[AtomicU64; 2]> {
        self.slots.get(usize::try_from(at % ROOM).unwrap_or(0))
    }

    fn push(&self, id: u32, ns: u64) {
        let written = self.written.load(Ordering::Relaxed);
        if written.wrapping_sub(self.read.load(Ordering::Acquire)) >= ROOM {
            return;
        }
        if let Some([first, second]) = self.slot(written) {
            first.store(u64::from(id), Ordering::Relaxed);
            second.store(ns, Ordering::Relaxed);
        }
        self.written.store(written.wrapping_add(1), Ordering::Release);
    }

    fn pop(&self) -> Option<(u32, u64)> {
        let read = self.read.load(Ordering::Relaxed);
        if read == self.written.load(Ordering::Acquire) {
            return None;
        }
        let [first, second] = self.slot(read)?;
        let entry = (u32::try_from(first.load(Ordering::Relaxed)).ok()?, second.load(Ordering::Relaxed));
        self.read.store(read.wrapping_add(1), Ordering::Release);
        Some(entry)
    }

    /// Moves what is in the error queue here.
    #[cold]
    pub(crate) fn collect(&self, fd: std::os::fd::RawFd, reader: &Reader) {
        while let Ok(Some((id, ns))) = next(fd, reader) {
            self.push(id, ns);
        }
    }
}

/// Takes one stamp out of the error queue; other entries are passed over.
fn next(fd: std::os::fd::RawFd, reader: &Reader) -> io::Result<Option<(u32, u64)>> {
    loop {
        let (mut stamp, mut id) = (Pair::default(), None);
        if sys::recvmsg_sent(fd, &mut stamp, &mut id) < 0 {
            match sys::errno() {
                libc::EAGAIN => return Ok(None),
                libc::EINTR => continue,
                _ => return Err(sys::last()),
            }
        }
        let ns = reader.ns(stamp);
        if let Some(id) = id
            && ns > 0
        {
            return Ok(Some((id, ns)));
        }
    }
}

pub(super) fn discard(fd: std::os::fd::RawFd) {
    while sys::recvmsg_sent(fd, &mut Pair::default(), &mut None) >= 0 {}
}

/// What the kernel's 32 bits count.
#[derive(Debug)]
struct Numbering {
    /// Of a stream: bytes of a message. The kernel tells the last byte of each send call.
    bytes: Option<u64>,
    /// The furthest count so far, whole.
    last: u64,
}

impl Numbering {
    /// The message, from 0; `None` for a stamp of a part of one.
    fn message(&mut self, id: u32) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what the kernel counts")]
        let ahead = i64::from(id.wrapping_sub(self.last as u32).cast_signed());
        let whole = self.last.checked_add_signed(ahead)?;
        self.last = self.last.max(whole);
        match self.bytes {
            None => Some(whole),
            Some(bytes) => {
                let end = whole + 1;
                (bytes > 0 && end.is_multiple_of(bytes)).then(|| end / bytes - 1)
            }
        }
    }
}

#[derive(Debug)]
pub struct SentStamps {
    socket: OwnedFd,
    reader: Reader,
    passed: Arc<Passed>,
    numbering: Numbering,
}

impl SentStamps {
    pub(super) fn new(socket: OwnedFd, reader: Reader, passed: Arc<Passed>, bytes: Option<u64>) -> Self {
        Self { socket, reader, passed, numbering: Numbering { bytes, last: 0 } }
    }

    /// The next stamp that is there: the number of the message, from 0 since [`crate::DataSocket::stamp`], and when the
    /// driver (or the NIC) sent it (a stream's: its last byte), in ns since 1970. A stream's message that left in one piece
    /// with the next has none. Does not wait, does not allocate. Errors: the call fails for another reason than that
    /// nothing is there.
    pub fn take(&mut self) -> io::Result<Option<(u64, u64)>> {
        self.reader.refresh();
        loop {
            let entry = match self.passed.pop() {
                Some(entry) => Some(entry),
                None => next(self.socket.as_raw_fd(), &self.reader)?,
            };
            let Some((id, ns)) = entry else { return Ok(None) };
            if let Some(number) = self.numbering.message(id) {
                return Ok(Some((number, ns)));
            }
        }
    }

    /// Hands all stamps that are there to `with`. Errors: as [`SentStamps::take`].
    pub fn drain(&mut self, mut with: impl FnMut(u64, u64)) -> io::Result<()> {
        while let Some((number, ns)) = self.take()? {
            with(number, ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_on_beyond_32_bits() {
        let mut numbering = Numbering { bytes: None, last: 0 };
        assert_eq!(numbering.message(0), Some(0));
        assert_eq!(numbering.message(3), Some(3));
        assert_eq!(numbering.message(1), Some(1), "one that is told late");
        numbering.last = u64::from(u32::MAX) - 1;
        assert_eq!(numbering.message(u32::MAX), Some(u64::from(u32::MAX)));
        assert_eq!(numbering.message(2), Some((1 << 32) + 2));
        assert_eq!(numbering.message(u32::MAX - 1), Some(u64::from(u32::MAX) - 1));
        assert_eq!(Numbering { bytes: None, last: 0 }.message(u32::MAX), None, "before the first");
    }

    #[test]
    fn bytes_of_a_stream_are_messages_where_they_end_one() {
        let mut numbering = Numbering { bytes: Some(100), last: 0 };
        assert_eq!(numbering.message(99), Some(0));
        assert_eq!(numbering.message(150), None, "a send that was cut");
        assert_eq!(numbering.message(399), Some(3), "two left in one piece");
        // 5 GB on.
        for end in (1_000_000_000..=5_000_000_000_u64).step_by(1_000_000_000) {
            #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
            let id = (end - 1) as u32;
            assert_eq!(numbering.message(id), Some(end / 100 - 1));
        }
    }

    #[test]
    fn what_a_waiter_took_out_is_passed_on_in_order() {
        let passed = Passed::new();
        assert_eq!(passed.pop(), None);
        for id in 0..2000 {
            passed.push(id, u64::from(id) + 7);
        }
        for id in 0..1024 {
            assert_eq!(passed.pop(), Some((id, u64::from(id) + 7)));
        }
        assert_eq!(passed.pop(), None, "what found no room is gone");
        passed.push(5, 6);
        assert_eq!(passed.pop(), Some((5, 6)));
    }
}
