//! The settings of the sockets of a group.

use std::net::IpAddr;

/// What carries the packets of such a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP, with this port for unicast and for the group.
    Udp { port: u16 },
    /// IP itself, with this protocol number. Takes CAP_NET_RAW.
    Raw { protocol: u8 },
}

/// What both sockets of an end have in common.
#[derive(Debug, Clone, Copy)]
pub struct GroupOptions {
    pub carrier: Carrier,
    /// The own unicast address.
    pub local: IpAddr,
    /// The interface to join and send on ([`crate::group::interface_of`] finds it).
    pub interface: u32,
    /// Whether this host hears what it sends (IP_MULTICAST_LOOP).
    pub loopback: bool,
    /// TTL or hop limit of multicast.
    pub ttl: u8,
    /// Whether packets may bear the IP router alert. With IPv6 it takes CAP_NET_RAW.
    pub router_alert: bool,
    /// Whether the kernel stamps what is received (SO_TIMESTAMPNS).
    pub stamps: bool,
    /// Send buffer in bytes; absent: 1 MiB, or what the system allows of it.
    pub send_buffer_bytes: Option<u32>,
    /// Receive buffer in bytes; absent: 4 MiB, or what the system allows of it.
    pub receive_buffer_bytes: Option<u32>,
    /// SO_BUSY_POLL in µs (socket(7)).
    pub busy_poll_us: Option<u32>,
}
