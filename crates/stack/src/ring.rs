//! A ring of bytes of fixed size.

use std::sync::{Mutex, PoisonError};

/// Freed memory of rings for new ones: saves short connections page faults and unread zeroes.
static SPARE: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());
/// Pieces kept, and from which size on.
const MOST_SPARE: usize = 64;
const WORTH_KEEPING: usize = 1 << 15;

/// Bytes in the order in which they were added; more may lie behind them already, where later ones came first.
#[derive(Default)]
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    most: usize,
    start: usize,
    length: usize,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of {} bytes", self.length, self.most)
    }
}

impl Ring {
    /// Room for at least this many bytes. New memory is zeroed by the allocator, so untouched pages cost nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = if capacity == 0 { 0 } else { capacity.next_power_of_two() };
        let kept = (capacity >= WORTH_KEEPING).then(|| {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            let at = spare.iter().rposition(|bytes| bytes.len() == capacity)?;
            Some(spare.swap_remove(at))
        });
        let bytes = kept.flatten().unwrap_or_else(|| vec![0; capacity].into_boxed_slice());
        Self { bytes, most: capacity, start: 0, length: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.most
    }

    /// Takes this many bytes at most from now on, as far as its memory goes; how many. What it has stays.
    pub(crate) fn limit(&mut self, most: usize) -> usize {
        self.most = most.min(self.bytes.len());
        self.most
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn free(&self) -> usize {
        self.most.saturating_sub(self.length)
    }

    /// Where the byte at this offset lies.
    fn place(&self, offset: usize) -> usize {
        (self.start + offset) & self.bytes.len().wrapping_sub(1)
    }

    /// Both pieces of a stretch that begins at this offset.
    fn pieces(&self, offset: usize, length: usize) -> (usize, usize, usize) {
        let first = self.place(offset);
        let until_end = (self.bytes.len() - first).min(length);
        (first, until_end, length - until_end)
    }

    /// Writes bytes at an offset from the start, as far as there is room; how many.
    pub(crate) fn write_at(&mut self, offset: usize, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.most.saturating_sub(offset));
        if length == 0 {
            return 0;
        }
        let (first, long, rest) = self.pieces(offset, length);
        if let (Some(place), Some(from)) = (self.bytes.get_mut(first..first + long), bytes.get(..long)) {
            place.copy_from_slice(from);
        }
        if let (Some(place), Some(from)) = (self.bytes.get_mut(..rest), bytes.get(long..length)) {
            place.copy_from_slice(from);
        }
        length
    }

    /// Adds bytes at the end, as far as there is room; how many.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let added = self.write_at(self.length, bytes);
        self.length += added;
        added
    }

    /// Takes in this many bytes that were written behind the end before.
    pub(crate) fn extend(&mut self, count: usize) {
        self.length = (self.length + count).min(self.bytes.len());
    }

    /// Copies from an offset, as far as there are bytes; how many.
    pub(crate) fn read_at(&self, offset: usize, out: &mut [u8]) -> usize {
        let length = out.len().min(self.length.saturating_sub(offset));
        if length == 0 {
            return 0;
        }
        let (first, long, rest) = self.pieces(offset, length);
        if let (Some(place), Some(from)) = (out.get_mut(..long), self.bytes.get(first..first + long)) {
            place.copy_from_slice(from);
        }
        if let (Some(place), Some(from)) = (out.get_mut(long..length), self.bytes.get(..rest)) {
            place.copy_from_slice(from);
        }
        length
    }

    pub(crate) fn slices(&self) -> (&[u8], &[u8]) {
        if self.length == 0 {
            return (&[], &[]);
        }
        let (first, long, rest) = self.pieces(0, self.length);
        (self.bytes.get(first..first + long).unwrap_or_default(), self.bytes.get(..rest).unwrap_or_default())
    }

    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.length);
        self.start = self.place(count);
        self.length -= count;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.bytes.len() >= WORTH_KEEPING {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < MOST_SPARE {
                spare.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut ring = Ring::new(10);
        assert_eq!(ring.capacity(), 16);
        let (mut expected, mut next) = (std::collections::VecDeque::new(), 0_u8);
        for round in 0..200 {
            let bytes: Vec<u8> = (0..round % 13).map(|at| next.wrapping_add(at)).collect();
            let added = ring.push(&bytes);
            assert_eq!(added, bytes.len().min(16 - expected.len()));
            expected.extend(&bytes[..added]);
            next = next.wrapping_add(13);
            let mut out = vec![0; usize::from(round % 7)];
            let got = ring.read_at(0, &mut out);
            ring.consume(got);
            assert!(out[..got].iter().eq(expected.drain(..got).collect::<Vec<_>>().iter()));
            let (one, other) = ring.slices();
            assert!(one.iter().chain(other).eq(expected.iter()));
        }
    }

    /// Catches: bytes of an ended connection in the next one's.
    #[test]
    fn memory_that_was_used_before_holds_nothing() {
        let mut used = Ring::new(WORTH_KEEPING);
        used.push(&[7; WORTH_KEEPING]);
        let place = used.bytes.as_ptr();
        drop(used);
        let mut next = Ring::new(WORTH_KEEPING);
        assert_eq!((next.bytes.as_ptr(), next.length(), next.slices()), (place, 0, (&[][..], &[][..])));
        next.write_at(1, b"b");
        next.push(b"a");
        next.extend(1);
        assert_eq!(next.slices(), (&b"ab"[..], &[][..]));
    }

    #[test]
    fn a_limit_holds_what_is_added() {
        let mut ring = Ring::new(16);
        ring.push(b"abcdefgh");
        assert_eq!((ring.limit(10), ring.free(), ring.push(b"ijkl"), ring.free()), (10, 2, 2, 0));
        assert_eq!((ring.limit(4), ring.push(b"k"), ring.free(), ring.length()), (4, 0, 0, 10));
        ring.consume(8);
        assert_eq!((ring.push(b"klm"), ring.slices().0), (2, &b"ijkl"[..]));
        assert_eq!((ring.limit(99), ring.free()), (16, 12));
    }

    #[test]
    fn what_came_early_is_taken_in_later() {
        let mut ring = Ring::new(8);
        ring.push(b"abcdef");
        ring.consume(6);
        assert_eq!(ring.write_at(2, b"cdefghXX"), 6);
        assert_eq!(ring.push(b"ab"), 2);
        ring.extend(6);
        let mut out = [0; 8];
        assert_eq!((ring.read_at(0, &mut out), &out, ring.free()), (8, b"abcdefgh", 0));
        assert_eq!(Ring::new(0).push(b"x"), 0);
    }
}
