//! Data that are exchanged in each cycle: how often, by when, and what became of the deadlines.

use crate::error::within;
use crate::{EndSpec, Gap, ModelError, Pacer, ProbeSpec, Receive, SocketSpec};

/// Time between two cycles unless another is given, in µs.
pub const PERIOD_US: u32 = 1000;
/// Periods of 20 kHz to 100 Hz, in µs.
pub const PERIODS_US: std::ops::RangeInclusive<u32> = 50..=10_000;
/// The longest deadline, in µs.
pub const MAX_DEADLINE_US: u32 = 10_000_000;
/// The most data of a cycle: with its header one Ethernet frame.
pub const MAX_BYTES: u32 = 1384;

/// The part of a specification that only `cycle` has.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct CycleSpec {
    /// By when the echo must have arrived after its cycle was due, in µs; absent: a period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<u32>,
    /// What the publisher does until a cycle is due.
    pub pacer: Pacer,
    /// CPU of the receiving thread; absent: the publisher's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_cpu: Option<u32>,
}

/// What only `cycle` finds out.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct CycleReport {
    /// Time between two cycles.
    pub interval_ns: u64,
    /// By when an echo must have arrived after its cycle was due.
    pub deadline_ns: u64,
    /// Cycles that were due, those that were left out too.
    pub cycles: u64,
    /// Cycles whose echo came after the deadline or not at all.
    pub missed: u64,
    /// Runs of missed cycles, one after the other.
    pub runs: u64,
    /// Missed cycles of the longest run.
    pub longest_run: u64,
    /// Cycles that the publisher left out, because it was busy when they were due.
    pub skipped: u64,
}

impl CycleSpec {
    /// The deadline of a measurement, in µs.
    pub fn deadline_us(&self, spec: &ProbeSpec) -> u32 {
        self.deadline_us.unwrap_or_else(|| period_us(spec))
    }
}

/// Time between two cycles, in µs.
pub fn period_us(spec: &ProbeSpec) -> u32 {
    spec.interval_us.unwrap_or(PERIOD_US)
}

/// Cycles of a size, as the stop rule has it.
pub fn cycles(spec: &ProbeSpec) -> u64 {
    crate::wake::deadlines(spec)
}

/// Checks what only `cycle` has.
pub(crate) fn check(spec: &ProbeSpec, cycle: &CycleSpec) -> Result<(), ModelError> {
    let conflict = |what: String, remedy: &str| Err(ModelError::conflict(what, remedy));
    let period_us = period_us(spec);
    within("interval", period_us, PERIODS_US, "50 (20 kHz) to 10000 µs (100 Hz)")?;
    within("deadline", cycle.deadline_us(spec), 1..=MAX_DEADLINE_US, "1 to 10000000 µs")?;
    if let Some(size) = spec.sizes.iter().find(|size| !(1..=MAX_BYTES).contains(size)) {
        return Err(ModelError::range("size", size, format!("1 to {MAX_BYTES} bytes in a cycle")));
    }
    if cycles(spec) == 0 {
        let what = format!("the stop rule ends before the second cycle, {period_us} µs after the first");
        return conflict(what, "give --seconds or --count above the interval");
    }
    let socket = spec.socket()?;
    let plain = SocketSpec { nodelay: socket.nodelay, ..SocketSpec::new(socket.protocol) };
    let is_plain = |end: &EndSpec| end.device.is_none() && end.idle.total() == 0;
    if *socket != plain || !spec.ends().all(is_plain) || spec.gap != Gap::default() || spec.pings.max(spec.pongs) > 1 {
        let what = "cycle sets no ttl, group or device of its sockets, and sends one frame in a cycle".to_owned();
        return conflict(what, "leave these settings out");
    }
    if spec.ends().any(|end| !matches!(end.receive, Receive::Block | Receive::Spin)) {
        return conflict("cycle waits with block or spin".to_owned(), "use --receive block or --receive spin");
    }
    if spec.stop.interval_percent.is_some() {
        return conflict("cycles end with their time or count".to_owned(), "leave --interval out");
    }
    Ok(())
}
