//! What carries one message: which calls send and receive it. No waiting, no clock.

use crate::address::RawAddress;
use crate::options;
use crate::path::PathError;
use crate::sys;
use libc::c_int;
use std::os::fd::RawFd;

pub(crate) enum ReceiveStep {
    /// A whole message of this many bytes.
    Whole(usize),
    /// Progress, but no whole message yet: a part of one, or somebody else's datagram.
    More,
    /// Nothing is there (only when not waiting).
    Nothing,
    Interrupted,
    Broken(PathError),
}

pub(crate) trait Transport {
    fn read_fd(&self) -> RawFd;
    /// Of a half that only receives: an error.
    fn send(&mut self, _message: &[u8], _more: bool) -> Result<(), PathError> {
        Err(PathError::Failed { call: "send", errno: libc::ENOTSUP })
    }
    /// The same without waiting; `false`: no room, `send` goes on. A pipe may wait: it has no flag for one call.
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<bool, PathError> {
        self.send(message, false).map(|()| true)
    }
    /// One receive call; `WAIT` lets it block. Without `WAIT` a pipe's read end must have O_NONBLOCK.
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep;
    fn drain(&mut self, _scratch: &mut [u8]) -> Result<u64, PathError> {
        Ok(0)
    }
    fn foreign(&self) -> u64 {
        0
    }
    /// Datagrams that never left this host, for a reason that may pass.
    fn unsent(&self) -> u64 {
        0
    }
    /// Which peer the last message came from, and when the stack received it, in ns since 1970 (0: not known).
    #[inline]
    fn origin(&self) -> (u16, u64) {
        (0, 0)
    }
}

/// MSG_NOSIGNAL spares a broken connection from raising SIGPIPE; MSG_MORE as asked.
#[inline]
fn send_flags(more: bool) -> c_int {
    if more { libc::MSG_NOSIGNAL | libc::MSG_MORE } else { libc::MSG_NOSIGNAL }
}

/// Flags of a send that does not wait: EAGAIN is the path's refusal; the time of a call tells nothing of its cause.
const NO_WAIT: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// What a failed receive means. Not marked cold: to a spinning wait "nothing" is the usual answer.
#[inline]
pub(crate) fn failed_receive(call: &'static str) -> ReceiveStep {
    match sys::errno() {
        // EWOULDBLOCK is the same number on Linux.
        libc::EAGAIN => ReceiveStep::Nothing,
        libc::EINTR => ReceiveStep::Interrupted,
        errno => ReceiveStep::Broken(broken(call, errno)),
    }
}

pub(crate) fn broken(call: &'static str, errno: c_int) -> PathError {
    match errno {
        libc::ECONNREFUSED => PathError::Refused,
        libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN | libc::ESHUTDOWN => PathError::Closed,
        errno => PathError::Failed { call, errno },
    }
}

/// What a failed datagram send means; `Ok` is to try again.
#[cold]
fn failed_datagram(call: &'static str, fd: RawFd, bytes: usize) -> Result<(), PathError> {
    let errno = sys::errno();
    if let Some(buffer) = too_small_buffer(errno, fd, bytes) {
        return Err(PathError::SendBuffer { bytes, buffer });
    }
    match errno {
        // A send of a datagram waits only for buffer space that the local device frees by itself; SCTP's for the peer's window.
        libc::EINTR => Err(PathError::Interrupted),
        libc::EMSGSIZE => Err(PathError::TooLarge { bytes }),
        // DCCP's queue is full: it refuses a send also to a socket that waits (dccp_sendmsg in Linux).
        libc::EAGAIN => Ok(()),
        errno if is_lost(errno) => Ok(()),
        errno => Err(broken(call, errno)),
    }
}

/// What a failed send that does not wait means: no room, or a datagram that is lost.
#[cold]
fn refused(call: &'static str, fd: RawFd, bytes: usize, unsent: &mut u64) -> Result<bool, PathError> {
    if sys::errno() == libc::EAGAIN {
        return Ok(false);
    }
    failed_datagram(call, fd, bytes)?;
    *unsent += 1;
    Ok(true)
}

/// The send buffer as asked for, when it is why a datagram was refused and always will be. A UNIX datagram has to fit
/// less a few bytes (EMSGSIZE). The fragments of a UDP datagram may fill it twice, and each counts for up to four times
/// its data (ENOBUFS); a full device queue gives no ENOBUFS to a socket without IP_RECVERR (udp_send_skb in Linux).
fn too_small_buffer(errno: c_int, fd: RawFd, bytes: usize) -> Option<u32> {
    /// What a UNIX datagram takes of the buffer beside its data (unix_dgram_sendmsg in Linux).
    const OVERHEAD: usize = 32;
    let least = match errno {
        libc::EMSGSIZE => bytes.saturating_add(OVERHEAD),
        libc::ENOBUFS => bytes.saturating_mul(2),
        _ => return None,
    };
    let counted = options::read_buffer(fd, libc::SO_SNDBUF).ok()?;
    (least > usize::try_from(counted).unwrap_or(usize::MAX)).then_some(counted / 2)
}

/// Whether a datagram was dropped on its way out of this host for a reason that may pass: the device's queue was full
/// (send(2)), a link is down or flaps, the neighbour does not answer, netfilter's OUTPUT dropped it (EPERM). To the loop
/// it is a datagram lost on the way like any other, so a run survives it and a reflector stays for the next one.
pub(crate) fn is_lost(errno: c_int) -> bool {
    matches!(
        errno,
        libc::ENOBUFS | libc::ENETDOWN | libc::ENETUNREACH | libc::EHOSTDOWN | libc::EHOSTUNREACH | libc::EPERM
    )
}

#[inline]
#[expect(clippy::cast_sign_loss, reason = "callers have checked that it is not negative")]
fn count(result: isize) -> usize {
    result as usize
}

/// A call for each message on a socket with a peer: UDP, one of a UNIX pair, or a connection that keeps the borders of messages.
pub(crate) struct Connected {
    fd: RawFd,
    /// Whether nothing received means that the peer has closed the connection.
    ends: bool,
    unsent: u64,
}

impl Connected {
    pub(crate) fn new(fd: RawFd, ends: bool) -> Self {
        Self { fd, ends, unsent: 0 }
    }
}

impl Transport for Connected {
    fn read_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
        if sys::send(self.fd, message, send_flags(more)) >= 0 {
            return Ok(());
        }
        failed_datagram("send", self.fd, message.len())?;
        self.unsent += 1;
        Ok(())
    }

    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<bool, PathError> {
        if sys::send(self.fd, message, NO_WAIT) >= 0 {
            return Ok(true);
        }
        refused("send", self.fd, message.len(), &mut self.unsent)
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let flags = if WAIT { libc::MSG_TRUNC } else { libc::MSG_TRUNC | libc::MSG_DONTWAIT };
        let result = sys::recv(self.fd, buffer, flags);
        match result {
            1.. => ReceiveStep::Whole(count(result)),
            0 if self.ends => ReceiveStep::Broken(PathError::Closed),
            0 => ReceiveStep::Whole(0),
            _ => failed_receive("recv"),
        }
    }

    fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
        drain(self, scratch)
    }

    fn unsent(&self) -> u64 {
        self.unsent
    }
}

/// Drops what is waiting. Every datagram counts, from whomever.
fn drain<T: Transport>(transport: &mut T, scratch: &mut [u8]) -> Result<u64, PathError> {
    let mut dropped = 0;
    loop {
        match transport.receive::<false>(scratch) {
            ReceiveStep::Whole(_) | ReceiveStep::More => dropped += 1,
            ReceiveStep::Interrupted => {}
            ReceiveStep::Nothing => return Ok(dropped),
            ReceiveStep::Broken(error) => return Err(error),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Addressing {
    /// Where messages go: the peer, or a multicast group at the peer's port.
    pub(crate) to: RawAddress,
    /// Where they must come from: always the peer itself.
    pub(crate) from: RawAddress,
}

/// Datagrams on a socket without a peer: sendto(2) and recvfrom(2), with the source checked here.
pub(crate) struct Unconnected {
    fd: RawFd,
    addressing: Addressing,
    source: RawAddress,
    foreign: u64,
    unsent: u64,
}

impl Unconnected {
    pub(crate) fn new(fd: RawFd, addressing: Addressing) -> Self {
        Self { fd, addressing, source: RawAddress::EMPTY, foreign: 0, unsent: 0 }
    }
}

impl Transport for Unconnected {
    fn read_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
        if sys::sendto(self.fd, message, send_flags(more), self.addressing.to.as_bytes()) >= 0 {
            return Ok(());
        }
        failed_datagram("sendto", self.fd, message.len())?;
        self.unsent += 1;
        Ok(())
    }

    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<bool, PathError> {
        if sys::sendto(self.fd, message, NO_WAIT, self.addressing.to.as_bytes()) >= 0 {
            return Ok(true);
        }
        refused("sendto", self.fd, message.len(), &mut self.unsent)
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let flags = if WAIT { libc::MSG_TRUNC } else { libc::MSG_TRUNC | libc::MSG_DONTWAIT };
        let mut length = 0;
        let result = sys::recvfrom(self.fd, buffer, flags, self.source.room(), &mut length);
        if result < 0 {
            return failed_receive("recvfrom");
        }
        if self.addressing.from.same_sender(&self.source) {
            return ReceiveStep::Whole(count(result));
        }
        self.foreign += 1;
        ReceiveStep::More
    }

    fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
        drain(self, scratch)
    }

    fn foreign(&self) -> u64 {
        self.foreign
    }

    fn unsent(&self) -> u64 {
        self.unsent
    }
}

/// A message without borders on a stream socket, sent and received whole over as many calls as it takes.
pub(crate) struct Stream {
    fd: RawFd,
    /// Bytes of the current message already received; kept when a wait is interrupted.
    filled: usize,
    /// Bytes of the current message already sent; kept when a send is interrupted.
    sent: usize,
}

impl Stream {
    pub(crate) fn new(fd: RawFd) -> Self {
        Self { fd, filled: 0, sent: 0 }
    }
}

/// What follows one send call of a stream or pipe.
#[inline]
fn advance(sent: &mut usize, result: isize, length: usize, call: &'static str) -> Result<bool, PathError> {
    if result < 0 {
        return Err(match sys::errno() {
            libc::EINTR => PathError::Interrupted,
            errno => broken(call, errno),
        });
    }
    *sent += count(result);
    if *sent < length {
        return Ok(false);
    }
    *sent = 0;
    Ok(true)
}

/// What follows one receive call of a stream or pipe.
#[inline]
pub(crate) fn fill(filled: &mut usize, result: isize, length: usize, call: &'static str) -> ReceiveStep {
    if result > 0 {
        *filled += count(result);
        if *filled < length {
            return ReceiveStep::More;
        }
        *filled = 0;
        return ReceiveStep::Whole(length);
    }
    match result {
        0 if length > 0 => ReceiveStep::Broken(PathError::Closed),
        0 => ReceiveStep::Whole(0),
        _ => failed_receive(call),
    }
}

impl Transport for Stream {
    fn read_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
        loop {
            let rest = message.get(self.sent..).unwrap_or_default();
            let result = sys::send(self.fd, rest, send_flags(more));
            if advance(&mut self.sent, result, message.len(), "send")? {
                return Ok(());
            }
        }
    }

    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<bool, PathError> {
        loop {
            let rest = message.get(self.sent..).unwrap_or_default();
            let result = sys::send(self.fd, rest, NO_WAIT);
            if result < 0 && sys::errno() == libc::EAGAIN {
                return Ok(false);
            }
            if advance(&mut self.sent, result, message.len(), "send")? {
                return Ok(true);
            }
        }
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let length = buffer.len();
        let rest = buffer.get_mut(self.filled..).unwrap_or_default();
        if rest.is_empty() {
            // recv of nothing would look like the end of the stream.
            self.filled = 0;
            return ReceiveStep::Whole(length);
        }
        // MSG_WAITALL: one call for a message of several segments.
        let result = sys::recv(self.fd, rest, if WAIT { libc::MSG_WAITALL } else { libc::MSG_DONTWAIT });
        fill(&mut self.filled, result, length, "recv")
    }
}

/// A message without borders on a pair of pipes.
pub(crate) struct Pipe {
    read: RawFd,
    write: RawFd,
    filled: usize,
    sent: usize,
}

impl Pipe {
    pub(crate) fn new(read: RawFd, write: RawFd) -> Self {
        Self { read, write, filled: 0, sent: 0 }
    }
}

impl Transport for Pipe {
    fn read_fd(&self) -> RawFd {
        self.read
    }

    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        loop {
            let rest = message.get(self.sent..).unwrap_or_default();
            let result = sys::write(self.write, rest);
            if advance(&mut self.sent, result, message.len(), "write")? {
                return Ok(());
            }
        }
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let length = buffer.len();
        let rest = buffer.get_mut(self.filled..).unwrap_or_default();
        if rest.is_empty() {
            self.filled = 0;
            return ReceiveStep::Whole(length);
        }
        let result = sys::read(self.read, rest);
        fill(&mut self.filled, result, length, "read")
    }
}
