//! What the kernel owns: links, addresses, routes and neighbours, asked over rtnetlink(7).

use crate::EngineError;
use netlink::{Asks, Attributes, Request, Socket, u16_at, u32_at};
use nix::libc::{AF_INET, AF_INET6, RTM_GETADDR, RTM_GETLINK, RTM_GETNEIGH, RTM_GETROUTE};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Attributes of linux/if_link.h, if_addr.h, rtnetlink.h and neighbour.h.
const IFLA_IFNAME: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// Bytes of struct ifinfomsg, ifaddrmsg, rtmsg and ndmsg.
const LINK: usize = 16;
const ADDRESS: usize = 8;
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;

/// States of a neighbour whose MAC address may be used: reachable, stale, delay, probe, noarp, permanent.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// RTN_UNICAST: neither an address of this host, nor broadcast, multicast, or a refusal.
const UNICAST: u8 = 1;
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

/// The kernel's tables.
#[derive(Debug)]
pub(crate) struct Kernel(Socket);

impl Kernel {
    pub(crate) fn open() -> Result<Self, EngineError> {
        Socket::route().map(Self).map_err(|cause| EngineError::Kernel { what: "routes", cause })
    }

    /// Names of the interfaces that are up, less loopback.
    pub(crate) fn interfaces(&self) -> Result<Vec<(u32, String)>, EngineError> {
        const UP: u32 = 1;
        const LOOPBACK: u32 = 8;
        let mut found = Vec::new();
        let request = Request::new(RTM_GETLINK, Asks::All, &[0; LINK]);
        let taken = self.0.exchange(request, |_, body| {
            let fields = u32_at(body, 4).zip(u32_at(body, 8));
            let name = body.get(LINK..).and_then(|rest| Attributes(rest).of(IFLA_IFNAME));
            if let (Some((index, flags)), Some(name)) = (fields, name)
                && flags & (UP | LOOPBACK) == UP
            {
                found.push((index, String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
            }
        });
        taken.map_err(|cause| EngineError::Kernel { what: "network interfaces", cause })?;
        Ok(found)
    }

    /// Addresses of an interface.
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

    /// The path to an address; none where it has no route, or is this host's own, or a group.
    pub(crate) fn path(&self, to: IpAddr, interface: Option<u32>) -> Option<Path> {
        let bits = if to.is_ipv4() { 32 } else { 128 };
        let structure = [family(to), bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Request::new(RTM_GETROUTE, Asks::One, &structure).with(RTA_DST, &octets(to));
        if let Some(interface) = interface {
            request = request.with(RTA_OIF, &interface.to_ne_bytes());
        }
        let mut found = None;
        let taken = self.0.exchange(request, |_, body| {
            let (Some(kind), Some(rest)) = (body.get(7), body.get(ROUTE..)) else { return };
            let of = |kind| Attributes(rest).of(kind);
            // The first two bytes of RTA_VIA are the address' family.
            let router = of(RTA_GATEWAY).or_else(|| of(RTA_VIA)?.get(2..)).and_then(ip);
            if let Some(interface) = of(RTA_OIF).and_then(|oif| u32_at(oif, 0)).filter(|_| *kind == UNICAST) {
                let mtu = of(RTA_METRICS).and_then(|all| u32_at(Attributes(all).of(RTAX_MTU)?, 0));
                found = Some(Path {
                    interface,
                    next: router.unwrap_or(to),
                    source: of(RTA_PREFSRC).and_then(ip),
                    mtu: mtu.filter(|mtu| *mtu > 0),
                });
            }
        });
        taken.ok().and(found)
    }

    /// The MAC address of a neighbour, where the kernel knows it.
    pub(crate) fn neighbour(&self, interface: u32, address: IpAddr) -> Option<[u8; 6]> {
        let mut structure = [0; NEIGHBOUR];
        structure[0] = family(address);
        structure[4..8].copy_from_slice(&interface.to_ne_bytes());
        let request = Request::new(RTM_GETNEIGH, Asks::One, &structure).with(NDA_DST, &octets(address));
        let mut found = None;
        let taken = self.0.exchange(request, |_, body| {
            let mac = body.get(NEIGHBOUR..).and_then(|rest| Attributes(rest).of(NDA_LLADDR));
            if u16_at(body, 8).is_some_and(|state| state & NUD_VALID != 0) {
                found = mac.and_then(|mac| mac.first_chunk().copied());
            }
        });
        taken.ok().and(found)
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

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    u8::try_from(family).unwrap_or(0)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|four| IpAddr::from(*four)),
        16 => bytes.first_chunk::<16>().map(|sixteen| IpAddr::from(*sixteen)),
        _ => None,
    }
}
