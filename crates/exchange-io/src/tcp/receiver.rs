//! A thread that accepts connections at a node's address and receives the topics on them.

use super::{BUFFER_BYTES, place};
use crate::NodeError;
use crate::node::subscriptions;
use crate::receiver::{Receive, Received, Subscription, beat, take};
use crate::report::Rejects;
use exchange::{ExchangeFile, FrameSplitter, Framing, MAX_DATA_BYTES, Transport};
use net::{NetError, PathError};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

/// Connections and the listener that are looked at in a turn.
const EVENTS: usize = 16;
/// The longest wait of a turn, in ms.
const WAIT_MS: u8 = 50;
/// The event of the listener; those of connections are their places.
const LISTENER: u64 = u64::MAX;

pub(crate) struct TcpReceiver {
    listener: TcpListener,
    epoll: Epoll,
    spins: bool,
    framing: Framing,
    /// Twice as many as there are topics: a publisher that starts again connects before its former connection may have ended.
    connections: Vec<Place>,
    accepted: u64,
    pub(crate) subscriptions: Vec<Subscription>,
    rejects: Rejects,
}

/// Room for a connection.
struct Place {
    stream: Option<TcpStream>,
    from: IpAddr,
    splitter: FrameSplitter,
    heard_ns: u64,
}

/// One receiver for the node's address, if it subscribes topics over TCP.
pub(crate) fn tcp_receivers(
    file: &ExchangeFile,
    node: &exchange::Node,
) -> Result<Vec<(SocketAddr, TcpReceiver)>, NodeError> {
    let failed = |cause| NodeError::Net { node: node.name.clone(), cause };
    let open = |(address, subscriptions): (SocketAddr, Vec<Subscription>)| {
        let local = place(address, node.address).map_err(failed)?;
        let listener = TcpReceiver::new(local, node.spin, subscriptions);
        let receiver = listener.map_err(|cause| match cause.kind() {
            ErrorKind::AddrInUse => failed(NetError::InUse { protocol: "TCP", address }),
            _ => failed(NetError::Bind { protocol: "TCP", address, cause }),
        })?;
        Ok((address, receiver))
    };
    subscriptions(file, node, Transport::Tcp)?.into_iter().map(open).collect()
}

impl TcpReceiver {
    fn new(local: SocketAddr, spins: bool, subscriptions: Vec<Subscription>) -> io::Result<Self> {
        let listener = TcpListener::bind(local)?;
        // Connections get it from here.
        setsockopt(&listener, sockopt::RcvBuf, &BUFFER_BYTES)?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        // All topics of an address have the same framing.
        let framing = subscriptions.first().map_or(Framing::Native, |first| first.framing);
        let (shortest, longest) = (framing.header_bytes().max(1), framing.header_bytes() + MAX_DATA_BYTES);
        let place =
            |_| Place { stream: None, from: local.ip(), splitter: FrameSplitter::new(shortest..=longest), heard_ns: 0 };
        let connections = (0..2 * subscriptions.len()).map(place).collect();
        let rejects = Rejects::default();
        Ok(Self { listener, epoll, spins, framing, connections, accepted: 0, subscriptions, rejects })
    }

    /// Takes what arrived on a connection. One that is over, or whose bytes are no frames, is closed: the publisher connects again.
    #[inline]
    fn read(&mut self, at: usize) {
        let Self { connections, subscriptions, rejects, framing, .. } = self;
        let Some(Place { stream, from, splitter, heard_ns }) = connections.get_mut(at) else { return };
        let Some(open) = stream else { return };
        let is_open = match open.read(splitter.room()) {
            Ok(0) => false,
            Ok(count) => {
                splitter.arrived(count);
                *heard_ns = clock::monotonic_ns();
                loop {
                    let frame = match splitter.take() {
                        Ok(Some(frame)) => take(*framing, subscriptions, rejects, (frame, *from), &mut |_, _| {}),
                        Ok(None) => break true,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = frame {
                        rejects.count(error);
                        break false;
                    }
                }
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if !is_open {
            *stream = None;
        }
    }

    /// Takes a connection of a node that publishes a topic. It may replace the one that was silent for the longest time.
    #[cold]
    fn accept(&mut self) -> Result<(), PathError> {
        let (stream, peer) = match self.listener.accept() {
            Ok(accepted) => accepted,
            // The connection would wait for ever, and wake this thread each time.
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)) => {
                    return Err(failed("accept4", errno));
                }
                // The peer gave up meanwhile.
                _ => return Ok(()),
            },
        };
        let from = peer.ip();
        if !self.subscriptions.iter().any(|subscription| subscription.sender == from) {
            self.rejects.other_sender += 1;
            return Ok(());
        }
        let places = self.connections.iter_mut().enumerate();
        let Some((at, place)) = places.min_by_key(|(_, place)| (place.stream.is_some(), place.heard_ns)) else {
            return Ok(());
        };
        let event = EpollEvent::new(EpollFlags::EPOLLIN, at as u64);
        if stream.set_nonblocking(true).is_err() || self.epoll.add(&stream, event).is_err() {
            return Ok(());
        }
        self.rejects.evicted += u64::from(place.stream.is_some());
        self.accepted += 1;
        place.splitter.clear();
        (place.stream, place.from, place.heard_ns) = (Some(stream), from, clock::monotonic_ns());
        Ok(())
    }
}

impl Receive for TcpReceiver {
    fn spins(&self) -> bool {
        self.spins
    }

    #[inline]
    fn turn(&mut self, spins: bool) -> Result<usize, PathError> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let timeout = if spins { EpollTimeout::ZERO } else { EpollTimeout::from(WAIT_MS) };
        let count = match self.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(failed("epoll_wait", errno)),
        };
        for event in events.iter().take(count) {
            match event.data() {
                LISTENER => self.accept()?,
                at => self.read(usize::try_from(at).unwrap_or(usize::MAX)),
            }
        }
        beat(&self.subscriptions);
        Ok(count)
    }

    fn finish(self) -> Received {
        Received { connections: Some(self.accepted), ..Received::new(self.subscriptions, self.rejects) }
    }
}

fn failed(call: &'static str, errno: Errno) -> PathError {
    PathError::Failed { call, errno: errno as i32 }
}
