//! Control data of datagrams that are received from the stack: what a socket asked to get with each (ip(7), ipv6(7), socket(7)).

use crate::kernel;
use libc::{IPPROTO_IP, IPPROTO_IPV6, MSG_CTRUNC, SOL_SOCKET, c_int, c_void, cmsghdr, timespec};
use stack::Received;
use std::net::IpAddr;
use user_stack::now;
use xsk::program::address_key;

/// Options that have a datagram tell more than its bytes, in the order in which the kernel tells it. The place is the bit.
const OPTIONS: [(c_int, c_int); 8] = [
    (SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (SOL_SOCKET, libc::SO_TIMESTAMP),
    (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (IPPROTO_IP, libc::IP_PKTINFO),
    (IPPROTO_IP, libc::IP_RECVTTL),
    (IPPROTO_IP, libc::IP_RECVTOS),
    (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];

/// Which of [`OPTIONS`] a socket has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wanted(u8);

impl Wanted {
    /// Asks the kernel's socket.
    pub(super) fn read(fd: c_int) -> Self {
        let is_on = |(level, name)| kernel::option(fd, level, name).is_some_and(|value| value != 0);
        let bit = |(at, option): (usize, &(c_int, c_int))| u8::from(is_on(*option)) << at;
        Self(OPTIONS.iter().enumerate().map(bit).fold(0, |all, bit| all | bit))
    }

    /// Whether the stack tells what this option asks for.
    pub(super) fn knows(level: c_int, name: c_int) -> bool {
        OPTIONS.contains(&(level, name))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The caller's room for control data, and what is in it.
pub(crate) struct Control {
    at: *mut c_void,
    room: usize,
    used: usize,
}

impl Control {
    pub(crate) const NONE: Self = Self { at: std::ptr::null_mut(), room: 0, used: 0 };

    /// The caller's promise: there are `room` bytes, or null.
    pub(crate) unsafe fn new(at: *mut c_void, room: usize) -> Self {
        Self { at, room: if at.is_null() { 0 } else { room }, used: 0 }
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Adds a message, cut where the room ends, as the kernel does (MSG_CTRUNC). Flags of the whole.
    fn put(&mut self, level: c_int, kind: c_int, bytes: &[u8]) -> c_int {
        const HEAD: usize = size_of::<cmsghdr>();
        let rest = self.room - self.used;
        if rest < HEAD {
            return MSG_CTRUNC;
        }
        let length = (HEAD + bytes.len()).min(rest);
        let head = cmsghdr { cmsg_len: length as _, cmsg_level: level, cmsg_type: kind };
        // SAFETY: `length` bytes, at most `rest`, lie behind what was used, by the promise of `new`.
        unsafe {
            let to = self.at.cast::<u8>().add(self.used);
            to.cast::<cmsghdr>().write_unaligned(head);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(HEAD), length - HEAD);
        }
        self.used += (HEAD + bytes.len()).next_multiple_of(align_of::<usize>()).min(rest);
        if length < HEAD + bytes.len() { MSG_CTRUNC } else { 0 }
    }

    /// Tells of a datagram that came by an interface; flags of the message.
    #[cold]
    pub(super) fn tell(&mut self, wanted: Wanted, received: &Received, interface: u32) -> c_int {
        let mut flags = 0;
        for (at, (level, name)) in OPTIONS.into_iter().enumerate() {
            if wanted.0 >> at & 1 == 0 {
                continue;
            }
            if let Some((kind, bytes, length)) = value((level, name), received, interface) {
                flags |= self.put(level, kind, bytes.get(..length).unwrap_or_default());
            }
        }
        flags
    }
}

/// Type and bytes of the message for an option; none where it does not apply to datagrams of this family.
fn value((level, name): (c_int, c_int), received: &Received, interface: u32) -> Option<(c_int, [u8; 20], usize)> {
    let to = received.destination.ip();
    let is_v4 = to.is_ipv4();
    let mut bytes = [0; 20];
    let mut put = |at: usize, part: &[u8]| {
        bytes.iter_mut().skip(at).zip(part).for_each(|(slot, byte)| *slot = *byte);
        at + part.len()
    };
    let int = |value: u8| c_int::from(value).to_ne_bytes();
    let (kind, length) = match ((level, name), to) {
        ((SOL_SOCKET, _), _) => {
            let at = realtime(received.at.0);
            let part = if name == libc::SO_TIMESTAMP { at.tv_nsec / 1000 } else { at.tv_nsec };
            let middle = put(0, &at.tv_sec.to_ne_bytes());
            (name, put(middle, &part.to_ne_bytes()))
        }
        ((IPPROTO_IPV6, libc::IPV6_RECVPKTINFO), _) => {
            let middle = put(0, &address_key(to));
            (libc::IPV6_PKTINFO, put(middle, &interface.to_ne_bytes()))
        }
        ((IPPROTO_IP, libc::IP_PKTINFO), IpAddr::V4(v4)) => {
            let middle = put(0, &interface.to_ne_bytes());
            let middle = put(middle, &v4.octets());
            (libc::IP_PKTINFO, put(middle, &v4.octets()))
        }
        ((IPPROTO_IP, libc::IP_RECVTTL), _) if is_v4 => (libc::IP_TTL, put(0, &int(received.ttl))),
        ((IPPROTO_IP, libc::IP_RECVTOS), _) if is_v4 => (libc::IP_TOS, put(0, &[received.tos])),
        ((IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT), _) if !is_v4 => (libc::IPV6_HOPLIMIT, put(0, &int(received.ttl))),
        ((IPPROTO_IPV6, libc::IPV6_RECVTCLASS), _) if !is_v4 => (libc::IPV6_TCLASS, put(0, &int(received.tos))),
        _ => return None,
    };
    Some((kind, bytes, length))
}

/// A time of CLOCK_MONOTONIC as CLOCK_REALTIME.
fn realtime(at_ns: u64) -> timespec {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a time.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let ago = i64::try_from(now().0.saturating_sub(at_ns)).unwrap_or(0);
    let ns = time.tv_sec * 1_000_000_000 + time.tv_nsec - ago;
    timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
}
