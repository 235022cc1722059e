//! What an endpoint's owner allows its clients.

/// Limits of an endpoint; the client is told them before it asks for anything.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// Largest message in bytes.
    pub max_size: u32,
    /// Longest session in seconds, control connection included.
    pub max_session_s: u32,
    /// Sessions at once.
    pub max_sessions: u32,
    /// Messages a second that a session's reflector answers; more are dropped and counted.
    pub max_rate_pps: u32,
    /// Whether a client may set the reflector's real-time policy.
    pub allow_real_time: bool,
    /// Whether a client may pin the reflector to a CPU.
    pub allow_cpu: bool,
    /// Whether a client may make the reflector spin.
    pub allow_spin: bool,
    /// Most idle descriptors a client may ask for.
    pub max_idle_descriptors: u32,
    /// Largest socket buffer in bytes a client may ask for.
    pub max_buffer_bytes: u32,
    /// Payload bits a second that a session's stream may carry in each direction; 0: no streams at all; absent: no limit
    /// but the network's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bandwidth_bps: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_size: 16 << 20,
            max_session_s: 3600,
            max_sessions: 16,
            max_rate_pps: 10_000_000,
            allow_real_time: true,
            allow_cpu: true,
            allow_spin: true,
            max_idle_descriptors: 2048,
            max_buffer_bytes: 64 << 20,
            max_bandwidth_bps: None,
        }
    }
}
