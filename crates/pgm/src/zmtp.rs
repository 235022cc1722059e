//! Messages as ZeroMQ's `epgm://` puts them into PGM.
//!
//! Each PGM message begins with a big-endian u16: how far behind it the first ZeroMQ message begins, or 0xffff when none
//! does. Then comes a part of an endless row of frames as ZMTP 1.0 has them (<https://rfc.zeromq.org/spec/13/>): a length in
//! one byte, or 0xff and a length in eight, which counts the byte of flags that follows and the body. Bit 0 of the flags:
//! another frame of the same message follows.

/// No message begins in this PGM message.
const NONE: u16 = 0xffff;
/// The length does not fit into one byte.
const LONG: u8 = 0xff;
const MORE: u8 = 1;
const MOST_FRAMES: usize = 1 << 16;
/// Longest message that is taken, in bytes. A longer one, or a length that is damage, is dropped and counted.
pub const MOST_BYTES: usize = 1 << 24;

/// Frames a message into PGM messages of at most `most` bytes: ZeroMQ fails on fragments. `out` is reused.
pub fn frame<E>(
    message: &[u8],
    most: usize,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    out.clear();
    out.extend([0, 0]);
    let length = message.len() + 1;
    match u8::try_from(length) {
        Ok(short) if short < LONG => out.push(short),
        _ => {
            out.push(LONG);
            out.extend((length as u64).to_be_bytes());
        }
    }
    out.push(0);
    let room = most.saturating_sub(out.len());
    let (first, rest) = message.split_at(room.min(message.len()));
    out.extend_from_slice(first);
    each(out)?;
    for part in rest.chunks(most.saturating_sub(2).max(1)) {
        out.clear();
        out.extend(NONE.to_be_bytes());
        out.extend_from_slice(part);
        each(out)?;
    }
    Ok(())
}

/// A message that came whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramedMessage<'a> {
    /// The bytes of all of its frames.
    pub bytes: &'a [u8],
    /// How many bytes each frame has: one, unless its sender made it of several parts.
    pub frames: &'a [usize],
}

/// Takes one source's PGM messages apart.
#[derive(Debug, Default)]
pub struct Unframer {
    /// Bytes that hold no whole frame yet.
    rest: Vec<u8>,
    /// Frames of a message whose last one has not come, and their lengths.
    parts: Vec<u8>,
    lengths: Vec<usize>,
    /// Whether the beginning of a message was found.
    joined: bool,
    dropped: u64,
}

impl Unframer {
    /// Takes a PGM message and calls `each` with each ZeroMQ message that is whole.
    pub fn take(&mut self, payload: &[u8], mut each: impl FnMut(FramedMessage<'_>)) {
        let Some(([a, b], bytes)) = payload.split_first_chunk::<2>() else { return };
        let offset = u16::from_be_bytes([*a, *b]);
        if self.joined {
            self.rest.extend_from_slice(bytes);
        } else if offset == NONE {
            return;
        } else {
            // An offset beyond the end is damage; what comes next is no beginning then.
            let Some(begin) = bytes.get(usize::from(offset)..) else { return };
            self.rest.extend_from_slice(begin);
            self.joined = true;
        }
        let mut at = 0;
        while let Some((length, head)) = length(self.rest.get(at..).unwrap_or_default()) {
            if length > MOST_BYTES || self.parts.len() + length > MOST_BYTES || self.lengths.len() >= MOST_FRAMES {
                self.dropped += 1;
                self.lost();
                return;
            }
            let Some(frame) = self.rest.get(at + head..at + head + length) else { break };
            at += head + length;
            // A frame without flags is none.
            let Some((flags, body)) = frame.split_first() else { continue };
            self.parts.extend_from_slice(body);
            self.lengths.push(body.len());
            if flags & MORE == 0 {
                each(FramedMessage { bytes: &self.parts, frames: &self.lengths });
                self.parts.clear();
                self.lengths.clear();
            }
        }
        self.rest.drain(..at);
    }

    /// Something of this source was lost: the next whole message has to be found.
    pub fn lost(&mut self) {
        self.parts.clear();
        self.lengths.clear();
        self.rest.clear();
        self.joined = false;
    }

    /// Messages dropped because they were longer than [`MOST_BYTES`] or of too many frames, with the rest of their packet.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The length of the first frame, its flags included, and the bytes before it.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let (&short, rest) = bytes.split_first()?;
    if short != LONG {
        return Some((usize::from(short), 1));
    }
    let (long, _) = rest.split_first_chunk::<8>()?;
    Some((usize::try_from(u64::from_be_bytes(*long)).unwrap_or(usize::MAX), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(unframer: &mut Unframer, payload: &[u8]) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        unframer.take(payload, |message| taken.push(message.bytes.to_vec()));
        taken
    }

    fn framed(message: &[u8], most: usize) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let keep = |piece: &[u8]| {
            pieces.push(piece.to_vec());
            Ok::<(), ()>(())
        };
        frame(message, most, &mut Vec::new(), keep).unwrap();
        pieces
    }

    #[test]
    fn what_is_framed_is_unframed() {
        let mut unframer = Unframer::default();
        for bytes in [0, 1, 252, 253, 254, 255, 256, 1434, 1435, 1436, 1437, 5000] {
            let message: Vec<u8> = (0..bytes).map(|at: usize| at.to_le_bytes()[0]).collect();
            let pieces = framed(&message, 1448);
            assert!(pieces.iter().all(|piece| piece.len() <= 1448), "{bytes}");
            let whole: Vec<Vec<u8>> = pieces.iter().flat_map(|piece| all(&mut unframer, piece)).collect();
            assert_eq!(whole, [message], "{bytes}");
        }
        assert_eq!(framed(b"ab", 1448), [[0, 0, 3, 0, b'a', b'b']]);
        assert_eq!(framed(b"abcd", 6), [vec![0, 0, 5, 0, b'a', b'b'], vec![0xff, 0xff, b'c', b'd']]);
    }

    #[test]
    fn frames_go_on_in_the_next_pgm_message_and_late_joiners_wait_for_a_beginning() {
        let mut unframer = Unframer::default();
        assert!(all(&mut unframer, &[0xff, 0xff, 1, 2, 3]).is_empty());
        assert_eq!(all(&mut unframer, &[0, 2, 9, 9, 3, 0, b'a', b'b', 4, 0, b'c']), [b"ab"]);
        assert_eq!(all(&mut unframer, &[0, 2, b'd', b'e', 2, 0, b'f']), [b"cde".to_vec(), b"f".to_vec()]);
    }

    #[test]
    fn parts_are_one_message_and_after_a_loss_the_next_beginning_counts() {
        let mut unframer = Unframer::default();
        assert_eq!(all(&mut unframer, &[0, 0, 2, 1, b'a', 2, 0, b'b', 2, 1, b'c']), [b"ab"]);
        unframer.lost();
        assert!(all(&mut unframer, &[0xff, 0xff, b'c', 2, 0, b'd']).is_empty());
        assert_eq!(all(&mut unframer, &[0, 1, b'd', 2, 0, b'e']), [b"e"]);
        assert!(all(&mut unframer, &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_empty());
        assert!(all(&mut unframer, &[]).is_empty());
        unframer.lost();
        assert!(all(&mut unframer, &[0, 9, 1, 2]).is_empty(), "no such place");
        assert!(all(&mut unframer, &[0xff, 0xff, 2, 0, b'x']).is_empty(), "so this is the middle of a message");
        assert_eq!(unframer.dropped(), 1);
    }

    #[test]
    fn borders_of_parts_are_told_and_messages_that_are_too_long_counted() {
        let mut unframer = Unframer::default();
        let mut told = Vec::new();
        let several = [0, 0, 2, 1, b'a', 1, 1, 4, 0, b'b', b'c', b'd', 2, 0, b'e'];
        unframer.take(&several, |message| told.push((message.bytes.to_vec(), message.frames.to_vec())));
        assert_eq!(told, [(b"abcd".to_vec(), vec![1, 0, 3]), (b"e".to_vec(), vec![1])]);
        // Longer than is taken: counted at its beginning, and the next one is found again.
        let mut long = vec![0, 0, LONG];
        long.extend((MOST_BYTES as u64 + 1).to_be_bytes());
        long.extend([0; 100]);
        assert!(all(&mut unframer, &long).is_empty());
        assert!(all(&mut unframer, &[&[0xff_u8, 0xff][..], &[1; 1000]].concat()).is_empty());
        assert_eq!((unframer.dropped(), all(&mut unframer, &[0, 1, 9, 2, 0, b'f'])), (1, vec![b"f".to_vec()]));
        // So many parts that they are longer together.
        let part =
            [&[0, 0, LONG][..], &(MOST_BYTES as u64 / 2 + 1).to_be_bytes(), &[MORE], &vec![7; MOST_BYTES / 2]].concat();
        assert!(all(&mut unframer, &part).is_empty() && unframer.dropped() == 1);
        assert!(all(&mut unframer, &part).is_empty() && unframer.dropped() == 2);
    }
}
