//! Topics: what is exchanged, how often, and where each field is in the data.

use crate::{FileError, Framing, OnStale, Transport};
use serde::Deserialize;
use std::net::SocketAddr;

/// The most data of a topic: with headers of IPv6, UDP and this crate one datagram of an MTU of 1500.
pub const MAX_DATA_BYTES: usize = 1384;
/// Periods of 20 kHz to 100 Hz, in µs.
const PERIODS_US: std::ops::RangeInclusive<f64> = 50.0..=10_000.0;
const MAX_HISTORY: u32 = 65_536;
const MAX_NAME: usize = 32;

/// The type of a field's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl FieldType {
    /// The size of an element, to whose multiple its offset is aligned.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// A whole number as an element; only the first [`Self::bytes`] count. Integers wrap.
    #[expect(clippy::cast_precision_loss, reason = "a pattern, which may be rounded")]
    fn pattern(self, number: u64) -> [u8; 8] {
        match self {
            Self::Bool => (number & 1).to_le_bytes(),
            Self::F32 => u64::from((number as f32).to_bits()).to_le_bytes(),
            Self::F64 => (number as f64).to_le_bytes(),
            _ => number.to_le_bytes(),
        }
    }

    /// A number of the file as an element, cut to the type's range.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    fn element(self, value: f64) -> [u8; 8] {
        match self {
            Self::Bool => u64::from(value != 0.0).to_le_bytes(),
            Self::F32 => u64::from((value as f32).to_bits()).to_le_bytes(),
            Self::F64 => value.to_le_bytes(),
            Self::U8 => u64::from(value as u8).to_le_bytes(),
            Self::U16 => u64::from(value as u16).to_le_bytes(),
            Self::U32 => u64::from(value as u32).to_le_bytes(),
            Self::U64 => (value as u64).to_le_bytes(),
            Self::I8 => i64::from(value as i8).to_le_bytes(),
            Self::I16 => i64::from(value as i16).to_le_bytes(),
            Self::I32 => i64::from(value as i32).to_le_bytes(),
            Self::I64 => (value as i64).to_le_bytes(),
        }
    }
}

/// Some elements of one type within a topic's data.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: FieldType,
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default)]
    pub unit: String,
    /// Where it begins in the data, in bytes. Absent in a file: behind the field before it, aligned to its type.
    pub offset: Option<u32>,
    /// What each element is while the value is substituted by defaults.
    #[serde(default)]
    pub default: f64,
}

fn one() -> u32 {
    1
}

impl Field {
    fn range(&self) -> std::ops::Range<usize> {
        let start = self.offset.unwrap_or(0) as usize;
        start..start.saturating_add(self.kind.bytes().saturating_mul(self.count as usize))
    }
}

/// What is exchanged in each period.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    pub name: String,
    /// Its number in frames.
    pub id: u32,
    period_us: f64,
    /// By when a value must have arrived, after its cycle was due. Absent: a period.
    deadline_us: Option<f64>,
    /// The age from which on a value is stale. Absent: three periods and the deadline.
    stale_us: Option<f64>,
    #[serde(default)]
    pub on_stale: OnStale,
    /// A multicast group and port. Absent: a datagram to each subscriber.
    pub group: Option<SocketAddr>,
    #[serde(default)]
    pub transport: Transport,
    #[serde(default)]
    pub framing: Framing,
    /// What another SDN has for UID and version of the topic. Absent: hashes of name and layout.
    sdn_uid: Option<u32>,
    sdn_version: Option<u32>,
    /// Samples kept in an image beside the latest.
    #[serde(default = "history")]
    pub history: u32,
    #[serde(rename = "field")]
    pub fields: Vec<Field>,
    #[serde(skip)]
    bytes: usize,
    #[serde(skip)]
    layout: u64,
}

fn history() -> u32 {
    16
}

impl Topic {
    /// Places fields without an offset, checks everything, and computes size and layout hash.
    pub(crate) fn check(&mut self) -> Result<(), FileError> {
        let topic = self.name.clone();
        let wrong = |why: String| FileError::Topic { topic: topic.clone(), why };
        check_name(&self.name).map_err(&wrong)?;
        if !PERIODS_US.contains(&self.period_us) {
            return Err(wrong(format!("period_us = {} is outside of 50 (20 kHz) to 10000 (100 Hz)", self.period_us)));
        }
        for (key, value) in [("deadline_us", self.deadline_us), ("stale_us", self.stale_us)] {
            if let Some(value) = value.filter(|value| !(1.0..=1e7).contains(value)) {
                return Err(wrong(format!("{key} = {value} is outside of 1 to 10000000")));
            }
        }
        if self.history > MAX_HISTORY {
            return Err(wrong(format!("history = {} is above {MAX_HISTORY} samples", self.history)));
        }
        if let Some(group) = self.group.filter(|group| !group.ip().is_multicast() || group.port() == 0) {
            return Err(wrong(format!("group {group} is no multicast group with a port, such as 239.255.0.1:7421")));
        }
        match (self.transport, self.group) {
            (Transport::Tcp, Some(group)) => {
                let why =
                    format!("group {group} needs transport = \"udp\" or \"pgm\": a connection has one subscriber");
                return Err(wrong(why));
            }
            (Transport::Pgm, None) => return Err(wrong("transport = \"pgm\" needs a group".to_owned())),
            _ => {}
        }
        if self.framing != Framing::Sdn && (self.sdn_uid.is_some() || self.sdn_version.is_some()) {
            return Err(wrong("sdn_uid and sdn_version need framing = \"sdn\"".to_owned()));
        }
        self.place().map_err(&wrong)?;
        self.bytes = self.fields.iter().map(|field| field.range().end).max().unwrap_or(0);
        if self.bytes > MAX_DATA_BYTES {
            let bytes = self.bytes;
            return Err(wrong(format!("{bytes} bytes of data do not fit into a datagram: at most {MAX_DATA_BYTES}")));
        }
        let mut order: Vec<&Field> = self.fields.iter().collect();
        order.sort_by_key(|field| field.offset);
        if let Some([first, second]) =
            order.array_windows().find(|[first, second]| second.range().start < first.range().end)
        {
            let at = second.range().start;
            return Err(wrong(format!("field '{}' overlaps field '{}' at byte {at}", second.name, first.name)));
        }
        let line = |field: &&Field| {
            let Field { name, kind, count, unit, offset, .. } = field;
            format!("{name} {} {count} {unit} {}\n", kind.word(), offset.unwrap_or(0))
        };
        self.layout = fnv1a(order.iter().map(line).collect::<String>().as_bytes());
        Ok(())
    }

    fn place(&mut self) -> Result<(), String> {
        let mut end = 0_usize;
        let mut names = std::collections::BTreeSet::new();
        if self.fields.is_empty() {
            return Err("it has no fields: add [[topic.field]]".to_owned());
        }
        for field in &mut self.fields {
            check_name(&field.name)?;
            let name = &field.name;
            if !names.insert(name.clone()) {
                return Err(format!("two fields are called '{name}'"));
            }
            if field.count == 0 {
                return Err(format!("field '{name}' has count = 0"));
            }
            if field.unit.chars().any(|c| c.is_control() || c == ' ') {
                return Err(format!("the unit of field '{name}' has a blank or a control character"));
            }
            let size = field.kind.bytes();
            let offset = *field.offset.get_or_insert(u32::try_from(end.next_multiple_of(size)).unwrap_or(u32::MAX));
            if !(offset as usize).is_multiple_of(size) {
                return Err(format!("field '{name}' at offset {offset} is not aligned to its {size} bytes"));
            }
            end = field.range().end;
        }
        Ok(())
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 64-bit FNV-1a hash of the fields in the order of their offsets: a line each of name, type, count, unit and offset with a
    /// blank between them.
    pub fn layout(&self) -> u64 {
        self.layout
    }

    /// The topic's number in frames of its framing; 0 where they have none. Of SDN the folded FNV-1a hash of its name.
    pub fn frame_topic(&self) -> u32 {
        match self.framing {
            Framing::Native => self.id,
            Framing::Sdn => self.sdn_uid.unwrap_or_else(|| folded(fnv1a(self.name.as_bytes()))),
            Framing::Raw => 0,
        }
    }

    /// The layout hash in frames; of SDN folded to 32 bits, 0 where they have none.
    pub fn frame_layout(&self) -> u64 {
        match self.framing {
            Framing::Native => self.layout,
            Framing::Sdn => u64::from(self.sdn_version.unwrap_or_else(|| folded(self.layout))),
            Framing::Raw => 0,
        }
    }

    pub fn period_ns(&self) -> u64 {
        ns(self.period_us)
    }

    pub fn deadline_ns(&self) -> u64 {
        ns(self.deadline_us.unwrap_or(self.period_us))
    }

    pub fn stale_ns(&self) -> u64 {
        self.stale_us.map_or(3 * self.period_ns() + self.deadline_ns(), ns)
    }

    /// Writes data that tell the cycle: each element is its number in the element's type.
    #[inline]
    pub fn write_pattern(&self, cycle: u64, data: &mut [u8]) {
        self.each(data, |field| field.kind.pattern(cycle));
    }

    /// Writes the default of each field.
    pub fn write_defaults(&self, data: &mut [u8]) {
        self.each(data, |field| field.kind.element(field.default));
    }

    #[inline]
    fn each(&self, data: &mut [u8], of: impl Fn(&Field) -> [u8; 8]) {
        for field in &self.fields {
            let element = of(field);
            let places = data.get_mut(field.range()).unwrap_or_default();
            match field.kind.bytes() {
                1 => repeat::<1>(places, element),
                2 => repeat::<2>(places, element),
                4 => repeat::<4>(places, element),
                _ => repeat::<8>(places, element),
            }
        }
    }
}

/// Writes the first `N` bytes of an element to each place.
#[inline]
fn repeat<const N: usize>(places: &mut [u8], element: [u8; 8]) {
    if let Some(element) = element.first_chunk::<N>() {
        places.as_chunks_mut::<N>().0.fill(*element);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within 10 s")]
pub(crate) fn ns(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

/// Names are parts of file names and lines.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_fit) {
        return Ok(());
    }
    let shown = model::text::excerpt(name, MAX_NAME);
    Err(format!("the name '{shown}' is not 1 to {MAX_NAME} of a-z, 0-9, '_' and '-'"))
}

/// The high half of a hash over its low half.
fn folded(hash: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])
}

/// FNV-1a with 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(body: &str) -> Result<Topic, String> {
        let text = format!("name = \"axis\"\nid = 1\n{body}");
        let mut topic: Topic = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
        topic.check().map_err(|error| error.to_string())?;
        Ok(topic)
    }

    const PERIOD: &str = "period_us = 1000\n";

    /// The hash is that of a loop in Python over the text "position f64 3 mm 0\nvalid bool 1  24\n".
    #[test]
    fn the_layout_of_a_golden_topic() {
        let fields = "[[field]]\nname = \"position\"\ntype = \"f64\"\ncount = 3\nunit = \"mm\"\n[[field]]\nname = \"valid\"\ntype = \"bool\"\n";
        let golden = topic(&format!("{PERIOD}{fields}")).unwrap();
        assert_eq!((golden.bytes(), golden.layout()), (25, 0x504b_4e33_e512_be1e));
        assert_eq!((golden.period_ns(), golden.deadline_ns(), golden.stale_ns()), (1_000_000, 1_000_000, 4_000_000));
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        let other = topic(&format!("{PERIOD}{}", fields.replace("mm", "m"))).unwrap();
        assert_ne!(other.layout(), golden.layout(), "the unit is part of it");
    }

    #[test]
    fn patterns_and_defaults_are_in_the_types_of_the_fields() {
        let fields = "[[field]]\nname = \"a\"\ntype = \"u16\"\ndefault = 70000\n[[field]]\nname = \"b\"\ntype = \"i8\"\n\
            default = -2\n[[field]]\nname = \"c\"\ntype = \"f32\"\ncount = 2\ndefault = 1.5\n[[field]]\nname = \"d\"\ntype = \"bool\"\n";
        let topic = topic(&format!("{PERIOD}{fields}")).unwrap();
        let mut data = [0; 13];
        topic.write_defaults(&mut data);
        assert_eq!(data, [0xff, 0xff, 0xfe, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0xc0, 0x3f, 0]);
        topic.write_pattern(3, &mut data);
        assert_eq!(data, [3, 0, 3, 0, 0, 0, 0x40, 0x40, 0, 0, 0x40, 0x40, 1]);
        topic.write_pattern(3, &mut [0; 3]);
    }

    #[test]
    fn each_fault_is_one_clear_line() {
        let field = "[[field]]\nname = \"x\"\ntype = \"u32\"\n";
        let second = "[[field]]\nname = \"y\"\ntype = \"u32\"\noffset = ";
        for (body, words) in [
            (format!("{PERIOD}[[field]]\nname = \"x\"\ntype = \"u24\"\n"), "unknown variant `u24`"),
            (format!("{PERIOD}{field}{second}0\n"), "topic 'axis': field 'y' overlaps field 'x' at byte 0"),
            (format!("{PERIOD}{field}{second}2\n"), "field 'y' at offset 2 is not aligned to its 4 bytes"),
            (format!("{PERIOD}{field}count = 347\n"), "1388 bytes of data do not fit into a datagram: at most 1384"),
            (format!("{PERIOD}{field}count = 4294967295\n"), "do not fit into a datagram"),
            (format!("{PERIOD}{field}count = 0\n"), "field 'x' has count = 0"),
            (format!("{PERIOD}{field}{field}"), "two fields are called 'x'"),
            (format!("{PERIOD}field = []\n"), "it has no fields"),
            (format!("period_us = 49\n{field}"), "period_us = 49 is outside of 50 (20 kHz) to 10000 (100 Hz)"),
            (format!("period_us = nan\n{field}"), "period_us = NaN is outside of"),
            (format!("{PERIOD}deadline_us = 0\n{field}"), "deadline_us = 0 is outside of 1"),
            (format!("{PERIOD}group = \"10.0.0.1:7421\"\n{field}"), "group 10.0.0.1:7421 is no multicast group"),
            (
                format!("{PERIOD}transport = \"tcp\"\ngroup = \"239.0.0.1:7421\"\n{field}"),
                "group 239.0.0.1:7421 needs transport = \"udp\"",
            ),
            (format!("{PERIOD}transport = \"pgm\"\n{field}"), "transport = \"pgm\" needs a group"),
            (format!("{PERIOD}transport = \"sctp\"\n{field}"), "unknown variant `sctp`"),
            (format!("{PERIOD}histroy = 3\n{field}"), "unknown field `histroy`"),
            (format!("{PERIOD}history = 65537\n{field}"), "history = 65537 is above 65536 samples"),
            (format!("{PERIOD}{}", field.replace("\"x\"", "\"X/..\"")), "the name 'X/..' is not"),
        ] {
            let error = topic(&body).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{error}\nfor {body}");
        }
    }
}
