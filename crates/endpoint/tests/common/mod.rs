//! A small initiator made from wire and net, and servers on loopback for it.
#![allow(dead_code, reason = "each test file uses its own part")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

use clock::Clock;
use model::worker::EndpointTask;
use model::{EndSpec, IdleDescriptors, Limits, Probe, Protocol, Receive};
use net::{DataSocket, PathOptions, PathVisitor, Received};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use windhover_endpoint::{Endpoint, Stop};
use wire::{ClientConfig, ClientEvent, ClientSession, Key, OpenRequest, Opened, SessionError, StopReport, Tier, data};

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub address: SocketAddr,
    pub endpoint: Arc<Endpoint>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(bind: &str, key: Option<&Key>, limits: Limits) -> Self {
        let task = EndpointTask { bind: bind.to_owned(), key: key.map(Key::to_hex), limits };
        let endpoint = Arc::new(Endpoint::bind(&task).unwrap());
        let stop = Stop::new().unwrap();
        let (serving, wish) = (Arc::clone(&endpoint), stop.clone());
        let thread = std::thread::spawn(move || serving.serve(&wish).unwrap());
        Self { address: endpoint.local_address(), endpoint, stop, thread: Some(thread) }
    }

    pub(crate) fn open() -> Self {
        Self::start("127.0.0.1:0", None, Limits::default())
    }

    /// Waits until so many sessions are under way.
    pub(crate) fn wait_sessions(&self, wanted: u32) {
        let started = Instant::now();
        while self.endpoint.sessions() != wanted {
            assert!(started.elapsed() < PATIENCE, "{} sessions instead of {wanted}", self.endpoint.sessions());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it and waits for its threads.
    pub(crate) fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) trait Stream: Read + Write {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A control session driven with blocking calls.
pub(crate) struct Client {
    pub stream: Box<dyn Stream>,
    pub machine: ClientSession,
    pub peer: Option<SocketAddr>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, key: Option<Key>) -> Result<Self, SessionError> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(Box::new(stream), Some(address), key)
    }

    pub(crate) fn over(
        stream: Box<dyn Stream>,
        peer: Option<SocketAddr>,
        key: Option<Key>,
    ) -> Result<Self, SessionError> {
        let machine = ClientSession::new(ClientConfig::new(key, [4; 32]));
        let mut client = Self { stream, machine, peer };
        match client.next()? {
            ClientEvent::Ready { .. } => Ok(client),
            other => panic!("{other:?}"),
        }
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Result<ClientEvent, SessionError> {
        loop {
            while let Some(bytes) = self.machine.poll_transmit() {
                // A server that refuses hangs up; what it said before is read below.
                let _ = self.stream.write_all(&bytes);
            }
            if let Some(event) = self.machine.poll_event() {
                return Ok(event);
            }
            let mut portion = [0; 4096];
            match self.stream.read(&mut portion) {
                Ok(0) => self.machine.handle_end()?,
                Ok(bytes) => self.machine.handle_bytes(&portion[..bytes])?,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => self.machine.handle_end()?,
                Err(error) => panic!("no answer within {PATIENCE:?}: {error}"),
            }
        }
    }

    pub(crate) fn opened(&mut self, request: OpenRequest) -> Result<Opened, SessionError> {
        self.machine.open(request)?;
        match self.next()? {
            ClientEvent::Opened(opened) => Ok(opened),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn data_address(&self, opened: &Opened) -> SocketAddr {
        let mut address = self.peer.unwrap();
        address.set_port(opened.port);
        address
    }

    /// Opens a data path and proves it.
    pub(crate) fn path(&mut self, request: &OpenRequest) -> Result<(DataSocket, u64), SessionError> {
        let opened = self.opened(request.clone())?;
        let address = self.data_address(&opened);
        let mut socket = DataSocket::connect(&request.socket, &EndSpec::default(), address, PATIENCE).unwrap();
        socket.send_once(&data::prove(&opened.token), PATIENCE).unwrap();
        let ClientEvent::Proved { address } = self.next()? else { panic!("not proved") };
        assert_eq!(address.unwrap().port(), socket.local_address().unwrap().port());
        Ok((socket, opened.token.tag()))
    }

    pub(crate) fn start(&mut self, size: u32, response: u32) -> Result<(), SessionError> {
        self.machine.start(size, response)?;
        assert_eq!(self.next()?, ClientEvent::Started);
        Ok(())
    }

    pub(crate) fn stop(&mut self) -> Result<StopReport, SessionError> {
        self.machine.stop()?;
        match self.next()? {
            ClientEvent::Stopped(report) => Ok(*report),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn close(mut self) {
        self.machine.close().unwrap();
        while let Some(bytes) = self.machine.poll_transmit() {
            self.stream.write_all(&bytes).unwrap();
        }
    }
}

pub(crate) fn request(protocol: Protocol) -> OpenRequest {
    OpenRequest::new(Probe::Pingpong, protocol, 4096)
}

/// Rounds of pings and pongs, checked; a lost datagram fails.
pub(crate) struct Rounds {
    pub count: u64,
    pub size: usize,
    pub response: usize,
    pub pings: u32,
    pub pongs: u32,
    pub tag: u64,
}

impl PathVisitor for Rounds {
    type Output = ();

    fn visit<P: net::Path>(self, path: &mut P) {
        let tier = Tier::for_exchange(self.size, self.response);
        let mut out = vec![7; self.size];
        let mut input = vec![0; self.response];
        for round in 0..self.count {
            data::write(round, self.tag, &mut out);
            for _ in 0..self.pings {
                path.send(&out, false).unwrap();
            }
            for _ in 0..self.pongs {
                assert_eq!(path.receive(&mut input).unwrap(), Received::Bytes(self.response), "round {round}");
                let expected = (tier != Tier::Nothing).then_some(round & tier.mask());
                assert_eq!(data::read(tier, self.tag, &input), expected, "round {round}");
            }
        }
    }
}

/// Runs rounds over a socket; a lost datagram ends in a time-out, not in a hang.
pub(crate) fn exchange(socket: &mut DataSocket, rounds: Rounds) {
    let stop = AtomicBool::new(false);
    let options = PathOptions {
        receive: Receive::Spin,
        idle: IdleDescriptors::default(),
        clock: Clock::raw(),
        timeout_ns: 60_000_000_000,
        stop: &stop,
    };
    net::with_path(socket, &options, rounds).unwrap();
}

pub(crate) fn rounds(count: u64, size: u32, tag: u64) -> Rounds {
    let size = usize::try_from(size).unwrap();
    Rounds { count, size, response: size, pings: 1, pongs: 1, tag }
}
