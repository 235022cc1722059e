//! What can go wrong with a socket, by step.

use std::net::IpAddr;

/// A step that failed, with the remedy where a user can act.
#[derive(Debug, thiserror::Error)]
pub enum PgmIoError {
    #[error("this end neither publishes nor subscribes: give it a source, a receiver, or both")]
    Nothing,
    #[error("{one} and {other} are of different families: use two IPv4 or two IPv6 addresses")]
    Family { one: IpAddr, other: IpAddr },
    #[error("the source's {0}")]
    Source(#[source] pgm::source::ConfigError),
    #[error("the receiver's {0}")]
    Receiver(#[source] pgm::source::ConfigError),
    #[error(
        "another program publishes PGM from {address} port {port} on this host, and UDP cannot tell whose NAKs are whose: give this end another address of the host, another port, or use IP protocol 113"
    )]
    AddressInUse { address: IpAddr, port: u16 },
    #[error(transparent)]
    Clock(#[from] clock::ClockError),
    #[error(transparent)]
    Net(#[from] net::NetError),
    #[error(transparent)]
    Path(#[from] net::PathError),
    #[error("the message was not taken: {0}")]
    Send(#[source] pgm::source::SendError),
    #[error(
        "the windows of all sources take {need_mib} MiB of memory, and {free_mib} MiB are free: use a smaller window, shorter packets or fewer sources"
    )]
    Memory { need_mib: u64, free_mib: u64 },
    #[error("{peers} peers are more than the {most} sources that the receiver hears at once: raise max_sources")]
    TooManyPeers { peers: usize, most: usize },
    #[error("this end does not publish")]
    NoSource,
    #[error("this end does not subscribe")]
    NoReceiver,
}
