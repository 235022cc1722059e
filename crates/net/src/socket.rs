//! Data sockets of both roles, ready to be measured: made, optioned, bound, connected. No measuring happens here.

use crate::NetError;
use crate::address::RawAddress;
use crate::bound::{bind, local_address, own_address, scope_of};
use crate::frame::{self, Frames};
use crate::resolve::with_scope;
use crate::stamps::Stamping;
use crate::transport::{Addressing, Connected};
use crate::{kernel, made, multicast, options, route, sys, tcp};
use model::{EndSpec, FrameBackend, Protocol, Receive, SocketSpec};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// A call for each message, on a socket with a peer.
    Connected,
    /// Datagrams with an address each.
    Unconnected,
    Stream,
    Pipe,
    Memory,
    /// Bare frames; the socket only holds the port.
    Frame,
}

/// One end of a data connection. Closed when dropped.
#[derive(Debug)]
pub struct DataSocket {
    protocol: Protocol,
    pub(crate) kind: SocketKind,
    read: OwnedFd,
    /// Pipes have a descriptor of their own for writing.
    write: Option<OwnedFd>,
    peer: Option<SocketAddr>,
    addressing: Option<Addressing>,
    /// UDP: connect the socket once the peer is known.
    connect: bool,
    /// UDP: the multicast group that messages go to.
    group: Option<IpAddr>,
    /// UDP: peers beside the first whose messages are taken too.
    others: Vec<RawAddress>,
    /// Frames: what was asked for, and the way itself once the peer is known.
    frame: Option<frame::FrameRequest>,
    frames: Option<Box<Frames>>,
    /// Which time stamps were asked for.
    pub(crate) stamps: Option<Stamping>,
}

impl DataSocket {
    /// The initiator's end of `tcp`, `udp` or `frame` to the reflector's data address. UDP gets a free local port; with
    /// a multicast group, messages go to the group at the reflector's port, and only those from `reflector` are taken.
    /// Errors: an option was refused, the reflector does not answer within `timeout` (TCP), or the protocol is a local
    /// one ([`crate::local_pair`] makes those).
    pub fn connect(
        spec: &SocketSpec,
        end: &EndSpec,
        reflector: SocketAddr,
        timeout: Duration,
    ) -> Result<Self, NetError> {
        match spec.protocol {
            protocol if protocol.is_connection() => {
                let socket = tcp::open(spec, end, reflector, timeout)?;
                Ok(Self::connection(protocol, socket, Some(reflector)))
            }
            protocol if protocol.is_addressed() && protocol != Protocol::Pgm => {
                let local = local_address(end, reflector)?;
                let named = spec.multicast.as_ref().and_then(|group| group.interface.as_deref());
                let source = match spec.multicast {
                    Some(_) if local.ip().is_unspecified() => route::source_for(reflector)?,
                    _ => local.ip(),
                };
                let mut socket = Self::udp(spec, end, local, source, named)?;
                socket.frame = frame::FrameRequest::new(spec, end, false);
                socket.set_peer(reflector)?;
                Ok(socket)
            }
            protocol => {
                let why = "does not go to an address: its ends are made as a pair";
                Err(NetError::Unsupported { protocol, why })
            }
        }
    }

    /// The reflector's end of `udp` or `frame`, bound to `local` (to [`EndSpec::bind`] and `local`'s port when that is
    /// set). Give the local address of the control connection and port 0. It has no peer until
    /// [`DataSocket::set_peer`]. With a multicast group it listens for the group on the interface that owns that
    /// address, or on [`EndSpec::device`]. Of an interface's frames only one such socket of the process can have a
    /// peer. Errors: an option was refused, the address is in use or not of this host, or the protocol is another.
    pub fn bind(spec: &SocketSpec, end: &EndSpec, local: SocketAddr) -> Result<Self, NetError> {
        if !spec.protocol.is_addressed() || spec.protocol == Protocol::Pgm {
            return Err(NetError::Unsupported {
                protocol: spec.protocol,
                why: "has no socket that waits for datagrams: listen for a connection instead",
            });
        }
        let local = match end.bind {
            Some(address) => with_scope(address, local.port(), scope_of(local)),
            None => local,
        };
        let frame = frame::FrameRequest::new(spec, end, true);
        let socket = Self { frame, ..Self::udp(spec, end, local, local.ip(), None)? };
        if spec.protocol == Protocol::SctpSeqpacket {
            // Associations are taken without accept.
            sys::listen(socket.read_fd()).map_err(|cause| NetError::Bind {
                protocol: "SCTP",
                address: local,
                cause,
            })?;
        }
        Ok(socket)
    }

    /// A bound UDP socket. `source` is the address that multicast messages are sent from.
    fn udp(
        spec: &SocketSpec,
        end: &EndSpec,
        local: SocketAddr,
        source: IpAddr,
        interface: Option<&str>,
    ) -> Result<Self, NetError> {
        let v6 = local.is_ipv6();
        let socket = kernel::socket(spec.protocol, v6)?;
        let fd = socket.as_raw_fd();
        options::apply(fd, v6, spec, end)?;
        let mut bind_to = local;
        if let Some(group) = &spec.multicast {
            if group.group.is_ipv6() != v6 {
                return Err(NetError::FamilyMismatch { one: group.group, other: local.ip() });
            }
            if local.port() != 0 {
                // Not with port 0: then the kernel could hand out a port that another such socket has.
                options::int(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, "SO_REUSEADDR", 1)?;
            }
            let index = multicast::interface_for(interface, end, source)?;
            multicast::check_route(group.group, index)?;
            multicast::join(fd, group, index, source, spec.ttl.unwrap_or(1))?;
            // A socket bound to a unicast address would not hear the group.
            bind_to.set_ip(if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() });
        }
        bind(fd, bind_to, kernel::name(spec.protocol))?;
        Ok(Self {
            // One-to-many style has no peer.
            connect: spec.connected && spec.multicast.is_none() && spec.protocol != Protocol::SctpSeqpacket,
            group: spec.multicast.as_ref().map(|group| group.group),
            ..Self::local(spec.protocol, SocketKind::Unconnected, socket, None)
        })
    }

    /// An end of a connection, which keeps the borders of messages or has none.
    pub(crate) fn connection(protocol: Protocol, socket: OwnedFd, peer: Option<SocketAddr>) -> Self {
        let kind = if protocol.is_stream() { SocketKind::Stream } else { SocketKind::Connected };
        Self { peer, ..Self::local(protocol, kind, socket, None) }
    }

    /// The calls of a socket with a peer.
    pub(crate) fn connected(&self) -> Connected {
        Connected::new(self.read_fd(), self.protocol.is_connection())
    }

    /// An end that has its peer already and no address.
    pub(crate) fn local(protocol: Protocol, kind: SocketKind, read: OwnedFd, write: Option<OwnedFd>) -> Self {
        if !protocol.is_local() {
            made::note(read.as_raw_fd());
        }
        Self {
            protocol,
            kind,
            read,
            write,
            peer: None,
            addressing: None,
            connect: false,
            group: None,
            others: Vec::new(),
            frame: None,
            frames: None,
            stamps: None,
        }
    }

    /// Tells a UDP socket whom it talks to, and connects it when the spec asks for that (never with a multicast group:
    /// a connected socket would take messages only from the group's own address). Drops what had arrived before. May be
    /// called again for another peer. `frame`: opens the way past the kernel, too. Errors: connecting failed, the
    /// interface gives no frames, or the socket is of another protocol.
    pub fn set_peer(&mut self, peer: SocketAddr) -> Result<(), NetError> {
        if !self.protocol.is_addressed() {
            return Err(NetError::Unsupported { protocol: self.protocol, why: "has its peer from the start" });
        }
        let failed = |cause| NetError::Connect { address: peer, cause };
        if self.connect {
            connect_datagram(self.read_fd(), peer).map_err(failed)?;
            self.kind = SocketKind::Connected;
        }
        if let Some(asked) = &self.frame {
            let own = own_address(self.read_fd()).map_err(failed)?.ok_or(NetError::NoPeer)?;
            // Those to another peer have the interface.
            self.frames = None;
            let frames = Frames::open(asked, own, peer)?;
            if frames.backend == FrameBackend::Packet {
                frame::deafen(self.read_fd())?;
            }
            self.frames = Some(Box::new(frames));
            self.kind = SocketKind::Frame;
        }
        let from = RawAddress::new(peer);
        let to = match self.group {
            Some(group) => RawAddress::new(with_scope(group, peer.port(), scope_of(peer))),
            None => from,
        };
        self.addressing = Some(Addressing { to, from });
        self.peer = Some(peer);
        // Connecting does not empty the queue of what others had sent.
        let mut scratch = [0; 1];
        while sys::recv(self.read_fd(), &mut scratch, libc::MSG_DONTWAIT) >= 0 {}
        Ok(())
    }

    /// Takes messages from one more peer on a socket that is not connected: one that answers a multicast group. It
    /// counts on from the first. `false`, and nothing done, when that peer is one of them already. Errors: the socket
    /// has no first peer, or is connected to it.
    pub fn also_from(&mut self, peer: SocketAddr) -> Result<bool, NetError> {
        if self.kind != SocketKind::Unconnected || self.addressing.is_none() {
            return Err(NetError::NoPeer);
        }
        let peer = RawAddress::new(peer);
        if self.sources()?.iter().any(|known| known.same_sender(&peer)) {
            return Ok(false);
        }
        self.others.push(peer);
        Ok(true)
    }

    /// The peers in their order, of a socket that is not connected.
    pub(crate) fn sources(&self) -> Result<Vec<RawAddress>, NetError> {
        let first = self.addressing()?.from;
        Ok(std::iter::once(first).chain(self.others.iter().copied()).collect())
    }

    /// Whether receiving takes more than the plain calls.
    pub(crate) fn is_special(&self) -> bool {
        self.stamps.is_some() || !self.others.is_empty()
    }

    /// The descriptor to read and, for pipes, the one to write; for passing on to a child.
    pub fn into_fds(self) -> (OwnedFd, Option<OwnedFd>) {
        (self.read, self.write)
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The bound address; `None` for UNIX sockets and pipes. With port 0 asked for, this has the port that was given.
    pub fn local_address(&self) -> Option<SocketAddr> {
        own_address(self.read_fd()).ok().flatten()
    }

    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Datagrams that this socket dropped so far, for want of buffer space or a wrong checksum: SO_RXQ_OVFL's counter
    /// (socket(7)), read by SO_MEMINFO. `None` where it is not known, and for streams and pipes.
    pub fn dropped(&self) -> Option<u32> {
        // Indices of include/uapi/linux/sock_diag.h: SK_MEMINFO_DROPS is the ninth.
        const DROPS: usize = 8;
        if !self.protocol.counts_losses() || self.kind == SocketKind::Frame {
            return None;
        }
        let mut values = [0; DROPS + 1];
        let count = sys::get_option(self.read_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values).ok()?;
        (count > DROPS).then(|| values[DROPS])
    }

    /// Send and receive buffer in bytes as the kernel counts: twice those asked for (socket(7)). `None`: pipes.
    pub fn buffers(&self) -> Option<(u32, u32)> {
        if matches!(self.kind, SocketKind::Pipe | SocketKind::Memory | SocketKind::Frame) {
            return None;
        }
        let read = |name| options::read_buffer(self.read_fd(), name).ok();
        Some((read(libc::SO_SNDBUF)?, read(libc::SO_RCVBUF)?))
    }

    /// Sends a whole message outside the measured loop. Errors: no peer, or none that takes data within `timeout`.
    pub fn send_once(&mut self, message: &[u8], timeout: Duration) -> Result<(), NetError> {
        let fd = self.write_fd();
        let (call, flags) = match self.kind {
            SocketKind::Pipe => ("write", 0),
            SocketKind::Unconnected | SocketKind::Frame => ("sendto", libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT),
            SocketKind::Connected | SocketKind::Stream => ("send", libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT),
            SocketKind::Memory => return Err(only_measured()),
        };
        let mut sent = 0;
        loop {
            let rest = message.get(sent..).unwrap_or_default();
            let result = match self.kind {
                SocketKind::Pipe => {
                    wait(fd, libc::POLLOUT, timeout, call)?;
                    // A pipe that is ready takes PIPE_BUF bytes without blocking (pipe(7)).
                    sys::write(fd, rest.get(..4096).unwrap_or(rest))
                }
                SocketKind::Unconnected | SocketKind::Frame => {
                    sys::sendto(fd, rest, flags, self.addressing()?.to.as_bytes())
                }
                SocketKind::Connected | SocketKind::Stream | SocketKind::Memory => sys::send(fd, rest, flags),
            };
            match usize::try_from(result) {
                Ok(bytes) => sent += bytes,
                Err(_) => retry(fd, libc::POLLOUT, timeout, call)?,
            }
            // A datagram went whole; an empty one too.
            if sent >= message.len() {
                return Ok(());
            }
        }
    }

    /// Receives one message outside the measured loop: a datagram, with its source, from anybody; or exactly as many
    /// bytes of a stream or pipe as `buffer` holds. `None` after `timeout`, which holds for the whole of it. Errors:
    /// the peer is gone, or a call failed.
    pub fn receive_once(
        &mut self,
        buffer: &mut [u8],
        timeout: Duration,
    ) -> Result<Option<(usize, Option<SocketAddr>)>, NetError> {
        if self.kind == SocketKind::Memory {
            return Err(only_measured());
        }
        let fd = self.read_fd();
        let end = std::time::Instant::now() + timeout;
        let mut filled = 0;
        let failed = |call, cause| NetError::Exchange { call, cause };
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if !sys::wait_for(fd, libc::POLLIN, left).map_err(|cause| failed("poll", cause))? {
                return Ok(None);
            }
            let mut from = RawAddress::EMPTY;
            let mut length = 0;
            let rest = buffer.get_mut(filled..).unwrap_or_default();
            let (call, result) = match self.kind {
                SocketKind::Pipe => ("read", sys::read(fd, rest)),
                SocketKind::Stream | SocketKind::Memory => ("recv", sys::recv(fd, rest, libc::MSG_DONTWAIT)),
                SocketKind::Connected | SocketKind::Unconnected | SocketKind::Frame => {
                    ("recvfrom", sys::recvfrom(fd, rest, libc::MSG_DONTWAIT, from.room(), &mut length))
                }
            };
            let Ok(bytes) = usize::try_from(result) else {
                match sys::errno() {
                    libc::EAGAIN | libc::EINTR => continue,
                    _ => return Err(failed(call, sys::last())),
                }
            };
            match self.kind {
                SocketKind::Connected | SocketKind::Unconnected | SocketKind::Frame => {
                    return Ok(Some((bytes, from.decode())));
                }
                SocketKind::Stream | SocketKind::Pipe | SocketKind::Memory => {
                    filled += bytes;
                    if filled == buffer.len() {
                        return Ok(Some((filled, self.peer)));
                    }
                    if bytes == 0 {
                        return Err(failed(call, io::ErrorKind::UnexpectedEof.into()));
                    }
                }
            }
        }
    }

    /// Makes the descriptors blocking, or for a pipe that must not wait in its read call, not blocking.
    pub(crate) fn prepare(&self, receive: Receive) -> Result<(), NetError> {
        let failed = |cause| NetError::Option { option: "O_NONBLOCK", value: receive.to_string(), cause };
        if self.kind == SocketKind::Memory {
            return Ok(());
        }
        let pipe = self.kind == SocketKind::Pipe;
        sys::set_nonblocking(self.read_fd(), pipe && receive != Receive::Block).map_err(failed)?;
        if pipe {
            sys::set_nonblocking(self.write_fd(), false).map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) fn addressing(&self) -> Result<Addressing, NetError> {
        self.addressing.ok_or(NetError::NoPeer)
    }

    pub(crate) fn frames(&mut self) -> Result<&mut Frames, NetError> {
        self.frames.as_deref_mut().ok_or(NetError::NoPeer)
    }

    /// What carries the frames of `frame`, once the peer is known.
    pub fn frame_backend(&self) -> Option<FrameBackend> {
        self.frames.as_ref().map(|frames| frames.backend)
    }

    pub(crate) fn read_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    pub(crate) fn write_fd(&self) -> RawFd {
        self.write.as_ref().unwrap_or(&self.read).as_raw_fd()
    }
}

impl AsFd for DataSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// The answer to a call on shared memory outside of a measuring loop.
fn only_measured() -> NetError {
    NetError::Unsupported { protocol: Protocol::Shm, why: "carries messages in measuring loops only" }
}

/// connect(2) of a datagram socket: it only fixes the peer. Dissolves an earlier association first.
fn connect_datagram(fd: RawFd, peer: SocketAddr) -> io::Result<()> {
    sys::connect(fd, RawAddress::new(peer).as_bytes())
}

fn wait(fd: RawFd, events: libc::c_short, timeout: Duration, call: &'static str) -> Result<(), NetError> {
    let failed = |cause| NetError::Exchange { call, cause };
    if sys::wait_for(fd, events, timeout).map_err(failed)? {
        return Ok(());
    }
    Err(failed(io::ErrorKind::TimedOut.into()))
}

/// After a failed call: waits when it only was too early, else says what failed.
fn retry(fd: RawFd, events: libc::c_short, timeout: Duration, call: &'static str) -> Result<(), NetError> {
    match sys::errno() {
        libc::EAGAIN => wait(fd, events, timeout, call),
        libc::EINTR => Ok(()),
        _ => Err(NetError::Exchange { call, cause: sys::last() }),
    }
}
