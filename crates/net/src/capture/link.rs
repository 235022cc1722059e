//! What a capture has to know of a network interface. Reads only.

use crate::{interface, sys};
use std::io;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// An Ethernet header. Loopback has one too.
    Ethernet,
    /// Taken without: the link layer is none, or one that capture files rarely hold.
    Ip,
}

impl Head {
    /// Bytes before IP.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Ethernet => 14,
            Self::Ip => 0,
        }
    }

    /// The link type of capture files (tcpdump.org/linktypes.html).
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::Ip => 101,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) head: Head,
    /// In bits a second, where the driver tells.
    pub(crate) speed_bps: Option<u64>,
    /// The driver stamps received packets by the NIC's clock now; somebody asked it to.
    pub(crate) hardware_stamps: bool,
}

impl Link {
    pub(crate) fn named(name: &str) -> Result<Self, crate::NetError> {
        let index = interface::index_of(name)?;
        let name = interface::name_of(index)?;
        let head = match kind(&name) {
            Ok(libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) => Head::Ethernet,
            _ => Head::Ip,
        };
        let speed_bps = speed_mbps(&name).map(|speed| u64::from(speed) * 1_000_000);
        let hardware_stamps = crate::stamps::stamps_received(&name);
        Ok(Self { name, index, head, speed_bps, hardware_stamps })
    }
}

/// The kind of hardware address (SIOCGIFHWADDR, netdevice(7)).
fn kind(name: &str) -> io::Result<u16> {
    // SAFETY: SIOCGIFHWADDR writes the address within the request; where it succeeded, this member of the union is set.
    unsafe {
        sys::interface_request(libc::SIOCGIFHWADDR, name, |_| {}).map(|request| request.ifr_ifru.ifru_hwaddr.sa_family)
    }
}

/// In Mbit/s (ETHTOOL_GSET of linux/ethtool.h, which every kernel answers).
fn speed_mbps(name: &str) -> Option<u32> {
    const GSET: u32 = 1;
    // struct ethtool_cmd has 44 bytes; speed is the half at 12, its high half the one at 28.
    let mut words = [0_u32; 11];
    words[0] = GSET;
    // SAFETY: `words` has the size that this command writes.
    unsafe { sys::interface_ioctl(libc::SIOCETHTOOL, name, &mut words).ok()? };
    let half = |word: u32| u32::from(u16::from_ne_bytes([word.to_ne_bytes()[0], word.to_ne_bytes()[1]]));
    let speed = half(words[7]) << 16 | half(words[3]);
    // All ones means unknown, in 16 bits too.
    Some(speed).filter(|&speed| !matches!(speed, 0 | 0xffff | u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_an_ethernet_header_and_no_speed() {
        let link = Link::named("lo").unwrap();
        assert_eq!((link.name.as_str(), link.head, link.speed_bps), ("lo", Head::Ethernet, None));
        assert!(!link.hardware_stamps);
        assert_eq!(link.head.bytes(), 14);
        assert!(Link::named("nosuch0").is_err());
    }
}
