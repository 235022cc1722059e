//! Messages out and answers in as two halves of one way, so that one thread sends while another receives; over one
//! socket or one for each of several reflectors.
//!
//! As with [`crate::Path`], everything is decided once before the loops: one plain socket uses the same calls as there.
//! Several sockets, several sources on one (a multicast group), and time stamps take recvmsg(2).

use crate::NetError;
use crate::idle::Idle;
use crate::multi::{FanoutSender, MultiReceiver, SocketReceiver};
use crate::path::{PathError, PathOptions, Received};
use crate::socket::{DataSocket, SocketKind};
use crate::transport::{Pipe, ReceiveStep, Stream, Transport, Unconnected};
use crate::wait::{self, Block, Patience, Spin, Waiter, Waiting};
use model::{Receive, Repaired};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Message {
    /// Its length: of streams and pipes the buffer's, of datagrams the true one; a longer one was cut off.
    pub bytes: usize,
    /// Which of several peers it came from, by the order in which they were given.
    pub from: u16,
    /// When the stack (or the NIC) received it, in ns since 1970; 0 without stamps.
    pub stack_ns: u64,
    /// What repairs cost it, where the protocol repairs losses; nothing elsewhere.
    pub repaired: Repaired,
}

/// What a receive brought, when the way itself is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Arrival {
    Message(Message),
    /// Nothing is there ([`Inbox::look`] only).
    Nothing,
    /// A signal interrupted the wait. A partly received stream message is kept.
    Interrupted,
    /// The stop flag is set: seen by a spinning wait, or by any wait after a signal.
    Stopped,
}

pub trait Outbox: Send {
    /// Sends one message whole to the peer number `to`; a multicast group is number 0. Errors: the way is broken, or a
    /// signal interrupted a send that had to wait: calling again with the same message goes on where it stopped.
    fn send(&mut self, to: u16, message: &[u8]) -> Result<(), PathError>;

    /// Sends one message without waiting for room. `Ok(false)`: the way takes no more at present (EAGAIN, a rate limit of
    /// its own); [`Outbox::send`] with the same message then waits and goes on. Errors: as [`Outbox::send`].
    #[inline]
    fn try_send(&mut self, to: u16, message: &[u8]) -> Result<bool, PathError> {
        self.send(to, message).map(|()| true)
    }

    /// Datagrams so far that never left this host, for a reason that may pass (a full queue, a link that flaps).
    fn unsent(&self) -> u64 {
        0
    }
}

pub trait Inbox: Send {
    /// Waits for one message. Errors: the way is broken or a peer has ended.
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError>;

    /// Takes one message if one is there, without waiting. Errors: the way is broken or a peer has ended.
    fn look(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError>;

    /// Datagrams so far that came from somebody else than a peer.
    fn foreign(&self) -> u64 {
        0
    }
}

/// Loops that are compiled for each kind of way.
pub trait DuplexVisitor {
    type Output;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Self::Output;
}

/// Opens both halves over `sockets`, each with its peer (and more of them on a multicast socket:
/// [`DataSocket::also_from`]), runs the visitor's loops on them, and closes what it opened beside the sockets.
///
/// [`PathOptions::timeout_ns`] is not looked at: nothing here gives up by itself. Errors: no socket, idle descriptors or a
/// set to wait on that could not be made, or several sockets that are pipes.
pub fn with_duplex<V: DuplexVisitor>(
    sockets: &mut [DataSocket],
    options: &PathOptions<'_>,
    visitor: V,
) -> Result<V::Output, NetError> {
    let options = PathOptions { timeout_ns: 0, ..*options };
    for socket in &*sockets {
        socket.prepare(options.receive)?;
    }
    let idle = Idle::open(&options.idle)?;
    match sockets {
        [] => Err(NetError::NoPeer),
        [one] if !one.is_special() => plain(one, &options, &idle, visitor),
        [one] => {
            let by_readiness = !matches!(options.receive, Receive::Block | Receive::Spin);
            let transport = SocketReceiver::new(one, 0, by_readiness)?;
            match one.kind {
                SocketKind::Connected => incoming(&mut Out(one.connected()), transport, &options, &idle, visitor),
                SocketKind::Unconnected => {
                    let out = Unconnected::new(one.write_fd(), one.addressing()?);
                    incoming(&mut Out(out), transport, &options, &idle, visitor)
                }
                SocketKind::Stream => {
                    incoming(&mut Out(Stream::new(one.write_fd())), transport, &options, &idle, visitor)
                }
                SocketKind::Pipe | SocketKind::Memory | SocketKind::Frame => Err(NetError::NoPeer),
            }
        }
        several => {
            let mut out = FanoutSender::new(several)?;
            let transport = MultiReceiver::new(several, options.receive != Receive::Spin)?;
            let stop = options.stop;
            Ok(match options.receive {
                Receive::Spin => {
                    visitor.visit(&mut out, &mut In { transport, waiter: Spin::new(Patience::new(&options)) })
                }
                // poll(2) over all sockets, whichever waiting mode was asked for.
                _ => visitor.visit(&mut out, &mut In { transport, waiter: Block::new(stop) }),
            })
        }
    }
}

fn plain<V: DuplexVisitor>(
    socket: &DataSocket,
    options: &PathOptions<'_>,
    idle: &Idle,
    visitor: V,
) -> Result<V::Output, NetError> {
    let (read, write) = (socket.read_fd(), socket.write_fd());
    match socket.kind {
        SocketKind::Connected => incoming(&mut Out(socket.connected()), socket.connected(), options, idle, visitor),
        SocketKind::Unconnected => {
            let half = |fd| socket.addressing().map(|addressing| Unconnected::new(fd, addressing));
            incoming(&mut Out(half(write)?), half(read)?, options, idle, visitor)
        }
        SocketKind::Stream => incoming(&mut Out(Stream::new(write)), Stream::new(read), options, idle, visitor),
        SocketKind::Pipe => incoming(&mut Out(Pipe::new(read, write)), Pipe::new(read, write), options, idle, visitor),
        SocketKind::Memory | SocketKind::Frame => {
            Err(NetError::Unsupported { protocol: socket.protocol(), why: "carries messages of closed loops only" })
        }
    }
}

fn incoming<O: Outbox, T: Transport + Send, V: DuplexVisitor>(
    out: &mut O,
    transport: T,
    options: &PathOptions<'_>,
    idle: &Idle,
    visitor: V,
) -> Result<V::Output, NetError> {
    wait::choose(transport.read_fd(), options, idle, Halves { out, transport, visitor })
}

/// A sending half, what its other half is to be joined from with a waiter, and who runs on both.
struct Halves<'a, O, T, V> {
    out: &'a mut O,
    transport: T,
    visitor: V,
}

impl<O: Outbox, T: Transport + Send, V: DuplexVisitor> Waiting for Halves<'_, O, T, V> {
    type Output = V::Output;

    fn with<W: Waiter + Send>(self, waiter: W) -> V::Output {
        self.visitor.visit(self.out, &mut In { transport: self.transport, waiter })
    }
}

struct Out<T>(T);

impl<T: Transport + Send> Outbox for Out<T> {
    #[inline]
    fn send(&mut self, _to: u16, message: &[u8]) -> Result<(), PathError> {
        self.0.send(message, false)
    }

    #[inline]
    fn try_send(&mut self, _to: u16, message: &[u8]) -> Result<bool, PathError> {
        self.0.try_send(message)
    }

    fn unsent(&self) -> u64 {
        self.0.unsent()
    }
}

/// The receiving half. The transport is first, so that loops that only look are one code for all waiters.
#[repr(C)]
struct In<T, W> {
    transport: T,
    waiter: W,
}

impl<T: Transport, W> In<T, W> {
    #[inline]
    fn message(&self, bytes: usize) -> Arrival {
        let (from, stack_ns) = self.transport.origin();
        Arrival::Message(Message { bytes, from, stack_ns, repaired: Repaired::default() })
    }
}

impl<T: Transport + Send, W: Waiter + Send> Inbox for In<T, W> {
    #[inline]
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        Ok(match self.waiter.receive(&mut self.transport, buffer)? {
            Received::Bytes(bytes) => self.message(bytes),
            Received::Interrupted | Received::TimedOut => Arrival::Interrupted,
            Received::Stopped => Arrival::Stopped,
        })
    }

    #[inline]
    fn look(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        loop {
            match self.transport.receive::<false>(buffer) {
                ReceiveStep::Whole(bytes) => return Ok(self.message(bytes)),
                ReceiveStep::More => {}
                ReceiveStep::Nothing => return Ok(Arrival::Nothing),
                ReceiveStep::Interrupted => return Ok(Arrival::Interrupted),
                ReceiveStep::Broken(error) => return Err(error),
            }
        }
    }

    fn foreign(&self) -> u64 {
        self.transport.foreign()
    }
}
