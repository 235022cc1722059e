//! Segments of TCP: header and options.

use super::{put, put_slice, u16_at, u32_at};
use crate::number::Seq;

/// Bytes of a header without options.
pub(crate) const HEADER: usize = 20;
/// Bytes of the time stamps option with its padding (RFC 7323, appendix A).
pub(crate) const TIMESTAMPS: usize = 12;
/// SACK blocks that fit into a header without time stamps.
pub(crate) const MAX_BLOCKS: usize = 4;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const URG: u8 = 0x20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: Seq,
    pub(crate) acknowledgment: Seq,
    pub(crate) flags: u8,
    /// Not yet scaled.
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment. Its checksum is not looked at. None when lengths do not fit.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, _) = bytes.split_first_chunk::<HEADER>()?;
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, flags, w0, w1, _, _, u0, u1] = *header;
        let (options, payload) =
            bytes.split_at_checked(usize::from(offset >> 4) * 4).and_then(|(whole, payload)| {
                // A header shorter than 20 bytes has no options to cut out.
                whole.get(HEADER..).map(|options| (options, payload))
            })?;
        Some(Self {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            sequence: Seq(u32::from_be_bytes([q0, q1, q2, q3])),
            acknowledgment: Seq(u32::from_be_bytes([a0, a1, a2, a3])),
            flags,
            window: u16::from_be_bytes([w0, w1]),
            urgent: u16::from_be_bytes([u0, u1]),
            options,
            payload,
        })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// SEG.LEN: sequence numbers that it occupies.
    pub(crate) fn length(&self) -> u32 {
        crate::number::long(self.payload.len()) + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }

    /// Time stamps, where the option is the only one and lies as RFC 7323, appendix A, recommends.
    pub(crate) fn lone_timestamps(&self) -> Option<(u32, u32)> {
        let [1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3] = *self.options.as_array::<TIMESTAMPS>()? else {
            return None;
        };
        Some((u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3])))
    }
}

/// The options of a segment that are understood.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    /// Value and echo.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) blocks: [(Seq, Seq); MAX_BLOCKS],
    pub(crate) block_count: usize,
}

impl Options {
    /// Reads options. Unknown ones are skipped (RFC 9293, MUST-6); an impossible length ends the list (MUST-7).
    pub(crate) fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                0 => break,
                1 => bytes = rest,
                _ => {
                    let Some(length) = rest.first().map(|length| usize::from(*length)) else { break };
                    let (Some(body), Some(after)) = (bytes.get(2..length), bytes.get(length..)) else { break };
                    options.take(kind, body);
                    bytes = after;
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, body: &[u8]) {
        match (kind, body.len()) {
            (2, 2) => self.mss = u16_at(body, 0),
            (3, 1) => self.window_scale = body.first().copied(),
            (4, 0) => self.sack_permitted = true,
            (5, length) if length % 8 == 0 => {
                for (place, block) in self.blocks.iter_mut().zip(body.chunks_exact(8)) {
                    if let (Some(start), Some(end)) = (u32_at(block, 0), u32_at(block, 4)) {
                        *place = (Seq(start), Seq(end));
                        self.block_count += usize::from(self.block_count < MAX_BLOCKS);
                    }
                }
            }
            (8, 8) => self.timestamps = u32_at(body, 0).zip(u32_at(body, 4)),
            _ => {}
        }
    }

    pub(crate) fn blocks(&self) -> &[(Seq, Seq)] {
        self.blocks.get(..self.block_count).unwrap_or_default()
    }
}

/// Options as they are sent, padded to a multiple of four bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OptionBytes {
    bytes: [[u8; 8]; 5],
    length: usize,
}

impl OptionBytes {
    fn add<const COUNT: usize>(&mut self, what: &[u8; COUNT]) {
        put(self.bytes.as_flattened_mut(), self.length, what);
        self.length += what.len();
    }

    pub(crate) fn add_mss(&mut self, mss: u16) {
        let [high, low] = mss.to_be_bytes();
        self.add(&[2, 4, high, low]);
    }

    pub(crate) fn add_sack_permitted(&mut self) {
        self.add(&[1, 1, 4, 2]);
    }

    pub(crate) fn add_window_scale(&mut self, shift: u8) {
        self.add(&[1, 3, 3, shift]);
    }

    pub(crate) fn add_timestamps(&mut self, value: u32, echo: u32) {
        let ([v0, v1, v2, v3], [e0, e1, e2, e3]) = (value.to_be_bytes(), echo.to_be_bytes());
        self.add(&[1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3]);
    }

    /// As many blocks as there is room for.
    pub(crate) fn add_blocks(&mut self, blocks: impl Iterator<Item = (Seq, Seq)>) {
        let head = self.length;
        self.length += 4;
        let mut count = 0;
        for (start, end) in blocks.take((40_usize.saturating_sub(self.length)) / 8) {
            self.add(&start.0.to_be_bytes());
            self.add(&end.0.to_be_bytes());
            count += 1;
        }
        if count == 0 {
            self.length = head;
        } else {
            put(self.bytes.as_flattened_mut(), head, &[1, 1, 5, 2 + 8 * count]);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_flattened().get(..self.length).unwrap_or_default()
    }
}

/// The fixed part of a segment that is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: Seq,
    pub(crate) acknowledgment: Seq,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
}

impl Header {
    /// Writes header and options, with a checksum of zero. `out` is the whole segment.
    pub(crate) fn write(&self, options: &[u8], out: &mut [u8]) {
        let ([s0, s1], [d0, d1]) = (self.source_port.to_be_bytes(), self.destination_port.to_be_bytes());
        let ([q0, q1, q2, q3], [a0, a1, a2, a3]) = (self.sequence.0.to_be_bytes(), self.acknowledgment.0.to_be_bytes());
        let ([w0, w1], [u0, u1]) = (self.window.to_be_bytes(), self.urgent.to_be_bytes());
        let offset = u8::try_from((HEADER + options.len()) / 4).unwrap_or(15) << 4;
        let header = [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, self.flags, w0, w1, 0, 0, u0, u1];
        put(out, 0, &header);
        match options.as_array::<TIMESTAMPS>() {
            Some(usual) => put(out, HEADER, usual),
            None => put_slice(out, HEADER, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut options = OptionBytes::default();
        options.add_mss(1460);
        options.add_sack_permitted();
        options.add_timestamps(7, 9);
        options.add_window_scale(3);
        let header = Header { source_port: 1, destination_port: 2, sequence: Seq(3), flags: SYN, ..Header::default() };
        let mut bytes = vec![0; HEADER + options.bytes().len() + 2];
        header.write(options.bytes(), &mut bytes);
        let segment = Segment::parse(&bytes).unwrap();
        assert_eq!((segment.sequence, segment.length(), segment.payload), (Seq(3), 3, [0; 2].as_slice()));
        let read = Options::parse(segment.options);
        assert_eq!((read.mss, read.window_scale, read.sack_permitted), (Some(1460), Some(3), true));
        assert_eq!((read.timestamps, segment.lone_timestamps()), (Some((7, 9)), None));
    }

    #[test]
    fn as_many_blocks_are_sent_as_fit() {
        let many = || (0..9).map(|at| (Seq(at * 10), Seq(at * 10 + 5)));
        let mut options = OptionBytes::default();
        options.add_blocks(many());
        assert_eq!((options.bytes().len(), Options::parse(options.bytes()).blocks().len()), (36, 4));
        let mut options = OptionBytes::default();
        options.add_timestamps(1, 2);
        options.add_blocks(many());
        assert_eq!((options.bytes().len(), Options::parse(options.bytes()).blocks().len()), (40, 3));
        let mut options = OptionBytes::default();
        options.add_blocks(std::iter::empty());
        assert!(options.bytes().is_empty());
    }

    /// RFC 9293, MUST-5, MUST-6, MUST-7, MUST-64 and MUST-68.
    #[test]
    fn unknown_options_are_skipped_and_impossible_ones_end_the_list() {
        let parse = |bytes: &[u8]| Options::parse(bytes).mss;
        assert_eq!(parse(&[1, 1, 1, 2, 4, 5, 180, 0]), Some(1460), "not on a word's boundary");
        assert_eq!(parse(&[254, 6, 1, 2, 3, 4, 2, 4, 5, 180]), Some(1460), "an unknown one before");
        for bad in [[254, 0], [254, 1], [254, 60]] {
            assert_eq!(parse(&[bad[0], bad[1], 2, 4, 5, 180]), None);
        }
        assert_eq!(parse(&[0, 2, 4, 5, 180]), None, "behind the end of the list");
        assert_eq!(parse(&[2]), None);
        assert_eq!(parse(&[2, 3, 5]), None, "another length than it has");
    }
}
