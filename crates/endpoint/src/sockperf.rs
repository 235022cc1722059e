//! A server for stock `sockperf` clients, over UDP and TCP on one port. One thread serves all of them and allocates nothing for a
//! message.
//!
//! Its clients have no key, so it binds only what this machine alone reaches, unless the caller says otherwise. It is no amplifier:
//! an answer is as long as its message, and no answer is answered.

use crate::address::is_closed;
use crate::{EndpointError, Stop};
use interop::sockperf::{self, Incoming, MOST_BYTES};
use model::PeerProgram;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

/// Connections at once. One more is hung up on.
const MOST_CLIENTS: usize = 64;
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

/// A connection.
struct Client {
    stream: TcpStream,
    incoming: Incoming,
    /// Answers that the connection had no room for yet; until they have left nothing more is read.
    out: Vec<u8>,
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

    /// What is waited for.
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
    ///
    /// # Errors
    /// The port is in use, the address is not this host's, or others could reach it and that was not asked for.
    pub fn bind(wanted: &str, lab: &[IpAddr], is_open: bool) -> Result<Self, EndpointError> {
        let port = PeerProgram::Sockperf.port().unwrap_or_default();
        let address = net::resolve(wanted, port, None)
            .map_err(|cause| EndpointError::Address { given: wanted.to_owned(), cause })?;
        if !is_open && !is_closed(address.ip(), lab) {
            return Err(EndpointError::OpenToOthers { address });
        }
        let failed = |address: SocketAddr| {
            move |cause: io::Error| match cause.kind() {
                ErrorKind::AddrInUse => EndpointError::InUse { address },
                _ => EndpointError::Bind { address, cause },
            }
        };
        let listener = TcpListener::bind(address).map_err(failed(address))?;
        let system = |step| move |cause| EndpointError::System { step, cause };
        let address = listener.local_addr().map_err(system("reading the bound address"))?;
        let datagrams = UdpSocket::bind(address).map_err(failed(address))?;
        listener.set_nonblocking(true).map_err(system("making the listener non-blocking"))?;
        datagrams.set_nonblocking(true).map_err(system("making the socket non-blocking"))?;
        Ok(Self { datagrams, listener, address })
    }

    /// Where clients send to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`.
    ///
    /// # Errors
    /// [`EndpointError::System`] when waiting fails. What a client does never ends it.
    pub fn serve(&self, stop: &Stop) -> Result<(), EndpointError> {
        self.answer(stop).map_err(|errno| EndpointError::System { step: "waiting for clients", cause: errno.into() })
    }

    fn answer(&self, stop: &Stop) -> Result<(), Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readable = |name| EpollEvent::new(EpollFlags::EPOLLIN, name);
        epoll.add(stop, readable(STOP))?;
        epoll.add(&self.datagrams, readable(DATAGRAMS))?;
        epoll.add(&self.listener, readable(LISTENER))?;
        let mut clients: Vec<Option<Client>> = (0..MOST_CLIENTS).map(|_| None).collect();
        let mut buffer = vec![0; MOST_BYTES];
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let ready = match epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno),
            };
            for event in events.iter().take(ready) {
                match event.data() {
                    STOP => return Ok(()),
                    DATAGRAMS => self.answer_datagram(&mut buffer),
                    LISTENER => self.accept(&epoll, &mut clients)?,
                    name => serve_client(&epoll, &mut clients, name, &mut buffer)?,
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

    fn accept(&self, epoll: &Epoll, clients: &mut [Option<Client>]) -> Result<(), Errno> {
        let Ok((stream, _)) = self.listener.accept() else { return Ok(()) };
        let Some((place, free)) = clients.iter_mut().enumerate().find(|(_, client)| client.is_none()) else {
            return Ok(());
        };
        if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
            epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, CLIENTS + place as u64))?;
            *free = Some(Client { stream, incoming: Incoming::default(), out: Vec::with_capacity(MOST_BYTES) });
        }
        Ok(())
    }
}

/// Serves the client of an event, and drops one that is gone, with which epoll forgets it.
fn serve_client(epoll: &Epoll, clients: &mut [Option<Client>], name: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let place = usize::try_from(name - CLIENTS).unwrap_or(usize::MAX);
    let Some(slot) = clients.get_mut(place) else { return Ok(()) };
    let Some(client) = slot else { return Ok(()) };
    let before = client.awaited();
    if !client.serve(buffer) {
        *slot = None;
        return Ok(());
    }
    let awaited = client.awaited();
    if awaited != before {
        epoll.modify(client.stream.as_fd(), &mut EpollEvent::new(awaited, name))?;
    }
    Ok(())
}
