//! The parameters of a source, with defaults for a local network.

use crate::{Sqn, Tsi, fec};
use std::net::IpAddr;

const MS: u64 = 1_000_000;

/// Parameters of a source. [`Self::new`] has defaults for a local network; fields name their section of RFC 3208.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceConfig {
    /// Who the source is (section 3.1).
    pub tsi: Tsi,
    /// Data-destination port: the application's (section 8).
    pub data_port: u16,
    /// The group that everything is sent to.
    pub group: IpAddr,
    /// The source's own address, which receivers send NAKs to (SPM_PATH, section 8.1).
    pub address: IpAddr,
    /// The number of the first data. Default 0, as others begin.
    pub first: Sqn,
    /// Longest packet in bytes, PGM header included, IP and UDP headers not. Default 1472: UDP over IPv4 in 1500 bytes.
    pub max_packet_bytes: usize,
    /// Packets that can be repaired (TXW_SQNS): the transmit window, which advances with data (section 5.1 and appendix F).
    /// Up to half of it may be packets that wait to be sent. A power of two; default 8192. Each takes `max_packet_bytes` of
    /// memory.
    pub window_packets: u32,
    /// Most bytes a second of all packets, PGM headers included (TXW_MAX_RTE, section 5.1.1). Default 125,000,000.
    pub max_bytes_per_second: u64,
    /// How many bytes may go out at once after a pause (size of the token bucket, section 5.1.2). NCFs, which are not to
    /// wait, may use as much again. Default 64 KiB.
    pub burst_bytes: u64,
    /// Most bytes a second between two packets (leaky bucket, section 5.1.2). Default 1,250,000,000: 10 Gbit/s.
    pub peak_bytes_per_second: u64,
    /// Repairs before one packet of new data, while both wait (section 5.1.3). Default 4; 0: new data first, always.
    pub repairs_before_data: u32,
    /// Time between two ambient SPMs, in ns (section 5.1.4). Default 1 s.
    pub ambient_ns: u64,
    /// First pause without data after which a heartbeat SPM is sent, in ns (IHB_MIN, section 5.1.5). Default 4 ms. It doubles …
    pub heartbeat_min_ns: u64,
    /// … up to this (IHB_MAX). Default 1 s.
    pub heartbeat_max_ns: u64,
    /// Neither an NCF nor a repair of the same number is repeated within this time, in ns: the guard against a storm of NAKs
    /// of section 5.2. It should be longer than the way to the farthest receiver and back, and shorter than the receivers'
    /// `repeat_ns`. Default 1 ms.
    pub ncf_pause_ns: u64,
    /// How far back late joiners may ask for data, in packets (OPT_JOIN, section 9.4); absent: only what is sent after they
    /// joined. Takes 12 bytes of each packet.
    pub join_packets: Option<u32>,
    /// SPMs with OPT_FIN that end the session (section 9.7), `heartbeat_min_ns` apart; more are heartbeats. Default 3.
    pub fin_spms: u32,
    /// Parity for those that miss packets (appendix A). Default none: repairs are the packets themselves. It takes 38 bytes
    /// of each packet's longest payload, so that parity over the longest fits into a packet.
    pub fec: Option<fec::Config>,
}

impl SourceConfig {
    /// The defaults.
    pub fn new(tsi: Tsi, data_port: u16, group: IpAddr, address: IpAddr) -> Self {
        Self {
            tsi,
            data_port,
            group,
            address,
            first: Sqn(0),
            max_packet_bytes: 1472,
            window_packets: 8192,
            max_bytes_per_second: 125_000_000,
            burst_bytes: 64 << 10,
            peak_bytes_per_second: 1_250_000_000,
            repairs_before_data: 4,
            ambient_ns: 1000 * MS,
            heartbeat_min_ns: 4 * MS,
            heartbeat_max_ns: 1000 * MS,
            ncf_pause_ns: MS,
            join_packets: None,
            fin_spms: 3,
            fec: None,
        }
    }

    /// Memory in bytes that [`crate::Source::new`] takes for the window.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.window_packets).saturating_mul((self.max_packet_bytes + super::NUMBER_BYTES) as u64)
    }

    /// Checks the parameters together; the error names the first that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let times = [self.ambient_ns, self.heartbeat_min_ns, self.heartbeat_max_ns];
        let times = !times.contains(&0) && self.heartbeat_max_ns >= self.heartbeat_min_ns;
        let peak = (1..=self.peak_bytes_per_second).contains(&self.max_bytes_per_second);
        let burst = self.burst_bytes >= self.max_packet_bytes as u64;
        ConfigError::first_of(&[
            (self.group.is_multicast(), "group", "a multicast address"),
            (self.group.is_ipv4() == self.address.is_ipv4(), "address", "an address of the group's family"),
            // The shortest holds an NCF of 63 numbers with IPv6 addresses.
            ((400..=65_535).contains(&self.max_packet_bytes), "max_packet_bytes", "400 to 65,535"),
            (is_window(self.window_packets), "window_packets", "a power of two from 2 to 16,777,216"),
            (peak, "peak_bytes_per_second", "max_bytes_per_second, above 0, or more"),
            (burst, "burst_bytes", "max_packet_bytes or more: a packet must fit into the bucket"),
            (times, "ambient_ns, heartbeat_min_ns, heartbeat_max_ns", "times above 0, the last the longest"),
        ])?;
        let Some(fec) = self.fec else { return Ok(()) };
        fec.check()?;
        let groups = self.window_packets >= 4 * fec.group_packets;
        ConfigError::first_of(&[
            (groups, "window_packets", "four groups of fec.group_packets or more"),
            (self.first.0.is_multiple_of(fec.group_packets), "first", "a multiple of fec.group_packets"),
        ])
    }
}

/// A parameter that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} has to be {accepted}")]
pub struct ConfigError {
    /// Which.
    pub field: &'static str,
    /// What it may be.
    pub accepted: &'static str,
}

impl ConfigError {
    /// The first of some parameters that is not right: whether it is, its field, and what that may be.
    pub(crate) fn first_of(checks: &[(bool, &'static str, &'static str)]) -> Result<(), Self> {
        let wrong = checks.iter().find(|(right, ..)| !right);
        wrong.map_or(Ok(()), |&(_, field, accepted)| Err(Self { field, accepted }))
    }
}

pub(crate) fn is_window(packets: u32) -> bool {
    packets.is_power_of_two() && (2..=1 << 24).contains(&packets)
}
