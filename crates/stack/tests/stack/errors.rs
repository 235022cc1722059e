//! ICMP messages (RFC 9293, section 3.9.2.2; RFC 5927), path MTU (RFC 1191, RFC 8201), and marks of IP.

use crate::close::{established, options};
use crate::script::{Script, play};
use crate::world::{SERVER, config, drain, socket};
use stack::{Error, Hop, Instant, Stack, TcpOptions};

/// MUST-54 and SHLD-26: a hard error ends a connection that is being made.
#[test]
fn a_hard_error_ends_a_connection_that_begins() {
    play(options(), "connect\n> S 0\nicmp 3 3 0\nstate Closed\nerror ConnectionRefused");
    let mut v6 = Script::new(options(), true);
    v6.run("connect\n> S 0\nicmp 1 4 0\nstate Closed\nerror ConnectionRefused");
    // In an established one anybody might have sent it (RFC 5927, section 5.2).
    established(options()).run("send 10\n> PA 1:11 ack 1\nicmp 3 3 0\nstate Established");
}

/// MUST-56: soft errors end nothing, and are reported in the end.
#[test]
fn soft_errors_are_told_when_the_time_is_over() {
    for (code, error) in [(0, "NetworkUnreachable"), (1, "HostUnreachable"), (5, "HostUnreachable")] {
        let quick = TcpOptions { user_timeout_ns: Some(2_000_000_000), ..options() };
        let mut script = play(quick, &format!("connect\n> S 0\nicmp 3 {code} 0\nstate SynSent"));
        script.run_lossy("+3s");
        script.run(&format!("state Closed\nerror {error}"));
    }
    for (kind, code) in [(11, 0), (11, 1), (12, 0)] {
        play(options(), &format!("connect\n> S 0\nicmp {kind} {code} 0\nstate SynSent"));
    }
}

/// MUST-55.
#[test]
fn source_quench_is_ignored() {
    let mut script = established(options());
    let info = script.stack.tcp_info(script.socket.unwrap());
    script.run("send 10\n> PA 1:11 ack 1\nicmp 4 0 0\nstate Established\n< A 1 ack 11");
    let after = script.stack.tcp_info(script.socket.unwrap());
    assert_eq!(after.unwrap().congestion_window, info.unwrap().congestion_window);
    assert_eq!(script.stack.counts().icmp_taken, 0);
}

/// The path became narrower: what was too long goes again in shorter segments, without loss of speed.
#[test]
fn segments_follow_the_path_mtu() {
    let mut script = play(options(), "connect\n> S 0\n< SA 0 ack 1 mss 1460 sackok\n> A 1 ack 1");
    script.run(
        "send 2000
         > A 1:1461 ack 1
         > PA 1461:2001 ack 1
         icmp 3 4 1000
         > A 1:961 ack 1
         > A 961:1461 ack 1
         > PA 1461:2001 ack 1
         info send_mss 960
         info path_mtu 1000
         info congestion_window 14600
         < A 1 ack 2001",
    );
    assert_eq!(script.stack.hop(script.ends.to.ip()).unwrap().mtu, 1000);
    // Routers that tell no MTU, and attackers that tell a tiny one.
    script.run("send 500\n> PA 2001:2501 ack 1\nicmp 3 4 0\ninfo path_mtu 552\n> PA 2001:2501 ack 1\n< A 1 ack 2501");
    let mut v6 = Script::new(options(), true);
    v6.run("connect\n> S 0\n< SA 0 ack 1 mss 1440 sackok\n> A 1 ack 1\nsend 1300\n> PA 1:1301 ack 1");
    v6.run("icmp 2 0 40\n> A 1:1221 ack 1\n> PA 1221:1301 ack 1\ninfo path_mtu 1280");
}

/// RFC 5927, section 4.1: a message about a number that is not in flight changes nothing.
#[test]
fn icmp_about_other_numbers_is_ignored() {
    let mut script = established(options());
    script.run(
        "send 10\n> PA 1:11 ack 1\n< A 1 ack 11\nicmp 3 4 1000\ninfo path_mtu 1500\nicmp 3 1 0\nstate Established",
    );
    assert_eq!(script.stack.counts().icmp_taken, 0);
}

/// MUST-48 and MUST-49.
#[test]
fn type_of_service_and_time_to_live_can_be_set() {
    for v6 in [false, true] {
        let mut stack = Stack::new(config(0));
        let to = socket(SERVER, v6, 80);
        stack.set_hop(to.ip(), Hop { mac: [2; 6], mtu: 1500, source: socket(0, v6, 1).ip() });
        let marked = TcpOptions { tos: 0xb8, ttl: 3, ..options() };
        let connection = stack.tcp_connect(Instant(0), socket(0, v6, 4000), to, marked).unwrap();
        let marks = |frame: &[u8]| {
            if v6 { (frame[14] << 4 | frame[15] >> 4, frame[21]) } else { (frame[15], frame[22]) }
        };
        assert_eq!(marks(&drain(&mut stack, Instant(0))[0]), (0xb8, 3));
        let other = TcpOptions { tos: 0x10, ttl: 9, ..marked };
        stack.tcp_set_options(Instant(0), connection, other).unwrap();
        let late = Instant(2_000_000_000);
        stack.handle_timeout(late);
        assert_eq!(marks(&drain(&mut stack, late)[0]), (0x10, 9));
    }
}

/// MUST-47: what goes wrong is reported by readiness, an event and an error.
#[test]
fn asynchronous_errors_are_told() {
    let mut script = established(options());
    while script.stack.poll_event().is_some() {}
    script.run("< R 1\nready error\nready hang_up");
    let socket = script.socket.unwrap();
    assert_eq!(script.stack.poll_event(), Some(stack::Event::Tcp(socket)));
    assert_eq!(script.stack.tcp_take_error(socket), Ok(Some(Error::ConnectionReset)));
    assert_eq!(script.stack.tcp_take_error(socket), Ok(None));
}

#[test]
fn each_error_has_its_own_errno() {
    let all = [
        Error::WouldBlock,
        Error::BadHandle,
        Error::InvalidArgument,
        Error::IsConnected,
        Error::NotConnected,
        Error::DestinationRequired,
        Error::AddressInUse,
        Error::AddressNotAvailable,
        Error::FamilyMismatch,
        Error::NetworkUnreachable,
        Error::HostUnreachable,
        Error::ConnectionRefused,
        Error::ConnectionReset,
        Error::ConnectionAborted,
        Error::TimedOut,
        Error::BrokenPipe,
        Error::MessageTooLong,
        Error::NoBuffers,
    ];
    let numbers: std::collections::HashSet<i32> = all.iter().map(|error| error.errno()).collect();
    assert_eq!(numbers.len(), all.len());
}
