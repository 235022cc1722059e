//! The reflector of one session: a thread that opens the data path, has it proved, and sends messages back.

use crate::WinpointError;
use crate::data::{DataPath, LOOK, Received, is_nothing};
use crate::pgm::{self, Conversation, Ends};
use crate::platform::{self, Placement};
use model::{Finding, FindingId, PgmSpec, Role, SocketSpec};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};
use wire::data::{PROVE_BYTES, read_prove, write_repaired, write_ticks};
use wire::{OpenRequest, Opened, RateBudget, RefuseCode, SourceId, StopReport, Tier, Token};

/// A data path that is not proved by then is given up.
const PROVE: Duration = Duration::from_secs(5);
/// How long a connection may take to show its token.
const SHOW: Duration = Duration::from_millis(500);
/// Between two looks for the next size, while a source of PGM is served.
const SERVE: Duration = Duration::from_millis(2);
/// How long the end of a source is announced.
const CLOSE: Duration = Duration::from_millis(300);
/// Messages between two looks at the halt flag where none has to be waited for.
const BATCH: u32 = 1024;
const TAG: std::ops::Range<usize> = 8..16;

pub(crate) struct Order {
    pub(crate) request: OpenRequest,
    /// Our address on the control connection, and the client's.
    pub(crate) local: SocketAddr,
    pub(crate) peer: IpAddr,
    pub(crate) token: Token,
    pub(crate) max_rate_pps: u32,
    pub(crate) placement: Placement,
    /// Said in each report.
    pub(crate) notes: Vec<Finding>,
}

pub(crate) enum ReflectorEvent {
    Opened(Opened),
    Proved(SocketAddr),
    Started,
    Stopped(Box<StopReport>),
    Failed(RefuseCode, String),
}

/// A running reflector. Its thread ends with it.
pub(crate) struct Reflector {
    starts: Sender<(u32, u32)>,
    events: Receiver<ReflectorEvent>,
    halt: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Reflector {
    pub(crate) fn start(order: Order) -> io::Result<Self> {
        let (starts, orders) = mpsc::channel();
        let (say, events) = mpsc::channel();
        let (halt, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let link = Link { say, halt: Arc::clone(&halt), over: Arc::clone(&over) };
        std::thread::Builder::new().name(Role::Reflector.to_string()).spawn(move || {
            if let Err((code, reason)) = run(&order, &orders, &link) {
                link.say(ReflectorEvent::Failed(code, reason));
            }
        })?;
        Ok(Self { starts, events, halt, over })
    }

    pub(crate) fn start_size(&self, size: u32, response: u32) {
        self.halt.store(false, Ordering::Release);
        // A thread that has given up said why.
        let _ = self.starts.send((size, response));
    }

    /// Ends a size: the report, or what went wrong, if the thread says so in time.
    pub(crate) fn halt(&self, limit: Duration) -> Option<ReflectorEvent> {
        self.halt.store(true, Ordering::Release);
        self.events.recv_timeout(limit).ok()
    }

    pub(crate) fn next_event(&self) -> Option<ReflectorEvent> {
        self.events.try_recv().ok()
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.halt.store(true, Ordering::Release);
    }
}

struct Link {
    say: Sender<ReflectorEvent>,
    halt: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Link {
    fn say(&self, event: ReflectorEvent) {
        // Without a listener the session is over.
        let _ = self.say.send(event);
    }

    /// `group`: the address of a source of PGM, and its identifier.
    fn opened(&self, order: &Order, port: u16, group: Option<(IpAddr, SourceId)>) {
        let (address, source) = group.unzip();
        let (token, machine, ports) = (order.token.clone(), None, Vec::new());
        self.say(ReflectorEvent::Opened(Opened { port, address, token, machine, ports, source }));
    }

    fn is_halted(&self) -> bool {
        self.halt.load(Ordering::Acquire)
    }
}

type Failure = (RefuseCode, String);

fn failed(error: impl std::fmt::Display) -> Failure {
    (RefuseCode::Failed, error.to_string())
}

fn run(order: &Order, starts: &Receiver<(u32, u32)>, link: &Link) -> Result<(), Failure> {
    platform::place(&order.placement).map_err(|error| (RefuseCode::Unsupported, error.to_string()))?;
    let opened = |port| link.opened(order, port, None);
    let (mut path, from) = match &order.request.socket {
        SocketSpec { pgm: Some(spec), .. } => join(order, link, spec)?,
        socket if socket.protocol.is_stream() => accept(order, link, opened)?,
        _ => prove(order, link, opened)?,
    };
    path.wait_by(order.request.end.receive, order.request.socket.nodelay).map_err(failed)?;
    link.say(ReflectorEvent::Proved(from));
    let room = usize::try_from(order.request.max_size).map_err(failed)?;
    // One byte more, so that a longer datagram is seen; filled, so that each page is really there.
    let mut buffer = vec![0x5a; room + 1];
    while let Some((size, response)) = next(starts, &mut path)? {
        let counted = path.conversation().map(|(end, _)| end.begin(&mut buffer));
        path.drain(&mut buffer).map_err(failed)?;
        path.wait_by(order.request.end.receive, order.request.socket.nodelay).map_err(failed)?;
        link.say(ReflectorEvent::Started);
        let (mut counts, unsent) = (Counts::default(), path.unsent());
        let sizes = (usize::try_from(size).map_err(failed)?, usize::try_from(response).map_err(failed)?);
        let broken = reflect(order, &mut path, &mut buffer, sizes, &mut counts, link).err();
        let mut report = report(order, &counts, broken);
        report.counters = path.counters_since(unsent);
        report.pgm = counted.and_then(|counted| Some(path.conversation()?.0.end(&counted)));
        link.say(ReflectorEvent::Stopped(Box::new(report)));
    }
    if let Some((conversation, completion)) = path.conversation() {
        conversation.close(completion, CLOSE);
    }
    Ok(())
}

/// The next size; none when the session is over. A source of PGM is served meanwhile.
fn next(starts: &Receiver<(u32, u32)>, path: &mut DataPath) -> Result<Option<(u32, u32)>, Failure> {
    loop {
        let Some((conversation, completion)) = path.conversation() else { return Ok(starts.recv().ok()) };
        // Whoever spins does so while messages are measured.
        conversation.set_blocking(true).map_err(failed)?;
        match starts.try_recv() {
            Ok(start) => return Ok(Some(start)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => conversation.drive(completion, SERVE).map_err(failed)?,
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    received: u64,
    sent: u64,
    ignored: u64,
    over_rate: u64,
}

fn report(order: &Order, counts: &Counts, broken: Option<io::Error>) -> StopReport {
    let mut notes = order.notes.clone();
    // An initiator that closes its data connection is done, or knows.
    if let Some(error) = broken.filter(|error| error.kind() != io::ErrorKind::UnexpectedEof) {
        let detail = format!("the reflector's data path broke: {error}");
        notes.push(Finding::at(FindingId::PathBroken, Role::Reflector, detail));
    }
    StopReport {
        received: counts.received,
        sent: counts.sent,
        ignored: counts.ignored,
        over_rate: counts.over_rate,
        ticks: Some(platform::tick_rate()),
        notes,
        ..StopReport::default()
    }
}

/// Publishes on the reply group, and waits for the token as a message of the initiator's source.
fn join(order: &Order, link: &Link, spec: &PgmSpec) -> Result<(DataPath, SocketAddr), Failure> {
    let asked = order.request.pace.as_ref().and_then(|pace| pace.pgm);
    let asked = asked.ok_or_else(|| (RefuseCode::BadRequest, "pgm needs the initiator's source".to_owned()))?;
    let unsupported = |error: WinpointError| (RefuseCode::Unsupported, error.to_string());
    let local = order.local.ip().to_canonical();
    let ends = Ends { spec, ttl: order.request.socket.ttl, local, publish: spec.reply_group(), subscribe: spec.group };
    let (own, began) = (pgm::source().map_err(unsupported)?, Instant::now());
    let mut conversation = loop {
        match Conversation::open(&ends, own, asked.tag) {
            // The session before this one may still be closing its source.
            Err(WinpointError::PortInUse { .. }) if began.elapsed() < 2 * CLOSE => std::thread::sleep(SERVE),
            other => break other.map_err(unsupported)?,
        }
    };
    conversation.hear_only(asked.source.into());
    link.opened(order, spec.udp_port, Some((local, own.into())));
    let mut message = [0; PROVE_BYTES + 1];
    until_proved(link, || {
        let Received::Bytes(bytes) = conversation.receive(None, &mut message).map_err(failed)? else { return Ok(None) };
        Ok((message.get(..bytes).and_then(read_prove).as_ref() == Some(&order.token)).then_some(()))
    })?;
    Ok((DataPath::pgm(conversation), SocketAddr::new(order.peer, spec.udp_port)))
}

/// Waits for a datagram with the token from the client's address.
fn prove(order: &Order, link: &Link, opened: impl Fn(u16)) -> Result<(DataPath, SocketAddr), Failure> {
    let socket = UdpSocket::bind((order.local.ip(), 0)).map_err(failed)?;
    socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
    opened(socket.local_addr().map_err(failed)?.port());
    let mut datagram = [0; PROVE_BYTES + 1];
    until_proved(link, || {
        // Errors are of datagrams that others sent: too long ones, ICMP.
        let Ok((bytes, from)) = socket.recv_from(&mut datagram) else { return Ok(None) };
        let shown = datagram.get(..bytes).and_then(read_prove);
        if shown.as_ref() != Some(&order.token) || from.ip().to_canonical() != order.peer.to_canonical() {
            return Ok(None);
        }
        socket.connect(from).map_err(failed)?;
        Ok(Some((DataPath::udp(socket.try_clone().map_err(failed)?), from)))
    })
}

/// Waits for a connection from the client's address that begins with the token.
fn accept(order: &Order, link: &Link, opened: impl Fn(u16)) -> Result<(DataPath, SocketAddr), Failure> {
    let listener = TcpListener::bind((order.local.ip(), 0)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    opened(listener.local_addr().map_err(failed)?.port());
    until_proved(link, || {
        let (mut stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if is_nothing(&error) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Ok(None);
            }
        };
        // A stranger is not waited for.
        if from.ip().to_canonical() != order.peer.to_canonical() {
            return Ok(None);
        }
        let mut shown = [0; PROVE_BYTES];
        let taken = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(SHOW)))
            .and_then(|()| stream.read_exact(&mut shown));
        let fits = taken.is_ok() && read_prove(&shown).as_ref() == Some(&order.token);
        Ok(fits.then(|| (DataPath::tcp(stream), from)))
    })
}

fn until_proved<T>(link: &Link, mut step: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let began = Instant::now();
    while !link.over.load(Ordering::Acquire) && began.elapsed() < PROVE {
        if let Some(done) = step()? {
            return Ok(done);
        }
    }
    let seconds = PROVE.as_secs();
    let reason = format!("the data path was not proved within {seconds} s: check the route and the firewall for it");
    Err((RefuseCode::TimedOut, reason))
}

/// Sends messages back until the halt.
fn reflect(
    order: &Order,
    path: &mut DataPath,
    buffer: &mut [u8],
    (size, response): (usize, usize),
    counts: &mut Counts,
    link: &Link,
) -> io::Result<()> {
    let datagrams = !path.is_stream();
    let tagged = datagrams && Tier::for_size(size) == Tier::Tagged;
    let pace = order.request.pace.as_ref();
    let of_group = pace.and_then(|pace| pace.pgm);
    let tag = of_group.map_or(order.token.tag(), |asked| asked.tag).to_le_bytes();
    let every = pace.map_or(1, |pace| u64::from(pace.every));
    let mut budget = RateBudget::new(platform::tick_rate(), order.max_rate_pps);
    loop {
        for _ in 0..BATCH {
            let room = buffer.get_mut(..=size).unwrap_or_default();
            let Received::Bytes(bytes) = path.receive(room, size)? else { break };
            let rx = platform::ticks();
            if bytes != size || tagged && buffer.get(TAG) != Some(&tag[..]) {
                counts.ignored += 1;
                continue;
            }
            counts.received += 1;
            if !budget.allows(rx) {
                counts.over_rate += 1;
                if datagrams {
                    continue;
                }
                while !budget.allows(platform::ticks()) && !link.is_halted() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            if pace.is_some() {
                let number = buffer.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                if !number.is_multiple_of(every) {
                    continue;
                }
                let message = buffer.get_mut(..size).unwrap_or_default();
                if of_group.is_some() {
                    write_repaired(path.repaired(), message);
                }
                write_ticks(rx, platform::ticks(), message);
            }
            path.send(buffer.get(..response).unwrap_or_default())?;
            counts.sent += 1;
        }
        if link.is_halted() {
            return Ok(());
        }
    }
}
