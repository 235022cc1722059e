//! The far end of a stream, and what hostile clients get of it: nothing that they have not proved, nothing beyond the
//! owner's limits, nothing after the control connection.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod common;

use common::{Client, PATIENCE, Server, request};
use model::{Direction, EndSpec, Limits, Probe, Protocol, StreamSpec};
use net::DataSocket;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use wire::{ClientEvent, OpenRequest, Opened, RefuseCode, SessionError, StreamRequest, stream};

const WHILE: Duration = Duration::from_millis(200);
const SIZE: u32 = 100;

fn open(protocol: Protocol, direction: Direction) -> OpenRequest {
    let spec = StreamSpec { direction, ..StreamSpec::default() };
    OpenRequest {
        probe: Probe::Stream,
        max_size: SIZE,
        stream: Some(StreamRequest { spec, longest_ms: 20_000, live: false, heartbeat_ms: None }),
        ..request(protocol)
    }
}

fn with(protocol: Protocol, direction: Direction, change: impl FnOnce(&mut StreamRequest)) -> OpenRequest {
    let mut open = open(protocol, direction);
    change(open.stream.as_mut().unwrap());
    open
}

fn address_of(server: &Server, port: u16) -> SocketAddr {
    SocketAddr::new(server.address.ip(), port)
}

/// Proves all flows and starts.
fn started(server: &Server, client: &mut Client, open: &OpenRequest) -> (Vec<DataSocket>, u64) {
    let opened = client.opened(open.clone()).unwrap();
    let sockets = proved(server, client, open, &opened);
    client.start(SIZE, SIZE).unwrap();
    (sockets, opened.token.tag())
}

fn proved(server: &Server, client: &mut Client, open: &OpenRequest, opened: &Opened) -> Vec<DataSocket> {
    let count = open.stream.as_ref().unwrap().spec.sockets();
    let mut sockets = Vec::new();
    for number in 0..count {
        let port = opened.ports.get(number as usize).copied().unwrap_or(opened.port);
        let address = address_of(server, port);
        let mut socket = DataSocket::connect(&open.socket, &EndSpec::default(), address, PATIENCE).unwrap();
        socket.send_once(&stream::prove(&opened.token, number), PATIENCE).unwrap();
        sockets.push(socket);
    }
    assert!(matches!(client.next().unwrap(), ClientEvent::Proved { .. }));
    sockets
}

fn hears_nothing(socket: &UdpSocket) {
    socket.set_read_timeout(Some(WHILE)).unwrap();
    let error = socket.recv_from(&mut [0; 2048]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
}

/// Datagrams that come within a time.
fn count_for(socket: &mut DataSocket, time: Duration) -> u64 {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        let left = time.saturating_sub(began.elapsed());
        if matches!(socket.receive_once(&mut [0; 2048], left), Ok(Some(_))) {
            count += 1;
        }
    }
    count
}

#[test]
fn what_goes_up_is_counted_by_number_and_tag() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut sockets, tag) = started(&server, &mut client, &open(Protocol::Udp, Direction::Up));
    let mut message = [0; SIZE as usize];
    let mut send = |seq: u64, tag: u64, bytes: usize| {
        stream::write(seq, tag, seq, &mut message);
        sockets[0].send_once(&message[..bytes], PATIENCE).unwrap();
    };
    // 3 is lost, 1 comes late, 2 comes twice; another tag and another size are nobody's.
    for seq in [0, 2, 1, 2, 4, 5] {
        send(seq, tag, SIZE as usize);
    }
    send(6, tag ^ 1, SIZE as usize);
    send(6, tag, SIZE as usize - 1);
    let report = client.stop().unwrap();
    let received = report.stream.unwrap().received.unwrap();
    assert_eq!((received.received, received.passed, received.bytes), (5, 6, 5 * u64::from(SIZE)), "{received:?}");
    assert_eq!((received.reordered, received.duplicated, received.ignored), (1, 1, 2), "{received:?}");
    assert_eq!(received.intervals.iter().map(|second| second.lost).sum::<u64>(), 1);
    assert!(received.jitter_ns.is_some());
    assert_eq!((report.received, report.ignored), (5, 2));
    client.close();
}

#[test]
fn tcp_is_counted_to_the_last_byte() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let request = with(Protocol::Tcp, Direction::Both, |stream| stream.spec.flows = 2);
    let (mut sockets, _) = started(&server, &mut client, &request);
    sockets[0].send_once(&[1; 10_000], PATIENCE).unwrap();
    sockets[1].send_once(&[2; 2345], PATIENCE).unwrap();
    let mut part = [0; 5000];
    for socket in &mut sockets[2..] {
        assert!(socket.receive_once(&mut part, PATIENCE).unwrap().is_some());
    }
    let report = client.stop().unwrap().stream.unwrap();
    assert_eq!(report.received.unwrap().bytes, 12_345);
    let sent = report.sent.unwrap();
    assert!(sent.bytes >= 10_000 && sent.retransmits.is_some() && sent.congestion.is_some(), "{sent:?}");
}

#[test]
fn nothing_goes_down_to_whom_did_not_prove_itself() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let request = with(Protocol::Udp, Direction::Down, |stream| stream.spec.flows = 2);
    let opened = client.opened(request.clone()).unwrap();
    assert_eq!(opened.ports.len(), 2);
    let proof = stream::prove(&opened.token, 0);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let elsewhere = UdpSocket::bind("127.0.0.2:0").unwrap();
    let mut wrong = proof;
    wrong[10] ^= 1;
    for port in &opened.ports {
        let address = address_of(&server, *port);
        for datagram in [&wrong[..], &proof[..23], &[], &[&proof[..], &[0]].concat()] {
            stranger.send_to(datagram, address).unwrap();
        }
        // The proof of pingpong's kind, and another flow's number.
        stranger.send_to(&wire::data::prove(&opened.token), address).unwrap();
        stranger.send_to(&stream::prove(&opened.token, 7), address).unwrap();
        // The right token from an address that the control connection did not come from.
        elsewhere.send_to(&proof, address).unwrap();
        elsewhere.send_to(&stream::prove(&opened.token, 1), address).unwrap();
    }
    hears_nothing(&stranger);
    hears_nothing(&elsewhere);
    // One flow alone starts nothing: a start before all are proved ends the session.
    let mut first =
        DataSocket::connect(&request.socket, &EndSpec::default(), address_of(&server, opened.ports[0]), PATIENCE)
            .unwrap();
    first.send_once(&proof, PATIENCE).unwrap();
    assert_eq!(count_for(&mut first, WHILE), 0);
    // With both it does, and the strangers still hear nothing.
    let mut second =
        DataSocket::connect(&request.socket, &EndSpec::default(), address_of(&server, opened.ports[1]), PATIENCE)
            .unwrap();
    second.send_once(&stream::prove(&opened.token, 1), PATIENCE).unwrap();
    assert!(matches!(client.next().unwrap(), ClientEvent::Proved { .. }));
    assert_eq!(count_for(&mut first, WHILE), 0, "nothing before the start");
    client.start(SIZE, SIZE).unwrap();
    for socket in [&mut first, &mut second] {
        assert!(socket.receive_once(&mut [0; 2048], PATIENCE).unwrap().is_some());
    }
    hears_nothing(&stranger);
    hears_nothing(&elsewhere);
    let sent = client.stop().unwrap().stream.unwrap().sent.unwrap();
    assert!(sent.datagrams > 0 && sent.bytes == sent.datagrams * u64::from(SIZE));
}

#[test]
fn a_tcp_flow_without_its_token_is_hung_up_on() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let request = open(Protocol::Tcp, Direction::Down);
    let opened = client.opened(request.clone()).unwrap();
    let address = address_of(&server, opened.port);
    let mut stranger = TcpStream::connect(address).unwrap();
    let mut wrong = stream::prove(&opened.token, 0);
    wrong[5] ^= 1;
    stranger.write_all(&wrong).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stranger.read(&mut [0; 16]).unwrap_or(0), 0, "closed, without a byte");
    let mut sockets = proved(&server, &mut client, &request, &opened);
    client.start(SIZE, SIZE).unwrap();
    assert!(sockets[0].receive_once(&mut [0; 1000], PATIENCE).unwrap().is_some());
    client.stop().unwrap();
}

#[test]
fn sending_ends_with_the_control_connection() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut sockets, _) = started(&server, &mut client, &open(Protocol::Udp, Direction::Down));
    assert!(sockets[0].receive_once(&mut [0; 2048], PATIENCE).unwrap().is_some());
    drop(client);
    server.wait_sessions(0);
    // What waits in our own socket comes first.
    while matches!(sockets[0].receive_once(&mut [0; 2048], Duration::ZERO), Ok(Some(_))) {}
    assert_eq!(count_for(&mut sockets[0], WHILE), 0);
}

#[test]
fn sending_ends_with_the_time_that_was_announced() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let request = with(Protocol::Udp, Direction::Down, |stream| {
        stream.longest_ms = 500;
        stream.spec.rate_pps = Some(1000.0);
    });
    let (mut sockets, _) = started(&server, &mut client, &request);
    // The client never says stop. Far more time than was announced, from the first on.
    assert!(sockets[0].receive_once(&mut [0; 2048], PATIENCE).unwrap().is_some());
    let all = 1 + count_for(&mut sockets[0], Duration::from_millis(1500));
    assert!((2..=501).contains(&all), "{all}");
    assert_eq!(count_for(&mut sockets[0], WHILE), 0);
    assert_eq!(client.stop().unwrap().sent, all);
}

#[test]
fn the_owners_limits_hold_for_clients_that_ask_for_more() {
    let limits = Limits { max_rate_pps: 500, ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let mut client = Client::connect(server.address, None).unwrap();
    // As fast as it goes is as fast as the owner allows.
    let (mut sockets, _) = started(&server, &mut client, &open(Protocol::Udp, Direction::Down));
    let began = Instant::now();
    let came = count_for(&mut sockets[0], Duration::from_millis(500));
    let allowed = 500.0 * began.elapsed().as_secs_f64() + 10.0;
    assert!(came > 0 && (came as f64) < allowed, "{came} of {allowed}");
    client.stop().unwrap();
    client.close();
    let limits = Limits { max_bandwidth_bps: Some(800_000), ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut sockets, _) = started(&server, &mut client, &open(Protocol::Tcp, Direction::Down));
    let began = Instant::now();
    let mut part = [0; 1000];
    for _ in 0..50 {
        assert!(sockets[0].receive_once(&mut part, PATIENCE).unwrap().is_some());
    }
    // 50,000 bytes at 100,000 a second.
    assert!(began.elapsed() > Duration::from_millis(400), "{:?}", began.elapsed());
    client.stop().unwrap();
}

#[test]
fn refusals_name_the_limit() {
    let limits = Limits { max_bandwidth_bps: Some(0), ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let refused = |request: OpenRequest| {
        let mut client = Client::connect(server.address, None).unwrap();
        // A client that does not look at the limits that it was told.
        match client.opened(request).unwrap_err() {
            SessionError::Refused { code, reason } => (code, reason),
            other => unreachable!("{other}"),
        }
    };
    let (code, reason) = refused(open(Protocol::Udp, Direction::Down));
    assert_eq!(code, RefuseCode::Limit);
    assert!(reason.contains("--max-bandwidth"), "{reason}");
}

#[test]
fn a_second_start_is_refused_and_the_server_lives() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let (_sockets, _) = started(&server, &mut client, &open(Protocol::Udp, Direction::Up));
    client.stop().unwrap();
    client.machine.start(SIZE, SIZE).unwrap();
    let error = client.next().unwrap_err().to_string();
    assert!(error.contains("another session"), "{error}");
    let mut other = Client::connect(server.address, None).unwrap();
    let (_sockets, _) = started(&server, &mut other, &open(Protocol::Tcp, Direction::Up));
    other.stop().unwrap();
}

#[test]
fn a_server_that_ends_ends_its_streams() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let (_sockets, _) = started(&server, &mut client, &open(Protocol::Udp, Direction::Both));
    let began = Instant::now();
    server.end();
    // A stream of 20 s was asked for.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(client.next().unwrap_err().to_string().contains("stopped"));
}

/// Nothing acknowledges datagrams: a client that vanished without a word (its host was switched off, it was stopped) must
/// not be sent to for as long as it once announced.
#[test]
fn a_client_without_a_sign_of_life_is_sent_nothing_more() {
    let server = Server::open();
    for direction in [Direction::Down, Direction::Both] {
        let open = with(Protocol::Udp, direction, |stream| {
            stream.heartbeat_ms = Some(200);
            stream.live = true;
            stream.spec.rate_pps = Some(1000.0);
        });
        let mut client = Client::connect(server.address, None).unwrap();
        let (mut sockets, tag) = started(&server, &mut client, &open);
        let began = Instant::now();
        // It lives for longer than it may be silent, by its word or by its data.
        let mut number = 0;
        while began.elapsed() < Duration::from_millis(2500) {
            if direction == Direction::Down {
                client.machine.alive().unwrap();
                while let Some(bytes) = client.machine.poll_transmit() {
                    client.stream.write_all(&bytes).unwrap();
                }
            } else {
                let mut message = [0; SIZE as usize];
                stream::write(number, tag, 0, &mut message);
                sockets[0].send_once(&message, PATIENCE).unwrap();
                number += 1;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let last = sockets.last_mut().unwrap();
        let mut datagram = [0; SIZE as usize];
        while last.receive_once(&mut datagram, Duration::ZERO).unwrap().is_some() {}
        assert!(last.receive_once(&mut datagram, PATIENCE).unwrap().is_some(), "{direction}: it was sent to until now");
        // From here on it is silent, and its connection is open all the same.
        let quiet = Instant::now();
        while last.receive_once(&mut datagram, WHILE).unwrap().is_some() {
            assert!(quiet.elapsed() < PATIENCE / 2, "{direction}: it is still sent to");
        }
        let why = loop {
            match client.next() {
                Ok(ClientEvent::Interval(_)) => {}
                Ok(other) => unreachable!("{other:?}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(why.contains("silent"), "{why}");
        server.wait_sessions(0);
    }
}
