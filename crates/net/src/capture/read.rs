//! Reads pcap (µs, ns) and pcapng of either byte order. Lengths are checked against bytes; errors name their place.

use std::io::Read;

/// The longest block or record that is read. Wireshark's limit for a packet is 256 KiB.
const LONGEST: usize = 1 << 24;
const MOST_INTERFACES: usize = 1 << 16;

#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("it is no pcap and no pcapng file: it begins with {0}")]
    NotACapture(String),
    #[error("it ends at byte {at}, inside {what}: the capture was cut off")]
    Truncated { at: u64, what: &'static str },
    #[error("at byte {at}: {what}: the file is damaged")]
    Damaged { at: u64, what: String },
    #[error("reading at byte {at} failed: {cause}")]
    Read { at: u64, cause: std::io::Error },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where its record or block begins in the file.
    pub at: u64,
    /// The interface's number, over all sections.
    pub interface: u32,
    /// The link type's number.
    pub link: u32,
    /// Time in ns since 1970; absent in a pcapng simple packet.
    pub time_ns: Option<u64>,
    /// Whether it left the machine; absent where the file does not say.
    pub leaving: Option<bool>,
    /// Length on the wire in bytes.
    pub sent_bytes: u32,
    /// The frame, as much as was kept.
    pub frame: Vec<u8>,
    pub comment: Option<String>,
}

/// What is read from a file, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Packet(Record),
    Comment(String),
    /// What an interface's statistics say: packets dropped for want of room.
    Dropped(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn half(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
    }

    fn word(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
    }

    fn long(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
    }
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    per_second: u128,
    offset_s: i64,
}

impl Clock {
    /// The code of if_tsresol: a power of ten, or of two.
    fn of(code: u8, offset_s: i64) -> Option<Self> {
        let exponent = u32::from(code & 0x7f);
        let base: u128 = if code & 0x80 == 0 { 10 } else { 2 };
        Some(Self { per_second: base.checked_pow(exponent).filter(|units| *units <= 1 << 64)?, offset_s })
    }

    fn ns(self, units: u64) -> Option<u64> {
        let ns = u128::from(units).checked_mul(1_000_000_000)? / self.per_second;
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(i128::try_from(ns).ok()?.checked_add(offset)?).ok()
    }
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u32,
    clock: Clock,
    snap: u32,
}

#[derive(Debug)]
enum Form {
    Pcap { order: Order, link: u32, nanoseconds: bool },
    Pcapng { order: Order, interfaces: Vec<Interface>, before: u32 },
}

#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    at: u64,
    form: Form,
    /// The bytes of the record at hand.
    room: Vec<u8>,
    ready: std::collections::VecDeque<Entry>,
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a file. Errors: it is no capture, or ends at once.
    pub fn new(mut input: R) -> Result<Self, CaptureError> {
        let mut start = [0; 4];
        let got = fill(&mut input, &mut start, 0)?;
        if got < 4 {
            return Err(CaptureError::Truncated { at: got as u64, what: "the first word" });
        }
        let mut reader = Self {
            input,
            at: 4,
            form: Form::Pcap { order: Order::Little, link: 0, nanoseconds: false },
            room: Vec::new(),
            ready: std::collections::VecDeque::new(),
            over: false,
        };
        match start {
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                reader.form = Form::Pcapng { order: Order::Little, interfaces: Vec::new(), before: 0 };
                reader.block(0, &start)?;
            }
            [0xd4, 0xc3, 0xb2, 0xa1] => reader.pcap(Order::Little, false)?,
            [0xa1, 0xb2, 0xc3, 0xd4] => reader.pcap(Order::Big, false)?,
            [0x4d, 0x3c, 0xb2, 0xa1] => reader.pcap(Order::Little, true)?,
            [0xa1, 0xb2, 0x3c, 0x4d] => reader.pcap(Order::Big, true)?,
            [0x1f, 0x8b, ..] => {
                return Err(CaptureError::NotACapture("the mark of gzip: unpack it first".to_owned()));
            }
            other => {
                let words: Vec<String> = other.iter().map(|byte| format!("{byte:02x}")).collect();
                return Err(CaptureError::NotACapture(words.join(" ")));
            }
        }
        Ok(reader)
    }

    /// How far the file has been read, in bytes.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The next entry; `None` at the end. Errors (final): the file is damaged or ends inside a record.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, CaptureError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            if self.over {
                return Ok(None);
            }
            // Until this one is read without an error, there is none after it.
            self.over = true;
            if !self.read_one()? {
                return Ok(None);
            }
            self.over = false;
        }
    }

    fn damaged(at: u64, what: impl Into<String>) -> CaptureError {
        CaptureError::Damaged { at, what: what.into() }
    }

    fn pcap(&mut self, order: Order, nanoseconds: bool) -> Result<(), CaptureError> {
        self.take(20, "the file header")?;
        let link = order.word(&self.room, 16).unwrap_or(0);
        // The upper bits say whether a frame check sequence follows.
        self.form = Form::Pcap { order, link: link & 0x0fff_ffff, nanoseconds };
        Ok(())
    }

    /// Reads exactly so many bytes into `room`, growing it only as bytes come.
    fn take(&mut self, bytes: usize, what: &'static str) -> Result<(), CaptureError> {
        self.room.clear();
        let mut limited = (&mut self.input).take(bytes as u64);
        let got = limited.read_to_end(&mut self.room).map_err(|cause| CaptureError::Read { at: self.at, cause })?;
        self.at += got as u64;
        if got < bytes {
            return Err(CaptureError::Truncated { at: self.at, what });
        }
        Ok(())
    }

    /// Reads one record or block; false at the end of the file.
    fn read_one(&mut self) -> Result<bool, CaptureError> {
        let start = self.at;
        let mut head = [0; 4];
        let got = fill(&mut self.input, &mut head, start)?;
        self.at += got as u64;
        match (got, &self.form) {
            (0, _) => Ok(false),
            (4, Form::Pcapng { .. }) => self.block(start, &head).map(|()| true),
            (4, Form::Pcap { .. }) => self.record(start, head).map(|()| true),
            _ => Err(CaptureError::Truncated { at: self.at, what: "the head of a record" }),
        }
    }

    fn record(&mut self, start: u64, head: [u8; 4]) -> Result<(), CaptureError> {
        let Form::Pcap { order, link, nanoseconds } = self.form else { return Ok(()) };
        self.take(12, "the head of a packet")?;
        let seconds = order.word(&head, 0).unwrap_or(0);
        let field = |at| order.word(&self.room, at).unwrap_or(0);
        let (fraction, kept, sent) = (field(0), field(4), field(8));
        let length = usize::try_from(kept).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(Self::damaged(start, format!("a packet claims {kept} bytes")));
        }
        self.take(length, "a packet")?;
        // Some writers let the fraction run over into the next second.
        let fraction_ns = u64::from(fraction) * if nanoseconds { 1 } else { 1000 };
        self.ready.push_back(Entry::Packet(Record {
            at: start,
            interface: 0,
            link,
            time_ns: Some(u64::from(seconds) * 1_000_000_000 + fraction_ns),
            leaving: None,
            sent_bytes: sent,
            frame: std::mem::take(&mut self.room),
            comment: None,
        }));
        Ok(())
    }

    /// Reads the block that begins at `start` with `kind`.
    fn block(&mut self, start: u64, kind: &[u8; 4]) -> Result<(), CaptureError> {
        const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
        let is_section = *kind == SECTION;
        self.take(if is_section { 8 } else { 4 }, "the head of a block")?;
        let mut order = match &self.form {
            Form::Pcapng { order, .. } => *order,
            Form::Pcap { .. } => return Ok(()),
        };
        if is_section {
            order = match self.room.get(4..8) {
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => Order::Little,
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => Order::Big,
                _ => return Err(Self::damaged(start, "a section without a byte order")),
            };
        }
        let claimed = order.word(&self.room, 0).unwrap_or(0);
        let length = usize::try_from(claimed).unwrap_or(usize::MAX);
        // Kind, length, length again; a section has its byte order too, which is read already.
        let least = if is_section { 28 } else { 12 };
        if length < least || length > LONGEST || !length.is_multiple_of(4) {
            return Err(Self::damaged(start, format!("a block claims {claimed} bytes")));
        }
        self.take(length - if is_section { 12 } else { 8 }, "a block")?;
        let body_bytes = self.room.len() - 4;
        if order.word(&self.room, body_bytes) != Some(claimed) {
            return Err(Self::damaged(start, "a block's two lengths differ"));
        }
        self.room.truncate(body_bytes);
        let body = std::mem::take(&mut self.room);
        let known = match order {
            Order::Little => u32::from_le_bytes(*kind),
            Order::Big => u32::from_be_bytes(*kind),
        };
        if is_section { self.section(start, order, &body) } else { self.understand(start, known, order, &body) }
    }

    fn section(&mut self, start: u64, order: Order, body: &[u8]) -> Result<(), CaptureError> {
        if order.half(body, 0) != Some(1) {
            return Err(Self::damaged(start, "a section of an unknown version"));
        }
        let before = match &self.form {
            Form::Pcapng { interfaces, before, .. } => {
                before.saturating_add(u32::try_from(interfaces.len()).unwrap_or(u32::MAX))
            }
            Form::Pcap { .. } => 0,
        };
        self.form = Form::Pcapng { order, interfaces: Vec::new(), before };
        for (code, value) in options(order, body, 12) {
            if code == 1 {
                self.ready.push_back(Entry::Comment(String::from_utf8_lossy(value).into_owned()));
            }
        }
        Ok(())
    }

    /// The body of a block without its lengths.
    fn understand(&mut self, start: u64, kind: u32, order: Order, body: &[u8]) -> Result<(), CaptureError> {
        const INTERFACE: u32 = 1;
        const OLD_PACKET: u32 = 2;
        const SIMPLE_PACKET: u32 = 3;
        const STATISTICS: u32 = 5;
        const PACKET: u32 = 6;
        let short = || Self::damaged(start, "a block is shorter than its fields");
        let Form::Pcapng { interfaces, before, .. } = &mut self.form else { return Ok(()) };
        match kind {
            INTERFACE => {
                let link = u32::from(order.half(body, 0).ok_or_else(short)?);
                let snap = order.word(body, 4).ok_or_else(short)?;
                let (mut resolution, mut offset) = (6, 0);
                for (code, value) in options(order, body, 8) {
                    match (code, value) {
                        (9, [code, ..]) => resolution = *code,
                        (14, value) => offset = order.long(value, 0).map_or(0, u64::cast_signed),
                        _ => {}
                    }
                }
                let clock = Clock::of(resolution, offset).ok_or_else(|| {
                    Self::damaged(start, format!("an interface's time resolution is {resolution:#04x}"))
                })?;
                if interfaces.len() >= MOST_INTERFACES {
                    return Err(Self::damaged(start, "more interfaces than there can be"));
                }
                interfaces.push(Interface { link, clock, snap });
            }
            PACKET => self.packet(start, order, order.word(body, 0), body)?,
            // The upper half counts drops.
            OLD_PACKET => self.packet(start, order, order.half(body, 0).map(u32::from), body)?,
            SIMPLE_PACKET => {
                let interface =
                    *interfaces.first().ok_or_else(|| Self::damaged(start, "a packet before its interface"))?;
                let sent_bytes = order.word(body, 0).ok_or_else(short)?;
                let kept = if interface.snap == 0 { sent_bytes } else { sent_bytes.min(interface.snap) };
                let (frame, _) = packet_data(body, 4, kept)
                    .ok_or_else(|| Self::damaged(start, "a packet is longer than its block"))?;
                self.ready.push_back(Entry::Packet(Record {
                    at: start,
                    interface: *before,
                    link: interface.link,
                    time_ns: None,
                    leaving: None,
                    sent_bytes,
                    frame: frame.to_vec(),
                    comment: None,
                }));
            }
            STATISTICS => {
                order.word(body, 8).ok_or_else(short)?;
                // Dropped by the interface, dropped by the system.
                let dropped = options(order, body, 12)
                    .filter(|(code, _)| matches!(code, 5 | 7))
                    .filter_map(|(_, value)| order.long(value, 0))
                    .fold(0, u64::saturating_add);
                self.ready.push_back(Entry::Dropped(dropped));
            }
            // Names, secrets, custom blocks and what is yet to come.
            _ => {}
        }
        Ok(())
    }

    /// A packet of an interface of this section; `number`: which.
    fn packet(&mut self, start: u64, order: Order, number: Option<u32>, body: &[u8]) -> Result<(), CaptureError> {
        let short = || Self::damaged(start, "a block is shorter than its fields");
        let Form::Pcapng { interfaces, before, .. } = &mut self.form else { return Ok(()) };
        let number = number.ok_or_else(short)?;
        let interface = usize::try_from(number).ok().and_then(|number| interfaces.get(number));
        let interface =
            *interface.ok_or_else(|| Self::damaged(start, format!("a packet of interface {number}, which is none")))?;
        let high = order.word(body, 4).ok_or_else(short)?;
        let low = order.word(body, 8).ok_or_else(short)?;
        let kept = order.word(body, 12).ok_or_else(short)?;
        let sent_bytes = order.word(body, 16).ok_or_else(short)?;
        let (frame, end) =
            packet_data(body, 20, kept).ok_or_else(|| Self::damaged(start, "a packet is longer than its block"))?;
        let (mut leaving, mut comment) = (None, None);
        for (code, value) in options(order, body, end) {
            match code {
                1 => comment = Some(String::from_utf8_lossy(value).into_owned()),
                2 => {
                    leaving = order.word(value, 0).and_then(|flags| match flags & 3 {
                        1 => Some(false),
                        2 => Some(true),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        let units = u64::from(high) << 32 | u64::from(low);
        let time_ns =
            interface.clock.ns(units).ok_or_else(|| Self::damaged(start, "a packet's time is out of range"))?;
        self.ready.push_back(Entry::Packet(Record {
            at: start,
            interface: before.saturating_add(number),
            link: interface.link,
            time_ns: Some(time_ns),
            leaving,
            sent_bytes,
            frame: frame.to_vec(),
            comment,
        }));
        Ok(())
    }
}

fn packet_data(body: &[u8], at: usize, kept: u32) -> Option<(&[u8], usize)> {
    let end = at.checked_add(usize::try_from(kept).ok()?)?;
    Some((body.get(at..end)?, end.checked_next_multiple_of(4)?))
}

/// The options from `at` on, up to their end mark or the first that does not fit.
fn options(order: Order, body: &[u8], mut at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = order.half(body, at)?;
        let length = usize::from(order.half(body, at + 2)?);
        if code == 0 {
            return None;
        }
        let value = body.get(at + 4..at + 4 + length)?;
        at += 4 + length.next_multiple_of(4);
        Some((code, value))
    })
}

/// Reads until the buffer is full or the file ends; says how much came.
fn fill(input: &mut impl Read, buffer: &mut [u8], at: u64) -> Result<usize, CaptureError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(CaptureError::Read { at: at + filled as u64, cause }),
        }
    }
    Ok(filled)
}

/// For fuzzing: reads whatever the bytes hold.
#[doc(hidden)]
pub fn exercise(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut entries = 0;
    while let Ok(Some(entry)) = reader.next_entry() {
        entries += 1;
        if let Entry::Packet(record) = entry {
            assert!(record.frame.len() <= bytes.len() && record.at < bytes.len() as u64);
        }
        assert!(entries <= bytes.len(), "each takes bytes");
    }
    assert!(reader.offset() <= bytes.len() as u64);
}

#[cfg(test)]
mod tests;
