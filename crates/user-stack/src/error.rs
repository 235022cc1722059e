//! Why an interface cannot be used.

use std::io;
use xsk::XskError;

/// A step that failed, with its operand and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages tell what each field is")]
pub enum EngineError {
    #[error("{} network interfaces are up ({}), and there is no default route: name one with --interface", names.len(), names.join(", "))]
    Ambiguous { names: Vec<String> },
    #[error("no network interface but loopback is up: set one up ('ip link set IF up')")]
    NoInterface,
    #[error("{interface} has no IP address: give it one ('ip address add ADDRESS/LENGTH dev {interface}')")]
    NoAddress { interface: String },
    #[error(transparent)]
    Port(#[from] XskError),
    #[error(transparent)]
    Socket(#[from] stack::Error),
    #[error("the kernel does not tell its {what} over netlink: {cause}")]
    Kernel { what: &'static str, cause: io::Error },
}
