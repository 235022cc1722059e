//! A connection for each transaction, over loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use common::{NEVER, end, has_v6, interrupted, loopback, options};
use model::{Protocol, Receive, SocketSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use windhover_net::{DataListener, NetError, PathError, PathOptions, Received, TransactionClient, TransactionServer};

fn transactions(receive: Receive, v6: bool, count: u32) {
    let spec = SocketSpec::new(Protocol::Tcp);
    let here = end(receive);
    let listener = DataListener::bind_for_transactions(&spec, &end(receive), loopback(v6)).unwrap();
    let to = listener.local_address();
    let stop = AtomicBool::new(false);
    let serve = || {
        let mut server = TransactionServer::new(&listener, loopback(v6).ip(), &options(receive, &stop)).unwrap();
        let (mut request, response) = ([0; 5], [7; 3000]);
        let mut served = 0;
        loop {
            match server.serve(&mut request, &response).unwrap() {
                Received::Bytes(5) => served += 1,
                Received::Interrupted => {}
                _ => return (served, server.abandoned),
            }
        }
    };
    let (served, abandoned) = interrupted(serve, || {
        let mut client = TransactionClient::new(&spec, &here, to, &options(receive, &NEVER), 0).unwrap();
        let mut response = [0; 3000];
        for _ in 0..count {
            response.fill(0);
            assert_eq!(client.transact(b"hello", &mut response).unwrap(), Received::Bytes(3000));
            assert!(response.iter().all(|byte| *byte == 7));
        }
        // One that gives up in the middle must not end the server.
        let mut early = windhover_net::tcp::connect(to, None, None, common::PATIENCE).unwrap();
        std::io::Write::write_all(&mut early, b"he").unwrap();
        drop(early);
        assert_eq!(client.transact(b"hello", &mut response).unwrap(), Received::Bytes(3000));
        stop.store(true, Ordering::Release);
    });
    assert_eq!((served, abandoned), (count + 1, 1));
}

#[test]
fn each_has_its_own_connection() {
    for receive in [Receive::Block, Receive::Spin] {
        transactions(receive, false, 300);
        if has_v6() {
            transactions(receive, true, 50);
        }
    }
}

#[test]
fn ports_do_not_run_out() {
    if !common::own_namespace("ports_do_not_run_out") {
        return;
    }
    // Ten ports, two hundred connections within TIME_WAIT.
    let range = std::process::Command::new("sysctl").args(["-qw", "net.ipv4.ip_local_port_range=50000 50009"]).status();
    if !range.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED ports_do_not_run_out: the port range cannot be set");
        return;
    }
    transactions(Receive::Block, false, 200);
}

#[test]
fn a_server_that_is_gone_is_refused() {
    let spec = SocketSpec::new(Protocol::Tcp);
    let here = end(Receive::Block);
    let listener = DataListener::bind_for_transactions(&spec, &here, loopback(false)).unwrap();
    let to = listener.local_address();
    drop(listener);
    let mut client = TransactionClient::new(&spec, &here, to, &options(Receive::Block, &NEVER), 0).unwrap();
    assert_eq!(client.transact(b"x", &mut [0]), Err(PathError::Refused));
}

#[test]
fn other_ways_to_wait_are_refused() {
    let spec = SocketSpec::new(Protocol::Tcp);
    let here = end(Receive::Poll);
    let result = TransactionClient::new(&spec, &here, loopback(false), &options(Receive::Poll, &NEVER), 0);
    assert!(matches!(result.err(), Some(NetError::Unsupported { .. })));
}

/// Anybody at the client's address may connect. Who sends nothing, or half of it, does not hold up the client.
#[test]
fn silent_connections_do_not_hold_up_the_client() {
    let spec = SocketSpec::new(Protocol::Tcp);
    for receive in [Receive::Block, Receive::Spin] {
        let listener = DataListener::bind_for_transactions(&spec, &end(receive), loopback(false)).unwrap();
        let to = listener.local_address();
        let stop = AtomicBool::new(false);
        let serve = || {
            let mut server = TransactionServer::new(&listener, loopback(false).ip(), &options(receive, &stop)).unwrap();
            while server.serve(&mut [0; 5], b"answer").unwrap() != Received::Stopped {}
            server.abandoned
        };
        let mut results = Vec::new();
        // Before the server begins: these wait to be accepted.
        let connect = |_| windhover_net::tcp::connect(to, None, None, common::PATIENCE).unwrap();
        let mut silent: Vec<_> = (0..25).map(connect).collect();
        for half in silent.iter_mut().step_by(3) {
            std::io::Write::write_all(half, b"hel").unwrap();
        }
        let abandoned = interrupted(serve, || {
            // Spinning, a client gives up by itself.
            let here = end(Receive::Spin);
            let options = PathOptions { timeout_ns: 20_000_000_000, ..options(Receive::Spin, &NEVER) };
            let mut client = TransactionClient::new(&spec, &here, to, &options, 0).unwrap();
            results.extend((0..3).map(|_| client.transact(b"hello", &mut [0; 6])));
            stop.store(true, Ordering::Release);
        });
        assert!(results.iter().all(|result| *result == Ok(Received::Bytes(6))), "{receive}: {results:?}");
        assert_eq!(abandoned, 25, "{receive}");
    }
}

#[test]
fn strangers_are_not_served() {
    let spec = SocketSpec::new(Protocol::Tcp);
    let listener = DataListener::bind_for_transactions(&spec, &end(Receive::Block), loopback(false)).unwrap();
    let to = listener.local_address();
    let stop = AtomicBool::new(false);
    let serve = || {
        let client = "127.0.0.9".parse().unwrap();
        let mut server = TransactionServer::new(&listener, client, &options(Receive::Block, &stop)).unwrap();
        loop {
            match server.serve(&mut [0], &[0]).unwrap() {
                Received::Interrupted => {}
                last => return (last, server.foreign),
            }
        }
    };
    let (last, foreign) = interrupted(serve, || {
        let here = end(Receive::Block);
        let mut client = TransactionClient::new(&spec, &here, to, &options(Receive::Block, &NEVER), 0).unwrap();
        assert_eq!(client.transact(b"x", &mut [0]), Err(PathError::Closed));
        stop.store(true, Ordering::Release);
    });
    assert_eq!((last, foreign), (Received::Stopped, 1));
}
