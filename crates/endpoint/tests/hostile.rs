//! What an endpoint must withstand: forged sources, silent, slow, babbling and vanishing clients, and those that want
//! more than its owner allows.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod common;

use common::{Client, PATIENCE, Server, exchange, request, rounds};
use model::worker::EndpointTask;
use model::{EndSpec, Limits, Protocol, Receive};
use net::DataSocket;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use windhover_endpoint::{Endpoint, EndpointError};
use wire::{ClientEvent, Key, OpenRequest, RefuseCode, SessionError, data};

/// Long enough for an answer over loopback to come, if one were sent.
const WHILE: Duration = Duration::from_millis(200);

fn hears_nothing(socket: &UdpSocket) {
    socket.set_read_timeout(Some(WHILE)).unwrap();
    let error = socket.recv_from(&mut [0; 2048]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
}

fn still_serves(server: &Server) {
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut socket, tag) = client.path(&request(Protocol::Udp)).unwrap();
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(5, 32, tag));
    assert_eq!(client.stop().unwrap().sent, 5);
}

#[test]
fn udp_without_a_proof_is_never_answered() {
    let server = Server::open();
    for connected in [true, false] {
        let mut client = Client::connect(server.address, None).unwrap();
        let mut open = request(Protocol::Udp);
        open.socket.connected = connected;
        let opened = client.opened(open.clone()).unwrap();
        let address = client.data_address(&opened);
        let proof = data::prove(&opened.token);
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Before the proof: messages, wrong tokens, parts of the right one.
        let mut wrong = proof;
        wrong[19] ^= 1;
        for datagram in [&[7; 32][..], &[], &wrong, &proof[..19], &[&proof[..], &[0]].concat()] {
            stranger.send_to(datagram, address).unwrap();
        }
        hears_nothing(&stranger);
        // The right token, from an address that the control connection did not come from.
        let elsewhere = UdpSocket::bind("127.0.0.2:0").unwrap();
        elsewhere.send_to(&proof, address).unwrap();
        hears_nothing(&elsewhere);
        // The real client is proved all the same, and hears of it over the control connection only.
        let mut socket = DataSocket::connect(&open.socket, &EndSpec::default(), address, PATIENCE).unwrap();
        socket.send_once(&proof, PATIENCE).unwrap();
        assert!(matches!(client.next().unwrap(), ClientEvent::Proved { .. }));
        assert_eq!(socket.receive_once(&mut [0; 64], WHILE).unwrap(), None);
        // While messages are reflected, others are not answered, whatever they send.
        client.start(32, 32).unwrap();
        let tag = opened.token.tag();
        let mut forged = [7; 32];
        data::write(1, tag, &mut forged);
        for _ in 0..10 {
            stranger.send_to(&forged, address).unwrap();
            stranger.send_to(&proof, address).unwrap();
        }
        exchange(&mut socket, rounds(50, 32, tag));
        hears_nothing(&stranger);
        let report = client.stop().unwrap();
        assert_eq!((report.received, report.sent), (50, 50));
        // A connected socket does not even see them.
        assert_eq!(report.ignored, if connected { 0 } else { 20 });
    }
}

#[test]
fn a_tcp_data_port_takes_only_the_token() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let open = request(Protocol::Tcp);
    let opened = client.opened(open.clone()).unwrap();
    let address = client.data_address(&opened);
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(&[9; 20]).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    // Closed without a byte.
    assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)));
    let mut socket = DataSocket::connect(&open.socket, &EndSpec::default(), address, PATIENCE).unwrap();
    socket.send_once(&data::prove(&opened.token), PATIENCE).unwrap();
    assert!(matches!(client.next().unwrap(), ClientEvent::Proved { .. }));
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(5, 32, opened.token.tag()));
    assert_eq!(client.stop().unwrap().sent, 5);
    // The listener is gone with the proof.
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_silent_or_slow_client_is_dropped() {
    let server = Server::open();
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut slow = TcpStream::connect(server.address).unwrap();
    for stream in [&silent, &slow] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    // One byte now and then, of a frame that is legal and never whole.
    let mut writer = slow.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        writer.write_all(&[0, 0, 16, 0]).unwrap();
        while writer.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    // Meanwhile others are served.
    still_serves(&server);
    for stream in [&mut silent, &mut slow] {
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let text = String::from_utf8_lossy(&said);
        assert!(text.contains("timed-out") && text.contains("handshake"), "{text}");
    }
    drop((silent, slow));
    dripping.join().unwrap();
    server.end();
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let server = Server::open();
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &[0, 0, 0, 2, b'{', b'}'],
        &[0, 0, 0, 0],
        &[0, 0, 0, 4, 0xff, 0xfe, 0, 1],
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let text = String::from_utf8_lossy(&said);
        assert!(text.contains("bad-request"), "{bytes:?}: {text}");
    }
    still_serves(&server);
}

#[test]
fn a_client_that_vanishes_frees_its_place_at_once() {
    let limits = Limits { max_sessions: 1, ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    for receive in [Receive::Block, Receive::Spin, Receive::Epoll] {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let end = EndSpec { receive, ..EndSpec::default() };
            let open = OpenRequest { end, ..request(protocol) };
            // While messages are reflected; the data socket outlives the control connection.
            let mut client = Client::connect(server.address, None).unwrap();
            let (mut socket, tag) = client.path(&open).unwrap();
            client.start(32, 32).unwrap();
            exchange(&mut socket, rounds(3, 32, tag));
            drop(client);
            server.wait_sessions(0);
            // Before the data path was proved.
            let mut client = Client::connect(server.address, None).unwrap();
            client.opened(open).unwrap();
            server.wait_sessions(1);
            drop(client);
            server.wait_sessions(0);
        }
    }
    still_serves(&server);
}

/// The data connection breaks, the control connection lives: the size ends with what was counted.
#[test]
fn a_broken_data_connection_is_reported_at_the_stop() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut socket, tag) = client.path(&request(Protocol::Tcp)).unwrap();
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(7, 32, tag));
    drop(socket);
    std::thread::sleep(WHILE);
    assert_eq!(client.stop().unwrap().sent, 7);
    still_serves(&server);
}

#[test]
fn only_so_many_sessions() {
    let limits = Limits { max_sessions: 2, ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let first = Client::connect(server.address, None).unwrap();
    let _second = Client::connect(server.address, None).unwrap();
    server.wait_sessions(2);
    let busy = |server: &Server| match Client::connect(server.address, None) {
        Err(SessionError::Refused { code, reason }) => Some((code, reason)),
        // The welcome may be read before the refusal that follows it.
        Ok(mut client) => match client.opened(request(Protocol::Udp)) {
            Err(SessionError::Refused { code, reason }) => Some((code, reason)),
            _ => None,
        },
        Err(_) => None,
    };
    let (code, reason) = busy(&server).unwrap();
    assert_eq!(code, RefuseCode::Busy);
    assert!(reason.contains("2 sessions"), "{reason}");
    first.close();
    server.wait_sessions(1);
    assert!(Client::connect(server.address, None).is_ok());
}

#[test]
fn a_session_ends_when_its_time_is_over() {
    let limits = Limits { max_session_s: 3, ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let end = EndSpec { receive: Receive::Spin, ..EndSpec::default() };
    let mut client = Client::connect(server.address, None).unwrap();
    let _path = client.path(&OpenRequest { end, ..request(Protocol::Udp) }).unwrap();
    client.start(32, 32).unwrap();
    let error = client.next().unwrap_err().to_string();
    assert!(error.contains("longer than the reflector's limit of 3 s"), "{error}");
    server.wait_sessions(0);
}

#[test]
fn messages_above_the_rate_are_not_answered() {
    let limits = Limits { max_rate_pps: 64, ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut socket, tag) = client.path(&request(Protocol::Udp)).unwrap();
    client.start(16, 16).unwrap();
    let mut message = [1; 16];
    data::write(1, tag, &mut message);
    let began = Instant::now();
    for _ in 0..200 {
        socket.send_once(&message, PATIENCE).unwrap();
    }
    // Every one of them may be answered where a busy machine takes so long to send them.
    let allowed = 100 + 64 * began.elapsed().as_secs();
    let mut answers = 0;
    while socket.receive_once(&mut [0; 16], WHILE).unwrap().is_some() {
        answers += 1;
    }
    let report = client.stop().unwrap();
    assert_eq!(report.sent, answers);
    assert!(report.over_rate + answers == 200 && answers < allowed, "{answers} answers, {} above", report.over_rate);
}

#[test]
fn sizes_above_the_limit_are_refused_with_its_value() {
    let limits = Limits { max_size: 1000, ..Limits::default() };
    let server = Server::start("127.0.0.1:0", None, limits);
    let mut client = Client::connect(server.address, None).unwrap();
    let error = client.opened(request(Protocol::Udp)).unwrap_err().to_string();
    assert!(error.contains("1000 bytes"), "{error}");
}

#[test]
fn a_cpu_that_does_not_exist_is_named() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let end = EndSpec { cpu: Some(8000), ..EndSpec::default() };
    let error = client.opened(OpenRequest { end, ..request(Protocol::Udp) }).unwrap_err();
    // A mistake of the one who asked, as it would be for the own end, so exit code 2.
    assert!(matches!(&error, SessionError::Refused { code: RefuseCode::Unsupported, .. }), "{error:?}");
    assert!(error.to_string().contains("CPU 8000 does not exist"), "{error}");
    still_serves(&server);
}

#[test]
fn local_protocols_are_not_for_the_network() {
    let server = Server::open();
    for protocol in [Protocol::UnixStream, Protocol::UnixDgram, Protocol::Pipe] {
        let mut client = Client::connect(server.address, None).unwrap();
        let error = client.opened(request(protocol)).unwrap_err().to_string();
        assert!(error.contains("one machine"), "{error}");
    }
}

#[test]
fn data_stays_on_closed_addresses_without_a_key() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let end = EndSpec { bind: Some("0.0.0.0".parse().unwrap()), ..EndSpec::default() };
    let error = client.opened(OpenRequest { end, ..request(Protocol::Udp) }).unwrap_err().to_string();
    assert!(error.contains("needs a key"), "{error}");
}

#[test]
fn a_keyed_server_takes_the_key_only() {
    let key = Key::from_bytes([8; 32]);
    let server = Server::start("127.0.0.1:0", Some(&key), Limits::default());
    let error = Client::connect(server.address, None).err().unwrap();
    assert_eq!(error, SessionError::KeyRequired);
    let error = Client::connect(server.address, Some(Key::from_bytes([9; 32]))).err().unwrap();
    assert_eq!(error.to_string(), "wrong key: both ends need the same --key-file");
    assert_eq!(server.endpoint.sessions(), 0);
    let mut client = Client::connect(server.address, Some(key)).unwrap();
    let (mut socket, tag) = client.path(&request(Protocol::Udp)).unwrap();
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(10, 32, tag));
    assert_eq!(client.stop().unwrap().sent, 10);
    client.close();
}

#[test]
fn the_end_of_the_server_ends_its_sessions() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let _path = client.path(&request(Protocol::Udp)).unwrap();
    client.start(32, 32).unwrap();
    let started = Instant::now();
    server.end();
    let error = client.next().unwrap_err().to_string();
    assert!(error.contains("being stopped"), "{error}");
    assert!(started.elapsed() < PATIENCE);
}

fn task(bind: &str) -> EndpointTask {
    EndpointTask { bind: bind.to_owned(), key: None, limits: Limits::default() }
}

#[test]
fn what_others_can_reach_needs_a_key() {
    for bind in ["0.0.0.0:0", "[::]:0"] {
        let error = Endpoint::bind(&task(bind)).unwrap_err();
        assert!(matches!(error, EndpointError::KeyNeeded { .. }), "{error}");
        assert!(error.to_string().contains("windhover key > F"), "{error}");
    }
    let keyed = EndpointTask { key: Some(Key::from_bytes([1; 32]).to_hex()), ..task("0.0.0.0:0") };
    assert!(Endpoint::bind(&keyed).is_ok());
    let wrong = EndpointTask { key: Some("abc".to_owned()), ..task("127.0.0.1:0") };
    assert!(matches!(Endpoint::bind(&wrong), Err(EndpointError::Key(_))));
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Endpoint::bind(&task(&format!("127.0.0.1:{port}"))).unwrap_err().to_string();
    assert!(error.starts_with(&format!("port {port} on 127.0.0.1 is in use:")), "{error}");
    // An address of a documentation network (RFC 5737), which no host has; with a key, so that it gets that far.
    let foreign = EndpointTask { key: Some(Key::from_bytes([1; 32]).to_hex()), ..task("192.0.2.1:0") };
    let error = Endpoint::bind(&foreign).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1") && error.contains("ip address"), "{error}");
}
