//! What happened when while a cell was measured: the lines of `cells/NNNN.events.jsonl`.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Event {
    /// What it was: `loss`, `load-started`, `load-ready`, `load-stopped`, over PGM `nak`, `ncf`, `repair`, `lost` …
    pub kind: String,
    /// Wall clock since 1970; absent where only the place in the cell is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime_ns: Option<u64>,
    /// Since the first timed message of the cell; absent for what happened before or after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// The host or end that it belongs to; absent for the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Number of the message, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// One line for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}
