//! Multipath TCP, and its silent fallback to TCP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use common::{NEVER, PATIENCE, end, ends, interrupted, loopback, options};
use model::{Protocol, Receive, SocketSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use windhover_net::{
    DataListener, DataSocket, Fallback, NetError, Received, TransactionClient, TransactionServer, bulk,
};

const NONE: Fallback = Fallback { asked: 0, fell_back: 0, unknown: 0 };

/// Whether this kernel has it; otherwise the test names itself as skipped.
fn has_mptcp(test: &str) -> bool {
    let enabled = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled.trim() == "1");
    if !enabled {
        eprintln!("SKIPPED {test}: this kernel has no MPTCP, or net.mptcp.enabled is 0");
    }
    enabled
}

#[test]
fn a_connection_is_what_was_asked_for() {
    if !has_mptcp("a_connection_is_what_was_asked_for") {
        return;
    }
    for (protocol, asked) in [(Protocol::Mptcp, 1), (Protocol::Tcp, 0)] {
        let (here, there) = ends(&SocketSpec::new(protocol), &end(Receive::Block), &end(Receive::Block), false);
        assert_eq!(Fallback::of([&here]), Fallback { asked, ..NONE });
        assert_eq!(there.protocol(), protocol);
        assert!(socket2::SockRef::from(&here).tcp_nodelay().unwrap());
        assert!(bulk::congestion(&here).is_some() && bulk::tcp_figures(&here).is_some());
    }
}

#[test]
fn a_peer_without_it_makes_it_tcp() {
    if !has_mptcp("a_peer_without_it_makes_it_tcp") {
        return;
    }
    let listener = std::net::TcpListener::bind(loopback(false)).unwrap();
    let connect = || {
        let spec = SocketSpec::new(Protocol::Mptcp);
        DataSocket::connect(&spec, &end(Receive::Block), listener.local_addr().unwrap(), PATIENCE).unwrap()
    };
    let sockets = [connect(), connect()];
    assert_eq!(Fallback::of(&sockets), Fallback { asked: 2, fell_back: 2, unknown: 0 });
}

#[test]
fn each_transaction_is_looked_at() {
    if !has_mptcp("each_transaction_is_looked_at") {
        return;
    }
    for (serves, fell_back) in [(Protocol::Mptcp, 0), (Protocol::Tcp, 20)] {
        let here = end(Receive::Block);
        let listener = DataListener::bind_for_transactions(&SocketSpec::new(serves), &here, loopback(false)).unwrap();
        let to = listener.local_address();
        let stop = AtomicBool::new(false);
        let serve = || {
            let options = options(Receive::Block, &stop);
            let mut server = TransactionServer::new(&listener, loopback(false).ip(), &options).unwrap();
            while server.serve(&mut [0; 5], b"answer").unwrap() != Received::Stopped {}
        };
        interrupted(serve, || {
            let spec = SocketSpec::new(Protocol::Mptcp);
            let mut client = TransactionClient::new(&spec, &here, to, &options(Receive::Block, &NEVER), 0).unwrap();
            for _ in 0..20 {
                assert_eq!(client.transact(b"hello", &mut [0; 6]).unwrap(), Received::Bytes(6));
            }
            assert_eq!(client.fallback, Fallback { asked: 20, fell_back, unknown: 0 }, "{serves}");
            stop.store(true, Ordering::Release);
        });
    }
}

#[test]
fn a_kernel_that_has_it_switched_off_is_refused_with_the_remedy() {
    let test = "a_kernel_that_has_it_switched_off_is_refused_with_the_remedy";
    if !has_mptcp(test) || !common::own_namespace(test) {
        return;
    }
    let set = std::process::Command::new("sysctl").args(["-qw", "net.mptcp.enabled=0"]).status();
    if !set.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {test}: MPTCP cannot be switched off");
        return;
    }
    let (spec, here) = (SocketSpec::new(Protocol::Mptcp), end(Receive::Block));
    for error in [
        DataListener::bind(&spec, &here, loopback(false)).unwrap_err(),
        DataSocket::connect(&spec, &here, loopback(false), PATIENCE).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, NetError::NotInKernel { .. }), "{text}");
        assert!(text.contains("sysctl net.mptcp.enabled=1") && !text.contains('\n'), "{text}");
    }
}
