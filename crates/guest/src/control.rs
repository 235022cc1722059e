//! The messages of the control port: one JSON object a line.
//!
//! Guest and host are one program of one build, so the form may change with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufRead, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr};

pub const CONTROL: &str = "windhover.control";

pub fn agent_port(name: &str) -> String {
    format!("windhover.agent.{name}")
}

/// The agent of the whole guest, in its first network namespace. No host has a name of more than one letter.
pub const MACHINE: &str = "machine";

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GuestHost {
    /// `a`, `b` …
    pub name: String,
    /// Its network namespace in the guest.
    pub netns: Option<String>,
    pub ipv4: Ipv4Addr,
    pub ipv6: Option<Ipv6Addr>,
    /// The device that carries them.
    pub device: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Up {
    pub hosts: Vec<GuestHost>,
    pub release: String,
    pub boot_id: String,
    pub command_line: String,
    /// Guest time since its kernel started, in ms.
    pub uptime_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToGuest {
    /// Run a program on a host, or in the guest's first namespace. Several may run at once.
    Run {
        /// Identifies the program in messages about it.
        id: u32,
        host: Option<String>,
        argv: Vec<String>,
    },
    Signal {
        id: u32,
        signal: i32,
    },
    PowerOff,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromGuest {
    Up(Up),
    /// It cannot become ready: why.
    Failed(String),
    /// A line for people, from an agent or the first process.
    Note(String),
    Program {
        id: u32,
        event: ProgramEvent,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEvent {
    /// It wrote this (base64).
    Output {
        /// To standard error rather than standard output.
        error: bool,
        bytes: String,
    },
    /// It ended, with the status that a shell would give it.
    Ended(i32),
    /// It could not be started: why.
    Failed(String),
}

impl ProgramEvent {
    pub fn output(error: bool, bytes: &[u8]) -> Self {
        Self::Output { error, bytes: STANDARD.encode(bytes) }
    }
}

pub fn decoded(bytes: &str) -> Vec<u8> {
    STANDARD.decode(bytes).unwrap_or_default()
}

/// The longest line, in bytes: a command line that Linux takes (6 MB at the most, usually 2 MB) is longest.
pub(crate) const LONGEST_LINE: usize = 8 << 20;

/// The next line of this type; none at the end of the port. Other lines, and those that are too long, are passed over.
pub(crate) fn next<T: serde::de::DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    loop {
        let mut line = Vec::new();
        let length = from.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line).ok()?;
        if length == 0 {
            return None;
        }
        if length == LONGEST_LINE && !line.ends_with(b"\n") {
            from.skip_until(b'\n').ok()?;
        } else if let Ok(said) = serde_json::from_slice(&line) {
            return Some(said);
        }
    }
}

pub(crate) fn line(value: &impl serde::Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a line of any length was kept and believed, and bytes that are no text ended a port.
    #[test]
    fn a_line_that_is_too_long_or_says_nothing_is_passed_over() {
        let note = |length| FromGuest::Note("x".repeat(length));
        let around = line(&note(0)).len();
        let (fits, too_long) = (note(LONGEST_LINE - around), note(LONGEST_LINE));
        let nothing = b"no json\n\xff\xfe\n\n".to_vec();
        let said = [line(&too_long), line(&fits), nothing, line(&note(1)), b"\"an end that is miss".to_vec()].concat();
        let mut port = std::io::BufReader::new(said.as_slice());
        assert!(next(&mut port) == Some(fits), "the longest line");
        assert_eq!(next(&mut port), Some(note(1)));
        assert_eq!(next::<FromGuest>(&mut port), None);
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let every: Vec<u8> = (0..=255).collect();
        let text = line(&ProgramEvent::output(true, &every));
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
        match serde_json::from_slice(&text).unwrap() {
            ProgramEvent::Output { error: true, bytes } => assert_eq!(decoded(&bytes), every),
            other => panic!("{other:?}"),
        }
    }
}
