//! What is seen while a measurement runs.

/// One interval of a running measurement, told as soon as it is over, half an interval later at most while answers of it
/// may still come. One that was told before all was known (`settled` is false) is told once more when it is; the second
/// takes the place of the first, which has the same `at_ns`. The final document depends on neither.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct LiveInterval {
    /// Message size in bytes.
    pub size: u32,
    /// Rate asked for, in messages a second, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_pps: Option<f64>,
    /// Start of the interval, since the first message.
    pub at_ns: u64,
    /// Its length.
    pub interval_ns: u64,
    /// Messages sent in it.
    pub sent: u64,
    /// Answers received (or, of a stream, messages delivered).
    pub received: u64,
    /// Messages found lost.
    pub lost: u64,
    /// Messages whose fate is not known yet: they may still be answered, or turn out lost.
    pub open: u64,
    /// Whether all is known, so that the interval is not told again.
    pub settled: bool,
    /// Payload delivered, of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rounds of the ping-pong beside a stream: the RTT below is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Median RTT; of a closed loop that of its latest 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p50_ns: Option<u64>,
    /// 99th percentile of RTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p99_ns: Option<u64>,
    /// Largest RTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_max_ns: Option<u64>,
    /// 99th percentile of RTT from the intended send time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_intended_p99_ns: Option<u64>,
    /// Largest wake-up latency so far, of `wake`; it has no messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up_max_ns: Option<u64>,
    /// 99th percentile of lateness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_p99_ns: Option<u64>,
}
