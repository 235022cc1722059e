//! A transport and the way to wait for it, joined: the one `match` before a measuring loop.

use crate::NetError;
use crate::frame::FrameTransport;
use crate::idle::Idle;
use crate::memory::Memory;
use crate::path::{Path, PathError, PathOptions, PathVisitor, Received};
use crate::socket::{DataSocket, SocketKind};
use crate::transport::{Pipe, Stream, Transport, Unconnected};
use crate::wait::{self, Waiter, Waiting};

/// Makes the path over `socket`, runs the visitor, closes what it opened. Errors: idle descriptors or the wait set.
pub fn with_path<V: PathVisitor>(
    socket: &mut DataSocket,
    options: &PathOptions<'_>,
    visitor: V,
) -> Result<V::Output, NetError> {
    socket.prepare(options.receive)?;
    let idle = Idle::open(&options.idle)?;
    match socket.kind {
        SocketKind::Connected => with_transport(socket.connected(), options, &idle, visitor),
        SocketKind::Unconnected => {
            let transport = Unconnected::new(socket.read_fd(), socket.addressing()?);
            with_transport(transport, options, &idle, visitor)
        }
        SocketKind::Frame => with_transport(FrameTransport::new(socket.frames()?), options, &idle, visitor),
        SocketKind::Stream => with_transport(Stream::new(socket.read_fd()), options, &idle, visitor),
        SocketKind::Memory => {
            let failed = |cause| NetError::Descriptors { what: "a mapping of shared memory", cause };
            let transport = Memory::new(socket.read_fd(), socket.write_fd()).map_err(failed)?;
            with_transport(transport, options, &idle, visitor)
        }
        SocketKind::Pipe => with_transport(Pipe::new(socket.read_fd(), socket.write_fd()), options, &idle, visitor),
    }
}

fn with_transport<T: Transport, V: PathVisitor>(
    transport: T,
    options: &PathOptions<'_>,
    idle: &Idle,
    visitor: V,
) -> Result<V::Output, NetError> {
    wait::choose(transport.read_fd(), options, idle, Whole { transport, visitor })
}

/// What is to be joined with a waiter, and who runs on it.
struct Whole<T, V> {
    transport: T,
    visitor: V,
}

impl<T: Transport, V: PathVisitor> Waiting for Whole<T, V> {
    type Output = V::Output;

    fn with<W: Waiter + Send>(self, waiter: W) -> V::Output {
        self.visitor.visit(&mut Joined { transport: self.transport, waiter })
    }
}

/// A transport and the way to wait for it.
struct Joined<T, W> {
    transport: T,
    waiter: W,
}

impl<T: Transport, W: Waiter> Path for Joined<T, W> {
    #[inline]
    fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
        self.transport.send(message, more)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
        self.waiter.receive(&mut self.transport, buffer)
    }

    fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
        self.transport.drain(scratch)
    }

    fn foreign(&self) -> u64 {
        self.transport.foreign()
    }
}
