//! The kernel's route to an address: local or not, interface, source, MTU (rtnetlink(7), RTM_GETROUTE). Only reads.

use crate::NetError;
use crate::address::RawAddress;
use crate::bound::own_address;
use crate::{interface, sys};
use netlink::{Answer, Answers, Socket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// What the kernel would do with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The packet never leaves this network namespace: the address is its own.
    pub local: bool,
    /// The interface it leaves through; the one called `lo` for local addresses.
    pub interface: Option<String>,
    /// The source address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// The largest IP packet in bytes: the route's own limit, else the interface's.
    pub mtu: Option<u32>,
}

/// The route to `peer`. Errors: there is none, or the kernel does not tell.
pub fn lookup(peer: SocketAddr) -> Result<Route, NetError> {
    let address = peer.ip();
    let failed = |cause| NetError::NoRoute { address, cause };
    let found = match get_route(peer) {
        Ok(found) => found,
        // Netlink is not there in some sandboxes; the addresses of the interfaces say most of it.
        Err(cause) if cause.kind() == io::ErrorKind::Unsupported => return from_addresses(peer),
        Err(cause) => return Err(failed(cause)),
    };
    let name = found.interface.and_then(|index| interface::name_of(index).ok());
    let mtu = found.mtu.or_else(|| name.as_deref().and_then(|name| interface::mtu(name).ok()));
    let source = match found.source {
        Some(source) => Some(source),
        None => source_for(peer).ok(),
    };
    Ok(Route { local: found.local, interface: name, source, mtu })
}

/// Asks the kernel. `Unsupported` when there is no netlink.
fn get_route(peer: SocketAddr) -> io::Result<netlink::Route> {
    let socket = Socket::route().map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    socket.route_to(peer.ip(), crate::bound::scope_of(peer))
}

fn from_addresses(peer: SocketAddr) -> Result<Route, NetError> {
    let source = source_for(peer)?;
    let name = interface::with_address(source).ok();
    let local = is_own(peer.ip())?;
    let mtu = name.as_deref().and_then(|name| interface::mtu(name).ok());
    Ok(Route { local, interface: name, source: Some(source), mtu })
}

/// Whether traffic to `peer` stays in this network namespace: a loopback address, an address of one of its interfaces, or
/// any other that its routing tables call local. Multicast groups are not local. Errors: the kernel does not tell.
pub fn is_local(peer: IpAddr) -> Result<bool, NetError> {
    if peer.to_canonical().is_loopback() || peer.is_unspecified() {
        return Ok(true);
    }
    match get_route(SocketAddr::new(peer, 0)) {
        Ok(found) => Ok(found.local),
        // Without a route (or netlink) only its own addresses could be local.
        Err(_) => is_own(peer),
    }
}

fn is_own(address: IpAddr) -> Result<bool, NetError> {
    let canonical = address.to_canonical();
    Ok(canonical.is_loopback()
        || canonical.is_unspecified()
        || interface::addresses()?.iter().any(|entry| entry.address == canonical))
}

/// The address from which packets to `peer` are sent, by a connected UDP socket. Sends nothing. Errors: no route.
pub fn source_for(peer: SocketAddr) -> Result<IpAddr, NetError> {
    let failed = |cause| NetError::NoRoute { address: peer.ip(), cause };
    let own = own_address(routed(peer)?.as_raw_fd()).map_err(failed)?;
    own.map(|own| own.ip()).ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))
}

/// A UDP socket connected to `peer`, by which the kernel reports what it would do. Sends nothing.
pub(crate) fn routed(peer: SocketAddr) -> Result<OwnedFd, NetError> {
    let failed = |cause| NetError::NoRoute { address: peer.ip(), cause };
    let socket = sys::socket(sys::domain(peer.is_ipv6()), libc::SOCK_DGRAM, 0)
        .map_err(|cause| NetError::Socket { what: "UDP", cause })?;
    let mut target = peer;
    if target.port() == 0 {
        // Any port will do, but not 0: discard.
        target.set_port(9);
    }
    sys::connect(socket.as_raw_fd(), RawAddress::new(target).as_bytes()).map_err(failed)?;
    Ok(socket)
}

/// What the kernel answers about routes, links and neighbours over rtnetlink, for fuzzers.
#[doc(hidden)]
pub fn exercise_answer(bytes: &[u8]) {
    for answer in Answers(bytes) {
        if let Answer::Object(kind, body) = answer {
            let _ = (netlink::Route::read(kind, body), netlink::Link::read(kind, body));
            let _ = netlink::Neighbour::read(kind, body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local() {
        for text in ["127.0.0.1", "127.3.2.1", "::1"] {
            assert!(is_local(text.parse().unwrap()).unwrap(), "{text}");
        }
        let route = lookup("127.0.0.1:9".parse().unwrap()).unwrap();
        assert!(route.local);
        assert_eq!(route.interface.as_deref(), Some("lo"));
        assert_eq!(route.source, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(route.mtu, Some(interface::mtu("lo").unwrap()));
    }

    #[test]
    fn own_addresses_are_local_and_others_are_not() {
        for entry in interface::addresses().unwrap() {
            // Addresses of interfaces that are down are still local.
            assert!(is_local(entry.address).unwrap(), "{entry:?}");
        }
        // Documentation addresses (RFC 5737): no host has them.
        assert!(!is_local("203.0.113.77".parse().unwrap()).unwrap());
        assert!(!is_local("239.1.2.3".parse().unwrap()).unwrap());
    }
}
