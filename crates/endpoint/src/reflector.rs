//! A session's reflector thread: opens the data path, has it proved, takes the client's policy and CPU, and reflects one size
//! after the other. It talks to the control thread by channels and a socket pair, and never while messages are reflected.

use crate::EndpointError;
use crate::data_accept;
use crate::halt::Halt;
use crate::inherited::InheritedData;
use crate::pace::{self, AnswerLoop, TxStampFeedback};
use crate::reflect::{Around, LoopShape, RateLimiter, ReflectLoop, SizeOutcome, wanted_tag};
use crate::transactions;
use clock::Clock;
use flow::PassObserver;
use model::stream::StreamInterval;
use model::{EndSpec, Finding, FindingId, Limits, Protocol, Receive, Role, Stamps};
use net::{DataListener, DataSocket, NetError, PathError, PathOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::Interrupter;
use wire::data::{PROVE_BYTES, read_prove};
use wire::{OpenRequest, Opened, RateBudget, RefuseCode, StopReport, Token};

/// A data path that is not proved by then is given up.
const PROVE: Duration = Duration::from_secs(10);
/// How long the end of a session waits for its reflector.
const END: Duration = Duration::from_secs(5);
/// Stack of the thread, all of it locked where memory is; what the loop needs is touched before it begins.
const STACK_BYTES: usize = 512 << 10;
pub(crate) const STACK_TOUCHED: usize = 128 << 10;
/// What a spinning real-time reflector may use beyond the longest session before the kernel ends the process.
const SPARE: Duration = Duration::from_secs(60);

pub(crate) enum DataSource {
    Network {
        /// Our address on the control connection, with port 0.
        local: SocketAddr,
        peer: IpAddr,
        /// Whether data may come from another address than the client's.
        anywhere: bool,
    },
    Inherited(InheritedData),
}

pub(crate) struct ReflectorConfig {
    pub(crate) request: OpenRequest,
    pub(crate) source: DataSource,
    pub(crate) token: Token,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    /// To go into every report.
    pub(crate) notes: Vec<Finding>,
}

impl ReflectorConfig {
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_secs(u64::from(self.limits.max_session_s))
    }
}

pub(crate) enum ReflectorEvent {
    Opened(Opened),
    Proved(Option<SocketAddr>),
    Started,
    /// A second of a stream is over.
    Interval(StreamInterval),
    /// Data of the client's stream came in the last second.
    DataArrived,
    Stopped(Box<StopReport>),
    /// It gave up, and its thread has ended.
    Failed(RefuseCode, String),
}

pub(crate) struct StartCommand {
    pub(crate) size: u32,
    pub(crate) response_size: u32,
    /// Whether to record why this end is late.
    pub(crate) explain: bool,
}

/// The control thread's handle. Dropping it ends the thread.
pub(crate) struct Reflector {
    commands: Option<mpsc::Sender<StartCommand>>,
    reports: mpsc::Receiver<ReflectorEvent>,
    wake: UnixStream,
    pub(crate) halt: Arc<Halt>,
    thread: Option<JoinHandle<()>>,
}

impl Reflector {
    /// Starts the thread. Its first report is `Opened` or `Failed`.
    pub(crate) fn start_thread(plan: ReflectorConfig) -> Result<Self, EndpointError> {
        let system = EndpointError::system::<std::io::Error>;
        let (wake, wake_up) = UnixStream::pair().map_err(system("making a socket pair"))?;
        wake.set_nonblocking(true).map_err(system("preparing a socket pair"))?;
        wake_up.set_nonblocking(true).map_err(system("preparing a socket pair"))?;
        let (commands, orders) = mpsc::channel();
        let (sender, reports) = mpsc::channel();
        let halt = Arc::new(Halt::default());
        let link = SessionLink { reports: sender, wake_up, halt: Arc::clone(&halt) };
        let thread = std::thread::Builder::new()
            .name(Role::Reflector.to_string())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                if let Err((code, reason)) = run(plan, &orders, &link) {
                    link.halt.leave();
                    link.report(ReflectorEvent::Failed(code, reason));
                }
                link.halt.leave();
            })
            .map_err(system("starting the reflector's thread"))?;
        Ok(Self { commands: Some(commands), reports, wake, halt, thread: Some(thread) })
    }

    pub(crate) fn start(&self, command: StartCommand) {
        self.halt.enter();
        if self.commands.as_ref().is_none_or(|commands| commands.send(command).is_err()) {
            // The thread has given up; its last report has the reason.
            self.halt.leave();
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<ReflectorEvent> {
        // First the signals, then the report: a signal between the two is read the next time.
        let mut signals = [0; 16];
        while matches!((&self.wake).read(&mut signals), Ok(1..)) {}
        self.reports.try_recv().ok()
    }
}

impl AsFd for Reflector {
    /// Readable when there is a report.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.halt.end();
        drop(self.commands.take());
        let Some(thread) = self.thread.take() else { return };
        let started = Instant::now();
        while !thread.is_finished() && started.elapsed() < END {
            self.halt.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
        // One that is stuck for longer keeps its thread; the server goes on.
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

pub(crate) struct SessionLink {
    reports: mpsc::Sender<ReflectorEvent>,
    wake_up: UnixStream,
    pub(crate) halt: Arc<Halt>,
}

impl SessionLink {
    /// How a path of this end waits.
    pub(crate) fn path_options(&self, end: &EndSpec, clock: Clock) -> PathOptions<'_> {
        PathOptions { receive: end.receive, idle: end.idle, clock, timeout_ns: 0, stop: self.halt.flag() }
    }

    /// What a loop of this end runs between.
    pub(crate) fn around<'a>(
        &'a self,
        end: &EndSpec,
        (size, socket): (u32, Option<RawFd>),
        observers: &'a mut dyn PassObserver,
    ) -> Around<'a, impl FnOnce()> {
        let started = || self.report(ReflectorEvent::Started);
        Around { halt: &self.halt, observers, size, socket, cpu: end.cpu, started }
    }

    pub(crate) fn report(&self, report: ReflectorEvent) {
        // Without a listener the session is over; a full socket wakes it anyway.
        let _ = self.reports.send(report);
        let _ = (&self.wake_up).write(&[1]);
    }

    pub(crate) fn opened(
        &self,
        token: &Token,
        port: u16,
        address: Option<IpAddr>,
        more: (Vec<u16>, Option<wire::SourceId>),
    ) {
        let (token, machine, (ports, source)) = (token.clone(), host::boot_id(), more);
        self.report(ReflectorEvent::Opened(Opened { port, address, token, machine, ports, source }));
    }

    /// Calls `step` until it gives something or the time for a proof is over. `None`: the session ended.
    pub(crate) fn until_proved<T>(
        &self,
        mut step: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        let deadline = Instant::now() + PROVE;
        while !self.halt.is_over() {
            if let Some(done) = step()? {
                return Ok(Some(done));
            }
            if Instant::now() >= deadline {
                let seconds = PROVE.as_secs();
                let why = format!("was not proved within {seconds} s: check the route and the firewall for it");
                return Err((RefuseCode::TimedOut, format!("the data path {why}")));
            }
        }
        Ok(None)
    }
}

pub(crate) type Failure = (RefuseCode, String);

pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    (RefuseCode::Failed, error.to_string())
}

enum DataPath {
    Socket(DataSocket),
    Transactions { listener: DataListener, client: IpAddr },
}

/// Answers messages at a rate until the halt. What both loops share is that of `reflect`.
fn answer<F: FnOnce()>(
    socket: &mut DataSocket,
    asked: &wire::PaceRequest,
    reflect: ReflectLoop<'_, F>,
    (clock, max_rate_pps): (Clock, u32),
    options: &PathOptions<'_>,
) -> Result<SizeOutcome, Failure> {
    let ReflectLoop { shape, buffer, around, .. } = reflect;
    // The numbers of what is sent begin anew with each size.
    socket.stamp(asked.stamps, true).map_err(failed)?;
    let loop_ = AnswerLoop {
        stamp_feedback: TxStampFeedback::new(socket.sent_stamps(shape.size).map_err(failed)?),
        shape: pace::LoopShape {
            size: shape.size,
            every: u64::from(asked.every),
            wall: asked.stamps != Stamps::None,
            counts_losses: shape.counts_losses,
            tag: shape.tag,
            repairs: false,
        },
        clock,
        budget: RateBudget::new(clock.rate(), max_rate_pps),
        buffer,
        around,
    };
    net::with_duplex(std::slice::from_mut(socket), options, loop_).map_err(failed)
}

fn run(plan: ReflectorConfig, orders: &mpsc::Receiver<StartCommand>, link: &SessionLink) -> Result<(), Failure> {
    if plan.request.end.receive == Receive::Completion {
        return Err((RefuseCode::Unsupported, NetError::OnlyWindows { mode: Receive::Completion }.to_string()));
    }
    if plan.request.stream.is_some() {
        return crate::stream::run(plan, orders, link);
    }
    if plan.request.cycle.is_some() {
        return crate::cycle::run(plan, orders, link);
    }
    if plan.request.socket.protocol == Protocol::Pgm {
        return crate::pgm::run(plan, orders, link);
    }
    let longest = plan.longest();
    let ReflectorConfig { request, source, token, clock, limits, notes } = plan;
    let max_rate_pps = limits.max_rate_pps;
    link.halt.attach(Interrupter::for_current_thread().map_err(failed)?);
    let Some(mut data) = open(&request, source, &token, longest, link)? else { return Ok(()) };
    let unsupported = |error: NetError| (RefuseCode::Unsupported, error.to_string());
    if let (Some(pace), DataPath::Socket(socket)) = (&request.pace, &mut data) {
        socket.stamp(pace.stamps, true).map_err(unsupported)?;
    }
    let bytes = usize::try_from(request.max_size).map_err(failed)?.max(PROVE_BYTES);
    // Filled with another value than zero, so that each page is really there.
    let mut buffer = vec![0x5a; bytes];
    task::prefault_stack(STACK_TOUCHED);
    let protocol = request.socket.protocol;
    // Only datagrams to an address may be from others. Reflectors of one group without a common tag cannot know the one used.
    let tag = match &request.pace {
        _ if !protocol.is_addressed() => None,
        Some(pace) if pace.port.is_some() => pace.group.as_ref().map(Token::tag),
        _ => Some(token.tag()),
    };
    let one_call_a_message = request.pace.is_none() || protocol == Protocol::Udp;
    while let Ok(StartCommand { size, response_size, explain }) = orders.recv() {
        let mut observers = flow::far_observers(explain.then_some((&limits, &request.end)));
        let shape = LoopShape {
            size: usize::try_from(size).map_err(failed)?,
            response: usize::try_from(response_size).map_err(failed)?,
            pings: request.pings,
            pongs: request.pongs,
            more: request.socket.more,
            counts_losses: protocol.counts_losses(),
            tag: tag.and_then(|tag| wanted_tag(size as usize, tag)),
        };
        let options = link.path_options(&request.end, clock);
        let dropped = data.socket().and_then(DataSocket::dropped).unwrap_or(0);
        let socket = data.socket().filter(|_| one_call_a_message);
        let descriptor = socket.map(|socket| socket.as_fd().as_raw_fd());
        let loop_ = ReflectLoop {
            shape,
            pace: RateLimiter::new(clock, max_rate_pps, request.pings),
            buffer: &mut buffer,
            around: link.around(&request.end, (size, descriptor), &mut observers),
        };
        let outcome = match (&mut data, &request.pace) {
            (DataPath::Socket(socket), Some(asked)) => answer(socket, asked, loop_, (clock, max_rate_pps), &options)?,
            (DataPath::Socket(socket), None) => net::with_path(socket, &options, loop_).map_err(failed)?,
            (DataPath::Transactions { listener, client }, _) => {
                transactions::serve(listener, *client, &options, loop_).map_err(failed)?
            }
        };
        let mut report = summary(outcome, &notes, clock);
        if let Some(socket) = data.socket() {
            (report.stamps, report.frame_backend) = (socket.stamp_clock(), socket.frame_backend());
            report.counters.socket_overflow += u64::from(socket.dropped().unwrap_or(0).saturating_sub(dropped));
        }
        observers.judge(&mut report, &[]);
        link.report(ReflectorEvent::Stopped(Box::new(report)));
        if link.halt.is_over() {
            break;
        }
    }
    Ok(())
}

pub(crate) fn summary(mut outcome: SizeOutcome, notes: &[Finding], clock: Clock) -> StopReport {
    let mut notes = notes.to_vec();
    notes.append(&mut outcome.report.notes);
    // An initiator that closes its data connection first does so because it is done or broken itself: it knows.
    if let Some(error) = outcome.broken.filter(|error| *error != PathError::Closed) {
        let detail = format!("the reflector's data path broke: {error}");
        notes.push(Finding::at(FindingId::PathBroken, Role::Reflector, detail));
    }
    StopReport {
        received: outcome.counts.received,
        sent: outcome.counts.sent,
        ignored: outcome.counts.ignored,
        over_rate: outcome.counts.over_rate,
        clock_read_ns: Some(clock.read_cost_ns()),
        ticks: Some(clock.rate()),
        clock: Some(clock.source()),
        notes,
        ..outcome.report
    }
}

impl DataPath {
    /// The only socket that carries messages.
    fn socket(&self) -> Option<&DataSocket> {
        if let Self::Socket(socket) = self { Some(socket) } else { None }
    }
}

/// Opens the data path, takes the client's CPU and policy, and has the path proved. `None`: the session ended.
fn open(
    request: &OpenRequest,
    source: DataSource,
    token: &Token,
    longest: Duration,
    link: &SessionLink,
) -> Result<Option<DataPath>, Failure> {
    // A wildcard is no address to send to: then the client keeps the one that it found us at.
    let address = request.end.bind.filter(|bind| !bind.is_unspecified());
    let opened = |port| link.opened(token, port, address, Default::default());
    let (local, client) = match source {
        DataSource::Inherited(data) => {
            let (read, write) = data.into_fds();
            let socket = DataSocket::inherit(request.socket.protocol, read, write).map_err(failed)?;
            place_thread(request, longest)?;
            opened(0);
            link.report(ReflectorEvent::Proved(None));
            return Ok(Some(DataPath::Socket(socket)));
        }
        DataSource::Network { local, peer, anywhere } => (local, Client { address: peer, anywhere }),
    };
    let place = |shown: &[u8; PROVE_BYTES]| (read_prove(shown).as_ref() == Some(token)).then_some(0);
    let proved = if request.socket.protocol.is_connection() {
        let bind = if request.connect_each { DataListener::bind_for_transactions } else { DataListener::bind };
        let listener = bind(&request.socket, &request.end, local).map_err(failed)?;
        place_thread(request, longest)?;
        opened(listener.local_address().port());
        if request.connect_each {
            // A token in each connection would add 20 bytes and a receive call to every transaction. Connections are taken from
            // the client's own address instead, which the control connection's handshake has proved.
            link.report(ReflectorEvent::Proved(None));
            return Ok(Some(DataPath::Transactions { listener, client: client.address }));
        }
        data_accept::accept(&listener, client, 1, link, place)?.and_then(|sockets| sockets.into_iter().next())
    } else {
        let mut local = local;
        local.set_port(request.pace.as_ref().and_then(|pace| pace.port).unwrap_or(0));
        let mut socket = DataSocket::bind(&request.socket, &request.end, local).map_err(failed)?;
        place_thread(request, longest)?;
        let port = socket.local_address().map_or(0, |address| address.port());
        opened(port);
        let sockets = std::slice::from_mut(&mut socket);
        data_accept::prove(sockets, client, link, place)?.then_some(socket)
    };
    let Some(socket) = proved else { return Ok(None) };
    link.report(ReflectorEvent::Proved(socket.peer_address()));
    Ok(Some(DataPath::Socket(socket)))
}

/// Puts this thread where the client wants it, just before the client hears that the path is open, so a refusal is heard.
pub(crate) fn place_thread(request: &OpenRequest, longest: Duration) -> Result<(), Failure> {
    let end = &request.end;
    let words = |error: task::TaskError| {
        use task::TaskError;
        let code = match error {
            TaskError::NoSuchCpu { .. } | TaskError::CpuNotAllowed { .. } | TaskError::PolicyNotPermitted { .. } => {
                RefuseCode::Unsupported
            }
            _ => RefuseCode::Failed,
        };
        (code, error.to_string())
    };
    if let Some(cpu) = end.cpu {
        // The kernel refuses a CPU behind a shield to who is not in its control group.
        host::shield::enter(&[cpu].into_iter().collect())
            .map_err(|error| (RefuseCode::Unsupported, error.to_string()))?;
        task::pin(cpu).map_err(words)?;
    }
    if end.policy.is_real_time() && end.receive == Receive::Spin {
        // The last resort should this server go wrong: the kernel ends it then.
        task::set_rt_limit(Some(longest.saturating_add(SPARE))).map_err(words)?;
    }
    task::apply_policy(end.policy).map_err(words)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Whether its data may come from others too.
    pub(crate) anywhere: bool,
}

impl Client {
    /// Whether data may come from an address. A proof names only the port, and a datagram's source can be forged: another address
    /// than the control connection's would make us send to a stranger. Whoever knows the key may read other sessions' tokens.
    pub(crate) fn may_use(self, from: IpAddr) -> bool {
        self.anywhere || from.to_canonical() == self.address.to_canonical()
    }
}
