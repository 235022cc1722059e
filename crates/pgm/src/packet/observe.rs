//! Packets as a capture has them: cut perhaps, damaged perhaps, and to be shown all the same.

use super::body::{Body, kind};
use super::bytes::Reader;
use super::{HEADER_BYTES, MAX_OPTIONS, Packet, ParseError, checksum, flag};
use crate::{Gsi, Tsi};

/// What the header tells, whatever lies behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Head {
    /// The source that the packet is about. Taken from the ports by the type; of an unknown type as if it came from the source.
    pub tsi: Tsi,
    /// Data-destination port.
    pub data_port: u16,
    pub version: u8,
    pub kind: u8,
    pub has_options: bool,
    /// Whether some of them are for routers (the header's N bit).
    pub network_significant: bool,
    /// Length of the payload in the header, in bytes.
    pub payload_bytes: u16,
    flags: u8,
    sum: u16,
}

impl Head {
    /// The header of a packet, whatever lies behind it; an error where there are fewer bytes.
    #[inline]
    pub fn of(bytes: &[u8]) -> Result<Self, ParseError> {
        Self::read(&mut Reader::new(bytes))
    }

    #[inline]
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let &[s0, s1, d0, d1, kind, flags, c0, c1, ref gsi @ .., l0, l1] = reader.array::<HEADER_BYTES>()?;
        let [source_port, destination_port, sum, payload_bytes] =
            [[s0, s1], [d0, d1], [c0, c1], [l0, l1]].map(u16::from_be_bytes);
        let gsi = Gsi(*gsi);
        let (version, kind) = (kind >> 6, kind & 0x3f);
        let (port, data_port) =
            if kind::goes_to_source(kind) { (destination_port, source_port) } else { (source_port, destination_port) };
        Ok(Self {
            tsi: Tsi { gsi, port },
            data_port,
            version,
            kind,
            has_options: flags & flag::PRESENT != 0,
            network_significant: flags & flag::NETWORK_SIGNIFICANT != 0,
            payload_bytes,
            flags,
            sum,
        })
    }

    /// Whether it travels upstream, where the two ports are swapped (section 8.3).
    #[inline]
    pub fn goes_to_source(&self) -> bool {
        kind::goes_to_source(self.kind)
    }

    pub(super) fn flags(&self) -> u8 {
        self.flags
    }

    pub(super) fn has_checksum(&self) -> bool {
        self.sum != 0
    }

    /// The RFC's name of the type; absent for types that it does not have.
    pub fn name(&self) -> Option<&'static str> {
        Body::kind_name(self.kind)
    }
}

/// What became of the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub enum Sum {
    Good,
    Bad,
    Absent,
    /// It cannot be known: the packet was cut.
    Cut,
}

impl Sum {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Absent => "none",
            Self::Cut => "unknown",
        }
    }
}

/// One option without interpretation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Its type, without the bit of the last one.
    pub kind: u8,
    /// Byte for the option's own flags.
    pub specific: u8,
    /// What follows its head.
    pub value: &'a [u8],
}

impl RawOption<'_> {
    /// The RFC's name of its type, without OPT_; absent for types that are not known.
    pub fn name(&self) -> Option<&'static str> {
        // The last four are of congestion control: RFC 3208 names the first two, draft-ietf-rmt-bb-pgmcc-03 the others.
        #[rustfmt::skip]
        const NAMES: [&str; 20] = [
            "LENGTH", "FRAGMENT", "NAK_LIST", "JOIN", "NAK_BO_IVL", "NAK_BO_RNG", "", "REDIRECT",
            "PARITY_PRM", "PARITY_GRP", "CURR_TGSIZE", "NBR_UNREACH", "PATH_NLA", "SYN", "FIN", "RST",
            "CR", "CRQST", "PGMCC_DATA", "PGMCC_FEEDBACK",
        ];
        NAMES.get(usize::from(self.kind)).copied().filter(|name| !name.is_empty())
    }
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct ObservedPacket<'a> {
    pub head: Head,
    pub sum: Sum,
    /// All of it, whatever its checksum; of a packet that was cut the payload is what is there.
    pub packet: Result<Packet<'a>, ParseError>,
    /// Its options' bytes, behind the length's own; empty where there are none or they are damaged.
    area: &'a [u8],
}

impl<'a> ObservedPacket<'a> {
    /// Reads a packet of `sent_bytes` on the wire (`None`: unknown, as of IP fragments). Errors: no whole header.
    pub fn read(bytes: &'a [u8], sent_bytes: Option<usize>) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let head = Head::read(&mut reader)?;
        let cut = sent_bytes.is_none_or(|sent| sent > bytes.len());
        let sum = match head.has_checksum() {
            false => Sum::Absent,
            true if cut => Sum::Cut,
            true if checksum(bytes) == 0 => Sum::Good,
            true => Sum::Bad,
        };
        let packet = Packet::behind(&head, &mut reader, cut).and_then(|packet| match sent_bytes {
            Some(sent) if cut => {
                let before = bytes.len() - packet.body.payload().len();
                let there = sent.saturating_sub(before);
                let told = usize::from(head.payload_bytes);
                if told == there { Ok(packet) } else { Err(ParseError::PayloadLength { told, there }) }
            }
            _ => Ok(packet),
        });
        let mut behind = Reader::new(bytes.get(HEADER_BYTES..).unwrap_or_default());
        let area = match Body::read(head.kind, &mut behind) {
            Ok(_) if head.has_options => options_area(behind.rest()),
            _ => &[],
        };
        Ok(Self { head, sum, packet, area })
    }

    /// Its options in order, as far as their lengths make sense.
    pub fn options(&self) -> impl Iterator<Item = RawOption<'a>> + use<'a> {
        let mut rest = self.area;
        std::iter::from_fn(move || {
            let (head, _) = rest.split_first_chunk::<4>()?;
            let value = rest.get(4..usize::from(head[1]))?;
            rest = rest.get(usize::from(head[1])..)?;
            Some(RawOption { kind: head[0] & 0x7f, specific: head[3], value })
        })
        .take(MAX_OPTIONS)
    }
}

/// What lies behind OPT_LENGTH and within it.
fn options_area(bytes: &[u8]) -> &[u8] {
    match bytes.split_first_chunk::<4>() {
        Some((&[kind, 4, high, low], _)) if kind & 0x7f == 0 => {
            let total = usize::from(u16::from_be_bytes([high, low])).min(bytes.len());
            bytes.get(4..total).unwrap_or_default()
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Data, Nak, NakList, Options};
    use super::*;
    use crate::Sqn;
    use crate::tests::TSI;

    fn written(body: Body<'_>, options: Options<'_>) -> Vec<u8> {
        crate::tests::written(&Packet { tsi: TSI, data_port: 7500, body, options })
    }

    #[test]
    fn a_whole_packet_reads_as_it_does_elsewhere() {
        let bytes = written(
            Body::Odata(Data { sqn: Sqn(7), trail: Sqn(3), payload: &[9; 100] }),
            Options { syn: true, join: Some(Sqn(3)), ..Options::default() },
        );
        let seen = ObservedPacket::read(&bytes, Some(bytes.len())).unwrap();
        assert_eq!(seen.packet, Packet::parse(&bytes));
        assert_eq!(
            (seen.sum, seen.head.tsi, seen.head.data_port, seen.head.name()),
            (Sum::Good, TSI, 7500, Some("ODATA"))
        );
        let names: Vec<_> = seen.options().map(|option| option.name().unwrap()).collect();
        assert_eq!(names, ["JOIN", "SYN"]);
    }

    #[test]
    fn a_cut_one_keeps_what_is_there() {
        let bytes = written(Body::Odata(Data { sqn: Sqn(7), trail: Sqn(3), payload: &[9; 100] }), Options::default());
        let seen = ObservedPacket::read(&bytes[..40], Some(bytes.len())).unwrap();
        assert_eq!(seen.sum, Sum::Cut);
        assert_eq!(seen.packet.unwrap().body, Body::Odata(Data { sqn: Sqn(7), trail: Sqn(3), payload: &[9; 16] }));
        // A length that the wire had not room for, and one that is not known.
        let told = ParseError::PayloadLength { told: 100, there: 60 };
        assert_eq!(ObservedPacket::read(&bytes[..40], Some(84)).unwrap().packet, Err(told));
        assert!(ObservedPacket::read(&bytes[..40], None).unwrap().packet.is_ok());
        assert!(ObservedPacket::read(&bytes[..15], Some(124)).is_err());
        let short = ObservedPacket::read(&bytes[..20], Some(124)).unwrap();
        assert_eq!((short.head.tsi, short.packet.is_err()), (TSI, true));
    }

    #[test]
    fn a_damaged_one_says_what_is_wrong() {
        let nak = Nak { sqn: Sqn(5), source: [192, 0, 2, 1].into(), group: [239, 192, 0, 1].into() };
        let list = [Sqn(6), Sqn(9)];
        let good = written(Body::Nak(nak), Options { nak_list: NakList::Numbers(&list), ..Options::default() });
        let mut bytes = good.clone();
        bytes[19] ^= 1;
        let seen = ObservedPacket::read(&bytes, Some(bytes.len())).unwrap();
        assert_eq!((seen.sum, seen.packet.unwrap().sqn()), (Sum::Bad, Some(Sqn(4))));
        assert_eq!(seen.options().map(|option| option.value.len()).collect::<Vec<_>>(), [8]);
        // The option's length is nothing: it would never end.
        let mut bytes = good.clone();
        bytes[36 + 4 + 1] = 0;
        let seen = ObservedPacket::read(&bytes, Some(bytes.len())).unwrap();
        assert_eq!(seen.packet, Err(ParseError::OptionLength { kind: 2, at: 40, length: 0 }));
        assert_eq!(seen.options().count(), 0);
        // An unknown type, and no checksum.
        let mut bytes = good;
        bytes[4] = 0x3e;
        bytes[6..8].fill(0);
        let seen = ObservedPacket::read(&bytes, Some(bytes.len())).unwrap();
        assert_eq!((seen.sum, seen.head.name()), (Sum::Absent, None));
        assert_eq!(seen.packet, Err(ParseError::Kind(0x3e)));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), sent in 0_usize..400) {
            for sent in [None, Some(sent), Some(bytes.len())] {
                if let Ok(seen) = ObservedPacket::read(&bytes, sent) {
                    proptest::prop_assert!(seen.options().count() <= MAX_OPTIONS);
                }
            }
        }
    }
}
