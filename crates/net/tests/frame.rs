//! Bare frames with every back-end, both roles in threads, over a virtual wire and over the loopback interface of network
//! namespaces that the tests make for themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod common;

use common::{NEVER, PATIENCE, PingPong, Reflect, end, ends_at, interrupted, ip, options, own_namespace};
use model::{EndSpec, FrameBackend, Protocol, Receive, SocketSpec};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use windhover_net::{DataSocket, NetError, PathError, Received, with_path};

fn spec(backend: Option<FrameBackend>) -> SocketSpec {
    SocketSpec { frame_backend: backend, ..SocketSpec::new(Protocol::Frame) }
}

fn has_program(interface: &str) -> bool {
    let shown = Command::new("ip").args(["-details", "link", "show", interface]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().contains("xdp")
}

/// Datagrams that the kernel's UDP received, and those it had no socket for.
fn kernel_datagrams() -> String {
    let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let line = snmp.lines().filter(|line| line.starts_with("Udp:")).nth(1).unwrap();
    line.split_whitespace().skip(1).take(3).collect::<Vec<_>>().join(" ")
}

fn pingpong(initiator: &mut DataSocket, reflector: &mut DataSocket, receive: Receive, size: usize, rounds: u32) {
    let stop = AtomicBool::new(false);
    let reflect = || with_path(reflector, &options(receive, &stop), Reflect { size }).unwrap();
    let (count, last) = interrupted(reflect, || {
        let done = with_path(initiator, &options(receive, &NEVER), PingPong { size, rounds }).unwrap();
        assert_eq!(done, rounds);
        stop.store(true, Ordering::Release);
    });
    assert_eq!(count, u64::from(rounds));
    assert!(matches!(last, Ok(Received::Stopped)), "{last:?}");
}

/// Catches: frames with wrong lengths or checksums, padding taken for data, frames that the kernel's socket gets as well, a
/// wait that sleeps through a frame, and both ends on one interface that are not distinguished.
#[test]
fn over_the_loopback_interface() {
    if !own_namespace("over_the_loopback_interface") {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for backend in [Some(FrameBackend::Packet), None] {
            let before = kernel_datagrams();
            for receive in [Receive::Spin, Receive::Block] {
                let (mut here, mut there) =
                    ends_at(&spec(backend), &end(receive), &end(receive), address.parse().unwrap());
                let expected = if backend.is_none() { FrameBackend::Generic } else { FrameBackend::Packet };
                assert_eq!(here.frame_backend(), Some(expected), "the first that opens");
                // The interface's only queue has its socket already.
                assert_eq!(there.frame_backend(), Some(FrameBackend::Packet));
                for (size, rounds) in [(0, 20), (1, 20), (32, 100), (3774, 20)] {
                    pingpong(&mut here, &mut there, receive, size, rounds);
                }
            }
            // The proofs only: one a pair of ends.
            let (before, after) = (before.split(' ').next().unwrap().parse::<u64>().unwrap(), kernel_datagrams());
            let after = after.split(' ').next().unwrap().parse::<u64>().unwrap();
            if address.starts_with("127") {
                assert_eq!(after - before, 2, "the kernel's sockets get no frames");
            }
        }
    }
    assert!(!has_program("lo"), "nothing is left behind");
}

/// The reflector's thread: a namespace of its own with `right`, whose address is that of `at`.
fn reflect(spec: &SocketSpec, at: &str, mtu: &str, ready: &mpsc::Sender<String>, proved: &mpsc::Sender<FrameBackend>) {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    let namespace = format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid());
    // The wire is there once its near end answers; it is made by the other thread.
    ready.send(namespace).unwrap();
    let until = Instant::now() + PATIENCE;
    while windhover_net::interface::index_of("right").is_err() {
        assert!(Instant::now() < until, "no wire");
        std::thread::sleep(Duration::from_millis(1));
    }
    ip(&["address", "add", "10.9.0.2/24", "dev", "right"]);
    ip(&["-6", "address", "add", "fd09::2/64", "dev", "right", "nodad"]);
    ip(&["link", "set", "right", "mtu", mtu, "up"]);
    let mut socket = DataSocket::bind(spec, &end(Receive::Spin), at.parse().unwrap()).unwrap();
    ready.send(socket.local_address().unwrap().to_string()).unwrap();
    let (_, from) = socket.receive_once(&mut [0; 16], PATIENCE).unwrap().unwrap();
    socket.set_peer(from.unwrap()).unwrap();
    proved.send(socket.frame_backend().unwrap()).unwrap();
    with_path(&mut socket, &options(Receive::Block, &NEVER), UntilEnd).unwrap();
    drop(socket);
    assert!(!has_program("right"));
}

/// Catches: a route, neighbour or source that is not the kernel's; a back-end other than the one asked for; an end that takes the
/// frames of another flow; a message longer than the MTU that is cut without a word.
#[test]
fn over_a_wire_with_every_backend() {
    if !own_namespace("over_a_wire_with_every_backend") {
        return;
    }
    for (backend, at) in [
        (FrameBackend::Native, "10.9.0.2:0"),
        (FrameBackend::Generic, "[fd09::2]:0"),
        (FrameBackend::Packet, "[fd09::2]:0"),
        (FrameBackend::Packet, "10.9.0.2:0"),
    ] {
        let spec = spec(Some(backend));
        let ((ready, readiness), (proved, proof)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(|| reflect(&spec, at, "1400", &ready, &proved));
            let next = || readiness.recv_timeout(PATIENCE).unwrap();
            ip(&["link", "add", "left", "type", "veth", "peer", "name", "right", "netns", &next()]);
            ip(&["address", "add", "10.9.0.1/24", "dev", "left"]);
            ip(&["-6", "address", "add", "fd09::1/64", "dev", "left", "nodad"]);
            ip(&["link", "set", "left", "mtu", "1400", "up"]);
            let far = next().parse().unwrap();
            let mut here = DataSocket::connect(&spec, &end(Receive::Block), far, PATIENCE).unwrap();
            // As a session does: an interface that has just got an XDP program may lose the first ones.
            let far_backend = (0..100).find_map(|_| {
                here.send_once(b"proof", PATIENCE).unwrap();
                proof.recv_timeout(Duration::from_millis(50)).ok()
            });
            assert_eq!(far_backend, Some(backend));
            assert_eq!(here.frame_backend(), Some(backend));
            assert_eq!(has_program("left"), backend != FrameBackend::Packet);
            let headers = if at.starts_with('[') { 48 } else { 28 };
            for receive in [Receive::Block, Receive::Spin] {
                for (size, rounds) in [(0, 20), (32, 100), (1400 - headers, 20)] {
                    let done = with_path(&mut here, &options(receive, &NEVER), PingPong { size, rounds }).unwrap();
                    assert_eq!(done, rounds, "{backend} {at} {receive} {size}");
                }
            }
            let long = 1401 - headers;
            let outcome = with_path(&mut here, &options(Receive::Spin, &NEVER), Send(long)).unwrap();
            assert_eq!(outcome, Err(PathError::TooLarge { bytes: long }));
            with_path(&mut here, &options(Receive::Spin, &NEVER), Send(1)).unwrap().unwrap();
        });
        // It may have been removed with the other end's namespace.
        let _ = Command::new("ip").args(["link", "delete", "left"]).output().unwrap();
    }
}

/// Catches: a refusal without the reason or the remedy, or with the program still attached.
#[test]
fn what_cannot_be_is_told() {
    if !own_namespace("what_cannot_be_is_told") {
        return;
    }
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let told = |backend, address: &str| {
        let there = UdpSocket::bind(address).unwrap();
        DataSocket::connect(&spec(Some(backend)), &EndSpec::default(), there.local_addr().unwrap(), PATIENCE)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let native = told(FrameBackend::Native, "127.0.0.1:0");
    assert!(native.contains("lo: the driver has no native XDP"), "{native}");
    assert!(!has_program("lo"));
    let taken = {
        let spec = spec(Some(FrameBackend::Generic));
        let mut there = DataSocket::bind(&spec, &EndSpec::default(), loopback).unwrap();
        let _here = DataSocket::connect(&spec, &EndSpec::default(), there.local_address().unwrap(), PATIENCE).unwrap();
        assert!(has_program("lo"));
        there.set_peer("127.0.0.1:9".parse().unwrap()).unwrap_err().to_string()
    };
    assert!(taken.contains("lo, queue 0: another AF_XDP socket has it"), "{taken}");

    let (mut here, _there) = ends_at(&spec(None), &EndSpec::default(), &EndSpec::default(), loopback);
    let outcome = with_path(&mut here, &options(Receive::Spin, &NEVER), Send(3775 + 300)).unwrap();
    assert_eq!(outcome, Err(PathError::TooLarge { bytes: 4075 }));

    ip(&["route", "add", "unreachable", "203.0.113.0/24"]);
    let nowhere = DataSocket::connect(&spec(None), &EndSpec::default(), "203.0.113.1:9".parse().unwrap(), PATIENCE);
    let nowhere = nowhere.map(|_| ()).unwrap_err();
    assert!(matches!(nowhere, NetError::Connect { .. } | NetError::Hop(_)), "{nowhere}");
}

/// Sends back whatever comes, until a message of one byte does.
struct UntilEnd;

impl windhover_net::PathVisitor for UntilEnd {
    type Output = ();

    fn visit<P: windhover_net::Path>(self, path: &mut P) {
        let mut buffer = [0; 4000];
        while let Ok(Received::Bytes(bytes)) = path.receive(&mut buffer)
            && bytes != 1
        {
            path.send(&buffer[..bytes], false).unwrap();
        }
    }
}

/// Sends one message of this many bytes.
struct Send(usize);

impl windhover_net::PathVisitor for Send {
    type Output = Result<(), PathError>;

    fn visit<P: windhover_net::Path>(self, path: &mut P) -> Self::Output {
        path.send(&vec![0; self.0], false)
    }
}
