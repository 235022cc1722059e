//! Frames of the other end, built and read byte by byte, so that the crate's own reading and writing is tested too.

use std::net::{IpAddr, SocketAddr};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;
pub(crate) const URG: u8 = 32;

/// A TCP segment with absolute numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tcp {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// Both ends of a frame: MAC addresses and sockets, from and to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) macs: [[u8; 6]; 2],
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

impl Ends {
    pub(crate) fn reversed(self) -> Self {
        Self { macs: [self.macs[1], self.macs[0]], from: self.to, to: self.from }
    }
}

/// The sum of RFC 1071, byte by byte.
pub(crate) fn sum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut total: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low))).sum();
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::try_from(total).unwrap()
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn pseudo(ends: &Ends, protocol: u8, length: usize) -> Vec<u8> {
    let length = u16::try_from(length).unwrap().to_be_bytes();
    [octets(ends.from.ip()), octets(ends.to.ip()), vec![0, protocol], length.to_vec()].concat()
}

/// Ethernet and IP around a payload.
pub(crate) fn packet(ends: &Ends, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [ends.macs[1], ends.macs[0]].concat();
    let (from, to) = (octets(ends.from.ip()), octets(ends.to.ip()));
    if ends.from.is_ipv4() {
        let total = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
        let mut header = [&[0x45, 0, total[0], total[1], 0, 7, 0, 0, 64, protocol, 0, 0], &from[..], &to[..]].concat();
        let checksum = (!sum(&[&header])).to_be_bytes();
        header[10..12].copy_from_slice(&checksum);
        frame.extend([8, 0]);
        frame.extend(header);
    } else {
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, length[0], length[1], protocol, 64]);
        frame.extend(from);
        frame.extend(to);
    }
    frame.extend(payload);
    frame
}

pub(crate) fn tcp(ends: &Ends, segment: &Tcp) -> Vec<u8> {
    let mut options = segment.options.clone();
    options.resize(options.len().next_multiple_of(4), 0);
    let offset = u8::try_from((20 + options.len()) / 4).unwrap() << 4;
    let mut bytes = [
        &ends.from.port().to_be_bytes()[..],
        &ends.to.port().to_be_bytes(),
        &segment.sequence.to_be_bytes(),
        &segment.acknowledgment.to_be_bytes(),
        &[offset, segment.flags],
        &segment.window.to_be_bytes(),
        &[0, 0],
        &segment.urgent.to_be_bytes(),
        &options,
        &segment.payload,
    ]
    .concat();
    let checksum = !sum(&[&pseudo(ends, 6, bytes.len()), &bytes]);
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    packet(ends, 6, &bytes)
}

pub(crate) fn udp(ends: &Ends, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    let (from, to) = (ends.from.port().to_be_bytes(), ends.to.port().to_be_bytes());
    let mut bytes = [&from[..], &to, &length, &[0, 0], payload].concat();
    let checksum = !sum(&[&pseudo(ends, 17, bytes.len()), &bytes]);
    bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
    packet(ends, 17, &bytes)
}

/// An ICMP error about a frame that the receiver of this one sent.
pub(crate) fn icmp(ends: &Ends, kind: u8, code: u8, rest: u32, about: &[u8]) -> Vec<u8> {
    let quoted = &about[14..about.len().min(14 + 60)];
    let mut bytes = [&[kind, code, 0, 0][..], &rest.to_be_bytes(), quoted].concat();
    let pseudo = if ends.from.is_ipv4() { Vec::new() } else { pseudo(ends, 58, bytes.len()) };
    let checksum = !sum(&[&pseudo, &bytes]);
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet(ends, if ends.from.is_ipv4() { 1 } else { 58 }, &bytes)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

/// Reads a TCP frame between these ends; every checksum has to be right.
pub(crate) fn read_tcp(ends: &Ends, frame: &[u8]) -> Tcp {
    let header = if ends.from.is_ipv4() { 20 } else { 40 };
    assert_eq!(frame[..12], [ends.macs[1], ends.macs[0]].concat());
    let segment = &frame[14 + header..];
    assert_eq!(sum(&[&pseudo(ends, 6, segment.len()), segment]), 0xffff, "checksum");
    if ends.from.is_ipv4() {
        assert_eq!(sum(&[&frame[14..34]]), 0xffff, "checksum of the IP header");
        assert_eq!(number(&frame[16..18]) as usize, frame.len() - 14);
        assert_eq!(frame[20] & 0x40, 0x40, "DF");
    } else {
        assert_eq!(number(&frame[18..20]) as usize, segment.len());
    }
    assert_eq!(segment[..2], ends.from.port().to_be_bytes());
    assert_eq!(segment[2..4], ends.to.port().to_be_bytes());
    let offset = usize::from(segment[12] >> 4) * 4;
    Tcp {
        sequence: number(&segment[4..8]),
        acknowledgment: number(&segment[8..12]),
        flags: segment[13],
        window: u16::try_from(number(&segment[14..16])).unwrap(),
        urgent: u16::try_from(number(&segment[18..20])).unwrap(),
        options: segment[20..offset].to_vec(),
        payload: segment[offset..].to_vec(),
    }
}

/// The body of an option.
pub(crate) fn option(options: &[u8], kind: u8) -> Option<Vec<u8>> {
    let mut at = 0;
    while at < options.len() {
        match options[at] {
            0 => return None,
            1 => at += 1,
            found => {
                let length = usize::from(options[at + 1]);
                if found == kind {
                    return Some(options[at + 2..at + length].to_vec());
                }
                at += length;
            }
        }
    }
    None
}

pub(crate) fn value(body: &[u8]) -> u32 {
    number(body)
}
