//! What can end a campaign. Each message is one line with the remedy.

use crate::HostError;
use lab::{LabError, PipeError};
use model::{CpuList, ModelError, Substrate};
use std::io;
use std::path::PathBuf;
use store::StoreError;

/// A campaign that could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    #[error(transparent)]
    Plan(#[from] ModelError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A host's agent could not be opened: it does not start, or it is of another build.
    #[error(transparent)]
    Pipe(#[from] PipeError),
    #[error(transparent)]
    Host(HostError),
    /// A host cannot come to a kernel of the plan; nothing was changed.
    #[error("kernel '{kernel}': {cause}")]
    Kernel { kernel: model::KernelChoice, cause: HostError },
    #[error("{}: {cause}; without it the run does not go on after a boot: make the folder writable", .link.display())]
    Link { link: PathBuf, cause: io::Error },
    #[error("the plan has no reflector: set roles.reflectors = [\"b\"]")]
    MissingReflector,
    #[error("host '{0}' has no address to send messages to: set hosts.{0}.address")]
    NoAddress(String),
    #[error("{cause}; its agent undoes its changes and ends when its pipe breaks; go on with 'windhover campaign resume {}'", .run.display())]
    AgentLost { run: PathBuf, cause: HostError },
    #[error("{times} cells in a row failed alike, the last with: {why}; mend that, then 'windhover campaign resume {}' goes on", .run.display())]
    SameFailure { run: PathBuf, times: u32, why: String },
    #[error("host '{host}' has no CPU {cpu}: use {online} for the {what} in the plan")]
    NoSuchCpu { host: String, cpu: u32, what: &'static str, online: CpuList },
    #[error(
        "host '{host}' is another computer than when the run began ({what}: '{before}' then, '{now}' now): start a new run there"
    )]
    OtherHost { host: String, what: &'static str, before: String, now: String },
    #[error("the run began on {before} and would go on on {now}: start a new run there")]
    OtherSubstrate { before: Substrate, now: Substrate },
    /// `plan.toml` in the run directory no longer has a cell of the run's order.
    #[error("{}: has no cell '{cell}', which run.json expects: put the plan back as it was, or start a new run", .plan.display())]
    PlanChanged { plan: PathBuf, cell: String },
    #[error("cannot read /dev/urandom: {0}")]
    Random(io::Error),
}

impl CampaignError {
    /// The design's exit code: 2 for plan and usage, 5 for a lost host, 130 for an interruption, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(_)
            | Self::MissingReflector
            | Self::NoAddress { .. }
            | Self::NoSuchCpu { .. }
            | Self::OtherHost { .. }
            | Self::OtherSubstrate { .. }
            | Self::PlanChanged { .. } => 2,
            Self::AgentLost { .. } | Self::Host(HostError::Lost { .. }) => 5,
            Self::Kernel { cause: HostError::Lost { .. }, .. } => 5,
            Self::Kernel { .. } => 2,
            Self::Host(HostError::Interrupted) => 130,
            Self::Store(error) => error.exit_code(),
            Self::Lab(error) => match error {
                LabError::Registry { .. } | LabError::Failed(_) => 1,
                LabError::Interrupted => 130,
                _ => 2,
            },
            Self::Pipe(error) => error.exit_code(),
            Self::Host(_) | Self::Link { .. } | Self::SameFailure { .. } | Self::Random { .. } => 1,
        }
    }
}
