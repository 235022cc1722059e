//! What can fail, with the operand, the system's error and the remedy where there is one.

use model::{CpuList, Policy};
use std::io;
use std::path::PathBuf;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A real-time policy that this user may not have.
    #[error(
        "policy {0} is not permitted: real-time policies need root, CAP_SYS_NICE or RLIMIT_RTPRIO of at least the priority (limits.conf(5): rtprio)"
    )]
    PolicyNotPermitted(Policy),
    /// A policy that the kernel refused for another reason.
    #[error("policy {policy} cannot be set: {cause}")]
    Policy {
        /// What was asked for.
        policy: Policy,
        /// The system's error.
        cause: io::Error,
    },
    /// The policy of a thread that cannot be read.
    #[error("the policy of thread {thread} cannot be read: {cause}")]
    PolicyOf {
        /// The thread; 0 is the calling one.
        thread: i32,
        /// The system's error.
        cause: io::Error,
    },
    /// The attributes of a thread cannot be set or read.
    #[error("the scheduling of thread {thread} cannot be {step}: {cause}{}", remedy_of(cause))]
    Attributes {
        /// The thread; 0 is the calling one.
        thread: i32,
        /// `set` or `read`.
        step: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// A network namespace cannot be entered.
    #[error("network namespace {file} cannot be {step}: {cause}{}", remedy_of(cause))]
    EnterNetwork {
        /// The file that stands for it.
        file: PathBuf,
        /// `opened`, `entered` or `given its own /sys`.
        step: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// The timer slack cannot be set.
    #[error("the timer slack cannot be set: {0}")]
    TimerSlack(io::Error),
    /// A CPU that the machine does not have.
    #[error("CPU {cpu} does not exist here: use {available}")]
    NoSuchCpu {
        /// What was asked for.
        cpu: u32,
        /// The CPUs that are online.
        available: CpuList,
    },
    /// A CPU that exists but that this process' cpuset leaves out.
    #[error("CPU {cpu} is not allowed for this process (its cpuset leaves it out): use {available}")]
    CpuNotAllowed {
        /// What was asked for.
        cpu: u32,
        /// The CPUs that are online.
        available: CpuList,
    },
    /// A set of CPUs without a member.
    #[error("the list of CPUs is empty: name at least one, as in 0,2-5")]
    NoCpu,
    /// CPUs that cannot be read or set.
    #[error("the CPUs of this thread cannot be {what}: {cause}")]
    Affinity {
        /// "read" or "set to 0-3".
        what: String,
        /// The system's error.
        cause: io::Error,
    },
    /// What another thread cannot be given.
    #[error("thread {thread}: its {what}: {cause}")]
    OfThread {
        /// The thread.
        thread: i32,
        /// "CPUs cannot be set to 0-3", "policy cannot be set to fifo:1".
        what: String,
        /// The system's error.
        cause: io::Error,
    },
    /// Memory that cannot be locked.
    #[error(
        "memory cannot be locked ({cause}): raise RLIMIT_MEMLOCK (now {limit}; limits.conf(5): memlock) or give CAP_IPC_LOCK"
    )]
    LockMemory {
        /// The present limit: bytes or "unlimited".
        limit: String,
        /// The system's error.
        cause: io::Error,
    },
    /// A resource limit that cannot be set.
    #[error("{name} cannot be set to {wanted}: {cause}{remedy}")]
    Limit {
        /// Its name, such as RLIMIT_RTTIME.
        name: &'static str,
        /// The value asked for.
        wanted: u64,
        /// The system's error.
        cause: io::Error,
        /// What to do, with its punctuation; may be empty.
        remedy: &'static str,
    },
    /// A signal's handler that cannot be installed.
    #[error("the handler of signal {signal} cannot be installed: {cause}")]
    Handler {
        /// Its number.
        signal: i32,
        /// The system's error.
        cause: io::Error,
    },
    /// A thread that cannot be started.
    #[error("the {name} thread cannot be started: {cause}")]
    Thread {
        /// What it is for.
        name: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// A network namespace that cannot be opened.
    #[error("network namespace {}: {cause}", path.display())]
    Namespace {
        /// Where it should be.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A program that is not there or may not be executed.
    #[error("{program} cannot be started: {cause}{remedy}")]
    Start {
        /// The program as named.
        program: String,
        /// The system's error.
        cause: io::Error,
        /// What to do, with its punctuation; may be empty.
        remedy: &'static str,
    },
    /// A step between fork and exec that failed.
    #[error("{program} cannot be started: {step}: {cause}{remedy}")]
    Prepare {
        /// The program as named.
        program: String,
        /// What was being done in the child.
        step: String,
        /// The system's error.
        cause: io::Error,
        /// What to do, with its punctuation; may be empty.
        remedy: &'static str,
    },
    /// A child that cannot be waited for.
    #[error("{program} (process {pid}) cannot be waited for: {cause}")]
    Wait {
        /// The program as named.
        program: String,
        /// Its process id.
        pid: u32,
        /// The system's error.
        cause: io::Error,
    },
    /// A child that cannot be signalled.
    #[error("{program} (process {pid}) cannot be signalled: {cause}")]
    Signal {
        /// The program as named.
        program: String,
        /// Its process id.
        pid: u32,
        /// The system's error.
        cause: io::Error,
    },
    /// The pipes of a child that cannot be read or written.
    #[error("{program}: its {stream} cannot be used: {cause}")]
    Pipe {
        /// The program as named.
        program: String,
        /// Which stream.
        stream: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// A program that did not end in the time given; it was killed.
    #[error("{program} did not end within {timeout_ms} ms and was killed")]
    TimedOut {
        /// The program as named.
        program: String,
        /// The time it was given.
        timeout_ms: u128,
    },
}

impl TaskError {
    /// The system's error, where there is one.
    #[must_use]
    pub fn into_cause(self) -> io::Error {
        match self {
            Self::Policy { cause, .. }
            | Self::PolicyOf { cause, .. }
            | Self::Attributes { cause, .. }
            | Self::TimerSlack(cause)
            | Self::Affinity { cause, .. }
            | Self::OfThread { cause, .. }
            | Self::LockMemory { cause, .. }
            | Self::Limit { cause, .. }
            | Self::Handler { cause, .. }
            | Self::Thread { cause, .. }
            | Self::Namespace { cause, .. }
            | Self::Start { cause, .. }
            | Self::Prepare { cause, .. }
            | Self::Wait { cause, .. }
            | Self::Signal { cause, .. }
            | Self::Pipe { cause, .. } => cause,
            error @ Self::TimedOut { .. } => io::Error::new(io::ErrorKind::TimedOut, error.to_string()),
            error => io::Error::other(error.to_string()),
        }
    }
}

/// What to do about a scheduling that the kernel refuses.
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
