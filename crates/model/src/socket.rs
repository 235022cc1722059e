//! Which protocol carries the messages, and the socket options that both ends share.

use crate::probe::Pattern;
use crate::{ModelError, PgmSpec, Probe, words};
use std::net::IpAddr;
use std::str::FromStr;

words! {
    /// What carries the messages.
    pub enum Protocol {
        /// TCP over IPv4 or IPv6.
        Tcp = "tcp",
        /// Multipath TCP over IPv4 or IPv6 (RFC 8684).
        Mptcp = "mptcp",
        /// UDP over IPv4 or IPv6, unicast or multicast.
        Udp = "udp",
        /// SCTP over IPv4 or IPv6 (RFC 9260), a socket for each association (one-to-one style).
        Sctp = "sctp",
        /// SCTP on a socket for all associations (one-to-many style, SOCK_SEQPACKET).
        SctpSeqpacket = "sctp-seqpacket",
        /// DCCP over IPv4 or IPv6 (RFC 4340).
        Dccp = "dccp",
        /// A pair of UNIX stream sockets between two processes of one machine.
        UnixStream = "unix-stream",
        /// A pair of UNIX datagram sockets between two processes of one machine.
        UnixDgram = "unix-dgram",
        /// Two pipes between two processes of one machine.
        Pipe = "pipe",
        /// Memory that two processes of one machine share.
        Shm = "shm",
        /// Bare Ethernet frames past the kernel's network stack.
        Frame = "frame",
        /// ICMP echo, answered by the far kernel (only `ping`).
        Icmp = "icmp",
        /// PGM, reliable multicast (RFC 3208; only `pace`).
        Pgm = "pgm",
    }
}

/// What is known of a protocol. Whatever depends on a protocol asks for one of these facts.
struct Traits {
    carries: Carries,
    ends: Ends,
    max_size: u32,
    patterns: &'static [Pattern],
    /// What it is, for help texts.
    about: &'static str,
}

/// What arrives of what was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// All of it, without borders.
    Bytes,
    /// All messages.
    Messages,
    /// Messages; an answer that does not come in time counts as lost.
    Datagrams,
}

/// How the two ends of a protocol come together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// One connects over the network to where the other listens. A full segment has a header of this many bytes.
    Connect(u32),
    /// Datagrams over the network.
    Address,
    /// Two processes of one machine that have inherited their ends.
    Inherit,
    /// A kernel answers.
    Kernel,
}

const ALL: &[Pattern] = &[Pattern::Rounds, Pattern::Schedule, Pattern::Bulk];
/// With the cycles of an exchange.
const EVERY: &[Pattern] = &[Pattern::Rounds, Pattern::Schedule, Pattern::Bulk, Pattern::Cycles];
const ROUNDS: &[Pattern] = &[Pattern::Rounds];

/// A row for each protocol: what it carries, how its ends come together, its largest message, for which patterns, what it is.
macro_rules! traits {
    ($($protocol:ident $carries:ident $ends:expr, $max_size:expr, $patterns:expr, $about:literal;)+) => {
        impl Protocol {
            const fn traits(self) -> Traits {
                match self {$(
                    Self::$protocol => Traits {
                        carries: Carries::$carries,
                        ends: $ends,
                        max_size: $max_size,
                        patterns: $patterns,
                        about: $about,
                    },
                )+}
            }
        }
    };
}

traits! {
    // The header has time stamps, as Linux has them on (RFC 7323).
    Tcp Bytes Ends::Connect(32), 16 << 20, ALL, "TCP";
    // And a data sequence signal with a mapping and a 32-bit acknowledgement (RFC 8684, section 3.3).
    Mptcp Bytes Ends::Connect(56), 16 << 20, ALL, "Multipath TCP; a connection that falls back to TCP makes the verdict invalid";
    // RFC 768 over IPv4: a 16-bit length less the 8-byte header, less a 20-byte IP header.
    Udp Datagrams Ends::Address, 65_507, EVERY, "UDP, unicast or multicast";
    // The common header and that of a DATA chunk (RFC 9260, sections 3.1 and 3.3.1). The size is that of UDP, to be compared.
    Sctp Messages Ends::Connect(28), 65_507, ROUNDS, "SCTP, one-to-one; only where the kernel has it (modprobe sctp)";
    SctpSeqpacket Messages Ends::Address, 65_507, ROUNDS,
        "SCTP, one-to-many (SOCK_SEQPACKET); only where the kernel has it (modprobe sctp)";
    // With an acknowledgement and numbers of 48 bits (RFC 4340, section 5). One packet each: what an IPv4 packet holds behind
    // both headers.
    Dccp Datagrams Ends::Connect(24), 65_491, ROUNDS, "DCCP; only where the kernel has it (Linux before 6.16)";
    UnixStream Bytes Ends::Inherit, 16 << 20, ROUNDS, "A UNIX stream socket between two processes of this machine";
    // What a default socket buffer of 212,992 bytes carries.
    UnixDgram Datagrams Ends::Inherit, 106_496, ROUNDS, "A UNIX datagram socket between two processes of this machine";
    Pipe Bytes Ends::Inherit, 16 << 20, ROUNDS, "Two pipes between two processes of this machine";
    Shm Datagrams Ends::Inherit, 65_504, ROUNDS,
        "Memory that two processes of this machine share: the least that a message can take";
    // What is left of AF_XDP's chunk of 4096 bytes behind its headroom and the headers of IPv6.
    Frame Datagrams Ends::Address, 3_774, ROUNDS,
        "Bare Ethernet frames past the kernel's network stack: the least that an interface can take";
    Icmp Datagrams Ends::Kernel, 65_499, ROUNDS, "ICMP echo";
    // As UDP: its packets are shorter, so it fragments.
    Pgm Datagrams Ends::Address, 65_507, &[Pattern::Schedule], "PGM, reliable multicast: only with pace";
}

impl Protocol {
    /// Connections over the network that carry bytes without borders.
    pub const BYTE_CONNECTIONS: &[Self] = &[Self::Tcp, Self::Mptcp];
    /// The words of probes that have a reflector, for the reference of plans.
    pub(crate) const LISTED: &str = "Protocol: `tcp`, `mptcp`, `udp`, `sctp`, `sctp-seqpacket`, `dccp`, `unix-stream`, `unix-dgram`, `pipe`, `shm`, `frame`; for `pace` also `pgm`.";

    /// What it is, for help texts.
    pub fn about(self) -> &'static str {
        self.traits().about
    }

    /// Whether messages have no borders, so that a receiver counts bytes.
    pub fn is_stream(self) -> bool {
        self.traits().carries == Carries::Bytes
    }

    /// Whether an answer that does not come in time counts as lost, and messages above a limit may be dropped. Else nothing is lost
    /// on the way, and silence is a broken path.
    pub fn counts_losses(self) -> bool {
        self.traits().carries == Carries::Datagrams
    }

    /// The shortest message in bytes: 1 where nothing is lost, or where 0 bytes received end the connection.
    pub fn min_size(self) -> u32 {
        u32::from(self.is_connection() || !self.counts_losses())
    }

    /// Whether it is asked for by its name: of the others the probe says enough.
    pub fn is_named(self) -> bool {
        self.traits().ends != Ends::Kernel
    }

    /// The protocol of a probe that has no other, so that none is named.
    pub fn only_of(probe: Probe) -> Option<Self> {
        Self::ALL.into_iter().find(|one| !one.is_named() && one.carries(probe))
    }

    /// The word of what carries the messages, in results, keys of cells and tasks of foreign workers.
    pub fn word_of(protocol: Option<Self>) -> &'static str {
        protocol.map_or(crate::probe::NO_PROTOCOL, Self::word)
    }

    /// Whether both ends are processes of one machine without a network between them.
    pub fn is_local(self) -> bool {
        self.traits().ends == Ends::Inherit
    }

    /// Whether select, poll and epoll can wait for a message.
    pub fn is_pollable(self) -> bool {
        !matches!(self, Self::Shm | Self::Frame)
    }

    /// Whether its messages are datagrams to an address, the source of which anybody may forge.
    pub fn is_addressed(self) -> bool {
        self.traits().ends == Ends::Address
    }

    /// Whether the initiator connects over the network to where the reflector listens.
    pub fn is_connection(self) -> bool {
        matches!(self.traits().ends, Ends::Connect(_))
    }

    /// Bytes of a full segment's header behind IP's, of a connection over the network.
    pub fn segment_header_bytes(self) -> Option<u32> {
        if let Ends::Connect(bytes) = self.traits().ends { Some(bytes) } else { None }
    }

    /// Whether each transaction may have a connection of its own.
    pub fn connects_each(self) -> bool {
        self.is_connection() && self.is_stream()
    }

    /// The number of what carries it among IP's protocols (IANA); of frames, that of the UDP that they look like.
    pub fn ip_number(self) -> u8 {
        match self {
            Self::Sctp | Self::SctpSeqpacket => 132,
            Self::Dccp => 33,
            _ if self.is_connection() => 6,
            _ => 17,
        }
    }

    /// Whether a reflector serves it over the network.
    pub fn is_served(self) -> bool {
        matches!(self.traits().ends, Ends::Connect(_) | Ends::Address)
    }

    /// Whether its packets pass the kernel's network stack, where captures see them.
    pub fn passes_kernel(self) -> bool {
        !self.is_local() && self != Self::Frame
    }

    /// Whether a probe runs over it.
    pub fn carries(self, probe: Probe) -> bool {
        let Traits { ends, patterns, .. } = self.traits();
        probe.has_peer() && probe.has_reflector() != (ends == Ends::Kernel) && patterns.contains(&probe.pattern())
    }

    /// The words of the protocols that carry a probe: `tcp, udp or pgm`.
    pub fn words_for(probe: Probe) -> String {
        Self::words_of(|one| one.carries(probe))
    }

    /// The words of those that are meant: `tcp or mptcp`.
    pub fn words_of(is_meant: impl Fn(Self) -> bool) -> String {
        crate::text::listed(
            &Self::ALL.into_iter().filter(|one| is_meant(*one)).map(Self::word).collect::<Vec<_>>(),
            "or",
        )
    }

    /// The largest message in bytes.
    pub fn max_size(self) -> u32 {
        self.traits().max_size
    }
}

impl FromStr for Protocol {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let wanted = text.to_ascii_lowercase().replace('_', "-");
        let wanted = if wanted == "unix-datagram" { "unix-dgram" } else { wanted.as_str() };
        Self::ALL.into_iter().find(|protocol| protocol.word() == wanted).ok_or_else(|| {
            let known = Self::ALL.into_iter().filter(|protocol| protocol.is_named());
            words::unknown("protocol", text, &known.map(Self::word).collect::<Vec<_>>())
        })
    }
}

words! {
    "frame back-end";
    /// How frames get past the kernel's network stack.
    pub enum FrameBackend {
        /// AF_XDP, and the NIC uses the program's memory itself.
        ZeroCopy = "zero-copy",
        /// AF_XDP with the program in the driver, and a copy.
        Native = "native",
        /// AF_XDP with the program behind the driver (generic XDP).
        Generic = "generic",
        /// AF_PACKET with a ring.
        Packet = "packet",
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
    /// How frames get past the kernel at both ends; absent: the first that opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_backend: Option<FrameBackend>,
}

defaults! { yes: bool = true; }

impl SocketSpec {
    /// The defaults of a protocol: TCP_NODELAY on, UDP sockets connected.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            nodelay: true,
            connected: true,
            more: false,
            ttl: None,
            multicast: None,
            pgm: None,
            frame_backend: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProbeSpec;

    #[test]
    fn refusals_name_each_protocol_that_would_do() {
        let mut each = ProbeSpec::new(Probe::Rr, Protocol::Udp);
        each.options = crate::ProbeOptions::Rr(crate::RrSpec { connect_each: true, response_size: None });
        let text = each.check().unwrap_err().to_string();
        assert!(text.contains("needs rr over tcp or mptcp"), "{text}");
        let mut bound = ProbeSpec::new(Probe::Pingpong, Protocol::Pipe);
        bound.initiator.device = Some("eth0".to_owned());
        let text = bound.check().unwrap_err().to_string();
        assert!(text.contains("use tcp, mptcp, udp, sctp, sctp-seqpacket, dccp or frame"), "{text}");
    }

    #[test]
    fn lists_of_protocols_are_those_of_the_table() {
        let of = |is: fn(Protocol) -> bool| Protocol::ALL.into_iter().filter(|one| is(*one)).collect::<Vec<_>>();
        assert_eq!(of(Protocol::connects_each), Protocol::BYTE_CONNECTIONS);
        assert_eq!(of(|one| one.segment_header_bytes().is_some()), of(Protocol::is_connection));
        let quoted = |is: fn(Protocol) -> bool| {
            of(is).into_iter().map(|one| format!("`{}`", one.word())).collect::<Vec<_>>().join(", ")
        };
        let most = quoted(|one| one.carries(Probe::Pingpong));
        let paced = quoted(|one| one.carries(Probe::Pace) && !one.carries(Probe::Pingpong));
        assert_eq!(Protocol::LISTED, format!("Protocol: {most}; for `pace` also {paced}."));
    }
}
