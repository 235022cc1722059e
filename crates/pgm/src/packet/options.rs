//! Option extensions (section 9, appendices A and E).

use super::bytes::{Reader, Writer};
use super::{ParseError, WriteError, flag, nla};
use crate::Sqn;
use std::net::IpAddr;

/// Options of a packet at most, their length's own included (section 9).
pub const MAX_OPTIONS: usize = 16;
/// Sequence numbers of a list at most (section 9.3.5).
const MAX_LISTED: usize = 62;
/// Bytes that every option begins with: type, length, and two of flags.
const HEAD_BYTES: usize = 4;

mod kind {
    pub(super) const LENGTH: u8 = 0x00;
    pub(super) const FRAGMENT: u8 = 0x01;
    pub(super) const NAK_LIST: u8 = 0x02;
    pub(super) const JOIN: u8 = 0x03;
    pub(super) const NAK_BO_IVL: u8 = 0x04;
    pub(super) const NAK_BO_RNG: u8 = 0x05;
    pub(super) const REDIRECT: u8 = 0x07;
    pub(super) const PARITY_PRM: u8 = 0x08;
    pub(super) const PARITY_GRP: u8 = 0x09;
    pub(super) const CURR_TGSIZE: u8 = 0x0a;
    pub(super) const NBR_UNREACH: u8 = 0x0b;
    pub(super) const SYN: u8 = 0x0d;
    pub(super) const FIN: u8 = 0x0e;
    pub(super) const RST: u8 = 0x0f;
    /// Set in the last option's type (section 9).
    pub(super) const END: u8 = 0x80;
}

/// Bit of OPT_RST: NAKs will go unanswered. Below it the error code (section 9.8.4).
const RST_NAKS_UNANSWERED: u8 = 0x40;
const RST_CODE: u8 = 0x3f;
/// Bit of the head's third byte: the option is parity over those of the group's packets (OP_ENCODED, section 9).
const ENCODED: u8 = 0x04;
// Bits of OPT_PARITY_PRM (section 11.8.1).
const PARITY_ON_DEMAND: u8 = 0x01;
const PARITY_PROACTIVE: u8 = 0x02;

/// The place of a fragment in its message (section 9.2): 12 bytes in the RFC's text, 16 in its picture and in practice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Number of the packet that holds the message's first bytes.
    pub first: Sqn,
    /// Where in the message this fragment begins, in bytes.
    pub offset: u32,
    /// Length of the message, in bytes.
    pub length: u32,
}

impl Fragment {
    /// What parity is made over: the option from its fourth byte on; the highest bit: none (OP_ENCODED_NULL, section 11.2).
    pub(crate) fn encode(fragment: Option<Self>) -> [u8; ENCODED_FRAGMENT_BYTES] {
        let mut bytes = [0; ENCODED_FRAGMENT_BYTES];
        let Some(fragment) = fragment else {
            bytes[0] = ENCODED_NULL;
            return bytes;
        };
        bytes[1..5].copy_from_slice(&fragment.first.0.to_be_bytes());
        bytes[5..9].copy_from_slice(&fragment.offset.to_be_bytes());
        bytes[9..].copy_from_slice(&fragment.length.to_be_bytes());
        bytes
    }

    /// The option that these bytes are, if they are one.
    pub(crate) fn decode(bytes: &[u8; ENCODED_FRAGMENT_BYTES]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_be_bytes(*word));
        if bytes[0] & ENCODED_NULL != 0 {
            return None;
        }
        Some(Self { first: Sqn(word(1)?), offset: word(5)?, length: word(9)? })
    }
}

/// Bytes of OPT_FRAGMENT that parity is made over.
pub(crate) const ENCODED_FRAGMENT_BYTES: usize = 13;
/// The packet has no such option (OP_ENCODED_NULL).
const ENCODED_NULL: u8 = 0x80;

/// Back-off interval that receivers shall use (section 15.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct NakBackOff {
    pub interval_us: u32,
    /// The poll that it was found by; 0: none, it holds at once.
    pub poll: Sqn,
}

/// Limits of the back-off interval (section 15.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct NakBackOffRange {
    pub max_us: u32,
    pub min_us: u32,
}

/// What parity a source offers (section 11.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityParameters {
    /// It sends parity without being asked.
    pub proactive: bool,
    /// It answers requests for parity.
    pub on_demand: bool,
    /// Data packets of a transmission group.
    pub group_size: u32,
}

/// A source that gives up (section 9.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// NAKs for data sent before go unanswered.
    pub naks_unanswered: bool,
    /// Why, 0 to 63; 0: not known, all others are the application's.
    pub code: u8,
}

/// Up to 62 sequence numbers beside a NAK's own (section 9.3).
#[derive(Clone, Copy)]
pub enum NakList<'a> {
    /// As they came: four bytes each.
    Wire(&'a [u8]),
    /// To be written.
    Numbers(&'a [Sqn]),
}

impl Default for NakList<'_> {
    fn default() -> Self {
        Self::Numbers(&[])
    }
}

impl NakList<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Wire(bytes) => bytes.len() / 4,
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = Sqn> + '_ {
        let (bytes, numbers): (&[u8], &[Sqn]) = match self {
            Self::Wire(bytes) => (bytes, &[]),
            Self::Numbers(numbers) => (&[], numbers),
        };
        let (chunks, _) = bytes.as_chunks::<4>();
        chunks.iter().map(|chunk| Sqn(u32::from_be_bytes(*chunk))).chain(numbers.iter().copied())
    }
}

impl PartialEq for NakList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for NakList<'_> {}

impl std::fmt::Debug for NakList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The options of a packet. Those that this crate does not know are counted and passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a> {
    /// Part of a larger message.
    pub fragment: Option<Fragment>,
    /// Parity over OPT_FRAGMENT from its fourth byte (OP_ENCODED, section 11.2), in place of `fragment`.
    pub encoded_fragment: Option<[u8; 13]>,
    /// Further numbers of a NAK or NCF.
    pub nak_list: NakList<'a>,
    /// The first data that a late joiner may ask for (section 9.4).
    pub join: Option<Sqn>,
    /// Back-off interval of NAKs.
    pub nak_back_off: Option<NakBackOff>,
    /// Its limits.
    pub nak_back_off_range: Option<NakBackOffRange>,
    /// A local repairer to send NAKs to (section 9.5).
    pub redirect: Option<IpAddr>,
    /// What parity the source offers.
    pub parity_parameters: Option<ParityParameters>,
    /// Which group of parity packets within a transmission group (section 11.8.2).
    pub parity_group: Option<u32>,
    /// Data packets of this transmission group, where there are fewer than usual (section 11.8.3).
    pub current_group_size: Option<u32>,
    /// Multicast does not get through downstream: no NAKs until a regular SPM (section 15.3).
    pub neighbour_unreachable: bool,
    /// First data of a session (section 9.6).
    pub syn: bool,
    /// The session ends (section 9.7).
    pub fin: bool,
    /// The source gives up.
    pub reset: Option<Reset>,
    /// Options of other types.
    pub unknown: u8,
    /// A parity packet, or a NAK for parity (header's flag).
    pub parity: bool,
    /// Parity over packets of different lengths (header's flag).
    pub variable_length: bool,
}

impl<'a> Options<'a> {
    /// All numbers of a NAK or NCF: its own, then those of the list.
    pub fn numbers(&self, nak: &super::Nak) -> impl Iterator<Item = u32> {
        let first = nak.sqn.0;
        std::iter::once(first).chain(self.nak_list.iter().map(|sqn| sqn.0))
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let begin = reader.at();
        let first = reader.u8()?;
        let length = reader.u8()?;
        if first & !kind::END != kind::LENGTH {
            return Err(ParseError::NoOptionLength(first));
        }
        let total = usize::from(reader.u16()?);
        let wrong = ParseError::OptionLength { kind: first, at: begin, length: total };
        if usize::from(length) != HEAD_BYTES || total < HEAD_BYTES || total - HEAD_BYTES > reader.left() {
            return Err(wrong);
        }
        let end = begin + total;
        let mut options = Self::default();
        let mut seen = 0_u32;
        let mut ended = first & kind::END != 0;
        let mut count = 1;
        while reader.at() < end {
            if ended {
                return Err(ParseError::OptionEnd);
            }
            count += 1;
            if count > MAX_OPTIONS {
                return Err(ParseError::TooManyOptions);
            }
            let at = reader.at();
            let head = *reader.array::<HEAD_BYTES>()?;
            let (option, length) = (head[0] & !kind::END, usize::from(head[1]));
            ended = head[0] & kind::END != 0;
            let wrong = ParseError::OptionLength { kind: option, at, length };
            if length < HEAD_BYTES || at + length > end {
                return Err(wrong);
            }
            if let Some(bit) = 1_u32.checked_shl(u32::from(option)) {
                if seen & bit != 0 {
                    return Err(ParseError::OptionTwice(option));
                }
                seen |= bit;
            }
            let mut value = Reader::new(reader.take(length - HEAD_BYTES)?);
            options.one(option, [head[2], head[3]], &mut value).map_err(|_| wrong)?;
            // A list takes all that is there; the others must be as long as they are defined.
            if value.left() != 0 {
                return Err(wrong);
            }
        }
        if ended { Ok(options) } else { Err(ParseError::OptionEnd) }
    }

    fn one(&mut self, option: u8, [common, specific]: [u8; 2], value: &mut Reader<'a>) -> Result<(), ParseError> {
        match option {
            kind::FRAGMENT if common & ENCODED != 0 => {
                let mut encoded = [specific; ENCODED_FRAGMENT_BYTES];
                encoded[1..].copy_from_slice(value.array::<12>()?);
                self.encoded_fragment = Some(encoded);
            }
            kind::FRAGMENT => {
                let (first, offset, length) = (Sqn(value.u32()?), value.u32()?, value.u32()?);
                self.fragment = Some(Fragment { first, offset, length });
            }
            kind::NAK_LIST => {
                let bytes = value.left();
                if bytes == 0 || !bytes.is_multiple_of(4) || bytes / 4 > MAX_LISTED {
                    return Err(ParseError::Short { at: value.at(), needed: 4, there: bytes });
                }
                self.nak_list = NakList::Wire(value.rest());
            }
            kind::JOIN => self.join = Some(Sqn(value.u32()?)),
            kind::NAK_BO_IVL => {
                self.nak_back_off = Some(NakBackOff { interval_us: value.u32()?, poll: Sqn(value.u32()?) });
            }
            kind::NAK_BO_RNG => {
                self.nak_back_off_range = Some(NakBackOffRange { max_us: value.u32()?, min_us: value.u32()? });
            }
            kind::REDIRECT => self.redirect = Some(nla::read(value)?),
            kind::PARITY_PRM => {
                self.parity_parameters = Some(ParityParameters {
                    proactive: specific & PARITY_PROACTIVE != 0,
                    on_demand: specific & PARITY_ON_DEMAND != 0,
                    group_size: value.u32()?,
                });
            }
            kind::PARITY_GRP => self.parity_group = Some(value.u32()?),
            kind::CURR_TGSIZE => self.current_group_size = Some(value.u32()?),
            kind::NBR_UNREACH => self.neighbour_unreachable = true,
            kind::SYN => self.syn = true,
            kind::FIN => self.fin = true,
            kind::RST => {
                let naks_unanswered = specific & RST_NAKS_UNANSWERED != 0;
                self.reset = Some(Reset { naks_unanswered, code: specific & RST_CODE });
            }
            _ => {
                self.unknown = self.unknown.saturating_add(1);
                value.rest();
            }
        }
        Ok(())
    }

    fn has_no_extension(&self) -> bool {
        // What is in the header, and what is not written.
        Self { unknown: 0, parity: false, variable_length: false, ..*self } == Self::default()
    }

    /// The header's field. What is for routers depends on the packet for one option (section 11.8.3).
    pub(super) fn flags(&self, odata: bool) -> u8 {
        let network_significant = !self.nak_list.is_empty()
            || self.nak_back_off.is_some()
            || self.nak_back_off_range.is_some()
            || self.redirect.is_some()
            || self.parity_parameters.is_some()
            || (self.current_group_size.is_some() && !odata)
            || self.neighbour_unreachable;
        let flags = [
            (!self.has_no_extension(), flag::PRESENT),
            (network_significant, flag::NETWORK_SIGNIFICANT),
            (self.parity, flag::PARITY),
            (self.variable_length, flag::VARIABLE_LENGTH),
        ];
        flags.into_iter().fold(0, |all, (is_set, flag)| if is_set { all | flag } else { all })
    }

    /// Writes the extensions, those for routers first (section 9.1).
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        if self.has_no_extension() {
            return Ok(());
        }
        let listed = self.nak_list.len();
        if listed > MAX_LISTED {
            return Err(WriteError::NakList(listed));
        }
        let begin = writer.length();
        writer.bytes(&[kind::LENGTH, 4, 0, 0])?;
        let mut last = begin;
        // Its head and its words; `more` bytes follow.
        let mut put = |writer: &mut Writer<'_>, kind: u8, specific: u8, words: &[u32], more: usize| {
            last = writer.length();
            #[expect(clippy::cast_possible_truncation, reason = "at most 4 + 4 x 62")]
            writer.bytes(&[kind, (HEAD_BYTES + 4 * words.len() + more) as u8, 0, specific])?;
            writer.words(words)
        };
        if listed > 0 {
            put(writer, kind::NAK_LIST, 0, &[], 4 * listed)?;
            self.nak_list.iter().try_for_each(|number| writer.u32(number.0))?;
        }
        if let Some(NakBackOff { interval_us, poll }) = self.nak_back_off {
            put(writer, kind::NAK_BO_IVL, 0, &[interval_us, poll.0], 0)?;
        }
        if let Some(NakBackOffRange { max_us, min_us }) = self.nak_back_off_range {
            put(writer, kind::NAK_BO_RNG, 0, &[max_us, min_us], 0)?;
        }
        if let Some(address) = self.redirect {
            put(writer, kind::REDIRECT, 0, &[], if address.is_ipv4() { 8 } else { 20 })?;
            nla::write(address, writer)?;
        }
        if let Some(ParityParameters { proactive, on_demand, group_size }) = self.parity_parameters {
            let proactive = if proactive { PARITY_PROACTIVE } else { 0 };
            let on_demand = if on_demand { PARITY_ON_DEMAND } else { 0 };
            put(writer, kind::PARITY_PRM, proactive | on_demand, &[group_size], 0)?;
        }
        if let Some(size) = self.current_group_size {
            put(writer, kind::CURR_TGSIZE, 0, &[size], 0)?;
        }
        if self.neighbour_unreachable {
            put(writer, kind::NBR_UNREACH, 0, &[], 0)?;
        }
        if let Some(Fragment { first, offset, length }) = self.fragment {
            put(writer, kind::FRAGMENT, 0, &[first.0, offset, length], 0)?;
        } else if let Some([specific, value @ ..]) = self.encoded_fragment {
            put(writer, kind::FRAGMENT, specific, &[], value.len())?;
            writer.bytes(&value)?;
            writer.again(writer.length() - 14, &[ENCODED]);
        }
        if let Some(first) = self.join {
            put(writer, kind::JOIN, 0, &[first.0], 0)?;
        }
        if let Some(group) = self.parity_group {
            put(writer, kind::PARITY_GRP, 0, &[group], 0)?;
        }
        if self.syn {
            put(writer, kind::SYN, 0, &[], 0)?;
        }
        if self.fin {
            put(writer, kind::FIN, 0, &[], 0)?;
        }
        if let Some(reset) = self.reset {
            let unanswered = if reset.naks_unanswered { RST_NAKS_UNANSWERED } else { 0 };
            put(writer, kind::RST, unanswered | (reset.code & RST_CODE), &[], 0)?;
        }
        let total = u16::try_from(writer.length() - begin).unwrap_or(u16::MAX);
        writer.again(begin + 2, &total.to_be_bytes());
        writer.again(last, &[writer.byte_at(last) | kind::END]);
        Ok(())
    }
}
