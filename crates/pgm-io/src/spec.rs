//! From a measurement's settings to a socket's, and from a socket's counts to a result's.

use crate::{Carrier, PgmIoError, PgmSocketCounts, PgmSocketOptions};
use clock::Clock;
use model::{EndSpec, PgmCarrier, PgmCounts, PgmSpec};
use net::group::GroupOptions;
use pgm::Tsi;
use std::net::IpAddr;
use std::time::Duration;

/// The number of PGM among IP's protocols (RFC 3208, section 8).
pub const PROTOCOL: u8 = 113;

#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Groups, windows and timers.
    pub spec: &'a PgmSpec,
    pub end: &'a EndSpec,
    /// TTL or hop limit of multicast; absent: 1.
    pub ttl: Option<u8>,
    /// The own unicast address.
    pub local: IpAddr,
    /// The interface by name or address, before that of `end`.
    pub interface: Option<&'a str>,
    /// What this end publishes as, and where.
    pub publish: (Tsi, IpAddr),
    /// What it subscribes to, and the most sources there.
    pub subscribe: (IpAddr, usize),
    pub clock: Clock,
}

/// What the settings' packets travel in.
pub fn carrier(spec: &PgmSpec) -> Carrier {
    match spec.carrier {
        PgmCarrier::Udp => Carrier::Udp { port: spec.udp_port },
        PgmCarrier::Raw => Carrier::Raw { protocol: PROTOCOL },
    }
}

impl PgmSocketOptions {
    /// The options of one end of a measurement; its interface must exist.
    pub fn of(ends: &Ends<'_>) -> Result<Self, PgmIoError> {
        let Ends { spec, end, .. } = ends;
        let named = ends.interface.or(end.device.as_deref());
        let (tsi, publish) = ends.publish;
        let (subscribe, sources) = ends.subscribe;
        let options = Self::new(carrier(spec), ends.local);
        Ok(Self {
            network: GroupOptions {
                interface: named.map_or(Ok(0), net::interface::named)?,
                loopback: spec.loopback || ends.local.is_loopback(),
                ttl: ends.ttl.unwrap_or(1),
                send_buffer_bytes: end.send_buffer_bytes,
                receive_buffer_bytes: end.receive_buffer_bytes,
                busy_poll_us: end.busy_poll_us,
                // Nobody reads them there, and each datagram would pay for its own.
                stamps: false,
                ..options.network
            },
            source: Some(wire::pgm::source(spec, tsi, publish, ends.local)),
            receiver: Some(wire::pgm::receiver(spec, subscribe, sources, clock::realtime_ns())),
            clock: Some(ends.clock),
            // Nobody asks for repairs any more: reports have settled what became of each message.
            linger: Duration::ZERO,
            ..options
        })
    }
}

impl PgmSocketCounts {
    /// What was counted between an earlier look and this one, as results tell it.
    pub fn since(&self, before: &Self) -> PgmCounts {
        wire::pgm::counts((&self.source, &self.receiver), (&before.source, &before.receiver))
    }
}
