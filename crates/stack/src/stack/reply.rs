//! Segments that no connection sends: resets, and SYN cookies.

use crate::address::{Address, Flow};
use crate::number::Seq;
use crate::tcp::Connection;
use crate::wire::ip::{Marks, Packet, Template};
use crate::wire::tcp::{ACK, HEADER, Header, OptionBytes, RST, Segment};
use crate::wire::{self, PROTOCOL_TCP};
use std::net::SocketAddr;

/// Time to live of replies: those of no socket.
const MARKS: Marks = Marks { ttl: 64, tos: 0 };

/// The TCP segment, without an IP header, that asks the other end of a connection what it expects, as a keep-alive probe does (RFC 9293,
/// section 3.8.4): it is older than what was acknowledged, so an acknowledgment answers it. None where the addresses are of two
/// families.
pub fn probe_segment(local: SocketAddr, remote: SocketAddr, first_unacknowledged: u32) -> Option<[u8; HEADER]> {
    let (from, to) = (Address::from(local.ip()), Address::from(remote.ip()));
    let template = (from.is_v4() == to.is_v4()).then(|| Template::new([[0; 6]; 2], from, to, PROTOCOL_TCP, MARKS))?;
    let header = Header {
        source_port: local.port(),
        destination_port: remote.port(),
        sequence: Seq(first_unacknowledged).minus(1),
        flags: ACK,
        ..Header::default()
    };
    let mut segment = [0; HEADER];
    header.write(&[], &mut segment);
    let sum = template.checksum(&segment);
    wire::put(&mut segment, 16, &sum);
    Some(segment)
}

/// A segment without data that waits to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    template: Template,
    header: Header,
    options: OptionBytes,
}

impl Reply {
    /// To where a packet came from: the sender's address is its next hop.
    pub(super) fn to(packet: &Packet<'_>, mac: [u8; 6], header: Header, options: OptionBytes) -> Self {
        let macs = [mac, packet.source_mac];
        Self { template: Template::new(macs, packet.local, packet.remote, PROTOCOL_TCP, MARKS), header, options }
    }

    /// The reset that answers a segment of no connection (RFC 9293, section 3.10.7.1); none answers a reset.
    pub(super) fn refusal(packet: &Packet<'_>, mac: [u8; 6], segment: &Segment<'_>) -> Option<Self> {
        if segment.has(RST) {
            return None;
        }
        let mut header = Header {
            source_port: segment.destination_port,
            destination_port: segment.source_port,
            sequence: segment.acknowledgment,
            flags: RST,
            ..Header::default()
        };
        if !segment.has(ACK) {
            header.sequence = Seq(0);
            header.acknowledgment = segment.sequence.plus(segment.length());
            header.flags = RST | ACK;
        }
        Some(Self::to(packet, mac, header, OptionBytes::default()))
    }

    /// The reset by which a connection is aborted, where its next hop is known.
    pub(super) fn reset_of(connection: &Connection) -> Option<Self> {
        let Flow { local_port, remote_port, .. } = connection.flow;
        let header = Header {
            source_port: local_port,
            destination_port: remote_port,
            sequence: connection.bare_sequence(),
            acknowledgment: connection.receive.next,
            flags: RST | ACK,
            ..Header::default()
        };
        Some(Self { template: connection.template?, header, options: OptionBytes::default() })
    }

    pub(super) fn is_reset(&self) -> bool {
        self.header.flags & RST != 0
    }

    /// Writes the frame; its length. None when the buffer is too short.
    pub(super) fn write(&self, frame: &mut [u8]) -> Option<usize> {
        let length = HEADER + self.options.bytes().len();
        let segment = self.template.write(frame, length)?;
        self.header.write(self.options.bytes(), segment);
        let sum = self.template.checksum(segment);
        wire::put(segment, 16, &sum);
        Some(self.template.length() + length)
    }
}
