//! A data path over the standard library's sockets.

use model::{Protocol, Receive};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long one blocking receive call waits before the caller looks around.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// How long a TCP connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// A peer that takes nothing for so long is gone, or means no good.
const STUCK: Duration = Duration::from_secs(5);
/// WSAEMSGSIZE: a datagram longer than the buffer, which other systems cut off silently.
const TOO_LONG: i32 = 10_040;

/// What a receive call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A whole message of so many bytes. Of a datagram one byte more than the buffer's message means a longer one.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
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

/// A connected socket that carries messages.
#[derive(Debug)]
pub(crate) struct DataPath {
    socket: Socket,
    /// Bytes of a stream's message that have come.
    filled: usize,
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
        Ok(Self { socket, filled: 0 })
    }

    /// A datagram socket that is connected to its peer.
    pub(crate) fn udp(socket: UdpSocket) -> Self {
        Self { socket: Socket::Udp(socket), filled: 0 }
    }

    /// A connection.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        Self { socket: Socket::Tcp(stream), filled: 0 }
    }

    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Udp(socket) => socket.local_addr(),
            Socket::Tcp(stream) => stream.local_addr(),
        }
        .ok()
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }

    /// How receive calls wait: `spin` not at all, anything else blocks for [`LOOK`] at most.
    pub(crate) fn wait_by(&mut self, receive: Receive, nodelay: bool) -> io::Result<()> {
        let spins = receive == Receive::Spin;
        match &self.socket {
            Socket::Udp(socket) => {
                socket.set_nonblocking(spins)?;
                socket.set_read_timeout(Some(LOOK))
            }
            Socket::Tcp(stream) => {
                stream.set_nodelay(nodelay)?;
                stream.set_nonblocking(spins)?;
                stream.set_write_timeout(Some(STUCK))?;
                stream.set_read_timeout(Some(LOOK))
            }
        }
    }

    /// Sends a whole message.
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
        };
        match done {
            Ok(bytes) if self.is_stream() => {
                *sending = Sending { bytes: sending.bytes + bytes, since: Instant::now() };
                Ok(sending.bytes >= message.len())
            }
            Ok(_) => Ok(true),
            Err(error) if is_icmp(&error) && !self.is_stream() => Ok(true),
            Err(error) if is_nothing(&error) && sending.since.elapsed() <= STUCK => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes a message of `size` bytes into a buffer that has room for one byte more.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], size: usize) -> io::Result<Received> {
        let done = match &mut self.socket {
            Socket::Udp(socket) => socket.recv(buffer),
            Socket::Tcp(stream) => stream.read(buffer.get_mut(self.filled..size).unwrap_or_default()),
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
            Err(error) if cfg!(windows) && error.raw_os_error() == Some(TOO_LONG) => Ok(Received::Bytes(buffer.len())),
            Err(error) => Err(error),
        }
    }

    /// Drops what came before a size was announced: proofs sent twice, stragglers of the size before.
    pub(crate) fn drain(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        /// More than these are a flood.
        const MOST: u32 = 10_000;
        let Socket::Udp(socket) = &self.socket else { return Ok(()) };
        socket.set_nonblocking(true)?;
        for _ in 0..MOST {
            if matches!(socket.recv(scratch), Err(error) if is_nothing(&error)) {
                break;
            }
        }
        Ok(())
    }
}

/// Nothing came in time.
pub(crate) fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// An ICMP error of an earlier datagram, which anybody can forge. Windows calls it a reset.
pub(crate) fn is_icmp(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused)
}
