//! UDP over a multicast group: joining it on one interface and sending to it through that interface.

use crate::NetError;
use crate::address::RawAddress;
use crate::resolve::with_scope;
use crate::{interface, options, route, sys};
use libc::c_int;
use model::{EndSpec, Multicast};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

/// An end's interface: the one named, else the end's device, else the owner of `local`. Errors: no such interface.
pub(crate) fn interface_for(named: Option<&str>, end: &EndSpec, local: IpAddr) -> Result<u32, NetError> {
    if let Some(text) = named {
        return interface::named(text);
    }
    if let Some(device) = &end.device {
        return interface::index_of(device);
    }
    crate::interface::interface_of(end.bind.unwrap_or(local))
}

/// Joins the group on interface `index` and sends through it, from `source`, by which the peer recognizes messages.
pub(crate) fn join(fd: RawFd, multicast: &Multicast, index: u32, source: IpAddr, ttl: u8) -> Result<(), NetError> {
    enter(fd, multicast.group, index, source)?;
    let v6 = multicast.group.is_ipv6();
    send_through(fd, v6, index, source, multicast.loopback, ttl)?;
    if let IpAddr::V6(source) = source
        && v6
        && !source.is_unspecified()
    {
        let request = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: source.octets() }, ipi6_ifindex: index };
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &request)
            .map_err(refused("IPV6_PKTINFO", source.to_string()))?;
    }
    Ok(())
}

fn refused(option: &'static str, value: String) -> impl FnOnce(std::io::Error) -> NetError {
    move |cause| NetError::Option { option, value, cause }
}

fn request(group: Ipv4Addr, index: u32, source: IpAddr) -> libc::ip_mreqn {
    let source = if let IpAddr::V4(v4) = source { v4 } else { Ipv4Addr::UNSPECIFIED };
    libc::ip_mreqn {
        imr_multiaddr: in_addr(group),
        imr_address: in_addr(source),
        imr_ifindex: c_int::try_from(index).unwrap_or(c_int::MAX),
    }
}

/// Joins the group on interface `index`. Only groups that this socket joined are delivered to it (IP_MULTICAST_ALL off,
/// ip(7)); without that it would hear those of all other programs.
pub(crate) fn enter(fd: RawFd, group: IpAddr, index: u32, source: IpAddr) -> Result<(), NetError> {
    let joined = |cause| NetError::Join {
        group,
        interface: interface::name_of(index).unwrap_or_else(|_| index.to_string()),
        cause,
    };
    match group {
        IpAddr::V4(group) => {
            let request = request(group, index, source);
            sys::set_option(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request).map_err(joined)?;
            // Best effort: a preloaded stack may not know it.
            let _ = sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &OFF);
        }
        IpAddr::V6(group) => {
            let request = libc::ipv6_mreq {
                ipv6mr_multiaddr: libc::in6_addr { s6_addr: group.octets() },
                ipv6mr_interface: index,
            };
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request).map_err(joined)?;
            let _ = sys::set_option(fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, &OFF);
        }
    }
    Ok(())
}

/// Makes the socket send multicast through interface `index`, joined or not.
pub(crate) fn send_through(
    fd: RawFd,
    v6: bool,
    index: u32,
    source: IpAddr,
    loopback: bool,
    ttl: u8,
) -> Result<(), NetError> {
    let (loopback, ttl) = (c_int::from(loopback), c_int::from(ttl));
    if v6 {
        // A raw IPv6 socket hears all groups of this host, also when it is bound to a unicast address.
        let _ = sys::set_option(fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, &OFF);
        let (level, index) = (libc::IPPROTO_IPV6, c_int::try_from(index).unwrap_or(c_int::MAX));
        options::int(fd, level, libc::IPV6_MULTICAST_IF, "IPV6_MULTICAST_IF", index)?;
        options::int(fd, level, libc::IPV6_MULTICAST_LOOP, "IPV6_MULTICAST_LOOP", loopback)?;
        return options::int(fd, level, libc::IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS", ttl);
    }
    let request = request(Ipv4Addr::UNSPECIFIED, index, source);
    sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
        .map_err(refused("IP_MULTICAST_IF", index.to_string()))?;
    options::int(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, "IP_MULTICAST_LOOP", loopback)?;
    options::int(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, "IP_MULTICAST_TTL", ttl)
}

/// A port to connect to without sending: any but 0 will do.
const DISCARD: u16 = 9;

/// Whether messages to an IPv6 group find a route through interface `index`, on loopback also back. Sends nothing.
pub(crate) fn check_route(group: IpAddr, index: u32) -> Result<(), NetError> {
    if group.is_ipv4() {
        return Ok(());
    }
    let no_route = |kind| {
        let interface = interface::name_of(index).unwrap_or_else(|_| index.to_string());
        NetError::NoGroupRoute { group, interface, kind }
    };
    if interface::index_of("lo").is_ok_and(|lo| lo == index) {
        // On loopback Linux makes no route for groups, and one of the usual type does not deliver: it must be local.
        let delivers = route::lookup(with_scope(group, DISCARD, index)).is_ok_and(|route| route.local);
        return if delivers { Ok(()) } else { Err(no_route("local")) };
    }
    let socket = sys::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0)
        .map_err(|cause| NetError::Socket { what: "UDP/IPv6", cause })?;
    let fd = socket.as_raw_fd();
    let signed = c_int::try_from(index).unwrap_or(c_int::MAX);
    options::int(fd, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, "IPV6_MULTICAST_IF", signed)?;
    let target = RawAddress::new(SocketAddr::new(group, DISCARD));
    match sys::connect(fd, target.as_bytes()) {
        Err(cause) if cause.raw_os_error() == Some(libc::ENETUNREACH) => Err(no_route("multicast")),
        _ => Ok(()),
    }
}

const OFF: c_int = 0;
/// linux/in6.h; the libc crate has no name for it.
const IPV6_MULTICAST_ALL: c_int = 29;

fn in_addr(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) }
}
