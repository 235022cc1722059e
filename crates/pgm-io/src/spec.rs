//! From a measurement's settings to a socket's, and from a socket's counts to a result's.

use crate::{Carrier, PgmIoError, PgmSocketCounts, PgmSocketOptions};
use clock::Clock;
use model::{EndSpec, PgmCarrier, PgmCounts, PgmNakPath, PgmSpec};
use net::group::GroupOptions;
use pgm::receiver::NakPath;
use pgm::{ReceiverConfig, SourceConfig, Tsi, fec};
use std::net::IpAddr;
use std::time::Duration;

const US: u64 = 1_000;
/// The number of PGM among IP's protocols (RFC 3208, section 8).
pub const PROTOCOL: u8 = 113;

/// One end of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Groups, windows and timers.
    pub spec: &'a PgmSpec,
    /// This end's settings.
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
    /// The clock of the measurement.
    pub clock: Clock,
}

/// What the settings say of a source; its `first` and what else they do not know has its default.
#[must_use]
pub fn source(spec: &PgmSpec, tsi: Tsi, group: IpAddr, local: IpAddr) -> SourceConfig {
    let ambient_ns = u64::from(spec.ambient_ms) * 1000 * US;
    let heartbeat_min_ns = u64::from(spec.heartbeat_us) * US;
    SourceConfig {
        max_packet_bytes: usize::from(spec.packet_bytes),
        window_packets: spec.window_packets,
        max_bytes_per_second: spec.max_bytes_per_second,
        peak_bytes_per_second: spec.max_bytes_per_second.saturating_mul(10),
        ambient_ns,
        heartbeat_min_ns,
        heartbeat_max_ns: ambient_ns.max(heartbeat_min_ns),
        // No receiver asks again sooner, so this holds back only what others ask for too.
        ncf_pause_ns: u64::from(spec.repeat_us) * US / 2,
        fec: spec.fec.map(|fec| fec::Config {
            group_packets: fec.group_packets.into(),
            proactive_packets: fec.proactive_packets.into(),
            on_demand: fec.on_demand,
            group_pause_ns: fec.pause_us.map(|us| u64::from(us) * US),
            ..fec::Config::default()
        }),
        ..SourceConfig::new(tsi, spec.data_port, group, local)
    }
}

/// What the settings say of a receiver of a group.
#[must_use]
pub fn receiver(spec: &PgmSpec, group: IpAddr, sources: usize, seed: u64) -> ReceiverConfig {
    ReceiverConfig {
        window_packets: spec.window_packets,
        max_packet_bytes: usize::from(spec.packet_bytes),
        max_sources: sources,
        back_off_ns: u64::from(spec.back_off_us) * US,
        repeat_ns: u64::from(spec.repeat_us) * US,
        data_ns: u64::from(spec.data_us) * US,
        ncf_retries: spec.retries,
        data_retries: spec.retries,
        nak_path: match spec.nak_path {
            PgmNakPath::Data => NakPath::Data,
            PgmNakPath::Spm => NakPath::Spm,
        },
        parity: spec.fec.is_some(),
        ..ReceiverConfig::new(spec.data_port, group, seed)
    }
}

/// What the settings' packets travel in.
#[must_use]
pub fn carrier(spec: &PgmSpec) -> Carrier {
    match spec.carrier {
        PgmCarrier::Udp => Carrier::Udp { port: spec.udp_port },
        PgmCarrier::Raw => Carrier::Raw { protocol: PROTOCOL },
    }
}

impl PgmSocketOptions {
    /// The options of one end of a measurement.
    ///
    /// # Errors
    /// There is no such interface.
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
            source: Some(source(spec, tsi, publish, ends.local)),
            receiver: Some(receiver(spec, subscribe, sources, clock::realtime_ns())),
            clock: Some(ends.clock),
            // Nobody asks for repairs any more: reports have settled what became of each message.
            linger: Duration::ZERO,
            ..options
        })
    }
}

impl PgmSocketCounts {
    /// What was counted between an earlier look and this one, as results tell it.
    #[must_use]
    pub fn since(&self, before: &Self) -> PgmCounts {
        let (source, receiver) = (&self.source, &self.receiver);
        let (was_source, was_receiver) = (&before.source, &before.receiver);
        let events = receiver.events_dropped.saturating_sub(was_receiver.events_dropped);
        PgmCounts {
            odata_sent: source.odata.saturating_sub(was_source.odata),
            rdata_sent: source.rdata.saturating_sub(was_source.rdata),
            spms_sent: source.spms.saturating_sub(was_source.spms),
            ncfs_sent: source.ncfs.saturating_sub(was_source.ncfs),
            naks_received: source.naks.saturating_sub(was_source.naks),
            numbers_asked_of_us: source.numbers_asked.saturating_sub(was_source.numbers_asked),
            numbers_outside: source.numbers_outside.saturating_sub(was_source.numbers_outside),
            messages: receiver.messages.saturating_sub(was_receiver.messages),
            packets: receiver.packets.saturating_sub(was_receiver.packets),
            duplicates: receiver.duplicates.saturating_sub(was_receiver.duplicates),
            missing: receiver.missing.saturating_sub(was_receiver.missing),
            recovered: receiver.recovered.saturating_sub(was_receiver.recovered),
            lost: receiver.lost.saturating_sub(was_receiver.lost),
            overflows: receiver.overflows.saturating_sub(was_receiver.overflows),
            naks_sent: receiver.naks.saturating_sub(was_receiver.naks),
            numbers_asked: receiver.numbers_asked.saturating_sub(was_receiver.numbers_asked),
            ncfs: receiver.ncfs.saturating_sub(was_receiver.ncfs),
            spms: receiver.spms.saturating_sub(was_receiver.spms),
            unlogged: events,
            parity_unasked_sent: source.parity_odata.saturating_sub(was_source.parity_odata),
            parity_asked_sent: source.parity_rdata.saturating_sub(was_source.parity_rdata),
            parity_received: receiver.parity_packets.saturating_sub(was_receiver.parity_packets),
            parity_unneeded: receiver.parity_unused.saturating_sub(was_receiver.parity_unused),
            rebuilt: receiver.recovered_by_parity.saturating_sub(was_receiver.recovered_by_parity),
            parity_naks_sent: receiver.parity_naks.saturating_sub(was_receiver.parity_naks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgm::Gsi;

    /// `pgm` is usable without `model`, so it has defaults of its own. They are those of plans and flags.
    #[test]
    fn settings_have_the_defaults_of_the_protocol_crate() {
        let (group, local) = ("239.192.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let (spec, tsi) = (PgmSpec::new(group), Tsi { gsi: Gsi([1; 6]), port: 2 });
        assert_eq!(source(&spec, tsi, group, local), SourceConfig::new(tsi, spec.data_port, group, local));
        assert_eq!(receiver(&spec, group, 16, 3), ReceiverConfig::new(spec.data_port, group, 3));
        let spm = PgmSpec { nak_path: PgmNakPath::Spm, ..spec };
        assert_eq!(receiver(&spm, group, 16, 3).nak_path, NakPath::Spm);
    }
}
