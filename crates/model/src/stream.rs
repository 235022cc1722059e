//! Bulk data: how much, which way, over how many flows.

use crate::ModelError;

/// Which way the data goes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the initiator to the far end (netperf's STREAM).
    #[default]
    Up,
    /// From the far end to the initiator (netperf's MAERTS, iperf's reverse).
    Down,
    /// Both at once.
    Both,
}

impl Direction {
    /// The word used in flags, plans and documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both",
        }
    }
}

/// The part of a specification that only `stream` has.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct StreamSpec {
    /// Which way.
    pub direction: Direction,
    /// Parallel flows, 1 to 128.
    pub flows: u32,
    /// Bits a second of payload over all flows and one direction; absent: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Datagrams a second over all flows and one direction, instead of `rate_bps`; udp only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<f64>,
    /// Datagrams a system call (sendmmsg, recvmmsg), 1 to 1024; udp only.
    pub batch: u32,
    /// UDP_SEGMENT: the kernel cuts one large send into datagrams; udp only.
    pub gso: bool,
    /// UDP_GRO: the kernel joins datagrams of one flow for the receiver; udp only.
    pub gro: bool,
    /// A UDP ping-pong beside the stream shows the latency under that load.
    pub working_latency: bool,
}

impl Default for StreamSpec {
    fn default() -> Self {
        Self {
            direction: Direction::Up,
            flows: 1,
            rate_bps: None,
            rate_pps: None,
            batch: 1,
            gso: false,
            gro: false,
            working_latency: false,
        }
    }
}

impl StreamSpec {
    /// Checks counts and rates.
    ///
    /// # Errors
    /// The first thing wrong, with what is accepted.
    pub fn check(&self, datagrams: bool) -> Result<(), ModelError> {
        let range = |what, given: String, accepted: &str| {
            Err(ModelError::OutOfRange { what, given, accepted: accepted.to_owned() })
        };
        if !(1..=128).contains(&self.flows) {
            return range("flows", self.flows.to_string(), "1 to 128");
        }
        if !(1..=1024).contains(&self.batch) {
            return range("batch", self.batch.to_string(), "1 to 1024 datagrams");
        }
        if self.rate_bps == Some(0) {
            return range("bandwidth", "0".to_owned(), "1 bit a second or more; leave it out for as fast as it goes");
        }
        if let Some(rate) = self.rate_pps.filter(|rate| !(rate.is_finite() && *rate > 0.0 && *rate <= 100e6)) {
            return range("rate", format!("{rate}"), "above 0 and at most 100,000,000 datagrams a second");
        }
        let conflict =
            |what: &str, remedy: &str| Err(ModelError::Conflict { what: what.to_owned(), remedy: remedy.to_owned() });
        if self.rate_bps.is_some() && self.rate_pps.is_some() {
            return conflict("a bandwidth and a packet rate contradict each other", "give only one of them");
        }
        if !datagrams && (self.rate_pps.is_some() || self.batch > 1 || self.gso || self.gro) {
            return conflict("packet rate, batch, gso and gro are for datagrams", "use udp, or leave them out");
        }
        Ok(())
    }
}
