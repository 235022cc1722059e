//! What a source offers.

use super::{MAX_BLOCK, MAX_GROUP};
use crate::source::ConfigError;

/// Parity that a source offers (RFC 3208, appendix A). [`Config::default`] is made for a local network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Data packets of a transmission group (PARITY_PRM_TGS, section 11.8.1): a power of two from 2 to 128. Default 16.
    /// Larger groups need less parity for the same loss, but a loss is noticed at the end of its group only.
    pub group_packets: u32,
    /// Parity packets that follow each group without being asked for (PARITY_PRM_PRO, section 11.8.1). Default 0: none.
    pub proactive_packets: u32,
    /// Whether parity is sent to those that ask (PARITY_PRM_OND, section 11.8.1). Default true.
    pub on_demand: bool,
    /// A pause after which a group that is not full is ended, in ns (OPT_CURR_TGSIZE, section 11.4). Absent, the default:
    /// groups are always full, and receivers ask for single packets of the last one.
    pub group_pause_ns: Option<u64>,
    /// Whether a NAK for single packets of a full group gets parity too, as sections 11.1 and 11.4 recommend. Default false:
    /// it gets the packets, because a receiver that makes no use of parity would never get what it misses.
    pub parity_for_selective: bool,
}

impl Config {
    /// Parity packets that a group has numbers for.
    pub fn most_parity(&self) -> u32 {
        u32::try_from(MAX_BLOCK).unwrap_or(u32::MAX).saturating_sub(self.group_packets)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let proactive = self.proactive_packets <= self.most_parity();
        let offered = self.proactive_packets > 0 || self.on_demand;
        ConfigError::first_of(&[
            (is_group_size(self.group_packets), "fec.group_packets", "a power of two from 2 to 128"),
            (proactive, "fec.proactive_packets", "at most 255 less the group's packets"),
            (offered, "fec.on_demand", "true where proactive_packets is 0: one of both is offered"),
            (self.group_pause_ns != Some(0), "fec.group_pause_ns", "above 0"),
        ])
    }
}

impl Default for Config {
    /// Parity on demand over groups of 16.
    fn default() -> Self {
        Self {
            group_packets: 16,
            proactive_packets: 0,
            on_demand: true,
            group_pause_ns: None,
            parity_for_selective: false,
        }
    }
}

pub(crate) fn is_group_size(packets: u32) -> bool {
    packets.is_power_of_two() && (2..=u32::try_from(MAX_GROUP).unwrap_or(u32::MAX)).contains(&packets)
}
