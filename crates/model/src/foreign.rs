//! Foreign workers: programs of others that are the initiator of a measurement. docs/foreign-workers.md is the contract.

use crate::error::within;
use crate::{Gap, ModelError, Policy, Probe, ProbeSpec, Protocol};

/// Version of the contract. It rises only when a meaning changes; new keys do not change it.
pub const CONTRACT: u32 = 1;
/// A line of a worker that is longer than this many bytes is none of the contract.
pub const LONGEST_LINE: usize = 4096;
/// What the runner writes once the measurement may begin.
pub const START: &str = "start";

/// What a foreign worker reads on its first line of standard input: one flat JSON object. Absent keys do not apply.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ForeignTask {
    /// [`CONTRACT`].
    pub contract: u32,
    /// `pingpong` or `wake`.
    pub measure: Probe,
    /// `udp` or `tcp`; `timer` of `wake`.
    pub protocol: String,
    /// The reflector's address, without port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<String>,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_port: Option<u16>,
    /// Bytes in hexadecimal that prove the data path to the reflector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<String>,
    /// Bytes 8 to 15 of each message that has room for them, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Message size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Time between two deadlines of `wake` in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<u32>,
    /// Untimed rounds for at least so long.
    pub warmup_ms: u32,
    /// And at least so many.
    pub warmup_count: u32,
    /// Timed rounds for so long at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<u32>,
    /// So many timed rounds at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_count: Option<u64>,
    /// A message is lost after so many ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// The policy that the program was started with: `other`, `fifo:80`.
    #[schemars(with = "String")]
    pub policy: Policy,
    /// The CPU that it was started on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl ForeignTask {
    /// The task of a specification, without the peer.
    pub fn of(spec: &ProbeSpec, size: u32) -> Self {
        let has_peer = spec.probe() == Probe::Pingpong;
        Self {
            contract: CONTRACT,
            measure: spec.probe(),
            protocol: Protocol::word_of(spec.protocol()).to_owned(),
            peer_address: None,
            peer_port: None,
            hello: None,
            tag: None,
            size: has_peer.then_some(size),
            interval_us: spec.interval_us,
            warmup_ms: spec.warmup.time_ms,
            warmup_count: if has_peer { spec.warmup.count } else { 0 },
            max_ms: Some(spec.stop.max_ms).filter(|ms| *ms != u32::MAX),
            max_count: Some(spec.stop.max_count).filter(|count| *count != u64::MAX),
            timeout_ms: has_peer.then_some(spec.timeout_ms),
            policy: spec.initiator.policy,
            cpu: spec.initiator.cpu,
        }
    }
}

/// What a foreign worker writes as a JSON object on a line.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ForeignEvent {
    /// All is prepared: it begins once it reads [`START`].
    Ready {
        /// The contract that it keeps.
        contract: u32,
        /// Its name: letters, digits, `-`, `_` and `.`, 40 at most.
        name: String,
        /// Its version.
        #[serde(default)]
        version: Option<String>,
        /// Which clock its time stamps are of, in its own words.
        clock: String,
        /// The unit of its time stamps: 1000000000 for ns.
        ticks_per_second: u64,
    },
    /// All samples are written.
    End,
    /// It gives up.
    Failed {
        /// Why, on one line.
        message: String,
    },
}

/// One round or wake-up: `SEQ SENT RECEIVED`, in ticks; `-` in the place of the last for a message that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignSample {
    /// Its number, each one larger than the one before.
    pub seq: u64,
    /// When the send call was made; of `wake` the deadline.
    pub sent: u64,
    /// When the receive call had returned, or the thread had woken up; absent for a lost message.
    pub received: Option<u64>,
}

/// A line of a foreign worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignLine {
    /// An object.
    Event(ForeignEvent),
    /// A sample.
    Sample(ForeignSample),
}

impl ForeignLine {
    /// Reads a line without its newline. Errors: in words, what is wrong with it.
    pub fn read(line: &str) -> Result<Self, String> {
        if line.starts_with('{') {
            return serde_json::from_str(line).map(Self::Event).map_err(|error| error.to_string().replace('\n', " "));
        }
        let mut words = line.split_ascii_whitespace();
        let sample = (|| {
            let (seq, sent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let received = match words.next()? {
                "-" => None,
                word => Some(word.parse().ok()?),
            };
            words.next().is_none().then_some(ForeignSample { seq, sent, received })
        })();
        sample.map(Self::Sample).ok_or_else(|| "it is neither 'SEQ SENT RECEIVED' nor an event".to_owned())
    }
}

/// Whether a name may stand in factors and file names.
pub fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !name.is_empty() && name.len() <= 40 && name.chars().all(plain)
}

/// Checks what a specification asks of a foreign worker.
pub(crate) fn check(spec: &ProbeSpec) -> Result<(), ModelError> {
    if spec.foreign.is_empty() {
        return Ok(());
    }
    let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(format!("a foreign worker {what}"), remedy));
    if !matches!(spec.probe(), Probe::Pingpong | Probe::Wake) {
        return conflict(&format!("cannot be the initiator of {}", spec.probe()), "use pingpong or wake");
    }
    if let Some(socket) = &spec.socket {
        if !matches!(socket.protocol, Protocol::Udp | Protocol::Tcp) {
            return conflict(&format!("is given no path over {}", socket.protocol), "use udp or tcp");
        }
        if socket.multicast.is_some() {
            return conflict("is given no multicast group", "leave the group out");
        }
    }
    if spec.wake().is_some_and(|wake| !wake.cpus.is_empty() || wake.timer_slack_ns.is_some()) {
        return conflict(
            "has one thread, and its own timer slack",
            "give --cpu one CPU, and leave --timer-slack-ns out",
        );
    }
    if spec.pings != 1 || spec.pongs != 1 || spec.gap != Gap::default() {
        return conflict("sends one message after the other", "leave --pings, --pongs and the gaps out");
    }
    if spec.stop.interval_percent.is_some() || spec.stop.min_ms > 0 || spec.stop.min_count > 1 {
        return conflict("ends by time or count", "leave --interval, --min-seconds and --min-count out");
    }
    within("time-out", spec.timeout_ms, 1..=60_000, "1 to 60000 ms for a foreign worker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_worker() {
        let sample = |received| Ok(ForeignLine::Sample(ForeignSample { seq: 1, sent: 20, received }));
        assert_eq!(ForeignLine::read("1 20 30"), sample(Some(30)));
        assert_eq!(ForeignLine::read(" 1  20 - "), sample(None));
        assert_eq!(ForeignLine::read("{\"event\":\"end\",\"more\":1}"), Ok(ForeignLine::Event(ForeignEvent::End)));
        for line in ["", "1", "1 2", "1 2 3 4", "1 2 x", "-1 2 3", "hello", "{\"event\":\"bye\"}", "{", "1,2,3"] {
            assert!(ForeignLine::read(line).is_err(), "{line}");
        }
        assert!(is_name("udp-pingpong_1.0") && !is_name("") && !is_name("a b") && !is_name(&"a".repeat(41)));
    }

    #[test]
    fn what_a_foreign_worker_cannot_do_is_refused() {
        let of = |probe, protocol: Option<Protocol>| {
            let mut spec = ProbeSpec::new(probe, protocol);
            spec.foreign = vec!["./w".to_owned()];
            spec
        };
        assert!(of(Probe::Pingpong, Some(Protocol::Udp)).check().is_ok());
        assert!(of(Probe::Wake, None).check().is_ok());
        for spec in [of(Probe::Rr, Some(Protocol::Udp)), of(Probe::Pingpong, Some(Protocol::Pipe))] {
            assert!(spec.check().unwrap_err().to_string().contains("foreign worker"));
        }
        let mut spec = of(Probe::Pingpong, Some(Protocol::Udp));
        spec.pings = 2;
        assert!(spec.check().is_err());
    }

    #[test]
    fn the_task_is_one_flat_line() {
        let mut spec = ProbeSpec::new(Probe::Pingpong, Protocol::Udp);
        spec.stop.max_count = 10;
        spec.stop.max_ms = u32::MAX;
        let text = serde_json::to_string(&ForeignTask::of(&spec, 64)).unwrap();
        assert!(!text.contains('\n') && text.matches('{').count() == 1 && !text.contains('['), "{text}");
        assert!(text.contains("\"max_count\":10") && !text.contains("max_ms") && !text.contains('\\'), "{text}");
    }
}
