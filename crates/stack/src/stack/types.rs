//! What the stack's methods take and return.

use crate::slab::Key;
use crate::tcp::TcpState;
use std::net::IpAddr;

/// A TCP connection. A handle stays invalid after its socket is closed, also when its place is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpSocket(pub(crate) Key);

/// A TCP socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Listener(pub(crate) Key);

/// A UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdpSocket(pub(crate) Key);

/// What has happened. A socket has at most one event in the queue: read its [`Readiness`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The readiness of a connection may have changed.
    Tcp(TcpSocket),
    /// The readiness of a UDP socket may have changed.
    Udp(UdpSocket),
    /// A connection can be accepted.
    Listener(Listener),
    /// The next hop to this address is wanted: [`crate::Stack::set_hop`] or [`crate::Stack::hop_failed`].
    NeighbourNeeded(IpAddr),
}

/// What a socket is ready for, as poll and epoll report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// A receive call returns at once: with data, the end, an error, or (a listener) a connection. POLLIN.
    pub readable: bool,
    /// A send call returns at once; a third of the buffer is free. POLLOUT.
    pub writable: bool,
    /// The other end sends no more, or this end was shut down for receiving. POLLRDHUP.
    pub read_closed: bool,
    /// Neither end sends any more. POLLHUP.
    pub hang_up: bool,
    /// An error waits to be taken. POLLERR.
    pub error: bool,
    /// Urgent data are among what is not yet received. POLLPRI.
    pub urgent: bool,
    /// Counts up each time when something new can be received: for edge-triggered waiting.
    pub read_edges: u32,
    /// Counts up each time when there is room again after a send call met a full buffer.
    pub write_edges: u32,
}

/// Which direction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Nothing more is received.
    Read,
    /// Nothing more is sent: a FIN follows the data.
    Write,
    /// Both.
    Both,
}

/// Figures of a connection, as TCP_INFO has them. Windows, thresholds and amounts of data are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct TcpInfo {
    pub state: TcpState,
    /// Smoothed round-trip time in ns; 0 before the first measurement.
    pub round_trip_ns: u64,
    /// Its variation in ns.
    pub round_trip_variation_ns: u64,
    /// The retransmission time-out in ns, with back-off.
    pub retransmission_timeout_ns: u64,
    /// Retransmission time-outs since new data were acknowledged; above 2 R1 of RFC 9293, section 3.8.3, is reached.
    pub backoff: u32,
    pub retransmits: u64,
    pub timeouts: u64,
    pub congestion_window: u32,
    pub slow_start_threshold: u32,
    /// Bytes of data in a full segment.
    pub send_mss: u32,
    pub send_window: u32,
    pub receive_window: u32,
    /// SND.UNA: the oldest number that is not acknowledged.
    pub first_unacknowledged: u32,
    /// Sequence numbers that were sent and are not acknowledged.
    pub unacknowledged: u32,
    pub unsent: u32,
    pub unread: u32,
    /// Segments without acknowledgment.
    pub in_flight_segments: u32,
    /// Of these, segments that count as lost.
    pub lost_segments: u32,
    /// Of these, segments that are acknowledged selectively.
    pub sacked_segments: u32,
    pub segments_sent: u64,
    pub segments_received: u64,
    /// Segments received that left a gap before them.
    pub out_of_order_received: u64,
    /// Segments received that were known, or older than others.
    pub duplicates_received: u64,
    pub sack: bool,
    pub timestamps: bool,
    pub send_shift: u8,
    pub receive_shift: u8,
    pub path_mtu: u16,
}

/// Why the stack did not take a frame. The kernel may want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PassedBy {
    /// For another MAC or IP address, or from an address that cannot be answered.
    NotForUs,
    /// Neither TCP, UDP nor ICMP over IPv4 or IPv6.
    OtherProtocol,
    /// A fragment.
    Fragment,
    /// IPv4 options or IPv6 extension headers.
    IpOptions,
    /// Lengths that do not fit.
    Malformed,
    /// A wrong checksum.
    Checksum,
    /// No socket of this stack uses the port.
    NoSocket,
}

/// What [`crate::Stack::handle_frame`] did with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It was for a socket of this stack.
    Taken,
    /// It was not.
    PassedBy(PassedBy),
}

/// What the stack has counted since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Counts {
    pub frames_received: u64,
    pub frames_sent: u64,
    /// Frames passed by, by reason in the order of [`PassedBy`].
    pub passed_by: [u64; 7],
    /// Datagrams dropped because a socket's buffer was full.
    pub datagrams_dropped: u64,
    /// Datagrams not sent because the next hop was forgotten meanwhile.
    pub datagrams_unsent: u64,
    pub resets_sent: u64,
    pub cookies_sent: u64,
    /// Connections made from a cookie.
    pub cookies_accepted: u64,
    /// SYNs and acknowledgments dropped because a listener's backlog was full.
    pub backlog_full: u64,
    /// SYNs dropped because of [`crate::Config::max_connections`].
    pub connections_refused: u64,
    /// Replies dropped because too many waited to be sent.
    pub replies_dropped: u64,
    /// ICMP messages that fitted a socket.
    pub icmp_taken: u64,
    /// Retransmission time-outs, of connections that ended.
    pub timeouts: u64,
    /// Segments sent again, of connections that ended.
    pub retransmits: u64,
}
