//! Hostile and plentiful peers: floods, many connections, memory.

use crate::sim::{Link, Network};
use crate::wire::{self, Ends, SYN, Tcp};
use crate::world::{CLIENT, MS, SECOND, SERVER, config, connect, drain, pair, socket};
use stack::{Config, Instant, Stack, TcpOptions, TcpState};
use std::net::{Ipv4Addr, SocketAddr};

fn small() -> TcpOptions {
    TcpOptions { send_buffer: 8192, receive_buffer: 8192, ..TcpOptions::default() }
}

/// The SYN number `at` of a flood from forged addresses.
fn forged(at: u32) -> Vec<u8> {
    let from = SocketAddr::new(Ipv4Addr::from(0x0a00_0000 + at).into(), 1024 + u16::try_from(at % 60_000).unwrap());
    let ends = Ends { macs: [[2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 2]], from, to: socket(SERVER, false, 80) };
    wire::tcp(&ends, &Tcp { sequence: at, flags: SYN, window: 1000, options: vec![2, 4, 5, 180], ..Tcp::default() })
}

/// A flood of SYNs fills what is half open and nothing more; who answers its cookie is served, with scale and SACK.
#[test]
fn a_syn_flood_is_survived() {
    let mut network = Network::new(1);
    network.add(config(CLIENT), Link::default());
    network.add(Config { max_half_open: 32, ..config(SERVER) }, Link::default());
    let listener = network.stack(SERVER).tcp_listen(socket(SERVER, false, 80), false, 8, small()).unwrap();
    let now = network.now;
    let mut answers = 0;
    for at in 0..5000 {
        let _ = network.stack(SERVER).handle_frame(now, &forged(at));
        answers += drain(network.stack(SERVER), now).len();
    }
    assert_eq!(answers, 5000, "each is answered");
    assert_eq!(network.stack(SERVER).tcp_connections().count(), 32);
    let counts = network.stack(SERVER).counts();
    assert_eq!((counts.cookies_sent, counts.cookies_accepted), (4968, 0));
    let client = network
        .stack(CLIENT)
        .tcp_connect(now, socket(CLIENT, false, 4000), socket(SERVER, false, 80), small())
        .unwrap();
    network.run_for(10 * MS);
    let server = network.stack(SERVER).tcp_accept(listener).unwrap();
    let info = network.stack(SERVER).tcp_info(server).unwrap();
    assert_eq!((info.state, info.sack, info.timestamps), (TcpState::Established, true, true));
    assert_eq!(network.stack(SERVER).counts().cookies_accepted, 1);
    let data = crate::world::pattern(100_000);
    let (arrived, _) = crate::world::transfer(&mut network, (CLIENT, client), (SERVER, server), &data, 60 * SECOND);
    assert!(arrived == data);
    // What was half open is given up, and its memory is free.
    network.run_for(400 * SECOND);
    assert_eq!(
        network.stack(SERVER).tcp_connections().filter(|(_, _, info)| info.state == TcpState::SynReceived).count(),
        0
    );
}

/// Acknowledgments that guess a cookie make no connection.
#[test]
fn forged_cookies_are_refused() {
    let mut stack = Stack::new(Config { max_half_open: 0, ..config(SERVER) });
    stack.tcp_listen(socket(SERVER, false, 80), false, 8, small()).unwrap();
    let _ = stack.handle_frame(Instant(SECOND), &forged(7));
    let ends = Ends {
        macs: [[2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 2]],
        from: socket(CLIENT, false, 9000),
        to: socket(SERVER, false, 80),
    };
    for guess in 0..1000_u32 {
        let acknowledgment = guess.wrapping_mul(4_294_967);
        let ack = Tcp { sequence: 1, acknowledgment, flags: wire::ACK, window: 1000, ..Tcp::default() };
        let _ = stack.handle_frame(Instant(SECOND), &wire::tcp(&ends, &ack));
        drain(&mut stack, Instant(SECOND));
    }
    assert_eq!(stack.tcp_connections().count(), 0);
    assert_eq!(stack.counts().resets_sent, 1000);
}

/// Replies that are not sent do not pile up.
#[test]
fn replies_and_questions_are_bounded() {
    let mut stack = Stack::new(Config { max_half_open: 0, ..config(SERVER) });
    stack.tcp_listen(socket(SERVER, false, 80), false, 8, small()).unwrap();
    for at in 0..10_000 {
        let _ = stack.handle_frame(Instant(0), &forged(at));
    }
    assert_eq!(drain(&mut stack, Instant(0)).len(), 64);
    assert_eq!(stack.counts().replies_dropped, 10_000 - 64);
    assert!(std::iter::from_fn(|| stack.poll_event()).count() <= 64);
}

#[test]
fn connections_are_bounded() {
    let mut stack = Stack::new(Config { max_connections: 10, max_half_open: 100, ..config(SERVER) });
    stack.tcp_listen(socket(SERVER, false, 80), false, 8, small()).unwrap();
    for at in 0..100 {
        let _ = stack.handle_frame(Instant(0), &forged(at));
    }
    assert_eq!(stack.tcp_connections().count(), 10);
    assert_eq!(stack.counts().connections_refused, 90);
}

/// Connections in TIME-WAIT are bounded, and the oldest goes first.
#[test]
fn time_wait_is_bounded() {
    let mut network = Network::new(1);
    network.add(Config { max_time_wait: 5, ..config(CLIENT) }, Link::default());
    network.add(config(SERVER), Link::default());
    let listener = network.stack(SERVER).tcp_listen(socket(SERVER, false, 80), false, 8, small()).unwrap();
    for port in 4000..4020 {
        let (now, from) = (network.now, socket(CLIENT, false, port));
        let client = network.stack(CLIENT).tcp_connect(now, from, socket(SERVER, false, 80), small()).unwrap();
        network.run_for(10 * MS);
        let server = network.stack(SERVER).tcp_accept(listener).unwrap();
        let now = network.now;
        network.stack(CLIENT).tcp_close(now, client).unwrap();
        network.run_for(10 * MS);
        let now = network.now;
        network.stack(SERVER).tcp_close(now, server).unwrap();
        network.run_for(10 * MS);
    }
    let waiting: Vec<u16> = network.stack(CLIENT).tcp_connections().map(|(local, _, _)| local.port()).collect();
    assert_eq!(waiting.len(), 5);
    assert!(waiting.iter().all(|port| *port >= 4015), "{waiting:?}");
    assert_eq!(network.stack(SERVER).tcp_connections().count(), 0);
}

/// Many connections, each with its own data, and none is left in the end.
#[test]
fn a_thousand_connections_keep_apart() {
    let mut network = pair(5, Link { lost: 0.01, ..Link::default() });
    let options = TcpOptions { time_wait_ns: MS, rto_min_ns: 5 * MS, rto_initial_ns: 20 * MS, ..small() };
    let listener = network.stack(SERVER).tcp_listen(socket(SERVER, false, 80), false, 2000, options).unwrap();
    let mut clients = Vec::new();
    for port in 4000..5000 {
        let (now, from) = (network.now, socket(CLIENT, false, port));
        clients.push(network.stack(CLIENT).tcp_connect(now, from, socket(SERVER, false, 80), options).unwrap());
    }
    network.run_for(2 * SECOND);
    for (port, client) in (4000_u16..).zip(&clients) {
        let sent = network.stack(CLIENT).tcp_send(*client, &port.to_be_bytes().repeat(500), false);
        assert_eq!(sent, Ok(1000), "{port}");
    }
    network.run_for(2 * SECOND);
    let mut served = 0;
    while let Ok(server) = network.stack(SERVER).tcp_accept(listener) {
        let port = network.stack(SERVER).tcp_addresses(server).unwrap().1.port();
        let (now, mut buffer) = (network.now, [0; 2000]);
        assert_eq!(network.stack(SERVER).tcp_receive(server, &mut buffer), Ok(1000), "{port}");
        assert_eq!(buffer[..1000], port.to_be_bytes().repeat(500));
        network.stack(SERVER).tcp_close(now, server).unwrap();
        served += 1;
    }
    assert_eq!(served, 1000);
    for client in clients {
        let now = network.now;
        network.stack(CLIENT).tcp_close(now, client).unwrap();
    }
    network.run_for(200 * SECOND);
    for number in [CLIENT, SERVER] {
        let left: Vec<_> = network.stack(number).tcp_connections().collect();
        assert!(left.is_empty(), "{number}: {left:?}");
    }
}

/// Events tell of each socket once, and readiness has counted what happened.
#[test]
fn events_and_edges() {
    let mut network = pair(1, Link::default());
    let (client, server, _) = connect(&mut network, false, TcpOptions { nodelay: true, ..small() });
    while network.stack(SERVER).poll_event().is_some() {}
    let before = network.stack(SERVER).tcp_readiness(server).unwrap();
    for _ in 0..3 {
        network.stack(CLIENT).tcp_send(client, b"x", false).unwrap();
        network.run_for(MS);
    }
    assert_eq!(network.stack(SERVER).poll_event(), Some(stack::Event::Tcp(server)));
    assert_eq!(network.stack(SERVER).poll_event(), None);
    let after = network.stack(SERVER).tcp_readiness(server).unwrap();
    assert_eq!((after.readable, after.read_edges), (true, before.read_edges + 3));
    // A full buffer, and room again.
    let big = vec![0; 100_000];
    let edges = network.stack(CLIENT).tcp_readiness(client).unwrap().write_edges;
    assert_eq!(network.stack(CLIENT).tcp_send(client, &big, false), Ok(8192));
    assert!(!network.stack(CLIENT).tcp_readiness(client).unwrap().writable);
    network.run_for(100 * MS);
    let readiness = network.stack(CLIENT).tcp_readiness(client).unwrap();
    assert_eq!((readiness.writable, readiness.write_edges), (true, edges + 1));
}
