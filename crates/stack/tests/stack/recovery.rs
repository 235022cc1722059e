//! Losses: SACK (RFC 2018, 2883, 6675), RACK and tail loss probes (RFC 8985), recovery without SACK (RFC 6582), congestion
//! control (RFC 5681), the retransmission time-out (RFC 6298).

use crate::close::options;
use crate::script::{Script, play};
use crate::world::MS;
use stack::TcpOptions;

/// A connection with a round trip of 10 ms.
pub(crate) fn connected(options: TcpOptions, sack: bool) -> Script {
    let mut script = play(options, "connect\n> S 0\n+10ms");
    script.run(if sack { "< SA 0 ack 1 mss 1000 sackok\n> A 1 ack 1" } else { "< SA 0 ack 1 mss 1000\n> A 1 ack 1" });
    script
}

/// 5000 bytes in five segments, and the 10 ms that they take.
pub(crate) const FIVE: &str = "send 5000
     > A 1:1001 ack 1
     > A 1001:2001 ack 1
     > A 2001:3001 ack 1
     > A 3001:4001 ack 1
     > PA 4001:5001 ack 1
     +10ms";

#[test]
fn three_segments_behind_a_gap_bring_the_lost_one_again() {
    let mut script = connected(options(), true);
    script.run(FIVE);
    script.run(
        "< A 1 ack 1 sack 1001:2001
         none
         < A 1 ack 1 sack 1001:3001
         none
         < A 1 ack 1 sack 1001:4001
         > A 1:1001 ack 1
         < A 1 ack 1 sack 1001:5001
         none
         info sacked_segments 4
         +10ms
         < A 1 ack 5001
         info in_flight_segments 0
         info retransmits 1
         info timeouts 0",
    );
}

/// Two segments are lost, and one of them again: the second retransmission needs no time-out (RFC 8985).
#[test]
fn a_lost_retransmission_is_found_by_later_segments() {
    let mut script = connected(options(), true);
    script.run(FIVE);
    script.run(
        "< A 1 ack 1 sack 2001:5001
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         +10ms
         # The second one arrived, the first was lost again.
         < A 1 ack 1 sack 1001:5001
         > A 1:1001 ack 1
         +10ms
         < A 1 ack 5001
         info timeouts 0",
    );
}

/// What is only reordered is not sent again, when there was reordering before (RFC 8985, section 6.2).
#[test]
fn reordering_is_given_time() {
    let mut script = connected(options(), true);
    script.run(FIVE);
    // The first one arrives late, and shows that there is reordering.
    script.run(
        "< A 1 ack 1 sack 1001:3001
         < A 1 ack 5001
         none",
    );
    script.run(
        "send 5000
         > A 5001:6001 ack 1
         > A 6001:7001 ack 1
         > A 7001:8001 ack 1
         > A 8001:9001 ack 1
         > PA 9001:10001 ack 1
         +10ms
         < A 1 ack 5001 sack 6001:10001
         none
         +1ms
         < A 1 ack 10001
         none
         info retransmits 0",
    );
}

#[test]
fn without_sack_three_duplicates_bring_the_lost_one_again() {
    let mut script = connected(options(), false);
    script.run(FIVE);
    script.run(
        "< A 1 ack 1
         < A 1 ack 1
         none
         < A 1 ack 1
         > A 1:1001 ack 1
         +10ms
         # A partial acknowledgment: the third was lost too (RFC 6582).
         < A 1 ack 2001
         > A 2001:3001 ack 1
         +10ms
         < A 1 ack 5001
         info in_flight_segments 0
         info timeouts 0",
    );
    // A segment with data, or another window, is no duplicate.
    let mut script = connected(options(), false);
    script.run(FIVE);
    script.run(
        "< A 1:2 ack 1
         < A 2:3 ack 1
         < A 3 ack 1 win 5000
         < A 3 ack 1 win 5001
         < A 3 ack 1 win 5002
         recv 2
         none",
    );
}

/// The last segment is lost: a probe of it comes after two round trips and what acknowledgments may be late, long before the
/// time-out.
#[test]
fn a_lost_tail_is_probed() {
    let mut script = connected(options(), true);
    script.run(
        "send 3000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > PA 2001:3001 ack 1
         +10ms
         < A 1 ack 2001
         none
         +60ms
         none
         +12ms
         > PA 2001:3001 ack 1
         +10ms
         < A 1 ack 3001
         info timeouts 0
         info retransmits 1",
    );
    // More than one segment is in flight: the last one goes again, and its acknowledgment shows the others lost.
    let mut script = connected(options(), true);
    script.run(
        "send 3000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > PA 2001:3001 ack 1
         +21ms
         none
         +3ms
         > PA 2001:3001 ack 1
         +10ms
         < A 1 ack 1 sack 2001:3001
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         +10ms
         < A 1 ack 3001
         info timeouts 0",
    );
}

/// RFC 6298, section 5: the time-out doubles, and ends at its ceiling; a new measurement ends the doubling.
#[test]
fn the_timeout_backs_off() {
    let slow = TcpOptions { sack: false, rto_max_ns: 1000 * MS, ..options() };
    let mut script = connected(slow, false);
    // SRTT 10 ms and the floor.
    script.run(
        "send 100
         > PA 1:101 ack 1
         +209ms
         none
         +2ms
         > PA 1:101 ack 1
         +418ms
         none
         +3ms
         > PA 1:101 ack 1
         +838ms
         none
         +3ms
         > PA 1:101 ack 1
         +996ms
         none
         +4ms
         > PA 1:101 ack 1
         info backoff 4
         < A 1 ack 101
         info backoff 0
         send 100
         > PA 101:201 ack 1
         +212ms
         > PA 101:201 ack 1",
    );
}

/// MUST-18: what was sent more than once is not measured (Karn's algorithm).
#[test]
fn retransmissions_are_not_measured() {
    let mut script = connected(TcpOptions { sack: false, ..options() }, false);
    script.run(
        "info round_trip_ns 10000000
         send 100
         > PA 1:101 ack 1
         +212ms
         > PA 1:101 ack 1
         +100ms
         < A 1 ack 101
         info round_trip_ns 10000000
         send 100
         > PA 101:201 ack 1
         +18ms
         < A 1 ack 201
         info round_trip_ns 11000000",
    );
}

/// MUST-19: slow start, the window after a time-out, congestion avoidance (RFC 5681).
#[test]
fn congestion_control_follows_rfc_5681() {
    let mut script = connected(TcpOptions { sack: false, ..options() }, false);
    // The initial window is ten segments (RFC 6928).
    script.run("info congestion_window 10000");
    let ten: String = (0..10).map(|at| format!("> A {}:{} ack 1\n", 1 + at * 1000, 1001 + at * 1000)).collect();
    script.run(&format!("send 60000\n{ten}none"));
    // Each acknowledged segment lets two go.
    script
        .run("+10ms\n< A 1 ack 1001\n> A 10001:11001 ack 1\n> A 11001:12001 ack 1\nnone\ninfo congestion_window 11000");
    // Nothing more is acknowledged: one segment, and a threshold of half of what was in flight.
    script.run("+300ms\n> A 1001:2001 ack 1\ninfo congestion_window 1000\ninfo slow_start_threshold 5500");
    // It is acknowledged: slow start again.
    script.run("< A 1 ack 2001\n> A 2001:3001 ack 1\n> A 3001:4001 ack 1\nnone\ninfo congestion_window 2000");
}

/// A window of which nothing was lost and that was not used does not stay: it begins anew after a pause.
#[test]
fn a_pause_restarts_the_window() {
    let mut script = connected(options(), true);
    let mut sent = 0;
    script.run_open("send 60000", &mut sent);
    let wide = script.stack.tcp_info(script.socket.unwrap()).unwrap().congestion_window;
    assert!(wide > 20_000, "{wide}");
    script.run("+2s\nsend 100\n> PA 60001:60101 ack 1\ninfo congestion_window 10000");
}

/// The other end had the segment and was slow to say so: a duplicate is reported, and the next time-out is longer.
#[test]
fn patience_grows_with_needless_retransmissions() {
    let quick = TcpOptions { rto_min_ns: 5 * MS, ..options() };
    let mut script = connected(quick, true);
    script.run(
        "send 100
         > PA 1:101 ack 1
         # Two round trips and 5 ms.
         +26ms
         > PA 1:101 ack 1
         < A 1 ack 101 sack 1:101
         send 100
         > PA 101:201 ack 1
         +26ms
         none
         +5ms
         > PA 101:201 ack 1",
    );
}

/// RFC 2018, section 8: an end that acknowledged selectively may drop it again; the time-out sends all of it.
#[test]
fn renounced_data_are_sent_again() {
    let mut script = connected(options(), true);
    script.run(FIVE);
    script.run(
        "< A 1 ack 1 sack 1001:5001
         > A 1:1001 ack 1
         +10ms
         # Only the first one is there now; what was behind it is gone.
         < A 1 ack 1001
         none
         +500ms
         > A 1001:2001 ack 1
         < A 1 ack 2001
         > A 2001:3001 ack 1
         > A 3001:4001 ack 1
         < A 1 ack 4001
         > PA 4001:5001 ack 1",
    );
}

/// With time stamps a lost SYN costs no measurement: the echo tells which one was answered.
#[test]
fn time_stamps_measure_a_handshake_with_a_lost_syn() {
    let stamped = TcpOptions { timestamps: true, ..options() };
    play(
        stamped,
        "connect
         > S 0
         +1001ms
         > S 0
         +20ms
         < SA 0 ack 1 mss 1000 sackok ts 7 0
         > A 1 ack 1
         info congestion_window 988
         info round_trip_ns 21000000
         info retransmission_timeout_ns 221000000",
    );
}

/// Four segments, of which only the second one arrives; the window is halved to two segments, two may be in flight.
const FOUR: &str = "send 4000
     > A 1:1001 ack 1
     > A 1001:2001 ack 1
     > A 2001:3001 ack 1
     > PA 3001:4001 ack 1
     +10ms
     < A 1 ack 1 sack 1001:2001
     none
     +3ms
     > A 1:1001 ack 1";

/// RFC 6675, section 5, step 4.3: the first retransmission is not held back, although all that was sent after the lost
/// segment may be in flight. And a probe shows what else is lost, also while recovery goes on.
#[test]
fn the_first_retransmission_is_not_held_back() {
    let mut script = connected(options(), true);
    script.run(FOUR);
    script.run(
        "# It is lost, too, and so are the others: a probe finds them.
         +23ms
         > PA 3001:4001 ack 1
         +10ms
         < A 1 ack 1 sack 1001:2001,3001:4001
         > A 1:1001 ack 1
         > A 2001:3001 ack 1
         +10ms
         < A 1 ack 4001
         info timeouts 0",
    );
}

/// RFC 8985, section 6.2, step 5: what was sent before a retransmission that arrived is lost, also where nothing was acknowledged
/// selectively behind it.
#[test]
fn an_acknowledged_retransmission_shows_what_else_is_lost() {
    let mut script = connected(options(), true);
    script.run(FOUR);
    script.run(
        "+10ms
         < A 1 ack 2001
         > A 2001:3001 ack 1
         > PA 3001:4001 ack 1
         +10ms
         < A 1 ack 4001
         info timeouts 0
         info retransmits 3",
    );
}
