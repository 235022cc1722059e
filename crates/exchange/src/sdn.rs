//! The header of ITER's Synchronous Databus Network (SDN), in the byte order of little-endian hosts.
//!
//! ```text
//!  0  "SDN" and a zero byte   4      20  length of the data       4
//!  4  version, as text        4      24  counter                  8
//!  8  header size, 48         4      32  send time, ns            8
//! 12  topic UID               4      40  receive time, ns         8
//! 16  topic version           4      48  data
//! ```
//! The receive time is 0 on the wire: receivers fill it in. A version other than the own one is read.

use crate::{FrameError, Header};

pub(crate) const SDN_HEADER_BYTES: usize = 48;
pub(crate) const SDN_MAGIC: [u8; 4] = *b"SDN\0";
const VERSION: [u8; 4] = *b"1.0\0";
const SIZE: [u8; 4] = 48_u32.to_le_bytes();

/// Writes topic, layout (its low 32 bits), sequence and send time; SDN has no place for the other fields.
#[inline]
pub(crate) fn encode(header: &Header, data: &[u8], into: &mut [u8]) -> Option<usize> {
    let length = u32::try_from(data.len()).ok()?.to_le_bytes();
    let frame = into.get_mut(..SDN_HEADER_BYTES + data.len())?;
    let (head, body) = frame.split_at_mut(SDN_HEADER_BYTES);
    let [v0, v1, v2, v3, ..] = header.layout.to_le_bytes();
    let words = [SDN_MAGIC, VERSION, SIZE, header.topic.to_le_bytes(), [v0, v1, v2, v3], length];
    let (short, long) = head.split_at_mut(24);
    short.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    let numbers = [header.sequence, header.sent_ns, 0];
    long.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
    body.copy_from_slice(data);
    Some(frame.len())
}

#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), FrameError> {
    let (head, data) = bytes.split_first_chunk::<SDN_HEADER_BYTES>().ok_or(FrameError::Short)?;
    let (short, long) = head.split_at(24);
    let [magic, _, size, topic, layout, length] = short.as_chunks::<4>().0 else { return Err(FrameError::Short) };
    let [sequence, sent_ns, _] = long.as_chunks::<8>().0 else { return Err(FrameError::Short) };
    if *magic != SDN_MAGIC {
        return Err(FrameError::Magic);
    }
    // In network byte order the size is another number, too.
    if *size != SIZE {
        return Err(FrameError::Version);
    }
    if u32::from_le_bytes(*length) as usize != data.len() {
        return Err(FrameError::Length);
    }
    let header = Header {
        topic: u32::from_le_bytes(*topic),
        layout: u64::from(u32::from_le_bytes(*layout)),
        sequence: u64::from_le_bytes(*sequence),
        sent_ns: u64::from_le_bytes(*sent_ns),
        ..Header::default()
    };
    Ok((header, data))
}

#[cfg(test)]
mod tests {
    use crate::{FrameError, Framing, Header};
    use proptest::prelude::*;

    const HEADER: Header = Header {
        quality: crate::Quality::Good,
        is_last: false,
        topic: 0x0403_0201,
        publisher: 0,
        layout: 0x0807_0605,
        epoch: 0,
        sequence: 0x1122_3344_5566_7788,
        cycle: 0,
        scheduled_ns: 0,
        sent_ns: 9,
    };

    /// Each field of the module's text, written by hand.
    const GOLDEN: [u8; 52] = [
        b'S', b'D', b'N', 0, b'1', b'.', b'0', 0, 48, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 0, 0, 0, //
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, //
        b'd', b'a', b't', b'a',
    ];

    #[test]
    fn golden_vectors() {
        let mut frame = [0; 80];
        assert_eq!(Framing::Sdn.encode(&HEADER, b"data", &mut frame), Some(52));
        assert_eq!(frame[..52], GOLDEN);
        assert_eq!(Framing::Sdn.decode(&GOLDEN), Ok((HEADER, &b"data"[..])));
        assert_eq!(Framing::Raw.encode(&HEADER, b"data", &mut frame), Some(4));
        assert_eq!(frame[..4], *b"data");
        assert_eq!(Framing::Raw.decode(b"data"), Ok((Header::default(), &b"data"[..])));
        assert_eq!(Framing::Sdn.encode(&HEADER, b"data", &mut [0; 51]), None);
        assert_eq!(Framing::Raw.encode(&HEADER, b"data", &mut [0; 3]), None);
    }

    #[test]
    fn each_fault_has_its_name() {
        let broken = |at: usize| {
            let mut frame = GOLDEN;
            frame[at] ^= 1;
            Framing::Sdn.decode(&frame).map(|(header, _)| header)
        };
        assert_eq!([0, 3, 8, 11, 20, 23].map(broken), {
            use FrameError::{Length, Magic, Version};
            [Magic, Magic, Version, Version, Length, Length].map(Err)
        });
        // Versions and receive times of others are read.
        assert_eq!([4, 40].map(broken), [Ok(HEADER); 2]);
        assert_eq!(Framing::Sdn.decode(&GOLDEN[..47]), Err(FrameError::Short));
        assert_eq!(Framing::Sdn.decode(&GOLDEN[..51]), Err(FrameError::Length));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(sequence in any::<u64>(), sent_ns in any::<u64>(), topic in any::<u32>(),
            layout in any::<u32>(), data in prop::collection::vec(any::<u8>(), 0..1400)) {
            let header = Header { topic, layout: u64::from(layout), sequence, sent_ns, ..Header::default() };
            let mut frame = vec![0; Framing::Sdn.header_bytes() + data.len()];
            prop_assert_eq!(Framing::Sdn.encode(&header, &data, &mut frame), Some(frame.len()));
            prop_assert_eq!(Framing::Sdn.decode(&frame), Ok((header, &data[..])));
            prop_assert_eq!(Framing::Raw.encode(&header, &data, &mut frame), Some(data.len()));
            prop_assert_eq!(Framing::Raw.decode(&frame[..data.len()]), Ok((Header::default(), &data[..])));
        }

        /// A right beginning, so that more than the magic number is looked at.
        #[test]
        fn any_bytes_are_refused_or_read(start in 0_usize..=24, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [&GOLDEN[..start], &bytes].concat();
            prop_assert_eq!(Framing::Raw.decode(&bytes), Ok((Header::default(), &bytes[..])));
            if let Ok((header, data)) = Framing::Sdn.decode(&bytes) {
                prop_assert_eq!(&bytes[48..], data);
                let mut again = vec![0; bytes.len()];
                prop_assert_eq!(Framing::Sdn.encode(&header, data, &mut again), Some(bytes.len()));
                prop_assert_eq!(&again[8..40], &bytes[8..40]);
            }
        }
    }
}
