//! Which addresses an endpoint may bind without a key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The built-in lab's IPv6 prefix, fd00:198:18::/48.
const LAB_V6: [u16; 3] = [0xfd00, 0x198, 0x18];

/// Whether an address is this host's own loopback, or of the built-in lab: 198.18.0.0/15 (RFC 2544's range for
/// benchmarks, never routed) or fd00:198:18::/48. Everything else is reachable by others, so it needs a key.
#[must_use]
pub(crate) fn is_closed(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || is_lab_v4(v4),
        IpAddr::V6(v6) => v6.is_loopback() || is_lab_v6(v6),
    }
}

fn is_lab_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 198 && b & 0xfe == 18
}

fn is_lab_v6(address: Ipv6Addr) -> bool {
    address.segments()[..3] == LAB_V6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_the_lab_are_closed() {
        let closed =
            ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "198.18.0.1", "198.19.255.255", "fd00:198:18::1"];
        let open = [
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "192.168.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "fd00:198:19::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ];
        for text in closed {
            assert!(is_closed(text.parse().unwrap()), "{text}");
        }
        for text in open {
            assert!(!is_closed(text.parse().unwrap()), "{text}");
        }
    }
}
