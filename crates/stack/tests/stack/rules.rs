//! Rules of RFC 9293, section 3.10.7, and of the RFCs 2018, 5681, 6298, 7323 and 8985 that no other test looks at. The second table
//! in `docs/stack.md` has all of them.

use crate::close::{established, options};
use crate::recovery::{FIVE, connected};
use crate::script::play;
use crate::world::MS;
use stack::TcpOptions;

/// Three segments, and a probe 23 ms later.
const PROBED: &str = "send 3000
     > A 1:1001 ack 1
     > A 1001:2001 ack 1
     > PA 2001:3001 ack 1
     +23ms
     > PA 2001:3001 ack 1";

/// RFC 9293, section 3.10.7.4, first check: the four cases of what may be taken.
#[test]
fn only_what_lies_in_the_window_is_taken() {
    let small = TcpOptions { receive_buffer: 2048, window_scale: false, ..options() };
    established(small).run(
        "# All of it was there before.
         < A 1:11 ack 1
         recv 10
         < A 1:11 ack 1
         > A 1 ack 11 sack 1:11
         recv none
         # All of it lies behind the window.
         < A 5000:5010 ack 1
         > A 1 ack 11
         recv none
         # Without data it is answered, too.
         < A 5000 ack 1
         > A 1 ack 11
         # It begins before the window, and goes on into it.
         < A 5:21 ack 1
         > A 1 ack 21
         recv 10
         # It ends behind the window: what fits is taken.
         < A 21:3021 ack 1
         > A 1 ack 2049 win 0
         recv 2028
         > A 1 ack 2049 win 2048",
    );
}

/// The fifth check: what acknowledges nothing is dropped, and an old acknowledgment changes nothing.
#[test]
fn a_segment_without_an_acknowledgment_is_dropped() {
    established(options()).run(
        "< P 1:11
         none
         recv none
         send 10
         > PA 1:11 ack 1
         < A 1 ack 11
         < A 1 ack 1 win 1
         info unacknowledged 0
         info send_window 65535",
    );
}

/// RFC 5681, section 3.2, and RFC 6675: however much of one flight is lost, the window is halved once.
#[test]
fn a_recovery_halves_the_window_once() {
    let mut script = connected(options(), true);
    script.run(FIVE);
    script.run(
        "info congestion_window 10000
         # The first and the third are lost.
         < A 1 ack 1 sack 1001:2001,3001:5001
         > A 1:1001 ack 1
         info congestion_window 2500
         info slow_start_threshold 2500
         +10ms
         < A 1 ack 2001 sack 3001:5001
         > A 2001:3001 ack 1
         info congestion_window 2500
         +10ms
         < A 1 ack 5001
         info congestion_window 2500
         info timeouts 0",
    );
}

/// The same without SACK, by RFC 6582.
#[test]
fn three_duplicates_halve_the_window_once() {
    let mut script = connected(options(), false);
    script.run(FIVE);
    script.run(
        "< A 1 ack 1
         < A 1 ack 1
         info congestion_window 10000
         < A 1 ack 1
         > A 1:1001 ack 1
         info congestion_window 2500
         < A 1 ack 1
         +10ms
         < A 1 ack 2001
         > A 2001:3001 ack 1
         info congestion_window 2500
         +10ms
         < A 1 ack 5001
         info congestion_window 2500",
    );
}

/// RFC 6298, section 5.2 and 5.3: an acknowledgment of new data sets the timer anew, that of all data stops it, and one of
/// nothing new leaves it alone.
#[test]
fn the_timer_begins_anew_with_acknowledgments_of_new_data() {
    let mut script = connected(options(), false);
    script.run(
        "send 2000
         > A 1:1001 ack 1
         > PA 1001:2001 ack 1
         +150ms
         < A 1 ack 1001
         # The time-out of the first would be over.
         +150ms
         none
         < A 1 ack 1001
         +150ms
         > A 1001:2001 ack 1
         < A 1 ack 2001
         +10s
         none",
    );
    assert_eq!(script.stack.poll_timeout(), None);
}

/// RFC 2018, section 2 and 3: blocks are sent only where the other end offered SACK, and the offer is in SYNs only.
#[test]
fn sack_is_used_only_where_both_ends_offer_it() {
    play(
        options(),
        "connect
         > S 0 sackok
         < SA 0 ack 1 mss 1000
         > A 1 ack 1 no sackok
         < A 1001:2001 ack 1
         > A 1 ack 1 no sack",
    );
    play(
        TcpOptions { sack: false, ..options() },
        "connect
         > S 0 no sackok
         < SA 0 ack 1 mss 1000 sackok
         > A 1 ack 1
         < A 1001:2001 ack 1
         > A 1 ack 1 no sack",
    );
    established(options()).run("send 10\n> PA 1:11 ack 1 no sackok");
}

/// RFC 2018, section 3: four blocks fit, three beside time stamps, and the newest ones are sent.
#[test]
fn as_many_blocks_are_sent_as_fit() {
    let gaps = |stamps: bool| {
        let of = |at: u32| if stamps { format!(" ts {} 0", 100 + at) } else { String::new() };
        (1..6).map(|at| format!("< A {}:{} ack 1{}\n", at * 2000, at * 2000 + 10, of(at))).collect::<Vec<_>>()
    };
    let mut plain = established(options());
    let mut stamped = play(
        TcpOptions { timestamps: true, ..options() },
        "connect\n> S 0 ts 0\n< SA 0 ack 1 mss 1000 sackok ts 100 0\n> A 1 ack 1 ts 100",
    );
    for (script, stamps, blocks) in [
        (&mut plain, false, "10000:10010,8000:8010,6000:6010,4000:4010"),
        (&mut stamped, true, "10000:10010,8000:8010,6000:6010"),
    ] {
        let gaps = gaps(stamps);
        script.run_lossy(gaps[..4].concat().trim_end());
        script.run(&format!("{}> A 1 ack 1 sack {blocks}", gaps[4]));
    }
}

/// RFC 2018, section 5: what was acknowledged selectively is not sent again.
#[test]
fn what_the_other_end_has_is_not_sent_again() {
    let mut script = connected(options(), true);
    script.run(FIVE);
    script.run(
        "< A 1 ack 1 sack 1001:2001
         +3ms
         > A 1:1001 ack 1
         +10ms
         # The second one is there, too: what was sent before the retransmission is lost.
         < A 1 ack 2001
         > A 2001:3001 ack 1
         > A 3001:4001 ack 1
         +10ms
         < A 1 ack 4001
         > PA 4001:5001 ack 1",
    );
}

/// RFC 7323, section 3.2: each segment has the option, whatever it carries.
#[test]
fn every_segment_has_time_stamps() {
    play(
        TcpOptions { timestamps: true, nodelay: true, ..options() },
        "connect
         > S 0 ts 0
         < SA 0 ack 1 mss 1000 ts 100 0
         > A 1 ack 1 ts 100
         send 10
         > PA 1:11 ack 1 ts 100
         < A 1:11 ack 11 ts 101 0
         +50ms
         > A 11 ack 11 ts 101
         recv 10
         shutdown
         > FA 11 ack 11 ts 101
         < FA 11 ack 12 ts 102 0
         > A 12 ack 12 ts 102",
    );
}

/// RFC 8985, section 6.2, step 2: an acknowledgment that is too early for a retransmission is that of the first transmission, and
/// is no measurement of what was sent before the retransmission.
#[test]
fn an_acknowledgment_too_early_for_a_retransmission_loses_nothing() {
    let mut script = connected(options(), true);
    script.run(PROBED);
    script.run(
        "# 1 ms after the probe, and a round trip takes 10 ms.
         +1ms
         < A 1 ack 1 sack 2001:3001
         none
         < A 1 ack 3001
         info retransmits 1",
    );
}

/// RFC 8985, section 7.3: one probe, then the time-out.
#[test]
fn one_probe_at_a_time() {
    let mut script = connected(options(), true);
    script.run(
        "send 2000
         > A 1:1001 ack 1
         > PA 1001:2001 ack 1
         +23ms
         > PA 1001:2001 ack 1
         +205ms
         none
         info timeouts 0
         +10ms
         > A 1:1001 ack 1
         info timeouts 1",
    );
}

/// RFC 8985, section 7.4.2: a loss that only the probe repaired counts as a loss; a probe that was not needed does not, also where
/// the late acknowledgment of the first transmission comes before the duplicate report.
#[test]
fn a_probe_that_repairs_a_loss_narrows_the_window() {
    let (late, report) = ("< A 1 ack 3001", "< A 1 ack 3001 sack 2001:3001");
    for (answers, window) in [(vec![late], 5000), (vec![report], 10_000), (vec![late, report], 10_000)] {
        let mut script = connected(options(), true);
        script.run(PROBED);
        script.run("+10ms");
        script.run(&answers.join("\n"));
        script.run("send 100\n> PA 3001:3101 ack 1\n+10ms\n< A 1 ack 3101");
        script.run(&format!("info congestion_window {window}"));
    }
}

/// A probe is what the other end answers at once: the last segment again. New data alone it would acknowledge late, and where only
/// the acknowledgment of a burst was lost, the time-out would come first.
#[test]
fn a_probe_repeats_the_last_segment_although_there_are_new_data() {
    let mut script = connected(options(), true);
    let ten: String = (0..10).map(|at| format!("\n> A {}:{} ack 1", 1000 * at + 1, 1000 * at + 1001)).collect();
    script.run(&format!("send 12000{ten}"));
    script.run(
        "+23ms
         > A 9001:10001 ack 1
         +10ms
         < A 1 ack 10001 sack 9001:10001
         > A 10001:11001 ack 1
         > PA 11001:12001 ack 1
         info congestion_window 12000
         info timeouts 0",
    );
}

/// RFC 6298, section 5.5 and 2.4: the floor that can be set is kept, and doubled as any other.
#[test]
fn a_low_floor_is_kept_and_backs_off() {
    let quick = TcpOptions { rto_min_ns: 5 * MS, sack: false, ..options() };
    let mut script = play(quick, "connect\n> S 0\n+1ms\n< SA 0 ack 1 mss 1000\n> A 1 ack 1");
    script.run(
        "send 10\n> PA 1:11 ack 1\n+5900us\nnone\n+200us\n> PA 1:11 ack 1\n+11900us\nnone\n+200us\n> PA 1:11 ack 1",
    );
}
