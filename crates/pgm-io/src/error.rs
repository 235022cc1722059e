//! What can go wrong with a socket, by step.

use std::net::IpAddr;

/// A step that failed, with the remedy where a user can act.
#[derive(Debug, thiserror::Error)]
pub enum PgmIoError {
    /// Neither a source nor a receiver was asked for.
    #[error("this end neither publishes nor subscribes: give it a source, a receiver, or both")]
    Nothing,
    /// Two addresses of different families.
    #[error("{one} and {other} are of different families: use two IPv4 or two IPv6 addresses")]
    Family {
        /// One of them.
        one: IpAddr,
        /// The other.
        other: IpAddr,
    },
    /// A parameter of the source makes no sense.
    #[error("the source's {0}")]
    Source(#[source] pgm::source::ConfigError),
    /// A parameter of the receiver makes no sense.
    #[error("the receiver's {0}")]
    Receiver(#[source] pgm::source::ConfigError),
    /// Another socket has the own address and port, so NAKs could not be told apart.
    #[error(
        "another program publishes PGM from {address} port {port} on this host, and UDP cannot tell whose NAKs are whose: give this end another address of the host, another port, or use IP protocol 113"
    )]
    AddressInUse {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
    },
    /// No clock.
    #[error(transparent)]
    Clock(#[from] clock::ClockError),
    /// A socket, or the set to wait on.
    #[error(transparent)]
    Net(#[from] net::NetError),
    /// The sockets can carry no more.
    #[error(transparent)]
    Path(#[from] net::PathError),
    /// The message was not taken.
    #[error("the message was not taken: {0}")]
    Send(#[source] pgm::source::SendError),
    /// There is no memory for the windows.
    #[error(
        "the windows of all sources take {need_mib} MiB of memory, and {free_mib} MiB are free: use a smaller window, shorter packets or fewer sources"
    )]
    Memory {
        /// What is needed, in MiB.
        need_mib: u64,
        /// What is free, on the machine, in the control group or by the limit of the process, in MiB.
        free_mib: u64,
    },
    /// More peers than the receiver holds windows for.
    #[error("{peers} peers are more than the {most} sources that the receiver hears at once: raise max_sources")]
    TooManyPeers {
        /// Peers.
        peers: usize,
        /// Most of them.
        most: usize,
    },
    /// Sending on an end that does not publish.
    #[error("this end does not publish")]
    NoSource,
    /// Receiving on an end that does not subscribe.
    #[error("this end does not subscribe")]
    NoReceiver,
}
