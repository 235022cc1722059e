//! What a stack and its sockets are made with.

use crate::time::{MS, SECOND};
use std::net::IpAddr;

/// Whether checksums of received TCP and UDP are checked. Those of IPv4 headers always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceiveChecksum {
    /// A wrong one drops the packet.
    #[default]
    Verify,
    /// As before, or the pseudo-header's sum alone, which the kernel leaves to devices and veth delivers unfinished.
    VerifyOrPartial,
    /// None is looked at: the network device did.
    Skip,
}

/// What a stack is made with. [`Config::new`] has defaults for a local network.
#[derive(Debug, Clone)]
pub struct Config {
    /// MAC address of the interface. Frames for others are passed by.
    pub mac: [u8; 6],
    /// Addresses of the interface. Packets for others are passed by.
    pub addresses: Vec<IpAddr>,
    /// MTU of the interface: bytes of the longest IP packet, 576 to 65,535. Default 1500.
    pub mtu: u16,
    /// Secret random bytes: they make sequence numbers, cookies and the places in hash tables.
    pub secret: [u8; 16],
    /// Whether checksums of TCP and UDP are checked.
    pub receive_checksum: ReceiveChecksum,
    /// TCP connections at once, with those in TIME-WAIT. A SYN above it is dropped. Default 65,536.
    pub max_connections: usize,
    /// Most connections in SYN-RECEIVED of all listeners; above it SYNs get cookies (no memory). Default 256.
    pub max_half_open: usize,
    /// Connections in TIME-WAIT; above it the oldest is ended early. Default 4096.
    pub max_time_wait: usize,
    /// Hops that are remembered; above it all are forgotten and asked for again. Default 4096.
    pub max_hops: usize,
}

impl Config {
    /// Defaults for an interface. The secret wants to be random.
    pub fn new(mac: [u8; 6], addresses: Vec<IpAddr>, secret: [u8; 16]) -> Self {
        Self {
            mac,
            addresses,
            mtu: 1500,
            secret,
            receive_checksum: ReceiveChecksum::Verify,
            max_connections: 65_536,
            max_half_open: 256,
            max_time_wait: 4096,
            max_hops: 4096,
        }
    }
}

/// When received data are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy {
    /// How long an ACK may wait for data to carry it, in ns, below 500 ms (RFC 9293, MUST-40). Default 40 ms; 0: never.
    pub delay_ns: u64,
    /// Segments acknowledged at once at the start and after a disorder, until answers carry ACKs. Default 16, as Linux.
    pub quick_segments: u8,
}

/// Keep-alive of a connection (RFC 9293, section 3.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence after which the first probe is sent, in ns. Default 2 h.
    pub idle_ns: u64,
    /// Time between probes, in ns. Default 75 s.
    pub interval_ns: u64,
    /// Probes without an answer after which the connection is given up. Default 9.
    pub count: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle_ns: 7_200 * SECOND, interval_ns: 75 * SECOND, count: 9 }
    }
}

/// Options of a TCP socket. A listener's are those of the connections that it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// Bytes that wait to be sent or acknowledged; rounded up to a power of two. Default 256 KiB.
    pub send_buffer: usize,
    /// Bytes that wait to be received; rounded up to a power of two. Default 256 KiB.
    pub receive_buffer: usize,
    /// Small segments do not wait for acknowledgments (the Nagle algorithm is off). Default false.
    pub nodelay: bool,
    /// Segments that are not full wait until they are, at most 200 ms. Default false.
    pub cork: bool,
    /// Keep-alive. Default none (RFC 9293, MUST-25).
    pub keep_alive: Option<KeepAlive>,
    /// Time after which data without acknowledgment end the connection, in ns (RFC 5482). Default none: `give_up_ns`.
    pub user_timeout_ns: Option<u64>,
    /// The same where no user time-out is set: R2 of RFC 9293, section 3.8.3. Default 924 s, as Linux.
    pub give_up_ns: u64,
    /// R2 for SYNs: at least 3 min by RFC 9293 (MUST-23). Default 180 s.
    pub connect_give_up_ns: u64,
    /// Floor of what is added to the smoothed round-trip time, in ns: the retransmission time-out is never shorter. Default
    /// 200 ms, as Linux; 1 to 5 ms make losses short in a local network.
    pub rto_min_ns: u64,
    /// Ceiling of the retransmission time-out, in ns; at least 60 s by RFC 6298. Default 120 s.
    pub rto_max_ns: u64,
    /// The time-out before the first measurement, in ns. Default 1 s (RFC 6298).
    pub rto_initial_ns: u64,
    /// When received data are acknowledged.
    pub ack: AckPolicy,
    /// The longest segment that is announced and sent, in bytes of data without options. Default none: what the MTU allows.
    pub max_segment: Option<u16>,
    /// Whether window scale is offered. Default true.
    pub window_scale: bool,
    /// Whether selective acknowledgments are offered. Default true.
    pub sack: bool,
    /// Whether time stamps are offered. Default true.
    pub timestamps: bool,
    /// Time to live or hop limit. Default 64.
    pub ttl: u8,
    /// Type of service or traffic class. Default 0.
    pub tos: u8,
    /// Time in TIME-WAIT, 2 MSL, in ns. Default 60 s, as Linux.
    pub time_wait_ns: u64,
    /// Time in FIN-WAIT-2 after close, in ns. Default 60 s, as Linux.
    pub fin_wait_ns: u64,
    /// A listener shares its port with others that do so, too (SO_REUSEPORT). Default false.
    pub shares_port: bool,
    /// The congestion window begins anew after a pause of one retransmission time-out (RFC 5681, section 4.1). Default true.
    pub restart_after_idle: bool,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            send_buffer: 1 << 18,
            receive_buffer: 1 << 18,
            nodelay: false,
            cork: false,
            keep_alive: None,
            user_timeout_ns: None,
            give_up_ns: 924 * SECOND,
            connect_give_up_ns: 180 * SECOND,
            rto_min_ns: 200 * MS,
            rto_max_ns: 120 * SECOND,
            rto_initial_ns: SECOND,
            ack: AckPolicy { delay_ns: 40 * MS, quick_segments: 16 },
            max_segment: None,
            window_scale: true,
            sack: true,
            timestamps: true,
            ttl: 64,
            tos: 0,
            time_wait_ns: 60 * SECOND,
            fin_wait_ns: 60 * SECOND,
            shares_port: false,
            restart_after_idle: true,
        }
    }
}

impl TcpOptions {
    /// Whether all values are within their ranges.
    pub(crate) fn is_valid(&self) -> bool {
        self.ack.delay_ns < 500 * MS
            && self.rto_min_ns > 0
            && self.rto_max_ns >= self.rto_min_ns
            && self.rto_initial_ns > 0
            && (1..=1 << 30).contains(&self.send_buffer)
            && (1..=1 << 30).contains(&self.receive_buffer)
            && self.max_segment.is_none_or(|bytes| bytes >= 88)
            && self.ttl > 0
            && self.keep_alive.is_none_or(|keep| keep.idle_ns > 0 && keep.interval_ns > 0 && keep.count > 0)
    }
}

/// Options of a UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Bytes of datagrams that wait to be received. Default 208 KiB, as Linux.
    pub receive_buffer: usize,
    /// Datagrams that wait to be received. Default 1024.
    pub receive_datagrams: usize,
    /// Bytes of datagrams that wait to be sent. Default 64 KiB.
    pub send_buffer: usize,
    /// Time to live or hop limit. Default 64.
    pub ttl: u8,
    /// Type of service or traffic class. Default 0.
    pub tos: u8,
    /// The socket shares its port with others that do so, too (SO_REUSEPORT). Default false.
    pub shares_port: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer: 208 << 10,
            receive_datagrams: 1024,
            send_buffer: 64 << 10,
            ttl: 64,
            tos: 0,
            shares_port: false,
        }
    }
}
