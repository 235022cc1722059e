//! Datagrams in batches (recvmmsg(2)), with their senders, the kernel's stamps, and what it dropped.

use super::GroupSocket;
use crate::PathError;
use crate::address::RawAddress;
use crate::sys;
use libc::{c_int, c_void, socklen_t};
use std::net::{IpAddr, Ipv4Addr};

/// Room for the control messages of a stamp and of a drop counter, aligned as cmsghdr is.
type Control = [u64; 10];

/// One datagram: the packet of the protocol, without IP's header.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub from: IpAddr,
    /// When the kernel received it, in ns since 1970; 0 without stamps.
    pub stack_ns: u64,
}

/// Room for some datagrams, taken once.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    slot: usize,
    names: Vec<RawAddress>,
    controls: Vec<Control>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Of a raw IPv4 socket, whose datagrams begin with IP's header.
    ip_header: bool,
    held: usize,
    next: usize,
    /// The kernel's counter as it was told last, and what it counted in all.
    overflow: u32,
    overflowed: u64,
    cut: u64,
}

// SAFETY: the pointers in `parts` and `headers` lead into the vectors of this very value, whose memory stays where it is
// when the value moves, and nobody else has them.
unsafe impl Send for ReceiveBatch {}

impl std::fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveBatch").field("held", &self.held).field("next", &self.next).finish_non_exhaustive()
    }
}

impl ReceiveBatch {
    /// Room for `count` datagrams of up to `packet_bytes`, IP's header not counted.
    #[must_use]
    pub fn new(count: usize, packet_bytes: usize) -> Self {
        // IP's header with options has up to 60 bytes.
        let slot = packet_bytes + 64;
        let count = count.max(1);
        let mut batch = Self {
            // Touched, so that the first datagrams find it there.
            bytes: vec![1; count * slot],
            slot,
            names: vec![RawAddress::EMPTY; count],
            controls: vec![[0; 10]; count],
            parts: Vec::with_capacity(count),
            headers: Vec::with_capacity(count),
            ip_header: false,
            held: 0,
            next: 0,
            overflow: 0,
            overflowed: 0,
            cut: 0,
        };
        for bytes in batch.bytes.chunks_exact_mut(slot) {
            batch.parts.push(libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: slot });
        }
        for ((part, name), control) in batch.parts.iter_mut().zip(&mut batch.names).zip(&mut batch.controls) {
            // SAFETY: mmsghdr is plain data, and all zeros is a valid value of it.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = name.room().as_mut_ptr().cast::<c_void>();
            header.msg_hdr.msg_iov = std::ptr::from_mut(part);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast::<c_void>();
            batch.headers.push(header);
        }
        batch.reset(count);
        batch
    }

    /// What the kernel overwrites in the first `count` headers.
    fn reset(&mut self, count: usize) {
        for header in self.headers.iter_mut().take(count) {
            header.msg_hdr.msg_namelen = socklen_t::try_from(crate::address::ROOM).unwrap_or(0);
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            header.msg_hdr.msg_flags = 0;
        }
    }

    /// Takes what is there without waiting, in place of what was held; returns how many datagrams.
    ///
    /// # Errors
    /// The socket is broken. A signal is nothing.
    #[inline]
    pub fn receive(&mut self, socket: &GroupSocket) -> Result<usize, PathError> {
        self.reset(self.held);
        (self.held, self.next) = (0, 0);
        self.ip_header = socket.has_ip_header();
        let count = libc::c_uint::try_from(self.headers.len()).unwrap_or(1);
        let (headers, null) = (self.headers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: each header describes a name, a part and a control buffer of this value, which live through the call and
        // are not shared; there is no time-out.
        let taken = unsafe { libc::recvmmsg(socket.fd(), headers, count, libc::MSG_DONTWAIT as _, null) };
        if let Ok(taken) = usize::try_from(taken) {
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

    /// Whether datagrams are left.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.held
    }

    /// The next datagram that is held. Those that were longer than their room are passed over and counted.
    #[inline]
    pub fn take(&mut self) -> Option<Datagram<'_>> {
        loop {
            if self.is_empty() {
                return None;
            }
            let at = self.next;
            self.next += 1;
            let header = self.headers.get(at)?;
            let length = header.msg_len as usize;
            if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                self.cut += 1;
                continue;
            }
            let (mut stack_ns, mut overflow) = (0, None);
            // SAFETY: recvmmsg filled this header, and its control buffer lives and is not written to.
            unsafe {
                sys::each_control(&header.msg_hdr, |level, kind, data| {
                    read(level, kind, data, &mut stack_ns, &mut overflow);
                });
            }
            if let Some(overflow) = overflow {
                self.overflowed += u64::from(overflow.wrapping_sub(self.overflow));
                self.overflow = overflow;
            }
            let begin = at * self.slot;
            let bytes = self.bytes.get(begin..begin + length).unwrap_or_default();
            let from = self.names.get(at).and_then(RawAddress::decode);
            let from = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |from| from.ip());
            let bytes = if self.ip_header { without_header(bytes) } else { bytes };
            return Some(Datagram { bytes, from, stack_ns });
        }
    }

    /// Datagrams so far that the kernel dropped because the receive buffer was full (SO_RXQ_OVFL): it tells with the next
    /// datagram that found room.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Datagrams so far that were longer than their room.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut
    }
}

fn read(level: c_int, kind: c_int, data: &[u8], stack_ns: &mut u64, overflow: &mut Option<u32>) {
    if level != libc::SOL_SOCKET {
        return;
    }
    if kind == libc::SCM_TIMESTAMPNS {
        *stack_ns = crate::stamps::timespec(data, 0);
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
