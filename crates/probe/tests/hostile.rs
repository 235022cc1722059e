//! Measurements against a far end that drops, doubles, delays and reorders on the wire, or vanishes: exact counts.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod common;

use common::{has, run, spec, task};
use model::worker::Measured;
use model::{
    FindingId, Limits, Messages, PaceSpec, Probe, ProbeOptions, ProbeSpec, Protocol, Receive, Shape, SizeList,
};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::{Nonce, Opened, RefuseCode, ServerConfig, ServerEvent, ServerSession, StopReport, Token, Versions, data};

/// What becomes of the answer to the message with this number (from 1 on, warm-up included).
type Fate = fn(u64, &[u8], &UdpSocket, SocketAddr, &mut Vec<Vec<u8>>);

/// A reflector of one session. Its data socket keeps to a script.
struct Fake {
    address: SocketAddr,
    /// Messages that came.
    seen: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn start(fate: Fate, vanish_after: u64) -> Self {
        Self::with(fate, vanish_after, false)
    }

    /// One that closes its data socket and refuses the session a while after.
    fn refusing() -> Self {
        Self::with(nothing, 0, true)
    }

    fn with(fate: Fate, vanish_after: u64, refuses: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(stream, fate, vanish_after, refuses, &counted);
        });
        Self { address, seen, thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn reflect(socket: &UdpSocket, seen: &AtomicU64, done: &AtomicBool, fate: Fate) {
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let (mut buffer, mut held) = ([0; 70_000], Vec::new());
    while !done.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
        let message = &buffer[..bytes];
        if data::read_prove(message).is_some() {
            continue;
        }
        let number = seen.fetch_add(1, Ordering::Relaxed) + 1;
        fate(number, message, socket, from, &mut held);
    }
}

fn transmit(session: &mut ServerSession, stream: &mut TcpStream) {
    while let Some(bytes) = session.poll_transmit() {
        stream.write_all(&bytes).unwrap();
    }
}

fn serve(mut stream: TcpStream, fate: Fate, vanish_after: u64, refuses: bool, seen: &Arc<AtomicU64>) {
    let config = ServerConfig {
        versions: Versions::OURS,
        tool_version: "fake".to_owned(),
        build: None,
        capabilities: ["pace", "udp", "tcp"].map(str::to_owned).to_vec(),
        limits: Limits::default(),
        key: None,
        nonce: Nonce([7; 32]),
        session: 1,
    };
    let mut session = ServerSession::new(config).unwrap();
    let mut socket = Some(UdpSocket::bind("127.0.0.1:0").unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let mut reflector = None;
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    loop {
        transmit(&mut session, &mut stream);
        if vanish_after > 0 && seen.load(Ordering::Relaxed) >= vanish_after {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => session.handle_bytes(&buffer[..bytes]).unwrap(),
            Err(_) => continue,
        }
        while let Some(event) = session.poll_event() {
            match event {
                ServerEvent::Open(_) => {
                    let port = socket.as_ref().unwrap().local_addr().unwrap().port();
                    session
                        .opened(Opened {
                            port,
                            address: None,
                            token: Token([9; 16]),
                            machine: None,
                            ports: Vec::new(),
                            source: None,
                        })
                        .unwrap();
                    if refuses {
                        drop(socket.take());
                        transmit(&mut session, &mut stream);
                        // The client shows its token some times meanwhile, and its kernel hears that nobody is there.
                        std::thread::sleep(Duration::from_millis(300));
                        session.refuse(RefuseCode::Unsupported, "it has no such device");
                    } else {
                        session.proved(None).unwrap();
                    }
                }
                ServerEvent::Start { .. } => {
                    session.started().unwrap();
                    if let Some(socket) = socket.take() {
                        let (seen, done) = (Arc::clone(seen), Arc::clone(&done));
                        reflector = Some(std::thread::spawn(move || reflect(&socket, &seen, &done, fate)));
                    }
                }
                ServerEvent::Stop => {
                    let received = seen.load(Ordering::Relaxed);
                    session.stopped(StopReport { received, ..StopReport::default() }).unwrap();
                }
                ServerEvent::Accepted { .. } | ServerEvent::Alive | ServerEvent::Closed => {}
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    if let Some(reflector) = reflector {
        reflector.join().unwrap();
    }
    let _ = stream.shutdown(Shutdown::Both);
}

const COUNT: u64 = 60;

/// No answer that comes takes so long, also where a busy machine gives the fake reflector no CPU for a while.
const TIMEOUT_MS: u32 = 500;

/// 60 timed rounds without warm-up; a lost one costs [`TIMEOUT_MS`].
fn short(receive: Receive, size: u32) -> ProbeSpec {
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.initiator.receive = receive;
    spec.sizes = SizeList::one(size);
    spec.warmup.time_ms = 0;
    spec.warmup.count = 0;
    spec.stop.max_count = COUNT;
    spec.stop.max_ms = 60_000;
    spec.timeout_ms = TIMEOUT_MS;
    spec
}

fn measure(fake: &Fake, spec: ProbeSpec) -> Measured {
    common::one(&task(spec, fake.address))
}

fn misbehave(number: u64, message: &[u8], socket: &UdpSocket, to: SocketAddr, held: &mut Vec<Vec<u8>>) {
    let send = |bytes: &[u8]| drop(socket.send_to(bytes, to));
    match number {
        10 | 20 => {}
        15 => {
            send(message);
            send(message);
        }
        // Late: comes while the next message is waited for, before its answer.
        25 => held.push(message.to_vec()),
        26 => {
            held.drain(..).for_each(|old| send(&old));
            send(message);
        }
        // Late and out of order: comes after the next message's answer.
        35 => held.push(message.to_vec()),
        36 => {
            send(message);
            held.drain(..).for_each(|old| send(&old));
        }
        // Noise of another length and another session.
        40 => {
            send(&vec![1; message.len() + 3]);
            send(message);
        }
        _ => send(message),
    }
}

#[test]
fn loss_doubles_delay_and_order_are_counted_exactly() {
    for (receive, size) in
        [(Receive::Block, 32), (Receive::Spin, 32), (Receive::Poll, 8), (Receive::Select, 4), (Receive::Epoll, 1)]
    {
        let fake = Fake::start(misbehave, 0);
        let measured = measure(&fake, short(receive, size));
        let expected = Messages {
            sent: COUNT,
            received: COUNT - 4,
            lost: 4,
            duplicated: Some(1),
            reordered: Some(1),
            reorder_depth: None,
            late: Some(2),
        };
        assert_eq!(measured.result.messages, expected, "{receive} {size}");
        assert_eq!(measured.result.latency.as_ref().unwrap().count, COUNT - 4);
        assert!(has(&measured, FindingId::Loss) && has(&measured, FindingId::Order));
        assert!(measured.result.verdict.trusted || !has(&measured, FindingId::PeerVanished));
        let lost: Vec<u64> = measured.outliers.iter().filter(|one| one.lost).map(|one| one.seq).collect();
        assert_eq!(lost, [9, 19, 24, 34], "{receive}: which messages were lost is known");
    }
}

fn drop_two(number: u64, message: &[u8], socket: &UdpSocket, to: SocketAddr, _: &mut Vec<Vec<u8>>) {
    if number != 5 && number != 6 {
        drop(socket.send_to(message, to));
    }
}

/// Catches: an endpoint that could not open its end of the path, of which the client says only that its port is closed.
#[test]
fn why_an_endpoint_refuses_is_said_although_its_port_is_closed() {
    let fake = Fake::refusing();
    let (all, outcome) = run(&task(short(Receive::Block, 32), fake.address));
    let error = outcome.unwrap_err();
    assert!(all.is_empty() && error.to_string().contains("it has no such device"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn empty_datagrams_survive_a_loss() {
    for receive in [Receive::Block, Receive::Spin] {
        let fake = Fake::start(drop_two, 0);
        let measured = measure(&fake, short(receive, 0));
        let messages = &measured.result.messages;
        assert_eq!((messages.sent, messages.received, messages.lost), (COUNT, COUNT - 2, 2), "{receive}");
        assert_eq!((messages.duplicated, messages.reordered, messages.late), (None, None, None));
    }
}

fn answer(_: u64, message: &[u8], socket: &UdpSocket, to: SocketAddr, _: &mut Vec<Vec<u8>>) {
    drop(socket.send_to(message, to));
}

fn answer_from_500(number: u64, message: &[u8], socket: &UdpSocket, to: SocketAddr, _: &mut Vec<Vec<u8>>) {
    // Every tenth one of the warm-up too, so that the peer does not look dead.
    if number >= 500 || number.is_multiple_of(10) {
        drop(socket.send_to(message, to));
    }
}

/// A warm-up in which messages are lost ends long before its count, or a bad path would hold a cell for many minutes.
#[test]
fn a_warm_up_that_loses_messages_ends_before_its_count() {
    let fake = Fake::start(answer_from_500, 0);
    let mut spec = short(Receive::Block, 32);
    (spec.warmup.count, spec.timeout_ms, spec.stop.min_count, spec.stop.max_count) = (1000, 100, 1, 3);
    let _ = run(&task(spec, fake.address));
    // A warm-up to its count would be 1000 messages.
    let seen = fake.seen.load(Ordering::Relaxed);
    assert!((10..500).contains(&seen), "{seen} messages came");
}

#[test]
fn a_peer_that_vanishes_leaves_what_was_measured() {
    for connected in [true, false] {
        let fake = Fake::start(answer, 500);
        let mut spec = short(Receive::Block, 32);
        spec.socket.as_mut().unwrap().connected = connected;
        spec.stop.max_count = u64::MAX;
        let (all, outcome) = run(&task(spec, fake.address));
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 5);
        assert!(error.to_string().contains("vanished"), "{error}");
        assert!(!error.to_string().contains('\n'));
        assert_eq!(all.len(), 1);
        assert!(all[0].result.messages.received >= 450, "{:?}", all[0].result.messages);
        assert!(has(&all[0], FindingId::PeerVanished));
    }
}

fn nothing(_: u64, _: &[u8], _: &UdpSocket, _: SocketAddr, _: &mut Vec<Vec<u8>>) {}

#[test]
fn a_peer_that_never_answers_ends_the_run() {
    let fake = Fake::start(nothing, 0);
    let mut spec = short(Receive::Block, 32);
    spec.timeout_ms = 600;
    let (all, outcome) = run(&task(spec, fake.address));
    assert_eq!(outcome.unwrap_err().exit_code(), 5);
    assert_eq!(all[0].result.messages.received, 0);
    assert_eq!(all[0].result.messages.lost, 10, "ten in a row over 5 s and more");
}

/// `rate` messages a second without warm-up, for so many ms.
fn paced(rate: f64, ms: u32) -> ProbeSpec {
    let mut spec = spec(Probe::Pace, Protocol::Udp);
    spec.warmup.time_ms = 0;
    spec.stop.max_ms = ms;
    spec.timeout_ms = TIMEOUT_MS;
    spec.options = ProbeOptions::Pace { pace: PaceSpec { rates_pps: vec![rate], ..PaceSpec::default() } };
    spec
}

fn misbehave_at_a_rate(number: u64, message: &[u8], socket: &UdpSocket, to: SocketAddr, held: &mut Vec<Vec<u8>>) {
    let send = |bytes: &[u8]| drop(socket.send_to(bytes, to));
    match number {
        10 => {}
        15 => {
            send(message);
            send(message);
        }
        // After the next one's answer.
        20 => held.push(message.to_vec()),
        21 => {
            send(message);
            held.drain(..).for_each(|old| send(&old));
        }
        // Long after its time-out.
        25 => held.push(message.to_vec()),
        58 => {
            held.drain(..).for_each(|old| send(&old));
            send(message);
        }
        // Noise of another length.
        40 => {
            send(&vec![1; message.len() + 3]);
            send(message);
        }
        _ => send(message),
    }
}

#[test]
fn at_a_rate_each_message_has_its_own_fate() {
    let fake = Fake::start(misbehave_at_a_rate, 0);
    // The 58th is due 1320 ms after the 25th: late, also where either leaves some 100 ms late.
    let measured = measure(&fake, paced(25.0, 2400));
    let messages = &measured.result.messages;
    assert_eq!((messages.sent, messages.received, messages.lost), (60, 58, 2), "{messages:?}");
    assert_eq!((messages.duplicated, messages.late), (Some(1), Some(1)), "{messages:?}");
    assert!(messages.reordered.is_some_and(|count| (1..=2).contains(&count)), "{messages:?}");
    assert!(has(&measured, FindingId::Loss) && has(&measured, FindingId::Order));
    let lost: Vec<u64> = measured.outliers.iter().filter(|one| one.lost).map(|one| one.seq).collect();
    assert_eq!(lost, [9, 24]);
}

/// Longer than a busy machine keeps a thread waiting.
const STALL: Duration = Duration::from_millis(600);
/// What takes so long was held up by it.
const HELD_UP_NS: u64 = 200_000_000;

/// Stands still once, at the 50th message; what comes meanwhile waits at its socket.
fn stall(number: u64, message: &[u8], socket: &UdpSocket, to: SocketAddr, _: &mut Vec<Vec<u8>>) {
    if number == 50 {
        std::thread::sleep(STALL);
    }
    drop(socket.send_to(message, to));
}

/// Coordinated omission, on real sockets: the loops in virtual time show the sender's half of it.
#[test]
fn a_reflector_that_stands_still_is_many_messages_of_a_rate_and_one_of_a_ping_pong() {
    let slow = |measured: &Measured| {
        let over = measured.outliers.iter().filter(|one| !one.lost && one.rtt_ns > HELD_UP_NS);
        (over.clone().count(), over.filter(|one| one.lateness_ns > HELD_UP_NS).count())
    };
    let mut open = paced(200.0, 1000);
    open.timeout_ms = 10_000;
    open.outliers.over_ns = Some(HELD_UP_NS);
    let open = measure(&Fake::start(stall, 0), open);
    let (all, late) = slow(&open);
    // 80 are due in the first 400 ms of it.
    assert!(all >= 50 && late * 3 < all, "{all} {late}");
    for latency in [&open.result.latency, &open.result.latency_intended] {
        assert!(latency.as_ref().unwrap().max_ns.unwrap() >= 595_000_000);
    }
    let mut closed = short(Receive::Block, 32);
    (closed.stop.max_ms, closed.stop.max_count, closed.timeout_ms) = (60_000, 200, 10_000);
    closed.outliers.over_ns = Some(HELD_UP_NS);
    let closed = measure(&Fake::start(stall, 0), closed);
    assert!((1..=3).contains(&slow(&closed).0), "{:?}", closed.outliers);
}

#[test]
fn a_peer_that_vanishes_at_a_rate_leaves_what_was_measured() {
    let fake = Fake::start(answer, 200);
    let (all, outcome) = run(&task(paced(1000.0, 20_000), fake.address));
    let error = outcome.unwrap_err();
    assert_eq!(error.exit_code(), 5);
    assert!(error.to_string().contains("vanished") && !error.to_string().contains('\n'), "{error}");
    assert_eq!(all.len(), 1);
    assert!(all[0].result.messages.received >= 150, "{:?}", all[0].result.messages);
    assert!(has(&all[0], FindingId::PeerVanished) && !all[0].result.verdict.trusted);
}

#[test]
fn a_peer_that_falls_silent_at_a_rate_ends_the_run() {
    let fake = Fake::start(nothing, 0);
    let (all, outcome) = run(&task(paced(100.0, 60_000), fake.address));
    assert_eq!(outcome.unwrap_err().exit_code(), 5);
    let messages = &all[0].result.messages;
    assert!(messages.received == 0 && (400..5000).contains(&messages.lost), "{messages:?}");
}

#[test]
fn a_burst_that_a_reflector_s_buffer_does_not_hold_ends_the_sweep() {
    let served = common::Served::start();
    let sweep = |beyond: bool| {
        let mut spec = paced(5000.0, 1000);
        spec.sizes = SizeList::one(1000);
        spec.reflector.receive_buffer_bytes = Some(4096);
        spec.timeout_ms = 500;
        *spec.pace_mut().unwrap() = PaceSpec {
            rates_pps: vec![5000.0, 6000.0],
            shape: Shape::Burst { count: 5000 },
            beyond_saturation: beyond,
            ..PaceSpec::default()
        };
        run(&task(spec, served.address)).0
    };
    let all = sweep(false);
    assert_eq!(all.len(), 1, "the higher rate would say the same");
    let rate = all[0].result.rate.as_ref().unwrap();
    let saturated = rate.saturated.as_ref().unwrap();
    assert_eq!(saturated.who.word(), "reflector", "{saturated:?}");
    assert!(has(&all[0], FindingId::RateNotReached) && has(&all[0], FindingId::Loss));
    assert_eq!(sweep(true).len(), 2);
}
