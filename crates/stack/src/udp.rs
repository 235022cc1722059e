//! UDP sockets: datagrams in rings of fixed size.

use crate::address::{Address, Flow};
use crate::number::long;
use crate::wire::ip::Marks;
use crate::wire::{self, ip};
use crate::{Error, Instant, UdpOptions};
use std::collections::VecDeque;
use std::net::SocketAddr;

pub(crate) const HEADER: usize = 8;

/// A datagram that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its length in bytes, which may be more than was copied.
    pub length: usize,
    /// Who sent it.
    pub source: SocketAddr,
    /// To which of this host's addresses.
    pub destination: SocketAddr,
    /// When [`crate::Stack::handle_frame`] took it.
    pub at: Instant,
    /// Time to live, or hop limit, with which it came.
    pub ttl: u8,
    /// Type of service, or traffic class, with which it came.
    pub tos: u8,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedDatagram {
    offset: usize,
    length: usize,
    pub(crate) flow: Flow,
    pub(crate) at: Instant,
    pub(crate) marks: Marks,
}

/// What is known of a datagram beside its bytes: ends, time, and the marks of its IP header.
pub(crate) type About = (Flow, Instant, Marks);

/// Datagrams of any length in one ring of bytes; each lies in one piece.
#[derive(Debug)]
pub(crate) struct DatagramQueue {
    bytes: Box<[u8]>,
    datagrams: VecDeque<QueuedDatagram>,
    most: usize,
    tail: usize,
    /// The newest datagrams lie before the oldest.
    wrapped: bool,
}

impl DatagramQueue {
    pub(crate) fn new(bytes: usize, most: usize) -> Self {
        let datagrams = VecDeque::with_capacity(most);
        Self { bytes: vec![0; bytes].into_boxed_slice(), datagrams, most, tail: 0, wrapped: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Adds a datagram; false when there is no room.
    pub(crate) fn push(&mut self, about: About, payload: &[u8]) -> bool {
        let length = payload.len();
        if self.datagrams.len() >= self.most {
            return false;
        }
        let Some(head) = self.datagrams.front().map(|datagram| datagram.offset) else {
            (self.tail, self.wrapped) = (0, false);
            return self.put(0, about, payload);
        };
        if self.wrapped {
            return length <= head - self.tail && self.put(self.tail, about, payload);
        }
        if length <= self.bytes.len() - self.tail {
            return self.put(self.tail, about, payload);
        }
        if length > head {
            return false;
        }
        self.wrapped = true;
        self.put(0, about, payload)
    }

    fn put(&mut self, offset: usize, (flow, at, marks): About, payload: &[u8]) -> bool {
        let Some(place) = self.bytes.get_mut(offset..offset + payload.len()) else { return false };
        place.copy_from_slice(payload);
        self.tail = offset + payload.len();
        self.datagrams.push_back(QueuedDatagram { offset, length: payload.len(), flow, at, marks });
        true
    }

    pub(crate) fn front(&self) -> Option<(QueuedDatagram, &[u8])> {
        let datagram = *self.datagrams.front()?;
        Some((datagram, self.bytes.get(datagram.offset..datagram.offset + datagram.length)?))
    }

    pub(crate) fn pop(&mut self) {
        let Some(datagram) = self.datagrams.pop_front() else { return };
        if self.datagrams.front().is_none_or(|next| next.offset < datagram.offset) {
            self.wrapped = false;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.datagrams.iter().map(|datagram| datagram.length).sum()
    }
}

#[derive(Debug)]
pub(crate) struct Udp {
    pub(crate) local: Address,
    pub(crate) port: u16,
    /// Bound to any address of both families.
    pub(crate) both: bool,
    pub(crate) remote: Option<(Address, u16)>,
    pub(crate) options: UdpOptions,
    pub(crate) inbox: DatagramQueue,
    pub(crate) outbox: DatagramQueue,
    pub(crate) error: Option<Error>,
    /// Datagrams that were dropped because the inbox was full.
    pub(crate) dropped: u64,
    pub(crate) read_edges: u32,
    pub(crate) write_edges: u32,
    pub(crate) short_of_room: bool,
    pub(crate) queued: bool,
    pub(crate) announced: bool,
}

impl Udp {
    pub(crate) fn new(local: Address, port: u16, both: bool, options: UdpOptions) -> Self {
        Self {
            local,
            port,
            both,
            remote: None,
            options,
            inbox: DatagramQueue::new(options.receive_buffer, options.receive_datagrams),
            // As many as fit with 64 bytes each.
            outbox: DatagramQueue::new(options.send_buffer, (options.send_buffer / 64).max(1)),
            error: None,
            dropped: 0,
            read_edges: 0,
            write_edges: 0,
            short_of_room: false,
            queued: false,
            announced: false,
        }
    }

    pub(crate) fn flows(&self) -> impl Iterator<Item = Flow> + use<> {
        flows(self.local, self.port, self.both, self.remote)
    }
}

/// The places in the table of flows of a socket with these ends.
pub(crate) fn flows(
    local: Address,
    port: u16,
    both: bool,
    remote: Option<(Address, u16)>,
) -> impl Iterator<Item = Flow> {
    let connected = remote.map(|(remote, remote_port)| Flow { local, remote, local_port: port, remote_port });
    let first = connected.unwrap_or_else(|| Flow::listening(local, port));
    let second = (connected.is_none() && both).then(|| Flow::listening(Address::ANY_V4, port));
    std::iter::once(first).chain(second)
}

/// Writes header and payload of a datagram behind the headers of `template`; the length of the frame.
pub(crate) fn write(template: &ip::Template, flow: &Flow, payload: &[u8], frame: &mut [u8]) -> Option<usize> {
    let length = HEADER + payload.len();
    let datagram = template.write(frame, length)?;
    let ([s0, s1], [d0, d1]) = (flow.local_port.to_be_bytes(), flow.remote_port.to_be_bytes());
    let [l0, l1] = crate::number::short(length).to_be_bytes();
    wire::put(datagram, 0, &[s0, s1, d0, d1, l0, l1, 0, 0]);
    wire::put_slice(datagram, HEADER, payload);
    let sum = template.checksum(datagram);
    // Zero means that there is none (RFC 768).
    wire::put(datagram, 6, &if sum == [0, 0] { [0xff, 0xff] } else { sum });
    Some(template.length() + length)
}

/// Ports and payload of a received datagram, and whether it has a checksum.
pub(crate) fn parse(payload: &[u8]) -> Option<(u16, u16, &[u8], bool)> {
    let [s0, s1, d0, d1, l0, l1, c0, c1] = *payload.first_chunk::<HEADER>()?;
    let data = payload.get(HEADER..usize::from(u16::from_be_bytes([l0, l1])))?;
    Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]), data, [c0, c1] != [0, 0]))
}

pub(crate) fn longest(mtu: u16, is_v4: bool) -> u32 {
    let headers = long(HEADER) + if is_v4 { 20 } else { 40 };
    u32::from(mtu).saturating_sub(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    #[test]
    fn datagrams_come_out_as_they_went_in() {
        let mut random = SplitMix64::new(3);
        let mut queue = DatagramQueue::new(1000, 16);
        let mut expected: VecDeque<Vec<u8>> = VecDeque::new();
        let flow = Flow::listening(Address::ANY_V4, 1);
        let (mut pushed, mut refused) = (0, 0);
        for round in 0..50_000_u32 {
            if random.happens(0.52) {
                let length = if random.happens(0.2) { 0 } else { usize::try_from(random.scaled(400)).unwrap() };
                let datagram = vec![round.to_le_bytes()[0]; length];
                if queue.push((flow, Instant(0), Marks::default()), &datagram) {
                    expected.push_back(datagram);
                    pushed += 1;
                } else {
                    refused += 1;
                }
            } else {
                assert_eq!(queue.front().map(|(_, bytes)| bytes.to_vec()), expected.front().cloned());
                queue.pop();
                expected.pop_front();
            }
            assert_eq!(queue.bytes(), expected.iter().map(Vec::len).sum::<usize>());
            assert_eq!(queue.len(), expected.len());
            for (datagram, bytes) in queue.datagrams.iter().zip(&expected) {
                assert_eq!(&queue.bytes[datagram.offset..datagram.offset + datagram.length], bytes);
            }
        }
        assert!(pushed > 1000 && refused > 1000, "{pushed} {refused}");
    }
}
