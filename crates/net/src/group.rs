//! Datagram sockets of a protocol that speaks to a group and from one address.

/// What carries the packets of such a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP, with this port for unicast and for the group.
    Udp {
        /// The port.
        port: u16,
    },
    /// IP itself, with this protocol number. Takes CAP_NET_RAW.
    Raw {
        /// The number.
        protocol: u8,
    },
}
