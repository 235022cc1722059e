//! What can go wrong when a port is opened.

use std::io;

/// A step that failed, with what it was done to and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages tell what each field is")]
pub enum XskError {
    #[error("network interface '{interface}' does not exist: see 'ip link' for those that do")]
    NoInterface { interface: String },
    #[error("{interface} is not an Ethernet interface (hardware type {kind}): use one that is")]
    NotEthernet { interface: String, kind: u16 },
    #[error("{interface}: {what} needs {capabilities}: run as root, or give the program these capabilities")]
    NotPermitted { interface: String, what: &'static str, capabilities: &'static str },
    #[error("{interface}: the driver has no {backend} XDP ({cause}): use another back-end, generic works everywhere")]
    Unsupported { interface: String, backend: &'static str, cause: io::Error },
    #[error(
        "{interface} has an XDP program already: detach it ('ip link set {interface} xdp off' where it is not needed), or \
         use the back-end 'packet'"
    )]
    OtherProgram { interface: String },
    #[error("{interface}, queue {queue}: another AF_XDP socket has it: end its program, or use the back-end 'packet'")]
    QueueTaken { interface: String, queue: u32 },
    #[error(
        "{interface}: an MTU of {mtu} does not fit AF_XDP's frames: lower it to {most} or less ('ip link set {interface} mtu {most}')"
    )]
    MtuTooLarge { interface: String, mtu: u32, most: u32 },
    #[error("{given} addresses are more than the {most} that can be served: remove some from the interface")]
    TooManyAddresses { given: usize, most: usize },
    #[error("{interface}: AF_PACKET serves at most {most} ports: use another back-end, which serves all")]
    TooManyPorts { interface: String, most: usize },
    #[error("{interface}: {what} failed: {cause}")]
    Step { interface: String, what: &'static str, cause: io::Error },
}

/// Words a refusal of `what` on `interface`; missing rights get their own message.
pub(crate) fn refused(interface: &str, what: &'static str, cause: io::Error) -> XskError {
    let interface = interface.to_owned();
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            XskError::NotPermitted { interface, what, capabilities: "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF" }
        }
        _ => XskError::Step { interface, what, cause },
    }
}
