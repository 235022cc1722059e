//! What a way is told before it opens.

use clock::Clock;
use net::group::Carrier;
use pgm::{ReceiverConfig, SourceConfig, Tsi};
use std::net::IpAddr;
use std::time::Duration;

/// Everything about one end. [`PgmSocketOptions::new`] has defaults for a local network.
#[derive(Debug, Clone)]
pub struct PgmSocketOptions {
    /// What carries the packets. UDP has one port for both unicast and multicast, because that is what other
    /// implementations need; those of IP protocol 113 take CAP_NET_RAW.
    pub carrier: Carrier,
    /// The own unicast address: packets are sent from it, and NAKs for the own source come to it. Two publishing ends on one
    /// host need two addresses with UDP; on 127.0.0.1 the next free address of 127.0.0.0/8 is taken instead
    /// ([`crate::PgmSocket::local`] tells which).
    pub local: IpAddr,
    /// The interface to join and send on, by its number; absent: the one that owns `local`.
    pub interface: Option<u32>,
    /// What this end publishes, if it does. `address` is set to `local`, and `max_packet_bytes` is cut to what the
    /// interface's MTU carries.
    pub source: Option<SourceConfig>,
    /// What this end subscribes to, if it does.
    pub receiver: Option<ReceiverConfig>,
    /// Whether other programs on this host hear what is sent (IP_MULTICAST_LOOP). Default true.
    pub loopback: bool,
    /// TTL or hop limit of multicast. Default 1: this link.
    pub ttl: u8,
    /// Whether SPM, NCF, RDATA and NAK bear the IP router alert (RFC 3208, section 8). Default: with IP protocol 113 only,
    /// because routers do not look for PGM inside UDP.
    pub router_alert: bool,
    /// Whether the kernel stamps what it receives. Default true.
    pub stamps: bool,
    /// Send buffer in bytes; absent: 1 MiB, or what the system allows of it.
    pub send_buffer_bytes: Option<u32>,
    /// Receive buffer in bytes; absent: 4 MiB, or what the system allows of it.
    pub receive_buffer_bytes: Option<u32>,
    /// SO_BUSY_POLL in µs (socket(7)).
    pub busy_poll_us: Option<u32>,
    /// The clock whose ticks become the engines' time ([`crate::PgmSocket::now_ns`]); absent: one is calibrated.
    pub clock: Option<Clock>,
    /// Repairs, and events of each half, that the log has room for. Default 65,536.
    pub notes: usize,
    /// [`crate::PgmSocket::close`] waits until nobody has asked for repairs for so long. Default 250 ms.
    pub linger: Duration,
}

impl PgmSocketOptions {
    /// An end that neither publishes nor subscribes yet.
    #[must_use]
    pub fn new(carrier: Carrier, local: IpAddr) -> Self {
        Self {
            carrier,
            local,
            interface: None,
            source: None,
            receiver: None,
            loopback: true,
            ttl: 1,
            router_alert: matches!(carrier, Carrier::Raw { .. }),
            stamps: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            busy_poll_us: None,
            clock: None,
            notes: 1 << 16,
            linger: Duration::from_millis(250),
        }
    }

    /// Publishes as `tsi` on `group` to the application port `data_port`, with the source's defaults.
    #[must_use]
    pub fn publish(mut self, tsi: Tsi, data_port: u16, group: IpAddr) -> Self {
        self.source = Some(SourceConfig::new(tsi, data_port, group, self.local));
        self
    }

    /// Subscribes to `group` at the application port `data_port`, with the receiver's defaults and a seed of the wall
    /// clock's.
    #[must_use]
    pub fn subscribe(mut self, data_port: u16, group: IpAddr) -> Self {
        self.receiver = Some(ReceiverConfig::new(data_port, group, clock::realtime_ns()));
        self
    }
}
