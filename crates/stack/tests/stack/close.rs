//! How connections end (RFC 9293, sections 3.6 and 3.10.7.4; RFC 5961).

use crate::script::{Script, play};
use crate::sim::Link;
use crate::world::{CLIENT, SERVER, connect, pair};
use stack::{Error, TcpOptions, TcpState};

pub(crate) fn options() -> TcpOptions {
    let ack = stack::AckPolicy { quick_segments: 0, ..TcpOptions::default().ack };
    TcpOptions { timestamps: false, ack, ..TcpOptions::default() }
}

/// A connection that the script's other end has answered.
pub(crate) fn established(options: TcpOptions) -> Script {
    play(
        options,
        "connect
         > S 0
         < SA 0 ack 1 mss 1000 sackok
         > A 1 ack 1",
    )
}

/// RFC 9293, figure 12, and MUST-13.
#[test]
fn orderly_close_from_this_end_ends_in_time_wait() {
    established(options()).run(
        "shutdown
         > FA 1 ack 1
         state FinWait1
         < A 1 ack 2
         state FinWait2
         < A 1:11 ack 2
         recv 10
         < FA 11 ack 2
         > A 2 ack 12
         state TimeWait
         recv end
         # The FIN comes again: its acknowledgment was lost.
         +50s
         < FA 11 ack 2
         > A 2 ack 12
         +50s
         state TimeWait
         +11s
         state Closed",
    );
}

/// MUST-12: the application learns of an orderly end by its reads, of an abort by an error.
#[test]
fn orderly_close_from_the_other_end() {
    established(options()).run(
        "< FA 1:5 ack 1
         > A 1 ack 6
         state CloseWait
         ready read_closed
         not hang_up
         recv 4
         recv end
         send 10
         > PA 1:11 ack 6
         close
         > FA 11 ack 6
         state LastAck
         < A 6 ack 12
         gone",
    );
    established(options()).run(
        "< RA 1 ack 1
         state Closed
         ready error
         ready hang_up
         recv ConnectionReset
         recv end",
    );
}

/// RFC 9293, figure 13.
#[test]
fn both_ends_close_at_once() {
    established(options()).run(
        "shutdown
         > FA 1 ack 1
         < FA 1 ack 1
         > A 2 ack 2
         state Closing
         < A 2 ack 2
         state TimeWait
         +61s
         state Closed",
    );
}

#[test]
fn data_go_on_in_a_half_closed_connection() {
    established(options()).run(
        "send 10
         > PA 1:11 ack 1
         shutdown
         > FA 11 ack 1
         < A 1:1001 ack 12
         < A 1001:2001 ack 12
         > A 12 ack 2001
         recv 2000
         state FinWait2
         < FA 2001 ack 12
         > A 12 ack 2002
         recv end
         state TimeWait",
    );
}

#[test]
fn the_fin_waits_for_the_data_and_is_sent_again() {
    established(options()).run(
        "send 1500
         > A 1:1001 ack 1
         > PA 1001:1501 ack 1
         shutdown
         > FA 1501 ack 1
         < A 1 ack 1501
         +1s
         > FA 1501 ack 1
         > FA 1501 ack 1
         > FA 1501 ack 1
         < A 1 ack 1502
         state FinWait2",
    );
}

/// RFC 5961, section 3: only a reset with the number that is expected ends a connection; others in the window get a challenge.
#[test]
fn resets_are_believed_only_with_the_right_number() {
    established(options()).run(
        "< R 100
         > A 1 ack 1
         state Established
         < R 900000
         none
         state Established
         < R 1
         state Closed
         recv ConnectionReset",
    );
}

/// RFC 5961, section 4: a SYN in the window gets a challenge, and does not end the connection.
#[test]
fn a_syn_in_a_connection_is_challenged() {
    established(options()).run(
        "< S 1
         > A 1 ack 1
         < S 500
         > A 1 ack 1
         state Established",
    );
}

/// RFC 5961, section 5: acknowledgments of what was never sent, or very old ones, are challenged.
#[test]
fn acknowledgments_out_of_range_are_challenged() {
    established(options()).run(
        "send 10
         > PA 1:11 ack 1
         < A 1 ack 12
         > A 11 ack 1
         info unacknowledged 10
         < A 1:5 ack 4000000000
         > A 11 ack 1
         recv none",
    );
}

/// RFC 5961, section 7: no more challenges than the limit, and new ones in the next second.
#[test]
fn challenges_are_limited() {
    let mut script = established(options());
    for _ in 0..10 {
        script.run("< S 1\n> A 1 ack 1");
    }
    script.run("< S 1\nnone\n< R 50\nnone\n+1s\n< S 1\n> A 1 ack 1");
}

#[test]
fn abort_sends_a_reset() {
    established(options()).run(
        "send 10
         > PA 1:11 ack 1
         abort
         > RA 11 ack 1
         gone",
    );
}

/// RFC 9293, section 3.6.1: who closes and leaves data unread, or gets more of them, resets.
#[test]
fn close_with_unread_data_resets() {
    established(options()).run(
        "< A 1:11 ack 1
         close
         > RA 1 ack 11
         gone",
    );
    established(options()).run(
        "close
         > FA 1 ack 1
         < A 1 ack 2
         state FinWait2
         < A 1:11 ack 2
         > RA 2 ack 1
         gone",
    );
}

#[test]
fn an_orphan_does_not_wait_for_ever() {
    established(options()).run(
        "close
         > FA 1 ack 1
         < A 1 ack 2
         +59s
         state FinWait2
         +2s
         gone",
    );
}

/// A new SYN takes the place of a connection in TIME-WAIT (RFC 9293, section 3.6.1), with numbers behind the old ones.
#[test]
fn time_wait_gives_way_to_a_new_connection() {
    let mut script = play(
        options(),
        "listen
         < S 0
         > SA 0 ack 1
         < A 1 ack 1
         accept
         shutdown
         > FA 1 ack 1
         < FA 1 ack 2
         > A 2 ack 2
         recv end
         close
         state TimeWait
         # An old duplicate does not.
         < S 1
         > A 2 ack 2
         state TimeWait",
    );
    script.run(
        "< S 5000
         > SA 0 ack 5001
         < A 5001 ack 1
         accept
         state Established",
    );
}

#[test]
fn errors_come_once_and_the_pipe_stays_broken() {
    let mut network = pair(1, Link::default());
    let (client, server, _) = connect(&mut network, false, options());
    network.stack(CLIENT).tcp_abort(client).unwrap();
    network.run_for(1_000_000);
    let now = network.now;
    let stack = network.stack(SERVER);
    assert_eq!(stack.tcp_info(server).unwrap().state, TcpState::Closed);
    assert_eq!(stack.tcp_send(server, b"x", false), Err(Error::ConnectionReset));
    assert_eq!(stack.tcp_send(server, b"x", false), Err(Error::BrokenPipe));
    assert_eq!(stack.tcp_receive(server, &mut [0; 1]), Ok(0));
    stack.tcp_close(now, server).unwrap();
    assert_eq!(stack.tcp_close(now, server), Err(Error::BadHandle));
    assert_eq!(network.stack(CLIENT).tcp_info(client), Err(Error::BadHandle));
}

/// The segment that completes the handshake may carry data and the end.
#[test]
fn everything_in_few_segments() {
    play(
        options(),
        "listen
         < S 0
         > SA 0 ack 1
         < FA 1:11 ack 1
         > A 1 ack 12
         accept
         state CloseWait
         recv 10
         recv end
         send 5
         > PA 1:6 ack 12
         close
         > FA 6 ack 12
         < A 12 ack 7
         gone",
    );
}
