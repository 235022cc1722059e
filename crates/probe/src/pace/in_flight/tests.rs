use super::*;

const TIMEOUT: u64 = 1000;

fn config(peers: u16, every: u64) -> InFlightConfig {
    InFlightConfig { first_number: 100, every, peers, timeout: TIMEOUT, flags: SampleFlags::default(), room: 1024 }
}

struct Fixture {
    in_flight: InFlight,
    out: Vec<PacedSample>,
}

impl Fixture {
    fn new(config: InFlightConfig) -> Self {
        Self { in_flight: InFlight::new(config), out: Vec::new() }
    }

    /// Message `seq` was sent at `sent`, meant for 10 ticks earlier.
    fn sent(&mut self, seq: u64, whom: u64, sent: u64) {
        self.in_flight.sent(&[100 + seq, whom, sent - 10, sent, 0, 0], &mut self.out);
    }

    fn on_answer(&mut self, seq: u64, peer: u16, received: u64) {
        self.in_flight
            .on_answer(&[100 + seq, u64::from(peer), received, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0], &mut self.out);
    }

    /// What came out since the last call: number, reflector, received, flags.
    fn take(&mut self) -> Vec<(u64, u16, u64, u32)> {
        let taken = self.out.iter().map(|one| (one.sample.seq, one.reflector, one.sample.received, one.sample.flags.0));
        let taken = taken.collect();
        self.out.clear();
        taken
    }
}

const LOST: u32 = SampleFlags::LOST.0;
const DUPLICATE: u32 = SampleFlags::DUPLICATE.0;
const REORDERED: u32 = SampleFlags::REORDERED.0;
const LATE: u32 = SampleFlags::LATE.0;
const UNASKED: u32 = SampleFlags::UNASKED.0;

#[test]
fn all_is_known_before_the_oldest_open_message() {
    let mut told = Fixture::new(config(2, 1));
    let known = |told: &mut Fixture, now: u64| {
        told.in_flight.expire(now, &mut told.out);
        told.in_flight.known_before()
    };
    told.sent(0, ALL, 100);
    told.sent(1, ALL, 200);
    // The word of the third has come of one reflector only.
    told.sent(2, 0, 300);
    for (seq, peer) in [(0, 0), (0, 1), (1, 0), (2, 0)] {
        told.on_answer(seq, peer, 310);
    }
    assert_eq!(known(&mut told, 320), 190, "one of them has not answered the second");
    told.on_answer(1, 1, 330);
    assert_eq!(known(&mut told, 340), 290, "more words of the third may come");
    told.sent(2, 1, 301);
    assert_eq!(known(&mut told, 350), 290, "sent and not answered");
    assert_eq!(known(&mut told, 301 + TIMEOUT), 291, "lost; whatever is sent next is not meant for earlier");
    assert_eq!((told.in_flight.addressed(ALL), told.in_flight.addressed(1)), (2, 1));
}

#[test]
fn answers_come_out_with_all_their_times() {
    let mut told = Fixture::new(config(1, 1));
    told.in_flight.sent(&[100, 0, 40, 50, 7000, 0], &mut told.out);
    told.in_flight.driver(0, ALL, 7100);
    told.in_flight.on_answer(&[100, 0, 90, 5, 6, 7200, 7300, 21, 22, 23, 8 << 32 | 3, 9, 4, 77], &mut told.out);
    let sample = told.out[0];
    assert_eq!((sample.told_tx, sample.told_ns), (4, 77));
    assert_eq!((sample.out, sample.back), (Repaired::new(8, 3), Repaired::new(0, 9)));
    assert_eq!(
        sample.sample,
        Sample { seq: 0, intended: 40, sent: 50, received: 90, peer_rx: 5, peer_tx: 6, flags: SampleFlags::default() }
    );
    assert_eq!(
        sample.stamps,
        StampTimes {
            sent_ns: 7000,
            driver_ns: 7100,
            far_stack_ns: 21,
            far_received_ns: 22,
            far_sent_ns: 23,
            stack_ns: 7200,
            received_ns: 7300
        }
    );
    // A stamp from before the send call is another message's.
    told.in_flight.sent(&[101, 0, 40, 50, 9000, 0], &mut told.out);
    told.in_flight.driver(1, ALL, 8999);
    told.on_answer(1, 0, 95);
    assert_eq!(told.out[1].stamps.driver_ns, 0);
    // Stamps that are read before the word of their sending wait for it; those of an earlier run are nobody's.
    for (seq, ns) in [(2, 9_500), (3, 9_600), (u64::from(u32::MAX), 9_700)] {
        told.in_flight.driver(seq, ALL, ns);
    }
    for seq in [2, 3] {
        told.in_flight.sent(&[100 + seq, 0, 40, 50, 9400, 0], &mut told.out);
        told.on_answer(seq, 0, 95);
    }
    assert_eq!((told.out[2].stamps.driver_ns, told.out[3].stamps.driver_ns), (9_500, 9_600));
}

#[test]
fn stamps_of_several_reflectors_are_each_one_s_own() {
    let mut told = Fixture::new(config(2, 1));
    // That to the second one is stamped before the word of either.
    told.in_flight.driver(0, 1, 150);
    told.in_flight.sent(&[100, 0, 40, 50, 100, 0], &mut told.out);
    told.in_flight.driver(0, 0, 120);
    told.in_flight.sent(&[100, 1, 40, 60, 130, 0], &mut told.out);
    // Sent again by a stream: the first time counts.
    told.in_flight.driver(0, 0, 900);
    told.on_answer(0, 0, 95);
    told.on_answer(0, 1, 96);
    let stamps: Vec<_> = told.out.iter().map(|one| (one.reflector, one.stamps.driver_ns)).collect();
    assert_eq!(stamps, [(0, 120), (1, 150)]);
}

#[test]
fn after_a_failed_send_no_stamp_is_taken_for_anybody_s() {
    let mut told = Fixture::new(config(1, 1));
    told.in_flight.sent(&[100, 0, 40, 50, 100, 0], &mut told.out);
    told.in_flight.driver(1, 0, 160);
    told.in_flight.sent(&[101, ALL | UNCOUNTED, 50, 60, 150, 0], &mut told.out);
    told.in_flight.driver(0, 0, 110);
    told.in_flight.sent(&[102, 0, 50, 70, 190, 0], &mut told.out);
    told.in_flight.driver(2, 0, 200);
    (0..3).for_each(|seq| told.on_answer(seq, 0, 95 + seq));
    let stamps: Vec<_> = told.out.iter().map(|one| one.stamps.driver_ns).collect();
    assert_eq!(stamps, [110, 0, 0]);
}

#[test]
fn duplicates_and_order() {
    let mut told = Fixture::new(config(1, 1));
    (0..4).for_each(|seq| told.sent(seq, 0, 50 + seq));
    for (seq, at) in [(0, 100), (2, 110), (1, 120), (2, 130), (3, 140)] {
        told.on_answer(seq, 0, at);
    }
    assert_eq!(
        told.take(),
        [(0, 0, 100, 0), (2, 0, 110, 0), (1, 0, 120, REORDERED), (2, 0, 130, DUPLICATE), (3, 0, 140, 0)]
    );
    assert_eq!((told.in_flight.counts.answered, told.in_flight.counts.waiting, told.in_flight.counts.lost), (4, 0, 0));
}

#[test]
fn a_message_is_lost_at_its_time_whoever_looks_when() {
    // Nobody looked between the time-out and the answer.
    let mut told = Fixture::new(config(1, 1));
    told.sent(0, 0, 50);
    told.on_answer(0, 0, 50 + TIMEOUT);
    let never_looked = told.take();
    // Somebody did.
    let mut told = Fixture::new(config(1, 1));
    told.sent(0, 0, 50);
    told.in_flight.expire(49 + TIMEOUT, &mut told.out);
    assert_eq!(told.take(), [], "there is still a tick");
    told.in_flight.expire(50 + TIMEOUT, &mut told.out);
    told.on_answer(0, 0, 50 + TIMEOUT);
    assert_eq!(told.take(), never_looked);
    assert_eq!(never_looked, [(0, 0, 50 + TIMEOUT, LOST), (0, 0, 50 + TIMEOUT, LATE)]);
    assert_eq!((told.in_flight.counts.lost, told.in_flight.counts.waiting, told.in_flight.counts.answered), (1, 0, 0));
    assert_eq!(told.in_flight.missing(), 0, "it came after all");
    told.on_answer(0, 0, 60 + TIMEOUT);
    assert_eq!(told.take(), [(0, 0, 60 + TIMEOUT, DUPLICATE)], "a late answer comes once");
}

#[test]
fn losses_are_told_in_order_and_only_once() {
    let mut told = Fixture::new(config(1, 1));
    (0..5).for_each(|seq| told.sent(seq, 0, 50 + seq));
    told.on_answer(1, 0, 60);
    told.take();
    told.in_flight.expire(52 + TIMEOUT, &mut told.out);
    assert_eq!(told.take(), [(0, 0, 50 + TIMEOUT, LOST), (2, 0, 52 + TIMEOUT, LOST)]);
    assert_eq!((told.in_flight.counts.waiting, told.in_flight.missing()), (2, 4));
    told.in_flight.expire(u64::MAX / 2, &mut told.out);
    told.in_flight.expire(u64::MAX / 2, &mut told.out);
    assert_eq!(told.take().iter().map(|one| one.0).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn unasked_messages_come_at_once_and_are_never_lost() {
    let mut told = Fixture::new(config(1, 5));
    // Number 100 is a multiple of 5.
    (0..6).for_each(|seq| told.sent(seq, 0, 50 + seq));
    assert_eq!(told.take(), [1, 2, 3, 4].map(|seq| (seq, 0, 0, UNASKED)));
    told.on_answer(0, 0, 70);
    told.on_answer(1, 0, 71);
    assert_eq!(
        (told.take(), told.in_flight.counts.unmatched),
        (vec![(0, 0, 70, 0)], 1),
        "an answer that nobody asked for"
    );
    told.in_flight.expire(u64::MAX / 2, &mut told.out);
    assert_eq!(told.take(), [(5, 0, 55 + TIMEOUT, LOST)]);
}

#[test]
fn each_reflector_has_its_own_fate() {
    let mut told = Fixture::new(config(3, 1));
    // One message to all, and one each.
    told.sent(0, ALL, 50);
    (0..3).for_each(|peer| told.sent(1, peer, 60 + peer));
    told.on_answer(1, 2, 70);
    told.on_answer(0, 2, 71);
    told.on_answer(0, 1, 72);
    assert_eq!(told.take(), [(1, 2, 70, 0), (0, 2, 71, REORDERED), (0, 1, 72, 0)], "order is each one's own");
    assert_eq!(told.in_flight.counts.waiting, 3);
    told.in_flight.expire(60 + TIMEOUT, &mut told.out);
    assert_eq!(told.take(), [(0, 0, 50 + TIMEOUT, LOST)], "message 1 is still open for one of them");
    told.in_flight.expire(61 + TIMEOUT, &mut told.out);
    assert_eq!(told.take(), [(1, 0, 60 + TIMEOUT, LOST), (1, 1, 61 + TIMEOUT, LOST)]);
    told.on_answer(0, 7, 80);
    assert_eq!(told.in_flight.counts.unmatched, 1, "there is no such reflector");
}

#[test]
fn an_answer_may_be_told_before_its_message() {
    let mut told = Fixture::new(config(1, 1));
    told.on_answer(1, 0, 61);
    told.on_answer(0, 0, 60);
    told.in_flight.retry(false, &mut told.out);
    assert_eq!(told.take(), []);
    told.sent(0, 0, 50);
    told.in_flight.retry(false, &mut told.out);
    assert_eq!(told.take(), [(0, 0, 60, 0)]);
    told.sent(1, 0, 51);
    told.in_flight.retry(false, &mut told.out);
    assert_eq!(told.take(), [(1, 0, 61, 0)]);
    told.on_answer(9, 0, 70);
    told.in_flight.retry(true, &mut told.out);
    assert_eq!((told.take(), told.in_flight.counts.unmatched), (vec![], 1), "no such message was ever sent");
    told.in_flight.on_answer(&[99, 0, 70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &mut told.out);
    assert_eq!((told.take(), told.in_flight.counts.unmatched), (vec![], 2), "a straggler of the run before");
}

#[test]
fn what_has_no_room_is_given_up_and_counted() {
    let mut told = Fixture::new(config(1, 1));
    (0..1030).for_each(|seq| told.sent(seq, 0, 50 + seq));
    let given_up = told.take();
    assert_eq!(given_up.len(), 6);
    assert!(given_up.iter().all(|one| one.3 == LOST));
    assert_eq!((told.in_flight.counts.overrun, told.in_flight.counts.lost), (6, 6));
    told.on_answer(3, 0, 2000);
    assert_eq!((told.take(), told.in_flight.counts.unmatched), (vec![], 1), "its place is another one's now");
}

#[test]
fn the_flags_of_a_warm_up_are_on_every_sample() {
    let mut told = Fixture::new(InFlightConfig { flags: SampleFlags::WARMUP, ..config(1, 2) });
    told.sent(0, 0, 50);
    told.sent(1, 0, 51);
    told.on_answer(0, 0, 60);
    assert!(told.out.iter().all(|one| one.sample.flags.has(SampleFlags::WARMUP)) && told.out.len() == 2);
}

#[test]
fn a_book_allocates_nothing_after_its_start() {
    let mut told = Fixture::new(config(2, 3));
    told.out.reserve(10_000);
    let counted = allocation_counter::measure(|| {
        for seq in 0..100_000 {
            told.sent(seq, ALL, 50 + 10 * seq);
            if seq % 7 != 0 {
                told.on_answer(seq, 1, 55 + 10 * seq);
            }
            told.in_flight.retry(false, &mut told.out);
            told.in_flight.expire(50 + 10 * seq, &mut told.out);
            told.out.clear();
        }
    });
    assert_eq!(counted.count_total, 0);
    assert!(told.in_flight.counts.lost > 30_000 && told.in_flight.counts.overrun == 0);
}

#[test]
fn the_word_of_a_send_to_the_next_reflector_may_come_late() {
    let mut told = Fixture::new(config(2, 1));
    told.sent(0, 0, 50);
    // The first answers and the second answers too, before it is known that anything was sent to the second.
    told.on_answer(0, 0, 60);
    told.on_answer(0, 1, 61);
    told.in_flight.expire(70, &mut told.out);
    assert_eq!(told.take(), [(0, 0, 60, 0)]);
    told.sent(0, 1, 51);
    told.in_flight.retry(false, &mut told.out);
    assert_eq!(told.take(), [(0, 1, 61, 0)]);
    // Without an answer it is lost, not forgotten.
    told.sent(1, 0, 80);
    told.on_answer(1, 0, 90);
    told.in_flight.expire(10_000, &mut told.out);
    told.take();
    told.sent(1, 1, 81);
    told.in_flight.expire(10_000, &mut told.out);
    assert_eq!(told.take(), [(1, 1, 81 + TIMEOUT, LOST)]);
}
