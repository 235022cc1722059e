//! An agent's pipe: requests one way, replies the other, in frames without MAC, between equal builds that trust each
//! other (a child, or ssh). It is quiet during a cell unless intervals are watched; results travel afterwards.

use crate::error::FrameError;
use crate::frame::{self, AGENT_LIMIT};
use crate::session::{from_payload, to_payload};
use model::worker::{EndpointTask, LINE_MARK, Measured, ProbeTask};
use model::{
    HostFacts, KernelChoice, KernelImage, LiveInterval, LoadReport, LoadSpec, MachineFacts, Setting, ShieldReport,
    ShieldSpec, WorkerEvent,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of the agent's protocol.
pub const PROTOCOL: u32 = 3;

/// How a worker is started, beside its spec: what makes a network stack of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LaunchSpec {
    /// Words before the worker's own command (`onload --profile=latency`).
    pub prefix: Vec<String>,
    /// Variables added to its environment (LD_PRELOAD, EF_*, VMA_*, XLIO_*).
    pub environment: BTreeMap<String, String>,
    /// Network namespace that it enters, where that is not the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Request {
    Hello {
        build: String,
        /// [`PROTOCOL`] of the runner.
        protocol: u32,
    },
    /// Asks for [`Reply::Facts`].
    Facts,
    /// Starts an endpoint as a worker; answered by [`Reply::EndpointReady`].
    StartEndpoint {
        task: EndpointTask,
        #[serde(default)]
        launch: LaunchSpec,
    },
    /// Stops an endpoint; answered by [`Reply::EndpointStopped`].
    StopEndpoint { id: u32 },
    /// Runs a probe: [`Reply::Interval`] if asked for, [`Reply::Measured`], then [`Reply::Done`] or [`Reply::Failed`].
    RunProbe {
        task: Box<ProbeTask>,
        #[serde(default)]
        launch: LaunchSpec,
    },
    /// Starts a load and waits until it is steady; answered by [`Reply::LoadSteady`].
    StartLoad {
        spec: LoadSpec,
        /// Longest wait for steadiness in ms.
        #[serde(default = "steady_ms")]
        timeout_ms: u32,
    },
    /// Stops a load; answered by [`Reply::LoadReport`].
    StopLoad { id: u32 },
    /// Changes settings ([`Reply::Prepared`]); earlier ones not asked for are restored first, all at the agent's end.
    Prepare {
        #[serde(default)]
        shield: Option<ShieldSpec>,
        #[serde(default)]
        settings: Vec<Setting>,
        /// The network device that keys beginning with `nic.` mean.
        #[serde(default)]
        device: Option<String>,
        /// Whether another agent of the same run has put up a shield on this machine: any other is refused.
        #[serde(default)]
        shielded: bool,
    },
    /// Puts back everything that [`Request::Prepare`] changed; answered by [`Reply::Restored`].
    Restore,
    /// Asks whether this machine can come to a kernel; answered by [`Reply::Kernel`]. Changes nothing.
    CheckKernel { kernel: KernelChoice },
    /// Brings this machine to a kernel; answered by [`Reply::GoingDown`] just before the machine goes down.
    EnterKernel { kernel: KernelChoice },
    /// Stops the probe that runs, which is answered by what it measured so far, then [`Reply::Failed`] with code 130; and
    /// the load that is not steady yet, which is answered by the latter alone.
    Cancel,
    /// Stops everything, undoes everything and exits; answered by [`Reply::Bye`].
    Bye,
}

fn steady_ms() -> u32 {
    20_000
}

/// An agent's replies. A probe's events stay the worker's lines ([`forward`]): megabytes that it need not parse.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    Hello {
        build: String,
        /// [`PROTOCOL`] of the agent.
        protocol: u32,
        boot_id: String,
        hostname: String,
        uid: u32,
        pid: u32,
    },
    Facts {
        machine: Box<MachineFacts>,
        host: Box<HostFacts>,
    },
    EndpointReady {
        id: u32,
        /// Address and port of its control connection.
        address: String,
    },
    /// An endpoint is gone.
    EndpointStopped {
        id: u32,
    },
    /// An interval of the probe that runs, forwarded.
    #[serde(skip)]
    Interval(Box<LiveInterval>),
    /// One size of a probe, forwarded.
    #[serde(skip)]
    Measured(Box<Measured>),
    /// A forwarded line that is no event of a probe; why. More lines may follow.
    #[serde(skip)]
    Unreadable(String),
    /// A probe is over.
    Done,
    LoadSteady {
        id: u32,
        /// Whether it is steady; otherwise the time for that ran out.
        steady: bool,
        /// How long it took, in ns.
        steady_after_ns: u64,
    },
    /// A load is gone.
    LoadReport {
        id: u32,
        report: Box<LoadReport>,
    },
    /// The machine is as asked for.
    Prepared {
        #[serde(default)]
        shield: Option<ShieldReport>,
        changed: u32,
        /// What is worth knowing: one line each.
        notes: Vec<String>,
    },
    /// The machine is as it was, but for what is listed.
    Restored {
        /// Knobs that another changed meanwhile or that resist: one line each.
        problems: Vec<String>,
    },
    /// The machine can come to a kernel.
    Kernel {
        image: KernelImage,
    },
    /// The machine goes down.
    GoingDown,
    /// The request failed; the agent goes on.
    Failed {
        /// The design's exit code.
        code: u8,
        /// One line naming the thing and the remedy.
        message: String,
    },
    /// Everything is undone; the agent exits.
    Bye,
}

/// The error of a runner that finds another build behind a pipe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent on host {host} is another build ({theirs}, this windhover is {ours}): copy this windhover there")]
pub struct BuildMismatch {
    /// Name of the host in the plan.
    pub host: String,
    /// Build and protocol of the agent.
    pub theirs: String,
    /// Build and protocol of this end.
    pub ours: String,
}

/// Checks an agent's [`Reply::Hello`] against this build. Errors: [`BuildMismatch`] naming the host.
pub fn check_build(host: &str, ours: &str, theirs: &str, their_protocol: u32) -> Result<(), BuildMismatch> {
    if ours == theirs && their_protocol == PROTOCOL {
        return Ok(());
    }
    let words = |build: &str, protocol: u32| {
        // All that `--version` names: the version and 16 digits.
        format!("{} protocol {protocol}", model::text::excerpt(build, 32))
    };
    Err(BuildMismatch { host: host.to_owned(), theirs: words(theirs, their_protocol), ours: words(ours, PROTOCOL) })
}

impl Request {
    /// The request as a frame. Errors: [`FrameError::TooLong`] above [`AGENT_LIMIT`].
    pub fn to_frame(&self) -> Result<Vec<u8>, FrameError> {
        to_frame(self, "a request")
    }

    /// Reads a frame's payload. Errors: [`FrameError::Payload`] for anything that is no request.
    pub fn from_payload(payload: &[u8]) -> Result<Self, FrameError> {
        from_payload(payload, "a request")
    }
}

impl Reply {
    /// The reply as a frame. Errors: [`FrameError::TooLong`]; [`FrameError::Payload`] for what is forwarded instead.
    pub fn to_frame(&self) -> Result<Vec<u8>, FrameError> {
        to_frame(self, "a reply")
    }

    /// Reads a payload. Errors: [`FrameError::Payload`] for anything but a reply or a forwarded line.
    pub fn from_payload(payload: &[u8]) -> Result<Self, FrameError> {
        match WorkerEvent::from_line(payload) {
            Ok(None) => from_payload(payload, "a reply"),
            Ok(Some(WorkerEvent::Measured(measured))) => Ok(Self::Measured(measured)),
            Ok(Some(WorkerEvent::Interval(interval))) => Ok(Self::Interval(interval)),
            Ok(Some(_)) => Ok(Self::Unreadable("the event is none of a probe's".to_owned())),
            Err(error) => Ok(Self::Unreadable(error.to_string())),
        }
    }
}

/// Forwards a worker's line ([`LINE_MARK`], no newline). Errors: [`FrameError::TooLong`] above [`AGENT_LIMIT`].
pub fn forward(line: &[u8]) -> Result<Vec<u8>, FrameError> {
    debug_assert!(line.starts_with(LINE_MARK.as_bytes()), "a line without the mark would be read as a reply");
    frame::encode(line, AGENT_LIMIT)
}

fn to_frame(message: &impl serde::Serialize, what: &'static str) -> Result<Vec<u8>, FrameError> {
    frame::encode(&to_payload(message, what)?, AGENT_LIMIT)
}
