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
    /// Payload bits a second that the datagrams of a stream may carry to the client, which nobody acknowledges; absent:
    /// as `max_bandwidth_bps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sent_bps: Option<u64>,
    /// Highest real-time priority that a client may ask for, 1 to 99.
    #[serde(default = "any_priority")]
    pub max_priority: u8,
    /// Whether a client may have it recorded why messages were late at this end.
    #[serde(default)]
    pub allow_explain: bool,
    /// Whether it is then told the names of programs of others.
    #[serde(default)]
    pub explain_names: bool,
    /// Whether a client with the key may have its data at another address than its control connection.
    #[serde(default = "yes")]
    pub allow_other_addresses: bool,
}

// An older endpoint limits no priorities and takes data from any address.
defaults! { any_priority: u8 = 99; yes: bool = true; }

impl Default for Limits {
    /// What a server allows by default: enough to measure with, too little to harm its host or others.
    fn default() -> Self {
        Self {
            max_size: 16 << 20,
            max_session_s: 600,
            max_sessions: 16,
            max_rate_pps: 10_000_000,
            allow_real_time: true,
            allow_cpu: true,
            allow_spin: true,
            max_idle_descriptors: 2048,
            max_buffer_bytes: 64 << 20,
            max_bandwidth_bps: None,
            max_sent_bps: Some(1_000_000_000),
            // Threaded interrupt handlers have 50.
            max_priority: 49,
            allow_other_addresses: false,
            allow_explain: false,
            explain_names: false,
        }
    }
}

impl Limits {
    /// For an endpoint that serves one measurement, whose key no one else has.
    pub fn trusted() -> Self {
        Self {
            max_session_s: 3600,
            max_sent_bps: None,
            max_priority: any_priority(),
            allow_other_addresses: true,
            allow_explain: true,
            explain_names: true,
            ..Self::default()
        }
    }

    /// Payload bits a second that a stream may carry in one direction; absent: no limit.
    pub fn stream_bps(&self, datagrams: bool, down: bool) -> Option<u64> {
        let sent = self.max_sent_bps.filter(|_| datagrams && down);
        [self.max_bandwidth_bps, sent].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_of_an_older_build_limits_what_it_names() {
        let mut value = serde_json::to_value(Limits::default()).unwrap();
        let fields = value.as_object_mut().unwrap();
        for later in ["max_sent_bps", "max_priority", "allow_other_addresses"] {
            fields.remove(later);
        }
        let read: Limits = serde_json::from_value(value).unwrap();
        assert_eq!((read.max_sent_bps, read.max_priority, read.allow_other_addresses), (None, 99, true));
    }

    #[test]
    fn only_datagrams_to_the_client_have_the_second_limit() {
        let limits = Limits { max_bandwidth_bps: Some(2000), max_sent_bps: Some(1000), ..Limits::default() };
        let of = |datagrams, down| limits.stream_bps(datagrams, down);
        assert_eq!([of(true, true), of(true, false), of(false, true)], [Some(1000), Some(2000), Some(2000)]);
        assert_eq!(Limits { max_sent_bps: None, ..limits }.stream_bps(true, true), Some(2000));
        assert_eq!(Limits::trusted().stream_bps(true, true), None);
    }
}
