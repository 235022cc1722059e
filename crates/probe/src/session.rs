//! The control session as blocking calls: wire's machine driven over a TCP or UNIX stream.
//!
//! Nothing here runs while messages are measured: the connection stays quiet between `start` and `stop`.

use crate::error::HANDSHAKE;
use crate::{ProbeError, check, opening};
use model::stream::StreamInterval;
use model::{Limits, Protocol};
use net::NetError;
use socket2::Socket;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wire::{ClientConfig, ClientEvent, ClientSession, Key, OpenRequest, Opened, SessionError, StopReport};

/// How long a connection or one answer of the endpoint may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the data path may take to be proved.
const PROVE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two showings of the token.
const PROVE_AGAIN: Duration = Duration::from_millis(50);
/// How long a broken peer is waited for when it is asked for its last report.
const LAST_REPORT: Duration = Duration::from_millis(500);

/// The step in which a data path is asked for.
pub(crate) const OPENING: &str = "opening the data path";

#[derive(Debug)]
pub(crate) struct Session {
    /// A TCP connection, or one end of a pair to a child.
    stream: Socket,
    machine: ClientSession,
    /// Set when the program is asked to end: what is waited for before a measurement is then given up.
    stop: Arc<AtomicBool>,
    /// The endpoint as people write it, for errors.
    pub name: String,
    /// What results call its host: as whoever asks calls it, else the name.
    pub host: String,
    /// The control connection's far end; absent for a child.
    peer: Option<SocketAddr>,
    /// What the endpoint's owner allows, from the handshake.
    pub limits: Limits,
}

impl Session {
    pub(crate) fn connect(address: SocketAddr, key: Option<Key>, stop: &Arc<AtomicBool>) -> Result<Self, ProbeError> {
        let name = address.to_string();
        let failed = |cause: std::io::Error| match cause.kind() {
            ErrorKind::ConnectionRefused => ProbeError::NothingListens(name.clone()),
            ErrorKind::TimedOut | ErrorKind::WouldBlock => ProbeError::NoAnswer(name.clone()),
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::NetworkDown => {
                ProbeError::NoRoute { address: name.clone(), cause }
            }
            _ => ProbeError::Connect { address: name.clone(), cause },
        };
        let connect = move || TcpStream::connect_timeout(&address, PATIENCE);
        let stream = opening::unless_stopped(stop, connect)?.map_err(failed)?;
        let configured = stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        configured.map_err(|cause| ProbeError::Connect { address: name.clone(), cause })?;
        Self::greet(stream.into(), name, Some(address), key, stop)
    }

    /// Makes the handshake with a reflector that was started as a child.
    pub(crate) fn over(stream: UnixStream, name: String, stop: &Arc<AtomicBool>) -> Result<Self, ProbeError> {
        let configured = stream.set_write_timeout(Some(PATIENCE));
        configured.map_err(|cause| ProbeError::Connect { address: name.clone(), cause })?;
        Self::greet(stream.into(), name, None, None, stop)
    }

    fn greet(
        stream: Socket,
        name: String,
        peer: Option<SocketAddr>,
        key: Option<Key>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ProbeError> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(ProbeError::Random)?;
        let machine = ClientSession::new(ClientConfig::new(key, nonce));
        let stop = Arc::clone(stop);
        let mut session = Self { stream, machine, stop, host: name.clone(), name, peer, limits: Limits::default() };
        let hung_up = |address: &str| ProbeError::Connect {
            address: address.to_owned(),
            cause: std::io::Error::other("it hung up during the handshake: is it a windhover endpoint?"),
        };
        let greeted = session.wait_unless_stopped(PATIENCE).map_err(|error| match error {
            ProbeError::Session { address, cause: SessionError::Closed { .. } } => hung_up(&address),
            ProbeError::Control { address, cause } => ProbeError::Connect { address, cause },
            other => other,
        });
        match greeted? {
            Some(ClientEvent::Ready { hello, .. }) => {
                session.limits = hello.limits;
                Ok(session)
            }
            Some(_) => Err(session.out_of_order(HANDSHAKE)),
            None => Err(session.silent(HANDSHAKE)),
        }
    }

    /// Our end of the control connection; absent for a child.
    pub(crate) fn own_address(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()?.as_socket()
    }

    /// Says beforehand that data from an address would not be answered.
    pub(crate) fn check_source(&self, data: Option<SocketAddr>) -> Result<(), ProbeError> {
        let (Some(own), Some(data)) = (self.own_address(), data) else { return Ok(()) };
        let allowed = self.limits.allow_other_addresses;
        let (own, data) = (own.ip().to_canonical(), data.ip().to_canonical());
        if allowed || data.is_unspecified() || own == data {
            return Ok(());
        }
        check::conflict(
            format!(
                "our control connection to {} comes from {own} and our data from {data}, which it does not answer",
                self.name
            ),
            "leave --bind out, or start the endpoint with --allow-other-addresses and a key",
        )
    }

    /// The endpoint's report of one second of an upstream; none within `patience` (at least 1 ms).
    pub(crate) fn receive_interval(&mut self, patience: Duration) -> Result<Option<StreamInterval>, ProbeError> {
        match self.wait(patience)? {
            Some(ClientEvent::Interval(interval)) => Ok(Some(interval)),
            Some(_) => Err(self.out_of_order("streaming")),
            None => Ok(None),
        }
    }

    /// A sign of life while a stream runs, for an endpoint that listens for it.
    pub(crate) fn alive(&mut self) -> Result<(), ProbeError> {
        self.machine.alive().map_err(|cause| self.failed(cause))?;
        self.flush()
    }

    pub(crate) fn open(&mut self, mut request: OpenRequest) -> Result<Opened, ProbeError> {
        if let Some(stream) = request.stream.as_mut().filter(|_| !self.machine.hears_heartbeats()) {
            stream.heartbeat_ms = None;
        }
        self.machine.open(request).map_err(|cause| self.failed(cause))?;
        match self.answer(OPENING)? {
            ClientEvent::Opened(opened) => Ok(opened),
            _ => Err(self.out_of_order(OPENING)),
        }
    }

    /// The address of the data path. Absent for inherited descriptors.
    pub(crate) fn data_address(&self, opened: &Opened) -> Option<SocketAddr> {
        let mut address = self.peer?;
        if let Some(ip) = opened.address
            && ip != address.ip()
        {
            address.set_ip(ip);
        }
        address.set_port(opened.port);
        Some(address)
    }

    /// Proves the data path by `show`, at once and then every 50 ms. Returns our address as the endpoint sees it.
    pub(crate) fn prove(
        &mut self,
        protocol: Protocol,
        mut show: impl FnMut() -> Result<(), ProbeError>,
    ) -> Result<Option<SocketAddr>, ProbeError> {
        let start = Instant::now();
        loop {
            match show() {
                // ICMP's answer to an earlier datagram: the endpoint has closed its socket, and reports why over this connection.
                Err(ProbeError::Net(NetError::Exchange { cause, .. }))
                    if protocol.counts_losses() && cause.kind() == ErrorKind::ConnectionRefused => {}
                shown => shown?,
            }
            match self.wait_unless_stopped(PROVE_AGAIN)? {
                Some(ClientEvent::Proved { address }) => return Ok(address),
                Some(_) => return Err(self.out_of_order("proving the data path")),
                None if start.elapsed() < PROVE_PATIENCE => {}
                None => return Err(ProbeError::NotProved { protocol, address: self.name.clone() }),
            }
        }
    }

    /// Begins a size: the reflector waits for messages when this returns.
    pub(crate) fn start(&mut self, size: u32, response_size: u32, explain: bool) -> Result<(), ProbeError> {
        let machine = &mut self.machine;
        let started =
            if explain { machine.start_explaining(size, response_size) } else { machine.start(size, response_size) };
        started.map_err(|cause| self.failed(cause))?;
        match self.answer("starting a size")? {
            ClientEvent::Started => Ok(()),
            _ => Err(self.out_of_order("starting a size")),
        }
    }

    /// Ends a size and takes the report; of a `broken` data path the peer is not waited for long.
    pub(crate) fn stop(&mut self, broken: bool) -> Result<StopReport, ProbeError> {
        self.machine.stop().map_err(|cause| self.failed(cause))?;
        loop {
            return match self.wait(if broken { LAST_REPORT } else { PATIENCE })? {
                // It was sent before the stop.
                Some(ClientEvent::Interval(_)) => continue,
                Some(ClientEvent::Stopped(report)) => Ok(*report),
                Some(_) => Err(self.out_of_order("stopping a size")),
                None if broken => Err(ProbeError::SilentToo(self.name.clone())),
                None => Err(self.silent("stopping a size")),
            };
        }
    }

    /// Why the endpoint has hung up or ended the session, if it has; waits 1 ms at most. Not for the measured loop.
    pub(crate) fn ended(&mut self) -> Option<ProbeError> {
        match self.wait(Duration::ZERO) {
            Ok(None) => None,
            Ok(Some(_)) => Some(self.out_of_order("measuring")),
            Err(error) => Some(error),
        }
    }

    /// Closes the session; failures no longer matter.
    pub(crate) fn close(mut self) {
        let _ = self.machine.close();
        let _ = self.flush();
    }

    fn flush(&mut self) -> Result<(), ProbeError> {
        while let Some(bytes) = self.machine.poll_transmit() {
            if let Err(cause) = self.stream.write_all(&bytes) {
                // The endpoint's last message is more precise than the broken pipe.
                let _ = self.read_once(Duration::from_millis(10));
                return Err(ProbeError::Control { address: self.name.clone(), cause });
            }
        }
        Ok(())
    }

    /// The next event, or none within `patience`.
    fn wait(&mut self, patience: Duration) -> Result<Option<ClientEvent>, ProbeError> {
        let start = Instant::now();
        loop {
            self.flush()?;
            if let Some(event) = self.machine.poll_event() {
                return Ok(Some(event));
            }
            let left = patience.saturating_sub(start.elapsed());
            if !self.read_once(left)? && left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// The next event, or none within `patience`; given up when the program is asked to end.
    fn wait_unless_stopped(&mut self, patience: Duration) -> Result<Option<ClientEvent>, ProbeError> {
        let start = Instant::now();
        loop {
            opening::check(&self.stop)?;
            let left = patience.saturating_sub(start.elapsed());
            let event = self.wait(left.min(opening::LOOK))?;
            if event.is_some() || left.is_zero() {
                return Ok(event);
            }
        }
    }

    /// The next event before a measurement, which the endpoint owes us.
    fn answer(&mut self, during: &'static str) -> Result<ClientEvent, ProbeError> {
        self.wait_unless_stopped(PATIENCE)?.ok_or_else(|| self.silent(during))
    }

    /// Reads what there is, waiting at most `patience` (at least 1 ms); returns whether something came.
    fn read_once(&mut self, patience: Duration) -> Result<bool, ProbeError> {
        let control = |name: &str, cause| ProbeError::Control { address: name.to_owned(), cause };
        self.stream
            .set_read_timeout(Some(patience.max(Duration::from_millis(1))))
            .map_err(|cause| control(&self.name, cause))?;
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.machine.handle_end().map(|()| false).map_err(|cause| self.failed(cause)),
            Ok(bytes) => {
                let bytes = buffer.get(..bytes).unwrap_or_default();
                self.machine.handle_bytes(bytes).map(|()| true).map_err(|cause| self.failed(cause))
            }
            Err(cause) => match cause.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(control(&self.name, cause)),
            },
        }
    }

    fn failed(&self, cause: SessionError) -> ProbeError {
        ProbeError::Session { address: self.name.clone(), cause }
    }

    fn silent(&self, during: &'static str) -> ProbeError {
        ProbeError::Silent { address: self.name.clone(), during, seconds: PATIENCE.as_secs() }
    }

    pub(crate) fn out_of_order(&self, during: &'static str) -> ProbeError {
        ProbeError::OutOfOrder { address: self.name.clone(), during }
    }
}
