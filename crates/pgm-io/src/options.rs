//! The options of a socket.

use clock::Clock;
use net::group::{Carrier, GroupOptions};
use pgm::{ReceiverConfig, SourceConfig, Tsi};
use std::net::IpAddr;
use std::time::Duration;

/// Everything about one end. [`PgmSocketOptions::new`] has defaults for a local network.
#[derive(Debug, Clone)]
pub struct PgmSocketOptions {
    /// Both sockets. UDP has one port for unicast and multicast, as other implementations need. Two publishing ends of
    /// one host need two addresses; on 127.0.0.1 the next free one is taken ([`crate::PgmSocket::local`]). `interface`
    /// 0: `local`'s.
    pub network: GroupOptions,
    /// What this end publishes. `address` becomes the own one; `max_packet_bytes` is cut to the interface's MTU.
    pub source: Option<SourceConfig>,
    /// What this end subscribes to, if it does.
    pub receiver: Option<ReceiverConfig>,
    /// The clock whose ticks become the engines' time ([`crate::PgmSocket::now_ns`]); absent: one is calibrated.
    pub clock: Option<Clock>,
    /// Repairs, and events of each half, that the log has room for. Default 65,536.
    pub notes: usize,
    /// [`crate::PgmSocket::close`] waits until no repair was asked for during this time. Default 250 ms.
    pub linger: Duration,
}

impl PgmSocketOptions {
    /// An end without source and receiver, on the interface that owns `local`. Multicast stays on this link (TTL 1). The
    /// router alert (RFC 3208, section 8) is set with IP protocol 113 only: routers do not look for PGM inside UDP.
    pub fn new(carrier: Carrier, local: IpAddr) -> Self {
        let network = GroupOptions {
            carrier,
            local,
            interface: 0,
            loopback: true,
            ttl: 1,
            router_alert: matches!(carrier, Carrier::Raw { .. }),
            stamps: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            busy_poll_us: None,
        };
        let linger = Duration::from_millis(250);
        Self { network, source: None, receiver: None, clock: None, notes: 1 << 16, linger }
    }

    /// Publishes as `tsi` on `group` to the application port `data_port`, with the source's defaults.
    #[must_use]
    pub fn publish(mut self, tsi: Tsi, data_port: u16, group: IpAddr) -> Self {
        self.source = Some(SourceConfig::new(tsi, data_port, group, self.network.local));
        self
    }

    /// Subscribes to `group` at `data_port` with the receiver's defaults and a seed from the wall clock.
    #[must_use]
    pub fn subscribe(mut self, data_port: u16, group: IpAddr) -> Self {
        self.receiver = Some(ReceiverConfig::new(data_port, group, clock::realtime_ns()));
        self
    }
}
