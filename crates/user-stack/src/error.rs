//! Why an interface cannot be used.

use std::io;
use xsk::XskError;

/// A step that failed, with its operand and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages tell what each field is")]
pub enum EngineError {
    /// Several interfaces, and no default route to choose one.
    #[error("{} network interfaces are up ({}), and there is no default route: name one with --interface", names.len(), names.join(", "))]
    Ambiguous { names: Vec<String> },
    /// Loopback only.
    #[error("no network interface but loopback is up: set one up ('ip link set IF up')")]
    NoInterface,
    /// Nobody can send to an interface without an address.
    #[error("{interface} has no IP address: give it one ('ip address add ADDRESS/LENGTH dev {interface}')")]
    NoAddress { interface: String },
    /// The frames cannot be reached.
    #[error(transparent)]
    Port(#[from] XskError),
    /// The stack refuses a socket.
    #[error(transparent)]
    Socket(#[from] stack::Error),
    /// The kernel's tables cannot be read.
    #[error("the kernel does not tell its {what} over netlink: {cause}")]
    Kernel { what: &'static str, cause: io::Error },
}
