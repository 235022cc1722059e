//! What an endpoint is for: every protocol, size and shape of round comes back, several clients at once.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod common;

use clock::Clock;
use common::{Client, PATIENCE, Rounds, Server, exchange, request, rounds};
use model::{EndSpec, IdleDescriptors, Limits, Multicast, Policy, Probe, Protocol, Receive, SocketSpec};
use net::{DataSocket, PathOptions, Received, TransactionClient, local_pair};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use windhover_endpoint::{InheritedData, serve_inherited};
use wire::{ClientEvent, OpenRequest, PaceRequest, Tier, data};

/// Measures sizes over one session and checks the reflector's own count.
fn measure(server: &Server, open: &OpenRequest, sizes: &[(u32, u32)], count: u64) {
    let mut client = Client::connect(server.address, None).unwrap();
    let (mut socket, tag) = client.path(open).unwrap();
    for &(size, response) in sizes {
        client.start(size, response).unwrap();
        let plan = Rounds {
            response: usize::try_from(response).unwrap(),
            pings: open.pings,
            pongs: open.pongs,
            ..rounds(count, size, tag)
        };
        exchange(&mut socket, plan);
        let report = client.stop().unwrap();
        let (pings, pongs) = (u64::from(open.pings), u64::from(open.pongs));
        assert_eq!((report.received, report.sent), (count * pings, count * pongs), "size {size}");
        assert_eq!((report.ignored, report.over_rate), (0, 0));
        assert!(report.usage.elapsed_ns > 0 && report.usage.cpus > 0);
        assert!(report.clock_read_ns.is_some());
    }
    client.close();
    server.wait_sessions(0);
}

#[test]
fn every_size_comes_back_over_udp_and_tcp() {
    let server = Server::open();
    let datagrams = [0, 1, 7, 8, 15, 16, 32, 1473, 4096].map(|size| (size, size));
    measure(&server, &request(Protocol::Udp), &datagrams, 50);
    measure(&server, &request(Protocol::Tcp), &datagrams[1..], 50);
    server.end();
}

#[test]
fn answers_may_have_another_size() {
    let server = Server::open();
    measure(&server, &request(Protocol::Udp), &[(16, 1000), (1000, 1), (17, 200), (200, 9)], 30);
    measure(&server, &request(Protocol::Tcp), &[(1, 1000), (1000, 1), (9, 200), (200, 9)], 30);
}

#[test]
fn every_way_of_waiting_reflects() {
    let server = Server::open();
    for receive in Receive::LINUX {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let idle = IdleDescriptors { pipes: 3, udp: 2, ..IdleDescriptors::default() };
            let open = OpenRequest { end: EndSpec { receive, idle, ..EndSpec::default() }, ..request(protocol) };
            measure(&server, &open, &[(32, 32), (33, 33)], 20);
        }
    }
}

#[test]
fn rounds_of_several_pings_and_pongs() {
    let server = Server::open();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut open = OpenRequest { pings: 3, pongs: 2, ..request(protocol) };
        open.socket.more = true;
        // Without MSG_MORE for datagrams: corked ones would be one datagram, not three.
        open.socket.more &= protocol == Protocol::Tcp;
        measure(&server, &open, &[(64, 64), (1, 1)], 40);
    }
}

#[test]
fn sockets_that_are_not_connected() {
    let server = Server::open();
    let mut open = request(Protocol::Udp);
    open.socket.connected = false;
    measure(&server, &open, &[(0, 0), (32, 32)], 40);
}

#[test]
fn ipv6_too() {
    let server = Server::start("[::1]:0", None, Limits::default());
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        measure(&server, &request(protocol), &[(32, 32)], 20);
    }
}

#[test]
fn a_multicast_group_on_loopback() {
    let server = Server::open();
    let mut open = request(Protocol::Udp);
    let group = "239.198.18.1".parse().unwrap();
    open.socket.multicast = Some(Multicast { group, interface: Some("lo".to_owned()), loopback: true });
    let mut client = Client::connect(server.address, None).unwrap();
    let Ok((mut socket, tag)) = client.path(&open) else { panic!("no path over the group") };
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(20, 32, tag));
    let report = client.stop().unwrap();
    assert_eq!(report.sent, 20);
}

#[test]
fn a_connection_for_each_transaction() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let open = OpenRequest { connect_each: true, ..request(Protocol::Tcp) };
    let opened = client.opened(open.clone()).unwrap();
    let address = client.data_address(&opened);
    assert!(matches!(client.next().unwrap(), ClientEvent::Proved { address: None }));
    client.start(10, 20).unwrap();
    let stop = AtomicBool::new(false);
    let options = PathOptions {
        receive: Receive::Block,
        idle: IdleDescriptors::default(),
        clock: Clock::raw(),
        timeout_ns: 0,
        stop: &stop,
    };
    let end = EndSpec::default();
    let mut transactions = TransactionClient::new(&open.socket, &end, address, &options, 0).unwrap();
    for _ in 0..30 {
        assert_eq!(transactions.transact(&[1; 10], &mut [0; 20]).unwrap(), Received::Bytes(20));
    }
    let report = client.stop().unwrap();
    assert_eq!((report.received, report.sent), (30, 30));
}

#[test]
fn several_clients_at_once() {
    let server = Server::open();
    std::thread::scope(|scope| {
        for at in 0..6 {
            let server = &server;
            scope.spawn(move || {
                let protocol = if at % 2 == 0 { Protocol::Udp } else { Protocol::Tcp };
                let mut client = Client::connect(server.address, None).unwrap();
                let (mut socket, tag) = client.path(&request(protocol)).unwrap();
                for size in [16, 100] {
                    client.start(size, size).unwrap();
                    exchange(&mut socket, rounds(200, size, tag));
                    assert_eq!(client.stop().unwrap().sent, 200);
                }
            });
        }
    });
    server.wait_sessions(0);
    server.end();
}

/// The policy and the CPU that a client asks for are the reflector thread's alone.
#[test]
fn the_policy_belongs_to_the_reflector_alone() {
    let server = Server::open();
    let mut client = Client::connect(server.address, None).unwrap();
    let end = EndSpec { policy: Policy::Fifo(2), cpu: Some(0), ..EndSpec::default() };
    let open = OpenRequest { end, ..request(Protocol::Udp) };
    let (mut socket, tag) = match client.path(&open) {
        Ok(path) => path,
        Err(error) if error.to_string().contains("is not permitted") => {
            // Not eprintln, which the test harness keeps to itself when a test passes.
            writeln!(std::io::stderr(), "SKIPPED the_policy_belongs_to_the_reflector_alone: {error}").unwrap();
            return;
        }
        Err(error) => panic!("{error}"),
    };
    client.start(32, 32).unwrap();
    exchange(&mut socket, rounds(5, 32, tag));
    let mut real_time = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap() {
        let thread = entry.unwrap().file_name().into_string().unwrap();
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
        let attributes = task::attributes(thread.parse().unwrap());
        if attributes.is_ok_and(|found| found.is_some_and(|found| found.class == task::Class::Plain(Policy::Fifo(2)))) {
            let cpus = task::allowed_cpus_of(thread.parse().unwrap()).unwrap();
            real_time.push((name.trim().to_owned(), cpus.to_string()));
        }
    }
    assert_eq!(real_time, [("reflector".to_owned(), "0".to_owned())]);
    let report = client.stop().unwrap();
    assert_eq!(report.usage.cpu, Some(0));
}

#[test]
fn inherited_descriptors_of_every_local_protocol() {
    for protocol in [Protocol::UnixStream, Protocol::UnixDgram, Protocol::Pipe, Protocol::Shm] {
        let spec = SocketSpec::new(protocol);
        let (mut ours, theirs) = local_pair(&spec, &EndSpec::default(), &EndSpec::default()).unwrap();
        let (parent, child) = UnixStream::pair().unwrap();
        parent.set_read_timeout(Some(PATIENCE)).unwrap();
        let (read, write) = DataSocket::into_fds(theirs);
        let data = match write {
            Some(write) => InheritedData::Pair { read, write },
            None => InheritedData::Socket(read),
        };
        let reflector = std::thread::spawn(move || serve_inherited(child, data));
        let mut client = Client::over(Box::new(parent), None, None).unwrap();
        let opened = client.opened(request(protocol)).unwrap();
        assert_eq!(opened.port, 0);
        assert!(matches!(client.next().unwrap(), ClientEvent::Proved { address: None }));
        for size in [1, 32, 4096] {
            client.start(size, size).unwrap();
            exchange(&mut ours, rounds(30, size, opened.token.tag()));
            assert_eq!(client.stop().unwrap().sent, 30, "{protocol}");
        }
        client.close();
        reflector.join().unwrap().unwrap();
    }
}

#[test]
fn inherited_descriptors_carry_no_other_protocol() {
    let (parent, child) = UnixStream::pair().unwrap();
    parent.set_read_timeout(Some(PATIENCE)).unwrap();
    let (data, _other) = UnixStream::pair().unwrap();
    let reflector = std::thread::spawn(move || serve_inherited(child, InheritedData::Socket(data.into())));
    let mut client = Client::over(Box::new(parent), None, None).unwrap();
    let error = client.opened(request(Protocol::Udp)).unwrap_err().to_string();
    assert!(error.contains("do not carry udp"), "{error}");
    reflector.join().unwrap().expect("the parent was told, so that it alone says it");
}

#[test]
fn at_a_rate_only_the_asked_are_answered_and_only_to_whom_proved_itself() {
    let server = Server::open();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for connected in [true, false] {
            let mut open = request(protocol);
            open.socket.connected = connected;
            open.probe = Probe::Pace;
            open.pace = Some(PaceRequest { rate_pps: 1000, every: 4, ..PaceRequest::default() });
            let mut client = Client::connect(server.address, None).unwrap();
            let (mut socket, tag) = client.path(&open).unwrap();
            client.start(64, 64).unwrap();
            let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let mut message = [0; 64];
            for number in 0..20 {
                data::write(number, tag, &mut message);
                socket.send_once(&message, PATIENCE).unwrap();
                if protocol == Protocol::Udp {
                    stranger.send_to(&message, socket.peer_address().unwrap()).unwrap();
                }
            }
            for number in [0, 4, 8, 12, 16] {
                let (bytes, _) = socket.receive_once(&mut message, PATIENCE).unwrap().unwrap();
                assert_eq!((bytes, data::read(Tier::Tagged, tag, &message)), (64, Some(number)));
                let stamps = data::read_stamps(&message, false);
                assert!(stamps.rx > 0 && stamps.rx <= stamps.tx, "{stamps:?}");
            }
            assert!(stranger.recv(&mut message).is_err(), "a stranger is never answered");
            let report = client.stop().unwrap();
            assert_eq!((report.received, report.sent), (20, 5), "{protocol} {connected}");
            assert!(report.ticks.is_some() && report.clock.is_some());
            // A size that is announced and not fitting ends the session.
            let error = client.start(4, 4).unwrap_err();
            assert!(matches!(error, wire::SessionError::Refused { .. }), "{error}");
        }
    }
}
