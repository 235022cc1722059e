//! One session's control thread: bytes between the connection and [`ServerSession`], commands and reports between that and the
//! reflector. It sleeps in poll(2) while messages are reflected.

use crate::address::is_closed;
use crate::handshakes::{HANDSHAKE, PendingClient};
use crate::inherited::InheritedData;
use crate::reflector::{DataSource, Reflector, ReflectorConfig, ReflectorEvent, StartCommand};
use crate::server::Shared;
use crate::{EndpointError, Stop};
use model::{Finding, FindingId, Protocol, Role};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wire::control::capability;
use wire::{
    Nonce, OpenRequest, RefuseCode, ServerConfig, ServerEvent, ServerSession, SessionError, StopReport, Token, Versions,
};

/// An accepted client that has not asked for a data path by then is dropped, to free its slot.
const READY: Duration = Duration::from_secs(10);
/// Seconds without a packet until the kernel probes the client's host: no more often than a measurement can bear.
const QUIET_S: u32 = 20;
/// A client whose host acknowledges nothing for this time, in ms, is dropped.
const UNACKNOWLEDGED_MS: u32 = 15_000;
/// A client that promised a sign of life each so often may miss four, and at least this long.
const SILENCE: Duration = Duration::from_secs(1);
const MISSED: u32 = 5;
/// A client that is silent for this time between two sizes is dropped.
const IDLE: Duration = Duration::from_secs(60);
/// A client that does not take a message within this time is dropped.
const WRITE: Duration = Duration::from_secs(5);
/// How long a reflector may take to come out of its loop.
const HALT: Duration = Duration::from_secs(5);
/// Bytes read at once.
const PORTION: usize = 16 << 10;

pub(crate) enum ClientConnection {
    Network {
        local: SocketAddr,
        peer: SocketAddr,
        /// Whether the client has proved the shared key.
        keyed: bool,
    },
    Inherited(Option<InheritedData>),
}

pub(crate) trait Connection: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Connection for T {}

/// Why a session ended, beside the client's wish.
enum SessionEnd {
    /// The connection is closed or unusable, or the client already has the reason.
    Gone,
    /// To be sent to the client.
    Refuse(RefuseCode, String),
    /// The protocol machine has informed the client.
    Reported(SessionError),
}

impl From<SessionError> for SessionEnd {
    fn from(error: SessionError) -> Self {
        Self::Reported(error)
    }
}

/// Runs a session of an accepted client to its end. Failures are reported to the client only.
pub(crate) fn run_client(client: PendingClient, shared: &Shared, stop: &Stop) {
    let PendingClient { stream, peer, machine, .. } = client;
    // Best effort, to notice a client that is switched off. Unacknowledged data suspends the probes, so it has a limit.
    let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
    let _ = setsockopt(&stream, sockopt::TcpKeepIdle, &QUIET_S);
    let _ = setsockopt(&stream, sockopt::TcpKeepInterval, &5);
    let _ = setsockopt(&stream, sockopt::TcpKeepCount, &3);
    let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED_MS);
    let configured = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(WRITE)));
    if let (Ok(()), Ok(local)) = (configured, stream.local_addr()) {
        let client = ClientConnection::Network { local, peer, keyed: shared.key.is_some() };
        let _ = run(stream, client, machine, shared, stop);
    }
}

fn run(
    connection: impl Connection,
    client: ClientConnection,
    machine: ServerSession,
    shared: &Shared,
    stop: &Stop,
) -> Result<(), EndpointError> {
    let now = Instant::now();
    let mut session = Session {
        connection,
        client,
        shared,
        stop,
        machine,
        reflector: None,
        started: now,
        heard: now,
        alive: now,
        silence: None,
        running: false,
        early: None,
    };
    let end = session.serve();
    session.finish(end)
}

/// A session's protocol, with its hello ready to be sent: over the network or on inherited descriptors.
pub(crate) fn machine(network: bool, shared: &Shared) -> Result<ServerSession, EndpointError> {
    let mut words = vec![capability::PACE];
    if network {
        words.extend(Protocol::ALL.into_iter().filter(|one| one.is_served()).map(Protocol::word));
        words.extend([
            capability::MULTICAST,
            capability::CONNECT_EACH,
            capability::STREAM,
            capability::HEARTBEAT,
            capability::CYCLE,
        ]);
    } else {
        words.push(capability::INHERITED);
    }
    let config = ServerConfig {
        versions: Versions::OURS,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        build: None,
        capabilities: words.into_iter().map(str::to_owned).collect(),
        limits: shared.limits.clone(),
        key: shared.key.clone().filter(|_| network),
        nonce: Nonce(random()?),
        session: shared.number(),
    };
    Ok(ServerSession::new(config)?)
}

fn random<const N: usize>() -> Result<[u8; N], EndpointError> {
    let mut bytes = [0; N];
    let drawn = getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()));
    drawn.map_err(EndpointError::system("drawing random bytes"))?;
    Ok(bytes)
}

struct Session<'a, C> {
    connection: C,
    client: ClientConnection,
    shared: &'a Shared,
    stop: &'a Stop,
    machine: ServerSession,
    reflector: Option<Reflector>,
    started: Instant,
    /// When the last whole message of the client came.
    heard: Instant,
    /// The last sign of life while we send: a message of the client, or data with its tag.
    alive: Instant,
    /// How long it may be without one while we send unasked.
    silence: Option<Duration>,
    /// Whether messages are reflected: then the client is silent by right.
    running: bool,
    /// The report of a size whose data path broke before the client asked for its end.
    early: Option<Box<StopReport>>,
}

/// What poll(2) found.
#[derive(Default)]
struct Readiness {
    control: bool,
    reflector: bool,
    stopping: bool,
}

impl<C: Connection> Session<'_, C> {
    fn serve(&mut self) -> Result<(), SessionEnd> {
        let mut portion = vec![0; PORTION];
        // What the client sent right behind its handshake.
        self.handle_events()?;
        loop {
            self.flush()?;
            if self.machine.is_done() {
                return Ok(());
            }
            let ready = self.wait()?;
            if ready.stopping {
                return Err(SessionEnd::Refuse(RefuseCode::Stopping, "the reflector is being stopped".to_owned()));
            }
            if ready.reflector {
                self.handle_reports()?;
            }
            if ready.control {
                match self.connection.read(&mut portion) {
                    // A client that hung up without closing the session vanished.
                    Ok(0) => return self.machine.handle_end().map_err(|_| SessionEnd::Gone),
                    Ok(bytes) => {
                        self.alive = Instant::now();
                        self.machine.handle_bytes(portion.get(..bytes).unwrap_or_default())?;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return Err(SessionEnd::Gone),
                }
                self.handle_events()?;
            }
        }
    }

    fn handle_events(&mut self) -> Result<(), SessionEnd> {
        while let Some(event) = self.machine.poll_event() {
            self.heard = Instant::now();
            self.handle_event(event)?;
        }
        Ok(())
    }

    /// Tells the client how it ended, and brings the reflector down.
    fn finish(mut self, end: Result<(), SessionEnd>) -> Result<(), EndpointError> {
        // The reflector first: when the client hears of the end, nothing reflects any more.
        drop(self.reflector.take());
        let outcome = match end {
            Ok(()) | Err(SessionEnd::Gone) => Ok(()),
            Err(SessionEnd::Refuse(code, reason)) => {
                self.machine.refuse(code, &reason);
                Err(EndpointError::Refused { reason })
            }
            Err(SessionEnd::Reported(error)) => Err(EndpointError::Session(error)),
        };
        let _ = self.flush();
        outcome
    }

    fn flush(&mut self) -> Result<(), SessionEnd> {
        while let Some(bytes) = self.machine.poll_transmit() {
            self.connection.write_all(&bytes).map_err(|_| SessionEnd::Gone)?;
        }
        Ok(())
    }

    /// When the session's patience ends, and what to say then.
    fn deadline(&self) -> (Instant, String) {
        let longest = u64::from(self.shared.limits.max_session_s);
        let end = self.started + Duration::from_secs(longest);
        let (since, allowed, what) = match (self.running, self.silence) {
            (false, _) if !self.machine.is_accepted() => {
                return (self.started + HANDSHAKE, "the handshake took longer than 5 s".to_owned());
            }
            (false, _) if self.reflector.is_none() => (self.started, Some(READY), " before it asked for a data path"),
            (false, _) => (self.heard, Some(IDLE), ""),
            (true, allowed) => (self.alive, allowed, " while it was sent a stream"),
        };
        match allowed {
            Some(allowed) if since + allowed < end => {
                (since + allowed, format!("the client was silent for {} s{what}", allowed.as_secs()))
            }
            _ => (end, format!("the session lasted longer than the reflector's limit of {longest} s")),
        }
    }

    fn wait(&self) -> Result<Readiness, SessionEnd> {
        loop {
            let (deadline, reason) = self.deadline();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SessionEnd::Refuse(RefuseCode::TimedOut, reason));
            }
            // One millisecond more, because poll cuts the rest of one off.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut waiting = vec![readable(self.connection.as_fd()), readable(self.stop.as_fd())];
            waiting.extend(self.reflector.as_ref().map(|reflector| readable(reflector.as_fd())));
            match poll(&mut waiting, timeout) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    let any = |at: usize| waiting.get(at).and_then(PollFd::any).unwrap_or(false);
                    return Ok(Readiness { control: any(0), stopping: any(1), reflector: any(2) });
                }
                Err(_) => return Err(SessionEnd::Gone),
            }
        }
    }

    fn handle_event(&mut self, event: ServerEvent) -> Result<(), SessionEnd> {
        match event {
            ServerEvent::Accepted { .. } | ServerEvent::Alive | ServerEvent::Closed => {}
            ServerEvent::Open(request) => self.open(*request)?,
            ServerEvent::Start { size, response_size, explain } => {
                let Some(reflector) = &self.reflector else { return Err(SessionEnd::Gone) };
                reflector.start(StartCommand { size, response_size, explain });
                self.running = true;
                self.alive = Instant::now();
            }
            ServerEvent::Stop => {
                let Some(reflector) = &self.reflector else { return Err(SessionEnd::Gone) };
                if !reflector.halt.halt(HALT) {
                    let reason = "its reflector did not come to a stop within 5 s".to_owned();
                    return Err(SessionEnd::Refuse(RefuseCode::Failed, reason));
                }
                self.running = false;
                if let Some(report) = self.early.take() {
                    self.machine.stopped(*report)?;
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, request: OpenRequest) -> Result<(), SessionEnd> {
        let refuse = |code, reason: String| Err(SessionEnd::Refuse(code, reason));
        let protocol = request.socket.protocol;
        let source = match &mut self.client {
            ClientConnection::Network { .. } if protocol.is_local() => {
                let reason = format!("{protocol} needs both ends on one machine, started by one windhover");
                return refuse(RefuseCode::Unsupported, reason);
            }
            ClientConnection::Network { local, peer, keyed } => {
                let bind = request.end.bind.unwrap_or(local.ip());
                if !*keyed && !is_closed(bind, &self.shared.lab) {
                    let reason = format!("binding data to {bind} needs a key, because others can reach it");
                    return refuse(RefuseCode::KeyRequired, reason);
                }
                let anywhere = *keyed && self.shared.limits.allow_other_addresses;
                DataSource::Network { local: data_address(*local), peer: peer.ip(), anywhere }
            }
            ClientConnection::Inherited(data) => match data.take() {
                Some(data) if data.fits(protocol) => DataSource::Inherited(data),
                Some(_) => {
                    let reason = format!("the inherited descriptors do not carry {protocol}");
                    return refuse(RefuseCode::BadRequest, reason);
                }
                None => return refuse(RefuseCode::BadRequest, "the data path was opened before".to_owned()),
            },
        };
        let token = random().map_err(|error| SessionEnd::Refuse(RefuseCode::Failed, error.to_string()))?;
        let unlocked = self.shared.unlocked.iter();
        let notes = unlocked.map(|why| Finding::at(FindingId::MemoryNotLocked, Role::Reflector, why.clone())).collect();
        if let Some(cpu) = request.end.cpu {
            // This thread must not wait behind a reflector that spins in a real-time class.
            let _ = task::set_affinity(&task::housekeeping_cpus(Some(cpu)));
        }
        let unasked = request.stream.as_ref().filter(|stream| stream.spec.goes_down());
        let beat = unasked.and_then(|stream| stream.heartbeat_ms);
        self.silence = beat.map(|ms| (Duration::from_millis(u64::from(ms)) * MISSED).max(SILENCE));
        let (clock, limits) = (self.shared.clock, self.shared.limits.clone());
        let plan = ReflectorConfig { request, source, token: Token(token), clock, limits, notes };
        match Reflector::start_thread(plan) {
            Ok(reflector) => self.reflector = Some(reflector),
            Err(error) => return refuse(RefuseCode::Failed, error.to_string()),
        }
        Ok(())
    }

    fn handle_reports(&mut self) -> Result<(), SessionEnd> {
        while let Some(report) = self.reflector.as_mut().and_then(Reflector::next_event) {
            match report {
                ReflectorEvent::Opened(opened) => self.machine.opened(opened)?,
                ReflectorEvent::Proved(address) => self.machine.proved(address)?,
                ReflectorEvent::Started => self.machine.started()?,
                ReflectorEvent::Interval(interval) => self.machine.interval(interval)?,
                ReflectorEvent::DataArrived => self.alive = Instant::now(),
                ReflectorEvent::Stopped(report) if self.running => self.early = Some(report),
                ReflectorEvent::Stopped(report) => self.machine.stopped(*report)?,
                ReflectorEvent::Failed(code, reason) => return Err(SessionEnd::Refuse(code, reason)),
            }
            // The client may take the same time again for its next word.
            self.heard = Instant::now();
        }
        Ok(())
    }
}

/// Where data is bound by default: our address on the control connection, with a free port. An IPv4 client of an IPv6 listener
/// gets an IPv4 socket; a link-local address keeps its interface.
fn data_address(control: SocketAddr) -> SocketAddr {
    match control.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, 0),
        IpAddr::V6(_) => {
            let mut address = control;
            address.set_port(0);
            address
        }
    }
}

pub(crate) fn run_inherited(
    control: std::os::unix::net::UnixStream,
    data: InheritedData,
    shared: &Shared,
    stop: &Stop,
) -> Result<(), EndpointError> {
    let step = "preparing the inherited control socket";
    control.set_write_timeout(Some(WRITE)).map_err(EndpointError::system(step))?;
    run(control, ClientConnection::Inherited(Some(data)), machine(false, shared)?, shared, stop)
}
