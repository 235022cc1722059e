//! How connections begin (RFC 9293, sections 3.4, 3.5 and 3.10.7).

use crate::script::{Script, play};
use crate::sim::Link;
use crate::wire::{self, SYN, Tcp};
use crate::world::{CLIENT, SECOND, SERVER, config, drain, pair, socket, tcp_flags};
use stack::{Config, Disposition, Error, Event, Hop, Instant, PassedBy, Stack, TcpOptions};
use std::net::IpAddr;

fn options() -> TcpOptions {
    TcpOptions { timestamps: false, ..TcpOptions::default() }
}

#[test]
fn active_open() {
    play(
        options(),
        "connect
         > S 0 mss 1460 ws 3 sackok no ts
         state SynSent
         not writable
         < SA 0 ack 1 win 1000 mss 1000
         > A 1 ack 1
         state Established
         ready writable
         info send_mss 1000
         info send_window 1000",
    );
}

#[test]
fn passive_open() {
    play(
        options(),
        "listen
         < S 0 win 1000 mss 1400 ws 2 sackok
         > SA 0 ack 1 mss 1460 ws 3 sackok
         < A 1 ack 1 win 1000
         accept
         state Established
         info send_window 4000
         info send_mss 1400",
    );
}

/// RFC 9293, figure 7: both ends send a SYN at the same time.
#[test]
fn simultaneous_open() {
    for second in ["< SA 0 ack 1\n> A 1 ack 1", "< A 1 ack 1"] {
        let mut script = play(
            options(),
            "connect
             > S 0
             < S 0 mss 1000
             > SA 0 ack 1
             state SynReceived",
        );
        script.run(second);
        script.run("state Established\nready writable");
    }
}

/// RFC 9293, figure 8: a SYN of an earlier connection arrives, and the answer to it is refused.
#[test]
fn an_old_duplicate_syn_is_recovered_from() {
    play(
        options(),
        "listen
         < S 90
         > SA 0 ack 91
         # The other end knows nothing of 90 and resets.
         < R 91
         none
         < S 0
         > SA 0 ack 1
         < A 1 ack 1
         accept
         state Established",
    );
}

/// RFC 9293, section 3.5.2, and figure 9: a half-open connection is found by the answer to a SYN.
#[test]
fn a_half_open_connection_is_reset() {
    play(
        options(),
        "connect
         > S 0
         # The other end has the connection from before a crash of this one, and acknowledges something else.
         < A 300 ack 100
         > R 100
         state SynSent
         +1001ms
         > S 0
         < SA 0 ack 1
         > A 1 ack 1
         state Established",
    );
}

/// MUST-11: a reset of a connection that a listener made leads back to LISTEN, without the application's knowledge; one of
/// an active open is an error.
#[test]
fn a_reset_in_syn_received_depends_on_the_open() {
    let mut passive = play(
        options(),
        "listen
         < S 0
         > SA 0 ack 1
         < R 1",
    );
    assert_eq!(passive.stack.tcp_accept(passive.listener.unwrap()), Err(Error::WouldBlock));
    assert_eq!(passive.stack.tcp_connections().count(), 0);
    passive.run("< S 0\n> SA 0 ack 1");
    play(
        options(),
        "connect
         > S 0
         < S 0
         > SA 0 ack 1
         < R 1
         state Closed
         error ConnectionRefused",
    );
}

#[test]
fn a_refused_connection_is_told() {
    play(
        options(),
        "connect
         > S 0
         < RA 0 ack 1
         state Closed
         ready error
         ready hang_up
         ready readable
         ready writable
         error ConnectionRefused",
    );
    // A reset that acknowledges something else, or nothing, is none of it.
    play(
        options(),
        "connect
         > S 0
         < RA 0 ack 7
         < R 1
         state SynSent",
    );
}

/// A segment to a port that has a listener, but to no connection (RFC 9293, section 3.10.7.1 and 3.10.7.2).
#[test]
fn what_belongs_to_no_connection_is_reset() {
    play(
        options(),
        "listen
         < A 500 ack 77
         > R 77
         < SA 500 ack 77
         > R 77
         < R 500
         none
         < F 500
         none
         < - 500:600
         none",
    );
}

/// Other ports belong to the kernel, which answers for them.
#[test]
fn a_port_without_a_socket_is_passed_by() {
    let mut script = Script::new(options(), false);
    let frame = wire::tcp(&script.ends.reversed(), &Tcp { flags: SYN, ..Tcp::default() });
    assert_eq!(script.stack.handle_frame(script.now, &frame), Disposition::PassedBy(PassedBy::NoSocket));
    script.run("listen");
    assert_eq!(script.stack.handle_frame(script.now, &frame), Disposition::Taken);
}

/// MUST-8 and MUST-9: by the clock, and by what outsiders cannot compute.
#[test]
fn initial_sequence_numbers_follow_clock_and_secret() {
    let initial = |secret: u8, now: Instant, port: u16| {
        let mut stack = Stack::new(Config { secret: [secret; 16], ..config(CLIENT) });
        stack.set_hop(socket(SERVER, false, 1).ip(), Hop { mac: [2; 6], mtu: 1500, source: socket(0, false, 1).ip() });
        stack.tcp_connect(now, socket(CLIENT, false, port), socket(SERVER, false, 80), options()).unwrap();
        let frame = drain(&mut stack, now).remove(0);
        u32::from_be_bytes(frame[38..42].try_into().unwrap())
    };
    let first = initial(1, Instant(0), 4000);
    assert_eq!(initial(1, Instant(SECOND), 4000).wrapping_sub(first), 250_000, "one each 4 µs");
    assert_ne!(initial(1, Instant(0), 4001), first);
    assert_ne!(initial(2, Instant(0), 4000), first);
}

/// MUST-41 and MUST-42: a listener on the port of connections that exist or begin, which it does not touch.
#[test]
fn a_listener_may_share_its_port_with_connections() {
    let mut script = play(options(), "connect\n> S 0\nlisten");
    let frame = wire::tcp(
        &wire::Ends { from: socket(1, false, 7001), ..script.ends.reversed() },
        &Tcp { flags: SYN, window: 1000, ..Tcp::default() },
    );
    let _ = script.stack.handle_frame(script.now, &frame);
    let answers = drain(&mut script.stack, script.now);
    assert_eq!(answers.iter().map(|frame| tcp_flags(frame).unwrap()).collect::<Vec<_>>(), [0x12]);
    script.run("state SynSent\n< SA 0 ack 1\n> A 1 ack 1\ninfo state Established");
    let again = script.stack.tcp_listen(script.ends.from, false, 1, options());
    assert_eq!(again, Err(Error::AddressInUse));
}

/// MUST-43, MUST-44 and MUST-45.
#[test]
fn the_local_address_is_given_or_that_of_the_next_hop() {
    let other: IpAddr = "192.0.2.77".parse().unwrap();
    let mut config = config(CLIENT);
    config.addresses.push(other);
    let mut stack = Stack::new(config);
    let any = "0.0.0.0:4000".parse().unwrap();
    let to = socket(SERVER, false, 80);
    assert_eq!(stack.tcp_connect(Instant(0), any, to, options()), Err(Error::HostUnreachable));
    stack.set_hop(to.ip(), Hop { mac: [2; 6], mtu: 1500, source: other });
    let chosen = stack.tcp_connect(Instant(0), any, to, options()).unwrap();
    assert_eq!(stack.tcp_addresses(chosen).unwrap().0.ip(), other);
    let given = stack.tcp_connect(Instant(0), socket(CLIENT, false, 4001), to, options()).unwrap();
    assert_eq!(stack.tcp_addresses(given).unwrap().0, socket(CLIENT, false, 4001));
    for frame in drain(&mut stack, Instant(0)) {
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        assert_eq!(frame[29], if port == 4000 { 77 } else { 1 });
    }
    let foreign = stack.tcp_connect(Instant(0), "192.0.2.78:4000".parse().unwrap(), to, options());
    assert_eq!(foreign, Err(Error::AddressNotAvailable));
}

/// MUST-46.
#[test]
fn no_connection_to_multicast_or_broadcast() {
    let mut stack = Stack::new(config(CLIENT));
    for remote in ["224.0.0.1:80", "255.255.255.255:80", "0.0.0.0:80"] {
        let result = stack.tcp_connect(Instant(0), socket(CLIENT, false, 4000), remote.parse().unwrap(), options());
        assert_eq!(result, Err(Error::NetworkUnreachable), "{remote}");
    }
    let result = stack.tcp_connect(Instant(0), socket(CLIENT, true, 4000), "[ff02::1]:80".parse().unwrap(), options());
    assert_eq!(result, Err(Error::NetworkUnreachable));
}

/// MUST-57 and MUST-63.
#[test]
fn syns_from_or_to_impossible_addresses_are_ignored() {
    let mut script = Script::new(options(), false);
    script.run("listen");
    let syn = Tcp { flags: SYN, window: 1000, ..Tcp::default() };
    let ends = script.ends.reversed();
    for from in ["224.0.0.1:7000", "255.255.255.255:7000", "0.0.0.0:7000", "192.0.2.1:80"] {
        let frame = wire::tcp(&wire::Ends { from: from.parse().unwrap(), ..ends }, &syn);
        assert_ne!(script.stack.handle_frame(script.now, &frame), Disposition::Taken, "{from}");
    }
    for to in ["224.0.0.1:80", "255.255.255.255:80", "192.0.2.255:80"] {
        let frame = wire::tcp(&wire::Ends { to: to.parse().unwrap(), ..ends }, &syn);
        assert_eq!(script.stack.handle_frame(script.now, &frame), Disposition::PassedBy(PassedBy::NotForUs), "{to}");
    }
    script.run("none");
    assert_eq!(script.stack.tcp_connections().count(), 0);
}

/// A connection waits for its next hop, asks for it again with each attempt, and begins when it is given.
#[test]
fn a_connection_waits_for_its_next_hop() {
    let mut stack = Stack::new(config(CLIENT));
    let to = socket(SERVER, false, 80);
    let socket_ = stack.tcp_connect(Instant(0), socket(CLIENT, false, 4000), to, options()).unwrap();
    assert!(drain(&mut stack, Instant(0)).is_empty());
    assert_eq!(stack.poll_event(), Some(Event::NeighbourNeeded(to.ip())));
    assert_eq!(stack.poll_event(), None);
    stack.set_hop(to.ip(), Hop { mac: [2; 6], mtu: 1500, source: socket(CLIENT, false, 1).ip() });
    assert_eq!(drain(&mut stack, Instant(0)).len(), 1);
    stack.hop_failed(to.ip());
    assert_eq!(stack.tcp_take_error(socket_), Ok(Some(Error::HostUnreachable)));
}

/// A SYN-ACK that was lost is sent again, by time and when the SYN comes again.
#[test]
fn a_lost_answer_to_a_syn_is_sent_again() {
    play(
        options(),
        "listen
         < S 0
         > SA 0 ack 1
         +999ms
         none
         +2ms
         > SA 0 ack 1
         < S 0
         > SA 0 ack 1
         < A 1 ack 1
         accept
         state Established",
    );
}

/// Connections that are not accepted wait; the acknowledgment of one too many is dropped, and comes again.
#[test]
fn the_backlog_is_kept() {
    let mut network = pair(1, Link::default());
    let listener = network.stack(SERVER).tcp_listen(socket(SERVER, false, 80), false, 2, options()).unwrap();
    let mut clients = Vec::new();
    for port in 4000..4005 {
        let now = network.now;
        let from = socket(CLIENT, false, port);
        clients.push(network.stack(CLIENT).tcp_connect(now, from, socket(SERVER, false, 80), options()).unwrap());
    }
    network.run_for(SECOND / 2);
    let mut accepted = 0;
    while network.stack(SERVER).tcp_accept(listener).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, 3, "backlog and one more");
    assert!(network.stack(SERVER).counts().backlog_full > 0);
    // The other two are completed by what their ends send again.
    for _ in 0..100 {
        network.run_for(SECOND / 10);
        accepted += usize::from(network.stack(SERVER).tcp_accept(listener).is_ok());
    }
    assert_eq!(accepted, 5);
}
