//! Nobody makes a server send more than was asked for, or to another host, or takes more of it than its owner would give
//! a stranger: forged datagrams of a client's own address, a token that was read on the way, floods, every interface's frames.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail loudly, and tests say what they skip"
)]

mod common;

use common::{Client, PATIENCE, Server, exchange, request, rounds};
use model::{EndSpec, FrameBackend, Limits, Multicast, Policy, Probe, Protocol, StreamSpec};
use net::DataSocket;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, bind, connect, socket};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{ClientEvent, Key, OpenRequest, PaceRequest, RefuseCode, SessionError, StreamRequest, data};

/// Long enough for an answer over loopback to come, if one were sent.
const WHILE: Duration = Duration::from_millis(200);

fn refused(outcome: Result<(), SessionError>, code: RefuseCode, word: &str) {
    match outcome {
        Err(SessionError::Refused { code: found, reason }) if found == code => {
            assert!(reason.contains(word) && !reason.contains('\n'), "{reason}");
        }
        other => unreachable!("{code:?} with {word} expected: {other:?}"),
    }
}

fn paced() -> OpenRequest {
    OpenRequest {
        probe: Probe::Pace,
        pace: Some(PaceRequest { rate_pps: 1000, ..PaceRequest::default() }),
        ..request(Protocol::Udp)
    }
}

/// What anybody can send who forges the client's address and port: everything but the tag.
#[test]
fn a_forged_datagram_of_the_clients_own_address_is_not_answered() {
    let server = Server::open();
    let rr = OpenRequest { probe: Probe::Rr, pongs: 3, ..request(Protocol::Udp) };
    for (mut open, response, answers) in [(rr, 4096, 3), (paced(), 16, 1)] {
        for connected in [true, false] {
            open.socket.connected = connected;
            let mut client = Client::connect(server.address, None).unwrap();
            let (mut socket, tag) = client.path(&open).unwrap();
            client.start(16, response).unwrap();
            let mut message = [7; 16];
            for number in 0..50 {
                data::write(number, tag ^ (1 << (number + 14)), &mut message);
                socket.send_once(&message, PATIENCE).unwrap();
            }
            let mut answer = vec![0; 4096];
            assert_eq!(socket.receive_once(&mut answer, WHILE).unwrap(), None);
            // The tag opens it.
            data::write(50, tag, &mut message);
            socket.send_once(&message, PATIENCE).unwrap();
            for _ in 0..answers {
                let (bytes, _) = socket.receive_once(&mut answer, PATIENCE).unwrap().unwrap();
                assert_eq!(bytes, usize::try_from(response).unwrap());
            }
            let report = client.stop().unwrap();
            assert_eq!((report.received, report.sent, report.ignored), (1, answers, 50), "{:?}", open.probe);
        }
    }
}

#[test]
fn answers_that_are_longer_than_their_question_need_a_tag() {
    let server = Server::open();
    let open = |pings, pongs| {
        let mut client = Client::connect(server.address, None).unwrap();
        let open = OpenRequest { probe: Probe::Rr, pings, pongs, ..request(Protocol::Udp) };
        let path = client.path(&open).unwrap();
        (client, path)
    };
    for (pings, pongs, size, response) in [(1, 1, 15, 16), (1, 2, 8, 8), (2, 1, 0, 1), (1, 1000, 1, 1)] {
        let (mut client, _path) = open(pings, pongs);
        refused(client.start(size, response), RefuseCode::BadRequest, "16 bytes");
    }
    // As long, or with room for the tag, or over a stream, which nobody forges.
    for (pings, pongs, size, response) in [(1, 1, 15, 15), (2, 1, 8, 16), (1, 1, 16, 17), (1, 1000, 16, 4096)] {
        let (mut client, _path) = open(pings, pongs);
        client.start(size, response).unwrap();
    }
    let mut client = Client::connect(server.address, None).unwrap();
    let _path = client.path(&OpenRequest { probe: Probe::Rr, ..request(Protocol::Tcp) }).unwrap();
    client.start(1, 1000).unwrap();
}

/// The key lets a client in; it does not let it point answers at others.
#[test]
fn a_token_proves_only_from_the_address_of_its_session() {
    let key = Key::from_bytes([8; 32]);
    for allowed in [false, true] {
        let limits = Limits { allow_other_addresses: allowed, ..Limits::default() };
        let server = Server::start("127.0.0.1:0", Some(&key), limits);
        let mut client = Client::connect(server.address, Some(key.clone())).unwrap();
        let open = request(Protocol::Udp);
        let opened = client.opened(open.clone()).unwrap();
        let address = client.data_address(&opened);
        let elsewhere = UdpSocket::bind("127.0.0.2:0").unwrap();
        elsewhere.send_to(&data::prove(&opened.token), address).unwrap();
        std::thread::sleep(WHILE);
        let mut socket = DataSocket::connect(&open.socket, &EndSpec::default(), address, PATIENCE).unwrap();
        socket.send_once(&data::prove(&opened.token), PATIENCE).unwrap();
        let ClientEvent::Proved { address } = client.next().unwrap() else { unreachable!("not proved") };
        let expected = if allowed { elsewhere.local_addr() } else { Ok(socket.local_address().unwrap()) };
        assert_eq!(address, Some(expected.unwrap()), "allowed: {allowed}");
    }
}

#[test]
fn what_an_owner_who_says_nothing_allows() {
    let limits = Limits::default();
    let with = |policy| OpenRequest { end: EndSpec { policy, ..EndSpec::default() }, ..request(Protocol::Udp) };
    let check =
        |open: &OpenRequest| open.check(&limits).map_err(|(code, reason)| SessionError::Refused { code, reason });
    check(&with(Policy::Fifo(49))).unwrap();
    refused(check(&with(Policy::Fifo(50))), RefuseCode::Limit, "--max-priority");
    refused(check(&with(Policy::Rr(99))), RefuseCode::Limit, "--max-priority");
    assert!(limits.max_session_s <= 600);
    // Ports of well-known services (RFC 6335, section 6) are not a client's to bind.
    let mut group = paced();
    group.socket.multicast = Some(Multicast { group: "239.192.0.1".parse().unwrap(), interface: None, loopback: true });
    for (port, allowed) in [(1, false), (161, false), (1023, false), (1024, true), (60_000, true)] {
        let pace = PaceRequest { port: Some(port), ..PaceRequest::default() };
        let outcome = check(&OpenRequest { pace: Some(pace), ..group.clone() });
        if allowed {
            outcome.unwrap();
        } else {
            refused(outcome, RefuseCode::Limit, "1024");
        }
    }
}

/// A flood of what is ignored, or of whole messages, must not keep a reflector from hearing the stop.
#[test]
fn a_flood_does_not_hold_up_the_stop() {
    let server = Server::open();
    for (open, bytes) in [(request(Protocol::Udp), 17), (request(Protocol::Udp), 16), (paced(), 17), (paced(), 16)] {
        let mut client = Client::connect(server.address, None).unwrap();
        let (socket, tag) = client.path(&open).unwrap();
        client.start(16, 16).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let flooding = {
            let over = Arc::clone(&over);
            let mut socket = socket;
            let mut message = vec![1; bytes];
            data::write(1, tag, &mut message);
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let _ = socket.send_once(&message, PATIENCE);
                }
            })
        };
        std::thread::sleep(WHILE);
        let asked = Instant::now();
        let report = client.stop();
        over.store(true, Ordering::Relaxed);
        flooding.join().unwrap();
        let report = report.unwrap();
        assert!(report.ignored + report.received > 0, "{report:?}");
        assert!(asked.elapsed() < PATIENCE);
    }
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut socket, tag) = client.path(&request(Protocol::Udp)).unwrap();
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(5, 32, tag));
    assert_eq!(client.stop().unwrap().sent, 5);
}

/// Whoever opens connections and says nothing must not keep those out who speak, though they come from one address.
#[test]
fn silent_connections_do_not_lock_others_out() {
    let key = Key::from_bytes([8; 32]);
    let server = Server::start("127.0.0.1:0", Some(&key), Limits::default());
    let over = AtomicBool::new(false);
    let (server, over) = (&server, &over);
    let renewed = std::thread::scope(|scope| {
        // More connections than one address may have, each renewed as soon as it is closed.
        let silent = scope.spawn(move || {
            let mut idle: Vec<TcpStream> = Vec::new();
            let mut renewed = 0;
            let began = Instant::now();
            while !over.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                idle.retain_mut(|stream| match stream.read(&mut [0; 2048]) {
                    Ok(0) => false,
                    Ok(_) => true,
                    Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                });
                while idle.len() < 300 {
                    let Ok(stream) = TcpStream::connect(server.address) else { break };
                    stream.set_nonblocking(true).unwrap();
                    idle.push(stream);
                    renewed += 1;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            renewed
        });
        std::thread::sleep(WHILE);
        for time in 0..6 {
            let client = Client::connect(server.address, Some(key.clone()));
            assert!(client.is_ok(), "client {time}: {:?}", client.err());
            let mut client = client.unwrap();
            let (mut socket, tag) = client.path(&request(Protocol::Udp)).unwrap();
            client.start(32, 32).unwrap();
            exchange(&mut socket, rounds(5, 32, tag));
            client.close();
        }
        over.store(true, Ordering::Relaxed);
        silent.join().unwrap()
    });
    assert!(renewed >= 300, "{renewed}");
    assert_eq!(server.endpoint.sessions(), 0);
}

/// A connection from an address of an IPv6 network that is whole on loopback.
fn connected_from(from: Ipv6Addr, to: SocketAddr) -> TcpStream {
    let SocketAddr::V6(to) = to else { unreachable!("{to}") };
    let socket = socket(AddressFamily::Inet6, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(from, 0, 0, 0))).unwrap();
    connect(socket.as_raw_fd(), &SockaddrIn6::from(to)).unwrap();
    socket.into()
}

/// Catches: one IPv6 connection from each /64 of a site, which fill all places and push out whoever comes next.
#[test]
fn a_site_with_many_networks_does_not_lock_others_out() {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("SKIPPED a_site_with_many_networks_does_not_lock_others_out: no network namespace: {error}");
        return;
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let whole = ["-6", "route", "add", "local", "2001:db8:2::/48", "dev", "lo"];
    if !Command::new("ip").args(whole).status().unwrap().success() {
        eprintln!("SKIPPED a_site_with_many_networks_does_not_lock_others_out: no IPv6 here");
        return;
    }
    // In this namespace: an address of a whole network is nobody's own.
    std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1").unwrap();
    let key = Key::from_bytes([8; 32]);
    let server = Server::start("[::1]:0", Some(&key), Limits::default());
    let (over, flooded) = (AtomicBool::new(false), AtomicBool::new(false));
    let (server, over, flooded) = (&server, &over, &flooded);
    let made = std::thread::scope(|scope| {
        // More connections than there are places, each newer one from another /64.
        let silent = scope.spawn(move || {
            let mut idle: VecDeque<TcpStream> = VecDeque::new();
            let mut made = 0_u16;
            let began = Instant::now();
            while !over.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                made = made.wrapping_add(1);
                idle.push_back(connected_from(Ipv6Addr::new(0x2001, 0xdb8, 2, made, 0, 0, 0, 1), server.address));
                if idle.len() > 600 {
                    idle.pop_front();
                }
                flooded.store(idle.len() >= 600, Ordering::Relaxed);
            }
            made
        });
        while !flooded.load(Ordering::Relaxed) && !silent.is_finished() {
            std::thread::yield_now();
        }
        for time in 0..6 {
            let client = Client::connect(server.address, Some(key.clone()));
            assert!(client.is_ok(), "client {time}: {:?}", client.err());
        }
        over.store(true, Ordering::Relaxed);
        silent.join().unwrap()
    });
    assert!(made >= 600, "{made}");
}

/// Connections to a data port that show nothing, or half of it, do not keep the client's own waiting.
#[test]
fn silent_connections_to_a_data_port_do_not_end_its_session() {
    let server = Server::open();
    let stream = StreamRequest { spec: StreamSpec::default(), longest_ms: 1000, live: false, heartbeat_ms: None };
    let stream = OpenRequest { probe: Probe::Stream, stream: Some(stream), ..request(Protocol::Tcp) };
    for open in [request(Protocol::Tcp), stream] {
        let mut client = Client::connect(server.address, None).unwrap();
        let opened = client.opened(open.clone()).unwrap();
        let address = client.data_address(&opened);
        let mut silent: Vec<TcpStream> = (0..25).map(|_| TcpStream::connect(address).unwrap()).collect();
        for half in silent.iter_mut().step_by(3) {
            half.write_all(&data::prove(&opened.token)[..10]).unwrap();
        }
        let asked = Instant::now();
        let mut socket = DataSocket::connect(&open.socket, &EndSpec::default(), address, PATIENCE).unwrap();
        if open.stream.is_some() {
            socket.send_once(&wire::stream::prove(&opened.token, 0), PATIENCE).unwrap();
        } else {
            socket.send_once(&data::prove(&opened.token), PATIENCE).unwrap();
        }
        let proved = client.next();
        assert!(matches!(proved, Ok(ClientEvent::Proved { .. })), "{proved:?}");
        // One after the other, they would take more.
        assert!(asked.elapsed() < Duration::from_secs(12), "{:?}", asked.elapsed());
        client.start(32, 32).unwrap();
        client.stop().unwrap();
    }
}

/// How many XDP programs and packet sockets this thread's namespace has on its loopback interface.
fn attached() -> (usize, usize) {
    let shown = Command::new("ip").args(["link", "show", "lo"]).output().unwrap();
    let sockets = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    (String::from_utf8_lossy(&shown.stdout).matches("prog/xdp").count(), sockets.lines().count() - 1)
}

/// Catches: clients of a server that runs as root and attach to an interface as often as they like, a client that gets the
/// frames of another, and an interface that stays taken by who hung up.
#[test]
fn an_interface_gives_its_frames_to_one_client_at_a_time() {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("SKIPPED an_interface_gives_its_frames_to_one_client_at_a_time: no network namespace: {error}");
        return;
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let server = Server::open();
    for (backend, expected) in [(FrameBackend::Generic, (1, 0)), (FrameBackend::Packet, (0, 1))] {
        let mut open = OpenRequest { max_size: 64, ..request(Protocol::Frame) };
        open.socket.frame_backend = Some(backend);
        let ask = |_| {
            let mut client = Client::connect(server.address, None).unwrap();
            let opened = client.opened(open.clone()).unwrap();
            let address = client.data_address(&opened);
            (client, opened, address, UdpSocket::bind("127.0.0.1:0").unwrap())
        };
        let mut clients: Vec<_> = (0..8).map(ask).collect();
        for (_, opened, address, socket) in &clients {
            socket.send_to(&data::prove(&opened.token), address).unwrap();
        }
        let outcomes: Vec<_> = clients.iter_mut().map(|(client, ..)| client.next()).collect();
        assert_eq!(attached(), expected, "{backend}");
        let is_proved = |outcome: &Result<ClientEvent, SessionError>| matches!(outcome, Ok(ClientEvent::Proved { .. }));
        let holders: Vec<usize> = (0..clients.len()).filter(|&at| is_proved(&outcomes[at])).collect();
        let [holder] = holders[..] else { unreachable!("{outcomes:?}") };
        let held = format!("lo: the frame session of {} has", clients[holder].3.local_addr().unwrap());
        for outcome in outcomes.into_iter().filter(|outcome| !is_proved(outcome)) {
            refused(outcome.map(|_| ()), RefuseCode::Busy, &held);
        }
        // Without a word of its end.
        drop(clients);
        server.wait_sessions(0);
        // A kernel whose CPUs are busy may take seconds to close a packet socket.
        let asked = Instant::now();
        while attached() != (0, 0) {
            assert!(asked.elapsed() < PATIENCE, "{backend}: {:?}", attached());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
