//! The own address of a socket.

use crate::address::RawAddress;
use crate::resolve::with_scope;
use crate::{NetError, sys};
use model::EndSpec;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

/// The initiator's local address: the one asked for, else any of the peer's family; the kernel chooses the port.
pub(crate) fn local_address(end: &EndSpec, peer: SocketAddr) -> Result<SocketAddr, NetError> {
    match end.bind {
        Some(address) if address.is_ipv6() != peer.is_ipv6() => {
            Err(NetError::FamilyMismatch { one: address, other: peer.ip() })
        }
        Some(address) => Ok(with_scope(address, 0, scope_of(peer))),
        None if peer.is_ipv6() => Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)),
        None => Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
    }
}

/// The interface number of a link-local IPv6 address; 0 for others.
pub(crate) fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

pub(crate) fn bind(fd: RawFd, address: SocketAddr, protocol: &'static str) -> Result<(), NetError> {
    sys::bind(fd, RawAddress::new(address).as_bytes()).map_err(|cause| match cause.raw_os_error() {
        Some(libc::EADDRINUSE) => NetError::InUse { protocol, address },
        _ => NetError::Bind { protocol, address, cause },
    })
}

/// getsockname(2); `None` for a family without IP addresses.
pub(crate) fn own_address(fd: RawFd) -> io::Result<Option<SocketAddr>> {
    let mut address = RawAddress::EMPTY;
    sys::getsockname(fd, address.room())?;
    Ok(address.decode())
}
