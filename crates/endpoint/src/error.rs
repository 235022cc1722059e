//! Why an endpoint cannot serve.

use std::io;
use std::net::SocketAddr;

/// A step that failed, with what it was done to and the remedy where a user can act.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address to bind does not name one.
    #[error("--bind {given}: {cause}")]
    Address { given: String, cause: net::NetError },
    #[error(
        "binding {address} needs a key, because others can reach it: make one with `windhover key > F` and give --key-file F at both ends"
    )]
    KeyNeeded { address: SocketAddr },
    #[error(
        "others can reach {address}, and clients of other tools prove no key: bind 127.0.0.1, or let anybody have answers with --open"
    )]
    OpenToOthers { address: SocketAddr },
    #[error("the shared key cannot be used: {0}")]
    Key(#[from] wire::KeyError),
    #[error("port {} on {} is in use: choose another with --bind ADDR:PORT, or end the program that has it ('ss -ltnp')", address.port(), address.ip())]
    InUse { address: SocketAddr },
    #[error("binding {address} failed: {cause}: use an address of this host ('ip address')")]
    Bind { address: SocketAddr, cause: io::Error },
    #[error("{0}")]
    Clock(#[from] clock::ClockError),
    /// A pipe, thread or poll that the server itself needs.
    #[error("{step} failed: {cause}")]
    System { step: &'static str, cause: io::Error },
    #[error("{0}")]
    Session(#[from] wire::SessionError),
    #[error("{reason}")]
    Refused { reason: String },
}

impl EndpointError {
    /// A step of the server's own failed.
    pub(crate) fn system<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Self {
        move |cause| Self::System { step, cause: cause.into() }
    }

    pub(crate) fn binding(address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |cause| match cause.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            _ => Self::Bind { address, cause },
        }
    }
}
