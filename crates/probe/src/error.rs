//! What can go wrong while measuring, each with the thing it is about and the remedy where a person can act.

use model::{PeerProgram, Protocol};
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use wire::{RefuseCode, SessionError};

/// The step during which an endpoint has not shown yet that it is one.
pub(crate) const HANDSHAKE: &str = "the handshake";

/// A measurement that could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The task contradicts itself or asks for what cannot be.
    #[error(transparent)]
    Spec(#[from] model::ModelError),
    /// The task contradicts what this machine or the peer is, found before the first message.
    #[error("{what}: {remedy}")]
    Conflict { what: String, remedy: String },
    #[error("the shared key cannot be used: {0}")]
    Key(#[from] wire::KeyError),
    #[error(transparent)]
    Clock(#[from] clock::ClockError),
    /// Policy, CPU, thread or child.
    #[error(transparent)]
    Task(#[from] task::TaskError),
    /// A CPU behind a shield that does not let us in.
    #[error(transparent)]
    Shield(#[from] host::shield::EnterError),
    /// A name, an address or the data socket.
    #[error(transparent)]
    Net(#[from] net::NetError),
    #[error(transparent)]
    Pgm(#[from] pgm_io::PgmIoError),
    #[error(transparent)]
    Exchange(#[from] exchange_io::NodeError),
    #[error("interrupted before anything was measured")]
    Interrupted,
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
    #[error("nothing listens at {0}: start `windhover serve` there")]
    NothingListens(String),
    #[error("{0} does not answer: check the address and that no firewall drops its TCP port")]
    NoAnswer(String),
    #[error(
        "there is no route to {address} ({cause}): check the address, 'ip route get' and that the link is up, on both hosts"
    )]
    NoRoute { address: String, cause: std::io::Error },
    #[error("connecting to {address} failed: {cause}")]
    Connect { address: String, cause: std::io::Error },
    #[error("the control connection to {address} failed: {cause}")]
    Control { address: String, cause: std::io::Error },
    /// The control session ended: wrong key or version, a refusal, a peer that hung up.
    #[error("{address}: {cause}")]
    Session { address: String, cause: SessionError },
    #[error("{address} did not answer within {seconds} s while {during}: is it a windhover endpoint, and is it alive?")]
    Silent { address: String, during: &'static str, seconds: u64 },
    /// The data path is broken, and the control connection is silent as well.
    #[error("the control connection to {0} is silent too: look at the link and the other host")]
    SilentToo(String),
    #[error("{address} answered out of order while {during}: use the same windhover at both ends")]
    OutOfOrder { address: String, during: &'static str },
    #[error("{address} never saw our {protocol} messages: check that no firewall drops {protocol} between the hosts")]
    NotProved { address: String, protocol: Protocol },
    /// No ICMP echo was answered. The count of those sent is kept.
    #[error("{0} answered no echo: check the address, and that no firewall drops ICMP between the hosts")]
    NoEcho(String),
    #[error("{address} answered nothing as {program} does: start one there ({}), and let no firewall drop its port", program.command())]
    SilentServer { address: String, program: PeerProgram },
    /// The peer ended, or all of a sudden nothing came back any more. What was measured before is kept.
    #[error("{address} vanished while measuring {size} bytes: {why}; see whether it still runs and can be reached")]
    PeerVanished { address: String, size: u32, why: String },
    /// The reflector's end of the data path failed. What was measured before is kept.
    #[error("measuring {size} bytes with {address}: {why}")]
    Reflector { address: String, size: u32, why: String },
    #[error(
        "{address} ends a session after {limit_s} s, and this run may take {wanted_s} s: shorten it (--seconds, --count, fewer sizes), or have --max-session raised there"
    )]
    TooLong { address: String, limit_s: u32, wanted_s: u64 },
    /// A foreign worker that does not keep the contract, or gave up.
    #[error("the foreign worker {program} {why}")]
    Foreign { program: String, why: String },
    /// The data path failed for another reason than the peer. What was measured before is kept.
    #[error("measuring {size} bytes with {address}: {cause}")]
    Path { address: String, size: u32, cause: net::PathError },
}

impl From<flow::FlowError> for ProbeError {
    fn from(error: flow::FlowError) -> Self {
        match error {
            flow::FlowError::Task(error) => Self::Task(error),
            flow::FlowError::Net(error) => Self::Net(error),
        }
    }
}

impl ProbeError {
    /// A data path that failed: by the endpoint's end, or otherwise.
    pub(crate) fn broken_path(address: String, size: u32, cause: net::PathError) -> Self {
        if cause.peer_is_gone() {
            Self::PeerVanished { address, size, why: cause.to_string() }
        } else {
            Self::Path { address, size, cause }
        }
    }

    /// Whether the endpoint was there and is not any more. What hangs up during the handshake was perhaps none.
    pub fn is_lost_host(&self) -> bool {
        match self {
            Self::PeerVanished { .. } | Self::SilentToo(_) | Self::Control { .. } => true,
            Self::Silent { during, .. } => *during != HANDSHAKE,
            Self::Session { cause: SessionError::Closed { .. }, .. } => true,
            Self::Session { cause: SessionError::Refused { code, .. }, .. } => *code == RefuseCode::Stopping,
            _ => false,
        }
    }

    /// How the endpoint's end looked, without its name.
    pub(crate) fn last_words(&self) -> String {
        match self {
            Self::Session { cause: SessionError::Closed { .. }, .. } => "it hung up".to_owned(),
            Self::Session { cause: SessionError::Refused { reason, .. }, .. } => format!("it says: {reason}"),
            Self::Session { cause, .. } => cause.to_string(),
            // Whatever it had not read when it ended makes its kernel send a reset in the place of an orderly end.
            Self::Control { cause, .. } if matches!(cause.kind(), ConnectionReset | BrokenPipe) => {
                "it hung up".to_owned()
            }
            Self::Control { cause, .. } => format!("its control connection broke: {cause}"),
            Self::Silent { .. } | Self::SilentToo(_) => "its control connection is silent too".to_owned(),
            Self::PeerVanished { why, .. } => why.clone(),
            other => other.to_string(),
        }
    }

    /// Exit code: 2 for what is wrong with the task, 5 for a lost endpoint, 1 for what else went wrong.
    pub fn exit_code(&self) -> u8 {
        use net::NetError;
        use task::TaskError;
        match self {
            Self::Spec(_)
            | Self::Conflict { .. }
            | Self::TooLong { .. }
            | Self::Key(_)
            | Self::Task(
                TaskError::NoSuchCpu { .. } | TaskError::CpuNotAllowed { .. } | TaskError::PolicyNotPermitted { .. },
            )
            | Self::Net(
                NetError::Address { .. }
                | NetError::UnknownHost { .. }
                | NetError::NoAddressOfFamily { .. }
                | NetError::NoInterface { .. }
                | NetError::NoInterfaceWithAddress { .. }
                | NetError::OnlyWindows { .. }
                | NetError::CaptureNotPermitted
                | NetError::Stamps { .. },
            ) => 2,
            Self::Session { cause, .. } if is_told_beforehand(cause) => 2,
            Self::Interrupted => 130,
            lost if lost.is_lost_host() => 5,
            _ => 1,
        }
    }
}

/// Whether the endpoint refused what was asked for, rather than failed at it.
fn is_told_beforehand(cause: &SessionError) -> bool {
    match cause {
        SessionError::WrongKey
        | SessionError::KeyRequired
        | SessionError::KeyNotExpected
        | SessionError::Lacks { .. }
        | SessionError::Version { .. } => true,
        SessionError::Refused { code, .. } => matches!(
            code,
            RefuseCode::WrongKey
                | RefuseCode::KeyRequired
                | RefuseCode::Version
                | RefuseCode::Limit
                | RefuseCode::Unsupported
                | RefuseCode::BadRequest
        ),
        _ => false,
    }
}
