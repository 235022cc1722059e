//! What the kernel owns: links, addresses, routes and neighbours, asked over rtnetlink(7).

use crate::EngineError;
use netlink::{Asks, Attributes, Link, Request, Socket, u32_at};
use nix::libc::{RTM_GETADDR, RTM_GETLINK};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};

/// Attributes of linux/if_addr.h.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Bytes of struct ifinfomsg and ifaddrmsg.
const LINK: usize = 16;
const ADDRESS: usize = 8;

/// ARPHRD_LOOPBACK of linux/if_arp.h.
const LOOPBACK: u16 = 772;
/// A port that discards what it gets (RFC 863).
const DISCARD: u16 = 9;

/// How packets to an address leave this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    /// Number of the interface.
    pub(crate) interface: u32,
    /// The router, or the address itself.
    pub(crate) next: IpAddr,
    /// The address of this host that such packets bear.
    pub(crate) source: Option<IpAddr>,
    /// The route's own MTU.
    pub(crate) mtu: Option<u32>,
}

/// What the kernel reports of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// It is not reached through the interface.
    Elsewhere,
    /// The next hop is not resolved.
    Unresolved,
    /// Packets bear this source, and go to this MAC address.
    Here { path: Path, source: IpAddr, mac: [u8; 6] },
}

#[derive(Debug)]
pub(crate) struct Kernel(Socket);

impl Kernel {
    pub(crate) fn open() -> Result<Self, EngineError> {
        Socket::route().map(Self).map_err(|cause| EngineError::Kernel { what: "routes", cause })
    }

    /// Names of the interfaces that are up, less loopback.
    pub(crate) fn interfaces(&self) -> Result<Vec<(u32, String)>, EngineError> {
        let mut found = Vec::new();
        let request = Request::new(RTM_GETLINK, Asks::All, &[0; LINK]);
        let taken = self.0.exchange(request, |kind, body| {
            let link = Link::read(kind, body).filter(|link| link.is_up && link.hardware != LOOPBACK);
            found.extend(link.map(|link| (link.index, link.name)));
        });
        taken.map_err(|cause| EngineError::Kernel { what: "network interfaces", cause })?;
        Ok(found)
    }

    /// MAC address and MTU of an interface.
    pub(crate) fn link(&self, interface: u32) -> Option<([u8; 6], u32)> {
        let link = self.0.link(interface).ok()?;
        Some((link.mac?, link.mtu))
    }

    pub(crate) fn addresses(&self, interface: u32) -> Result<Vec<IpAddr>, EngineError> {
        /// Not usable yet, or not at all: another host has it.
        const TENTATIVE_OR_FAILED: u8 = 0x40 | 0x08;
        let mut found = Vec::new();
        let request = Request::new(RTM_GETADDR, Asks::All, &[0; ADDRESS]);
        let taken = self.0.exchange(request, |_, body| {
            let (Some(index), Some(flags), Some(rest)) = (u32_at(body, 4), body.get(2), body.get(ADDRESS..)) else {
                return;
            };
            let address = Attributes(rest).of(IFA_LOCAL).or_else(|| Attributes(rest).of(IFA_ADDRESS)).and_then(ip);
            if index == interface && flags & TENTATIVE_OR_FAILED == 0 {
                found.extend(address);
            }
        });
        taken.map_err(|cause| EngineError::Kernel { what: "addresses", cause })?;
        Ok(found)
    }

    /// The path to an address; none where it has no route, or is this host's own, or a group. A link-local address is one of this
    /// interface.
    pub(crate) fn path(&self, to: IpAddr, interface: u32) -> Option<Path> {
        let is_near = matches!(to, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let route = self.0.route_to(to, if is_near { interface } else { 0 }).ok().filter(|route| route.unicast)?;
        let next = route.gateway.unwrap_or(to);
        Some(Path { interface: route.interface?, next, source: route.source, mtu: route.mtu })
    }

    /// Whether an address is one of this network namespace.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.0.route_to(address, 0).is_ok_and(|route| route.local)
    }

    /// The MAC address of a neighbour, where the kernel knows it.
    pub(crate) fn neighbour(&self, interface: u32, address: IpAddr) -> Option<[u8; 6]> {
        self.0.neighbour(interface, address).ok().flatten()?.mac
    }

    /// Path and next hop to an address through an interface.
    pub(crate) fn find(&self, remote: IpAddr, interface: u32) -> Resolution {
        let is_group = remote.is_multicast() || remote.is_unspecified() || remote.is_loopback();
        let path = if is_group { None } else { self.path(remote, interface) };
        let path = path.filter(|path| path.interface == interface);
        let Some((path, source)) = path.and_then(|path| Some((path, path.source?))) else {
            return Resolution::Elsewhere;
        };
        match self.neighbour(interface, path.next) {
            Some(mac) => Resolution::Here { path, source, mac },
            None => Resolution::Unresolved,
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Makes the kernel resolve the next hop to an address: it does so for whoever sends a packet there.
pub(crate) fn poke(to: IpAddr, interface: u32) -> io::Result<()> {
    let (any, to) = match to {
        IpAddr::V4(_) => (SocketAddr::from(([0; 4], 0)), SocketAddr::from((to, DISCARD))),
        IpAddr::V6(v6) => {
            let scope = if v6.is_unicast_link_local() { interface } else { 0 };
            let to = std::net::SocketAddrV6::new(v6, DISCARD, 0, scope);
            (SocketAddr::from(([0_u16; 8], 0)), SocketAddr::V6(to))
        }
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.send_to(&[], to).map(|_| ())
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|four| IpAddr::from(*four)),
        16 => bytes.first_chunk::<16>().map(|sixteen| IpAddr::from(*sixteen)),
        _ => None,
    }
}
