//! Bulk data: many datagrams a system call, long TCP writes, and what TCP tells about itself.
//!
//! Each flow is one loop on one thread over one socket, one way. All arrays and buffers are made before the loop; in it
//! nothing is allocated, and the clock is read once a call, not once a datagram. Calls block for at most [`PATIENCE`]
//! (SO_RCVTIMEO, SO_SNDTIMEO), so that a loop looks at its stop flag without signals; a time-out costs nothing while
//! data flows.
//!
//! - sending: `send` for single datagrams, else `sendmmsg`; with UDP_SEGMENT (udp(7)) one message holds many datagrams.
//! - receiving: `recv`, else `recvmmsg` with MSG_WAITFORONE: what is there is taken, nothing is waited for beyond the
//!   first. With UDP_GRO the kernel gives the length of the joined datagrams in a control message.
//! - TCP: `send` and `recv` of one buffer.

mod flow;
mod pace;
mod receive;
mod send;
mod stream;
mod watch;

pub use flow::{receive, send};
pub use pace::{Rate, wait_for_go};
pub use receive::{Arrived, ReceiveDone, ReceivePlan};
pub use send::{SendDone, SendPlan};
pub use watch::TcpWatch;

use crate::socket::DataSocket;
use crate::{NetError, PathError, options, sys};
use model::Protocol;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a call waits before its loop looks at the stop flag.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Socket options of linux/udp.h.
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// How far a loop has come, for whoever watches. Written once a call.
#[derive(Debug, Default)]
pub struct Gauge {
    bytes: AtomicU64,
    messages: AtomicU64,
}

impl Gauge {
    pub fn new() -> Self {
        Self::default()
    }

    /// Payload so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Datagrams so far; of TCP, calls.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// One writer only, so no read-modify-write is needed.
    #[inline]
    fn set(&self, messages: u64, bytes: u64) {
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// What TCP tells of a connection (tcp_info, tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFigures {
    /// Smoothed RTT in µs.
    pub rtt_us: u32,
    pub retransmits: u32,
    /// Congestion window in bytes.
    pub window_bytes: u64,
}

/// Reads tcp_info; `None` where the socket is no TCP or a preloaded stack does not tell.
pub fn tcp_figures(socket: &DataSocket) -> Option<TcpFigures> {
    // linux/tcp.h: eight bytes of flags and states (two words), then 32-bit fields, in this order.
    const SEND_MSS: usize = 2 + 2;
    const RTT: usize = 2 + 15;
    const WINDOW: usize = 2 + 18;
    const RETRANSMITS: usize = 2 + 23;
    if !socket.protocol().is_connection() {
        return None;
    }
    let mut words = [0; RETRANSMITS + 1];
    let count = sys::get_option(socket.read_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut words).ok()?;
    (count > RETRANSMITS).then(|| TcpFigures {
        rtt_us: words[RTT],
        retransmits: words[RETRANSMITS],
        window_bytes: u64::from(words[WINDOW]) * u64::from(words[SEND_MSS]),
    })
}

/// The congestion control of a TCP socket (TCP_CONGESTION, tcp(7)).
pub fn congestion(socket: &DataSocket) -> Option<String> {
    if !socket.protocol().is_connection() {
        return None;
    }
    let mut name = [0; 16];
    let length = sys::get_bytes(socket.read_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).ok()?;
    let name = name.get(..length)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// Payload that TCP has not had acknowledged yet (SIOCOUTQ, tcp(7)).
pub fn unacknowledged(socket: &DataSocket) -> Option<u64> {
    sys::output_queue(socket.read_fd()).ok()
}

/// The MTU of the route to an address (IP_MTU of ip(7), IPV6_MTU of ipv6(7)). Errors: no route, or the kernel has none.
pub fn route_mtu(to: SocketAddr) -> Result<u32, NetError> {
    let socket = crate::route::routed(to)?;
    mtu(socket.as_raw_fd(), to.is_ipv6())
}

fn mtu(fd: RawFd, v6: bool) -> Result<u32, NetError> {
    let (level, name) = if v6 { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
    let mut value = [0];
    sys::get_option(fd, level, name, &mut value)
        .map_err(|cause| NetError::ReadOut { what: "the route's MTU", cause })?;
    Ok(value[0])
}

/// Bytes of IP and UDP headers in front of a datagram's payload.
pub fn udp_headers(v6: bool) -> u32 {
    if v6 { 48 } else { 28 }
}

/// Ends the sending half of a TCP connection: the peer reads to the end of what was sent.
pub fn end_sending(socket: &DataSocket) {
    // A closed connection has no half to end.
    let _ = nix::sys::socket::shutdown(socket.write_fd(), nix::sys::socket::Shutdown::Write);
}

/// Sets both time-outs of a socket, so that no call blocks for longer.
pub(crate) fn be_patient(fd: RawFd) -> Result<(), NetError> {
    let micros = libc::suseconds_t::try_from(PATIENCE.as_micros()).unwrap_or(50_000);
    let time = libc::timeval { tv_sec: 0, tv_usec: micros };
    for (option, name) in [("SO_RCVTIMEO", libc::SO_RCVTIMEO), ("SO_SNDTIMEO", libc::SO_SNDTIMEO)] {
        sys::set_option(fd, libc::SOL_SOCKET, name, &time).map_err(|cause| NetError::Option {
            option,
            value: format!("{} ms", PATIENCE.as_millis()),
            cause,
        })?;
    }
    Ok(())
}

/// Makes the kernel cut long sends into datagrams of `size` bytes.
fn segment(socket: &DataSocket, size: usize) -> Result<(), NetError> {
    let v6 = socket.peer_address().is_some_and(|peer| peer.is_ipv6());
    let room = mtu(socket.write_fd(), v6).map_or(usize::MAX, |mtu| mtu.saturating_sub(udp_headers(v6)) as usize);
    if size > room {
        return Err(NetError::Unsupported {
            protocol: Protocol::Udp,
            why: "cannot cut datagrams that are longer than the route's MTU: use a smaller --size, or leave --gso out",
        });
    }
    let value = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
    options::int(socket.write_fd(), libc::SOL_UDP, UDP_SEGMENT, "UDP_SEGMENT", value)
}

fn join(socket: &DataSocket) -> Result<(), NetError> {
    options::int(socket.read_fd(), libc::SOL_UDP, UDP_GRO, "UDP_GRO", 1)
}

/// Single datagrams there and back beside a stream: no call waits for longer than [`PATIENCE`].
#[derive(Debug)]
pub struct Exchange<'a> {
    socket: &'a DataSocket,
}

impl<'a> Exchange<'a> {
    /// Prepares a connected UDP socket. Errors: a socket option was refused.
    pub fn new(socket: &'a DataSocket) -> Result<Self, NetError> {
        be_patient(socket.read_fd())?;
        Ok(Self { socket })
    }

    /// Sends a datagram; one without room is dropped. Errors: the call failed for another reason than room.
    #[inline]
    pub fn send(&self, message: &[u8]) -> Result<(), PathError> {
        if sys::send(self.socket.write_fd(), message, libc::MSG_NOSIGNAL) >= 0 {
            return Ok(());
        }
        match sys::errno() {
            libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ECONNREFUSED => Ok(()),
            errno => Err(PathError::Failed { call: "send", errno }),
        }
    }

    /// Waits for a datagram; `None` when none came in time. Errors: the call failed for another reason.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, PathError> {
        if let Ok(bytes) = usize::try_from(sys::recv(self.socket.read_fd(), buffer, 0)) {
            return Ok(Some(bytes));
        }
        match sys::errno() {
            libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED => Ok(None),
            errno => Err(PathError::Failed { call: "recv", errno }),
        }
    }
}
