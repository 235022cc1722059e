//! Ethernet, IPv4 and IPv6.

use super::{checksum, put, u16_at};
use crate::PassedBy;
use crate::address::Address;
use crate::number::short;

const ETHERNET: usize = 14;
/// Bytes of the longest header that is written: Ethernet and IPv6.
const LONGEST: usize = ETHERNET + 40;

/// What a frame holds, for this host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet<'a> {
    /// Who sent the frame: the other end or a router.
    pub(crate) source_mac: [u8; 6],
    pub(crate) remote: Address,
    pub(crate) local: Address,
    pub(crate) protocol: u8,
    pub(crate) marks: Marks,
    /// The bytes behind the IP header, without padding.
    pub(crate) payload: &'a [u8],
}

impl Packet<'_> {
    /// The sum of the pseudo-header, with the length.
    pub(crate) fn pseudo_sum(&self) -> u64 {
        pseudo(self.local, self.remote, self.protocol) + checksum::word(short(self.payload.len()))
    }
}

/// The sum of the pseudo-header without the length (RFC 9293, section 3.1; RFC 8200, section 8.1).
fn pseudo(one: Address, other: Address, protocol: u8) -> u64 {
    let addresses = if one.is_v4() {
        checksum::sum(&one.v4()) + checksum::sum(&other.v4())
    } else {
        checksum::sum(&one.v6()) + checksum::sum(&other.v6())
    };
    addresses + checksum::word(u16::from(protocol))
}

/// Reads a frame for the interface with this MAC address.
pub(crate) fn parse(frame: &[u8], mac: [u8; 6]) -> Result<Packet<'_>, PassedBy> {
    let (header, packet) = frame.split_first_chunk::<ETHERNET>().ok_or(PassedBy::Malformed)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, type_high, type_low] = *header;
    if [d0, d1, d2, d3, d4, d5] != mac {
        return Err(PassedBy::NotForUs);
    }
    let source_mac = [s0, s1, s2, s3, s4, s5];
    match (type_high, type_low) {
        (0x08, 0x00) => parse_v4(packet, source_mac),
        (0x86, 0xdd) => parse_v6(packet, source_mac),
        _ => Err(PassedBy::OtherProtocol),
    }
}

fn parse_v4(packet: &[u8], source_mac: [u8; 6]) -> Result<Packet<'_>, PassedBy> {
    let header = packet.first_chunk::<20>().ok_or(PassedBy::Malformed)?;
    let [version, tos, l0, l1, _, _, f0, f1, ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    if version != 0x45 {
        return Err(if version >> 4 == 4 && version & 15 > 5 { PassedBy::IpOptions } else { PassedBy::Malformed });
    }
    // More fragments, or an offset.
    if f0 & 0x3f != 0 || f1 != 0 {
        return Err(PassedBy::Fragment);
    }
    if checksum::fold(checksum::sum(header)) != 0xffff {
        return Err(PassedBy::Checksum);
    }
    let payload = packet.get(20..usize::from(u16::from_be_bytes([l0, l1]))).ok_or(PassedBy::Malformed)?;
    let (remote, local) = (Address::from_v4([s0, s1, s2, s3]), Address::from_v4([d0, d1, d2, d3]));
    Ok(Packet { source_mac, remote, local, protocol, marks: Marks { ttl, tos }, payload })
}

fn parse_v6(packet: &[u8], source_mac: [u8; 6]) -> Result<Packet<'_>, PassedBy> {
    let (header, rest) = packet.split_first_chunk::<40>().ok_or(PassedBy::Malformed)?;
    if header[0] >> 4 != 6 {
        return Err(PassedBy::Malformed);
    }
    let protocol = header[6];
    match protocol {
        44 => return Err(PassedBy::Fragment),
        0 | 43 | 51 | 60 => return Err(PassedBy::IpOptions),
        _ => {}
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = rest.get(..length).ok_or(PassedBy::Malformed)?;
    let address = |at: usize| header.get(at..).and_then(|rest| rest.first_chunk()).copied().map(Address::from_v6);
    let (Some(remote), Some(local)) = (address(8), address(24)) else { return Err(PassedBy::Malformed) };
    // A mapped address on the wire would be taken for one of IPv4.
    if remote.is_v4() || local.is_v4() {
        return Err(PassedBy::Malformed);
    }
    let marks = Marks { ttl: header[7], tos: header[0] << 4 | header[1] >> 4 };
    Ok(Packet { source_mac, remote, local, protocol, marks, payload })
}

/// Ethernet and IP header of a flow, ready to be copied in front of its packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    bytes: [u8; LONGEST],
    length: usize,
    /// The sum of the IPv4 header without its length.
    header_sum: u64,
    /// The sum of the pseudo-header without the length.
    pseudo_sum: u64,
}

/// What all packets of a socket have in their IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
}

impl Template {
    pub(crate) fn new(macs: [[u8; 6]; 2], local: Address, remote: Address, protocol: u8, marks: Marks) -> Self {
        let mut bytes = [0; LONGEST];
        let [from, to] = macs;
        put(&mut bytes, 0, &to);
        put(&mut bytes, 6, &from);
        let (length, header_sum) = if local.is_v4() {
            // DF: ICMP reports what does not fit (RFC 1191). Without fragments the identification may be 0 (RFC 6864).
            put(&mut bytes, 12, &[0x08, 0x00, 0x45, marks.tos, 0, 0, 0, 0, 0x40, 0, marks.ttl, protocol]);
            put(&mut bytes, 26, &local.v4());
            put(&mut bytes, 30, &remote.v4());
            (ETHERNET + 20, checksum::sum(bytes.get(ETHERNET..ETHERNET + 20).unwrap_or_default()))
        } else {
            put(&mut bytes, 12, &[0x86, 0xdd, 0x60 | marks.tos >> 4, marks.tos << 4, 0, 0, 0, 0, protocol, marks.ttl]);
            put(&mut bytes, 22, &local.v6());
            put(&mut bytes, 38, &remote.v6());
            (LONGEST, 0)
        };
        Self { bytes, length, header_sum, pseudo_sum: pseudo(local, remote, protocol) }
    }

    /// Bytes of both headers.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Writes both headers for this many bytes; the place behind them for these bytes. None when the buffer is too short.
    pub(crate) fn write<'a>(&self, frame: &'a mut [u8], payload: usize) -> Option<&'a mut [u8]> {
        let (header, rest) = frame.split_at_mut_checked(self.length)?;
        if self.length == LONGEST {
            put(header, 0, &self.bytes);
            put(header, 18, &short(payload).to_be_bytes());
        } else {
            put(header, 0, self.bytes.first_chunk::<{ ETHERNET + 20 }>()?);
            let total = short(payload + 20);
            put(header, 16, &total.to_be_bytes());
            put(header, 24, &checksum::finish(self.header_sum + checksum::word(total)));
        }
        rest.get_mut(..payload)
    }

    /// The checksum of these bytes behind the headers, of which the place of the checksum is zero.
    pub(crate) fn checksum(&self, payload: &[u8]) -> [u8; 2] {
        checksum::finish(self.pseudo_sum + checksum::word(short(payload.len())) + checksum::sum(payload))
    }
}

/// The packet quoted by an ICMP message: address of this host, of the destination, protocol, start of the payload.
pub(crate) fn quoted(packet: &[u8]) -> Option<(Address, Address, u8, &[u8])> {
    let first = *packet.first()?;
    if first >> 4 == 4 {
        let header = packet.first_chunk::<20>()?;
        // Only the first fragment has ports.
        if u16_at(packet, 6)? & 0x1fff != 0 {
            return None;
        }
        let address = |at: usize| header.get(at..).and_then(|rest| rest.first_chunk()).copied().map(Address::from_v4);
        return Some((address(12)?, address(16)?, header[9], packet.get(usize::from(first & 15) * 4..)?));
    }
    let header = packet.first_chunk::<40>()?;
    let address = |at: usize| header.get(at..).and_then(|rest| rest.first_chunk()).copied().map(Address::from_v6);
    Some((address(8)?, address(24)?, header[6], packet.get(40..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    fn frame(local: &str, remote: &str) -> Vec<u8> {
        let address = |text: &str| Address::from(text.parse::<std::net::IpAddr>().unwrap());
        let marks = Marks { ttl: 64, tos: 0x10 };
        let template = Template::new(MACS, address(local), address(remote), 17, marks);
        let mut frame = vec![0; 100];
        template.write(&mut frame, 20).unwrap().fill(7);
        frame
    }

    #[test]
    fn what_a_template_writes_is_read() {
        for (local, remote) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let frame = frame(local, remote);
            let packet = parse(&frame, MACS[1]).unwrap();
            assert_eq!((packet.remote.ip().to_string(), packet.local.ip().to_string()), (local.into(), remote.into()));
            assert_eq!((packet.source_mac, packet.protocol, packet.payload), (MACS[0], 17, [7; 20].as_slice()));
            let (from, to, protocol, rest) = quoted(&frame[14..]).unwrap();
            assert_eq!(
                (from, to, protocol, rest.len()),
                (packet.remote, packet.local, 17, frame.len() - 14 - if from.is_v4() { 20 } else { 40 })
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_passed_by_with_its_reason() {
        let good = frame("192.0.2.1", "192.0.2.2");
        let reason = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = good.clone();
            change(&mut frame);
            parse(&frame, MACS[1]).map(|_| ()).unwrap_err()
        };
        assert_eq!(reason(&|frame| frame[5] = 3), PassedBy::NotForUs);
        assert_eq!(reason(&|frame| frame[13] = 6), PassedBy::OtherProtocol);
        assert_eq!(reason(&|frame| frame[14] = 0x46), PassedBy::IpOptions);
        assert_eq!(reason(&|frame| frame[14] = 0x44), PassedBy::Malformed);
        assert_eq!(reason(&|frame| frame[20] = 0x20), PassedBy::Fragment);
        assert_eq!(reason(&|frame| frame[22] = 1), PassedBy::Checksum);
        assert_eq!(reason(&|frame| frame.truncate(50)), PassedBy::Malformed);
        let mut extended = frame("2001:db8::1", "2001:db8::2");
        extended[20] = 44;
        assert_eq!(parse(&extended, MACS[1]).unwrap_err(), PassedBy::Fragment);
        extended[20] = 0;
        assert_eq!(parse(&extended, MACS[1]).unwrap_err(), PassedBy::IpOptions);
    }
}
