//! Which protocol carries the messages, and the socket options that both ends share.

use crate::{ModelError, PgmSpec};
use std::net::IpAddr;
use std::str::FromStr;

words! {
    /// What carries the messages.
    pub enum Protocol {
        /// TCP over IPv4 or IPv6.
        Tcp = "tcp",
        /// UDP over IPv4 or IPv6, unicast or multicast.
        Udp = "udp",
        /// A pair of UNIX stream sockets between two processes of one machine.
        UnixStream = "unix-stream",
        /// A pair of UNIX datagram sockets between two processes of one machine.
        UnixDgram = "unix-dgram",
        /// Two pipes between two processes of one machine.
        Pipe = "pipe",
        /// ICMP echo, answered by the far kernel (only `ping`).
        Icmp = "icmp",
        /// PGM, reliable multicast (RFC 3208; only `pace`).
        Pgm = "pgm",
    }
}

impl Protocol {
    /// Whether messages have no borders, so that a receiver counts bytes.
    #[must_use]
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Tcp | Self::UnixStream | Self::Pipe)
    }

    /// Whether both ends are processes of one machine without a network between them.
    #[must_use]
    pub fn is_local(self) -> bool {
        matches!(self, Self::UnixStream | Self::UnixDgram | Self::Pipe)
    }

    /// The largest message in bytes. UDP: 65,507 over IPv4 (RFC 768: a 16-bit length less the 8-byte header, less a
    /// 20-byte IP header). PGM: as UDP; its packets
    /// are shorter, so it fragments. UNIX datagrams: what a default socket buffer of 212,992 bytes carries. Streams: 16 MiB.
    #[must_use]
    pub fn max_size(self) -> u32 {
        match self {
            Self::Udp | Self::Pgm => 65_507,
            Self::Icmp => 65_499,
            Self::UnixDgram => 106_496,
            Self::Tcp | Self::UnixStream | Self::Pipe => 16 << 20,
        }
    }
}

impl FromStr for Protocol {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let wanted = text.to_ascii_lowercase().replace('_', "-");
        let wanted = if wanted == "unix-datagram" { "unix-dgram" } else { wanted.as_str() };
        Self::ALL.into_iter().find(|protocol| protocol.word() == wanted).ok_or_else(|| {
            crate::words::unknown("protocol", text, &["tcp", "udp", "pgm", "unix-stream", "unix-dgram", "pipe"])
        })
    }
}

/// Address family asked for when a name has addresses of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A multicast group that carries UDP messages both ways.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Multicast {
    /// The group.
    pub group: IpAddr,
    /// The initiator's interface by name or address; absent: the one that routes to the reflector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether sent messages are looped back to this host (IP_MULTICAST_LOOP).
    #[serde(default)]
    pub loopback: bool,
}

/// Socket options that both ends share.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SocketSpec {
    /// What carries the messages.
    pub protocol: Protocol,
    /// TCP_NODELAY on TCP sockets.
    #[serde(default = "yes")]
    pub nodelay: bool,
    /// Whether UDP sockets are connected to their peer (else sendto and recvfrom).
    #[serde(default = "yes")]
    pub connected: bool,
    /// MSG_MORE on all but the last message of a round.
    #[serde(default)]
    pub more: bool,
    /// IP time to live, or IPv6 hop limit, of data; absent: the system's default (1 for multicast).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u8>,
    /// The multicast group, when UDP messages go to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<Multicast>,
    /// Groups, windows and timers of PGM; present with it and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pgm: Option<PgmSpec>,
}

fn yes() -> bool {
    true
}

impl SocketSpec {
    /// The defaults of a protocol: TCP_NODELAY on, UDP sockets connected.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, nodelay: true, connected: true, more: false, ttl: None, multicast: None, pgm: None }
    }
}
