//! A data path: a socket of the standard library, or an end of PGM.

use crate::pgm::Conversation;
use crate::platform::Completion;
use model::{Counters, Protocol, Receive, Repaired};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long one blocking receive call waits before the caller looks around.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
const CONNECT: Duration = Duration::from_secs(5);
/// A peer that takes nothing for so long is gone, or means no good.
const STUCK: Duration = Duration::from_secs(5);
/// WSAEMSGSIZE and, of completion ports, ERROR_MORE_DATA: a datagram was longer than the buffer.
const TOO_LONG: [i32; 2] = [10_040, 234];

/// What a receive call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A whole message of so many bytes. Of a datagram one byte more than the buffer's message means a longer one.
    Bytes(usize),
    Nothing,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Pgm(Box<Conversation>),
}

/// How much of a message the socket has taken, and since when it has taken nothing more.
#[derive(Debug)]
pub(crate) struct Sending {
    bytes: usize,
    since: Instant,
}

impl Sending {
    pub(crate) fn new() -> Self {
        Self { bytes: 0, since: Instant::now() }
    }
}

#[derive(Debug)]
pub(crate) struct DataPath {
    /// What receive calls end through, where that is asked for. It ends before its socket is closed.
    completion: Option<Completion>,
    socket: Socket,
    /// Bytes of a stream's message that have come.
    filled: usize,
    /// Datagrams that this host had no room for.
    unsent: u64,
}

impl DataPath {
    /// Connects to a reflector's data address, from the address of the control connection.
    pub(crate) fn connect(protocol: Protocol, to: SocketAddr, from: IpAddr) -> io::Result<Self> {
        let socket = if protocol.is_stream() {
            Socket::Tcp(TcpStream::connect_timeout(&to, CONNECT)?)
        } else {
            let socket = UdpSocket::bind((from, 0))?;
            socket.connect(to)?;
            Socket::Udp(socket)
        };
        Ok(Self::new(socket))
    }

    fn new(socket: Socket) -> Self {
        Self { socket, filled: 0, unsent: 0, completion: None }
    }

    pub(crate) fn udp(socket: UdpSocket) -> Self {
        Self::new(Socket::Udp(socket))
    }

    pub(crate) fn tcp(stream: TcpStream) -> Self {
        Self::new(Socket::Tcp(stream))
    }

    pub(crate) fn pgm(conversation: Conversation) -> Self {
        Self::new(Socket::Pgm(Box::new(conversation)))
    }

    /// The same path for a thread that only receives; this one then only sends.
    pub(crate) fn receiving_half(&self) -> io::Result<Self> {
        Ok(Self::new(match &self.socket {
            Socket::Udp(socket) => Socket::Udp(socket.try_clone()?),
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            Socket::Pgm(conversation) => Socket::Pgm(Box::new(conversation.half())),
        }))
    }

    /// The conversation, where the path is of PGM, and what its receive calls end through.
    pub(crate) fn conversation(&mut self) -> Option<(&mut Conversation, Option<&mut Completion>)> {
        match &mut self.socket {
            Socket::Pgm(conversation) => Some((conversation, self.completion.as_mut())),
            _ => None,
        }
    }

    pub(crate) fn repaired(&self) -> Repaired {
        if let Socket::Pgm(conversation) = &self.socket { conversation.repaired } else { Repaired::default() }
    }

    /// Datagrams that this host had no room for so far.
    pub(crate) fn unsent(&self) -> u64 {
        if let Socket::Pgm(conversation) = &self.socket { conversation.unsent() } else { self.unsent }
    }

    /// What this host lost since so many were unsent.
    pub(crate) fn counters_since(&self, unsent: u64) -> Counters {
        Counters { udp_send_buffer_errors: self.unsent() - unsent, ..Counters::default() }
    }

    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Udp(socket) => socket.local_addr(),
            Socket::Tcp(stream) => stream.local_addr(),
            Socket::Pgm(conversation) => conversation.socket().local_addr(),
        }
        .ok()
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }

    /// How receive calls wait: `spin` not at all, the others for [`LOOK`] at most.
    pub(crate) fn wait_by(&mut self, receive: Receive, nodelay: bool) -> io::Result<()> {
        let blocks = receive != Receive::Spin;
        match &mut self.socket {
            Socket::Udp(socket) => {
                socket.set_nonblocking(!blocks)?;
                socket.set_read_timeout(Some(LOOK))?;
            }
            Socket::Tcp(stream) => {
                stream.set_nodelay(nodelay)?;
                stream.set_nonblocking(!blocks)?;
                stream.set_write_timeout(Some(STUCK))?;
                stream.set_read_timeout(Some(LOOK))?;
            }
            Socket::Pgm(conversation) => conversation.set_blocking(blocks)?,
        }
        // A socket stays with its completion port.
        if receive == Receive::Completion && self.completion.is_none() {
            self.completion = Some(match &self.socket {
                Socket::Udp(socket) => Completion::of_datagrams(socket)?,
                Socket::Pgm(conversation) => Completion::of_datagrams(conversation.socket())?,
                Socket::Tcp(stream) => Completion::of_stream(stream)?,
            });
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut sending = Sending::new();
        while !self.send_some(message, &mut sending)? {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Sends what the socket takes of a message; whether that was the rest of it.
    pub(crate) fn send_some(&mut self, message: &[u8], sending: &mut Sending) -> io::Result<bool> {
        let done = match &mut self.socket {
            Socket::Udp(socket) => socket.send(message),
            Socket::Tcp(stream) => stream.write(message.get(sending.bytes..).unwrap_or_default()),
            Socket::Pgm(conversation) => {
                let (taken, done) = conversation.publish(message, sending.bytes > 0)?;
                sending.bytes = if taken { message.len() } else { 0 };
                return Ok(done);
            }
        };
        match done {
            Ok(bytes) if self.is_stream() => {
                *sending = Sending { bytes: sending.bytes + bytes, since: Instant::now() };
                Ok(sending.bytes >= message.len())
            }
            Ok(_) => Ok(true),
            Err(error) if is_icmp(&error) && !self.is_stream() => Ok(true),
            Err(error) if has_no_room(&error) && !self.is_stream() => {
                self.unsent += 1;
                Ok(true)
            }
            Err(error) if is_nothing(&error) && sending.since.elapsed() <= STUCK => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes a message of `size` bytes into a buffer that has room for one byte more.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], size: usize) -> io::Result<Received> {
        let done = match (&mut self.socket, &mut self.completion) {
            (Socket::Pgm(conversation), completion) => return conversation.receive(completion.as_mut(), buffer),
            (Socket::Udp(_), Some(completion)) => completion.receive(buffer, LOOK).map(|(bytes, _)| bytes),
            (Socket::Udp(socket), None) => socket.recv(buffer),
            (Socket::Tcp(stream), completion) => {
                let rest = buffer.get_mut(self.filled..size).unwrap_or_default();
                match completion {
                    Some(completion) => completion.receive(rest, LOOK).map(|(bytes, _)| bytes),
                    None => stream.read(rest),
                }
            }
        };
        match done {
            Ok(0) if self.is_stream() => Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) if self.is_stream() => {
                self.filled += bytes;
                if self.filled < size {
                    return Ok(Received::Nothing);
                }
                self.filled = 0;
                Ok(Received::Bytes(size))
            }
            Ok(bytes) => Ok(Received::Bytes(bytes)),
            Err(error) if is_nothing(&error) => Ok(Received::Nothing),
            Err(error) if is_icmp(&error) && !self.is_stream() => Ok(Received::Nothing),
            Err(error) if is_too_long(&error) => Ok(Received::Bytes(buffer.len())),
            Err(error) => Err(error),
        }
    }

    /// Drops what came before a size was announced: proofs sent twice, stragglers of the size before.
    pub(crate) fn drain(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        /// More than these are a flood.
        const MOST: u32 = 10_000;
        let Socket::Udp(socket) = &self.socket else { return Ok(()) };
        if let Some(completion) = &mut self.completion {
            (0..MOST).find(|_| completion.receive(scratch, Duration::ZERO).is_err_and(|error| is_nothing(&error)));
            return Ok(());
        }
        socket.set_nonblocking(true)?;
        (0..MOST).find(|_| socket.recv(scratch).is_err_and(|error| is_nothing(&error)));
        Ok(())
    }
}

pub(crate) fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// An ICMP error of an earlier datagram, which anybody can forge. Windows calls it a reset, or has it as the end of an
/// overlapped call (ERROR_NETWORK_UNREACHABLE to ERROR_PORT_UNREACHABLE), or as WSAENETRESET or one of its unreachables.
pub(crate) fn is_icmp(error: &io::Error) -> bool {
    const CODES: [i32; 7] = [1231, 1232, 1233, 1234, 10_051, 10_052, 10_065];
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused)
        || cfg!(windows) && error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

/// A datagram was lost on this host, for a reason that may pass: a full queue, a link that flaps, a rule of the firewall.
pub(crate) fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::PermissionDenied
    ) || has_no_room(error)
}

pub(crate) fn has_no_room(error: &io::Error) -> bool {
    /// ENOBUFS of Linux, WSAENOBUFS.
    const NO_ROOM: [i32; 2] = [105, 10_055];
    error.raw_os_error().is_some_and(|code| NO_ROOM.contains(&code))
}

pub(crate) fn is_too_long(error: &io::Error) -> bool {
    cfg!(windows) && error.raw_os_error().is_some_and(|code| TOO_LONG.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_a_loss_of_this_host() {
        // A datagram that was not sent and ends the measurement, or is counted where it was lost elsewhere.
        let of = |code| io::Error::from_raw_os_error(code);
        assert!(has_no_room(&of(105)) && is_lost(&of(105)) && has_no_room(&of(10_055)));
        assert!(is_lost(&ErrorKind::NetworkDown.into()) && !has_no_room(&ErrorKind::NetworkDown.into()));
        assert!(!is_lost(&ErrorKind::BrokenPipe.into()));
    }
}
