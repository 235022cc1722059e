//! Receiving with recvmsg(2): time stamps, several sources on one socket, several sockets.

use crate::NetError;
use crate::address::RawAddress;
use crate::duplex::Outbox;
use crate::path::PathError;
use crate::socket::{DataSocket, SocketKind};
use crate::stamps::{self, Origin, Passed, Stamping};
use crate::sys;
use crate::transport::{Connected, ReceiveStep, Stream, Transport, Unconnected, failed_receive, fill};
use std::os::fd::RawFd;
use std::sync::Arc;

/// One socket, read with recvmsg(2).
pub(crate) struct SocketReceiver {
    fd: RawFd,
    stream: bool,
    /// Number of its first peer.
    first: u16,
    /// Whose datagrams are taken, in their order; empty when the socket is connected.
    from: Vec<RawAddress>,
    source: RawAddress,
    origin: Origin,
    stamped: Option<stamps::Reader>,
    /// Where stamps go when it waits by readiness: an error queue that holds any would end each wait at once.
    passed: Option<Arc<Passed>>,
    filled: usize,
    foreign: u64,
}

impl SocketReceiver {
    /// `by_readiness`: it is waited for with poll(2) and the like.
    pub(crate) fn new(socket: &DataSocket, first: u16, by_readiness: bool) -> Result<Self, NetError> {
        let stamping = socket.stamps.as_ref();
        let from = match socket.kind {
            SocketKind::Unconnected => socket.sources()?,
            SocketKind::Connected | SocketKind::Stream => Vec::new(),
            SocketKind::Pipe | SocketKind::Memory | SocketKind::Frame => return Err(NetError::NoPeer),
        };
        Ok(Self {
            fd: socket.read_fd(),
            stream: socket.kind == SocketKind::Stream,
            first,
            from,
            source: RawAddress::EMPTY,
            origin: Origin { from: first, stack_ns: 0 },
            stamped: stamping.map(|stamping| stamping.reader.clone()),
            passed: stamping.filter(|_| by_readiness).and_then(|Stamping { passed, .. }| passed.clone()),
            filled: 0,
            foreign: 0,
        })
    }

    #[inline]
    fn take(&mut self, buffer: &mut [u8], flags: libc::c_int) -> isize {
        let mut stamp = crate::control::Pair::default();
        let result = sys::recvmsg_from(self.fd, buffer, flags, &mut self.source, &mut stamp);
        if result >= 0 {
            self.origin.stack_ns = self.stamped.as_ref().map_or(0, |reader| reader.ns(stamp));
        }
        result
    }

    /// Which peer the last datagram came from.
    #[inline]
    fn known(&mut self) -> bool {
        if self.from.is_empty() {
            return true;
        }
        let Some(at) = self.from.iter().position(|peer| peer.same_sender(&self.source)) else { return false };
        self.origin.from = self.first.saturating_add(u16::try_from(at).unwrap_or(u16::MAX));
        true
    }

    #[inline]
    fn datagram(&mut self, buffer: &mut [u8], wait: bool) -> ReceiveStep {
        let flags = if wait { libc::MSG_TRUNC } else { libc::MSG_TRUNC | libc::MSG_DONTWAIT };
        match usize::try_from(self.take(buffer, flags)) {
            Err(_) => failed_receive("recvmsg"),
            Ok(bytes) if self.known() => ReceiveStep::Whole(bytes),
            Ok(_) => {
                self.foreign += 1;
                ReceiveStep::More
            }
        }
    }

    #[inline]
    fn part(&mut self, buffer: &mut [u8], wait: bool) -> ReceiveStep {
        let length = buffer.len();
        let rest = buffer.get_mut(self.filled..).unwrap_or_default();
        let result = self.take(rest, if wait { libc::MSG_WAITALL } else { libc::MSG_DONTWAIT });
        fill(&mut self.filled, result, length, "recvmsg")
    }
}

impl Transport for SocketReceiver {
    fn read_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let step = if self.stream { self.part(buffer, WAIT) } else { self.datagram(buffer, WAIT) };
        if !WAIT
            && matches!(step, ReceiveStep::Nothing)
            && let (Some(passed), Some(reader)) = (&self.passed, &self.stamped)
        {
            passed.collect(self.fd, reader);
        }
        step
    }

    fn foreign(&self) -> u64 {
        self.foreign
    }

    #[inline]
    fn origin(&self) -> (u16, u64) {
        (self.origin.from, self.origin.stack_ns)
    }
}

/// A socket for each of several peers, waited for with poll(2).
pub(crate) struct MultiReceiver {
    members: Vec<(SocketReceiver, Vec<u8>)>,
    set: Vec<libc::pollfd>,
    /// The next member to look at of those that the last poll(2) found ready.
    at: usize,
    last: usize,
}

impl MultiReceiver {
    /// `by_readiness`: it waits with poll(2), and does not only look.
    pub(crate) fn new(sockets: &[DataSocket], by_readiness: bool) -> Result<Self, NetError> {
        let mut members = Vec::with_capacity(sockets.len());
        for (at, socket) in sockets.iter().enumerate() {
            let first = u16::try_from(at).map_err(|_| NetError::NoPeer)?;
            members.push((SocketReceiver::new(socket, first, by_readiness)?, Vec::new()));
        }
        let entry =
            |(member, _): &(SocketReceiver, Vec<u8>)| libc::pollfd { fd: member.fd, events: libc::POLLIN, revents: 0 };
        let set = members.iter().map(entry).collect();
        Ok(Self { at: members.len(), members, set, last: 0 })
    }

    fn next(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        while let Some((member, own)) = self.members.get_mut(self.at) {
            let ready = self.set.get(self.at).is_some_and(|entry| entry.revents != 0);
            self.last = self.at;
            self.at += 1;
            if !ready {
                continue;
            }
            // Parts of several streams' messages must not meet in one buffer.
            let step = if member.stream {
                // Once a size, in the untimed part.
                own.resize(buffer.len(), 0);
                let step = member.receive::<false>(own);
                if matches!(step, ReceiveStep::Whole(_)) {
                    buffer.copy_from_slice(own);
                }
                step
            } else {
                member.receive::<false>(buffer)
            };
            if !matches!(step, ReceiveStep::Nothing) {
                return step;
            }
        }
        ReceiveStep::Nothing
    }
}

impl Transport for MultiReceiver {
    fn read_fd(&self) -> RawFd {
        self.members.first().map_or(-1, |(member, _)| member.fd)
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let step = self.next(buffer);
        if !matches!(step, ReceiveStep::Nothing) {
            return step;
        }
        match sys::poll(&mut self.set, if WAIT { -1 } else { 0 }) {
            0 => ReceiveStep::Nothing,
            1.. => {
                self.at = 0;
                match self.next(buffer) {
                    // Something was ready and held nothing for us; a wait goes on.
                    ReceiveStep::Nothing if WAIT => ReceiveStep::More,
                    step => step,
                }
            }
            _ => failed_receive("poll"),
        }
    }

    fn foreign(&self) -> u64 {
        self.members.iter().map(|(member, _)| member.foreign).sum()
    }

    #[inline]
    fn origin(&self) -> (u16, u64) {
        self.members.get(self.last).map_or((0, 0), |(member, _)| member.origin())
    }
}

enum Sending {
    Connected(Connected),
    Unconnected(Unconnected),
    Stream(Stream),
}

pub(crate) struct FanoutSender(Vec<Sending>);

impl FanoutSender {
    pub(crate) fn new(sockets: &[DataSocket]) -> Result<Self, NetError> {
        let half = |socket: &DataSocket| {
            let fd = socket.write_fd();
            Ok(match socket.kind {
                SocketKind::Connected => Sending::Connected(socket.connected()),
                SocketKind::Unconnected => Sending::Unconnected(Unconnected::new(fd, socket.addressing()?)),
                SocketKind::Stream => Sending::Stream(Stream::new(fd)),
                SocketKind::Pipe | SocketKind::Memory | SocketKind::Frame => return Err(NetError::NoPeer),
            })
        };
        sockets.iter().map(half).collect::<Result<_, _>>().map(Self)
    }
}

impl Outbox for FanoutSender {
    #[inline]
    fn send(&mut self, to: u16, message: &[u8]) -> Result<(), PathError> {
        match self.0.get_mut(usize::from(to)) {
            Some(Sending::Connected(one)) => one.send(message, false),
            Some(Sending::Unconnected(one)) => one.send(message, false),
            Some(Sending::Stream(one)) => one.send(message, false),
            None => Err(PathError::Failed { call: "send", errno: libc::EDESTADDRREQ }),
        }
    }

    #[inline]
    fn try_send(&mut self, to: u16, message: &[u8]) -> Result<bool, PathError> {
        match self.0.get_mut(usize::from(to)) {
            Some(Sending::Connected(one)) => one.try_send(message),
            Some(Sending::Unconnected(one)) => one.try_send(message),
            Some(Sending::Stream(one)) => one.try_send(message),
            None => Err(PathError::Failed { call: "send", errno: libc::EDESTADDRREQ }),
        }
    }

    fn unsent(&self) -> u64 {
        let count = |one: &Sending| match one {
            Sending::Connected(one) => one.unsent(),
            Sending::Unconnected(one) => one.unsent(),
            Sending::Stream(one) => one.unsent(),
        };
        self.0.iter().map(count).sum()
    }
}
