//! Timer wake-ups: which threads sleep, until when, and what became of their deadlines.

use crate::error::within;
use crate::{CpuList, Latency, ModelError, ProbeSpec};

/// Time between two deadlines of a thread unless another is given, in µs: cyclictest's.
pub const INTERVAL_US: u32 = 1000;

/// The part of a specification that only `wake` has.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct WakeSpec {
    /// One thread on each of these CPUs; empty: one thread, on the initiator's CPU.
    #[serde(skip_serializing_if = "CpuList::is_empty")]
    pub cpus: CpuList,
    /// PR_SET_TIMERSLACK of the threads in ns; absent: the system's (50 µs). Real-time policies have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u32>,
}

/// What only `wake` finds out. Absent: not told by the tool whose result was imported.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct WakeReport {
    /// Time between two deadlines of a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// By how much the kernel may delay the threads' timers, as it was in force: 0 under a real-time policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// Deadlines of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<u64>,
    /// Deadlines that passed while the thread had not yet woken up from the one before. Each counts with how late the
    /// thread was for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// Wake-ups that came after the next deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overslept: Option<u64>,
    /// Each thread by itself, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<WakeThread>,
}

/// One thread of several.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct WakeThread {
    /// `CPU 1`.
    pub name: String,
    /// Its deadlines that passed while it slept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// Its wake-up latency.
    pub latency: Latency,
}

/// Checks what only `wake` has.
pub(crate) fn check(spec: &ProbeSpec, wake: &WakeSpec) -> Result<(), ModelError> {
    let interval_us = spec.interval_us.unwrap_or(INTERVAL_US);
    within("interval", interval_us, 10..=10_000_000, "10 to 10000000 µs")?;
    let slack_ns = wake.timer_slack_ns.unwrap_or(1);
    within("timer slack", slack_ns, 1..=1_000_000_000, "1 to 1000000000 ns")?;
    if deadlines(spec) == 0 {
        let what = format!("the stop rule ends before the first deadline, {interval_us} µs after the start");
        return Err(ModelError::conflict(what, "give --seconds or --count above the interval"));
    }
    Ok(())
}

/// Deadlines of each thread, as the stop rule has it.
pub fn deadlines(spec: &ProbeSpec) -> u64 {
    let interval_us = u64::from(spec.interval_us.unwrap_or(INTERVAL_US)).max(1);
    let by_time =
        if spec.stop.max_ms == u32::MAX { u64::MAX } else { u64::from(spec.stop.max_ms) * 1000 / interval_us };
    by_time.min(spec.stop.max_count)
}
