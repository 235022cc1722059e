//! ICMP messages that fit a socket (RFC 792, RFC 4443): a packet of this stack did not reach its end, or was too long.

use super::{PROTOCOL_ICMP, PROTOCOL_ICMP_V6, checksum, ip, u16_at, u32_at};
use crate::Error;
use crate::address::Flow;
use crate::number::Seq;

/// What a message reports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// It can never arrive: no such port or protocol.
    Refused(Error),
    /// It did not arrive, which may pass.
    Unreachable(Error),
    /// It was longer than the path's MTU, which the message tells.
    TooLong(u32),
}

/// A message about a packet of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) report: Report,
    pub(crate) flow: Flow,
    pub(crate) protocol: u8,
    /// The sequence number of a TCP segment.
    pub(crate) sequence: Seq,
}

/// Reads a message; None when it is of no use for a socket.
pub(crate) fn parse(packet: &ip::Packet<'_>) -> Option<Message> {
    let bytes = packet.payload;
    let pseudo = if packet.protocol == PROTOCOL_ICMP_V6 { packet.pseudo_sum() } else { 0 };
    if checksum::fold(pseudo + checksum::sum(bytes)) != 0xffff {
        return None;
    }
    let (&kind, &code) = (bytes.first()?, bytes.get(1)?);
    let report = match (packet.protocol, kind, code) {
        (PROTOCOL_ICMP, 3, 4) => Report::TooLong(u32::from(u16_at(bytes, 6)?)),
        (PROTOCOL_ICMP, 3, 2 | 3) | (PROTOCOL_ICMP_V6, 1, 4) => Report::Refused(Error::ConnectionRefused),
        (PROTOCOL_ICMP, 3, 0 | 6 | 9 | 11) | (PROTOCOL_ICMP_V6, 1, 0) => Report::Unreachable(Error::NetworkUnreachable),
        (PROTOCOL_ICMP, 3 | 11 | 12, _) | (PROTOCOL_ICMP_V6, 1 | 3 | 4, _) => {
            Report::Unreachable(Error::HostUnreachable)
        }
        (PROTOCOL_ICMP_V6, 2, _) => Report::TooLong(u32_at(bytes, 4)?),
        // Source quench (RFC 9293, MUST-55) and all others are of no use.
        _ => return None,
    };
    let (local, remote, protocol, quoted) = ip::quoted(bytes.get(8..)?)?;
    let flow = Flow { local, remote, local_port: u16_at(quoted, 0)?, remote_port: u16_at(quoted, 2)? };
    Some(Message { report, flow, protocol, sequence: Seq(u32_at(quoted, 4)?) })
}
