//! What a call can fail with: each is one value of errno.

/// Why a call did nothing, or what happened to a socket. [`Error::errno`] is what a C library would report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// EAGAIN: nothing to receive, no room to send, nothing to accept.
    #[error("the call would have to wait: try it again when the socket is ready")]
    WouldBlock,
    /// EBADF: the handle is of a socket that is closed.
    #[error("the socket is closed")]
    BadHandle,
    /// EINVAL: an argument or option that cannot be used, or a socket in the wrong state.
    #[error("an argument is outside of its range, or does not fit the socket's state")]
    InvalidArgument,
    /// EISCONN: the socket is connected.
    #[error("the socket is connected already")]
    IsConnected,
    /// ENOTCONN: the socket is not connected.
    #[error("the socket is not connected")]
    NotConnected,
    /// EDESTADDRREQ: neither an address was given nor is the socket connected.
    #[error("the socket is not connected, so the call needs an address")]
    DestinationRequired,
    /// EADDRINUSE: a socket of this stack has this address and port, or this flow.
    #[error("another socket has this address and port")]
    AddressInUse,
    /// EADDRNOTAVAIL: the address is none of this host's.
    #[error("the address is none of the stack's: add it to its configuration")]
    AddressNotAvailable,
    /// EAFNOSUPPORT: both addresses are of different families.
    #[error("the addresses are of different families")]
    FamilyMismatch,
    /// ENETUNREACH: a router reported that there is no way to the network.
    #[error("the network is unreachable")]
    NetworkUnreachable,
    /// EHOSTUNREACH: no hop is known for the address, or a router reported that the host does not answer.
    #[error("the host is unreachable: no hop is set for it, or a router reported it")]
    HostUnreachable,
    /// ECONNREFUSED: the other end has no socket there.
    #[error("the other end refused the connection")]
    ConnectionRefused,
    /// ECONNRESET: the other end reset the connection.
    #[error("the other end reset the connection")]
    ConnectionReset,
    /// ECONNABORTED: this end aborted the connection.
    #[error("the connection was aborted")]
    ConnectionAborted,
    /// ETIMEDOUT: the other end did not answer in time.
    #[error("the other end did not answer in time")]
    TimedOut,
    /// EPIPE: this end is closed for sending.
    #[error("the socket is closed for sending")]
    BrokenPipe,
    /// EMSGSIZE: the datagram is longer than one frame can carry to its destination.
    #[error("the datagram does not fit into one frame of the path: send it through the kernel, which fragments it")]
    MessageTooLong,
    /// ENOBUFS: a limit of the configuration is reached.
    #[error("a limit of the stack is reached: connections, hops or a buffer")]
    NoBuffers,
}

impl Error {
    /// The value of errno on Linux (all architectures but Alpha, MIPS, PA-RISC and SPARC).
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::WouldBlock => 11,
            Self::BadHandle => 9,
            Self::InvalidArgument => 22,
            Self::IsConnected => 106,
            Self::NotConnected => 107,
            Self::DestinationRequired => 89,
            Self::AddressInUse => 98,
            Self::AddressNotAvailable => 99,
            Self::FamilyMismatch => 97,
            Self::NetworkUnreachable => 101,
            Self::HostUnreachable => 113,
            Self::ConnectionRefused => 111,
            Self::ConnectionReset => 104,
            Self::ConnectionAborted => 103,
            Self::TimedOut => 110,
            Self::BrokenPipe => 32,
            Self::MessageTooLong => 90,
            Self::NoBuffers => 105,
        }
    }
}
