//! A question to the other end of a connection without a process.

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, sendto, socket,
};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd as _;

/// Has the other end of a connection report what it expects. When the process of the connection has ended, the kernel
/// knows nothing of it, answers with a reset, and the other end learns of it. `first_unacknowledged`: SND.UNA, or one that
/// was it not long ago. Errors: CAP_NET_RAW is missing, the local address was removed, or there is no route.
pub fn probe_peer(
    interface: &str,
    (local, remote): (SocketAddr, SocketAddr),
    first_unacknowledged: u32,
) -> io::Result<()> {
    let segment = stack::probe_segment(local, remote, first_unacknowledged).ok_or(io::ErrorKind::InvalidInput)?;
    let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
    let whole = |ip: IpAddr| match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddr::V6(SocketAddrV6::new(v6, 0, 0, if_nametoindex(interface).unwrap_or(0)))
        }
        ip => SocketAddr::new(ip, 0),
    };
    bind(socket.as_raw_fd(), &SockaddrStorage::from(whole(local.ip())))?;
    sendto(socket.as_raw_fd(), &segment, &SockaddrStorage::from(whole(remote.ip())), MsgFlags::MSG_DONTWAIT)?;
    Ok(())
}
