//! Self-cost of a message: both loops around a path that does nothing, and the counting and recording.

use super::in_flight::{InFlight, InFlightConfig};
use super::loop_clock::LoopClock;
use super::loops::{LoopConfig, RECEIVED_WORDS, Receiver, SENT_WORDS, Sender};
use super::ring::Ring;
use super::schedule::Schedule;
use clock::Clock;
use model::SampleFlags;
use model::result::SelfCost;
use net::{Arrival, Inbox, Message, Outbox, PathError};
use record::{Paced, PacedConfig};
use std::sync::atomic::AtomicBool;
use wire::data;

/// Messages of one trial; the quickest of [`TRIALS`] is taken, because only disturbances make one slower.
const MESSAGES: u64 = 1024;
const TRIALS: usize = 5;
/// Longest message for the null path: the loops touch only the header, whatever the size.
const MOST_BYTES: usize = 64;

struct NullOutbox;

impl Outbox for NullOutbox {
    #[inline]
    fn send(&mut self, _to: u16, message: &[u8]) -> Result<(), PathError> {
        std::hint::black_box(message);
        Ok(())
    }
}

/// Delivers [`MESSAGES`] answers, then stops.
struct NullInbox(u64);

impl Inbox for NullInbox {
    #[inline]
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        if self.0 == MESSAGES {
            return Ok(Arrival::Stopped);
        }
        data::write(self.0, 0, buffer);
        self.0 += 1;
        Ok(Arrival::Message(Message { bytes: buffer.len(), ..Message::default() }))
    }

    fn look(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        self.wait(buffer)
    }
}

/// The clock, without waiting for anything.
struct NoWait(Clock);

impl LoopClock for NoWait {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn realtime_ns(&self) -> u64 {
        clock::realtime_ns()
    }

    fn wait_until(&mut self, _tick: u64, _halt: &AtomicBool) -> bool {
        true
    }

    fn run_queue_wait_ns(&self) -> Option<u64> {
        None
    }
}

/// Measures both. `startup_ns` is left to the caller.
pub(crate) fn measure(clock: Clock, config: &PacedConfig, size: u32) -> SelfCost {
    let bytes = (size as usize).min(MOST_BYTES);
    let wall = config.stamps != model::Stamps::None;
    let loop_config = LoopConfig {
        begin: 0,
        until: u64::MAX,
        rate: clock.rate(),
        first_number: 0,
        tags: vec![0],
        bytes,
        wall,
        peers: 1,
        repairs: false,
    };
    let quickest = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min).unwrap_or(0.0);
    let all: Vec<(f64, f64)> = (0..TRIALS).map(|_| trial(clock, config, &loop_config)).collect();
    SelfCost {
        clock_read_ns: clock.read_cost_ns(),
        loop_ns: quickest(&mut all.iter().map(|(looped, _)| *looped)),
        record_ns: quickest(&mut all.iter().map(|(_, recorded)| *recorded)),
        startup_ns: None,
    }
}

/// ns a message: in the loops, and in counting and recording.
fn trial(clock: Clock, config: &PacedConfig, loop_config: &LoopConfig) -> (f64, f64) {
    let room = usize::try_from(MESSAGES).unwrap_or(0);
    let (mut sent, mut received) = (Ring::<SENT_WORDS>::new(room), Ring::<RECEIVED_WORDS>::new(room));
    let ((sent_in, mut sent_out), (received_in, mut received_out)) = (sent.ends(), received.ends());
    let halt = AtomicBool::new(false);
    let schedule = Schedule::even(1e9, u64::MAX, MESSAGES);
    let (mut null_outbox, mut null_inbox) = (NullOutbox, NullInbox(0));
    let sender = Sender::new(loop_config, &mut null_outbox, sent_in);
    let receiver = Receiver::new(loop_config, &mut null_inbox, received_in);
    let each = |from: u64, to: u64| clock.ns(to.saturating_sub(from)) as f64 / MESSAGES as f64;
    let start = clock.now();
    std::hint::black_box(sender.run(&mut NoWait(clock), schedule, &halt, || {}));
    std::hint::black_box(receiver.run(&NoWait(clock), &halt, || {}));
    let looped = each(start, clock.now());
    let in_flight_config =
        InFlightConfig { first_number: 0, every: 1, peers: 1, timeout: u64::MAX, flags: SampleFlags::default(), room };
    let (mut in_flight, mut samples) = (InFlight::new(in_flight_config), Vec::with_capacity(2 * room));
    let mut paced = Paced::new(PacedConfig { raw_capacity: 0, ..config.clone() });
    paced.begin(start);
    let (sent_until, received_until) = (sent_out.written(), received_out.written());
    let start = clock.now();
    while let Some(entry) = sent_out.pop(sent_until) {
        in_flight.sent(&entry, &mut samples);
    }
    while let Some(entry) = received_out.pop(received_until) {
        in_flight.on_answer(&entry, &mut samples);
    }
    paced.ingest(&samples);
    (looped, each(start, clock.now()))
}
