//! The endpoint: control sessions, each on a thread of its own, with at most one reflector each.
//!
//! It is exposed to whoever reaches it: nothing is sent on a data path before the client has shown its token there, and answers
//! go only to the address of the control connection. Over PGM they go to the group that the client named, after its token came
//! as a message of its source.

use crate::error::random;
use crate::platform::{self, Placement};
use crate::reflector::{Order, Reflector, ReflectorEvent};
use crate::{PROTOCOLS, WinpointError, data};
use model::{Finding, FindingId, Limits, Protocol, Receive, Role, Stamps};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::control::capability;
use wire::{
    Key, Nonce, OpenRequest, RefuseCode, ServerConfig, ServerEvent, ServerSession, StopReport, Token, Versions,
};

/// How long the handshake may take, and a client be silent between two sizes.
const HANDSHAKE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(60);
/// How long the control thread sleeps at once: between sizes, and while messages are reflected.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_RUNNING: Duration = Duration::from_millis(200);
/// How long a reflector may take to come out of its loop.
const HALT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    key: Option<Key>,
    limits: Limits,
    placement: Placement,
    sessions: AtomicU32,
    number: AtomicU64,
}

/// What an endpoint on this system may be asked for: it has no Linux policies and sends no streams.
fn limits(asked: &Limits) -> Limits {
    Limits { allow_real_time: false, allow_other_addresses: false, max_bandwidth_bps: Some(0), ..asked.clone() }
}

impl Server {
    /// Listens. `placement` is for the threads of the reflectors; its CPU is the one of clients that ask for none.
    /// Errors: [`WinpointError::KeyNeeded`] for an address that others reach without a key, [`WinpointError::Listen`].
    pub fn bind(
        address: SocketAddr,
        key: Option<Key>,
        asked: &Limits,
        placement: Placement,
    ) -> Result<Self, WinpointError> {
        if key.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(WinpointError::KeyNeeded(address.to_string()));
        }
        let listen = |cause| WinpointError::Listen { address: address.to_string(), cause };
        let listener = TcpListener::bind(address).map_err(listen)?;
        let shared =
            Shared { key, limits: limits(asked), placement, sessions: AtomicU32::new(0), number: AtomicU64::new(1) };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens. Errors: [`WinpointError::Listen`].
    pub fn local_address(&self) -> Result<SocketAddr, WinpointError> {
        self.listener.local_addr().map_err(|cause| WinpointError::Listen { address: String::new(), cause })
    }

    /// Serves for ever.
    pub fn serve(&self) {
        for stream in self.listener.incoming() {
            // A client that is gone before it was accepted is no failure of ours. Without a free descriptor it would fail at once again.
            let Ok(stream) = stream else {
                std::thread::sleep(LOOK);
                continue;
            };
            let shared = Arc::clone(&self.shared);
            if shared.sessions.fetch_add(1, Ordering::AcqRel) >= shared.limits.max_sessions {
                shared.sessions.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let session = move || {
                let _ = run(stream, &shared);
                shared.sessions.fetch_sub(1, Ordering::AcqRel);
            };
            let started = std::thread::Builder::new().name("session".to_owned()).spawn(session);
            // Its stream was closed; those who are served go on.
            if started.is_err() {
                self.shared.sessions.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

/// Why a session ended, beside the client's wish: what it is told, or nothing where it knows or is gone.
type End = Option<(RefuseCode, String)>;

fn run(stream: TcpStream, shared: &Shared) -> Result<(), WinpointError> {
    let failed = |cause| WinpointError::Control { address: String::new(), cause };
    stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(HANDSHAKE))).map_err(failed)?;
    let (local, peer) = (stream.local_addr().map_err(failed)?, stream.peer_addr().map_err(failed)?);
    let words = std::iter::once(capability::PACE).chain(PROTOCOLS.map(Protocol::word));
    let config = ServerConfig {
        versions: Versions::OURS,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        build: None,
        capabilities: words.map(str::to_owned).collect(),
        limits: shared.limits.clone(),
        key: shared.key.clone(),
        nonce: Nonce(random()?),
        session: shared.number.fetch_add(1, Ordering::Relaxed),
    };
    let machine =
        ServerSession::new(config).map_err(|cause| WinpointError::Session { address: peer.to_string(), cause })?;
    let now = Instant::now();
    let mut session = Session {
        stream,
        local,
        peer,
        shared,
        machine,
        reflector: None,
        started: now,
        heard: now,
        running: false,
        early: None,
    };
    let end = session.serve();
    drop(session.reflector.take());
    if let Err(Some((code, reason))) = end {
        session.machine.refuse(code, &reason);
    }
    let _ = session.flush();
    Ok(())
}

struct Session<'a> {
    stream: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    shared: &'a Shared,
    machine: ServerSession,
    reflector: Option<Reflector>,
    started: Instant,
    heard: Instant,
    /// Whether messages are reflected: then the client is silent by right.
    running: bool,
    /// The report of a size whose data path broke before the client asked for its end.
    early: Option<Box<StopReport>>,
}

impl Session<'_> {
    fn serve(&mut self) -> Result<(), End> {
        let mut portion = [0; 4096];
        loop {
            self.flush().map_err(|_| None)?;
            if self.machine.is_done() {
                return Ok(());
            }
            self.check_time()?;
            while let Some(event) = self.reflector.as_ref().and_then(Reflector::next_event) {
                self.report(event)?;
            }
            self.flush().map_err(|_| None)?;
            let look = if self.running { LOOK_RUNNING } else { LOOK };
            self.stream.set_read_timeout(Some(look)).map_err(|_| None)?;
            match self.stream.read(&mut portion) {
                Ok(0) => return Err(None),
                // What is wrong with them the machine has told the client.
                Ok(bytes) => self.machine.handle_bytes(portion.get(..bytes).unwrap_or_default()).map_err(|_| None)?,
                Err(error) if data::is_nothing(&error) => {}
                Err(_) => return Err(None),
            }
            while let Some(event) = self.machine.poll_event() {
                self.heard = Instant::now();
                self.handle(event)?;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.machine.poll_transmit() {
            self.stream.write_all(&bytes)?;
        }
        Ok(())
    }

    fn check_time(&self) -> Result<(), End> {
        let longest = u64::from(self.shared.limits.max_session_s);
        let late = |since: Instant, allowed: Duration| since.elapsed() > allowed;
        let reason = if late(self.started, Duration::from_secs(longest)) {
            format!("the session lasted longer than the reflector's limit of {longest} s")
        } else if !self.machine.is_accepted() && late(self.started, HANDSHAKE) {
            "the handshake took longer than 5 s".to_owned()
        } else if !self.running && late(self.heard, IDLE) {
            "the client was silent for 60 s".to_owned()
        } else {
            return Ok(());
        };
        Err(Some((RefuseCode::TimedOut, reason)))
    }

    fn handle(&mut self, event: ServerEvent) -> Result<(), End> {
        match event {
            ServerEvent::Accepted { .. } | ServerEvent::Alive | ServerEvent::Closed => {}
            ServerEvent::Open(request) => self.open(*request)?,
            ServerEvent::Start { size, response_size, .. } => {
                self.reflector.as_ref().ok_or(None)?.start_size(size, response_size);
                self.running = true;
            }
            ServerEvent::Stop => {
                if let Some(report) = self.early.take() {
                    self.stopped(*report)?;
                } else {
                    let event = self.reflector.as_ref().ok_or(None)?.halt(HALT);
                    let late = "its reflector did not come to a stop within 5 s".to_owned();
                    self.report(event.ok_or(Some((RefuseCode::Failed, late)))?)?;
                    if let Some(report) = self.early.take() {
                        self.stopped(*report)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn stopped(&mut self, report: StopReport) -> Result<(), End> {
        self.running = false;
        self.machine.stopped(report).map_err(|_| None)
    }

    fn report(&mut self, event: ReflectorEvent) -> Result<(), End> {
        let said = match event {
            ReflectorEvent::Opened(opened) => self.machine.opened(opened),
            ReflectorEvent::Proved(address) => self.machine.proved(Some(address)),
            ReflectorEvent::Started => self.machine.started(),
            ReflectorEvent::Stopped(report) => {
                self.early = Some(report);
                Ok(())
            }
            ReflectorEvent::Failed(code, reason) => return Err(Some((code, reason))),
        };
        said.map_err(|_| None)
    }

    fn open(&mut self, request: OpenRequest) -> Result<(), End> {
        if let Some(what) = not_here(&request, self.local) {
            return Err(Some((RefuseCode::Unsupported, format!("winpoint has no {what}"))));
        }
        let token = random().map_err(|error| Some((RefuseCode::Failed, error.to_string())))?;
        let placement =
            Placement { cpu: request.end.cpu.or(self.shared.placement.cpu), ..self.shared.placement.clone() };
        let order = Order {
            request,
            local: self.local,
            peer: self.peer.ip(),
            token: Token(token),
            max_rate_pps: self.shared.limits.max_rate_pps,
            placement,
            notes: vec![note()],
        };
        let reflector = Reflector::start(order).map_err(|error| Some((RefuseCode::Failed, error.to_string())))?;
        self.reflector = Some(reflector);
        Ok(())
    }
}

/// What each report of this reflector says of it.
fn note() -> Finding {
    let facts = platform::facts();
    let detail = format!(
        "reflected by winpoint on {} ({}): its CPU use, faults and drops at receiving were not watched",
        facts.os,
        platform::CLOCK
    );
    Finding::at(FindingId::Foreign, Role::Reflector, detail)
}

/// The first thing of a request that this reflector does not have.
fn not_here(request: &OpenRequest, local: SocketAddr) -> Option<&'static str> {
    let (socket, end) = (&request.socket, &request.end);
    let one_each = request.pings == 1 && request.pongs == 1;
    let pace_alone = request
        .pace
        .as_ref()
        .is_none_or(|pace| pace.stamps == Stamps::None && pace.port.is_none() && pace.group.is_none());
    [
        (!PROTOCOLS.contains(&socket.protocol), "protocol but udp, tcp and pgm"),
        (socket.multicast.is_some(), "multicast without pgm"),
        (request.stream.is_some(), "streams"),
        (request.connect_each, "connection for each transaction"),
        (!one_each || socket.more, "rounds of several messages"),
        (socket.ttl.is_some() && socket.pgm.is_none(), "time to live to set"),
        (!pace_alone, "time stamps of the system and no group (leave --stamps out)"),
        (
            !matches!(end.receive, Receive::Block | Receive::Spin | Receive::Completion),
            "receive mode but block, spin and iocp",
        ),
        (end.policy != model::Policy::Other, "Linux policy: use its own --priority and --mmcss"),
        (end.busy_poll_us.is_some(), "busy polling"),
        (end.send_buffer_bytes.or(end.receive_buffer_bytes).is_some(), "socket buffers to set"),
        (end.device.is_some(), "network device to bind to"),
        (end.bind.is_some_and(|bind| bind != local.ip()), "other data address than that of the control connection"),
        (end.idle.total() > 0, "idle descriptors"),
    ]
    .into_iter()
    .find_map(|(asked, what)| asked.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Probe;

    fn request(change: impl FnOnce(&mut OpenRequest)) -> OpenRequest {
        let mut request = OpenRequest::new(Probe::Pingpong, Protocol::Udp, 32);
        change(&mut request);
        request
    }

    #[test]
    fn what_is_not_here_is_refused_by_name() {
        // A wish that is passed over silently: the figure would stand under a wrong name.
        let local = "10.0.0.1:7412".parse().unwrap();
        assert_eq!(not_here(&request(|_| ()), local), None);
        assert_eq!(not_here(&request(|request| request.end.bind = Some(local.ip())), local), None);
        for (change, word) in [
            (&(|request: &mut OpenRequest| request.end.busy_poll_us = Some(1)) as &dyn Fn(&mut OpenRequest), "busy"),
            (&|request| request.end.receive = Receive::Epoll, "receive mode"),
            (&|request| request.end.policy = model::Policy::Fifo(1), "--priority"),
            (&|request| request.end.bind = Some("10.0.0.2".parse().unwrap()), "data address"),
            (&|request| request.end.receive_buffer_bytes = Some(1), "buffers"),
            (&|request| request.end.idle.pipes = 1, "idle"),
            (&|request| request.socket.ttl = Some(1), "time to live"),
            (&|request| request.pings = 2, "several"),
            (&|request| request.connect_each = true, "transaction"),
        ] {
            let found = not_here(&request(change), local);
            assert!(found.is_some_and(|found| found.contains(word)), "{word}: {found:?}");
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_a_key() {
        let bind = |key| Server::bind("0.0.0.0:0".parse().unwrap(), key, &Limits::default(), Placement::default());
        assert!(matches!(bind(None), Err(WinpointError::KeyNeeded(_))));
        bind(Some(Key::from_bytes([7; 32]))).unwrap();
    }
}
