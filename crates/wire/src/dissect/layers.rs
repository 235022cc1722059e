//! Link layer, IPv4, IPv6, UDP and TCP headers of one frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// EtherTypes (IEEE 802 numbers).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// VLAN tags: IEEE 802.1Q, and 802.1ad for the outer one of two.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Most extension headers and VLAN tags that are walked over.
const MOST_NESTED: usize = 8;

/// How a frame begins (the link types of capture files, tcpdump.org/linktypes.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header (1).
    Ethernet,
    /// An IP header (101, 228, 229).
    RawIp,
    /// Linux cooked capture, as of the device `any` (113).
    Cooked,
    /// Its second version (276).
    Cooked2,
    /// BSD loopback: the address family in four bytes, in the order of whoever captured (0), or in network order (108).
    Loopback,
}

impl Link {
    /// By the number in a capture file; `None` for those that are not decoded.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            // 12 and 14 are what some systems wrote for raw IP before it got a number.
            12 | 14 | 101 | 228 | 229 => Some(Self::RawIp),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            0 | 108 => Some(Self::Loopback),
            _ => None,
        }
    }
}

/// Why a frame could not be taken apart down to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// The frame ends inside a header: cut by the snap length, or damaged.
    #[error("cut in the {0}")]
    Cut(&'static str),
    #[error("EtherType {0:#06x}")]
    NotIp(u16),
    /// A header that contradicts itself.
    #[error("bad {0}")]
    Bad(&'static str),
}

/// The part of a TCP header that tells messages from repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpHead {
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// The flags FIN (1), SYN (2), RST (4), PSH (8), ACK (16), URG (32).
    pub flags: u8,
}

impl TcpHead {
    /// The flags as letters, as packet tools print them: `S.` for SYN and ACK.
    pub fn letters(self) -> String {
        let all = [(2, 'S'), (1, 'F'), (4, 'R'), (8, 'P'), (32, 'U'), (16, '.')];
        all.iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, letter)| letter).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp(TcpHead),
    /// A later fragment of an IP packet: the ports were in the first.
    Fragment,
    /// Another protocol of IP, by its number.
    Other(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// VLAN number, the inner one where there are two.
    pub vlan: Option<u16>,
    /// Source; port 0 where there are no ports.
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    pub transport: Transport,
    /// Whether IP fragments follow: the payload is the first part of a datagram.
    pub first_fragment: bool,
    /// The payload as far as it was captured.
    pub payload: &'a [u8],
    /// Its length when it was sent, in bytes; for the first of several fragments that of the whole datagram.
    pub payload_bytes: usize,
}

/// Parses a frame; `sent_bytes` is its length on the wire. Errors: no IP, or the end inside a header.
pub fn packet(link: Link, frame: &[u8], sent_bytes: usize) -> Result<Packet<'_>, Undecoded> {
    let (vlan, ip) = network(link, frame)?;
    // What the link layer added at the front; what it may have added behind is told by IP's own length.
    let head = frame.len() - ip.len();
    let sent = sent_bytes.max(frame.len()) - head;
    match ip.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(vlan, ip, sent),
        Some(6) => ipv6(vlan, ip, sent),
        Some(_) => Err(Undecoded::Bad("IP version")),
        None => Err(Undecoded::Cut("IP header")),
    }
}

/// Walks over the link layer.
fn network(link: Link, frame: &[u8]) -> Result<(Option<u16>, &[u8]), Undecoded> {
    let cut = Undecoded::Cut("link header");
    let (mut kind, mut rest) = match link {
        Link::RawIp => return Ok((None, frame)),
        Link::Loopback => {
            // 2 is IPv4 everywhere, IPv6 is 10, 24, 28 or 30; the IP header says the same.
            let (_, rest) = frame.split_first_chunk::<4>().ok_or(cut)?;
            return Ok((None, rest));
        }
        Link::Ethernet => (half(frame, 12).ok_or(cut)?, frame.get(14..).ok_or(cut)?),
        Link::Cooked => (half(frame, 14).ok_or(cut)?, frame.get(16..).ok_or(cut)?),
        Link::Cooked2 => (half(frame, 0).ok_or(cut)?, frame.get(20..).ok_or(cut)?),
    };
    let mut vlan = None;
    for _ in 0..MOST_NESTED {
        if !VLAN.contains(&kind) {
            break;
        }
        vlan = Some(half(rest, 0).ok_or(Undecoded::Cut("VLAN tag"))? & 0x0fff);
        kind = half(rest, 2).ok_or(Undecoded::Cut("VLAN tag"))?;
        rest = rest.get(4..).unwrap_or_default();
    }
    if kind == IPV4 || kind == IPV6 { Ok((vlan, rest)) } else { Err(Undecoded::NotIp(kind)) }
}

/// RFC 791.
fn ipv4(vlan: Option<u16>, ip: &[u8], sent: usize) -> Result<Packet<'_>, Undecoded> {
    let cut = Undecoded::Cut("IPv4 header");
    let fixed: &[u8; 20] = ip.first_chunk().ok_or(cut)?;
    let head = usize::from(fixed[0] & 0x0f) * 4;
    if head < 20 {
        return Err(Undecoded::Bad("IPv4 header length"));
    }
    let claimed = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    // 0 where the NIC cuts the segments (offloading), and the real length is that of the frame.
    let length = if claimed == 0 { sent } else { claimed };
    let inside = length.checked_sub(head).ok_or(Undecoded::Bad("IPv4 length"))?;
    let after = ip.get(head..).ok_or(cut)?;
    let after = after.get(..inside).unwrap_or(after);
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
    let source = IpAddr::V4(Ipv4Addr::from([fixed[12], fixed[13], fixed[14], fixed[15]]));
    let destination = IpAddr::V4(Ipv4Addr::from([fixed[16], fixed[17], fixed[18], fixed[19]]));
    let base = Base { vlan, source, destination, ttl: fixed[8], first_fragment: fragment & 0x2000 != 0 };
    base.transport(fixed[9], after, inside, fragment & 0x1fff != 0)
}

/// RFC 8200 with the extension headers that may stand before UDP and TCP.
fn ipv6(vlan: Option<u16>, ip: &[u8], sent: usize) -> Result<Packet<'_>, Undecoded> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let cut = Undecoded::Cut("IPv6 header");
    let (fixed, after) = ip.split_first_chunk::<40>().ok_or(cut)?;
    let claimed = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let mut inside = if claimed == 0 { sent.saturating_sub(40) } else { claimed };
    let mut after = after.get(..inside).unwrap_or(after);
    let address = |at: usize| -> IpAddr {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(fixed.get(at..at + 16).unwrap_or(&[0; 16]));
        IpAddr::V6(Ipv6Addr::from(bytes))
    };
    let mut base = Base { vlan, source: address(8), destination: address(24), ttl: fixed[7], first_fragment: false };
    let mut next = fixed[6];
    let mut later = false;
    for _ in 0..MOST_NESTED {
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => usize::from(*after.get(1).ok_or(cut)?) * 8 + 8,
            FRAGMENT => {
                let place = half(after, 2).ok_or(cut)?;
                later = place & 0xfff8 != 0;
                base.first_fragment = place & 1 != 0;
                8
            }
            _ => break,
        };
        next = *after.first().ok_or(cut)?;
        inside = inside.checked_sub(length).ok_or(Undecoded::Bad("IPv6 length"))?;
        after = after.get(length..).ok_or(cut)?;
        if later {
            break;
        }
    }
    base.transport(next, after, inside, later)
}

struct Base {
    vlan: Option<u16>,
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
    first_fragment: bool,
}

impl Base {
    /// `after` is what follows IP's headers, as captured; `inside` its length when it was sent.
    fn transport(self, protocol: u8, after: &[u8], inside: usize, later: bool) -> Result<Packet<'_>, Undecoded> {
        let plain = |transport| self.with(transport, (0, 0), after, inside);
        if later {
            return Ok(plain(Transport::Fragment));
        }
        match protocol {
            UDP => {
                // RFC 768.
                let (head, payload) = after.split_first_chunk::<8>().ok_or(Undecoded::Cut("UDP header"))?;
                let claimed = usize::from(u16::from_be_bytes([head[4], head[5]]));
                // 0 for more than 64 KiB (RFC 2675).
                let length = if claimed == 0 { inside } else { claimed };
                let length = length.checked_sub(8).ok_or(Undecoded::Bad("UDP length"))?;
                let payload = payload.get(..length).unwrap_or(payload);
                Ok(self.with(Transport::Udp, ports(head), payload, length))
            }
            TCP => {
                // RFC 9293.
                let cut = Undecoded::Cut("TCP header");
                let head: &[u8; 20] = after.first_chunk().ok_or(cut)?;
                let length = usize::from(head[12] >> 4) * 4;
                if length < 20 {
                    return Err(Undecoded::Bad("TCP header length"));
                }
                let bytes = inside.checked_sub(length).ok_or(Undecoded::Bad("TCP length"))?;
                let payload = after.get(length..).ok_or(cut)?;
                let seq = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
                let transport = Transport::Tcp(TcpHead { seq, flags: head[13] & 0x3f });
                Ok(self.with(transport, ports(head), payload, bytes))
            }
            other => Ok(plain(Transport::Other(other))),
        }
    }

    fn with<'a>(&self, transport: Transport, ports: (u16, u16), payload: &'a [u8], payload_bytes: usize) -> Packet<'a> {
        Packet {
            vlan: self.vlan,
            source: SocketAddr::new(self.source, ports.0),
            destination: SocketAddr::new(self.destination, ports.1),
            ttl: self.ttl,
            transport,
            first_fragment: self.first_fragment,
            payload,
            payload_bytes,
        }
    }
}

/// Both UDP and TCP begin with the ports.
fn ports(head: &[u8]) -> (u16, u16) {
    (half(head, 0).unwrap_or(0), half(head, 2).unwrap_or(0))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
