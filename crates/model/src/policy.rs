//! Scheduling policies in their short written form (`other`, `batch`, `idle`, `fifo:N`, `rr:N`).

use crate::ModelError;
use std::fmt;
use std::str::FromStr;

/// A Linux scheduling policy with its priority where it has one (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Policy {
    /// SCHED_OTHER, the time-sharing class.
    #[default]
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO with a priority of 1 to 99.
    Fifo(u8),
    /// SCHED_RR with a priority of 1 to 99.
    Rr(u8),
}

impl Policy {
    /// Whether the policy is one of the real-time classes.
    pub fn is_real_time(self) -> bool {
        self.priority().is_some()
    }

    /// The real-time priority, 1 to 99; none of the other classes.
    pub fn priority(self) -> Option<u8> {
        match self {
            Self::Fifo(priority) | Self::Rr(priority) => Some(priority),
            Self::Other | Self::Batch | Self::Idle => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Batch => f.write_str("batch"),
            Self::Idle => f.write_str("idle"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::Rr(priority) => write!(f, "rr:{priority}"),
        }
    }
}

impl FromStr for Policy {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let lower = text.to_ascii_lowercase();
        let (name, priority) = match lower.split_once(':') {
            Some((name, priority)) => (name, Some(priority)),
            None => (lower.as_str(), None),
        };
        let name = name.strip_prefix("sched_").unwrap_or(name);
        let level = |default: u8| match priority {
            None => Ok(default),
            Some(digits) => digits.parse::<u8>().ok().filter(|p| (1..=99).contains(p)).ok_or_else(|| {
                ModelError::OutOfRange { what: "priority", given: digits.to_owned(), accepted: "1 to 99".to_owned() }
            }),
        };
        match (name, priority) {
            ("other", None) => Ok(Self::Other),
            ("batch", None) => Ok(Self::Batch),
            ("idle", None) => Ok(Self::Idle),
            ("fifo", _) => Ok(Self::Fifo(level(1)?)),
            ("rr", _) => Ok(Self::Rr(level(1)?)),
            _ => {
                let known = ["other", "batch", "idle", "fifo:1 to fifo:99", "rr:1 to rr:99"];
                Err(crate::words::unknown("policy", text, &known))
            }
        }
    }
}

text! { Policy { "type": "string", "pattern": "^(other|batch|idle|(fifo|rr):[1-9][0-9]?)$" } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for policy in [Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo(1), Policy::Rr(99)] {
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
        }
        assert_eq!("SCHED_FIFO:7".parse::<Policy>().unwrap(), Policy::Fifo(7));
        assert_eq!("fifo".parse::<Policy>().unwrap(), Policy::Fifo(1));
    }

    #[test]
    fn refuses_what_the_kernel_would() {
        for text in ["fifo:0", "fifo:100", "rr:x", "other:1", "deadline", ""] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }
}
