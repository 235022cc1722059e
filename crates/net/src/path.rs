//! The trait that measuring loops are generic over.
//!
//! Nothing here may allocate, log or read a clock per message; spinning reads it only while nothing arrives.

use clock::Clock;
use model::{IdleDescriptors, Receive};
use std::sync::atomic::AtomicBool;

/// What a receive brought, when the path itself is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// A message of this many bytes. Streams and pipes: always the buffer's length. Datagrams: the datagram's true
    /// length, so more than the buffer's length means that its end was cut off (MSG_TRUNC, recv(2)).
    Bytes(usize),
    /// A signal interrupted the wait (EINTR). Calling again with the same buffer continues a partly received message.
    Interrupted,
    /// Spinning only: nothing arrived within [`PathOptions::timeout_ns`]. A partly received stream message is kept.
    TimedOut,
    /// The stop flag is set: seen by a spinning wait, or by any wait after a signal.
    Stopped,
}

/// Why a path can carry no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the peer closed the data connection: see what ended it there")]
    Closed,
    #[error("the peer is gone, its data port is closed (ECONNREFUSED): see what ended it there")]
    Refused,
    #[error("sending was interrupted by a signal: the peer does not take the data")]
    Interrupted,
    #[error(
        "a datagram of {bytes} bytes is too large for the path (EMSGSIZE): use a smaller --size or a larger buffer"
    )]
    TooLarge { bytes: usize },
    #[error(
        "a datagram of {bytes} bytes does not fit the send buffer of {buffer} bytes (EMSGSIZE, ENOBUFS): raise --send-buffer, or use a smaller --size"
    )]
    SendBuffer {
        bytes: usize,
        /// The buffer, as asked for: half of what the kernel counts.
        buffer: u32,
    },
    #[error("no local port is left for one more connection: widen net.ipv4.ip_local_port_range")]
    NoPort,
    #[error("{call} on the data socket failed: {}", std::io::Error::from_raw_os_error(*errno))]
    Failed { call: &'static str, errno: i32 },
}

impl PathError {
    /// Whether the peer ended, rather than something here.
    pub fn peer_is_gone(self) -> bool {
        matches!(self, Self::Closed | Self::Refused)
    }
}

/// A way to the peer and back. Blocking: one `send` and `recv` a message; spinning: `recv` with MSG_DONTWAIT.
pub trait Path {
    /// Sends one message whole. `more` sets MSG_MORE (send(2)): the kernel may hold the data until a send without it. A
    /// pipe ignores it. Errors: the path is broken, or a signal interrupted a send that had to wait.
    fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError>;

    /// Waits for one message. Streams and pipes fill `buffer` exactly; datagrams take what one datagram holds. Datagrams
    /// from somebody else than the peer are dropped and counted by [`Path::foreign`]. Errors: the path is broken or the
    /// peer has ended.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError>;

    /// Drops waiting datagrams without blocking; returns how many. Streams and pipes keep their data (0). `scratch` may
    /// be of any size. Errors: the path is broken or the peer has ended.
    fn drain(&mut self, _scratch: &mut [u8]) -> Result<u64, PathError> {
        Ok(0)
    }

    /// Datagrams so far that came from somebody else than the peer (unconnected sockets only).
    fn foreign(&self) -> u64 {
        0
    }
}

/// How a path waits, and what else its owner wants.
#[derive(Clone, Copy)]
pub struct PathOptions<'a> {
    pub receive: Receive,
    /// Descriptors beside the data socket; they are in the set of select, poll and epoll, and just open otherwise.
    pub idle: IdleDescriptors,
    /// Looked at by a spinning wait while nothing arrives.
    pub clock: Clock,
    /// Spinning only: most ns of one [`Path::receive`], 0: for ever. A watchdog's signal ends other waits, at no cost.
    pub timeout_ns: u64,
    /// Ends a wait with [`Received::Stopped`]: a spinning one at once, others when a signal interrupts them.
    pub stop: &'a AtomicBool,
}

/// A loop that is compiled for each kind of path.
pub trait PathVisitor {
    type Output;

    fn visit<P: Path>(self, path: &mut P) -> Self::Output;
}
