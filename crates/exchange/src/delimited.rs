//! Frames on a stream of bytes, such as a TCP connection: each follows its length in two bytes, little-endian.

use crate::FrameError;
use std::ops::RangeInclusive;

/// Bytes before a frame.
pub const LENGTH_BYTES: usize = 2;
/// Frames that a splitter holds.
const HELD: usize = 16;

/// What waits to be sent on a stream that takes only a part. A frame of which nothing was sent is replaced by the next one, so at most
/// the rest of one frame and the newest frame wait.
#[derive(Debug)]
pub struct FrameQueue {
    bytes: Box<[u8]>,
    /// The first byte that was not sent.
    begin: usize,
    /// Where the newest frame begins, and its end.
    newest: usize,
    end: usize,
    /// Frames that were replaced.
    pub replaced: u64,
}

impl FrameQueue {
    /// For frames of at most `longest` bytes. Nothing is allocated later.
    pub fn new(longest: usize) -> Self {
        let bytes = vec![0; 2 * (LENGTH_BYTES + longest)].into_boxed_slice();
        Self { bytes, begin: 0, newest: 0, end: 0, replaced: 0 }
    }

    fn has_unsent_newest(&self) -> bool {
        self.begin <= self.newest && self.newest < self.end
    }

    /// Adds a frame; false where it is too long.
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let fits = LENGTH_BYTES + frame.len() <= self.bytes.len() / 2;
        let (Ok(length), true) = (u16::try_from(frame.len()), fits) else { return false };
        if self.has_unsent_newest() {
            self.replaced += 1;
            self.end = self.newest;
        }
        self.bytes.copy_within(self.begin..self.end, 0);
        (self.newest, self.end) = (self.end - self.begin, self.end - self.begin);
        self.begin = 0;
        let Some((place, rest)) = self.bytes.get_mut(self.newest..).and_then(<[u8]>::split_first_chunk_mut) else {
            return false;
        };
        let Some(body) = rest.get_mut(..frame.len()) else { return false };
        *place = length.to_le_bytes();
        body.copy_from_slice(frame);
        self.end += LENGTH_BYTES + frame.len();
        true
    }

    /// The bytes that wait.
    #[inline]
    pub fn unsent(&self) -> &[u8] {
        self.bytes.get(self.begin..self.end).unwrap_or_default()
    }

    /// The first `count` of them were sent.
    #[inline]
    pub fn sent(&mut self, count: usize) {
        self.begin = self.begin.saturating_add(count).min(self.end);
    }

    /// Drops what waits, for a new stream. Returns the number of frames that were not sent as a whole.
    pub fn clear(&mut self) -> u64 {
        let newest = u64::from(self.has_unsent_newest());
        let rest = if newest == 1 { self.begin < self.newest } else { self.begin < self.end };
        (self.begin, self.newest, self.end) = (0, 0, 0);
        newest + u64::from(rest)
    }
}

/// Finds the frames in what arrives on a stream, whatever its chunks.
#[derive(Debug)]
pub struct FrameSplitter {
    lengths: RangeInclusive<usize>,
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl FrameSplitter {
    /// For frames of so many bytes. Nothing is allocated later.
    pub fn new(lengths: RangeInclusive<usize>) -> Self {
        let bytes = vec![0; HELD * (LENGTH_BYTES + lengths.end())].into_boxed_slice();
        Self { lengths, bytes, begin: 0, end: 0 }
    }

    /// Forgets what arrived, for a new stream.
    pub fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// Where the next bytes of the stream go. Not empty after [`Self::take`] found no further frame.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// So many bytes arrived in [`Self::room`].
    #[inline]
    pub fn arrived(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.bytes.len());
    }

    /// The next frame, if all of it arrived. After an error it is unknown where frames begin: the stream has to be closed.
    #[inline]
    pub fn take(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let held = self.bytes.get(self.begin..self.end).unwrap_or_default();
        let Some((length, rest)) = held.split_first_chunk() else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes(*length));
        if !self.lengths.contains(&length) {
            return Err(FrameError::Length);
        }
        let frame = rest.get(..length);
        if frame.is_some() {
            self.begin += LENGTH_BYTES + length;
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: usize = 40;

    /// The frames of a stream that arrives in chunks of these lengths again and again, and whether it ended with an error.
    fn split(stream: &[u8], chunks: &[usize]) -> (Vec<Vec<u8>>, bool) {
        let mut splitter = FrameSplitter::new(1..=LONGEST);
        let (mut frames, mut left, mut chunks) = (Vec::new(), stream, chunks.iter().cycle());
        while !left.is_empty() {
            let room = splitter.room();
            assert!(!room.is_empty());
            let count = chunks.next().unwrap().min(&left.len()).min(&room.len()).to_owned();
            room[..count].copy_from_slice(&left[..count]);
            splitter.arrived(count);
            left = &left[count..];
            loop {
                match splitter.take() {
                    Ok(Some(frame)) => frames.push(frame.to_vec()),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(error, FrameError::Length);
                        return (frames, true);
                    }
                }
            }
        }
        (frames, false)
    }

    fn written(frames: &[Vec<u8>]) -> Vec<u8> {
        let with_length = |frame: &Vec<u8>| [&u16::try_from(frame.len()).unwrap().to_le_bytes(), &frame[..]].concat();
        frames.iter().flat_map(with_length).collect()
    }

    #[test]
    fn lengths_that_no_frame_has_end_the_stream() {
        assert_eq!(split(&[2, 0, 7, 8, 1, 0, 9, 5, 0, 1], &[1]), (vec![vec![7, 8], vec![9]], false));
        assert_eq!(split(&[1, 0, 9, 0, 0], &[1]), (vec![vec![9]], true));
        assert_eq!(split(&[41, 0], &[1]), (vec![], true));
        assert_eq!(split(&[1, 1], &[1]), (vec![], true), "the second byte is the higher one");
    }

    #[test]
    fn the_newest_frame_replaces_what_was_not_begun() {
        let mut queue = FrameQueue::new(3);
        assert!(queue.push(b"one") && queue.push(b"two"));
        assert_eq!((queue.unsent(), queue.replaced), (&b"\x03\0two"[..], 1));
        queue.sent(1);
        assert!(queue.push(b"3") && queue.push(b"n"));
        assert_eq!((queue.unsent(), queue.replaced), (&b"\0two\x01\0n"[..], 2), "a frame that was begun stays");
        assert_eq!(queue.clear(), 2);
        assert!(queue.unsent().is_empty() && queue.push(b"5"));
        queue.sent(2);
        assert_eq!(queue.unsent(), b"5");
        assert_eq!((queue.clear(), queue.clear()), (1, 0));
        assert!(queue.push(b"6"));
        queue.sent(9);
        assert!(queue.unsent().is_empty() && !queue.push(b"four"));
        assert!(!FrameQueue::new(70_000).push(&[0; 65_536]));
        assert_eq!(queue.replaced, 2);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=LONGEST), 0..60),
            chunks in prop::collection::vec(1_usize..300, 1..10)) {
            prop_assert_eq!(split(&written(&frames), &chunks), (frames, false));
        }

        #[test]
        fn any_bytes_are_split_alike(bytes in prop::collection::vec(0_u8..50, 0..400),
            chunks in prop::collection::vec(1_usize..300, 1..10)) {
            prop_assert_eq!(split(&bytes, &chunks), split(&bytes, &[1]));
        }

        /// A stream that takes any number of bytes of each call carries whole frames, the last one included.
        #[test]
        fn what_is_not_replaced_arrives(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=LONGEST), 1..60),
            taken in prop::collection::vec(0_usize..60, 1..10)) {
            let mut queue = FrameQueue::new(LONGEST);
            let mut stream = Vec::new();
            for (frame, taken) in frames.iter().zip(taken.iter().cycle()) {
                prop_assert!(queue.push(frame));
                let count = queue.unsent().len().min(*taken);
                stream.extend(&queue.unsent()[..count]);
                queue.sent(count);
            }
            stream.extend(queue.unsent());
            let (arrived, has_failed) = split(&stream, &[7]);
            prop_assert!(!has_failed);
            prop_assert_eq!(arrived.len() as u64 + queue.replaced, frames.len() as u64);
            prop_assert_eq!(arrived.last(), frames.last());
            let mut left = frames.iter();
            prop_assert!(arrived.iter().all(|frame| left.any(|sent| sent == frame)), "in order");
        }
    }
}
