//! What a recorder of `pace` must know before the first message.

use model::{LatencyKind, OutlierRule, Stamps, TickRate};

/// What is known of a reflector's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerClock {
    /// Its answers hold no stamps: there are no one-way times.
    #[default]
    Unknown,
    /// It reads the same counter on the same machine: its ticks are the initiator's ticks.
    SameCounter,
    /// It has a counter of its own with this nominal rate; offset and drift are estimated.
    Other(TickRate),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PacedPeer {
    /// Its host or address, for the documents; unique among the reflectors.
    pub host: String,
    pub clock: PeerClock,
}

/// What a recorder of `pace` must know before the first message.
#[derive(Debug, Clone)]
pub struct PacedConfig {
    /// The initiator's ticks.
    pub rate: TickRate,
    /// What `latency` and `latency_intended` are reported as.
    pub kind: LatencyKind,
    /// Message size in bytes, for what is told while it runs.
    pub size: u32,
    /// Mean rate asked for, in messages a second.
    pub asked_pps: f64,
    /// Mean distance of the schedule's times, in ns.
    pub period_ns: u64,
    /// Messages that the schedule wants at once, 1 or more; with `period_ns` it says how far apart the bursts are.
    pub burst: u32,
    /// Whether each time of the schedule is delayed by a random part of that distance.
    pub random_delay: bool,
    /// One message in so many is answered, 1 or more.
    pub every: u32,
    /// Length of an interval of the series and of the log, in ns, at least 1 ms.
    pub interval_ns: u64,
    /// After how many ns without an answer a message is lost. A lost one must be handed over within an interval of that.
    pub timeout_ns: u64,
    /// Which messages are kept one by one; here the latency from the intended time decides.
    pub outliers: OutlierRule,
    /// How many raw samples there is room for, at most 4 Mi; 0: none are kept.
    pub raw_capacity: usize,
    /// Whether messages carry a header, so that duplicates and order are known.
    pub has_header: bool,
    /// Full frames a second that the link carries, where it says.
    pub line_pps: Option<f64>,
    /// All that answer, by the index that samples name; one or more.
    pub peers: Vec<PacedPeer>,
    /// Which time stamps come with the samples.
    pub stamps: Stamps,
    /// Whether messages say what repairs cost them.
    pub repairs: bool,
}

impl PacedConfig {
    /// Even distances, 100 ms intervals, a time-out of 1 s, no raw samples, a header, one reflector without clock or stamps.
    pub fn new(rate: TickRate, kind: LatencyKind, asked_pps: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive distance in ns; `as` saturates"
        )]
        let period_ns = (1e9 / asked_pps).round() as u64;
        Self {
            rate,
            kind,
            size: 0,
            asked_pps,
            period_ns,
            burst: 1,
            random_delay: false,
            every: 1,
            interval_ns: 100_000_000,
            timeout_ns: 1_000_000_000,
            outliers: OutlierRule::default(),
            raw_capacity: 0,
            has_header: true,
            line_pps: None,
            peers: vec![PacedPeer::default()],
            stamps: Stamps::None,
            repairs: false,
        }
    }

    /// Distance of the schedule's times, bursts counted as one: what is later than this was sent in another one's place.
    pub(super) fn distance_ns(&self) -> u64 {
        self.period_ns.max(1).saturating_mul(u64::from(self.burst.max(1)))
    }
}
