//! One RTM_GETROUTE request and its answer (rtnetlink(7), include/uapi/linux/rtnetlink.h).

use crate::sys;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// The part of the answer that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    pub(super) local: bool,
    pub(super) interface: Option<u32>,
    pub(super) source: Option<IpAddr>,
    pub(super) mtu: Option<u32>,
}

const HEADER: usize = 16;
const ROUTE: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_MTU: u16 = 2;

/// Asks the kernel. `Unsupported` when there is no netlink.
pub(super) fn get_route(peer: SocketAddr) -> io::Result<Found> {
    let unsupported = |_| io::Error::from(io::ErrorKind::Unsupported);
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map_err(unsupported)?;
    let fd = socket.as_raw_fd();
    let request = request(peer);
    if sys::send(fd, &request, 0) < 0 {
        return Err(unsupported(sys::last()));
    }
    if !sys::wait_for(fd, libc::POLLIN, super::PATIENCE)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = [0; 4096];
    let Ok(length) = usize::try_from(sys::recv(fd, &mut answer, 0)) else { return Err(sys::last()) };
    parse(answer.get(..length).unwrap_or_default())
}

fn request(peer: SocketAddr) -> Vec<u8> {
    let (family, octets) = match peer.ip() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let scope = crate::socket::scope_of(peer);
    let prefix = u8::try_from(octets.len() * 8).unwrap_or(128);
    let mut body = vec![u8::try_from(family).unwrap_or(0), prefix, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    attribute(&mut body, RTA_DST, &octets);
    if scope != 0 {
        attribute(&mut body, RTA_OIF, &scope.to_ne_bytes());
    }
    let length = u32::try_from(HEADER + body.len()).unwrap_or(0);
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    message.extend_from_slice(&u16::try_from(libc::NLM_F_REQUEST).unwrap_or(1).to_ne_bytes());
    // Sequence number, and port 0: the kernel.
    message.extend_from_slice(&1u32.to_ne_bytes());
    message.extend_from_slice(&0u32.to_ne_bytes());
    message.extend_from_slice(&body);
    message
}

/// Payloads here are multiples of four, so no padding is needed.
fn attribute(body: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let length = u16::try_from(4 + payload.len()).unwrap_or(4);
    body.extend_from_slice(&length.to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(payload);
}

/// What a lookup's answer says, for fuzzers.
pub(super) fn exercise(bytes: &[u8]) {
    let _ = parse(bytes);
}

/// Reads one answer.
fn parse(answer: &[u8]) -> io::Result<Found> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let length = usize::try_from(u32_at(answer, 0).ok_or_else(bad)?).map_err(|_| bad())?;
    let message = answer.get(..length).ok_or_else(bad)?;
    let kind = u16_at(message, 4).ok_or_else(bad)?;
    let body = message.get(HEADER..).ok_or_else(bad)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let code = u32_at(body, 0).ok_or_else(bad)?;
        return Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code.to_ne_bytes()).wrapping_neg()));
    }
    if kind != libc::RTM_NEWROUTE {
        return Err(bad());
    }
    // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
    let route_type = *body.get(7).ok_or_else(bad)?;
    let mut found = Found { local: route_type == libc::RTN_LOCAL, ..Found::default() };
    for (kind, payload) in Attributes(body.get(ROUTE..).ok_or_else(bad)?) {
        match kind {
            RTA_OIF => found.interface = u32_at(payload, 0),
            RTA_PREFSRC => found.source = address(payload),
            RTA_METRICS => {
                found.mtu = Attributes(payload)
                    .find(|(kind, _)| *kind == RTAX_MTU)
                    .and_then(|(_, payload)| u32_at(payload, 0))
                    .filter(|mtu| *mtu != 0);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Type-length-value attributes; ends at the first that does not fit.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        // The two upper bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        let kind = u16_at(self.0, 2)? & 0x3fff;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    }
}

fn address(payload: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(payload) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(payload).ok().map(IpAddr::from)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend_from_slice(&u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&[0; 10]);
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn answers_are_read() {
        let mut body = vec![2, 32, 0, 0, 255, 2, 0, libc::RTN_LOCAL, 0, 0, 0, 0];
        attribute(&mut body, RTA_OIF, &3u32.to_ne_bytes());
        attribute(&mut body, RTA_PREFSRC, &[192, 0, 2, 1]);
        let mut metrics = Vec::new();
        attribute(&mut metrics, RTAX_MTU, &1400u32.to_ne_bytes());
        attribute(&mut body, RTA_METRICS, &metrics);
        let found = parse(&answer(libc::RTM_NEWROUTE, &body)).unwrap();
        let source = Some("192.0.2.1".parse().unwrap());
        assert_eq!(found, Found { local: true, interface: Some(3), source, mtu: Some(1400) });
    }

    #[test]
    fn errors_and_rubbish() {
        let error = answer(2, &(-libc::ENETUNREACH).to_ne_bytes());
        assert_eq!(parse(&error).unwrap_err().raw_os_error(), Some(libc::ENETUNREACH));
        let whole = answer(libc::RTM_NEWROUTE, &[2, 32, 0, 0, 255, 2, 0, 1, 0, 0, 0, 0, 2, 0, 4, 0, 9]);
        assert!(parse(&whole).is_ok());
        for cut in 0..whole.len() {
            // No prefix may panic.
            let _ = parse(&whole[..cut]);
        }
        // An attribute of length 0 must end the list, not loop.
        assert_eq!(Attributes(&[0, 0, 4, 0, 1, 2, 3, 4]).count(), 0);
    }
}
