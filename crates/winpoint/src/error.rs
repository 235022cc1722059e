//! What can go wrong. Each message is one line with the operand, the cause and the remedy.

use crate::platform::PlatformError;
use model::{ModelError, Probe, Protocol};
use std::io;
use wire::{KeyError, SessionError};

/// A measurement or a reflector that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WinpointError {
    #[error("address '{text}': {cause}: use ADDR or ADDR:PORT")]
    Address { text: String, cause: io::Error },
    #[error(
        "cannot connect to {address}: {cause}: start 'windhover serve' or 'winpoint serve' there, and let its firewall pass it"
    )]
    Connect { address: String, cause: io::Error },
    #[error("the control connection to {address} broke: {cause}")]
    Control { address: String, cause: io::Error },
    #[error("{address}: {cause}")]
    Session { address: String, cause: SessionError },
    #[error("{address} did not answer within {seconds} s while {during}")]
    Silent { address: String, during: &'static str, seconds: u64 },
    #[error("{address} answered out of order while {during}: use the same version at both ends")]
    OutOfOrder { address: String, during: &'static str },
    #[error("no {protocol} message to {address} arrived: let the firewalls of both hosts pass it")]
    NotProved { protocol: Protocol, address: String },
    #[error("{step}: {cause}")]
    Data { step: &'static str, cause: io::Error },
    #[error(
        "UDP port {port} has an end of PGM already, and one at a time can: wait for its end, or give another --udp-port"
    )]
    PortInUse { port: u16 },
    #[error("winpoint does not wait by {0}: use --receive block, spin or iocp")]
    Receive(model::Receive),
    #[error("the other end vanished at {size} bytes: {why}")]
    Vanished { size: u32, why: String },
    #[error("cannot listen on {address}: {cause}: give another --bind")]
    Listen { address: String, cause: io::Error },
    #[error(
        "listening on {0} needs a key, because others can reach it: give --key-file (see 'windhover key'), or bind to 127.0.0.1"
    )]
    KeyNeeded(String),
    #[error("cannot read the key file {file}: {cause}")]
    KeyFile { file: String, cause: io::Error },
    #[error("key file {file}: {cause}")]
    Key { file: String, cause: KeyError },
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    #[error("winpoint does not measure {0}: use pingpong or pace")]
    Probe(Probe),
    #[error("{what}: {remedy}")]
    Conflict { what: String, remedy: &'static str },
    #[error(transparent)]
    Spec(#[from] ModelError),
    #[error(transparent)]
    Platform(#[from] PlatformError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

impl WinpointError {
    /// 2 for what a person asked wrongly, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Address { .. }
            | Self::KeyNeeded(_)
            | Self::KeyFile { .. }
            | Self::Key { .. }
            | Self::Probe(_)
            | Self::Conflict { .. }
            | Self::Receive(_)
            | Self::Spec(_)
            | Self::Platform(PlatformError::OnlyWindows(_) | PlatformError::NoSuchCpu(_)) => 2,
            Self::Store(error) => error.exit_code(),
            _ => 1,
        }
    }
}

pub(crate) fn data(step: &'static str) -> impl FnOnce(io::Error) -> WinpointError {
    move |cause| WinpointError::Data { step, cause }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], WinpointError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(WinpointError::Random)?;
    Ok(bytes)
}
