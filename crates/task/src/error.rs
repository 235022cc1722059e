//! What can fail, with the operand, the system's error and the remedy where there is one.

use model::{CpuList, Policy};
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error(
        "policy {0} is not permitted: real-time policies need root, CAP_SYS_NICE or RLIMIT_RTPRIO of at least the priority (limits.conf(5): rtprio)"
    )]
    PolicyNotPermitted(Policy),
    #[error("CPU {cpu} does not exist here: use {available}")]
    NoSuchCpu { cpu: u32, available: CpuList },
    #[error("CPU {cpu} is not allowed for this process (its cpuset leaves it out): use {available}")]
    CpuNotAllowed { cpu: u32, available: CpuList },
    #[error("the list of CPUs is empty: name at least one, as in 0,2-5")]
    NoCpu,
    #[error(
        "memory cannot be locked ({cause}): raise RLIMIT_MEMLOCK (now {limit}; limits.conf(5): memlock) or give CAP_IPC_LOCK"
    )]
    LockMemory { limit: String, cause: io::Error },
    #[error("the {name} thread cannot be started: {cause}")]
    Thread { name: &'static str, cause: io::Error },
    /// A program that is not there or may not be executed. The remedy brings its punctuation and may be empty.
    #[error("{program} cannot be started: {cause}{remedy}")]
    Start { program: String, cause: io::Error, remedy: &'static str },
    /// Anything else that the system refused, with a remedy as above.
    #[error("{what}: {cause}{remedy}")]
    Refused { what: String, cause: io::Error, remedy: &'static str },
    /// A program that did not end in the time given; it was killed.
    #[error("{program} did not end within {timeout_ms} ms and was killed")]
    TimedOut { program: String, timeout_ms: u128 },
}

impl TaskError {
    pub(crate) fn refused(what: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self::Refused { what: what.into(), cause: cause.into(), remedy: "" }
    }

    pub(crate) fn scheduling(what: impl Into<String>, cause: io::Error) -> Self {
        let remedy = remedy_of(&cause);
        Self::Refused { what: what.into(), cause, remedy }
    }

    /// The system's error, where there is one.
    pub fn into_cause(self) -> io::Error {
        match self {
            Self::LockMemory { cause, .. }
            | Self::Thread { cause, .. }
            | Self::Start { cause, .. }
            | Self::Refused { cause, .. } => cause,
            error @ Self::TimedOut { .. } => io::Error::new(io::ErrorKind::TimedOut, error.to_string()),
            error => io::Error::other(error.to_string()),
        }
    }
}

fn remedy_of(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::EPERM) => {
            "; it needs root, CAP_SYS_NICE or a limit (limits.conf(5): rtprio, nice), a control group with real-time \
             time, and for SCHED_DEADLINE all CPUs of its scheduling domain"
        }
        Some(libc::EBUSY) => "; SCHED_DEADLINE has not so much CPU time left",
        Some(libc::EINVAL) => {
            "; the kernel takes priorities of 1 to 99, nice values of -20 to 19, and runtime <= deadline <= period"
        }
        _ => "",
    }
}
