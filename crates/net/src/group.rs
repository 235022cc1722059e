//! Datagram sockets of a protocol that multicasts to a group and answers to one address, such as PGM: over UDP, or as an
//! IP protocol of its own.
//!
//! An end has one socket that is bound to its unicast address, which sends everything and hears what is sent to it alone
//! ([`GroupSocket::own`]), and one that is bound to the group ([`GroupSocket::member`]). Datagrams are sent and received in
//! batches (sendmmsg(2), recvmmsg(2)) whose memory is taken once; [`GroupWait`] waits for one or both sockets with a
//! time-out. Nothing here knows what is in the datagrams.

mod receive;
mod send;
pub(crate) mod settings;
mod wait;

pub use crate::interface::interface_of;
pub use receive::{Datagram, ReceiveBatch};
pub use send::{Extra, SendBatch, Target};
pub use settings::{Carrier, GroupOptions};
pub use wait::{GroupWait, Woken};

use crate::bound::{bind, own_address};
use crate::resolve::with_scope;
use crate::{NetError, made, multicast, options, sys};
use libc::c_int;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Buffers where none is named, as far as the system allows them, in bytes.
const SEND_BUFFER: u32 = 1 << 20;
const RECEIVE_BUFFER: u32 = 4 << 20;

/// One socket of an end. Closed when dropped.
#[derive(Debug)]
pub struct GroupSocket {
    fd: OwnedFd,
    carrier: Carrier,
    interface: u32,
    v6: bool,
}

impl GroupSocket {
    /// The socket that sends, bound to the own address; with `hears` to the carrier's port too, else to any, and it
    /// receives nothing. Errors: an option or the address is refused; [`NetError::InUse`] when another socket has it.
    pub fn own(options: &GroupOptions, hears: bool) -> Result<Self, NetError> {
        let socket = Self::open(options, options.local)?;
        let fd = socket.fd.as_raw_fd();
        multicast::send_through(fd, socket.v6, options.interface, options.local, options.loopback, options.ttl)?;
        socket.alert(options.router_alert)?;
        if !hears {
            // The smallest there is: what comes all the same takes no memory.
            options::int(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF", 0)?;
        }
        bind(fd, socket.place(options.local, hears), socket.name())?;
        Ok(socket)
    }

    /// Whether packets to `group` leave this host, or return on loopback. Errors: no route to it (IPv6).
    pub fn check_route(&self, group: IpAddr) -> Result<(), NetError> {
        multicast::check_route(group, self.interface)
    }

    /// The socket that hears only `group`. Errors: option, group or interface refused, or no route to it (IPv6).
    pub fn member(options: &GroupOptions, group: IpAddr) -> Result<Self, NetError> {
        if group.is_ipv4() != options.local.is_ipv4() {
            return Err(NetError::FamilyMismatch { one: group, other: options.local });
        }
        multicast::check_route(group, options.interface)?;
        let socket = Self::open(options, group)?;
        let fd = socket.fd.as_raw_fd();
        if matches!(socket.carrier, Carrier::Udp { .. }) {
            options::int(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, "SO_REUSEADDR", 1)?;
            // OpenPGM's sockets let others in by this option only.
            options::int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT", 1)?;
        }
        bind(fd, socket.place(group, true), socket.name())?;
        multicast::enter(fd, group, options.interface, options.local)?;
        Ok(socket)
    }

    fn open(options: &GroupOptions, address: IpAddr) -> Result<Self, NetError> {
        let v6 = address.is_ipv6();
        let (kind, protocol) = match options.carrier {
            Carrier::Udp { .. } => (libc::SOCK_DGRAM, 0),
            Carrier::Raw { protocol } => (libc::SOCK_RAW, protocol),
        };
        let socket = Self {
            fd: sys::socket(sys::domain(v6), kind, c_int::from(protocol)).map_err(|cause| {
                match cause.raw_os_error() {
                    Some(libc::EPERM | libc::EACCES) if protocol != 0 => NetError::RawNotPermitted { protocol },
                    _ => NetError::Socket { what: if protocol == 0 { "UDP" } else { "raw IP" }, cause },
                }
            })?,
            carrier: options.carrier,
            interface: options.interface,
            v6,
        };
        let fd = socket.fd.as_raw_fd();
        made::note(fd);
        // Raw sockets are of one family anyway, and do not take the option.
        if v6 && protocol == 0 {
            options::int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, "IPV6_V6ONLY", 1)?;
        }
        options::group_buffers(fd, options, SEND_BUFFER, RECEIVE_BUFFER)?;
        if let Some(microseconds) = options.busy_poll_us {
            options::busy_poll(fd, microseconds)?;
        }
        if options.stamps {
            options::int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, "SO_TIMESTAMPNS", 1)?;
        }
        options::int(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, "SO_RXQ_OVFL", 1)?;
        Ok(socket)
    }

    /// Whether IPv6's hop-by-hop header is permitted: tried, then removed (each packet brings its own).
    fn alert(&self, wanted: bool) -> Result<(), NetError> {
        if !wanted || !self.v6 {
            return Ok(());
        }
        let fd = self.fd.as_raw_fd();
        let refused = |cause: std::io::Error| match cause.raw_os_error() {
            Some(libc::EPERM) => NetError::RouterAlertNotPermitted,
            _ => NetError::Option { option: "IPV6_HOPOPTS", value: "the router alert".to_owned(), cause },
        };
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &send::ALERT_V6).map_err(refused)?;
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &[0_u8; 0]).map_err(refused)
    }

    /// An address with this carrier's port, and with the interface where the address alone does not say it.
    fn place(&self, address: IpAddr, with_port: bool) -> SocketAddr {
        match self.carrier {
            Carrier::Udp { port } if with_port => self.scoped(address, port),
            _ => self.scoped(address, 0),
        }
    }

    fn scoped(&self, address: IpAddr, port: u16) -> SocketAddr {
        let on_link = match address {
            IpAddr::V4(_) => false,
            // fe80::/10, ff01::/16 and ff02::/16.
            IpAddr::V6(v6) => v6.is_unicast_link_local() || (v6.is_multicast() && v6.octets()[1] & 0xf <= 2),
        };
        with_scope(address, port, if on_link { self.interface } else { 0 })
    }

    fn name(&self) -> &'static str {
        match self.carrier {
            Carrier::Udp { .. } => "UDP",
            Carrier::Raw { .. } => "raw IP",
        }
    }

    /// A second handle of the same socket, for a thread that sends beside one that hears. Errors: no descriptor is free.
    pub fn duplicate(&self) -> Result<Self, NetError> {
        let fd = self.fd.try_clone().map_err(|cause| NetError::Socket { what: self.name(), cause })?;
        made::note(fd.as_raw_fd());
        Ok(Self { fd, carrier: self.carrier, interface: self.interface, v6: self.v6 })
    }

    /// The port that it is bound to. Errors: the system does not say it.
    pub fn port(&self) -> Result<u16, NetError> {
        let own = own_address(self.fd()).map_err(|cause| NetError::Socket { what: self.name(), cause })?;
        Ok(own.map_or(0, |address| address.port()))
    }

    /// Lets [`ReceiveBatch::receive_waiting`] wait for no longer than [`crate::bulk::PATIENCE`]. Errors: the option is refused.
    pub fn limit_waits(&self) -> Result<(), NetError> {
        crate::bulk::be_patient(self.fd.as_raw_fd())
    }

    /// Where packets go: to a group, or to another end's own address.
    pub fn target(&self, address: IpAddr) -> Target {
        Target::new(self.place(address, true))
    }

    /// Where packets go: to an address with a port of its own.
    pub fn target_at(&self, to: SocketAddr) -> Target {
        Target::new(self.scoped(to.ip(), to.port()))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
