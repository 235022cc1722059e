//! What the kernel reports of a network interface: number, MAC address, MTU, queues. Asked by netdevice(7)'s ioctls, because
//! `/sys` may show another namespace's interfaces.

use crate::{XskError, sys};
use std::os::fd::{AsRawFd, OwnedFd};

/// The hardware types whose frames are Ethernet: ARPHRD_ETHER and ARPHRD_LOOPBACK (linux/if_arp.h).
const ETHERNET: [u16; 2] = [1, 772];
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// Drivers whose frames never were on a wire: senders on this host leave them without checksums.
const SOFTWARE: [&str; 3] = ["veth", "tun", "dummy"];

/// A network interface of this namespace, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub mac: [u8; 6],
    /// The longest IP packet in bytes.
    pub mtu: u32,
    /// Receive queues, at least one.
    pub queues: u32,
    /// It is software, and leaves checksums of local senders unfinished: veth, loopback.
    pub local_checksums: bool,
}

impl Interface {
    /// Asks the kernel for it. Errors: there is none of this name, or it is not Ethernet.
    pub fn read(name: &str) -> Result<Self, XskError> {
        let missing = || XskError::NoInterface { interface: name.to_owned() };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(missing());
        }
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
            .map_err(|cause| crate::error::refused(name, "making a socket to ask for it", cause))?;
        let ask = Request { socket: &socket, name };
        let index = ask.plain(libc::SIOCGIFINDEX).and_then(|value| read_u32(&value, 0)).ok_or_else(missing)?;
        let mtu = ask.plain(libc::SIOCGIFMTU).and_then(|value| read_u32(&value, 0)).ok_or_else(missing)?;
        let hardware = ask.plain(libc::SIOCGIFHWADDR).ok_or_else(missing)?;
        let kind = u16::from_ne_bytes([hardware[0], hardware[1]]);
        if !ETHERNET.contains(&kind) {
            return Err(XskError::NotEthernet { interface: name.to_owned(), kind });
        }
        let mut mac = [0; 6];
        mac.copy_from_slice(&hardware[2..8]);
        // struct ethtool_channels: command, four limits, then receive, send, other, combined.
        let channels = ask.ethtool::<36>(ETHTOOL_GCHANNELS);
        let queues = channels.map_or(1, |all| [20, 32].into_iter().filter_map(|at| read_u32(&all, at)).sum::<u32>());
        // struct ethtool_drvinfo: command, then the driver's name in 32 bytes.
        let driver = ask.ethtool::<196>(ETHTOOL_GDRVINFO);
        let software = driver.is_some_and(|info| {
            let name = info[4..36].split(|byte| *byte == 0).next().unwrap_or_default();
            SOFTWARE.iter().any(|known| known.as_bytes() == name)
        });
        let local_checksums = kind == ETHERNET[1] || software;
        Ok(Self { name: name.to_owned(), index, mac, mtu, queues: queues.max(1), local_checksums })
    }
}

/// Bytes of struct ifreq behind the name.
const VALUE_BYTES: usize = 24;

#[repr(C, align(8))]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; VALUE_BYTES],
}

struct Request<'a> {
    socket: &'a OwnedFd,
    name: &'a str,
}

impl Request<'_> {
    /// The answer to an ioctl(2) that fills the value of the structure.
    fn plain(&self, command: libc::Ioctl) -> Option<[u8; VALUE_BYTES]> {
        self.call(command, [0; VALUE_BYTES])
    }

    /// The answer to an ethtool command whose structure has `N` bytes and begins with the command.
    fn ethtool<const N: usize>(&self, command: u32) -> Option<[u8; N]> {
        let mut answer = [0; N];
        answer[..4].copy_from_slice(&command.to_ne_bytes());
        let mut value = [0; VALUE_BYTES];
        value[..size_of::<usize>()].copy_from_slice(&answer.as_mut_ptr().expose_provenance().to_ne_bytes());
        self.call(SIOCETHTOOL, value).map(|_| answer)
    }

    fn call(&self, command: libc::Ioctl, value: [u8; VALUE_BYTES]) -> Option<[u8; VALUE_BYTES]> {
        let mut asked = InterfaceRequest { name: [0; libc::IFNAMSIZ], value };
        asked.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        // SAFETY: the structure lives through the call and has the size of struct ifreq. Where the value is a pointer, it
        // is to a structure that its caller holds and that has the size which the command fills.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), command, &raw mut asked) };
        (done == 0).then_some(asked.value)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}
