//! Windows, small segments and acknowledgments (RFC 9293, sections 3.7.4 and 3.8.6; RFC 5681, section 4.2).

use crate::close::{established, options};
use crate::script::play;
use stack::{AckPolicy, TcpOptions};

/// MUST-1: a window with the highest bit set is a large one.
#[test]
fn a_window_above_32767_is_not_negative() {
    let mut script = play(
        options(),
        "connect
         > S 0
         < SA 0 ack 1 win 65535 mss 1400
         > A 1 ack 1
         info send_window 65535",
    );
    script.run_kept("send 60000");
    let mut sent = 0;
    while sent < 60_000 {
        let before = sent;
        script.settle(&mut sent);
        assert!(sent > before, "{sent} bytes were sent");
    }
}

/// MUST-17, and section 3.7.4: one small segment at a time, unless that is turned off.
#[test]
fn the_nagle_algorithm_can_be_turned_off() {
    established(options()).run(
        "send 10
         > PA 1:11 ack 1
         send 10
         none
         send 10
         none
         < A 1 ack 11
         > PA 11:31 ack 1
         send 1000
         > A 31:1031 ack 1",
    );
    established(TcpOptions { nodelay: true, ..options() }).run(
        "send 10
         > PA 1:11 ack 1
         send 10
         > PA 11:21 ack 1",
    );
}

#[test]
fn cork_and_more_hold_small_segments_back() {
    established(TcpOptions { cork: true, ..options() }).run(
        "send 10
         none
         send 1000
         > A 1:1001 ack 1
         < A 1 ack 1001
         +199ms
         none
         +2ms
         > PA 1001:1011 ack 1",
    );
    established(options()).run(
        "send 10 more
         none
         send 10
         > PA 1:21 ack 1",
    );
}

/// MUST-38, section 3.8.6.2.1: into a small window goes a segment that is not full only when it is half the largest, or when
/// the override time is over.
#[test]
fn the_sender_avoids_silly_windows() {
    let mut script = play(
        options(),
        "connect
         > S 0
         < SA 0 ack 1 win 2000 mss 1000
         > A 1 ack 1
         send 5000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         < A 1 ack 2001 win 999
         none
         < A 1 ack 2001 win 1000
         > A 2001:3001 ack 1
         < A 1 ack 3001 win 300
         none",
    );
    // The override: after a time-out the small window is used.
    script.run("+201ms\n> A 3001:3301 ack 1\n< A 1 ack 3301 win 0");
}

/// MUST-39, section 3.8.6.2.2: the window opens by a full segment or half of the buffer, not byte by byte.
#[test]
fn the_receiver_avoids_silly_windows() {
    let small = TcpOptions { receive_buffer: 4096, window_scale: false, ..options() };
    established(small).run(
        "< A 1:1001 ack 1
         < A 1001:2001 ack 1
         > A 1 ack 2001 win 2096
         < A 2001:3001 ack 1
         < A 3001:4001 ack 1
         > A 1 ack 4001 win 96
         recv 100
         none
         recv 800
         none
         recv 200
         > A 1 ack 4001 win 1196
         recv 2900
         > A 1 ack 4001 win 4096",
    );
}

/// A closed window opens again, MUST-66: meanwhile acknowledgments and resets are taken.
#[test]
fn a_closed_receive_window_still_takes_acknowledgments_and_resets() {
    let small = TcpOptions { receive_buffer: 2048, window_scale: false, ..options() };
    let mut script = established(small);
    script.run(
        "send 10
         > PA 1:11 ack 1
         < A 1:1025 ack 1
         < A 1025:2049 ack 1
         > A 11 ack 2049 win 0
         # A probe with a byte: dropped, answered, its acknowledgment taken.
         < A 2049:2050 ack 11
         > A 11 ack 2049 win 0
         info unacknowledged 0
         < UA 2049:2050 ack 11 urg 9
         > A 11 ack 2049 win 0
         ready urgent",
    );
    // One beyond it, of another end that counts the byte of its probe; but not two.
    script.run("send 10\n> PA 11:21 ack 2049 win 0\n< A 2051 ack 21\n> A 21 ack 2049 win 0\ninfo unacknowledged 10");
    script.run("< A 2050 ack 21\ninfo unacknowledged 0");
    script.run("recv 2048\n> A 21 ack 2049 win 2048\n< R 2049\nstate Closed");
    established(small).run(
        "< A 1:1025 ack 1
         < A 1025:2049 ack 1
         > A 1 ack 2049 win 0
         < R 2049
         state Closed",
    );
}

/// MUST-34: a window that shrinks leaves less than nothing to send, and what was lost is still sent again.
#[test]
fn a_shrinking_window_is_survived() {
    established(options()).run(
        "send 3000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > PA 2001:3001 ack 1
         < A 1 ack 1001 win 500
         send 1000
         none
         info unsent 1000
         < A 1 ack 1001 win 500 sack 2001:3001
         +1ms
         > A 1001:2001 ack 1
         +250ms
         # A probe, and a time-out.
         > A 1001:2001 ack 1
         > A 1001:2001 ack 1
         < A 1 ack 3001 win 5000
         > PA 3001:4001 ack 1",
    );
}

/// MUST-40 and section 3.8.6.3: an acknowledgment waits, but less than 0.5 s, and not behind a second full segment.
#[test]
fn acknowledgments_are_delayed_a_little() {
    established(options()).run(
        "< A 1:11 ack 1
         none
         +39ms
         none
         +2ms
         > A 1 ack 11
         < A 11:1011 ack 1
         none
         < A 1011:2011 ack 1
         > A 1 ack 2011
         # Data carry it.
         < A 2011:2021 ack 1
         send 5
         > PA 1:6 ack 2021
         +10ms
         < A 2021 ack 6",
    );
    let slow = AckPolicy { delay_ns: 500_000_000, quick_segments: 0 };
    let mut stack = stack::Stack::new(crate::world::config(0));
    let result = stack.tcp_listen(crate::world::socket(0, false, 80), false, 1, TcpOptions { ack: slow, ..options() });
    assert_eq!(result, Err(stack::Error::InvalidArgument));
}

/// At the start acknowledgments are sent at once, until answers carry them.
#[test]
fn acknowledgments_are_quick_until_answers_carry_them() {
    let quick = TcpOptions { ack: AckPolicy { quick_segments: 3, ..options().ack }, ..options() };
    established(quick).run(
        "< A 1:11 ack 1
         > A 1 ack 11
         < A 11:21 ack 1
         > A 1 ack 21
         < A 21:31 ack 1
         > A 1 ack 31
         < A 31:41 ack 1
         none
         send 5
         > PA 1:6 ack 41
         < A 41:51 ack 6
         none",
    );
}

/// MUST-58 and MUST-59: segments that wait are all processed before one acknowledgment is sent.
#[test]
fn acknowledgments_of_a_burst_are_one() {
    let mut script = established(options());
    let frames: Vec<Vec<u8>> =
        (0..6).map(|at| script.frame(&format!("< A {}:{} ack 1", 1 + at * 1000, 1001 + at * 1000))).collect();
    for frame in frames {
        let _ = script.stack.handle_frame(script.now, &frame);
    }
    script.run("recv 6000\n> A 1 ack 6001");
}

/// MUST-60 and MUST-61: data leave at once, and the last segment of what was given has PSH.
#[test]
fn the_last_segment_is_pushed() {
    established(options()).run(
        "send 2500
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > PA 2001:2501 ack 1",
    );
}

#[test]
fn data_out_of_order_are_kept_and_reported() {
    established(options()).run(
        "< A 1001:2001 ack 1
         > A 1 ack 1 sack 1001:2001
         < A 3001:4001 ack 1
         > A 1 ack 1 sack 3001:4001,1001:2001
         < A 1001:2001 ack 1
         # A duplicate is reported first (RFC 2883).
         > A 1 ack 1 sack 1001:2001,1001:2001,3001:4001
         recv none
         < A 1:1001 ack 1
         > A 1 ack 2001 sack 3001:4001
         recv 2000
         < A 2001:3001 ack 1
         > A 1 ack 4001 no sack
         recv 2000
         # All of it again, and one byte more.
         < A 1:4002 ack 1
         > A 1 ack 4002 sack 1:4001
         recv 1",
    );
}

/// A FIN that comes before the data is taken after them.
#[test]
fn a_fin_out_of_order_waits() {
    established(options()).run(
        "< FA 11:21 ack 1
         > A 1 ack 1 sack 11:21
         state Established
         < A 1:11 ack 1
         > A 1 ack 22
         state CloseWait
         recv 20
         recv end",
    );
}

/// MUST-30 to MUST-33 and MUST-62.
#[test]
fn urgent_data_are_told_and_stay_in_the_stream() {
    let mut script = established(options());
    script.run(
        "not urgent
         < UA 1:11 ack 1 urg 20
         ready urgent",
    );
    let left = |script: &crate::script::Script| script.stack.tcp_urgent(script.socket.unwrap()).unwrap();
    assert_eq!(left(&script), Some(20));
    script.run("recv 4\nready urgent");
    assert_eq!(left(&script), Some(16));
    // The pointer moves on, and never back.
    let edges = |script: &mut crate::script::Script| {
        let socket = script.socket.unwrap();
        script.stack.tcp_readiness(socket).unwrap().read_edges
    };
    let before = edges(&mut script);
    script.run("< UA 11 ack 1 urg 30");
    assert_eq!((left(&script), edges(&mut script)), (Some(36), before + 1));
    script.run("< UA 11 ack 1 urg 2");
    assert_eq!((left(&script), edges(&mut script)), (Some(36), before + 1));
    script.run("< A 11:61 ack 1\nrecv 56\nnot urgent");
    assert_eq!(left(&script), None);
    script.run("+50ms\n> A 1 ack 61");
    // The sender's pointer is that of the byte behind (MUST-62).
    script.run("send 10\n> PA 1:11 ack 61\nsend 10\nurgent\n< A 61 ack 11\n> UPA 11:21 ack 61 urg 10\n< A 61 ack 21");
    script.run("send 5\n> PA 21:26 ack 61");
}

#[test]
fn shutdown_for_reading_ends_reads_that_would_wait() {
    established(options()).run(
        "shutdown read
         recv end
         ready readable
         < A 1:11 ack 1
         recv 10
         recv end
         +50ms
         > A 1 ack 11",
    );
}

/// What was acknowledged is no edge where there was room before: not of a connection either that was asked while it was made.
#[test]
fn an_acknowledgment_is_no_edge_where_there_was_room() {
    let mut script =
        play(options(), "connect\n> S 0\nnot writable\n+10ms\n< SA 0 ack 1 win 5000 mss 1000\n> A 1 ack 1");
    script.run("ready writable\nsend 10\n> PA 1:11 ack 1");
    let socket = script.socket.unwrap();
    let before = script.stack.tcp_readiness(socket).unwrap().write_edges;
    script.run("< A 1 ack 11");
    assert_eq!(script.stack.tcp_readiness(socket).unwrap().write_edges, before);
}
