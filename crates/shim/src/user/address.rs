//! Socket addresses of the C library to those of the standard library and back, and what the kernel's sockets have.

use crate::{kernel, real};
use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Reads an address; IPv4 in IPv6's form becomes IPv4. Link-local addresses keep their scope. None: another family, or too short.
pub(super) unsafe fn read(address: *const sockaddr, size: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (size as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: `size` bytes are there, as of the calls that take addresses; nothing is assumed of their alignment.
    unsafe {
        match c_int::from((&raw const (*address).sa_family).read_unaligned()) {
            AF_INET if size as usize >= size_of::<sockaddr_in>() => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
            }
            // Without the scope it is that of RFC 2133, which the kernel takes too.
            AF_INET6 if size as usize >= 24 => {
                let mut v6: sockaddr_in6 = std::mem::zeroed();
                let length = (size as usize).min(size_of::<sockaddr_in6>());
                std::ptr::copy_nonoverlapping(address.cast::<u8>(), (&raw mut v6).cast::<u8>(), length);
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
                if ip.is_unicast_link_local() {
                    return Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into());
                }
                Some(SocketAddr::new(ip.to_canonical(), port))
            }
            _ => None,
        }
    }
}

/// An address without its scope; none where it is of another link, or of none.
#[inline]
pub(super) fn on_link(address: SocketAddr, interface: u32) -> Option<SocketAddr> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            (v6.scope_id() == interface).then(|| SocketAddr::new((*v6.ip()).into(), v6.port()))
        }
        _ => Some(address),
    }
}

/// Whether a kernel socket is bound to no device, or to this one.
pub(super) fn is_on_link(fd: c_int, interface: u32) -> bool {
    let bound = kernel::option(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or(0).unsigned_abs();
    bound == 0 || bound == interface
}

/// An address as the kernel lays it out, and its length.
pub(super) union Raw {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

/// An address in the family of a socket.
pub(super) fn raw(address: SocketAddr, is_v6: bool, interface: u32) -> (Raw, socklen_t) {
    // SAFETY: structures of integers, for which zero bytes are a value.
    let mut all: Raw = unsafe { std::mem::zeroed() };
    let family = |family: c_int| libc::sa_family_t::try_from(family).unwrap_or(0);
    if let (IpAddr::V4(ip), false) = (address.ip(), is_v6) {
        all.v4 = sockaddr_in {
            sin_family: family(AF_INET),
            sin_port: address.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
            sin_zero: [0; 8],
        };
        return (all, 16);
    }
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    all.v6 = sockaddr_in6 {
        sin6_family: family(AF_INET6),
        sin6_port: address.port().to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
        sin6_scope_id: if ip.is_unicast_link_local() { interface } else { 0 },
    };
    (all, 28)
}

/// Where a call returns an address.
#[derive(Clone, Copy)]
pub(crate) struct NameBuffer {
    to: *mut sockaddr,
    size: *mut socklen_t,
}

impl NameBuffer {
    pub(crate) const NONE: Self = Self { to: std::ptr::null_mut(), size: std::ptr::null_mut() };

    /// The caller's promise: both are null, or there are `*size` bytes.
    pub(crate) unsafe fn new(to: *mut sockaddr, size: *mut socklen_t) -> Self {
        Self { to, size }
    }

    /// What it was made of.
    pub(super) fn pointers(self) -> (*mut sockaddr, *mut socklen_t) {
        (self.to, self.size)
    }

    /// Writes an address; cut where there is less room, as the kernel does.
    pub(super) fn write(self, address: SocketAddr, is_v6: bool, interface: u32) {
        if self.to.is_null() || self.size.is_null() {
            return;
        }
        let (raw, length) = raw(address, is_v6, interface);
        // SAFETY: `*size` bytes are there, by the promise of `new`.
        unsafe {
            let room = self.size.read_unaligned().min(length) as usize;
            std::ptr::copy_nonoverlapping((&raw const raw).cast::<u8>(), self.to.cast::<u8>(), room);
            self.size.write_unaligned(length);
        }
    }
}

fn asked(call: impl FnOnce(*mut sockaddr, *mut socklen_t) -> c_int) -> Option<SocketAddr> {
    // SAFETY: a structure of integers.
    let mut address: sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut size = 28;
    let done = call((&raw mut address).cast(), &raw mut size);
    // SAFETY: the kernel has written `size` bytes.
    if done == 0 { unsafe { read((&raw const address).cast(), size) } } else { None }
}

/// The address of a kernel socket; port 0 where it is not bound.
pub(super) fn of_socket(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: the kernel writes no more than the size.
    asked(|address, size| unsafe { real::getsockname.get()(fd, address, size) })
}

pub(super) fn of_peer(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: as above.
    asked(|address, size| unsafe { real::getpeername.get()(fd, address, size) })
}

pub(super) fn bind(fd: c_int, address: SocketAddr, is_v6: bool, interface: u32) -> bool {
    let (raw, length) = raw(address, is_v6, interface);
    // SAFETY: an address and its length.
    unsafe { real::bind.get()(fd, (&raw const raw).cast(), length) == 0 }
}

pub(super) fn any(is_v6: bool) -> SocketAddr {
    if is_v6 {
        SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0))
    } else {
        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)
    }
}
