//! Addresses of both families in one form, what a flow is, and the hash that finds it.

use crate::number::fold;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IPv6 address; those of IPv4 are mapped into ::ffff:0:0/96.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Address(pub(crate) u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Address {
    pub(crate) const ANY_V4: Self = Self(MAPPED);
    pub(crate) const ANY_V6: Self = Self(0);

    pub(crate) fn from_v4(octets: [u8; 4]) -> Self {
        Self(MAPPED | u128::from(u32::from_be_bytes(octets)))
    }

    pub(crate) fn from_v6(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }

    pub(crate) fn is_v4(self) -> bool {
        self.0 >> 32 == MAPPED >> 32
    }

    /// The unspecified address of the same family.
    pub(crate) fn any(self) -> Self {
        if self.is_v4() { Self::ANY_V4 } else { Self::ANY_V6 }
    }

    pub(crate) fn is_any(self) -> bool {
        self == Self::ANY_V4 || self == Self::ANY_V6
    }

    #[expect(clippy::cast_possible_truncation, reason = "the last 32 bits are those of IPv4")]
    pub(crate) fn v4(self) -> [u8; 4] {
        (self.0 as u32).to_be_bytes()
    }

    pub(crate) fn v6(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub(crate) fn ip(self) -> IpAddr {
        if self.is_v4() { Ipv4Addr::from(self.v4()).into() } else { Ipv6Addr::from(self.0).into() }
    }

    /// Whether packets may go to it from one socket: neither unspecified, multicast nor broadcast (RFC 9293, MUST-46).
    pub(crate) fn is_unicast(self) -> bool {
        match self.ip() {
            IpAddr::V4(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast()),
            IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_multicast()),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::from_v4(ip.octets()),
            IpAddr::V6(ip) => Self(ip.to_bits()),
        }
    }
}

/// Both ends of a flow. A remote end of zeros: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flow {
    pub(crate) local: Address,
    pub(crate) remote: Address,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The local address is this host's own, so that who chooses the rest cannot make it cancel out.
        state.write_u128(self.remote.0 ^ self.local.0.rotate_left(64));
        state.write_u32(u32::from(self.local_port) << 16 | u32::from(self.remote_port));
    }
}

impl Flow {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local: local.ip().into(),
            remote: remote.ip().into(),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }

    /// What listens on this address and port.
    pub(crate) fn listening(local: Address, local_port: u16) -> Self {
        Self { local, remote: Address::ANY_V6, local_port, remote_port: 0 }
    }

    pub(crate) fn local_socket(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.local_port)
    }

    pub(crate) fn remote_socket(&self) -> SocketAddr {
        SocketAddr::new(self.remote.ip(), self.remote_port)
    }
}

/// A hash table whose places outsiders cannot guess.
pub(crate) type Table<K, V> = HashMap<K, V, Keyed>;

/// A keyed hash by multiplying and folding: 2 ns a flow (SipHash: 15). Cookies and sequence numbers use SipHash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed {
    start: u64,
    factor: u64,
}

impl Keyed {
    pub(crate) fn new(secret: u128) -> Self {
        let factor = u64::try_from(secret >> 64).unwrap_or(0) | 1;
        Self { start: fold(secret.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)), factor }
    }
}

impl BuildHasher for Keyed {
    type Hasher = FoldHasher;

    fn build_hasher(&self) -> FoldHasher {
        FoldHasher { state: self.start, factor: self.factor }
    }
}

/// The state of [`Keyed`] while it hashes.
#[derive(Debug)]
pub(crate) struct FoldHasher {
    state: u64,
    factor: u64,
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.state = fold(u128::from(self.state ^ number).wrapping_mul(u128::from(self.factor))).wrapping_add(number);
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        // The table uses the upper seven bits and the lower ones.
        self.state ^ self.state.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn both_families_keep_their_addresses() {
        for text in ["192.0.2.1", "2001:db8::1", "0.0.0.0", "::"] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!((Address::from(ip).ip(), Address::from(ip).is_v4()), (ip, ip.is_ipv4()));
        }
        assert_eq!(Address::from_v4([192, 0, 2, 1]).any().ip().to_string(), "0.0.0.0");
    }

    #[test]
    fn flows_that_differ_little_have_different_hashes() {
        let keyed = Keyed::new(0x0123_4567_89ab_cdef_1122_3344_5566_7788);
        let mut low = HashSet::new();
        for port in 0..10_000 {
            let flow = Flow { remote_port: port, ..Flow::listening(Address::from_v4([192, 0, 2, 1]), 80) };
            low.insert(keyed.hash_one(flow) & 0xffff);
        }
        // 10,000 balls in 65,536 boxes leave 9,280 occupied.
        assert!((9_000..9_600).contains(&low.len()), "{}", low.len());
    }
}
