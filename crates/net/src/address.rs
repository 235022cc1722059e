//! Socket addresses in the form that the kernel takes, comparable without decoding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of `sockaddr_in6`, the longest address used here.
pub(crate) const ROOM: usize = 28;
const V4_LENGTH: usize = 16;

/// A `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)), kept as bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct RawAddress {
    bytes: [u8; ROOM],
    length: u8,
}

impl RawAddress {
    pub(crate) const EMPTY: Self = Self { bytes: [0; ROOM], length: 0 };

    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut bytes = [0; ROOM];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, V4_LENGTH)
            }
            SocketAddr::V6(v6) => {
                // The flow label is kept in network order by the kernel and as given by the standard library.
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, ROOM)
            }
        };
        let family = libc::sa_family_t::try_from(family).unwrap_or(0);
        bytes[0..2].copy_from_slice(&family.to_ne_bytes());
        Self { bytes, length: u8::try_from(length).unwrap_or(0) }
    }

    /// The bytes to pass to sendto(2) or connect(2).
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(ROOM)]
    }

    /// The whole room, for recvfrom(2) and accept(2) to write to.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Whether both have the same address and port; flow label and scope do not count.
    #[inline]
    pub(crate) fn same_sender(&self, other: &Self) -> bool {
        if self.length == 16 {
            self.bytes[0..8] == other.bytes[0..8]
        } else {
            self.bytes[0..4] == other.bytes[0..4] && self.bytes[8..24] == other.bytes[8..24]
        }
    }

    /// What recvfrom(2) or accept(2) wrote; `None` for another family.
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        let b = &self.bytes;
        let family = libc::c_int::from(libc::sa_family_t::from_ne_bytes([b[0], b[1]]));
        let port = u16::from_be_bytes([b[2], b[3]]);
        if family == libc::AF_INET {
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(b[4], b[5], b[6], b[7])), port))
        } else if family == libc::AF_INET6 {
            let octets: [u8; 16] = b[8..24].try_into().ok()?;
            let flow = u32::from_ne_bytes([b[4], b[5], b[6], b[7]]);
            let scope = u32::from_ne_bytes([b[24], b[25], b[26], b[27]]);
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope)))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_and_compare() {
        for text in ["192.0.2.7:7412", "[2001:db8::7]:7412", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            let raw = RawAddress::new(address);
            assert_eq!(raw.decode(), Some(address));
            assert!(raw.same_sender(&raw.clone()));
            let mut other = address;
            other.set_port(1);
            assert!(!raw.same_sender(&RawAddress::new(other)));
        }
        let a = RawAddress::new("192.0.2.7:1".parse().unwrap());
        let b = RawAddress::new("192.0.2.8:1".parse().unwrap());
        assert!(!a.same_sender(&b));
        assert_eq!(RawAddress::EMPTY.decode(), None);
    }

    #[test]
    fn layout_is_the_kernels() {
        assert_eq!(size_of::<libc::sockaddr_in>(), V4_LENGTH);
        assert_eq!(size_of::<libc::sockaddr_in6>(), ROOM);
        assert_eq!(RawAddress::new("192.0.2.7:1".parse().unwrap()).as_bytes().len(), V4_LENGTH);
    }
}
