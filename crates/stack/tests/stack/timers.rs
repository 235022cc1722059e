//! Keep-alive, zero-window probes, time-outs of the user and of connections (RFC 9293, sections 3.8.3, 3.8.4 and 3.8.6.1).

use crate::close::{established, options};
use crate::script::play;
use crate::world::{MS, SECOND};
use stack::{KeepAlive, TcpOptions};

/// MUST-36, SHLD-29 and SHLD-30: the first probe after the time-out, then ever more seldom; the window opens at last.
#[test]
fn a_closed_window_is_probed() {
    let mut script = play(options(), "connect\n> S 0\n+10ms\n< SA 0 ack 1 win 0 mss 1000\n> A 1 ack 1");
    script.run(
        "send 1500
         none
         +208ms
         none
         +3ms
         > A 1:2 ack 1
         < A 1 ack 1 win 0
         +418ms
         none
         +4ms
         > A 1:2 ack 1
         < A 1 ack 1 win 0
         +835ms
         none
         +6ms
         > A 1:2 ack 1
         < A 1 ack 1 win 5000
         > A 1:2 ack 1
         > A 2:1002 ack 1
         < A 1 ack 1002 win 5000
         > PA 1002:1501 ack 1",
    );
}

/// The byte of a probe was taken.
#[test]
fn a_probe_that_is_taken_moves_on() {
    let mut script = play(options(), "connect\n> S 0\n+10ms\n< SA 0 ack 1 win 0 mss 1000\n> A 1 ack 1");
    script.run(
        "send 1500
         +212ms
         > A 1:2 ack 1
         < A 1 ack 2 win 0
         +212ms
         > A 2:3 ack 1
         < A 1 ack 3 win 5000
         > A 3:1003 ack 1
         > PA 1003:1501 ack 1
         < A 1 ack 1501
         info timeouts 0",
    );
}

/// Both ends send, and one has a closed window: what the other acknowledges lies in the window all the same, or it would be dropped.
#[test]
fn acknowledgments_after_a_probe_lie_in_the_closed_window() {
    let mut script = play(options(), "connect\n> S 0\n+10ms\n< SA 0 ack 1 win 0 mss 1000\n> A 1 ack 1");
    script.run(
        "send 1500
         +212ms
         > A 1:2 ack 1
         < A 1:1001 ack 1 win 0
         < PA 1001:2001 ack 1 win 0
         > A 1 ack 2001
         < A 2001 ack 2 win 0
         < PA 2001:2011 ack 2 win 0
         +50ms
         > A 2 ack 2011",
    );
}

/// MUST-35 and MUST-37: as long as the other end answers, the connection stays open.
#[test]
fn a_closed_window_keeps_the_connection_open() {
    let patient = TcpOptions { user_timeout_ns: Some(10 * SECOND), rto_max_ns: SECOND, ..options() };
    let mut script = play(patient, "connect\n> S 0\n+10ms\n< SA 0 ack 1 win 0 mss 1000\n> A 1 ack 1\nsend 100");
    script.run("+212ms\n> A 1:2 ack 1\n< A 1 ack 1 win 0\n+422ms\n> A 1:2 ack 1\n< A 1 ack 1 win 0\n+842ms\n> A 1:2 ack 1\n< A 1 ack 1 win 0");
    for _ in 0..60 {
        script.run("+1001ms\n> A 1:2 ack 1\n< A 1 ack 1 win 0");
    }
    script.run("state Established");
    // Nobody answers any more.
    script.run_lossy("+12s");
    script.run("state Closed\nerror TimedOut");
}

/// A window that closes under data in flight: the time-out asks, and the connection stays while it is answered.
#[test]
fn a_window_that_closes_under_data_keeps_the_connection_open() {
    let patient = TcpOptions { user_timeout_ns: Some(5 * SECOND), rto_max_ns: SECOND, sack: false, ..options() };
    let mut script = established(patient);
    script.run("send 100\n> PA 1:101 ack 1\n< A 1 ack 1 win 0");
    for _ in 0..20 {
        script.run_lossy("+1001ms");
        script.run("< A 1 ack 1 win 0");
    }
    script.run("state Established");
    script.run_lossy("< A 1 ack 1 win 5000");
    script.run_lossy("+1001ms");
    script.run("< A 1 ack 101\ninfo in_flight_segments 0");
}

/// MUST-24 to MUST-28: off by default; then only in silence, and the other end's answers keep it quiet.
#[test]
fn keep_alive_is_off_by_default_and_asks_in_silence() {
    established(options()).run("+100000s\nnone\nstate Established");
    assert!(KeepAlive::default().idle_ns >= 7200 * SECOND);
    assert_eq!(TcpOptions::default().keep_alive, None);
    let keep = KeepAlive { idle_ns: 10 * SECOND, interval_ns: 2 * SECOND, count: 3 };
    let mut script = established(TcpOptions { keep_alive: Some(keep), ..options() });
    script.run(
        "+9s
         none
         < A 1:11 ack 1
         +50ms
         > A 1 ack 11
         +9900ms
         none
         +100ms
         # One number before the window.
         > A 0 ack 11
         < A 11 ack 1
         +9999ms
         none
         +2ms
         > A 0 ack 11
         # MUST-29: one probe without an answer does not end it.
         +2s
         > A 0 ack 11
         < A 11 ack 1
         +8s
         none
         state Established",
    );
    script.run(
        "+2001ms
         > A 0 ack 11
         +2001ms
         > A 0 ack 11
         +2001ms
         > A 0 ack 11
         state Established
         +2001ms
         > RA 1 ack 11
         state Closed
         error TimedOut",
    );
}

/// Data without acknowledgment ask the same.
#[test]
fn no_keep_alive_while_data_are_in_flight() {
    let keep = KeepAlive { idle_ns: SECOND, interval_ns: SECOND, count: 3 };
    let mut script =
        established(TcpOptions { keep_alive: Some(keep), rto_min_ns: 5 * SECOND, sack: false, ..options() });
    script.run("send 10\n> PA 1:11 ack 1\n+4s\nnone");
}

/// A probe of the other end is answered.
#[test]
fn keep_alives_of_the_other_end_are_answered() {
    established(options()).run("< A 0 ack 1\n> A 1 ack 1\n< A 0:1 ack 1\n> A 1 ack 1\nstate Established");
}

/// MUST-20 and MUST-21: the user time-out ends the connection; without one `give_up_ns` does.
#[test]
fn silence_ends_the_connection() {
    for options in [
        TcpOptions { user_timeout_ns: Some(3 * SECOND), ..options() },
        TcpOptions { give_up_ns: 3 * SECOND, ..options() },
    ] {
        let mut script = established(options);
        script.run("send 10\n> PA 1:11 ack 1");
        script.run_lossy("+2900ms");
        script.run("state Established");
        // The hop may be dead: it is asked for again (negative advice, R1).
        assert!(
            std::iter::from_fn(|| script.stack.poll_event())
                .any(|event| matches!(event, stack::Event::NeighbourNeeded(_)))
        );
        script.run_lossy("+200ms");
        script.run("state Closed\nerror TimedOut\nrecv end");
    }
}

/// MUST-22 and MUST-23: a SYN without answer is sent again in the same way, for at least three minutes.
#[test]
fn syns_are_sent_again_for_three_minutes() {
    let mut script = play(options(), "connect\n> S 0\n+1001ms\n> S 0\n+2001ms\n> S 0\n+4001ms\n> S 0\n+8001ms\n> S 0");
    script.run_lossy("+164s");
    script.run("state SynSent");
    script.run_lossy("+2s");
    script.run("state Closed\nerror TimedOut\nready hang_up");
    assert!(TcpOptions::default().connect_give_up_ns >= 180 * SECOND);
}

/// RFC 6298, section 5.7, and RFC 5681, section 3.1: after a lost SYN, 3 s and one segment.
#[test]
fn a_lost_syn_makes_the_start_careful() {
    play(
        TcpOptions { sack: false, ..options() },
        "connect
         > S 0
         +1001ms
         > S 0
         < SA 0 ack 1 mss 1000
         > A 1 ack 1
         info congestion_window 1000
         info retransmission_timeout_ns 3000000000
         send 100
         > PA 1:101 ack 1
         +2999ms
         none
         +2ms
         > PA 1:101 ack 1",
    );
}

/// A stack that has nothing to do has no timer; one with idle connections neither.
#[test]
fn idle_connections_have_no_timers() {
    let mut script = established(options());
    script.run("send 10\n> PA 1:11 ack 1\n< A 1 ack 11\n+10s");
    assert_eq!(script.stack.poll_timeout(), None);
    assert!(script.now.0 > 10 * MS);
}
