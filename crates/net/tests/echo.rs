//! ICMP echo over loopback, with ping sockets and raw ones.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use common::{NEVER, end, has_v6, interrupted, loopback, options};
use model::{Protocol, Receive, SocketSpec};
use std::sync::atomic::AtomicBool;
use windhover_net::icmp::{EchoSocket, Echoed, permitted};
use windhover_net::{NetError, PathError};

fn echo(test: &str, receive: Receive, v6: bool) -> Option<bool> {
    let spec = SocketSpec { ttl: Some(9), ..SocketSpec::new(Protocol::Icmp) };
    let opened = EchoSocket::open(loopback(v6), &spec, &end(receive), &options(receive, &NEVER), 2000);
    let mut socket = match opened {
        Err(NetError::PingNotPermitted) => {
            eprintln!("SKIPPED {test}: neither ping nor raw sockets are permitted");
            return None;
        }
        other => other.unwrap(),
    };
    for (sequence, bytes) in [(0, 0), (1, 32), (2, 33), (u16::MAX, 2000)] {
        socket.send(sequence, &vec![0xa5; bytes]).unwrap();
        let Echoed::Reply(reply) = socket.receive().unwrap() else { panic!("no reply") };
        assert_eq!((reply.sequence, reply.payload_bytes), (sequence, bytes));
        assert_eq!(reply.identifier, socket.identifier());
        // The answer has the far kernel's own TTL, not this one's.
        assert!(reply.ttl.is_some_and(|ttl| ttl >= 32), "{reply:?}");
    }
    assert_eq!(socket.send(0, &[0; 2001]), Err(PathError::TooLarge { bytes: 2001 }));
    Some(socket.is_raw())
}

#[test]
fn replies_come_back() {
    for receive in [Receive::Block, Receive::Spin, Receive::Poll] {
        if echo("replies_come_back", receive, false).is_none() {
            return;
        }
        if has_v6() {
            echo("replies_come_back", receive, true);
        }
    }
}

#[test]
fn both_kinds_of_socket_work() {
    if !common::own_namespace("both_kinds_of_socket_work") {
        return;
    }
    // A namespace begins with a range without any group.
    for (range, raw) in [("1 0", true), ("0 2147483647", false)] {
        let setting = format!("net.ipv4.ping_group_range={range}");
        let set = std::process::Command::new("sysctl").args(["-qw", &setting]).status();
        if !set.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED both_kinds_of_socket_work: net.ipv4.ping_group_range cannot be set");
            return;
        }
        for v6 in [false, true] {
            for receive in [Receive::Block, Receive::Spin] {
                if let Some(found) = echo("both_kinds_of_socket_work", receive, v6) {
                    assert_eq!(found, raw, "{range}");
                }
            }
        }
    }
}

#[test]
fn waits_end_by_signal_and_by_deadline() {
    if permitted(loopback(false).ip()).is_err() {
        eprintln!("SKIPPED waits_end_by_signal_and_by_deadline: neither ping nor raw sockets are permitted");
        return;
    }
    let spec = SocketSpec::new(Protocol::Icmp);
    let stop = AtomicBool::new(true);
    for receive in [Receive::Block, Receive::Poll] {
        for (flag, wanted) in [(&NEVER, Echoed::Interrupted), (&stop, Echoed::Stopped)] {
            let mut socket =
                EchoSocket::open(loopback(false), &spec, &end(receive), &options(receive, flag), 8).unwrap();
            assert_eq!(interrupted(|| socket.receive(), || {}), Ok(wanted));
        }
    }
    let mut quick = options(Receive::Spin, &NEVER);
    quick.timeout_ns = 1_000_000;
    let mut socket = EchoSocket::open(loopback(false), &spec, &end(Receive::Spin), &quick, 8).unwrap();
    assert_eq!(socket.receive(), Ok(Echoed::TimedOut));
}

#[test]
fn other_ways_to_wait_are_refused() {
    let spec = SocketSpec::new(Protocol::Icmp);
    let mode = Receive::Epoll;
    let result = EchoSocket::open(loopback(false), &spec, &end(mode), &options(mode, &NEVER), 8);
    assert!(matches!(result.err(), Some(NetError::Unsupported { .. })));
}
