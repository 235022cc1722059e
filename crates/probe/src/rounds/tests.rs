//! The loop against paths that drop, double, delay and reorder by script: each count is exact.

use super::*;
use model::{LatencyKind, Messages};
use record::{Recorder, RecorderConfig};
use std::collections::VecDeque;
use wire::{Tier, data};

const TIMEOUT: Duration = Duration::from_millis(40);

/// A ping, a pong, nothing between.
pub(crate) fn plan(bytes: usize) -> Plan {
    Plan {
        pings: 1,
        pongs: 1,
        send_bytes: bytes,
        receive_bytes: bytes,
        more: false,
        framing: Framing::Own { tier: Tier::for_size(bytes), tag: 0xabcd },
        counts_losses: true,
        fresh: false,
        timeout_ns: u64::try_from(TIMEOUT.as_nanos()).unwrap(),
        gap: Gap::default(),
        interval_ns: 0,
        pace_ns: 0,
    }
}

/// What the far end does with the answer to one message.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Arrive,
    Vanish,
    Double,
    /// Held until that many further messages were sent; comes before their answers.
    Before(u32),
    /// Held until that many further messages were sent; comes after their answers.
    After(u32),
}

/// Answers by script; the message's place in the script is how many were sent before it.
struct Script {
    fates: Vec<(usize, Fate)>,
    sent: usize,
    held: Vec<(usize, bool, Vec<u8>)>,
    waiting: VecDeque<Vec<u8>>,
    drained: u64,
}

impl Script {
    fn new(fates: &[(usize, Fate)]) -> Self {
        Self { fates: fates.to_vec(), sent: 0, held: Vec::new(), waiting: VecDeque::new(), drained: 0 }
    }

    fn release(&mut self, before: bool) {
        let now = self.sent;
        for (due, early, answer) in std::mem::take(&mut self.held) {
            if due == now && early == before {
                self.waiting.push_back(answer);
            } else {
                self.held.push((due, early, answer));
            }
        }
    }
}

impl Path for Script {
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        let fate = self.fates.iter().find(|(at, _)| *at == self.sent).map_or(Fate::Arrive, |(_, fate)| *fate);
        self.release(true);
        match fate {
            Fate::Arrive => self.waiting.push_back(message.to_vec()),
            Fate::Vanish => {}
            Fate::Double => {
                self.waiting.push_back(message.to_vec());
                self.waiting.push_back(message.to_vec());
            }
            Fate::Before(later) => self.held.push((self.sent + later as usize, true, message.to_vec())),
            Fate::After(later) => self.held.push((self.sent + later as usize, false, message.to_vec())),
        }
        self.release(false);
        self.sent += 1;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
        let Some(answer) = self.waiting.pop_front() else {
            std::thread::sleep(TIMEOUT + Duration::from_millis(1));
            return Ok(Received::TimedOut);
        };
        let bytes = answer.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&answer[..bytes]);
        Ok(Received::Bytes(answer.len()))
    }

    fn drain(&mut self, _scratch: &mut [u8]) -> Result<u64, PathError> {
        let waiting = self.waiting.len() as u64;
        self.waiting.clear();
        self.drained += waiting;
        Ok(waiting)
    }
}

struct Bench {
    clock: Clock,
    stop: AtomicBool,
    progress: Progress,
}

impl Bench {
    fn new() -> Self {
        Self { clock: Clock::raw(), stop: AtomicBool::new(false), progress: Progress::new() }
    }

    fn rounds(&self, plan: Plan) -> Rounds<'_> {
        Rounds::new(self.clock, plan, 1, 64, &self.stop, &self.progress)
    }

    fn count(&self, plan: Plan, rounds: &Rounds<'_>) -> Messages {
        let config = RecorderConfig {
            has_header: plan.framing.number_bytes() > 0,
            ..RecorderConfig::new(self.clock.rate(), LatencyKind::Rtt, 1000)
        };
        let mut recorder = Recorder::new(config);
        recorder.ingest(&rounds.samples);
        recorder.finish(None).messages
    }
}

fn run(bytes: usize, rounds: u64, fates: &[(usize, Fate)]) -> Messages {
    let bench = Bench::new();
    let plan = plan(bytes);
    let mut loop_ = bench.rounds(plan);
    let mut path = Script::new(fates);
    let ended = loop_.batch(&mut path, Limit::rounds(rounds), Phase::Timed);
    assert_eq!(ended, Ok(()));
    assert_eq!(loop_.timed_rounds, rounds);
    bench.count(plan, &loop_)
}

#[test]
fn a_sound_path_loses_nothing() {
    for bytes in [0, 1, 7, 8, 15, 16, 32, 5000] {
        let known = (bytes > 0).then_some(0);
        let expected = Messages {
            sent: 50,
            received: 50,
            duplicated: known,
            reordered: known,
            late: known,
            ..Messages::default()
        };
        assert_eq!(run(bytes, 50, &[]), expected, "{bytes} bytes");
    }
}

#[test]
fn lost_doubled_late_and_reordered_answers_are_counted_exactly() {
    let fates = [(3, Fate::Vanish), (5, Fate::Double), (8, Fate::Before(1)), (12, Fate::After(1)), (20, Fate::Double)];
    for bytes in [1, 4, 8, 32] {
        let messages = run(bytes, 30, &fates);
        let expected = Messages {
            sent: 30,
            received: 27,
            lost: 3,
            duplicated: Some(2),
            reordered: Some(1),
            reorder_depth: None,
            late: Some(2),
        };
        assert_eq!(messages, expected, "{bytes} bytes");
    }
}

#[test]
fn a_loss_without_numbers_waits_until_the_path_is_silent() {
    // The answer to the second message comes with the third one's, which would otherwise be taken for it.
    let bench = Bench::new();
    let plan = plan(0);
    let mut rounds = bench.rounds(plan);
    let mut path = Script::new(&[(1, Fate::Vanish)]);
    let before = bench.clock.now();
    rounds.batch(&mut path, Limit::rounds(5), Phase::Timed).unwrap();
    let spent = Duration::from_nanos(bench.clock.now() - before);
    let messages = bench.count(plan, &rounds);
    assert_eq!((messages.sent, messages.received, messages.lost), (5, 4, 1));
    assert_eq!(messages.duplicated, None, "nothing tells doubles apart");
    assert!(spent >= 2 * TIMEOUT, "the loss and the silence after it: {spent:?}");
}

#[test]
fn late_answers_without_numbers_are_drained() {
    let bench = Bench::new();
    let mut rounds = bench.rounds(plan(0));
    let mut path = Script::new(&[(0, Fate::Vanish)]);
    // Arrives while the loop waits for silence.
    path.waiting.clear();
    let mut first = true;
    struct Late<'a>(&'a mut Script, &'a mut bool);
    impl Path for Late<'_> {
        fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
            self.0.send(message, more)
        }
        fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
            let received = self.0.receive(buffer);
            if received == Ok(Received::TimedOut) && std::mem::take(self.1) {
                self.0.waiting.push_back(Vec::new());
            }
            received
        }
        fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
            self.0.drain(scratch)
        }
    }
    rounds.batch(&mut Late(&mut path, &mut first), Limit::rounds(3), Phase::Timed).unwrap();
    assert_eq!(path.drained, 1, "the late answer was thrown away");
    let flags: Vec<bool> = rounds.samples.iter().map(|sample| sample.flags.has(SampleFlags::LOST)).collect();
    assert_eq!(flags, [true, false, false]);
}

#[test]
fn several_pings_and_pongs_are_one_round() {
    /// Answers every third message with two.
    struct ThreeToTwo(Vec<u8>, u32, u32);
    impl Path for ThreeToTwo {
        fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
            self.1 += 1;
            assert_eq!(more, !self.1.is_multiple_of(3), "MSG_MORE on all but the last");
            self.0 = message.to_vec();
            if self.1.is_multiple_of(3) {
                self.2 += 2;
            }
            Ok(())
        }
        fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
            assert!(self.2 > 0, "no answer is due");
            self.2 -= 1;
            buffer.copy_from_slice(&self.0);
            Ok(Received::Bytes(buffer.len()))
        }
    }
    let bench = Bench::new();
    let plan = Plan { pings: 3, pongs: 2, more: true, ..plan(32) };
    let mut rounds = bench.rounds(plan);
    let mut path = ThreeToTwo(Vec::new(), 0, 0);
    rounds.batch(&mut path, Limit::rounds(10), Phase::Timed).unwrap();
    assert_eq!((path.1, path.2), (30, 0));
    assert_eq!((rounds.samples.len(), rounds.answers, rounds.rounds_sent()), (10, 20, 10));
}

#[test]
fn a_silent_stream_is_broken_and_keeps_its_samples() {
    let bench = Bench::new();
    let mut rounds = bench.rounds(Plan { counts_losses: false, ..plan(32) });
    let mut path = Script::new(&[(4, Fate::Vanish)]);
    let ended = rounds.batch(&mut path, Limit::rounds(10), Phase::Timed);
    assert_eq!(ended, Err(PassEnd::Silent(plan(32).timeout_ns / 1_000_000)));
    assert_eq!(rounds.samples.len(), 4);
}

#[test]
fn strays_of_another_size_or_session_are_no_answers() {
    struct Noisy(Script);
    impl Path for Noisy {
        fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
            self.0.waiting.push_back(vec![0; 5]);
            self.0.waiting.push_back(vec![7; message.len()]);
            self.0.send(message, more)
        }
        fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
            self.0.receive(buffer)
        }
        fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
            self.0.drain(scratch)
        }
    }
    let bench = Bench::new();
    let plan = plan(32);
    let mut rounds = bench.rounds(plan);
    rounds.batch(&mut Noisy(Script::new(&[])), Limit::rounds(6), Phase::Timed).unwrap();
    assert_eq!(rounds.unmatched.foreign, 12);
    let messages = bench.count(plan, &rounds);
    assert_eq!((messages.received, messages.lost, messages.duplicated), (6, 0, Some(0)));
}

#[test]
fn a_request_to_end_stops_without_a_half_round() {
    let bench = Bench::new();
    let mut rounds = bench.rounds(plan(32));
    bench.stop.store(true, Ordering::Relaxed);
    let mut path = Script::new(&[(0, Fate::Vanish)]);
    let ended = rounds.batch(&mut path, Limit::rounds(10), Phase::Timed);
    assert_eq!(ended, Err(PassEnd::Stopped));
    assert_eq!((rounds.samples.len(), rounds.timed_rounds), (0, 0));
}

#[test]
fn untimed_rounds_are_flagged_and_take_no_number_of_the_timed_ones() {
    let bench = Bench::new();
    let plan = plan(32);
    let mut rounds = bench.rounds(plan);
    let mut path = Script::new(&[(1, Fate::Vanish), (3, Fate::Before(1))]);
    rounds.batch(&mut path, Limit::rounds(2), Phase::WarmUp).unwrap();
    assert!(rounds.samples.iter().all(|sample| sample.flags.has(SampleFlags::WARMUP)));
    assert_eq!(bench.count(plan, &rounds).sent, 0, "a loss in the warm-up is not counted");
    rounds.batch(&mut path, Limit::rounds(5), Phase::Timed).unwrap();
    assert_eq!(rounds.timed_rounds, 5);
    let seqs: Vec<u64> = rounds.samples.iter().map(|sample| sample.seq).collect();
    assert_eq!(seqs, [0, 1, 1, 2, 3, 4], "the second timed round was lost and answered late");
}

#[test]
fn samples_are_in_the_order_of_time() {
    let bench = Bench::new();
    let mut rounds = bench.rounds(plan(16));
    rounds.batch(&mut Script::new(&[]), Limit::rounds(64), Phase::Timed).unwrap();
    let samples = &rounds.samples;
    assert!(samples.iter().all(|sample| sample.sent <= sample.received && sample.intended == sample.sent));
    assert!(samples.windows(2).all(|pair| pair[0].received <= pair[1].sent));
    assert!(samples.iter().enumerate().all(|(at, sample)| sample.seq == at as u64));
}

#[test]
fn a_time_limit_ends_a_batch_after_the_round_that_passed_it() {
    let bench = Bench::new();
    let mut rounds = bench.rounds(plan(16));
    let limit = Limit { rounds: 64, until: bench.clock.now(), end: u64::MAX };
    rounds.batch(&mut Script::new(&[]), limit, Phase::Timed).unwrap();
    assert_eq!(rounds.samples.len(), 1);
}

#[test]
fn a_flood_of_doubles_ends_in_a_count_and_not_in_memory() {
    struct Flood(u32);
    impl Path for Flood {
        fn send(&mut self, _: &[u8], _: bool) -> Result<(), PathError> {
            Ok(())
        }
        fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
            self.0 += 1;
            // An old number until enough came, then the current one (the first is 1).
            data::write(if self.0 < 5000 { 99 } else { 1 }, 0xabcd, buffer);
            Ok(Received::Bytes(buffer.len()))
        }
    }
    let bench = Bench::new();
    let mut rounds = bench.rounds(Plan { timeout_ns: 60_000_000_000, ..plan(32) });
    let room = rounds.samples.capacity();
    rounds.batch(&mut Flood(0), Limit::rounds(1), Phase::Timed).unwrap();
    assert_eq!(rounds.samples.capacity(), room);
    // 4999 doubles and the round itself.
    assert_eq!(rounds.unmatched.overrun + rounds.samples.len() as u64, 5000);
}

/// Ticks of the raw clock are ns.
const INTERVAL_NS: u64 = 3_000_000;

#[test]
fn a_schedule_is_fixed_by_its_start() {
    let bench = Bench::new();
    let mut rounds = bench.rounds(Plan { interval_ns: INTERVAL_NS, ..plan(32) });
    // A time-out of many intervals in the middle, and a batch border after it.
    let mut path = Script::new(&[(6, Fate::Vanish)]);
    assert_eq!(rounds.batch(&mut path, Limit::rounds(2), Phase::WarmUp), Ok(()));
    let before = bench.clock.now();
    let mut samples = Vec::new();
    for size in [5, 10] {
        assert_eq!(rounds.batch(&mut path, Limit::rounds(size), Phase::Timed), Ok(()));
        samples.extend_from_slice(&rounds.samples);
    }
    let first = samples[0].intended;
    assert!(first >= before + INTERVAL_NS, "the first one comes an interval after the warm-up");
    for sample in &samples {
        assert_eq!(sample.intended, first + sample.seq * INTERVAL_NS);
        assert!(sample.sent >= sample.intended, "nothing leaves early: {sample:?}");
    }
    let late = |seq: usize| samples[seq].sent - samples[seq].intended;
    assert!(samples[4].flags.has(SampleFlags::LOST));
    // The wait for the lost one is shown by those behind it.
    let waited = samples[4].received - samples[4].intended;
    assert!(late(5) >= waited - INTERVAL_NS && late(6) >= waited - 2 * INTERVAL_NS, "{samples:?}");
}

#[test]
fn a_schedule_ends_with_the_time_and_with_the_program() {
    let bench = Bench::new();
    let plan = Plan { interval_ns: 60_000_000_000, ..plan(32) };
    let mut rounds = bench.rounds(plan);
    let limit = Limit { rounds: 5, until: u64::MAX, end: bench.clock.now() + INTERVAL_NS };
    assert_eq!(rounds.batch(&mut Script::new(&[]), limit, Phase::Timed), Ok(()));
    assert!(bench.clock.now() >= limit.end && rounds.samples.is_empty());
    bench.stop.store(true, Ordering::Relaxed);
    let limit = Limit { end: u64::MAX, ..limit };
    assert_eq!(rounds.batch(&mut Script::new(&[]), limit, Phase::Timed), Err(PassEnd::Stopped));
    assert!(rounds.samples.is_empty());
}
