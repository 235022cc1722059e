//! Topics over TCP: the publisher connects from its node's address to that of each subscriber, which listens at its port.

mod receiver;
mod sender;

pub(crate) use receiver::tcp_receivers;
pub(crate) use sender::TcpSender;

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// Buffers of a connection on each side, in bytes. Frames in them are older than what the publisher could send instead, so they are small:
/// hundreds of short frames, about 20 of the longest.
const BUFFER_BYTES: usize = 32 * 1024;

/// An address and port of a node on its network.
fn place(address: SocketAddr, local: IpAddr) -> Result<SocketAddr, net::NetError> {
    Ok(match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, net::group::interface_of(local)?).into()
        }
        other => other,
    })
}
