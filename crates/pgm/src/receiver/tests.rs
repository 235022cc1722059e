//! A receiver on its own, in virtual time.

use super::*;
use crate::Tsi;
use crate::packet::{Data, Fragment, Reset, Spm};
use crate::tests::{MS, TSI, address, written};

fn source() -> IpAddr {
    address("192.0.2.1")
}

fn config() -> ReceiverConfig {
    ReceiverConfig {
        window_packets: 16,
        back_off_ns: MS,
        repeat_ns: 10 * MS,
        data_ns: 20 * MS,
        ncf_retries: 2,
        data_retries: 2,
        ..ReceiverConfig::new(7500, address("239.192.0.1"), 7)
    }
}

struct Bench {
    receiver: Receiver,
    now: u64,
    spm: u32,
}

impl Bench {
    fn new(config: ReceiverConfig) -> Self {
        Self { receiver: Receiver::new(config).unwrap(), now: 0, spm: 0 }
    }

    /// One that has heard an SPM of a source that has sent nothing so far.
    fn told(config: ReceiverConfig) -> Self {
        let mut bench = Self::new(config);
        bench.path(0, 0xffff_ffff, Options::default());
        bench
    }

    fn take(&mut self, tsi: Tsi, body: Body<'_>, options: Options<'_>) {
        let bytes = written(&Packet { tsi, data_port: 7500, body, options });
        self.receiver.handle_datagram(self.now, source(), &bytes).unwrap();
    }

    fn odata(&mut self, sqn: u32, trail: u32) {
        self.take(TSI, odata(sqn, trail, &sqn.to_be_bytes()), Options::default());
    }

    fn path(&mut self, trail: u32, lead: u32, options: Options<'_>) {
        let spm = Spm { sqn: Sqn(self.spm), trail: Sqn(trail), lead: Sqn(lead), path: source() };
        self.spm += 1;
        self.take(TSI, Body::Spm(spm), options);
    }

    /// Lets time pass until then; the numbers that are asked for.
    fn asked(&mut self, until: u64) -> Vec<u32> {
        self.pass(until).into_iter().map(|(_, sqn)| sqn).collect()
    }

    /// The same with the ms at which each is asked for.
    fn pass(&mut self, until: u64) -> Vec<(u64, u32)> {
        let mut asked = Vec::new();
        let mut buffer = [0; 500];
        loop {
            while let Some(out) = self.receiver.poll_transmit(self.now, &mut buffer) {
                let packet = Packet::parse(&buffer[..out.length]).unwrap();
                if let Body::Nak(nak) = packet.body {
                    assert_eq!(out.to, Destination::Unicast(source()));
                    asked.extend(packet.options.numbers(&nak).map(|sqn| (self.now / MS, sqn)));
                }
            }
            match self.receiver.poll_timeout().filter(|next| *next <= until) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
            self.receiver.handle_timeout(self.now);
        }
        self.now = until;
        asked
    }

    fn messages(&mut self) -> Vec<u32> {
        let mut out = [0; 64];
        std::iter::from_fn(|| self.receiver.next_message(&mut out).map(|message| message.first.0)).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.receiver.poll_event()).collect()
    }
}

fn ours(what: SessionEvent) -> Event {
    Event { tsi: TSI, what }
}

fn odata(sqn: u32, trail: u32, payload: &[u8]) -> Body<'_> {
    Body::Odata(Data { sqn: Sqn(sqn), trail: Sqn(trail), payload })
}

fn nak(sqn: u32) -> Nak {
    Nak { sqn: Sqn(sqn), source: source(), group: address("239.192.0.1") }
}

#[test]
fn what_comes_in_order_is_delivered_at_once() {
    let mut bench = Bench::new(config());
    for sqn in 5..8 {
        bench.odata(sqn, 0);
    }
    assert_eq!(bench.messages(), [5, 6, 7], "from the first that was heard on");
    assert_eq!(bench.events(), [ours(SessionEvent::Found)]);
    bench.odata(6, 0);
    assert_eq!(bench.receiver.counts().duplicates, 1);
    assert!(bench.messages().is_empty());
}

/// Section 6.3: a NAK after the back-off, repeated without an NCF, then given up.
#[test]
fn a_gap_is_asked_for_and_given_up_at_last() {
    let mut bench = Bench::told(config());
    for sqn in [0, 1, 3] {
        bench.odata(sqn, 0);
    }
    assert_eq!(bench.messages(), [0, 1]);
    let asked = bench.pass(200 * MS);
    let numbers: Vec<u32> = asked.iter().map(|(_, sqn)| *sqn).collect();
    assert_eq!(numbers, [2, 2, 2], "once, and twice again: {asked:?}");
    assert!(asked[0].0 <= 1 && asked[1].0 >= 10 && asked[2].0 >= 20, "{asked:?}");
    assert_eq!(bench.messages(), [3]);
    assert_eq!(bench.events(), [ours(SessionEvent::Found), ours(SessionEvent::Lost { first: Sqn(2), count: 1 })]);
}

#[test]
fn a_repair_tells_its_story() {
    let mut bench = Bench::told(config());
    bench.odata(0, 0);
    bench.now = MS;
    bench.odata(2, 0);
    assert_eq!(bench.pass(3 * MS).len(), 1);
    bench.take(TSI, Body::Ncf(nak(1)), Options::default());
    bench.now = 5 * MS;
    bench.take(TSI, Body::Rdata(Data { sqn: Sqn(1), trail: Sqn(0), payload: b"late" }), Options::default());
    let mut out = [0; 64];
    bench.receiver.next_message(&mut out).unwrap();
    let message = bench.receiver.next_message(&mut out).unwrap();
    let repair = message.repair.unwrap();
    assert_eq!((message.first, &out[..message.length]), (Sqn(1), &b"late"[..]));
    assert_eq!((repair.gap_ns, repair.ncf_ns, repair.data_ns, repair.naks), (MS, Some(3 * MS), 5 * MS, 1));
    assert!(repair.nak_ns.is_some_and(|at| (MS..=2 * MS).contains(&at)));
    assert_eq!(bench.receiver.next_message(&mut out).unwrap().repair, None);
    assert!(bench.pass(500 * MS).is_empty(), "nothing is asked for any more");
}

#[test]
fn others_naks_and_ncfs_hold_ours_back() {
    let mut bench = Bench::told(config());
    bench.odata(0, 0);
    bench.odata(3, 0);
    bench.take(TSI, Body::Ncf(nak(1)), Options::default());
    bench.take(TSI, Body::Nak(nak(2)), Options::default());
    // Both hold for 20 ms; then both are asked for by ourselves.
    let asked = bench.pass(25 * MS);
    let mut numbers: Vec<u32> = asked.iter().map(|(_, sqn)| *sqn).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2], "{asked:?}");
    assert!(asked.iter().all(|(at, _)| *at >= 20), "{asked:?}");
}

/// Section 6.2: no NAK before an SPM has said where to. Others count such packets as lost; they are not.
#[test]
fn without_a_path_gaps_are_held_and_the_path_is_asked_for() {
    let mut bench = Bench::new(config());
    bench.odata(0, 0);
    bench.odata(2, 0);
    assert!(bench.pass(100 * MS).is_empty());
    assert!(bench.receiver.counts().spmrs > 0 && bench.receiver.counts().lost == 0);
    bench.path(0, 2, Options::default());
    assert_eq!(bench.asked(102 * MS), [1]);
}

#[test]
fn an_spm_shows_what_is_missing_at_the_end() {
    let mut bench = Bench::new(config());
    bench.odata(0, 0);
    bench.path(0, 2, Options::default());
    assert_eq!(bench.asked(2 * MS).len(), 2);
    // An older SPM changes nothing.
    let old = Spm { sqn: Sqn(u32::MAX), trail: Sqn(0), lead: Sqn(9), path: address("192.0.2.66") };
    bench.take(TSI, Body::Spm(old), Options::default());
    bench.odata(1, 0);
    bench.odata(2, 0);
    assert_eq!(bench.messages(), [0, 1, 2]);
    assert!(bench.pass(300 * MS).is_empty());
}

#[test]
fn the_trail_ends_what_can_no_longer_be_had() {
    let mut bench = Bench::told(config());
    bench.odata(0, 0);
    bench.odata(4, 0);
    bench.odata(5, 3);
    assert_eq!(bench.messages(), [0]);
    bench.path(6, 5, Options::default());
    assert_eq!(bench.messages(), [4, 5]);
    assert_eq!(bench.events()[1..], [ours(SessionEvent::Lost { first: Sqn(1), count: 3 })]);
    // The source went on without us: all of it is one loss.
    bench.path(1000, 1003, Options::default());
    assert_eq!(bench.events(), [], "unless the SPM is somebody else's");
    bench.odata(1003, 1000);
    bench.odata(1004, 1000);
    assert_eq!(bench.events(), [ours(SessionEvent::Lost { first: Sqn(6), count: 994 })]);
    bench.odata(1000, 1000);
    assert_eq!(bench.messages(), [1000]);
}

#[test]
fn a_leap_beyond_the_window_gives_up_what_is_oldest() {
    let mut bench = Bench::told(config());
    bench.odata(0, 0);
    bench.odata(2, 0);
    assert_eq!(bench.messages(), [0]);
    // 2 waits for 1 and would be overwritten: it is kept, 1 is given up, 40 and 41 find no room yet.
    bench.odata(40, 0);
    assert_eq!(bench.receiver.counts().doubted, 1, "so far away that another has to confirm it");
    bench.odata(41, 0);
    assert_eq!(bench.receiver.counts().overflows, 1);
    assert_eq!(bench.messages(), [2]);
    bench.odata(40, 0);
    bench.odata(41, 0);
    bench.odata(0x4000_0000, 0);
    let lost: u32 = bench
        .events()
        .iter()
        .map(|event| if let SessionEvent::Lost { count, .. } = event.what { count } else { 0 })
        .sum();
    assert_eq!(lost, 1 + (26 - 3));
    bench.odata(42, 30);
    assert_eq!(bench.messages(), [], "41 waits for those before it");
    bench.odata(43, 40);
    assert_eq!(bench.messages(), [] as [u32; 0], "40 is asked for");
    bench.take(TSI, Body::Rdata(Data { sqn: Sqn(40), trail: Sqn(40), payload: b"40" }), Options::default());
    assert_eq!(bench.messages(), [40, 41, 42, 43]);
}

#[test]
fn fragments_become_one_message() {
    let part = |bench: &mut Bench, sqn, offset, payload: &[u8]| {
        let fragment = Some(Fragment { first: Sqn(1), offset, length: 6 });
        bench.take(TSI, odata(sqn, 0, payload), Options { fragment, ..Options::default() });
    };
    let mut bench = Bench::new(config());
    bench.odata(0, 0);
    part(&mut bench, 1, 0, b"ab");
    part(&mut bench, 3, 4, b"ef");
    assert_eq!(bench.messages(), [0]);
    part(&mut bench, 2, 2, b"cd");
    let mut out = [0; 64];
    let message = bench.receiver.next_message(&mut out).unwrap();
    assert_eq!((message.first, &out[..message.length]), (Sqn(1), &b"abcdef"[..]));
    // Who comes in the middle of a message gets the next one; so does who has only a little room.
    let mut late = Bench::new(config());
    part(&mut late, 2, 2, b"cd");
    part(&mut late, 3, 4, b"ef");
    late.odata(4, 0);
    assert_eq!((late.messages(), late.receiver.counts().parts_dropped), (vec![4], 2));
    part(&mut bench, 4, 0, b"never");
    bench.odata(5, 0);
    assert_eq!(bench.messages(), [5], "a part that does not fit ends its message");
    let mut short = [0; 1];
    bench.odata(6, 0);
    assert_eq!(bench.receiver.next_message(&mut short).unwrap().length, 4);
}

#[test]
fn a_late_joiner_may_ask_for_what_the_source_offers() {
    let join = Options { join: Some(Sqn(7)), ..Options::default() };
    let mut bench = Bench::new(config());
    bench.path(2, 9, join);
    assert_eq!(bench.pass(2 * MS).len(), 3);
    let mut modest = Bench::new(ReceiverConfig { join: false, ..config() });
    modest.path(2, 9, join);
    modest.odata(10, 2);
    assert!(modest.pass(2 * MS).is_empty());
    assert_eq!(modest.messages(), [10]);
}

#[test]
fn the_end_is_told_when_everything_is_there() {
    let mut bench = Bench::told(config());
    bench.odata(0, 0);
    bench.path(0, 1, Options { fin: true, ..Options::default() });
    assert_eq!((bench.messages(), bench.events()), (vec![0], vec![ours(SessionEvent::Found)]));
    bench.odata(1, 0);
    assert_eq!((bench.messages(), bench.events()), (vec![1], vec![ours(SessionEvent::Finished)]));
    bench.path(0, 1, Options { reset: Some(Reset { naks_unanswered: true, code: 9 }), ..Options::default() });
    bench.path(0, 1, Options { reset: Some(Reset { naks_unanswered: true, code: 9 }), ..Options::default() });
    assert_eq!(bench.events(), [ours(SessionEvent::Reset { code: 9 })]);
}

#[test]
fn sources_have_windows_of_their_own_and_are_forgotten() {
    let mut bench = Bench::new(ReceiverConfig { max_sources: 2, expiry_ns: 1000 * MS, ..config() });
    for port in 1..=3 {
        bench.take(Tsi { port, ..TSI }, odata(u32::from(port) * 100, 0, b"x"), Options::default());
    }
    let mut first = bench.messages();
    first.sort_unstable();
    assert_eq!((first, bench.receiver.counts().ignored), (vec![100, 200], 1));
    assert!(bench.pass(2000 * MS).is_empty());
    let expired = bench.events().iter().filter(|event| matches!(event.what, SessionEvent::Expired)).count();
    assert_eq!(expired, 2);
    bench.take(Tsi { port: 3, ..TSI }, odata(7, 0, b"x"), Options::default());
    bench.take(Tsi { port: 3, ..TSI }, odata(9, 0, b"x"), Options::default());
    assert_eq!(bench.messages(), [7], "the memory of another is used again, and nothing of what was in it");
}

#[test]
fn disorder_is_tolerated_when_asked_for() {
    let mut bench = Bench::told(ReceiverConfig { reorder_packets: 2, back_off_ns: 0, ..config() });
    bench.odata(0, 0);
    bench.odata(2, 0);
    assert!(bench.pass(MS).is_empty(), "one later packet is disorder");
    bench.odata(1, 0);
    assert_eq!(bench.messages(), [0, 1, 2]);
    bench.odata(4, 0);
    bench.odata(5, 0);
    assert_eq!(bench.pass(2 * MS).len(), 1, "two are a loss");
}

#[test]
fn strangers_are_counted() {
    let mut bench = Bench::new(config());
    assert!(bench.receiver.handle_datagram(0, source(), b"garbage").is_err());
    let other = Packet { tsi: TSI, data_port: 1, body: odata(1, 0, b"x"), options: Options::default() };
    bench.receiver.handle_datagram(0, source(), &written(&other)).unwrap();
    // A NAK of another receiver makes no source known.
    bench.take(TSI, Body::Nak(nak(1)), Options::default());
    assert_eq!(bench.receiver.counts().ignored, 3);
    assert!(bench.events().is_empty());
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let good = config();
    for (bad, field) in [
        (ReceiverConfig { group: source(), ..good }, "group"),
        (ReceiverConfig { window_packets: 3, ..good }, "window_packets"),
        (ReceiverConfig { max_packet_bytes: 1, ..good }, "max_packet_bytes"),
        (ReceiverConfig { max_sources: 0, ..good }, "max_sources"),
        (ReceiverConfig { reorder_packets: 16, ..good }, "reorder_packets"),
        (ReceiverConfig { data_ns: 0, ..good }, "repeat_ns, data_ns, expiry_ns"),
    ] {
        assert_eq!(Receiver::new(bad).unwrap_err().field, field);
    }
}

/// Fuzzing found it: a packet whose trail lies after its own number was stored where nothing is delivered any more.
#[test]
fn a_packet_before_its_own_trail_is_ignored() {
    crate::exercise::engines(include_bytes!("../../../../fuzz/corpus/pgm_engines/trail_after_its_number"));
    let mut bench = Bench::new(config());
    bench.odata(0, 0);
    bench.odata(5, 9);
    assert_eq!((bench.receiver.counts().ignored, bench.messages()), (1, vec![0]));
    bench.odata(1, 0);
    assert_eq!(bench.messages(), [1], "nothing of it was believed");
}

/// Three forged packets name a third host and a gap as large as the window: what it gets is bounded, and small.
#[test]
fn forged_packets_make_no_storm_of_naks() {
    let mut bench = Bench::told(ReceiverConfig { window_packets: 8192, ncf_retries: 500, ..config() });
    bench.odata(0, 0);
    bench.odata(8000, 0);
    let (mut packets, mut bytes, mut buffer) = (0_u64, 0_u64, [0; 500]);
    while let Some(next) = bench.receiver.poll_timeout().filter(|next| *next <= 10_000 * MS) {
        bench.now = bench.now.max(next);
        bench.receiver.handle_timeout(bench.now);
        while let Some(out) = bench.receiver.poll_transmit(bench.now, &mut buffer) {
            packets += 1;
            bytes += out.length as u64;
        }
    }
    assert!(bytes > 100_000, "what is missing is asked for: {bytes}");
    assert!(bytes <= 121 << 10 && packets <= (121 << 10) / 280, "{packets} NAKs, {bytes} bytes");
    assert!(bench.receiver.counts().naks_deferred > 0);
}

/// NAKs that the budget held back were not sent in vain: their numbers are not given up sooner.
#[test]
fn what_the_budget_holds_back_is_not_given_up() {
    let mut bench = Bench::told(ReceiverConfig { window_packets: 1 << 14, ncf_retries: 0, ..config() });
    bench.odata(0, 0);
    bench.odata(16_000, 0);
    let asked = bench.asked(6000 * MS);
    assert!(bench.receiver.counts().naks_deferred > 0);
    let numbers: std::collections::BTreeSet<&u32> = asked.iter().collect();
    assert_eq!((asked.len(), numbers.len()), (15_999, 15_999), "each is asked for once");
}

#[test]
fn naks_go_to_no_address_that_cannot_be_a_source() {
    for impossible in ["255.255.255.255", "239.192.0.1", "0.0.0.0", "250.1.2.3", "127.0.0.1", "2001:db8::1", "ff02::1"]
    {
        let mut bench = Bench::new(config());
        let path = address(impossible);
        bench.odata(0, 0);
        let spm = Spm { sqn: Sqn(5), trail: Sqn(0), lead: Sqn(2), path };
        bench.take(TSI, Body::Spm(spm), Options::default());
        assert!(bench.pass(3 * MS).is_empty(), "{impossible}");
        assert_eq!(bench.receiver.counts().paths_refused, 1, "{impossible}");
        bench.path(0, 2, Options::default());
        assert_eq!(bench.pass(6 * MS).len(), 2, "the true SPM is heeded, whatever its number");
    }
}

/// One SPM with a window 2³¹ numbers ahead: no loss is reported, and repairs go on.
#[test]
fn one_forged_spm_changes_nothing() {
    for (sqn, trail, lead) in
        [(1, 0x7fff_fff0, 0x7fff_fff8), (0x7000_0000, 0, 4), (60, 10, 9), (1, 0, 14), (60, 0, 0xffff_fff0)]
    {
        let mut bench = Bench::told(config());
        bench.odata(0, 0);
        bench.odata(1, 0);
        let forged = Spm { sqn: Sqn(sqn), trail: Sqn(trail), lead: Sqn(lead), path: address("192.0.2.66") };
        bench.take(TSI, Body::Spm(forged), Options::default());
        for lead in [1, 1, 4, 4] {
            bench.path(0, lead, Options::default());
        }
        assert_eq!(bench.asked(2 * MS), [2, 3, 4], "{sqn} {trail} {lead}");
        let mut messages = bench.messages();
        for sqn in 2..20 {
            bench.odata(sqn, 0);
            messages.extend(bench.messages());
        }
        assert_eq!(messages, (0..20).collect::<Vec<_>>());
        assert_eq!((bench.events().len(), bench.receiver.counts().lost), (1, 0));
    }
}

/// Sources one after another, more than there are places for: each ends its session, and each is heard from the first
/// message to the last. What a session sends after its end makes it no new one.
#[test]
fn a_finished_source_makes_room() {
    let mut bench = Bench::new(ReceiverConfig { max_sources: 2, ..config() });
    let fin = Options { fin: true, ..Options::default() };
    let spm = |sqn, lead| Body::Spm(Spm { sqn: Sqn(sqn), trail: Sqn(0), lead: Sqn(lead), path: source() });
    for port in 1..=6 {
        let tsi = Tsi { port, ..TSI };
        bench.take(tsi, spm(0, u32::MAX), Options::default());
        for sqn in 0..20 {
            bench.take(tsi, odata(sqn, 0, b"x"), Options::default());
            assert_eq!(bench.messages(), [sqn]);
        }
        for sqn in 1..4 {
            bench.take(tsi, spm(sqn, 19), fin);
            // The first source has left its place by then.
            bench.take(Tsi { port: 1, ..TSI }, spm(100 + sqn, 19), fin);
            bench.take(Tsi { port: 1, ..TSI }, odata(19, 0, b"x"), Options::default());
        }
        bench.now += MS;
    }
    let events = bench.events();
    let of = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    let (heard, ended) = (
        of(|event| matches!(event.what, SessionEvent::Found)),
        of(|event| matches!(event.what, SessionEvent::Finished)),
    );
    assert_eq!((heard, ended, events.len()), (6, 6, 12), "{events:?}");
    assert_eq!(bench.receiver.counts().sources_refused, 0);
}

/// Junk takes every place; a good stream gets one when the junk falls silent, and what cannot be heard is reported.
#[test]
fn silent_sources_make_room_and_who_is_refused_is_told() {
    let mut bench = Bench::new(ReceiverConfig { max_sources: 2, ..config() });
    let junk =
        |bench: &mut Bench, port| bench.take(Tsi { port, ..TSI }, odata(u32::from(port), 0, b"x"), Options::default());
    junk(&mut bench, 1);
    junk(&mut bench, 2);
    bench.odata(7, 0);
    bench.odata(8, 0);
    let refused = ours(SessionEvent::Refused);
    assert_eq!(bench.events().iter().filter(|event| **event == refused).count(), 1, "told once");
    assert_eq!((bench.receiver.counts().sources_refused, bench.receiver.counts().ignored), (1, 2));
    bench.now += 150 * MS;
    bench.messages();
    bench.odata(9, 0);
    bench.odata(10, 0);
    assert_eq!(bench.messages(), [9, 10], "one packet is no source");
    junk(&mut bench, 3);
    bench.now += 150 * MS;
    bench.odata(12, 0);
    bench.messages();
    junk(&mut bench, 4);
    bench.odata(11, 0);
    let messages = bench.messages();
    assert!([11, 12].iter().all(|sqn| messages.contains(sqn)), "the good one stays: {messages:?}");
    assert_eq!(bench.receiver.counts().sources_refused, 1);
    // A source that was silent makes room, and goes on where it was when it is back.
    bench.now += 3000 * MS;
    junk(&mut bench, 5);
    junk(&mut bench, 6);
    assert!(bench.events().contains(&ours(SessionEvent::Expired)));
    bench.now += 150 * MS;
    bench.messages();
    bench.odata(14, 0);
    assert_eq!(bench.messages(), [] as [u32; 0]);
    bench.take(TSI, Body::Rdata(Data { sqn: Sqn(13), trail: Sqn(0), payload: b"13" }), Options::default());
    assert_eq!(bench.messages(), [13, 14], "what it sent meanwhile is not lost in silence");
}

/// Catches: sources that send nothing but SPMs kept every place, as long as they sent them, and no data were heard.
#[test]
fn sources_without_data_make_room_for_one_that_has_some() {
    let mut bench = Bench::new(ReceiverConfig { max_sources: 2, ..config() });
    let junk = |bench: &mut Bench, sqn| {
        for port in 1..=2 {
            let spm = Spm { sqn: Sqn(sqn), trail: Sqn(0), lead: Sqn(u32::MAX), path: source() };
            bench.take(Tsi { port, ..TSI }, Body::Spm(spm), Options::default());
        }
    };
    let mut messages = Vec::new();
    for sqn in 0..50 {
        junk(&mut bench, sqn);
        bench.odata(sqn, 0);
        bench.now += MS;
        messages.extend(bench.messages());
    }
    assert_eq!(messages, (0..50).collect::<Vec<_>>());
    assert!(!bench.events().contains(&ours(SessionEvent::Refused)));
}

/// The longest silent source stays because its message was not taken yet: the next silent one makes room.
#[test]
fn a_source_whose_messages_wait_does_not_keep_others_from_making_room() {
    let mut bench = Bench::new(ReceiverConfig { max_sources: 2, ..config() });
    let of = |port| Tsi { port, ..TSI };
    let take = |bench: &mut Bench, port| bench.take(of(port), odata(7, 0, b"x"), Options::default());
    take(&mut bench, 1);
    assert_eq!(bench.messages(), [7]);
    take(&mut bench, 2);
    bench.now += MS;
    let spm = Body::Spm(Spm { sqn: Sqn(1), trail: Sqn(7), lead: Sqn(7), path: source() });
    bench.take(of(1), spm, Options::default());
    bench.now += 3000 * MS;
    take(&mut bench, 3);
    assert_eq!(bench.receiver.counts().sources_refused, 0);
    let events = bench.events();
    assert!(
        events.contains(&Event { tsi: of(1), what: SessionEvent::Expired })
            && events.contains(&Event { tsi: of(3), what: SessionEvent::Found }),
        "{events:?}"
    );
    assert_eq!(bench.messages(), [7, 7], "of both");
}

/// OpenPGM swaps the bits of OPT_PARITY_PRM: what it calls parity on demand comes unasked, and it answers no NAK for parity.
#[test]
fn a_source_with_swapped_parity_bits_is_understood() {
    for swapped in [false, true] {
        let mut bench = Bench::new(ReceiverConfig { parity: true, ..config() });
        let offer = crate::packet::ParityParameters { proactive: false, on_demand: true, group_size: 4 };
        bench.path(0, 0xffff_ffff, Options { parity_parameters: Some(offer), ..Options::default() });
        bench.odata(0, 0);
        if swapped {
            let parity = Options { parity: true, ..Options::default() };
            bench.take(TSI, odata(0, 0, &[1; 4]), parity);
        }
        bench.odata(2, 0);
        bench.odata(4, 0);
        let mut asked = bench.asked(5 * MS);
        asked.sort_unstable();
        // By the numbers themselves, or by the group and the low bits: two packets.
        assert_eq!(asked, if swapped { vec![1, 3] } else { vec![1] });
    }
}
