//! Writes pcapng (draft-ietf-opsawg-pcapng) into a buffer, in this machine's byte order, times in ns.

use super::ring::{Addressed, CapturedPacket, Direction};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// One block, made in place at the end of a buffer.
struct Block<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Block<'a> {
    fn new(buffer: &'a mut Vec<u8>, kind: u32) -> Self {
        let start = buffer.len();
        let mut block = Self { buffer, start };
        block.word(kind);
        // The length, once it is known.
        block.word(0);
        block
    }

    fn half(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_ne_bytes());
    }

    fn word(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_ne_bytes());
    }

    /// Time as its high and low word.
    fn time(&mut self, ns: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (high, low) = ((ns >> 32) as u32, ns as u32);
        self.word(high);
        self.word(low);
    }

    /// Bytes, filled up to a multiple of four.
    fn padded(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !(self.buffer.len() - self.start).is_multiple_of(4) {
            self.buffer.push(0);
        }
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Texts are cut to what an option holds.
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.half(code);
        self.half(length);
        self.padded(value.get(..usize::from(length)).unwrap_or(value));
    }

    fn text(&mut self, code: u16, value: &str) {
        if !value.is_empty() {
            self.option(code, value.as_bytes());
        }
    }

    fn finish(mut self) {
        // The end of the options, which every block here has.
        self.word(0);
        let length = u32::try_from(self.buffer.len() - self.start + 4).unwrap_or(u32::MAX);
        self.word(length);
        if let Some(place) = self.buffer.get_mut(self.start + 4..self.start + 8) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
    }
}

/// One interface of the section; the first has the number 0.
#[derive(Debug, Clone, Default)]
pub struct Interface<'a> {
    /// The link type's number.
    pub link: u16,
    /// Longest packet kept, in bytes.
    pub snap: u32,
    pub name: &'a str,
    /// Which clock stamps its packets.
    pub description: &'a str,
    /// In bits a second.
    pub speed_bps: Option<u64>,
}

/// What became of an interface's packets.
#[derive(Clone, Copy)]
pub(super) struct Statistics {
    /// First time of the capture, in ns since 1970.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) passed: u64,
    pub(super) dropped: u64,
}

/// A pcapng file made block by block.
#[derive(Debug, Default)]
pub struct Writer {
    pub(super) bytes: Vec<u8>,
    interfaces: u32,
}

impl Writer {
    /// An empty file: who wrote it, on which system, and what it holds.
    pub fn new(application: &str, system: &str, comment: &str) -> Self {
        let mut writer = Self::default();
        let mut block = Block::new(&mut writer.bytes, SECTION);
        block.word(BYTE_ORDER);
        block.half(1);
        block.half(0);
        // The section's length is not known: it ends with the file.
        block.word(u32::MAX);
        block.word(u32::MAX);
        block.text(1, comment);
        block.text(3, system);
        block.text(4, application);
        block.finish();
        writer
    }

    /// One more interface; returns the number that packets name it by.
    pub fn interface(&mut self, interface: &Interface<'_>) -> u32 {
        let mut block = Block::new(&mut self.bytes, INTERFACE);
        block.half(interface.link);
        block.half(0);
        block.word(interface.snap);
        block.text(2, interface.name);
        block.text(3, interface.description);
        if let Some(speed) = interface.speed_bps {
            block.option(8, &speed.to_ne_bytes());
        }
        // Powers of ten: ns.
        block.option(9, &[9]);
        block.finish();
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// One more packet of the interface with this number.
    pub fn packet(&mut self, interface: u32, taken: &CapturedPacket<'_>) {
        let direction: u32 = match taken.way {
            Direction::In => 1,
            Direction::Out => 2,
        };
        let reception: u32 = match (taken.way, taken.addressed) {
            (Direction::Out, _) => 0,
            (Direction::In, Addressed::Unicast) => 1,
            (Direction::In, Addressed::Multicast) => 2,
            (Direction::In, Addressed::Broadcast) => 3,
            (Direction::In, Addressed::Other) => 4,
        };
        let length = |frame: usize| u32::try_from(frame).unwrap_or(u32::MAX);
        let mut block = Block::new(&mut self.bytes, PACKET);
        block.word(interface);
        block.time(taken.time_ns);
        match (taken.vlan, taken.frame.split_at_checked(12)) {
            // The tag goes back to where it was: behind both addresses.
            (Some((kind, control)), Some((addresses, rest))) => {
                block.word(length(taken.frame.len() + 4));
                block.word(taken.sent_bytes.saturating_add(4));
                block.buffer.extend_from_slice(addresses);
                block.buffer.extend_from_slice(&kind.to_be_bytes());
                block.buffer.extend_from_slice(&control.to_be_bytes());
                block.padded(rest);
            }
            _ => {
                block.word(length(taken.frame.len()));
                block.word(taken.sent_bytes);
                block.padded(taken.frame);
            }
        }
        block.option(2, &(direction | reception << 2).to_ne_bytes());
        block.finish();
    }

    /// What became of an interface's packets.
    pub(super) fn statistics(&mut self, interface: u32, statistics: &Statistics) {
        let Statistics { start_ns, end_ns, passed, dropped } = *statistics;
        let mut block = Block::new(&mut self.bytes, STATISTICS);
        block.word(interface);
        block.time(end_ns);
        for (code, ns) in [(2, start_ns), (3, end_ns)] {
            block.half(code);
            block.half(8);
            block.time(ns);
        }
        for (code, count) in [(6, passed), (7, dropped), (8, passed.saturating_sub(dropped))] {
            block.option(code, &count.to_ne_bytes());
        }
        block.finish();
    }

    /// What was added since it was asked for last: whole blocks.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
