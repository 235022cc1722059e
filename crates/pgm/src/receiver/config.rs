//! The parameters of a receiver, with defaults for a local network.

use crate::source::{ConfigError, is_window};
use std::net::IpAddr;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Where NAKs go when an SPM names another address than its source's data come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NakPath {
    /// To the address that the data come from.
    #[default]
    Data,
    /// To the address in the SPM (section 6.2): on networks whose routers speak PGM and write their own into it (section 7).
    /// Whoever can forge an SPM with the source's address then chooses where NAKs go.
    Spm,
}

/// Parameters of a receiver. [`Self::new`] has defaults for a local network; fields name their section of RFC 3208.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Data-destination port: packets to others are passed over (section 8).
    pub data_port: u16,
    /// The group, which NAKs name (section 8.3).
    pub group: IpAddr,
    /// Packets of a source that are kept while one before them is missing (RXW_SQNS, section 3.4). A power of two; default
    /// 8192. Each takes `max_packet_bytes` of memory, for each source.
    pub window_packets: u32,
    /// Longest packet in bytes, PGM header included; longer ones are dropped. Default 1472.
    pub max_packet_bytes: usize,
    /// Sources at once. When all places are taken, a source that has ended or is silent makes room for another; without
    /// such a one the other is refused, and its data are dropped. The memory of all is taken at the start
    /// ([`Self::memory_bytes`]). Default 16.
    pub max_sources: usize,
    /// Longest random wait before the first NAK for a number, in ns (NAK_BO_IVL, section 6.3). It gives others the chance to
    /// ask first, and reordered packets the chance to come. Default 200 µs: for a few receivers on one link.
    pub back_off_ns: u64,
    /// How long an NCF is waited for, in ns (NAK_RPT_IVL, section 6.3). Default 2 ms.
    pub repeat_ns: u64,
    /// How long a repair is waited for after an NCF, in ns (NAK_RDATA_IVL, section 6.3). Default 5 ms.
    pub data_ns: u64,
    /// NAKs without an NCF until the number is given up (NAK_NCF_RETRIES, section 6.3). Default 500: about a second.
    pub ncf_retries: u32,
    /// How often an NCF goes without a repair before the number is given up (NAK_DATA_RETRIES, section 6.3). Default 500.
    pub data_retries: u32,
    /// Later packets after which one counts as missing (section 6.3: 2). Default 0: the back-off tolerates disorder.
    pub reorder_packets: u32,
    /// Longest random wait before an SPM is asked for, while gaps are known and no SPM has named the path of NAKs, in ns
    /// (SPMR_BO_IVL, section 13.5, which names 250 ms). Default 10 ms.
    pub spmr_back_off_ns: u64,
    /// How long the SPM is waited for before it is asked for again, in ns (SPMR_SPM_IVL, section 13.5); the second time
    /// twice as long, and so on, ten times. Default 20 ms.
    pub spmr_repeat_ns: u64,
    /// Silence of a source (of packets that fit) after which it is forgotten, in ns. Default 30 s.
    pub expiry_ns: u64,
    /// Where NAKs go. Default: where the data come from.
    pub nak_path: NakPath,
    /// Whether data before the first packet are asked for, as far as OPT_JOIN allows (section 9.4). Default true.
    pub join: bool,
    /// Whether parity is used that sources offer: whole transmission groups are asked for (appendix A), and packets that did
    /// not come are computed. Default false: single packets are asked for, and parity is passed over. It takes memory for
    /// each group, and delivers nothing sooner than a group is over.
    pub parity: bool,
    /// Seed of the random waits: the same seed and the same datagrams give the same NAKs.
    pub seed: u64,
}

impl ReceiverConfig {
    /// The defaults.
    pub fn new(data_port: u16, group: IpAddr, seed: u64) -> Self {
        Self {
            data_port,
            group,
            window_packets: 8192,
            max_packet_bytes: 1472,
            max_sources: 16,
            back_off_ns: 200 * US,
            repeat_ns: 2 * MS,
            data_ns: 5 * MS,
            ncf_retries: 500,
            data_retries: 500,
            reorder_packets: 0,
            spmr_back_off_ns: 10 * MS,
            spmr_repeat_ns: 20 * MS,
            expiry_ns: 30_000 * MS,
            nak_path: NakPath::Data,
            join: true,
            parity: false,
            seed,
        }
    }

    /// Memory in bytes that [`crate::Receiver::new`] takes; packets' own, most of it, is only used as sources are heard.
    pub fn memory_bytes(&self) -> u64 {
        let each =
            self.max_packet_bytes + super::peer::NUMBER_BYTES + if self.parity { super::peer::PARITY_BYTES } else { 0 };
        (self.max_sources as u64).saturating_mul(u64::from(self.window_packets)).saturating_mul(each as u64)
    }

    /// Checks the parameters together; the error names the first that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let times = [self.repeat_ns, self.data_ns, self.expiry_ns];
        ConfigError::first_of(&[
            (self.group.is_multicast(), "group", "a multicast address"),
            (is_window(self.window_packets), "window_packets", "a power of two from 2 to 16,777,216"),
            ((400..=65_535).contains(&self.max_packet_bytes), "max_packet_bytes", "400 to 65,535"),
            ((1..=1024).contains(&self.max_sources), "max_sources", "1 to 1024"),
            (self.reorder_packets < self.window_packets, "reorder_packets", "less than window_packets"),
            (!times.contains(&0), "repeat_ns, data_ns, expiry_ns", "times above 0"),
        ])
    }
}
