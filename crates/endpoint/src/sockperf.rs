//! A server for stock `sockperf` clients, over UDP and TCP on one port: one thread, and nothing is allocated for a message.
//!
//! Its clients have no key, so it binds only what this machine alone reaches, unless asked otherwise. It is no amplifier: an
//! answer is as long as its message, and no answer is answered.

use crate::address::is_closed;
use crate::{EndpointError, Stop};
use interop::sockperf::{self, Incoming};
use model::PeerProgram;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use std::cmp::Reverse;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Connections at once. For one more, that of the address with most that was silent longest is hung up on.
const MOST_CLIENTS: usize = 64;
/// No connection is taken for so long after one could not be: the usual cause is that descriptors ran out, and they come back.
const REST: Duration = Duration::from_millis(100);
/// Bytes taken at once; a datagram is no longer.
const PORTION: usize = 65_536;
/// Ports that the system chose for TCP and that UDP has not free are given back so often.
const TRIES: u32 = 16;
/// A client whose host acknowledges nothing for this time, in ms, is dropped.
const UNACKNOWLEDGED_MS: u32 = 15_000;
/// What epoll tells the descriptors apart by; a client's is behind these, by its place.
const STOP: u64 = 0;
const DATAGRAMS: u64 = 1;
const LISTENER: u64 = 2;
const CLIENTS: u64 = 3;

/// A bound server. Bind first, publish the address, then serve.
#[derive(Debug)]
pub struct SockperfServer {
    datagrams: UdpSocket,
    listener: TcpListener,
    address: SocketAddr,
}

struct Client {
    stream: TcpStream,
    incoming: Incoming,
    /// Answers that the connection had no room for yet; until they have left nothing more is read.
    out: Vec<u8>,
    from: IpAddr,
    /// When it was served last, in events of the server.
    served: u64,
}

impl Client {
    /// Reads what came, answers it, and sends what can be sent; `false`: the connection is over.
    fn serve(&mut self, buffer: &mut [u8]) -> bool {
        if self.out.is_empty() {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(bytes) => {
                    let came = buffer.get(..bytes).unwrap_or_default();
                    if self.incoming.take(came, |answer| self.out.extend_from_slice(answer)).is_err() {
                        return false;
                    }
                }
                Err(error) if is_none(&error) => {}
                Err(_) => return false,
            }
        }
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return false,
                Ok(bytes) => _ = self.out.drain(..bytes),
                Err(error) if is_none(&error) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn awaited(&self) -> EpollFlags {
        if self.out.is_empty() { EpollFlags::EPOLLIN } else { EpollFlags::EPOLLOUT }
    }
}

/// Nothing can be read or written at the moment.
fn is_none(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl SockperfServer {
    /// Binds one port for UDP and TCP. `lab` are addresses that only this machine's labs reach; `is_open`: others may be bound, too.
    /// Errors: the port is in use, the address is not this host's, or others could reach it and that was not asked for.
    pub fn bind(wanted: &str, lab: &[IpAddr], is_open: bool) -> Result<Self, EndpointError> {
        let port = PeerProgram::Sockperf.port().unwrap_or_default();
        let address = net::resolve(wanted, port, None)
            .map_err(|cause| EndpointError::Address { given: wanted.to_owned(), cause })?;
        if !is_open && !is_closed(address.ip(), lab) {
            return Err(EndpointError::OpenToOthers { address });
        }
        let system = EndpointError::system::<io::Error>;
        let mut tries = 0;
        let (listener, datagrams, address) = loop {
            tries += 1;
            let listener = TcpListener::bind(address).map_err(EndpointError::binding(address))?;
            let bound = listener.local_addr().map_err(system("reading the bound address"))?;
            match UdpSocket::bind(bound) {
                Ok(datagrams) => break (listener, datagrams, bound),
                Err(_) if address.port() == 0 && tries < TRIES => {}
                Err(cause) => return Err(EndpointError::binding(bound)(cause)),
            }
        };
        listener.set_nonblocking(true).map_err(system("making the listener non-blocking"))?;
        datagrams.set_nonblocking(true).map_err(system("making the socket non-blocking"))?;
        Ok(Self { datagrams, listener, address })
    }

    /// Where clients send to.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`. Errors: [`EndpointError::System`] when waiting fails. What a client does never ends it.
    pub fn serve(&self, stop: &Stop) -> Result<(), EndpointError> {
        self.answer(stop).map_err(EndpointError::system("waiting for clients"))
    }

    fn answer(&self, stop: &Stop) -> Result<(), Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readable = |name| EpollEvent::new(EpollFlags::EPOLLIN, name);
        epoll.add(stop, readable(STOP))?;
        epoll.add(&self.datagrams, readable(DATAGRAMS))?;
        epoll.add(&self.listener, readable(LISTENER))?;
        let mut clients: Vec<Option<Client>> = (0..MOST_CLIENTS).map(|_| None).collect();
        let mut buffer = vec![0; PORTION];
        let mut events = [EpollEvent::empty(); 16];
        let (mut served, mut rests_until) = (0, None);
        loop {
            let limit =
                rests_until.map_or(EpollTimeout::NONE, |_| EpollTimeout::try_from(REST).unwrap_or(EpollTimeout::ZERO));
            let waited = epoll.wait(&mut events, limit);
            if rests_until.take_if(|end| Instant::now() >= *end).is_some() {
                epoll.add(&self.listener, readable(LISTENER))?;
            }
            let ready = match waited {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno),
            };
            for event in events.iter().take(ready) {
                served += 1;
                match event.data() {
                    STOP => return Ok(()),
                    DATAGRAMS => self.answer_datagram(&mut buffer),
                    LISTENER if !self.accept(&epoll, &mut clients, served) => {
                        // It stays readable: without a rest this would turn in circles.
                        epoll.delete(&self.listener)?;
                        rests_until = Some(Instant::now() + REST);
                    }
                    LISTENER => {}
                    name => serve_client(&epoll, &mut clients, (name, served), &mut buffer),
                }
            }
        }
    }

    fn answer_datagram(&self, buffer: &mut [u8]) {
        let Ok((bytes, from)) = self.datagrams.recv_from(buffer) else { return };
        if let Some(message) = buffer.get_mut(..bytes)
            && sockperf::answer(message)
        {
            // A client that cannot be reached has lost its answer.
            let _ = self.datagrams.send_to(message, from);
        }
    }

    /// Takes a connection; `false`: it could not, and the next attempt would fare no better.
    fn accept(&self, epoll: &Epoll, clients: &mut [Option<Client>], served: u64) -> bool {
        let (stream, from) = match self.listener.accept() {
            Ok((stream, peer)) => (stream, peer.ip()),
            Err(error) => return is_none(&error) || error.kind() == ErrorKind::ConnectionAborted,
        };
        let place = place_for_one_more(clients);
        let Some(slot) = clients.get_mut(place) else { return true };
        // Whoever vanished without a word leaves by these.
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED_MS);
        let is_ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok();
        if is_ready && epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, CLIENTS + place as u64)).is_ok() {
            *slot =
                Some(Client { stream, incoming: Incoming::default(), out: Vec::with_capacity(PORTION), from, served });
        }
        true
    }
}

/// A free place, or that of the connection which gives way.
fn place_for_one_more(clients: &[Option<Client>]) -> usize {
    let of = |from: IpAddr| clients.iter().flatten().filter(|client| client.from == from).count();
    let rank = |client: &Option<Client>| client.as_ref().map(|client| (Reverse(of(client.from)), client.served));
    clients.iter().enumerate().min_by_key(|(_, client)| rank(client)).map_or(0, |(place, _)| place)
}

/// Serves the client of an event, and drops one that has ended, with which epoll forgets it.
fn serve_client(epoll: &Epoll, clients: &mut [Option<Client>], (name, served): (u64, u64), buffer: &mut [u8]) {
    let place = usize::try_from(name - CLIENTS).unwrap_or(usize::MAX);
    let Some(slot) = clients.get_mut(place) else { return };
    let Some(client) = slot else { return };
    let before = client.awaited();
    client.served = served;
    let is_served = client.serve(buffer);
    let awaited = client.awaited();
    let is_heard =
        awaited == before || epoll.modify(client.stream.as_fd(), &mut EpollEvent::new(awaited, name)).is_ok();
    if !is_served || !is_heard {
        *slot = None;
    }
}
