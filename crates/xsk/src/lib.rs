//! Ethernet frames to and from a network interface, past the kernel's network stack: through AF_XDP
//! (Documentation/networking/af_xdp.rst) or AF_PACKET with rings (packet(7), Documentation/networking/packet_mmap.rst).
//!
//! Only frames for served ports are taken; all others go to the kernel as before. The XDP program is assembled here
//! ([`program`]), and its link ends with the last descriptor of it: when the process dies, however it dies, the program is
//! detached. Nothing of the host's settings is changed. Another process can have copies of the frames ([`Tap`]).
#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![allow(unsafe_code, reason = "a platform crate: shared rings, and calls that the standard library does not have")]

mod bpf;
mod error;
mod filter;
mod interface;
mod packet;
pub mod program;
mod rings;
mod socket;
mod sys;
mod tap;

pub use error::XskError;
pub use interface::Interface;
pub use packet::PacketPort;
pub use socket::{LONGEST_PACKET, XdpPort};
pub use tap::{DamagedRing, SharedWords, Tap, TapReader, TappedFrame, exercise_tap, is_tap_open};

use filter::Owner;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// How frames get past the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// AF_XDP, and the NIC reads and writes our memory itself. Needs the driver's support.
    ZeroCopy,
    /// AF_XDP with the program in the driver; frames are copied.
    Native,
    /// AF_XDP with the program behind the driver (generic XDP): every interface, also loopback.
    Generic,
    /// AF_PACKET with a ring: every interface, needs CAP_NET_RAW only. The kernel's stack sees the frames too.
    Packet,
}

impl Backend {
    /// All, in the order in which they are tried: what promises most comes first.
    pub const ALL: [Self; 4] = [Self::ZeroCopy, Self::Native, Self::Generic, Self::Packet];

    /// The name in options and documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Packet => "packet",
        }
    }
}

/// The protocols whose ports can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// UDP, RFC 768.
    Udp,
    /// TCP, RFC 9293.
    Tcp,
}

/// Some of an interface's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// All of both families.
    All,
    Ipv4,
    Ipv6,
    One(IpAddr),
}

impl Addresses {
    /// Those of a socket that is bound to `local`. `both_families`: `::` means all addresses of IPv4 too.
    pub fn of(local: IpAddr, both_families: bool) -> Self {
        match local.to_canonical() {
            IpAddr::V4(ip) if ip.is_unspecified() => Self::Ipv4,
            IpAddr::V6(ip) if ip.is_unspecified() => {
                if both_families {
                    Self::All
                } else {
                    Self::Ipv6
                }
            }
            one => Self::One(one),
        }
    }

    pub fn has(self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
            Self::One(one) => one == address,
        }
    }

    /// Whether all of the other are among them.
    pub fn covers(self, other: Self) -> bool {
        match other {
            Self::One(one) => self.has(one),
            other => self == Self::All || self == other,
        }
    }

    /// Whether both have one in common.
    pub fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::One(one), other) | (other, Self::One(one)) => other.has(one),
            (Self::Ipv4, Self::Ipv6) | (Self::Ipv6, Self::Ipv4) => false,
            _ => true,
        }
    }
}

/// Counters of a port since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames taken.
    pub received: u64,
    /// Frames given to the kernel or the NIC.
    pub sent: u64,
    /// Frames that the kernel dropped because they did not fit or no room was left.
    pub dropped: u64,
    /// Times the receive ring was full, where the kernel counts them.
    pub ring_full: u64,
    /// Wake-ups for sending that the kernel refused for the moment; they are tried again.
    pub refused_wakeups: u64,
}

/// An open way to an interface's frames.
#[derive(Debug)]
pub enum Port {
    Xdp(XdpPort),
    Packet(PacketPort),
}

/// Calls a method that both back-ends have.
macro_rules! by_backend {
    ($port:expr, $method:ident($($argument:expr),*)) => {
        match $port {
            Port::Xdp(xdp) => xdp.$method($($argument),*),
            Port::Packet(packet) => packet.$method($($argument),*),
        }
    };
}

impl Port {
    /// Opens one on `interface`. Until a port is served no frame is taken. Errors: a missing capability, an interface that
    /// cannot do it, an XDP program or AF_XDP socket that is there already.
    pub fn open(interface: &Interface, backend: Backend) -> Result<Self, XskError> {
        Ok(match backend {
            Backend::Packet => Self::Packet(PacketPort::open(interface)?),
            _ => Self::Xdp(XdpPort::open(interface, backend)?),
        })
    }

    /// Takes the frames for `port` of these of the interface's addresses from now on, in place of those that were served
    /// before. Of none: connections that [`Port::take`] names. With AF_PACKET, which the kernel does not leave frames out
    /// for, it is always all. Errors: the filter could not be set, AF_PACKET serves 200 ports already, or
    /// [`program::MOST_FLOWS`] are listed: all is as before.
    pub fn serve(&mut self, protocol: Protocol, port: u16, of: &[Addresses]) -> Result<(), XskError> {
        match self {
            Self::Xdp(xdp) => xdp.filter().serve(protocol, port, of),
            Self::Packet(packet) => packet.set_served(protocol, port, true),
        }
    }

    /// Leaves the frames for `port` to the kernel from now on. Errors: the filter could not be set.
    pub fn withdraw(&mut self, protocol: Protocol, port: u16) -> Result<(), XskError> {
        match self {
            Self::Xdp(xdp) => xdp.filter().withdraw(protocol, port),
            Self::Packet(packet) => packet.set_served(protocol, port, false)?,
        }
        Ok(())
    }

    /// Leaves the frames of one TCP connection to the kernel, until its port is withdrawn, [`Port::take`] or
    /// [`Port::forget_passed`]. With AF_PACKET the kernel sees all frames: whoever reads them passes over these. Errors:
    /// the kernel refuses, or [`program::MOST_FLOWS`] are listed.
    pub fn pass(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<(), XskError> {
        self.list(local, remote, Owner::Kernel)
    }

    /// Takes the frames of one TCP connection, also where its port is not served at its address, until its port is
    /// withdrawn, [`Port::pass`] or [`Port::retain_taken`]. Errors: as there.
    pub fn take(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<(), XskError> {
        self.list(local, remote, Owner::Stack)
    }

    fn list(&mut self, local: SocketAddr, remote: SocketAddr, owner: Owner) -> Result<(), XskError> {
        match self {
            Self::Xdp(xdp) => xdp.filter().list(local, remote, owner),
            Self::Packet(_) => Ok(()),
        }
    }

    /// Forgets a connection that [`Port::pass`] left to the kernel.
    pub fn forget_passed(&mut self, local: SocketAddr, remote: SocketAddr) {
        if let Self::Xdp(xdp) = self {
            xdp.filter().forget(local, remote, Owner::Kernel);
        }
    }

    /// Forgets those of a port that [`Port::take`] takes, but for those that live, by local and remote end.
    pub fn retain_taken(&mut self, port: u16, lives: impl FnMut(SocketAddr, SocketAddr) -> bool) {
        if let Self::Xdp(xdp) = self {
            xdp.filter().retain_taken(port, lives);
        }
    }

    /// Takes frames only where they go to one of `addresses`: what the host forwards to others is the kernel's. Errors: the
    /// kernel refuses, or there are more than [`program::MOST_ADDRESSES`].
    pub fn set_addresses(&mut self, addresses: &[IpAddr]) -> Result<(), XskError> {
        match self {
            Self::Xdp(xdp) => xdp.filter().set_addresses(addresses),
            // Every frame goes to the kernel too: whoever reads them passes over those for others.
            Self::Packet(_) => Ok(()),
        }
    }

    /// Hands at most `budget` received frames to `take`; returns how many. Makes no system call where none waits.
    #[inline]
    pub fn receive(&mut self, budget: usize, take: impl FnMut(&[u8])) -> usize {
        by_backend!(self, receive(budget, take))
    }

    /// Lets `build` write frames until it returns `None`, and sends them; returns how many. What finds no room is not built.
    #[inline]
    pub fn transmit(&mut self, build: impl FnMut(&mut [u8]) -> Option<usize>) -> usize {
        by_backend!(self, transmit(build))
    }

    /// Whether frames were built that the kernel has not taken yet: [`Port::transmit`] is due again.
    pub fn has_unsent(&self) -> bool {
        by_backend!(self, has_unsent())
    }

    /// The descriptors that become readable when a frame comes, for poll(2) and epoll(7).
    pub fn descriptors(&self) -> Vec<RawFd> {
        by_backend!(self, descriptors())
    }

    /// All descriptors of it. Copies of them in a forked child keep the program attached and the queue taken: it closes them.
    pub fn all_descriptors(&self) -> Vec<RawFd> {
        by_backend!(self, all_descriptors())
    }

    pub fn counters(&mut self) -> PortCounters {
        by_backend!(self, counters())
    }

    pub fn backend(&self) -> Backend {
        by_backend!(self, backend())
    }
}
