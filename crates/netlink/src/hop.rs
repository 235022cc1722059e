//! Where a packet to an address goes, by the kernel's own tables (rtnetlink(7)): the route, the interface behind it and the
//! MAC address of the next hop. The kernel is asked anew each time and nothing is kept here.

use crate::{Asks, Attributes, Request, Socket, u16_at, u32_at};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

// include/uapi/linux/rtnetlink.h
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// `struct rtmsg`: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
const ROUTE: usize = 12;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;

/// `struct ifinfomsg`: family, type, index, flags, change.
const LINK: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_XDP: u16 = 43;
/// The program's number, or in the driver's, the generic and the NIC's place where there are several.
const IFLA_XDP_PROG_IDS: [u16; 4] = [4, 5, 6, 7];
const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_NOARP: u32 = 0x80;

/// `struct ndmsg`: family, padding, interface, state, flags, type.
const NEIGHBOUR: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// "Use the entry now", as a packet to it would.
const NTF_USE: u8 = 1;
const NUD_REACHABLE: u16 = 0x02;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;
/// States in which the kernel sends to the entry's MAC address: stale, delay and probe beside the three above.
const NUD_VALID: u16 = NUD_REACHABLE | NUD_NOARP | NUD_PERMANENT | 0x04 | 0x08 | 0x10;

/// What the kernel would do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// The packet never leaves this network namespace: the address is its own.
    pub local: bool,
    /// It goes to one other host: the address is neither of this one, nor of a group, nor refused.
    pub unicast: bool,
    /// The number of the interface it leaves through.
    pub interface: Option<u32>,
    /// The source address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// The router it goes to; absent where the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The route's own limit of an IP packet in bytes.
    pub mtu: Option<u32>,
}

impl Route {
    /// Reads an object of an answer; `None`: it is no route.
    pub fn read(kind: u16, body: &[u8]) -> Option<Self> {
        let route_type = *body.get(7).filter(|_| kind == RTM_NEWROUTE)?;
        let (local, unicast) = (route_type == RTN_LOCAL, route_type == RTN_UNICAST);
        let mut found = Self { local, unicast, ..Self::default() };
        for (kind, payload) in Attributes(body.get(ROUTE..)?) {
            match kind {
                RTA_OIF => found.interface = u32_at(payload, 0),
                RTA_PREFSRC => found.source = address(payload),
                RTA_GATEWAY => found.gateway = address(payload),
                // A family, then the address: a router of the other family.
                RTA_VIA => found.gateway = address(payload.get(2..)?),
                RTA_METRICS => {
                    let mtu = Attributes(payload).of(RTAX_MTU).and_then(|payload| u32_at(payload, 0));
                    found.mtu = mtu.filter(|mtu| *mtu != 0);
                }
                _ => {}
            }
        }
        Some(found)
    }
}

/// A network interface as rtnetlink shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Its hardware type (linux/if_arp.h): 1 Ethernet, 772 loopback.
    pub hardware: u16,
    /// Its MAC address; absent where it has none of 6 bytes.
    pub mac: Option<[u8; 6]>,
    /// The longest IP packet in bytes.
    pub mtu: u32,
    pub is_up: bool,
    /// Whether it asks for no MAC addresses (IFF_LOOPBACK, IFF_NOARP): its frames need none that is right.
    pub is_without_neighbours: bool,
    /// Which virtual device it is (`veth`, `bridge`, `tun`); absent for hardware and `lo`.
    pub kind: Option<String>,
    /// The number of the XDP program that is attached to it.
    pub xdp_program: Option<u32>,
}

impl Link {
    /// Reads an object of an answer; `None`: it is no link.
    pub fn read(kind: u16, body: &[u8]) -> Option<Self> {
        if kind != RTM_NEWLINK {
            return None;
        }
        let flags = u32_at(body, 8)?;
        let attributes = Attributes(body.get(LINK..)?);
        let info = attributes.of(IFLA_LINKINFO).and_then(|info| Attributes(info).of(IFLA_INFO_KIND));
        let xdp = attributes.of(IFLA_XDP).unwrap_or_default();
        let number = |kind| Attributes(xdp).of(kind).and_then(|id| u32_at(id, 0)).filter(|id| *id != 0);
        Some(Self {
            index: u32_at(body, 4)?,
            name: text(attributes.of(IFLA_IFNAME)?),
            hardware: u16_at(body, 2)?,
            mac: attributes.of(IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()),
            mtu: attributes.of(IFLA_MTU).and_then(|mtu| u32_at(mtu, 0))?,
            is_up: flags & IFF_UP != 0,
            is_without_neighbours: flags & (IFF_LOOPBACK | IFF_NOARP) != 0,
            kind: info.map(text),
            xdp_program: IFLA_XDP_PROG_IDS.into_iter().find_map(number),
        })
    }
}

/// What the kernel knows of an address on a link (ARP, neighbour discovery).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its MAC address; absent while it is asked for and without an answer.
    pub mac: Option<[u8; 6]>,
    /// Whether the address is known to hold: no other question is needed now.
    pub is_confirmed: bool,
}

impl Neighbour {
    /// Reads an object of an answer; `None`: it is no neighbour.
    pub fn read(kind: u16, body: &[u8]) -> Option<Self> {
        let state = u16_at(body, 8).filter(|_| kind == RTM_NEWNEIGH)?;
        let mac = Attributes(body.get(NEIGHBOUR..)?).of(NDA_LLADDR).and_then(|mac| mac.try_into().ok());
        Some(Self {
            mac: mac.filter(|_| state & NUD_VALID != 0),
            is_confirmed: state & (NUD_REACHABLE | NUD_NOARP | NUD_PERMANENT) != 0,
        })
    }
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn address(payload: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(payload) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(payload).ok().map(IpAddr::from)
}

fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    }
}

/// `struct ndmsg`, and the address.
fn about_neighbour(kind: u16, asks: Asks, flags: u8, interface: u32, address: IpAddr) -> Request {
    let (family, octets) = family_and_octets(address);
    let mut structure = [0; NEIGHBOUR];
    structure[0] = family;
    structure[4..8].copy_from_slice(&interface.to_ne_bytes());
    structure[10] = flags;
    Request::new(kind, asks, &structure).with(NDA_DST, &octets)
}

impl Socket {
    /// The one object that an answer holds, as `read` takes it.
    fn one<T>(&self, request: Request, read: fn(u16, &[u8]) -> Option<T>) -> io::Result<T> {
        let mut found = None;
        self.exchange(request, |kind, body| {
            if found.is_none() {
                found = read(kind, body);
            }
        })?;
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The route of a packet to `address`, through interface number `scope` unless that is 0; an error where none leads there.
    pub fn route_to(&self, address: IpAddr, scope: u32) -> io::Result<Route> {
        let (family, octets) = family_and_octets(address);
        let mut structure = [0; ROUTE];
        structure[0] = family;
        structure[1] = u8::try_from(octets.len() * 8).unwrap_or(128);
        let request = Request::new(RTM_GETROUTE, Asks::One, &structure).with(RTA_DST, &octets);
        self.one(if scope == 0 { request } else { request.with(RTA_OIF, &scope.to_ne_bytes()) }, Route::read)
    }

    /// The interface number `index`; `ENODEV` where there is none.
    pub fn link(&self, index: u32) -> io::Result<Link> {
        let mut structure = [0; LINK];
        structure[4..8].copy_from_slice(&index.to_ne_bytes());
        self.one(Request::new(RTM_GETLINK, Asks::One, &structure), Link::read)
    }

    /// What the kernel knows of `address` on an interface; `None`: nothing. Needs Linux 5.0.
    pub fn neighbour(&self, interface: u32, address: IpAddr) -> io::Result<Option<Neighbour>> {
        match self.one(about_neighbour(RTM_GETNEIGH, Asks::One, 0, interface, address), Neighbour::read) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Has the kernel look for `address` now, or confirm it, as a packet would. Does not wait. Needs CAP_NET_ADMIN.
    pub fn look_for_neighbour(&self, interface: u32, address: IpAddr) -> io::Result<()> {
        self.exchange(about_neighbour(RTM_NEWNEIGH, Asks::Create, NTF_USE, interface, address), |_, _| ())
    }
}

/// Everything that a frame to an address needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The interface it leaves through.
    pub link: Link,
    /// The source address that the kernel would choose.
    pub source: IpAddr,
    /// The destination's MAC address, or the router's; that of the interface where the destination is this host.
    pub mac: [u8; 6],
    /// The longest IP packet in bytes: the route's limit, or the interface's.
    pub mtu: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum HopError {
    #[error("no route to {address}: {cause}; check the address, and `ip route get {address}`")]
    NoRoute { address: IpAddr, cause: io::Error },
    #[error(
        "{address} is behind {interface}, which is not an Ethernet interface (hardware type {hardware}): use another path"
    )]
    NotEthernet { address: IpAddr, interface: String, hardware: u16 },
    #[error(
        "the MAC address of {next_hop} on {interface} is not known{}: check that it is up, and contact it once by other means (ping)",
        cause.as_ref().map(|cause| format!(" and cannot be asked for ({cause})")).unwrap_or_default()
    )]
    NoNeighbour { next_hop: IpAddr, interface: String, cause: Option<io::Error> },
}

/// How frames get to `address` (through interface `scope` unless that is 0). Waits at most `patience` for the neighbour.
pub fn hop(address: IpAddr, scope: u32, patience: Duration) -> Result<Hop, HopError> {
    let no_route = |cause| HopError::NoRoute { address, cause };
    let socket = Socket::route().map_err(no_route)?;
    let route = socket.route_to(address.to_canonical(), scope).map_err(no_route)?;
    let missing = || no_route(io::ErrorKind::AddrNotAvailable.into());
    let link = socket.link(route.interface.ok_or_else(missing)?).map_err(no_route)?;
    let source = route.source.ok_or_else(missing)?;
    let own = link.mac.ok_or_else(|| HopError::NotEthernet {
        address,
        interface: link.name.clone(),
        hardware: link.hardware,
    })?;
    let next_hop = route.gateway.unwrap_or(address.to_canonical());
    let mac = if link.is_without_neighbours { own } else { resolve(&socket, &link, next_hop, patience)? };
    let mtu = route.mtu.unwrap_or(link.mtu);
    Ok(Hop { link, source, mac, mtu })
}

fn resolve(socket: &Socket, link: &Link, next_hop: IpAddr, patience: Duration) -> Result<[u8; 6], HopError> {
    let unknown = |cause| HopError::NoNeighbour { next_hop, interface: link.name.clone(), cause };
    let ask = || socket.neighbour(link.index, next_hop).map_err(|cause| unknown(Some(cause)));
    let known = ask()?;
    if let Some(Neighbour { mac: Some(mac), is_confirmed }) = known {
        if !is_confirmed {
            // As a packet would; what is known is used meanwhile, also without the right to ask.
            let _ = socket.look_for_neighbour(link.index, next_hop);
        }
        return Ok(mac);
    }
    /// The kernel gives up after 3 s and asks no more by itself; while it still asks, this changes nothing.
    const ASK_EACH: Duration = Duration::from_millis(500);
    let (begun, mut asked) = (Instant::now(), None);
    loop {
        if asked.is_none_or(|asked: Instant| asked.elapsed() >= ASK_EACH) {
            socket.look_for_neighbour(link.index, next_hop).map_err(|cause| unknown(Some(cause)))?;
            asked = Some(Instant::now());
        }
        if let Some(mac) = ask()?.and_then(|known| known.mac) {
            return Ok(mac);
        }
        if begun.elapsed() >= patience {
            return Err(unknown(None));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Answers, attribute};

    /// The first object of an answer that `read` takes.
    fn first<T>(answer: &[u8], read: fn(u16, &[u8]) -> Option<T>) -> Option<T> {
        Answers(answer).find_map(|one| if let Answer::Object(kind, body) = one { read(kind, body) } else { None })
    }

    #[test]
    fn routes_are_read_whole_or_not_at_all() {
        let structure = [2, 32, 0, 0, 255, 2, 0, RTN_LOCAL, 0, 0, 0, 0];
        let of = |kind| {
            Request::new(kind, Asks::One, &structure)
                .with(RTA_OIF, &3u32.to_ne_bytes())
                .with(RTA_PREFSRC, &[192, 0, 2, 1])
                .with(RTA_METRICS, &attribute(RTAX_MTU, &1400u32.to_ne_bytes()))
                .with(RTA_VIA, &[&[10, 0], [0xfe; 16].as_slice()].concat())
                .finish()
        };
        let answer = of(RTM_NEWROUTE);
        let wanted = Route {
            local: true,
            unicast: false,
            interface: Some(3),
            source: Some("192.0.2.1".parse().unwrap()),
            gateway: Some(IpAddr::from([0xfe; 16])),
            mtu: Some(1400),
        };
        assert_eq!(first(&answer, Route::read), Some(wanted));
        for cut in 0..answer.len() {
            assert_eq!(first(&answer[..cut], Route::read), None, "{cut}");
        }
        assert_eq!(first(&of(RTM_GETROUTE), Route::read), None, "not a route");
    }

    #[test]
    fn neighbours_have_a_mac_address_in_the_states_in_which_the_kernel_sends() {
        // state, has an address, is confirmed: incomplete, reachable, stale, delay, probe, failed, no ARP, permanent.
        for (state, known, confirmed) in [
            (0x01, false, false),
            (0x02, true, true),
            (0x04, true, false),
            (0x08, true, false),
            (0x10, true, false),
            (0x20, false, false),
            (0x40, true, true),
            (0x80, true, true),
        ] {
            let structure = [2, 0, 0, 0, 7, 0, 0, 0, state, 0, 0, 1];
            let mac = [2, 0, 0, 0, 0, 9];
            let answer = Request::new(RTM_NEWNEIGH, Asks::One, &structure).with(NDA_LLADDR, &mac).finish();
            let wanted = Neighbour { mac: known.then_some(mac), is_confirmed: confirmed };
            assert_eq!(first(&answer, Neighbour::read), Some(wanted), "{state:#x}");
        }
    }

    #[test]
    fn the_loopback_interface_is_a_hop() {
        for text in ["127.0.0.1", "::1"] {
            let address = text.parse().unwrap();
            let hop = hop(address, 0, Duration::ZERO).unwrap();
            assert_eq!((hop.link.name.as_str(), hop.link.hardware, hop.mac, hop.source), ("lo", 772, [0; 6], address));
            assert_eq!(hop.mtu, hop.link.mtu);
        }
        let missing = Socket::route().unwrap().link(4_000_000).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(19), "ENODEV: {missing}");
    }
}
