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
/// Another frame follows.
const MORE: u8 = 1;
/// Longest message that is taken; a longer length is damage.
const MOST: usize = 1 << 24;

/// A message of one frame, as PGM messages of at most `most` bytes each: ZeroMQ's receivers end their program when a PGM
/// message comes in fragments, so the row of frames is cut instead.
pub(super) fn frame<E>(
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

/// Takes one source's PGM messages apart.
#[derive(Debug, Default)]
pub(super) struct Unframer {
    /// Bytes that hold no whole frame yet.
    rest: Vec<u8>,
    /// Frames of a message whose last one has not come.
    parts: Vec<u8>,
    /// Whether the beginning of a message was found.
    joined: bool,
}

impl Unframer {
    /// Takes a PGM message and calls `each` with each ZeroMQ message that is whole.
    pub(super) fn take(&mut self, payload: &[u8], mut each: impl FnMut(&[u8])) {
        let Some(([a, b], bytes)) = payload.split_first_chunk::<2>() else { return };
        let offset = u16::from_be_bytes([*a, *b]);
        if self.joined {
            self.rest.extend_from_slice(bytes);
        } else if offset == NONE {
            return;
        } else {
            self.rest.extend_from_slice(bytes.get(usize::from(offset)..).unwrap_or_default());
            self.joined = true;
        }
        let mut at = 0;
        while let Some((frame, used)) = self.rest.get(at..).and_then(next) {
            at += used;
            let Some((flags, body)) = frame.split_first() else { continue };
            self.parts.extend_from_slice(body);
            if flags & MORE == 0 {
                each(&self.parts);
                self.parts.clear();
            }
        }
        self.rest.drain(..at);
        // A length that no message has: wait for a new beginning.
        if self.rest.len() > MOST || self.parts.len() > MOST {
            self.lost();
        }
    }

    /// Something of this source was lost: the next whole message has to be found.
    pub(super) fn lost(&mut self) {
        self.parts.clear();
        self.rest.clear();
        self.joined = false;
    }
}

/// The first frame, with its flags, and the bytes that it takes.
fn next(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (&short, rest) = bytes.split_first()?;
    let (length, head) = if short == LONG {
        let (long, _) = rest.split_first_chunk::<8>()?;
        (usize::try_from(u64::from_be_bytes(*long)).unwrap_or(usize::MAX), 9)
    } else {
        (usize::from(short), 1)
    };
    let end = length.checked_add(head)?;
    Some((bytes.get(head..end)?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(unframer: &mut Unframer, payload: &[u8]) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        unframer.take(payload, |message| taken.push(message.to_vec()));
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
    }
}
