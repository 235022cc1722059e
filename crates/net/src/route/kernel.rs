//! One RTM_GETROUTE request and its answer (rtnetlink(7), include/uapi/linux/rtnetlink.h).

use netlink::{Answer, Answers, Asks, Attributes, Request, Socket, u32_at};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The part of the answer that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    pub(super) local: bool,
    pub(super) interface: Option<u32>,
    pub(super) source: Option<IpAddr>,
    pub(super) mtu: Option<u32>,
}

/// `struct rtmsg`: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
const ROUTE: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_MTU: u16 = 2;

/// Asks the kernel. `Unsupported` when there is no netlink.
pub(super) fn get_route(peer: SocketAddr) -> io::Result<Found> {
    let socket = Socket::route().map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let mut found = None;
    socket.exchange(request(peer), |kind, body| found = found.or_else(|| route(kind, body)))?;
    found.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn request(peer: SocketAddr) -> Request {
    let (family, octets) = match peer.ip() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut route = [0; ROUTE];
    route[0] = u8::try_from(family).unwrap_or(0);
    route[1] = u8::try_from(octets.len() * 8).unwrap_or(128);
    let request = Request::new(libc::RTM_GETROUTE, Asks::One, &route).with(RTA_DST, &octets);
    match crate::socket::scope_of(peer) {
        0 => request,
        scope => request.with(RTA_OIF, &scope.to_ne_bytes()),
    }
}

/// The first route of an answer, for fuzzers.
pub(super) fn parse(answer: &[u8]) -> Option<Found> {
    Answers(answer).find_map(|answer| if let Answer::Object(kind, body) = answer { route(kind, body) } else { None })
}

/// Reads one object.
fn route(kind: u16, body: &[u8]) -> Option<Found> {
    let route_type = *body.get(7).filter(|_| kind == libc::RTM_NEWROUTE)?;
    let mut found = Found { local: route_type == libc::RTN_LOCAL, ..Found::default() };
    for (kind, payload) in Attributes(body.get(ROUTE..)?) {
        match kind {
            RTA_OIF => found.interface = u32_at(payload, 0),
            RTA_PREFSRC => found.source = address(payload),
            RTA_METRICS => {
                let mtu = Attributes(payload).of(RTAX_MTU).and_then(|payload| u32_at(payload, 0));
                found.mtu = mtu.filter(|mtu| *mtu != 0);
            }
            _ => {}
        }
    }
    Some(found)
}

fn address(payload: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(payload) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(payload).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink::attribute;

    #[test]
    fn answers_are_read() {
        let structure = [2, 32, 0, 0, 255, 2, 0, libc::RTN_LOCAL, 0, 0, 0, 0];
        let answer = Request::new(libc::RTM_NEWROUTE, Asks::One, &structure)
            .with(RTA_OIF, &3u32.to_ne_bytes())
            .with(RTA_PREFSRC, &[192, 0, 2, 1])
            .with(RTA_METRICS, &attribute(RTAX_MTU, &1400u32.to_ne_bytes()))
            .finish();
        let source = Some("192.0.2.1".parse().unwrap());
        assert_eq!(parse(&answer), Some(Found { local: true, interface: Some(3), source, mtu: Some(1400) }));
        for cut in 0..answer.len() {
            assert_eq!(parse(&answer[..cut]), None, "{cut}");
        }
        let other = Request::new(libc::RTM_GETROUTE, Asks::One, &structure).finish();
        assert_eq!(parse(&other), None, "not a route");
    }
}
