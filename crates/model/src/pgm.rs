//! Messages over PGM (RFC 3208): what both ends are told, and what the protocol did.

use crate::error::within;
use crate::{Latency, ModelError};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

words! {
    "PGM carrier";
    /// What PGM's packets travel in.
    #[derive(Default)]
    pub enum PgmCarrier {
        /// UDP, as most implementations encapsulate PGM.
        #[default]
        Udp = "udp",
        /// IP itself, protocol 113; needs CAP_NET_RAW at both ends.
        Raw = "raw",
    }
}

words! {
    "PGM NAK path";
    /// Where NAKs go when an SPM names another address than its source's data come from (RFC 3208, section 6.2).
    #[derive(Default)]
    pub enum PgmNakPath {
        /// To where the data come from.
        #[default]
        Data = "data",
        /// To where the SPM says: on networks whose routers speak PGM. Who can forge an SPM then chooses where NAKs go.
        Spm = "spm",
    }
}

impl PgmNakPath {
    /// Older endpoints need not know of it then.
    fn is_data(&self) -> bool {
        *self == Self::Data
    }
}

/// Parity that every end of a measurement offers and makes use of (forward error correction, RFC 3208, appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PgmFec {
    /// Data packets of a transmission group (PARITY_PRM_TGS, section 11.8.1): a power of two from 2 to 128. What is lost is
    /// noticed at the end of its group.
    pub group_packets: u16,
    /// Parity packets that follow each group without being asked for (PARITY_PRM_PRO): no more than it has data packets, so
    /// that nobody has a reflector send a multiple of what it gets.
    #[serde(default)]
    pub proactive_packets: u16,
    /// Whether parity is sent to those that ask (PARITY_PRM_OND); without it they ask for single packets once the unasked
    /// parity of a group was not enough.
    #[serde(default = "on_demand")]
    pub on_demand: bool,
    /// A pause in µs after which a group that is not full is ended (OPT_CURR_TGSIZE, section 11.4); absent: groups are always
    /// full, and single packets of the last one are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_us: Option<u32>,
}

defaults! { on_demand: bool = true; }

impl PgmFec {
    /// Packets of a block, data and parity (section 11.2).
    const BLOCK: u16 = 255;

    /// Parity on demand over groups of so many packets.
    pub fn new(group_packets: u16) -> Self {
        Self { group_packets, proactive_packets: 0, on_demand: true, pause_us: None }
    }

    /// Checks that it makes sense, with the window that it is for.
    fn check(&self, window_packets: u32) -> Result<(), ModelError> {
        let group = self.group_packets;
        if !group.is_power_of_two() || !(2..=128).contains(&group) {
            return Err(ModelError::range("PGM fec.group_packets", group, "a power of two from 2 to 128 packets"));
        }
        let most = group.min(Self::BLOCK - group);
        within(
            "PGM fec.proactive_packets",
            self.proactive_packets,
            0..=most,
            &format!("0 to {most} with groups of {group}"),
        )?;
        if self.proactive_packets == 0 && !self.on_demand {
            let accepted = "1 or more where fec.on_demand is false: else there is no parity";
            return Err(ModelError::range("PGM fec.proactive_packets", 0, accepted));
        }
        within("PGM fec.pause_us", self.pause_us.unwrap_or(10), 10..=60_000_000, "10 to 60,000,000 µs")?;
        let least = 4 * u32::from(group);
        within("PGM window", window_packets, least..=u32::MAX, &format!("{least} or more: four groups of {group}"))
    }
}

/// Packets of a group, `+` those that follow it unasked: `16`, `16+1`, and `16+1-unasked` where none can be asked for.
impl fmt::Display for PgmFec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.group_packets)?;
        if self.proactive_packets > 0 {
            write!(f, "+{}", self.proactive_packets)?;
        }
        if self.on_demand { Ok(()) } else { f.write_str("-unasked") }
    }
}

/// How messages go over PGM. The initiator publishes on `group`; each reflector publishes what it received on the reply
/// group, so that reflectors do not hear each other. Both ends get the same windows and timers; defaults are for a local
/// network.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PgmSpec {
    /// The group that the initiator publishes on.
    pub group: IpAddr,
    /// The group that reflectors publish on (default: the next address).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_group: Option<IpAddr>,
    /// The initiator's interface by name or address (default: the one that routes to the reflector).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// What the packets travel in.
    #[serde(default)]
    pub carrier: PgmCarrier,
    /// UDP port of the carrier `udp`, the same for unicast and multicast.
    #[serde(default = "udp_port")]
    pub udp_port: u16,
    /// Data-destination port of PGM (RFC 3208, section 8).
    #[serde(default = "data_port")]
    pub data_port: u16,
    /// Whether packets to the groups are looped back to their own host (IP_MULTICAST_LOOP).
    #[serde(default)]
    pub loopback: bool,
    /// Packets that each source can repair, and that each receiver keeps behind a gap (TXW_SQNS, RXW_SQNS); a power of two.
    #[serde(default = "window_packets")]
    pub window_packets: u32,
    /// Longest packet in bytes, without headers of IP and UDP.
    #[serde(default = "packet_bytes")]
    pub packet_bytes: u16,
    /// Most bytes a second of a source, repairs included (TXW_MAX_RTE).
    #[serde(default = "max_bytes_per_second")]
    pub max_bytes_per_second: u64,
    /// Longest random wait before the first NAK in µs (NAK_BO_IVL).
    #[serde(default = "back_off_us")]
    pub back_off_us: u32,
    /// How long an NCF is waited for in µs (NAK_RPT_IVL).
    #[serde(default = "repeat_us")]
    pub repeat_us: u32,
    /// How long a repair is waited for after an NCF in µs (NAK_RDATA_IVL).
    #[serde(default = "data_us")]
    pub data_us: u32,
    /// How often a NAK may go without an NCF, and an NCF without a repair, before the packet is given up.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Where NAKs go when an SPM names another address than the data come from; with `spm`, whoever can forge an SPM decides
    /// (default: data).
    #[serde(default, skip_serializing_if = "PgmNakPath::is_data")]
    pub nak_path: PgmNakPath,
    /// Time between two ambient SPMs in ms.
    #[serde(default = "ambient_ms")]
    pub ambient_ms: u32,
    /// First pause without data after which a heartbeat SPM is sent in µs (IHB_MIN); it doubles up to `ambient_ms`. The
    /// last message of a burst is missed no earlier than this.
    #[serde(default = "heartbeat_us")]
    pub heartbeat_us: u32,
    /// Parity of all sources, used by all receivers; absent: what is lost is asked for and sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec: Option<PgmFec>,
}

defaults! {
    udp_port: u16 = 3056;
    data_port: u16 = 7500;
    window_packets: u32 = 8192;
    packet_bytes: u16 = 1472;
    max_bytes_per_second: u64 = 125_000_000;
    back_off_us: u32 = 200;
    repeat_us: u32 = 2000;
    data_us: u32 = 5000;
    retries: u32 = 500;
    ambient_ms: u32 = 1000;
    heartbeat_us: u32 = 4000;
}

impl PgmSpec {
    /// The defaults, on a group.
    pub fn new(group: IpAddr) -> Self {
        Self {
            group,
            reply_group: None,
            interface: None,
            carrier: PgmCarrier::Udp,
            udp_port: udp_port(),
            data_port: data_port(),
            loopback: false,
            window_packets: window_packets(),
            packet_bytes: packet_bytes(),
            max_bytes_per_second: max_bytes_per_second(),
            back_off_us: back_off_us(),
            repeat_us: repeat_us(),
            data_us: data_us(),
            retries: retries(),
            nak_path: PgmNakPath::Data,
            ambient_ms: ambient_ms(),
            heartbeat_us: heartbeat_us(),
            fec: None,
        }
    }

    /// The group that reflectors publish on.
    pub fn reply_group(&self) -> IpAddr {
        self.reply_group.unwrap_or(match self.group {
            IpAddr::V4(group) => IpAddr::V4(Ipv4Addr::from(u32::from(group).wrapping_add(1))),
            IpAddr::V6(group) => IpAddr::V6(Ipv6Addr::from(u128::from(group).wrapping_add(1))),
        })
    }

    /// The longest message in bytes: RFC 3208 lets a message have 65,535, and these cut it in pieces (each less 24 bytes of
    /// header and 20 of the fragment option; with parity 38 of options), at most half a window of them.
    pub fn max_size(&self) -> u32 {
        let head = if self.fec.is_some() { 62 } else { 44 };
        let piece = u64::from(self.packet_bytes.saturating_sub(head));
        let most = piece * u64::from(self.window_packets / 2).max(1);
        u32::try_from(most).unwrap_or(u32::MAX).min(65_507)
    }

    /// Checks the groups and that windows and timers make sense. Errors: the first thing wrong, with what is accepted.
    pub fn check(&self) -> Result<(), ModelError> {
        let range = |what, given: String, accepted| Err(ModelError::range(what, given, accepted));
        let reply = self.reply_group();
        for (what, group) in [("PGM group", self.group), ("PGM reply group", reply)] {
            if !group.is_multicast() {
                return range(what, group.to_string(), "224.0.0.0/4 or ff00::/8");
            }
        }
        if reply == self.group || reply.is_ipv4() != self.group.is_ipv4() {
            return range("PGM reply group", reply.to_string(), "another group of the same family");
        }
        within("PGM port", self.udp_port.min(self.data_port), 1..=u16::MAX, "1 to 65535")?;
        if !self.window_packets.is_power_of_two() || !(64..=65_536).contains(&self.window_packets) {
            return range("PGM window", self.window_packets.to_string(), "a power of two from 64 to 65,536 packets");
        }
        within("PGM packet", self.packet_bytes, 400..=9000, "400 to 9,000 bytes")?;
        let accepted = "10,000 to 1,250,000,000 bytes a second";
        within("PGM rate limit", self.max_bytes_per_second, 10_000..=1_250_000_000, accepted)?;
        let times = [
            ("PGM NAK repeat", self.repeat_us, 10..=60_000_000, "10 µs to 60 s"),
            ("PGM NAK data wait", self.data_us, 10..=60_000_000, "10 µs to 60 s"),
            ("PGM heartbeat", self.heartbeat_us, 10..=60_000_000, "10 µs to 60 s"),
            ("PGM ambient SPM", self.ambient_ms.saturating_mul(1000), 10..=60_000_000, "10 µs to 60 s"),
            ("PGM NAK back-off", self.back_off_us, 0..=10_000_000, "0 to 10 s"),
        ];
        for (what, us, range, accepted) in times {
            if !range.contains(&us) {
                return Err(ModelError::range(what, format!("{us} µs"), accepted));
            }
        }
        if u64::from(self.ambient_ms) * 1000 < u64::from(self.heartbeat_us) {
            let given = format!("{} µs", self.heartbeat_us);
            return range("PGM heartbeat", given, "at most the time between two ambient SPMs");
        }
        within("PGM retries", self.retries, 1..=1000, "1 to 1000")?;
        self.fec.map_or(Ok(()), |fec| fec.check(self.window_packets))
    }
}

/// What one end's source and receiver counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct PgmCounts {
    /// Packets of new data sent.
    pub odata_sent: u64,
    /// Repairs sent.
    pub rdata_sent: u64,
    /// SPMs sent.
    pub spms_sent: u64,
    /// NCFs sent.
    pub ncfs_sent: u64,
    /// NAKs received.
    pub naks_received: u64,
    /// Numbers in them.
    pub numbers_asked_of_us: u64,
    /// Of these, no longer (or not yet) in the window: what is asked for cannot be repaired.
    pub numbers_outside: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Data packets received that were missing until then or new.
    pub packets: u64,
    /// Data packets that had come already.
    pub duplicates: u64,
    /// Numbers that were missing when a later one (or an SPM) came.
    pub missing: u64,
    /// Of these, those that came after all.
    pub recovered: u64,
    /// Of these, those that did not: unrecoverable.
    pub lost: u64,
    /// Data packets dropped because the receive window was full.
    pub overflows: u64,
    /// NAKs sent.
    pub naks_sent: u64,
    /// Numbers in them.
    pub numbers_asked: u64,
    /// NCFs received.
    pub ncfs: u64,
    /// SPMs received.
    pub spms: u64,
    /// Events and repairs that found no room in the log and are in no figure of the steps.
    pub unlogged: u64,
    /// Parity packets sent that nobody had to ask for; not among `odata_sent`.
    pub parity_unasked_sent: u64,
    /// Parity packets sent on demand; not among `rdata_sent`.
    pub parity_asked_sent: u64,
    /// Parity packets received and kept to repair with.
    pub parity_received: u64,
    /// Parity packets received of groups that lacked nothing, or too late.
    pub parity_unneeded: u64,
    /// Of the recovered numbers, those that did not come but were computed from parity.
    pub rebuilt: u64,
    /// Of the NAKs sent, those that ask for parity.
    pub parity_naks_sent: u64,
}

/// One end.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct PgmEnd {
    /// `initiator`, or the reflector's host or address.
    pub host: String,
    /// What it counted.
    pub counts: PgmCounts,
    /// NAKs of it that arrived: those of a reflector at the initiator, known by the address that they came from, and those of
    /// the initiator at all reflectors. Absent where not every NAK could be told whose it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub naks_heard: Option<u64>,
}

words! {
    /// A way of the round trip.
    pub enum Leg {
        /// From the initiator to the reflector.
        Out = "out",
        /// From the reflector to the initiator.
        Back = "back",
    }
}

/// Steps of the repairs of one way to one receiver.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct PgmSteps {
    /// The way that the messages went.
    pub way: Leg,
    /// The reflector, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// From the gap's being seen to the first NAK: the back-off. Absent where others asked.
    pub gap_to_nak: Option<Latency>,
    /// From the first NAK to the first NCF.
    pub nak_to_ncf: Option<Latency>,
    /// From the first NCF to the repair's arrival.
    pub ncf_to_repair: Option<Latency>,
    /// From the gap's being seen to the repair's arrival.
    pub gap_to_repair: Option<Latency>,
    /// How long messages that had come waited behind one that was being repaired.
    pub held: Option<Latency>,
}

words! {
    /// What repairs did to an answered message.
    pub enum Fate {
        /// Neither of the others, so that its latency is that of scheduling and the path alone.
        Untouched = "untouched",
        /// Came by itself and waited behind a repair.
        Held = "held",
        /// Lost and repaired on either way.
        Repaired = "repaired",
    }
}

/// Messages of one fate.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct PgmFate {
    /// What repairs did to them.
    pub fate: Fate,
    /// The reflector, where there are several; absent for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Answered messages of it.
    pub messages: u64,
    /// Their RTT from the actual send.
    pub latency: Option<Latency>,
    /// Their RTT from the intended send.
    pub latency_intended: Option<Latency>,
    /// What repairs took of each: waiting for its own repair and behind others', both ways together.
    pub in_repair: Option<Latency>,
}

/// What PGM did during a measurement.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct PgmReport {
    /// What packets travelled in.
    pub carrier: PgmCarrier,
    /// The group of the initiator.
    pub group: String,
    /// The group of the reflectors.
    pub reply_group: String,
    /// The parity that was offered and used; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec: Option<PgmFec>,
    /// The initiator, then each reflector.
    pub ends: Vec<PgmEnd>,
    /// Latency of loss and repair apart from the rest; those of all reflectors first.
    #[serde(deserialize_with = "crate::words::known")]
    pub fates: Vec<PgmFate>,
    /// What repairs took, step by step.
    #[serde(default, deserialize_with = "crate::words::known")]
    pub steps: Vec<PgmSteps>,
}

impl PgmReport {
    /// The messages of a fate, all reflectors together.
    pub fn fate(&self, fate: Fate) -> Option<&PgmFate> {
        self.fates.iter().find(|one| one.host.is_none() && one.fate == fate)
    }

    /// The sum of a count over all ends.
    pub fn sum(&self, pick: fn(&PgmCounts) -> u64) -> u64 {
        self.ends.iter().map(|end| pick(&end.counts)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PgmSpec {
        PgmSpec::new("239.192.0.1".parse().unwrap())
    }

    #[test]
    fn the_reply_group_is_the_next() {
        assert_eq!(spec().reply_group().to_string(), "239.192.0.2");
        assert_eq!(PgmSpec::new("ff05::142".parse().unwrap()).reply_group().to_string(), "ff05::143");
        let own = PgmSpec { reply_group: Some("239.1.1.1".parse().unwrap()), ..spec() };
        assert_eq!(own.reply_group().to_string(), "239.1.1.1");
    }

    #[test]
    fn what_is_refused_and_how() {
        spec().check().unwrap();
        let with = |change: fn(&mut PgmSpec)| {
            let mut spec = spec();
            change(&mut spec);
            spec.check().unwrap_err().to_string()
        };
        for (text, word) in [
            (with(|spec| spec.group = "10.0.0.1".parse().unwrap()), "10.0.0.1"),
            (with(|spec| spec.reply_group = Some(spec.group)), "another group"),
            (with(|spec| spec.reply_group = "ff05::1".parse().ok()), "same family"),
            (with(|spec| spec.group = "239.255.255.255".parse().unwrap()), "240.0.0.0"),
            (with(|spec| spec.window_packets = 100), "power of two"),
            (with(|spec| spec.packet_bytes = 100), "400"),
            (with(|spec| spec.retries = 0), "1 to 1000"),
            (with(|spec| spec.repeat_us = 0), "NAK repeat"),
            (with(|spec| spec.heartbeat_us = 2_000_000), "heartbeat"),
            (with(|spec| spec.udp_port = 0), "port"),
            (with(|spec| spec.fec = Some(PgmFec::new(12))), "power of two from 2 to 128"),
            (with(|spec| spec.fec = Some(PgmFec::new(256))), "fec.group_packets"),
            (with(|spec| spec.fec = Some(PgmFec { proactive_packets: 17, ..PgmFec::new(16) })), "0 to 16"),
            (with(|spec| spec.fec = Some(PgmFec { proactive_packets: 128, ..PgmFec::new(128) })), "0 to 127"),
            (with(|spec| spec.fec = Some(PgmFec { on_demand: false, ..PgmFec::new(16) })), "fec.on_demand"),
            (with(|spec| spec.fec = Some(PgmFec { pause_us: Some(0), ..PgmFec::new(16) })), "fec.pause_us"),
            (with(|spec| (spec.window_packets, spec.fec) = (64, Some(PgmFec::new(32)))), "four groups of 32"),
        ] {
            assert!(text.contains(word) && !text.contains('\n'), "{word}: {text}");
        }
    }

    #[test]
    fn a_plan_need_only_name_the_group() {
        let spec: PgmSpec = serde_json::from_str(r#"{"group":"239.192.0.1"}"#).unwrap();
        assert_eq!(spec, self::spec());
        assert!(serde_json::from_str::<PgmSpec>(r#"{"group":"239.192.0.1","grop":1}"#).is_err());
        assert_eq!(spec.max_size(), 65_507);
    }

    #[test]
    fn parity_is_told_by_its_group() {
        let spec: PgmSpec =
            serde_json::from_str(r#"{"group":"239.192.0.1","fec":{"group_packets":16,"proactive_packets":2}}"#)
                .unwrap();
        let fec = spec.fec.unwrap();
        assert_eq!((fec, fec.to_string()), (PgmFec { proactive_packets: 2, ..PgmFec::new(16) }, "16+2".to_owned()));
        assert_eq!(PgmFec::new(8).to_string(), "8");
        assert_eq!(PgmFec { on_demand: false, ..fec }.to_string(), "16+2-unasked");
        spec.check().unwrap();
        assert!(!serde_json::to_string(&self::spec()).unwrap().contains("fec"), "older endpoints need not know of it");
    }
}
