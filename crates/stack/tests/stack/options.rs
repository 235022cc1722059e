//! Options of TCP: MSS (RFC 9293, section 3.7.1), window scale, time stamps and PAWS (RFC 7323), SACK (RFC 2018), others.

use crate::close::options;
use crate::script::{Script, play};
use crate::wire::{self, SYN, Tcp};
use crate::world::{SERVER, config, socket};
use stack::{Hop, Stack, TcpOptions};

/// MUST-14, MUST-65 and MUST-67: the option gives what this end can receive, in SYNs only.
#[test]
fn the_mss_option_is_that_of_the_mtu_and_in_syns_only() {
    play(
        options(),
        "connect
         > S 0 mss 1460
         < SA 0 ack 1 mss 1000
         > A 1 ack 1 no mss
         send 10
         > PA 1:11 ack 1 no mss",
    );
    let mut v6 = Script::new(options(), true);
    v6.run("connect\n> S 0 mss 1440");
    play(TcpOptions { max_segment: Some(900), ..options() }, "connect\n> S 0 mss 900");
}

/// MUST-15: without the option, 536 for IPv4 and 1220 for IPv6.
#[test]
fn without_the_mss_option_segments_are_of_the_default_size() {
    play(
        options(),
        "connect
         > S 0
         < SA 0 ack 1
         > A 1 ack 1
         info send_mss 536
         send 600
         > A 1:537 ack 1
         > PA 537:601 ack 1",
    );
}

#[test]
fn without_the_mss_option_segments_of_ipv6_are_longer() {
    let mut v6 = Script::new(options(), true);
    v6.run("connect\n> S 0\n< SA 0 ack 1\n> A 1 ack 1\ninfo send_mss 1220");
}

/// MUST-16: the smaller one of what the other end takes and what this end's path carries, without options.
#[test]
fn segments_are_as_long_as_both_ends_and_the_path_allow() {
    play(options(), "connect\n> S 0\n< SA 0 ack 1 mss 9000\n> A 1 ack 1\ninfo send_mss 1460");
    play(options(), "connect\n> S 0\n< SA 0 ack 1 mss 700\n> A 1 ack 1\ninfo send_mss 700");
    let stamped = TcpOptions { timestamps: true, ..options() };
    play(stamped, "connect\n> S 0\n< SA 0 ack 1 mss 700 ts 5 0\n> A 1 ack 1\ninfo send_mss 688");
    let mut narrow = Script::new(options(), false);
    let hop = Hop { mac: narrow.ends.macs[1], mtu: 1000, source: narrow.ends.from.ip() };
    narrow.stack.set_hop(narrow.ends.to.ip(), hop);
    narrow.run("connect\n> S 0 mss 960\n< SA 0 ack 1 mss 1460\n> A 1 ack 1\ninfo send_mss 960");
}

/// MUST-4 to MUST-7, MUST-64 and MUST-68.
#[test]
fn strange_options_do_no_harm() {
    // No-operations, one unknown option, and the MSS at an odd place.
    play(options(), "connect\n> S 0\n< SA 0 ack 1 raw 1,77,5,1,2,3,2,4,2,188,0\n> A 1 ack 1\ninfo send_mss 700");
    // A length of zero, and one beyond the end.
    for raw in ["77,0,2,4,2,188", "77,40,2,4,2,188", "2"] {
        play(options(), &format!("connect\n> S 0\n< SA 0 ack 1 raw {raw}\n> A 1 ack 1\ninfo send_mss 536"));
    }
    // In segments with data, too.
    play(
        options(),
        "connect\n> S 0\n< SA 0 ack 1\n> A 1 ack 1\n< A 1:11 ack 1 raw 77,0,1,1\nrecv 10\n< A 11:21 ack 1 raw 254,4,0,0\nrecv 10",
    );
}

/// MUST-69: what pads options is zero, or there is none.
#[test]
fn options_are_padded() {
    let mut stack = Stack::new(config(0));
    stack.set_hop(socket(SERVER, false, 1).ip(), Hop { mac: [2; 6], mtu: 1500, source: socket(0, false, 1).ip() });
    for (port, sack, timestamps, window_scale) in
        [(1, true, true, true), (2, true, false, false), (3, false, true, false), (4, false, false, true)]
    {
        let options = TcpOptions { sack, timestamps, window_scale, ..options() };
        let from = socket(0, false, port);
        stack.tcp_connect(stack::Instant(0), from, socket(SERVER, false, 80), options).unwrap();
        let frame = crate::world::drain(&mut stack, stack::Instant(0)).remove(0);
        let header = &frame[34..34 + usize::from(frame[46] >> 4) * 4];
        // Every byte belongs to an option or is a no-operation: nothing is left to pad.
        let mut at = 20;
        while at < header.len() {
            at += if header[at] == 1 { 1 } else { usize::from(header[at + 1]) };
        }
        assert_eq!(at, header.len());
    }
}

/// RFC 7323, section 2: the shift is used where both ends offer it, not in SYNs, and 14 at most.
#[test]
fn windows_are_scaled_where_both_ends_offer_it() {
    let mut script = play(
        options(),
        "connect
         > S 0 win 65535 ws 3
         < SA 0 ack 1 win 1000 mss 1000 ws 7
         > A 1 ack 1 win 32768
         info send_window 1000
         < A 1 ack 1 win 1000
         info send_window 128000",
    );
    script.run("< A 1 ack 1 win 65535\ninfo send_window 8388480");
    play(
        options(),
        "connect
         > S 0 ws 3
         < SA 0 ack 1 win 1000 mss 1000
         > A 1 ack 1 win 65535
         < A 1 ack 1 win 2000
         info send_window 2000",
    );
    play(options(), "connect\n> S 0\n< SA 0 ack 1 mss 1000 ws 20\n> A 1 ack 1\ninfo send_shift 14");
    play(options(), "listen\n< S 0 mss 1000\n> SA 0 ack 1 no ws no sackok no ts");
}

fn stamped() -> TcpOptions {
    TcpOptions { timestamps: true, ..options() }
}

/// RFC 7323, sections 3 and 4: each segment has a stamp and echoes the newest that was in order.
#[test]
fn time_stamps_are_echoed() {
    play(
        stamped(),
        "connect
         > S 0 ts 0
         < SA 0 ack 1 mss 1000 sackok ts 100 0
         > A 1 ack 1 ts 100
         < A 1:11 ack 1 ts 105 0
         send 5
         > PA 1:6 ack 11 ts 105
         # Out of order: the echo stays.
         < A 21:31 ack 6 ts 120 0
         > A 6 ack 11 ts 105 sack 21:31
         < A 11:21 ack 6 ts 110 0
         > A 6 ack 31 ts 110",
    );
    play(stamped(), "connect\n> S 0 ts 0\n< SA 0 ack 1 mss 1000\n> A 1 ack 1 no ts");
}

/// RFC 7323, section 5: what is older than the newest is a duplicate of before, and answered; a reset is not checked.
#[test]
fn paws_drops_old_segments() {
    let start = "connect
         > S 0 ts 0
         < SA 0 ack 1 mss 1000 ts 100 0
         > A 1 ack 1 ts 100
         < A 1:11 ack 1 ts 105 0
         +50ms
         > A 1 ack 11 ts 105
         recv 10";
    play(
        stamped(),
        &format!(
            "{start}
         < A 11:21 ack 1 ts 104 0
         > A 1 ack 11 ts 105
         recv none
         # Without a stamp.
         < A 11:21 ack 1
         none
         recv none
         # The same one is good.
         < A 11:21 ack 1 ts 105 0
         recv 10
         < R 21 ts 1 0
         state Closed"
        ),
    );
    // Across the wrap of 2^32, and after 24 days (section 5.5).
    play(
        stamped(),
        &format!(
            "{start}
         < A 11:21 ack 1 ts 2147483752 0
         recv 10
         +50ms
         > A 1 ack 21
         < A 21:31 ack 1 ts 5 0
         recv 10
         +50ms
         > A 1 ack 31 ts 5
         +2073601s
         < A 31:41 ack 1 ts 2147483700 0
         recv 10"
        ),
    );
}

/// MUST-50: packets with IP options are none of this stack's, and the kernel gets them.
#[test]
fn packets_with_ip_options_are_passed_by() {
    let mut script = Script::new(options(), false);
    script.run("listen");
    let frame = wire::tcp(&script.ends.reversed(), &Tcp { flags: SYN, ..Tcp::default() });
    let mut with_options = frame[..34].to_vec();
    with_options[14] = 0x46;
    with_options.extend([1, 1, 1, 1]);
    with_options.extend(&frame[34..]);
    let taken = script.stack.handle_frame(script.now, &with_options);
    assert_eq!(taken, stack::Disposition::PassedBy(stack::PassedBy::IpOptions));
    script.run("none");
}

/// MUST-2 and MUST-3. The other end of all scripts computes checksums byte by byte, and checks each one.
#[test]
fn a_wrong_checksum_drops_the_segment() {
    let mut script = play(options(), "connect\n> S 0\n< SA 0 ack 1\n> A 1 ack 1");
    let good = script.frame("< A 1:11 ack 1");
    for at in 34..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_ne!(script.stack.handle_frame(script.now, &bad), stack::Disposition::Taken, "{at}");
    }
    script.run("recv none");
    assert_eq!(script.stack.handle_frame(script.now, &good), stack::Disposition::Taken);
    script.run("recv 10");
}

/// Frames of a veth device have unfinished sums.
#[test]
fn partial_checksums_are_accepted_where_that_is_wanted() {
    use stack::{Config, ReceiveChecksum};
    for (mode, good) in
        [(ReceiveChecksum::Verify, false), (ReceiveChecksum::VerifyOrPartial, true), (ReceiveChecksum::Skip, true)]
    {
        let mut stack = Stack::new(Config { receive_checksum: mode, ..config(0) });
        let bound = stack.udp_bind(socket(0, false, 53), false, stack::UdpOptions::default()).unwrap();
        let ends = wire::Ends {
            macs: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]],
            from: socket(1, false, 7),
            to: socket(0, false, 53),
        };
        let mut frame = wire::udp(&ends, b"hello");
        let partial = wire::sum(&[&frame[26..34], &[0, 17, 0, 13]]);
        frame[40..42].copy_from_slice(&partial.to_be_bytes());
        let _ = stack.handle_frame(stack::Instant(0), &frame);
        assert_eq!(stack.udp_receive(bound, &mut [0; 9]).is_ok(), good, "{mode:?}");
    }
}
