//! What the kernel reported around one late message: the lines of `cells/NNNN.windows.jsonl`.

use serde_json::Value;
use std::collections::BTreeMap;

/// The events of the CPUs that a message passed at one end, from a little before it to a little after it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct EventWindow {
    /// Number of the message; its segments and causes are in `cells/NNNN.outliers.jsonl`.
    pub seq: u64,
    /// The end, as in [`crate::Cause::host`].
    pub host: String,
    /// When it begins, in ns of the initiator's CLOCK_MONOTONIC. Events before it say only which task runs then.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// When the message was sent.
    pub sent_ns: u64,
    /// Events at its beginning that found no room; it begins after them.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// How its times came to the initiator's clock; absent where they are of that clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed: Option<Placed>,
    /// In order of time.
    pub events: Vec<KernelEvent>,
}

/// A window of another clock: the middle of the message's stay there is placed at the middle of its time between the initiator's driver
/// and stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Placed {
    /// What was added to the times of that machine's CLOCK_MONOTONIC, in ns.
    pub moved_ns: i64,
    /// By how much they may be wrong, in ns: half of the time that the message was on its way.
    pub within_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One event of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct KernelEvent {
    /// When it happened, in ns of the initiator's CLOCK_MONOTONIC; of an interval its start.
    pub at_ns: u64,
    /// How long an interval took; absent of a point in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
    /// The CPU.
    pub cpu: u16,
    /// The kernel's tracepoint (`sched_switch`, `sched_waking` …), of an interval without `_entry` and `_exit` (`irq_handler`, `softirq`,
    /// `local_timer` …); `message` is a stage that the message passed.
    pub event: String,
    /// The task that is switched in, the interrupt, the softirq, or the stage.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The task that it is about: of a switch the one that runs from then on, 0 for the idle task. Absent where an owner withholds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Other fields, as the kernel's tracepoint calls them where it has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Value>,
}
