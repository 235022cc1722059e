//! What a capture has to know of a network interface. Reads only.

use crate::{interface, sys};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// What the frames of an interface begin with.
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

/// An interface as it is found.
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
    /// Looks an interface up by name or number.
    pub(crate) fn named(name: &str) -> Result<Self, crate::NetError> {
        let index = interface::index_of(name)?;
        let name = interface::name_of(index)?;
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
            .or_else(|_| sys::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0))
            .map_err(|cause| crate::NetError::Socket { what: "UDP", cause })?;
        let head = match kind(&socket, &name) {
            Ok(libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) => Head::Ethernet,
            _ => Head::Ip,
        };
        let speed_bps = speed_mbps(&socket, &name).map(|speed| u64::from(speed) * 1_000_000);
        let hardware_stamps = stamps_received(&socket, &name);
        Ok(Self { name, index, head, speed_bps, hardware_stamps })
    }
}

/// A request that names an interface.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain data, and all zeros is a valid value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

/// The kind of hardware address (SIOCGIFHWADDR, netdevice(7)).
fn kind(socket: &OwnedFd, name: &str) -> io::Result<u16> {
    let mut request = request(name);
    // SAFETY: SIOCGIFHWADDR reads the name and writes the address, both within the request, which lives through the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) };
    if done < 0 {
        return Err(sys::last());
    }
    // SAFETY: the call succeeded, so this member of the union is the one that is set.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// In Mbit/s (ETHTOOL_GSET of linux/ethtool.h, which every kernel answers).
fn speed_mbps(socket: &OwnedFd, name: &str) -> Option<u32> {
    const GSET: u32 = 1;
    // struct ethtool_cmd has 44 bytes; speed is the half at 12, its high half the one at 28.
    let mut words = [0_u32; 11];
    words[0] = GSET;
    let mut request = request(name);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` points to `words`, which has the size that this command writes; both live through the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if done < 0 {
        return None;
    }
    let low = words[3].to_ne_bytes();
    let high = words[7].to_ne_bytes();
    let speed =
        u32::from(u16::from_ne_bytes([high[0], high[1]])) << 16 | u32::from(u16::from_ne_bytes([low[0], low[1]]));
    // All ones means unknown, in 16 bits too.
    Some(speed).filter(|&speed| !matches!(speed, 0 | 0xffff | u32::MAX))
}

/// Whether the driver was asked to stamp received packets (SIOCGHWTSTAMP, Documentation/networking/timestamping).
fn stamps_received(socket: &OwnedFd, name: &str) -> bool {
    let mut config = libc::hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    // SAFETY: `request` points to `config`, which is what this command writes; both live through the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGHWTSTAMP as _, &raw mut request) };
    done == 0 && config.rx_filter != 0
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
