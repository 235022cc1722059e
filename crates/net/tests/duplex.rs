//! Both halves of a way over loopback: one socket, several, a group of sources, and time stamps.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

use clock::Clock;
use model::{EndSpec, IdleDescriptors, Protocol, Receive, SocketSpec, Stamps};
use net::{Arrival, DataSocket, DuplexVisitor, Inbox, Message, Outbox, PathOptions, with_duplex};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windhover_net as net;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(receive: Receive, stop: &AtomicBool) -> PathOptions<'_> {
    PathOptions { receive, idle: IdleDescriptors::default(), clock: Clock::raw(), timeout_ns: 0, stop }
}

/// Sends this many messages to each of `peers` and takes all that comes back: bytes, peer, whether there was a stamp.
struct Exchange {
    peers: u16,
    count: u8,
    bytes: usize,
    /// Looks instead of waiting.
    looks: bool,
}

impl DuplexVisitor for Exchange {
    type Output = Vec<(u8, Message)>;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Self::Output {
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            // The halves are for two threads.
            scope.spawn(|| {
                for number in 0..self.count {
                    for to in 0..self.peers {
                        outbox.send(to, &vec![number; self.bytes]).unwrap();
                    }
                }
            });
            let mut buffer = vec![0; self.bytes];
            while got.len() < usize::from(self.count) * usize::from(self.peers) {
                let arrival = if self.looks { inbox.look(&mut buffer) } else { inbox.wait(&mut buffer) };
                match arrival.unwrap() {
                    Arrival::Message(message) => got.push((buffer[0], message)),
                    Arrival::Nothing => std::thread::yield_now(),
                    other => panic!("{other:?}"),
                }
            }
        });
        assert_eq!(outbox.unsent(), 0);
        got
    }
}

/// Echoes datagrams until it is dropped.
struct Echo {
    address: SocketAddr,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Echo {
    fn start(bind: &str) -> Self {
        let socket = UdpSocket::bind(bind).unwrap();
        let address = socket.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            loop {
                let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
                // An empty datagram is the end.
                if bytes == 0 {
                    return;
                }
                drop(socket.send_to(&buffer[..bytes], from));
            }
        });
        Self { address, thread: Some(thread) }
    }

    fn socket(&self, connected: bool) -> DataSocket {
        let spec = SocketSpec { connected, ..SocketSpec::new(Protocol::Udp) };
        DataSocket::connect(&spec, &EndSpec::default(), self.address, PATIENCE).unwrap()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let end = UdpSocket::bind(if self.address.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" }).unwrap();
        drop(end.send_to(&[], self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn all_of(got: &[(u8, Message)], from: u16, count: u8) -> bool {
    got.iter().filter(|(_, message)| message.from == from).map(|(number, _)| *number).eq(0..count)
}

/// A socket that has the kernel stamp what arrives as long as it lives. A work queue switches that on, which a busy machine runs late.
fn stamping(echo: &Echo) -> DataSocket {
    let mut socket = echo.socket(true);
    socket.stamp(Stamps::Kernel, false).unwrap();
    let (stop, end) = (AtomicBool::new(false), std::time::Instant::now() + Duration::from_secs(60));
    loop {
        let plan = Exchange { peers: 1, count: 1, bytes: 100, looks: false };
        let got = with_duplex(std::slice::from_mut(&mut socket), &options(Receive::Block, &stop), plan).unwrap();
        if got.iter().any(|(_, message)| message.stack_ns > 0) {
            return socket;
        }
        assert!(std::time::Instant::now() < end, "no stamp within a minute");
    }
}

#[test]
fn one_socket_in_every_way_of_waiting() {
    let (echo, stop) = (Echo::start("127.0.0.1:0"), AtomicBool::new(false));
    let _stamping = stamping(&echo);
    for receive in Receive::LINUX {
        for connected in [true, false] {
            for stamps in [Stamps::None, Stamps::Kernel] {
                let mut socket = echo.socket(connected);
                socket.stamp(stamps, false).unwrap();
                let looks = receive == Receive::Spin;
                let plan = Exchange { peers: 1, count: 20, bytes: 100, looks };
                let got = with_duplex(std::slice::from_mut(&mut socket), &options(receive, &stop), plan).unwrap();
                assert!(all_of(&got, 0, 20), "{receive} {connected} {stamps:?}: {got:?}");
                let stamped = got.iter().filter(|(_, message)| message.stack_ns > 1_600_000_000_000_000_000).count();
                assert_eq!(stamped, if stamps == Stamps::None { 0 } else { 20 }, "{receive} {connected}");
            }
        }
    }
}

#[test]
fn several_sockets_are_told_apart() {
    let (one, other, stop) = (Echo::start("127.0.0.1:0"), Echo::start("127.0.0.1:0"), AtomicBool::new(false));
    for (receive, looks) in [(Receive::Block, false), (Receive::Spin, false), (Receive::Spin, true)] {
        let mut sockets = [one.socket(true), other.socket(false)];
        let plan = Exchange { peers: 2, count: 20, bytes: 100, looks };
        let got = with_duplex(&mut sockets, &options(receive, &stop), plan).unwrap();
        assert!(all_of(&got, 0, 20) && all_of(&got, 1, 20), "{receive} {looks}: {got:?}");
    }
    assert!(
        with_duplex(&mut [], &options(Receive::Block, &stop), Exchange { peers: 0, count: 0, bytes: 1, looks: false })
            .is_err()
    );
}

#[test]
fn parts_of_several_streams_do_not_mix() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                let mut message = [0; 3000];
                while stream.read_exact(&mut message).is_ok() {
                    // In pieces, so that one is never whole when the other's come.
                    for piece in message.chunks(700) {
                        if stream.write_all(piece).is_err() {
                            return;
                        }
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            });
        }
        let connect =
            || DataSocket::connect(&SocketSpec::new(Protocol::Tcp), &EndSpec::default(), address, PATIENCE).unwrap();
        let mut sockets = [connect(), connect()];
        let plan = Exchange { peers: 2, count: 10, bytes: 3000, looks: false };
        let got = with_duplex(&mut sockets, &options(Receive::Block, &stop), plan).unwrap();
        assert!(all_of(&got, 0, 10) && all_of(&got, 1, 10), "{got:?}");
    });
}

#[test]
fn sources_beside_the_first_are_taken_and_strangers_are_not() {
    let (one, stop) = (Echo::start("127.0.0.1:0"), AtomicBool::new(false));
    let mut socket = one.socket(false);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(socket.also_from(other.local_addr().unwrap()).unwrap());
    assert!(!socket.also_from(one.address).unwrap(), "it is there already");
    assert!(one.socket(true).also_from(one.address).is_err(), "a connected socket has one peer");
    // Its port is known once it is bound.
    let to = SocketAddr::new("127.0.0.1".parse().unwrap(), socket.local_address().unwrap().port());
    stranger.send_to(&[9; 50], to).unwrap();
    other.send_to(&[7; 50], to).unwrap();

    struct Take;
    impl DuplexVisitor for Take {
        type Output = (Vec<(u8, u16)>, u64);
        fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Self::Output {
            outbox.send(0, &[5; 50]).unwrap();
            let mut got = Vec::new();
            let mut buffer = [0; 50];
            while got.len() < 2 {
                if let Arrival::Message(message) = inbox.wait(&mut buffer).unwrap() {
                    got.push((buffer[0], message.from));
                }
            }
            got.sort_unstable();
            (got, inbox.foreign())
        }
    }
    let (got, foreign) = with_duplex(std::slice::from_mut(&mut socket), &options(Receive::Block, &stop), Take).unwrap();
    assert_eq!((got, foreign), (vec![(5, 0), (7, 1)], 1));
}

#[test]
fn what_is_sent_is_stamped_by_its_number() {
    let (echo, stop) = (Echo::start("127.0.0.1:0"), AtomicBool::new(false));
    let mut socket = echo.socket(true);
    assert!(socket.sent_stamps(100).unwrap().is_none(), "nobody asked");
    let before = clock::realtime_ns();
    socket.stamp(Stamps::Kernel, true).unwrap();
    let mut stamps = socket.sent_stamps(100).unwrap().unwrap();
    let plan = Exchange { peers: 1, count: 30, bytes: 100, looks: false };
    let got = with_duplex(std::slice::from_mut(&mut socket), &options(Receive::Block, &stop), plan).unwrap();
    let mut told = Vec::new();
    stamps.drain(|number, ns| told.push((number, ns))).unwrap();
    assert!(told.iter().map(|(number, _)| *number).eq(0..30), "{told:?}");
    assert!(told.windows(2).all(|pair| pair[0].1 <= pair[1].1) && told[0].1 >= before);
    // A message is sent before its answer is received.
    assert!(told.iter().zip(&got).all(|((_, sent), (_, message))| *sent <= message.stack_ns));
    let mut none = 0;
    stamps.drain(|_, _| none += 1).unwrap();
    assert_eq!(none, 0, "each is told once");
}

/// Every way of waiting, with stamps of what is sent: none is kept awake, all are reported.
#[test]
fn stamps_of_sends_do_not_keep_a_wait_from_waiting() {
    let (one, other, stop) = (Echo::start("127.0.0.1:0"), Echo::start("127.0.0.1:0"), AtomicBool::new(false));
    for receive in Receive::LINUX {
        for several in [false, true] {
            let mut sockets = vec![one.socket(true)];
            if several {
                sockets.push(other.socket(false));
            }
            let mut stamps = Vec::new();
            for socket in &mut sockets {
                socket.stamp(Stamps::Kernel, true).unwrap();
                stamps.push(socket.sent_stamps(100).unwrap().unwrap());
            }
            let peers = u16::try_from(sockets.len()).unwrap();
            let plan = Exchange { peers, count: 50, bytes: 100, looks: false };
            let got = with_duplex(&mut sockets, &options(receive, &stop), plan).unwrap();
            assert!((0..peers).all(|from| all_of(&got, from, 50)), "{receive} {several}");
            for one in &mut stamps {
                let mut told = Vec::new();
                one.drain(|number, _| told.push(number)).unwrap();
                told.sort_unstable();
                assert!(told.iter().copied().eq(0..50), "{receive} {several}: {told:?}");
            }
        }
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "a clock that std does not read")]
    // SAFETY: `time` is a valid timespec that lives through the call.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

#[test]
fn a_wait_by_readiness_sleeps_although_stamps_are_there() {
    /// Sends, and waits for an answer that takes its time.
    struct Slow;
    impl DuplexVisitor for Slow {
        type Output = Duration;
        fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Duration {
            outbox.send(0, &[1; 100]).unwrap();
            let before = cpu_time();
            while !matches!(inbox.wait(&mut [0; 100]).unwrap(), Arrival::Message(_)) {}
            cpu_time().saturating_sub(before)
        }
    }
    let pause = Duration::from_millis(400);
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = far.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    for (receive, several) in [(Receive::Poll, false), (Receive::Epoll, false), (Receive::Block, true)] {
        let open = || {
            let mut socket =
                DataSocket::connect(&SocketSpec::new(Protocol::Udp), &EndSpec::default(), address, PATIENCE).unwrap();
            socket.stamp(Stamps::Kernel, true).unwrap();
            socket
        };
        let mut sockets: Vec<DataSocket> = (0..if several { 2 } else { 1 }).map(|_| open()).collect();
        let used = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 100];
                let (bytes, from) = far.recv_from(&mut buffer).unwrap();
                std::thread::sleep(pause);
                far.send_to(&buffer[..bytes], from).unwrap();
            });
            with_duplex(&mut sockets, &options(receive, &stop), Slow).unwrap()
        });
        assert!(used < pause / 4, "{receive} {several}: it was awake for {used:?}");
    }
}

#[test]
fn a_stream_is_stamped_by_its_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut message = vec![0; 3000];
            // The proof, and then messages of two lengths.
            stream.read_exact(&mut message[..20]).unwrap();
            for (count, bytes) in [(30, 100), (20, 3000)] {
                for _ in 0..count {
                    stream.read_exact(&mut message[..bytes]).unwrap();
                    stream.write_all(&message[..bytes]).unwrap();
                }
            }
        });
        let spec = SocketSpec { nodelay: true, ..SocketSpec::new(Protocol::Tcp) };
        let mut socket = DataSocket::connect(&spec, &EndSpec::default(), address, PATIENCE).unwrap();
        socket.send_once(&[0; 20], PATIENCE).unwrap();
        for (count, bytes) in [(30_u8, 100), (20, 3000)] {
            socket.stamp(Stamps::Kernel, true).unwrap();
            let before = clock::realtime_ns();
            let mut stamps = socket.sent_stamps(bytes).unwrap().unwrap();
            let plan = OneByOne { count, bytes };
            with_duplex(std::slice::from_mut(&mut socket), &options(Receive::Block, &stop), plan).unwrap();
            let mut told = Vec::new();
            stamps.drain(|number, ns| told.push((number, ns))).unwrap();
            assert!(told.iter().map(|(number, _)| *number).eq(0..u64::from(count)), "{bytes}: {told:?}");
            assert!(told.windows(2).all(|pair| pair[0].1 <= pair[1].1) && told[0].1 >= before);
        }
    });
}

/// One message after the other, so that no two leave in one piece.
struct OneByOne {
    count: u8,
    bytes: usize,
}

impl DuplexVisitor for OneByOne {
    type Output = ();

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) {
        let mut buffer = vec![0; self.bytes];
        for number in 0..self.count {
            outbox.send(0, &vec![number; self.bytes]).unwrap();
            while !matches!(inbox.wait(&mut buffer).unwrap(), Arrival::Message(_)) {}
            assert_eq!(buffer[0], number);
        }
    }
}

#[test]
fn a_stop_ends_a_look_and_a_wait() {
    let echo = Echo::start("127.0.0.1:0");
    let stop = AtomicBool::new(false);
    struct Wait<'a>(&'a AtomicBool);
    impl DuplexVisitor for Wait<'_> {
        type Output = ();
        fn visit<O: Outbox, I: Inbox>(self, _: &mut O, inbox: &mut I) {
            assert_eq!(inbox.look(&mut [0; 8]).unwrap(), Arrival::Nothing);
            self.0.store(true, Ordering::Relaxed);
            assert_eq!(inbox.wait(&mut [0; 8]).unwrap(), Arrival::Stopped);
        }
    }
    let mut sockets = [echo.socket(true), echo.socket(true)];
    with_duplex(&mut sockets[..1], &options(Receive::Spin, &stop), Wait(&stop)).unwrap();
    stop.store(false, Ordering::Relaxed);
    with_duplex(&mut sockets, &options(Receive::Spin, &stop), Wait(&stop)).unwrap();
}

#[test]
fn stamps_that_are_not_there_are_refused() {
    let echo = Echo::start("127.0.0.1:0");
    let error = echo.socket(true).stamp(Stamps::Hardware, true).unwrap_err().to_string();
    assert!(error.contains("lo has no hardware stamps"), "{error}");
    let (mut pipe, _there) =
        net::local_pair(&SocketSpec::new(Protocol::Pipe), &EndSpec::default(), &EndSpec::default()).unwrap();
    assert!(pipe.stamp(Stamps::Kernel, false).is_err());
}
