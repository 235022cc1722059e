//! What a call can fail with: each is one value of errno.

/// Why a call or a socket failed. Numbers are errnos of Linux (except Alpha, MIPS, PA-RISC, SPARC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(i32)]
pub enum Error {
    /// EAGAIN.
    #[error("the call would have to wait: try it again when the socket is ready")]
    WouldBlock = 11,
    /// EBADF.
    #[error("the socket is closed")]
    BadHandle = 9,
    /// EINVAL.
    #[error("an argument is outside of its range, or does not fit the socket's state")]
    InvalidArgument = 22,
    /// EISCONN.
    #[error("the socket is connected already")]
    IsConnected = 106,
    /// ENOTCONN.
    #[error("the socket is not connected")]
    NotConnected = 107,
    /// EDESTADDRREQ.
    #[error("the socket is not connected, so the call needs an address")]
    DestinationRequired = 89,
    /// EADDRINUSE.
    #[error("another socket has this address and port")]
    AddressInUse = 98,
    /// EADDRNOTAVAIL.
    #[error("the address is none of the stack's: add it to its configuration")]
    AddressNotAvailable = 99,
    /// EAFNOSUPPORT.
    #[error("the addresses are of different families")]
    FamilyMismatch = 97,
    /// ENETUNREACH.
    #[error("the network is unreachable")]
    NetworkUnreachable = 101,
    /// EHOSTUNREACH.
    #[error("the host is unreachable: no hop is set for it, or a router reported it")]
    HostUnreachable = 113,
    /// ECONNREFUSED.
    #[error("the other end refused the connection")]
    ConnectionRefused = 111,
    /// ECONNRESET.
    #[error("the other end reset the connection")]
    ConnectionReset = 104,
    /// ECONNABORTED.
    #[error("the connection was aborted")]
    ConnectionAborted = 103,
    /// ETIMEDOUT.
    #[error("the other end did not answer in time")]
    TimedOut = 110,
    /// EPIPE.
    #[error("the socket is closed for sending")]
    BrokenPipe = 32,
    /// EMSGSIZE.
    #[error("the datagram does not fit into one frame of the path: send it through the kernel, which fragments it")]
    MessageTooLong = 90,
    /// ENOBUFS.
    #[error("a limit of the stack is reached: connections, hops or a buffer")]
    NoBuffers = 105,
}

impl Error {
    /// What a C library would report.
    pub const fn errno(self) -> i32 {
        self as i32
    }
}
