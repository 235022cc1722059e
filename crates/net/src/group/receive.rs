//! Datagrams in batches (recvmmsg(2)), with their senders, the kernel's stamps, and what it dropped.

use super::GroupSocket;
use crate::PathError;
use crate::address::RawAddress;
use crate::batch::Batch;
use crate::sys;
use libc::c_int;
use std::net::{IpAddr, Ipv4Addr};

/// One datagram: the packet of the protocol, without IP's header.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    pub bytes: &'a [u8],
    pub from: IpAddr,
    /// When the kernel received it, in ns since 1970; 0 without stamps.
    pub stack_ns: u64,
}

/// Room for some datagrams, taken once.
#[derive(Debug)]
pub struct ReceiveBatch {
    batch: Batch,
    /// Of a raw IPv4 socket, whose datagrams begin with IP's header.
    ip_header: bool,
    held: usize,
    next: usize,
    /// The kernel's counter as it was reported last.
    overflow: u32,
    /// Datagrams that the kernel dropped for a full receive buffer (SO_RXQ_OVFL), as of the next received one.
    pub overflowed: u64,
    /// Datagrams that were longer than their room.
    pub cut: u64,
}

impl ReceiveBatch {
    /// Room for `count` datagrams of up to `packet_bytes`, IP's header not counted.
    pub fn new(count: usize, packet_bytes: usize) -> Self {
        // IP's header with options has up to 60 bytes.
        let batch = Batch::new(count, packet_bytes + 64, true, true);
        Self { batch, ip_header: false, held: 0, next: 0, overflow: 0, overflowed: 0, cut: 0 }
    }

    /// Replaces what was held with what is there; returns how many datagrams. Errors: the socket is broken.
    #[inline]
    pub fn receive(&mut self, socket: &GroupSocket) -> Result<usize, PathError> {
        self.receive_with(socket, libc::MSG_DONTWAIT)
    }

    /// As [`Self::receive`], but waits for the first datagram, until a signal or the socket's time-out
    /// ([`GroupSocket::limit_waits`]): one call where a wait before it would be a second one.
    #[inline]
    pub fn receive_waiting(&mut self, socket: &GroupSocket) -> Result<usize, PathError> {
        self.receive_with(socket, libc::MSG_WAITFORONE)
    }

    #[inline]
    fn receive_with(&mut self, socket: &GroupSocket, flags: c_int) -> Result<usize, PathError> {
        (self.held, self.next) = (0, 0);
        self.ip_header = !socket.v6 && matches!(socket.carrier, super::Carrier::Raw { .. });
        if let Ok(taken) = usize::try_from(self.batch.receive(socket.fd(), flags)) {
            self.held = taken;
            return Ok(taken);
        }
        match sys::errno() {
            libc::EAGAIN | libc::EINTR => Ok(0),
            // An ICMP error of a datagram that was sent: the socket itself is sound.
            libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN => Ok(0),
            errno => Err(PathError::Failed { call: "recvmmsg", errno }),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next >= self.held
    }

    /// The next datagram that is held. Those that were longer than their room are passed over.
    #[inline]
    pub fn take(&mut self) -> Option<Datagram<'_>> {
        loop {
            if self.is_empty() {
                return None;
            }
            let at = self.next;
            self.next += 1;
            if self.batch.is_cut(at) {
                self.cut += 1;
                continue;
            }
            let (mut stack_ns, mut overflow) = (0, None);
            self.batch.each_control(at, |level, kind, data| read(level, kind, data, &mut stack_ns, &mut overflow));
            if let Some(overflow) = overflow {
                self.overflowed += u64::from(overflow.wrapping_sub(self.overflow));
                self.overflow = overflow;
            }
            let bytes = self.batch.received(at);
            let from = self.batch.sender(at).and_then(RawAddress::decode);
            let from = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |from| from.ip());
            let bytes = if self.ip_header { without_header(bytes) } else { bytes };
            return Some(Datagram { bytes, from, stack_ns });
        }
    }
}

fn read(level: c_int, kind: c_int, data: &[u8], stack_ns: &mut u64, overflow: &mut Option<u32>) {
    if level != libc::SOL_SOCKET {
        return;
    }
    if kind == libc::SCM_TIMESTAMPNS {
        *stack_ns = crate::control::timespec(data, 0);
    } else if kind == libc::SO_RXQ_OVFL {
        *overflow = data.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
    }
}

/// What follows an IPv4 header (RFC 791): its length is in its first byte, in words of 4.
fn without_header(bytes: &[u8]) -> &[u8] {
    let words = bytes.first().map_or(0, |first| usize::from(first & 0xf));
    bytes.get(words * 4..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_length_are_passed_over() {
        let mut packet = vec![0x45; 20];
        packet.push(7);
        assert_eq!(without_header(&packet), [7]);
        packet[0] = 0x46;
        assert!(without_header(&packet).is_empty(), "the header would end beyond the packet");
        assert!(without_header(&[]).is_empty());
    }
}
