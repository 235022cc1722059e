//! What both ends of a measurement over PGM tell each other beside the messages.
//!
//! The initiator and the reflectors publish on two groups. Both name their sources over the control connection, the
//! initiator also its messages' tag. The proving token is a message on the group; a reflector takes nothing from other
//! sources and answers nothing without the tag.

use crate::hex;
use crate::request::{OpenRequest, Refusal, bad, check_group_port, limit};
use model::{PgmCarrier, PgmCounts, PgmNakPath, PgmSpec, ProbeSpec, Protocol};
use pgm::receiver::{Counts, NakPath, Repair};
use pgm::source::SourceCounts;
use pgm::{Gsi, ReceiverConfig, SourceConfig, Tsi, fec};
use std::net::IpAddr;

pub mod events;

const US: u64 = 1_000;

/// A source of PGM (TSI): 6 bytes of global source identifier, 2 of source port in network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SourceId(#[serde(with = "hex::array")] pub [u8; 8]);

impl From<Tsi> for SourceId {
    fn from(tsi: Tsi) -> Self {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&tsi.gsi.0);
        bytes[6..].copy_from_slice(&tsi.port.to_be_bytes());
        Self(bytes)
    }
}

impl From<SourceId> for Tsi {
    fn from(SourceId([a, b, c, d, e, f, high, low]): SourceId) -> Self {
        Self { gsi: Gsi([a, b, c, d, e, f]), port: u16::from_be_bytes([high, low]) }
    }
}

/// What a reflector must know of the initiator's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PgmRequest {
    pub source: SourceId,
    /// What its messages carry as tag, in all sessions of one measurement: one message goes to all reflectors.
    #[serde(with = "tag")]
    pub tag: u64,
}

/// A tag as hexadecimal text: JSON has no whole numbers above 2^53 that everybody reads.
mod tag {
    use crate::hex;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(tag: &u64, out: S) -> Result<S::Ok, S::Error> {
        hex::array::serialize(&tag.to_be_bytes(), out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
        hex::array::deserialize::<D, 8>(input).map(u64::from_be_bytes)
    }
}

/// What the settings say of a source; its `first` and what else they do not know has its default.
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

/// The longest packet that an IP packet of `mtu` bytes carries, in UDP or as a protocol of IP, and with the router alert or without.
pub fn packet_room(mtu: u32, in_udp: bool, v6: bool, router_alert: bool) -> usize {
    let ip = if v6 { 40 } else { 20 };
    let udp = if in_udp { 8 } else { 0 };
    // In IPv4's options (RFC 2113), or as a hop-by-hop header of IPv6 (RFC 2711).
    let alert = match (router_alert, v6) {
        (false, _) => 0,
        (true, false) => 4,
        (true, true) => 8,
    };
    (mtu as usize).saturating_sub(ip + udp + alert)
}

/// What the settings say of a receiver of a group.
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

/// What one end's source and receiver counted between an earlier look and this one, as results have it.
pub fn counts(
    (source, receiver): (&SourceCounts, &Counts),
    (was_source, was_receiver): (&SourceCounts, &Counts),
) -> PgmCounts {
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

/// How a message that the reflector had missed came to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct FarRepair {
    /// The message's number.
    pub number: u64,
    /// When it was missed, in the reflector's ticks.
    pub gap: u64,
    /// From then to the first NAK, in ns; absent where another one asked.
    pub nak_ns: Option<u64>,
    /// From then to the first NCF, in ns.
    pub ncf_ns: Option<u64>,
    /// From then to the repair, in ns.
    pub data_ns: u64,
}

impl FarRepair {
    /// Of a message; `gap` in ticks.
    pub fn new(number: u64, repair: &Repair, gap: u64) -> Self {
        let since = |ns: u64| ns.saturating_sub(repair.gap_ns);
        let (nak_ns, ncf_ns) = (repair.nak_ns.map(since), repair.ncf_ns.map(since));
        Self { number, gap, nak_ns, ncf_ns, data_ns: since(repair.data_ns) }
    }
}

/// As it travels: an array, for there may be thousands.
type Row = (u64, u64, Option<u64>, Option<u64>, u64);

impl From<Row> for FarRepair {
    fn from((number, gap, nak_ns, ncf_ns, data_ns): Row) -> Self {
        Self { number, gap, nak_ns, ncf_ns, data_ns }
    }
}

impl From<FarRepair> for Row {
    fn from(FarRepair { number, gap, nak_ns, ncf_ns, data_ns }: FarRepair) -> Self {
        (number, gap, nak_ns, ncf_ns, data_ns)
    }
}

/// What one size left behind at the reflector.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PgmFarEnd {
    pub counts: PgmCounts,
    /// Repairs in the order of delivery: at most 8,192 of them, evenly picked where there were more.
    pub repairs: Vec<FarRepair>,
    /// What was given up: when, in the reflector's ticks, and how many packets; at most 1,024.
    pub losses: Vec<(u64, u32)>,
}

impl PgmFarEnd {
    /// Of all repairs and losses. Losses that find no room are counted as unlogged.
    pub fn new(mut counts: PgmCounts, repairs: &[FarRepair], mut losses: impl Iterator<Item = (u64, u32)>) -> Self {
        let every = repairs.len().div_ceil(MOST_REPAIRS).max(1);
        let repairs = repairs.iter().copied().step_by(every).collect();
        let kept = losses.by_ref().take(MOST_LOSSES).collect();
        counts.unlogged += losses.count() as u64;
        Self { counts, repairs, losses: kept }
    }
}

/// Repairs that one report tells, so that it fits into a frame.
const MOST_REPAIRS: usize = 8192;
/// Losses likewise.
const MOST_LOSSES: usize = 1024;

/// Bytes that both windows of an end may take.
const MOST_WINDOW_BYTES: u64 = 128 << 20;

/// Checks a request for PGM, and that others do not speak of it.
pub(crate) fn check(open: &OpenRequest) -> Result<(), Refusal> {
    let is = open.socket.protocol == Protocol::Pgm;
    let told = open.pace.as_ref().and_then(|pace| pace.pgm.as_ref());
    let spec = match (&open.socket.pgm, told) {
        (Some(spec), Some(_)) if is => spec,
        _ if is => return bad("pgm needs groups and the initiator's source"),
        (None, None) => return Ok(()),
        _ => return bad(format!("groups of PGM say nothing to {}", open.socket.protocol)),
    };
    if let Err(error) = spec.check() {
        return bad(error.to_string());
    }
    if spec.carrier == PgmCarrier::Udp {
        check_group_port(spec.udp_port)?;
    }
    if u64::from(spec.window_packets) * u64::from(spec.packet_bytes) * 2 > MOST_WINDOW_BYTES {
        return limit(format!(
            "windows of {} packets of {} bytes are above the reflector's 128 MiB: use a smaller window",
            spec.window_packets, spec.packet_bytes
        ));
    }
    if open.max_size < ProbeSpec::PGM_LEAST || open.max_size > spec.max_size() {
        return bad(format!("size {} is not {} to {} bytes", open.max_size, ProbeSpec::PGM_LEAST, spec.max_size()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefuseCode;
    use crate::request::PaceRequest;
    use model::{Limits, Probe};

    fn open(change: impl FnOnce(&mut OpenRequest, &mut PgmSpec)) -> Result<(), (RefuseCode, String)> {
        let mut pgm = PgmSpec::new("239.192.0.1".parse().unwrap());
        let told = PgmRequest { source: SourceId([1; 8]), tag: 7 };
        let mut open = OpenRequest {
            pace: Some(PaceRequest { pgm: Some(told), ..PaceRequest::default() }),
            ..OpenRequest::new(Probe::Pace, Protocol::Pgm, 1000)
        };
        change(&mut open, &mut pgm);
        open.socket.pgm = Some(pgm);
        open.check(&Limits::default())
    }

    #[test]
    fn what_is_refused_and_how() {
        open(|_, _| {}).unwrap();
        let refused = |change: fn(&mut OpenRequest, &mut PgmSpec), code, word: &str| {
            let (is, reason) = open(change).unwrap_err();
            assert!(is == code && reason.contains(word) && !reason.contains('\n'), "{word}: {is:?} {reason}");
        };
        let bad = RefuseCode::BadRequest;
        refused(|open, _| open.socket.protocol = Protocol::Udp, bad, "udp");
        refused(|open, _| open.pace = Some(PaceRequest::default()), bad, "source");
        refused(|_, pgm| pgm.udp_port = 53, RefuseCode::Limit, "1024");
        refused(|_, pgm| pgm.group = "10.1.2.3".parse().unwrap(), bad, "10.1.2.3");
        refused(|open, _| open.max_size = 32, bad, "size 32");
        refused(|_, pgm| (pgm.window_packets, pgm.packet_bytes) = (65_536, 9000), RefuseCode::Limit, "smaller window");
    }

    #[test]
    fn it_reads_back() {
        let tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 0x1234 };
        let source = SourceId::from(tsi);
        assert_eq!(serde_json::to_string(&source).unwrap(), "\"0102030405061234\"");
        assert_eq!(Tsi::from(source), tsi);
        let request = PgmRequest { source, tag: u64::MAX - 5 };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<PgmRequest>(&text).unwrap(), request);
        let repair = FarRepair { number: 9, gap: u64::MAX, nak_ns: Some(1), ncf_ns: None, data_ns: 3 };
        let end = PgmFarEnd { repairs: vec![repair], losses: vec![(4, 5)], ..PgmFarEnd::default() };
        let text = serde_json::to_string(&end).unwrap();
        assert!(text.contains("[9,18446744073709551615,1,null,3]"), "{text}");
        assert_eq!(serde_json::from_str::<PgmFarEnd>(&text).unwrap(), end);
        // The most that a report tells fits into a frame.
        let most = FarRepair {
            number: u64::MAX,
            gap: u64::MAX,
            nak_ns: Some(u64::MAX),
            ncf_ns: Some(u64::MAX),
            data_ns: u64::MAX,
        };
        let most =
            PgmFarEnd { repairs: vec![most; MOST_REPAIRS], losses: vec![(u64::MAX, u32::MAX); MOST_LOSSES], ..end };
        assert!(serde_json::to_string(&most).unwrap().len() < crate::CONTROL_LIMIT - (16 << 10));
    }

    /// Catches: a header that a packet's room forgets. IPv6 with the alert: 40 bytes, and 8 of a hop-by-hop header.
    #[test]
    fn the_room_of_a_packet_is_what_its_headers_leave() {
        for (in_udp, v6, alert, room) in [
            (true, false, false, 1472),
            (true, true, false, 1452),
            (false, false, false, 1480),
            (false, false, true, 1476),
            (false, true, true, 1452),
        ] {
            assert_eq!(packet_room(1500, in_udp, v6, alert), room, "{in_udp} {v6} {alert}");
        }
        assert_eq!(packet_room(10, true, false, false), 0);
    }

    /// Catches: losses that are neither told nor counted.
    #[test]
    fn losses_without_room_are_counted() {
        let losses = (0..MOST_LOSSES as u64 + 3).map(|tick| (tick, 1));
        let end = PgmFarEnd::new(PgmCounts { unlogged: 4, ..PgmCounts::default() }, &[], losses);
        assert_eq!((end.losses.len(), end.counts.unlogged), (MOST_LOSSES, 7));
    }

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
