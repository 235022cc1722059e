//! The worker contract: a spec as JSON on stdin, events as JSON lines on stdout.
//!
//! Preloaded libraries may print before `main` runs, so a reader takes only lines that begin with [`LINE_MARK`] and
//! passes all others on to stderr. A foreign program keeps the contract by printing one such line with a result.

use crate::result::Outlier;
use crate::{Limits, LoadReport, LoadSpec, ProbeSpec, ResultDocument};
use std::collections::BTreeMap;

/// What each line of the contract begins with; the rest of the line is a [`WorkerEvent`] as JSON.
pub const LINE_MARK: &str = "\u{1}windhover ";

/// Where an endpoint is and what opens it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Target {
    /// Address and port of the control connection; empty for protocols within one machine.
    pub control: String,
    /// The shared key in hexadecimal.
    pub key: Option<String>,
    /// What results call its host; by default as `control`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A measurement to make.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub struct ProbeTask {
    pub spec: ProbeSpec,
    pub target: Target,
    /// Factors to store with each result, beside `protocol` and `size`.
    #[serde(default)]
    pub factors: BTreeMap<String, serde_json::Value>,
    /// Tell each interval while it runs.
    #[serde(default)]
    pub live: bool,
    /// Further endpoints that answer the same messages (`pace`): each gets every message, with figures of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Target>,
}

impl ProbeTask {
    /// A measurement against one endpoint, without factors and reported only at its end.
    pub fn new(spec: ProbeSpec, target: Target) -> Self {
        Self { spec, target, factors: BTreeMap::new(), live: false, others: Vec::new() }
    }
}

/// An endpoint to run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EndpointTask {
    /// Address to bind; port 0 lets the system choose.
    pub bind: String,
    /// The shared key in hexadecimal.
    pub key: Option<String>,
    /// What clients may ask for.
    pub limits: Limits,
}

/// What a worker reads on stdin.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum WorkerSpec {
    /// Measure and exit.
    Probe(Box<ProbeTask>),
    /// Reflect until stdin closes.
    Endpoint(EndpointTask),
    /// Load the machine until stdin closes.
    Load(LoadSpec),
}

/// The environment variable that makes `windhover worker` a reflector on descriptors that its starter made; its value
/// is an [`Inherited`] as text. Such a worker reads no spec and writes no events.
pub const INHERITED_VARIABLE: &str = "WINDHOVER_INHERITED";

/// Descriptors that a reflector was started with, by number: `PROTOCOL CONTROL READ [WRITE]`, such as
/// `unix-stream 3 4` or `pipe 3 4 5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    /// What carries the messages: `unix-stream`, `unix-dgram` or `pipe`.
    pub protocol: crate::Protocol,
    /// One end of a pair of UNIX stream sockets: the control connection.
    pub control: i32,
    /// Messages come from here: a socket, or the read end of a pipe.
    pub read: i32,
    /// Answers go here when that is another descriptor: the write end of a pipe.
    pub write: Option<i32>,
}

impl std::fmt::Display for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.protocol, self.control, self.read)?;
        self.write.map_or(Ok(()), |write| write!(f, " {write}"))
    }
}

impl std::str::FromStr for Inherited {
    type Err = crate::ModelError;

    fn from_str(text: &str) -> Result<Self, crate::ModelError> {
        let wrong = |why: &str| crate::ModelError::grammar(INHERITED_VARIABLE, text, why);
        let mut words = text.split_ascii_whitespace();
        let protocol: crate::Protocol = words.next().ok_or_else(|| wrong("it is empty"))?.parse()?;
        let numbers = words
            .map(|word| word.parse::<i32>().ok().filter(|&number| number > 2))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| wrong("descriptors are numbers of 3 or more"))?;
        let (control, read, write) = match (numbers.as_slice(), protocol) {
            (&[control, read], crate::Protocol::UnixStream | crate::Protocol::UnixDgram) => (control, read, None),
            (&[control, read, write], crate::Protocol::Pipe | crate::Protocol::Shm) => (control, read, Some(write)),
            _ => return Err(wrong("expected 'unix-stream 3 4', 'unix-dgram 3 4', 'pipe 3 4 5' or 'shm 3 4 5'")),
        };
        Ok(Self { protocol, control, read, write })
    }
}

/// All that one size left behind.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// The result document.
    pub result: ResultDocument,
    /// HdrHistogram interval log (V2) with tags, as text.
    #[serde(default)]
    pub hlog: String,
    /// The worst messages and those over the threshold.
    #[serde(default)]
    pub outliers: Vec<Outlier>,
    /// The kernel's events around the worst of the messages that were explained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<crate::EventWindow>,
    /// What happened when, as far as the probe knows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<crate::Event>,
    /// Raw samples, base64 of little-endian columns, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The packets as a pcapng file, base64, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
}

impl Measured {
    /// A result with nothing beside it.
    pub fn new(result: ResultDocument) -> Self {
        let (hlog, outliers) = (String::new(), Vec::new());
        Self { result, hlog, outliers, windows: Vec::new(), events: Vec::new(), raw: None, capture: None }
    }
}

/// What a worker writes on stdout.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum WorkerEvent {
    /// An endpoint listens, or a load is steady.
    Ready {
        /// Address and port of the control connection, for an endpoint.
        address: Option<String>,
    },
    /// An interval of the running measurement is over; reported only when asked for ([`ProbeTask::live`]).
    Interval(Box<crate::LiveInterval>),
    /// One size is measured.
    Measured(Box<Measured>),
    /// A load ended.
    Load(LoadReport),
    /// The worker gives up; what was measured so far came before.
    Failed {
        /// The design's exit code.
        code: u8,
        /// One line naming the thing and the remedy.
        message: String,
    },
    /// Nothing more will come.
    Done,
}

impl WorkerEvent {
    /// The event as a line of the contract, newline included. It begins with a newline of its own, so that half a line
    /// printed by somebody else does not swallow it.
    pub fn line(&self) -> String {
        let body = serde_json::to_string(self).unwrap_or_default();
        format!("\n{LINE_MARK}{body}\n")
    }

    /// Reads one line; `None` without the mark. Errors: [`crate::ModelError::Document`] for a line that does not parse.
    pub fn from_line(line: &[u8]) -> Result<Option<Self>, crate::ModelError> {
        parse_line(line)
    }

    /// The name of the event on a line, such as `measured`. Reads nothing else of the event and keeps nothing of it.
    /// Errors: [`crate::ModelError::Document`] for a marked line that is no JSON object or has no event.
    pub fn name_on_line(line: &[u8]) -> Result<Option<String>, crate::ModelError> {
        #[derive(serde::Deserialize)]
        struct Name {
            event: String,
        }
        parse_line::<Name>(line).map(|name| name.map(|name| name.event))
    }
}

fn parse_line<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<Option<T>, crate::ModelError> {
    let Some(body) = line.strip_prefix(LINE_MARK.as_bytes()) else { return Ok(None) };
    serde_json::from_slice(body)
        .map(Some)
        .map_err(|error| crate::ModelError::Document { what: "worker's line".to_owned(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    #[test]
    fn inherited_descriptors_read_back() {
        for (text, write) in
            [("unix-stream 3 4", None), ("unix-dgram 7 9", None), ("pipe 3 4 5", Some(5)), ("shm 3 4 5", Some(5))]
        {
            let inherited: Inherited = text.parse().unwrap();
            assert_eq!(inherited.to_string(), text);
            assert_eq!(inherited.write, write);
        }
        assert_eq!("pipe 3 4 5".parse::<Inherited>().unwrap().protocol, Protocol::Pipe);
        for text in
            ["", "pipe", "pipe 3 4", "unix-stream 3", "unix-stream 3 4 5", "tcp 3 4", "pipe 0 1 2", "pipe a b c"]
        {
            assert!(text.parse::<Inherited>().is_err(), "{text}");
        }
    }
}
