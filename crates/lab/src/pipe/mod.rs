//! Pipes to agents: opening them, and asking through them, one request at a time.
//!
//! While a probe runs nothing travels but the intervals that are watched; this end only looks at its cancel flag ten
//! times a second.

mod client;
mod transport;

pub use client::Client;

use crate::LabError;
use crate::build::LabHost;
use std::path::{Path, PathBuf};

/// A command whose stdin and stdout are a pipe to an agent, or the socket of an agent that a guest starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    pub argv: Vec<String>,
    pub netns: Option<PathBuf>,
    /// A Unix socket that is the pipe; nothing is started then.
    pub socket: Option<PathBuf>,
    /// How many times longer than usual an answer may take: a guest's time may run slower than this machine's.
    pub patience: u32,
}

impl AgentCommand {
    /// `PROGRAM agent` on a host of a lab.
    pub fn on_lab_host(program: &Path, host: &LabHost) -> Self {
        Self { netns: host.netns_path(), ..Self::of(&[program.to_string_lossy().into_owned(), "agent".to_owned()]) }
    }

    /// Any command, such as `ssh b windhover agent`.
    pub fn of(argv: &[String]) -> Self {
        Self { argv: argv.to_vec(), netns: None, socket: None, patience: 1 }
    }

    /// The socket of an agent's pipe, such as a guest has.
    pub fn at_socket(socket: PathBuf, patience: u32) -> Self {
        Self { socket: Some(socket), patience, ..Self::of(&[]) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    /// The agent could not be started. The cause is no `source`: the message has it already.
    #[error("host {host}: {why}")]
    Start { host: String, why: LabError },
    #[error(transparent)]
    Build(#[from] wire::agent::BuildMismatch),
    #[error("host {host} was lost: {why}")]
    Lost { host: String, why: String },
    #[error("host {host} did not answer within {seconds} s while it was asked to {step}")]
    Silent { host: String, step: &'static str, seconds: u64 },
    /// The agent answered something else than what was asked for.
    #[error("host {host} answered out of turn when asked to {step}: use the same windhover at both ends")]
    OutOfTurn { host: String, step: &'static str },
    /// The request failed there, with the design's exit code; the agent goes on.
    #[error("host {host}: {message}")]
    Failed { host: String, code: u8, message: String },
}

impl PipeError {
    /// The design's exit code: 5 for a lost host, 2 for a command or build to be put right, else the agent's.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { .. } | Self::Build(_) => 2,
            Self::Lost { .. } | Self::Silent { .. } | Self::OutOfTurn { .. } => 5,
            Self::Failed { code, .. } => *code,
        }
    }

    /// Whether the agent has ended and the client cannot be used again.
    pub fn is_lost(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Hash of its binary.
    pub build: String,
    /// Boot id of its machine: hosts that share it are one machine.
    pub boot_id: String,
    pub hostname: String,
    pub uid: u32,
    pub pid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedEndpoint {
    /// Names it in [`Client::stop_endpoint`].
    pub id: u32,
    /// Address and port of its control connection.
    pub address: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedLoad {
    /// Names it in [`Client::stop_load`].
    pub id: u32,
    /// Whether it was steady within the time given.
    pub steady: bool,
    pub steady_after_ns: u64,
}
