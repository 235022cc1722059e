//! What a plan asks: the comparisons that are tested. Everything else of a run is described.

use std::collections::BTreeMap;

/// One primary comparison: the values of an axis, each with the first of them, in the cells that `where` chooses.
///
/// ```toml
/// [[ask]]
/// axis = "load"
/// quantity = ["stdev", "p99.9"]
/// where = { protocol = "udp", policy = "other", shield = "off" }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The axis whose values are compared.
    pub axis: String,
    /// Only these values, each compared with the first (default: every value of the axis, with its baseline).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Ids of the quantities that are tested (docs/generated/quantities.md).
    #[serde(default = "jitter_and_tail")]
    pub quantity: Vec<String>,
    /// Values of other axes: only cells that have them take part.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, String>,
}

fn jitter_and_tail() -> Vec<String> {
    ["stdev", "p99.9"].map(str::to_owned).to_vec()
}
