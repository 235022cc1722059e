//! What a datagram carries: a header and the data of one topic in one cycle. All numbers are little-endian.
//!
//! ```text
//!  0  magic "WX"            2      24  boot epoch            8
//!  2  version               1      32  sequence              8
//!  3  flags and quality     1      40  cycle                 8
//!  4  CRC-32C of the rest   4      48  scheduled time, ns    8
//!  8  topic                 4      56  send time, ns         8
//! 12  publisher             2      64  data
//! 14  length of the data    2
//! 16  layout hash           8
//! ```
//! Times are those of CLOCK_REALTIME, in ns since 1970. The epoch of a publisher is higher after each start; its sequence
//! counts frames, its cycle counts periods, also those in which nothing was sent.

use crate::crc::crc32c;
use crate::{Quality, sdn};
use std::fmt;

/// Bytes before the data.
pub const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 2] = *b"WX";
const VERSION: u8 = 1;
/// In the byte of flags: two bits of quality, and the publisher's last frame.
const QUALITY: u8 = 0b11;
const LAST: u8 = 0b100;
const AT_CRC: usize = 4;
const BEHIND_CRC: usize = 8;

/// What a frame says beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    pub quality: Quality,
    /// The publisher ends in order: silence from here on is no fault.
    pub is_last: bool,
    pub topic: u32,
    /// The publishing node.
    pub publisher: u16,
    pub layout: u64,
    /// Higher at each start of the publisher.
    pub epoch: u64,
    /// Of this epoch, from 0.
    pub sequence: u64,
    pub cycle: u64,
    /// When the cycle was due, in ns since 1970.
    pub scheduled_ns: u64,
    pub sent_ns: u64,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("shorter than a header")]
    Short,
    #[error("no magic number")]
    Magic,
    #[error("another version")]
    Version,
    #[error("a length that is not that of the datagram")]
    Length,
    #[error("a wrong checksum")]
    Checksum,
}

/// How frames are written on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// The header above.
    #[default]
    Native,
    /// The header of ITER's SDN.
    Sdn,
    /// The data alone, as the UDP data source of MARTe2 has them.
    Raw,
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Sdn => "sdn",
            Self::Raw => "raw",
        })
    }
}

impl Framing {
    /// Bytes before the data.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Native => HEADER_BYTES,
            Self::Sdn => sdn::SDN_HEADER_BYTES,
            Self::Raw => 0,
        }
    }

    /// Whether frames carry publisher, epoch, cycle, its time, quality, checksum and the mark of the last one. Without them those
    /// fields of a header are those of its default.
    pub const fn is_native(self) -> bool {
        matches!(self, Self::Native)
    }

    /// Whether frames carry sequence numbers.
    pub const fn is_numbered(self) -> bool {
        !matches!(self, Self::Raw)
    }

    /// The framing whose magic number the bytes begin with.
    pub fn recognise(bytes: &[u8]) -> Option<Self> {
        let begins = |magic: &[u8]| bytes.starts_with(magic);
        begins(&MAGIC).then_some(Self::Native).or_else(|| begins(&sdn::SDN_MAGIC).then_some(Self::Sdn))
    }

    /// Writes a frame and returns its bytes; nothing where it does not fit into `into`.
    #[inline]
    pub fn encode(self, header: &Header, data: &[u8], into: &mut [u8]) -> Option<usize> {
        match self {
            Self::Native => native(header, data, into),
            Self::Sdn => sdn::encode(header, data, into),
            Self::Raw => {
                into.get_mut(..data.len())?.copy_from_slice(data);
                Some(data.len())
            }
        }
    }

    /// Reads a frame. Never panics.
    #[inline]
    pub fn decode(self, bytes: &[u8]) -> Result<(Header, &[u8]), FrameError> {
        match self {
            Self::Native => read_native(bytes),
            Self::Sdn => sdn::decode(bytes),
            Self::Raw => Ok((Header::default(), bytes)),
        }
    }
}

#[inline]
fn native(header: &Header, data: &[u8], into: &mut [u8]) -> Option<usize> {
    let length = u16::try_from(data.len()).ok()?;
    let frame = into.get_mut(..HEADER_BYTES + data.len())?;
    let (head, body) = frame.split_first_chunk_mut::<HEADER_BYTES>()?;
    let flags = header.quality as u8 | if header.is_last { LAST } else { 0 };
    let (start, rest) = head.split_at_mut(BEHIND_CRC);
    start.copy_from_slice(&[MAGIC[0], MAGIC[1], VERSION, flags, 0, 0, 0, 0]);
    let ids = u64::from(header.topic) | u64::from(header.publisher) << 32 | u64::from(length) << 48;
    let Header { layout, epoch, sequence, cycle, scheduled_ns, sent_ns, .. } = *header;
    let numbers = [ids, layout, epoch, sequence, cycle, scheduled_ns, sent_ns];
    rest.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
    body.copy_from_slice(data);
    let crc = checksum(frame).to_le_bytes();
    frame.iter_mut().skip(AT_CRC).zip(crc).for_each(|(to, from)| *to = from);
    Some(frame.len())
}

#[inline]
fn checksum(frame: &[u8]) -> u32 {
    crc32c(&[frame.get(..AT_CRC).unwrap_or_default(), frame.get(BEHIND_CRC..).unwrap_or_default()])
}

#[inline]
fn read_native(bytes: &[u8]) -> Result<(Header, &[u8]), FrameError> {
    let (head, data) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Short)?;
    let [m0, m1, version, flags, c0, c1, c2, c3, t0, t1, t2, t3, p0, p1, l0, l1, rest @ ..] = head;
    if [*m0, *m1] != MAGIC {
        return Err(FrameError::Magic);
    }
    if *version != VERSION {
        return Err(FrameError::Version);
    }
    if usize::from(u16::from_le_bytes([*l0, *l1])) != data.len() {
        return Err(FrameError::Length);
    }
    if u32::from_le_bytes([*c0, *c1, *c2, *c3]) != checksum(bytes) {
        return Err(FrameError::Checksum);
    }
    let (words, _) = rest.as_chunks::<8>();
    let number = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    let header = Header {
        quality: Quality::from_bits(u64::from(flags & QUALITY)),
        is_last: flags & LAST != 0,
        topic: u32::from_le_bytes([*t0, *t1, *t2, *t3]),
        publisher: u16::from_le_bytes([*p0, *p1]),
        layout: number(0),
        epoch: number(1),
        sequence: number(2),
        cycle: number(3),
        scheduled_ns: number(4),
        sent_ns: number(5),
    };
    Ok((header, data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        quality: Quality::Substituted,
        is_last: true,
        topic: 0x0403_0201,
        publisher: 0x0605,
        layout: 0x1122_3344_5566_7788,
        epoch: 2,
        sequence: 3,
        cycle: 4,
        scheduled_ns: 5,
        sent_ns: 6,
    };

    /// The header of the module's text, written by hand; the checksum is that of a bit-by-bit loop in Python.
    #[test]
    fn a_golden_vector() {
        let mut frame = [0; 80];
        let length = Framing::Native.encode(&HEADER, b"data", &mut frame).unwrap();
        let mut golden = vec![b'W', b'X', 1, 0b111];
        golden.extend(GOLDEN_CRC.to_le_bytes());
        golden.extend([1, 2, 3, 4, 5, 6, 4, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        for number in 2_u64..=6 {
            golden.extend(number.to_le_bytes());
        }
        golden.extend(b"data");
        assert_eq!(frame[..length], golden);
        assert_eq!(Framing::Native.decode(&golden), Ok((HEADER, &b"data"[..])));
    }

    const GOLDEN_CRC: u32 = 0x9062_df20;

    #[test]
    fn each_fault_has_its_name() {
        let mut frame = [0; HEADER_BYTES + 4];
        Framing::Native.encode(&HEADER, b"data", &mut frame).unwrap();
        let broken = |at: usize| {
            let mut frame = frame;
            frame[at] ^= 1;
            Framing::Native.decode(&frame).unwrap_err()
        };
        assert_eq!([0, 2, 14, 4, 40, 67].map(broken), {
            use FrameError::{Checksum, Length, Magic, Version};
            [Magic, Version, Length, Checksum, Checksum, Checksum]
        });
        assert_eq!(Framing::Native.decode(&frame[..63]), Err(FrameError::Short));
        assert_eq!(Framing::Native.decode(&frame[..67]), Err(FrameError::Length));
        assert_eq!(Framing::Native.encode(&HEADER, b"data", &mut [0; 67]), None);
        assert_eq!(Framing::Native.encode(&HEADER, &[0; 65_536], &mut vec![0; 70_000]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in any::<[u64; 6]>(), topic in any::<u32>(), publisher in any::<u16>(),
            bits in 0_u64..4, is_last in any::<bool>(), data in prop::collection::vec(any::<u8>(), 0..1400)) {
            let [layout, epoch, sequence, cycle, scheduled_ns, sent_ns] = numbers;
            let quality = Quality::from_bits(bits);
            let header = Header { quality, is_last, topic, publisher, layout, epoch, sequence, cycle, scheduled_ns, sent_ns };
            let mut frame = vec![0; HEADER_BYTES + data.len()];
            let length = Framing::Native.encode(&header, &data, &mut frame).unwrap();
            prop_assert_eq!(length, frame.len());
            prop_assert_eq!(Framing::Native.decode(&frame), Ok((header, &data[..])));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Framing::Native.decode(&bytes).is_err());
        }
    }
}
