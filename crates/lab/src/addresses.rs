//! Addresses of a lab: one /24 of 198.18.0.0/15 (RFC 2544, set aside for benchmarks) and one /64 of fd00:198:18::/48.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The network of one lab, numbered 0 to 511: 0 to 255 are 198.18.N.0/24, the others 198.19.(N-256).0/24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u16")]
pub struct Subnet(u16);

impl Subnet {
    pub const COUNT: u16 = 512;
    pub const PREFIX4: u8 = 24;
    pub const PREFIX6: u8 = 64;

    pub fn first_free(taken: &[Self]) -> Option<Self> {
        (0..Self::COUNT).map(Self).find(|subnet| !taken.contains(subnet))
    }

    /// IPv4 address of a host, counted from 0.
    pub fn ipv4(self, host: u8) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(198, 18 + high, low, host.saturating_add(1))
    }

    /// IPv6 address of a host, counted from 0. The fourth group is the number of the network, written in hexadecimal.
    pub fn ipv6(self, host: u8) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0x198, 0x18, self.0, 0, 0, 0, u16::from(host) + 1)
    }
}

impl TryFrom<u16> for Subnet {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        if number < Self::COUNT { Ok(Self(number)) } else { Err(format!("network {number} is not 0 to 511")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_stay_in_the_block_set_aside_for_benchmarks() {
        assert_eq!(Subnet(0).ipv4(0), Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(Subnet(7).ipv4(1), Ipv4Addr::new(198, 18, 7, 2));
        assert_eq!(Subnet(511).ipv4(25), Ipv4Addr::new(198, 19, 255, 26));
        assert_eq!(Subnet(7).ipv6(0).to_string(), "fd00:198:18:7::1");
        assert!(Subnet::try_from(512).is_err());
    }

    #[test]
    fn a_taken_network_is_not_given_twice() {
        assert_eq!(Subnet::first_free(&[Subnet(1), Subnet(0)]), Some(Subnet(2)));
        let all: Vec<Subnet> = (0..Subnet::COUNT).map(Subnet).collect();
        assert_eq!(Subnet::first_free(&all), None);
    }
}
