//! A fixed schedule of messages: how fast, in what shape, and who wakes the sender.

use crate::ModelError;
use crate::error::within;

words! {
    "pacer";
    /// What the sender does until a message is due.
    #[derive(Default)]
    pub enum Pacer {
        /// clock_nanosleep(2) to the absolute time of the message.
        #[default]
        Sleep = "sleep",
        /// Sleeps until shortly before, then spins.
        Hybrid = "hybrid",
        /// Spins on the clock; occupies the CPU. One thread sends and receives.
        Spin = "spin",
    }
}

/// How the intended times lie at a given mean rate.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Shape {
    /// Equal distances: message k is due k/rate after the first, computed without adding up roundings.
    #[default]
    Even,
    /// Exponential distances (a Poisson process), from the seed.
    Poisson,
    /// So many messages at once, then a pause that keeps the mean rate.
    Burst {
        /// Messages of a burst, 1 to 100,000.
        count: u32,
    },
    /// Times given one by one, in ns since the start, ascending; repeated with their last time as the period when the
    /// duration is longer. The rate is what follows from them.
    Times {
        /// Intended times.
        offsets_ns: Vec<u64>,
    },
}

impl Shape {
    /// Messages that are due at once.
    pub fn burst(&self) -> u32 {
        if let Self::Burst { count } = self { (*count).max(1) } else { 1 }
    }
}

words! {
    "stamps";
    /// Which time stamps are taken beside the application's own.
    #[derive(Default)]
    pub enum Stamps {
        /// None.
        #[default]
        None = "none",
        /// SO_TIMESTAMPING in software: when the driver sent, when the stack received.
        Kernel = "kernel",
        /// SO_TIMESTAMPING by the NIC; refused where it has none.
        Hardware = "hardware",
        /// SO_TIMESTAMPING by the NIC for what is sent, in software for what is received: of NICs that stamp only PTP packets
        /// of what they receive.
        HardwareSent = "hardware-sent",
        /// The best that each end has: by the NIC, else in software.
        Auto = "auto",
    }
}

impl From<Stamps> for crate::StampSource {
    /// What an end that was asked for `auto` takes is known only from its [`StampClock`].
    fn from(stamps: Stamps) -> Self {
        match stamps {
            Stamps::None => Self::Application,
            Stamps::Kernel => Self::Kernel,
            Stamps::Hardware => Self::Hardware,
            Stamps::HardwareSent => Self::HardwareSent,
            Stamps::Auto => Self::Other,
        }
    }
}

/// The time stamps that one end really takes, as times of its wall clock (CLOCK_REALTIME).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct StampClock {
    /// `kernel`, `hardware` or `hardware-sent`; `none` for an end that has the application's alone.
    pub stamps: Stamps,
    /// Hardware: how the NIC's clock is related to the wall clock, the closest that its driver has
    /// (`PTP_SYS_OFFSET_PRECISE`, `PTP_SYS_OFFSET_EXTENDED`, `PTP_SYS_OFFSET` or `clock_gettime`), and which one it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// Within how many ns of the wall clock the stamps are for that; 0 where the kernel stamps with the wall clock itself.
    #[serde(default)]
    pub error_ns: u64,
}

/// The part of a specification that only `pace` has.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct PaceSpec {
    /// Mean rates in messages a second, measured one after the other, each as a result of its own (factor `rate`).
    pub rates_pps: Vec<f64>,
    /// How the intended times lie.
    pub shape: Shape,
    /// Seed of `Shape::Poisson` and of the random delay.
    pub seed: u64,
    /// Each intended time (of a burst: that of all its messages) is delayed by a random part of the distance to the next, from
    /// 0 to below so many percent of it, 0 to 100; of even times and bursts only. RFC 2330, section 11.1.1, says why: even
    /// times keep step with whatever has the same period, and then always meet it or never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_delay_percent: Option<u32>,
    /// Who wakes the sender.
    pub pacer: Pacer,
    /// The reflector answers message 0 and every Nth after it (by its number); 1: all.
    pub every: u32,
    /// CPU of the receiving thread; absent: the sender's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_cpu: Option<u32>,
    /// Time stamps beside the application's.
    pub stamps: Stamps,
    /// Go on with higher rates although one was not reached.
    pub beyond_saturation: bool,
    /// The sending application is what is measured (its policy, its CPU): how late it sends is part of the figures from the
    /// intended time, and no reason to distrust them.
    pub sender_measured: bool,
}

impl Default for PaceSpec {
    fn default() -> Self {
        Self {
            rates_pps: vec![10_000.0],
            shape: Shape::Even,
            seed: 1,
            random_delay_percent: None,
            pacer: Pacer::Sleep,
            every: 1,
            receive_cpu: None,
            stamps: Stamps::None,
            beyond_saturation: false,
            sender_measured: false,
        }
    }
}

impl PaceSpec {
    /// The highest rate that a schedule in whole nanoseconds is made for.
    pub const MAX_RATE_PPS: f64 = 100e6;

    /// Checks rates, shape and counts. Errors: the first thing wrong, with what is accepted.
    pub fn check(&self) -> Result<(), ModelError> {
        let range = |what, given: String, accepted| Err(ModelError::range(what, given, accepted));
        if self.rates_pps.is_empty() {
            return range("rate", "none".to_owned(), "at least one, as in --rate 10000");
        }
        let is_possible = |rate: f64| rate.is_finite() && rate > 0.0 && rate <= Self::MAX_RATE_PPS;
        if let Some(rate) = self.rates_pps.iter().find(|rate| !is_possible(**rate)) {
            return range("rate", rate.to_string(), "above 0 and at most 100,000,000 messages a second");
        }
        within("every", self.every, 1..=u32::MAX, "1 (all messages are answered) or more")?;
        match (self.random_delay_percent.unwrap_or(0), &self.shape) {
            (0, _) | (1..=100, Shape::Even | Shape::Burst { .. }) => {}
            (given @ 1..=100, shape) => {
                return range("random delay", format!("{given} % with shape {shape}"), "shape even or burst:N");
            }
            (given, _) => return range("random delay", format!("{given} %"), "0 to 100 % of the distance"),
        }
        match &self.shape {
            Shape::Burst { count } => within("burst", *count, 1..=100_000, "1 to 100,000 messages"),
            Shape::Times { offsets_ns } if offsets_ns.is_empty() => {
                range("schedule", "no times".to_owned(), "at least one")
            }
            Shape::Times { offsets_ns } => match offsets_ns.windows(2).position(|pair| pair[1] < pair[0]) {
                Some(at) => range(
                    "schedule",
                    format!("time {} ({} ns) after {} ns", at + 2, offsets_ns[at + 1], offsets_ns[at]),
                    "times that never go back",
                ),
                None => Ok(()),
            },
            Shape::Even | Shape::Poisson => Ok(()),
        }
    }
}
