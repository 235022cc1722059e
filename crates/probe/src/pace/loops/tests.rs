//! The loops in virtual time: a tick is a nanosecond, and time passes only where the script says so. What they tell goes
//! through `InFlight` into the recorder, as in a measurement.

use super::super::in_flight::{InFlight, InFlightConfig};
use super::super::ring::{Consumer, Ring};
use super::*;
use model::{LatencyKind, PaceSpec, PacedSample, SampleFlags, Shape};
use record::{Paced, PacedConfig, Recorded};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

const MS: u64 = 1_000_000;
/// How long a message is under way, each way, and at the reflector.
const HOP: u64 = 5_000;
const WORK: u64 = 1_000;
const TIMEOUT: u64 = 500 * MS;

/// Somebody stands still: nothing of theirs happens from `from` to `until`.
#[derive(Debug, Clone, Copy, Default)]
struct Stall {
    from: u64,
    until: u64,
}

impl Stall {
    fn of(from_ms: u64, ms: u64) -> Self {
        Self { from: from_ms * MS, until: (from_ms + ms) * MS }
    }

    fn after(self, at: u64) -> u64 {
        if (self.from..self.until).contains(&at) { self.until } else { at }
    }
}

/// A thread's time.
struct Virtual {
    now: AtomicU64,
    /// What a look at the clock takes.
    step: u64,
    stall: Stall,
    /// Time in the run queue.
    waited: AtomicU64,
}

impl Virtual {
    fn new(step: u64, stall: Stall) -> Self {
        Self { now: AtomicU64::new(0), step, stall, waited: AtomicU64::new(0) }
    }

    fn at(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn set(&self, at: u64) {
        self.now.store(self.stall.after(at), Ordering::Relaxed);
    }
}

impl LoopClock for &Virtual {
    fn now(&self) -> u64 {
        self.set(self.at() + self.step);
        self.at()
    }

    fn realtime_ns(&self) -> u64 {
        self.at() + 1_000_000_000_000
    }

    fn run_queue_wait_ns(&self) -> Option<u64> {
        Some(self.waited.load(Ordering::Relaxed))
    }

    fn wait_until(&mut self, tick: u64, halt: &AtomicBool) -> bool {
        // A sleep is late by 2 µs.
        self.set(tick + 2_000);
        !halt.load(Ordering::Relaxed)
    }
}

/// The reflector and both ways to it.
#[derive(Default)]
struct World {
    stall: Stall,
    /// When the reflector is free again.
    free: u64,
    answers: VecDeque<(u64, u16, Vec<u8>)>,
    sends: u64,
    /// Sending fails for good after so many messages.
    broken_after: Option<u64>,
    /// So many sends are interrupted by a signal first.
    interrupted: u64,
    /// Sending takes so long.
    slow: u64,
    /// The way refuses a message first, and takes it when that time is over.
    refuses: u64,
    /// Whoever waits for it is in the run queue for so long of that, in ns.
    in_queue: u64,
}

struct Out<'a>(&'a Mutex<World>, &'a Virtual);

impl Outbox for Out<'_> {
    fn send(&mut self, to: u16, message: &[u8]) -> Result<(), PathError> {
        let mut world = self.0.lock().unwrap();
        if world.interrupted > 0 {
            world.interrupted -= 1;
            return Err(PathError::Interrupted);
        }
        if world.broken_after == Some(world.sends) {
            return Err(PathError::Closed);
        }
        world.sends += 1;
        self.1.set(self.1.at() + world.slow + world.refuses);
        self.1.waited.fetch_add(world.in_queue, Ordering::Relaxed);
        let rx = world.stall.after((self.1.at() + HOP).max(world.free));
        world.free = rx + WORK;
        let mut answer = message.to_vec();
        data::write_ticks(rx, rx + WORK, &mut answer);
        world.answers.push_back((rx + WORK + HOP, to, answer));
        Ok(())
    }

    fn try_send(&mut self, to: u16, message: &[u8]) -> Result<bool, PathError> {
        let refuses = self.0.lock().unwrap().refuses > 0;
        if refuses { Ok(false) } else { self.send(to, message).map(|()| true) }
    }
}

/// Brings the answers at their times; then stops.
struct Incoming<'a> {
    world: &'a Mutex<World>,
    time: &'a Virtual,
    halt: &'a AtomicBool,
    sent_all: &'a AtomicBool,
}

impl Inbox for Incoming<'_> {
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        let Some((at, from, answer)) = self.world.lock().unwrap().answers.pop_front() else {
            return Ok(Arrival::Stopped);
        };
        // A blocked receiver wakes up 1 µs later.
        self.time.set(self.time.at().max(at + 1_000));
        buffer.copy_from_slice(&answer);
        Ok(Arrival::Message(Message { bytes: answer.len(), from, ..Message::default() }))
    }

    fn look(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        let mut world = self.world.lock().unwrap();
        self.time.set(self.time.at() + 100);
        let due = world.answers.front().is_some_and(|(at, ..)| *at <= self.time.at());
        if !due {
            let over = world.answers.is_empty() && self.sent_all.load(Ordering::Relaxed);
            self.halt.fetch_or(over, Ordering::Relaxed);
            return Ok(Arrival::Nothing);
        }
        let (_, from, answer) = world.answers.pop_front().unwrap();
        buffer.copy_from_slice(&answer);
        Ok(Arrival::Message(Message { bytes: answer.len(), from, ..Message::default() }))
    }
}

fn loop_config(peers: u16) -> LoopConfig {
    LoopConfig {
        begin: MS,
        until: 2_000 * MS,
        rate: TickRate::NANOSECONDS,
        first_number: 10,
        tags: (0..u64::from(peers)).map(|peer| 70 + peer).collect(),
        repairs: false,
        bytes: 64,
        wall: false,
        peers,
    }
}

/// What a run left behind.
struct Done {
    send: SendDone,
    receive: ReceiveDone,
    recorded: Recorded,
    samples: Vec<PacedSample>,
}

fn count(
    loop_config: &LoopConfig,
    rate: f64,
    mut sent: Consumer<'_, SENT_WORDS>,
    mut received: Consumer<'_, RECEIVED_WORDS>,
) -> (Recorded, Vec<PacedSample>) {
    let config = InFlightConfig {
        first_number: loop_config.first_number,
        every: 1,
        peers: loop_config.peers,
        timeout: TIMEOUT,
        flags: SampleFlags::default(),
        room: 1 << 16,
    };
    let (mut in_flight, mut samples) = (InFlight::new(config), Vec::new());
    let (sent_until, received_until) = (sent.written(), received.written());
    while let Some(entry) = sent.pop(sent_until) {
        in_flight.sent(&entry, &mut samples);
    }
    while let Some(entry) = received.pop(received_until) {
        in_flight.on_answer(&entry, &mut samples);
    }
    in_flight.retry(true, &mut samples);
    in_flight.expire(u64::MAX / 2, &mut samples);
    assert_eq!((in_flight.counts.overrun, in_flight.counts.unmatched), (0, 0));
    let peers = vec![record::PacedPeer::default(); usize::from(loop_config.peers)];
    let peers = peers.into_iter().enumerate().map(|(at, peer)| record::PacedPeer { host: at.to_string(), ..peer });
    let config = PacedConfig {
        timeout_ns: TIMEOUT,
        peers: peers.collect(),
        ..PacedConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, rate)
    };
    let mut paced = Paced::new(config);
    paced.begin(loop_config.begin);
    paced.ingest(&samples);
    (paced.finish(None), samples)
}

/// A sender and a receiver, each in its own time, at `rate` for `ms`.
fn play(rate: f64, ms: u64, sender: Stall, reflector: Stall) -> Done {
    play_in(rate, ms, sender, World { stall: reflector, ..World::default() }, &loop_config(1))
}

fn play_in(rate: f64, ms: u64, sender: Stall, world: World, loop_config: &LoopConfig) -> Done {
    let (mut sent, mut received) = (Ring::<SENT_WORDS>::new(1 << 16), Ring::<RECEIVED_WORDS>::new(1 << 16));
    let ((sent_in, sent_out), (received_in, received_out)) = (sent.ends(), received.ends());
    let (halt, sent_all) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut here, there) = (&Virtual::new(20, sender), &Virtual::new(20, Stall::default()));
    let world = Mutex::new(world);
    let schedule = Schedule::even(rate, ms * MS, u64::MAX);
    let send = Sender::new(loop_config, &mut Out(&world, here), sent_in).run(&mut here, schedule, &halt, || {});
    let mut inbox = Incoming { world: &world, time: there, halt: &halt, sent_all: &sent_all };
    let receive = Receiver::new(loop_config, &mut inbox, received_in).run(&there, &halt, || {});
    let (recorded, samples) = count(loop_config, rate, sent_out, received_out);
    Done { send, receive, recorded, samples }
}

/// Answered messages that took longer than 1 ms, from the actual and from the intended send.
fn slow(done: &Done) -> (usize, usize) {
    let over = |from: fn(&model::Sample) -> u64| {
        let answered = done.samples.iter().filter(|one| one.sample.flags == SampleFlags::default());
        answered.filter(|one| one.sample.received - from(&one.sample) > MS).count()
    };
    (over(|sample| sample.sent), over(|sample| sample.intended))
}

fn max_ms(latency: Option<&model::Latency>) -> u64 {
    latency.and_then(|latency| latency.max_ns).unwrap() / MS
}

#[test]
fn a_calm_run_is_on_time() {
    let done = play(1000.0, 1000, Stall::default(), Stall::default());
    assert_eq!((done.send.ended, done.send.sent, done.send.unsent, done.send.blocked), (Ended::Done, 1000, 0, 0));
    assert_eq!(done.receive.ended, Ended::Halted);
    assert_eq!(slow(&done), (0, 0));
    let recorded = &done.recorded;
    assert_eq!((recorded.messages.sent, recorded.messages.received, recorded.messages.lost), (1000, 1000, 0));
    assert!(recorded.lateness.as_ref().unwrap().max_ns.unwrap() < 5_000);
    let rate = &recorded.pace.as_ref().unwrap().rate;
    assert!((rate.achieved_pps / 1000.0 - 1.0).abs() < 0.003 && rate.behind == 0, "{rate:?}");
    for (seq, one) in done.samples.iter().enumerate() {
        assert_eq!(one.sample.intended, MS + seq as u64 * MS, "the schedule is its start and nothing else");
        assert!(one.sample.peer_rx > one.sample.sent && one.sample.peer_tx < one.sample.received);
    }
}

#[test]
fn a_sender_that_stands_still_shows_from_the_intended_time_only() {
    let done = play(1000.0, 1000, Stall::of(500, 100), Stall::default());
    let (actual, intended) = slow(&done);
    assert_eq!(actual, 0, "each message was quick once it was sent");
    assert!((98..=101).contains(&intended), "{intended} messages were meant for the time that it stood still");
    let recorded = &done.recorded;
    assert_eq!(recorded.messages.received, 1000, "none is left out");
    assert_eq!(max_ms(Some(&recorded.latency)), 0);
    assert!((98..=100).contains(&max_ms(recorded.latency_intended.as_ref())));
    assert!((98..=100).contains(&max_ms(recorded.lateness.as_ref())));
    let rate = &recorded.pace.as_ref().unwrap().rate;
    assert!((98..=101).contains(&rate.behind) && (97..=101).contains(&rate.most_behind), "{rate:?}");
    // The schedule goes on where it was meant to.
    let last = done.samples.last().unwrap().sample;
    assert_eq!(last.intended, MS + 999 * MS);
    assert!(last.sent - last.intended < 5_000);
}

#[test]
fn a_reflector_that_stands_still_shows_from_both_times() {
    let done = play(1000.0, 1000, Stall::default(), Stall::of(500, 100));
    let (actual, intended) = slow(&done);
    assert!((98..=101).contains(&actual) && actual == intended, "{actual} {intended}");
    let recorded = &done.recorded;
    for latency in [Some(&recorded.latency), recorded.latency_intended.as_ref()] {
        assert!((98..=100).contains(&max_ms(latency)), "{latency:?}");
    }
    assert_eq!(max_ms(recorded.lateness.as_ref()), 0, "the sender was in time");
}

#[test]
fn a_sender_that_cannot_keep_up_skips_nothing_and_says_so() {
    // Each send takes 2 ms where 1 ms is asked for.
    let world = World { slow: 2 * MS, ..World::default() };
    let done = play_in(1000.0, 500, Stall::default(), world, &loop_config(1));
    assert_eq!((done.send.sent, done.send.unsent, done.send.blocked), (500, 0, 0), "nobody refused anything");
    let last = done.samples.iter().max_by_key(|one| one.sample.seq).unwrap().sample;
    assert_eq!((last.seq, last.intended), (499, MS + 499 * MS));
    assert!(last.sent - last.intended > 450 * MS, "it is as late as it is");
    // Its time is over at twice the rate.
    let world = World { slow: 4 * MS, ..World::default() };
    let loop_config = LoopConfig { until: 1000 * MS, ..loop_config(1) };
    let done = play_in(1000.0, 500, Stall::default(), world, &loop_config);
    assert_eq!(done.send.sent + done.send.unsent, 500);
    assert!((240..=251).contains(&done.send.sent), "{:?}", done.send);
}

/// Messages more than a distance late, by whose doing: the sender's, in all.
fn behind(done: &Done) -> (u64, u64) {
    let pace = done.recorded.pace.as_ref().unwrap();
    (pace.own_behind, pace.rate.behind)
}

#[test]
fn only_a_refusal_is_the_paths_doing_and_not_a_send_that_lasts() {
    // The thread loses its CPU for 2 ms in each send call: nobody refused anything.
    let displaced = play_in(1000.0, 500, Stall::default(), World { slow: 2 * MS, ..World::default() }, &loop_config(1));
    let (own, all) = behind(&displaced);
    assert!(all > 490 && own == all, "{own} of {all}");
    // The path takes each message 2 ms later.
    let refused =
        play_in(1000.0, 500, Stall::default(), World { refuses: 2 * MS, ..World::default() }, &loop_config(1));
    let (own, all) = behind(&refused);
    assert!(all > 490 && own == 0, "{own} of {all}");
    assert_eq!((refused.send.blocked, refused.send.blocked_ticks / MS), (500, 1000));
    // The same, but for most of the wait the thread was ready and had no CPU.
    let world = World { refuses: 2 * MS, in_queue: 1_900_000, ..World::default() };
    let ready = play_in(1000.0, 500, Stall::default(), world, &loop_config(1));
    let (own, all) = behind(&ready);
    assert!(all > 490 && own > 490, "{own} of {all}");
}

#[test]
fn a_clump_that_is_refused_after_a_stall_is_the_stalls() {
    // The sender stands still for 100 ms; the path then takes the clump at 5 messages a ms.
    let world = World { refuses: MS / 5, ..World::default() };
    let done = play_in(1000.0, 1000, Stall::of(500, 100), world, &loop_config(1));
    let (own, all) = behind(&done);
    assert!(all > 100 && own > 95, "{own} of {all}");
    assert!(done.send.blocked_ticks < 300 * MS);
}

#[test]
fn a_way_that_breaks_ends_the_sender_with_the_reason() {
    let world = World { broken_after: Some(7), interrupted: 3, ..World::default() };
    let done = play_in(1000.0, 100, Stall::default(), world, &loop_config(1));
    assert_eq!((done.send.ended, done.send.sent, done.send.unsent), (Ended::Broken(PathError::Closed), 7, 93));
    assert_eq!(done.recorded.messages.received, 7, "what was sent is kept");
}

#[test]
fn each_of_several_reflectors_gets_each_message_with_its_own_tag() {
    let done = play_in(100.0, 100, Stall::default(), World::default(), &loop_config(3));
    assert_eq!(done.send.sent, 10);
    assert_eq!(done.receive.foreign, 0, "every answer had the tag of its session");
    for peer in 0..3 {
        let own: Vec<u64> = done.samples.iter().filter(|one| one.reflector == peer).map(|one| one.sample.seq).collect();
        assert_eq!(own, (0..10).collect::<Vec<_>>(), "{peer}");
    }
    assert_eq!(done.recorded.pace.as_ref().unwrap().reflectors.len(), 3);
}

#[test]
fn one_message_to_a_group_is_answered_by_all() {
    let loop_config = LoopConfig { tags: vec![70], ..loop_config(2) };
    let mut world = World::default();
    let mut answer = vec![0; 64];
    for seq in 0..10 {
        for peer in 0..2 {
            data::write(10 + seq, 70, &mut answer);
            world.answers.push_back((MS + seq * 10 * MS + 20_000, peer, answer.clone()));
        }
    }
    // The script's own answers come after those of the first reflector, which they double.
    let done = play_in(100.0, 100, Stall::default(), world, &loop_config);
    assert_eq!((done.send.sent, done.recorded.messages.received), (10, 20));
    assert_eq!(done.recorded.messages.duplicated, Some(10));
}

#[test]
fn what_is_not_ours_is_counted_and_nothing_else() {
    let mut world = World::default();
    let mut stranger = vec![0; 64];
    data::write(10, 99, &mut stranger);
    world.answers.push_back((0, 0, stranger));
    let done = play_in(100.0, 100, Stall::default(), world, &loop_config(1));
    assert_eq!((done.receive.foreign, done.recorded.messages.received), (1, 10));
}

fn spun(sender: Stall) -> (SendDone, Recorded) {
    let loop_config = loop_config(1);
    let (mut sent, mut received) = (Ring::<SENT_WORDS>::new(4096), Ring::<RECEIVED_WORDS>::new(4096));
    let ((sent_in, sent_out), (received_in, received_out)) = (sent.ends(), received.ends());
    let (halt, sent_all) = (AtomicBool::new(false), AtomicBool::new(false));
    let time = &Virtual::new(500, sender);
    let world = Mutex::new(World::default());
    let schedule = Schedule::even(1000.0, 200 * MS, u64::MAX);
    let mut out = Out(&world, time);
    let mut inbox = Incoming { world: &world, time, halt: &halt, sent_all: &sent_all };
    let (sender, receiver) =
        (Sender::new(&loop_config, &mut out, sent_in), Receiver::new(&loop_config, &mut inbox, received_in));
    let (send, receive) = spin(&time, sender, receiver, schedule, &halt, &sent_all, || {});
    assert_eq!(receive.ended, Ended::Halted);
    (send, count(&loop_config, 1000.0, sent_out, received_out).0)
}

#[test]
fn a_spinner_sends_and_receives_in_one_thread() {
    let (send, recorded) = spun(Stall::default());
    assert_eq!((send.ended, send.sent, send.unsent), (Ended::Done, 200, 0));
    assert_eq!(recorded.messages.received, 200);
    assert!(recorded.lateness.as_ref().unwrap().max_ns.unwrap() < 5_000, "it waits for nothing but its time");
    // The comb of a throttled spinner: while it stands still nothing is sent, and nothing received either.
    let (send, recorded) = spun(Stall::of(100, 50));
    assert_eq!((send.sent, recorded.messages.received), (200, 200));
    assert!((49..=50).contains(&max_ms(recorded.latency_intended.as_ref())));
    assert!(max_ms(Some(&recorded.latency)) < 1, "nothing was under way just then");
}

#[test]
fn a_halt_ends_all_loops() {
    let loop_config = loop_config(1);
    let halt = AtomicBool::new(true);
    let world = Mutex::new(World::default());
    let mut here = &Virtual::new(20, Stall::default());
    let schedule = || Schedule::even(1000.0, 100 * MS, u64::MAX);
    let mut sent = Ring::<SENT_WORDS>::new(64);
    let done =
        Sender::new(&loop_config, &mut Out(&world, here), sent.ends().0).run(&mut here, schedule(), &halt, || {});
    assert_eq!((done.ended, done.sent, done.unsent), (Ended::Halted, 0, 100));
}

/// Ways that cost nothing, for counting what the loops themselves do.
struct Nothing(u64);

impl Outbox for Nothing {
    fn send(&mut self, _to: u16, _message: &[u8]) -> Result<(), PathError> {
        Ok(())
    }
}

impl Inbox for Nothing {
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        if self.0 == 0 {
            return Ok(Arrival::Stopped);
        }
        self.0 -= 1;
        data::write(10 + self.0, 70, buffer);
        Ok(if self.0.is_multiple_of(5) {
            Arrival::Interrupted
        } else {
            Arrival::Message(Message { bytes: buffer.len(), ..Message::default() })
        })
    }

    fn look(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        self.wait(buffer)
    }
}

#[test]
fn the_loops_allocate_nothing() {
    let loop_config = LoopConfig { wall: true, ..loop_config(1) };
    let halt = AtomicBool::new(false);
    let (mut sent, mut received) = (Ring::<SENT_WORDS>::new(1024), Ring::<RECEIVED_WORDS>::new(1024));
    let (mut out, mut inbox) = (Nothing(0), Nothing(50_000));
    let sender = Sender::new(&loop_config, &mut out, sent.ends().0);
    let receiver = Receiver::new(&loop_config, &mut inbox, received.ends().0);
    let mut here = &Virtual::new(20, Stall::default());
    let pace = PaceSpec { shape: Shape::Poisson, seed: 3, ..PaceSpec::default() };
    let schedule = Schedule::new(&pace, 1e6, 50 * MS, u64::MAX);
    let mut looks = 0;
    let mut told = None;
    let counted = allocation_counter::measure(|| {
        let send = sender.run(&mut here, schedule, &halt, || looks += 1);
        let receive = receiver.run(&here, &halt, || looks += 1);
        told = Some((send, receive));
    });
    assert_eq!(counted.count_total, 0);
    let (send, receive) = told.unwrap();
    assert!(send.sent > 40_000 && looks > 60, "{send:?}");
    // A full ring is counted; nobody waited for it.
    assert_eq!((send.dropped, receive.dropped), (send.sent - 1024, 40_000 - 1024));
    assert!(allocation_counter::measure(|| drop(std::hint::black_box(vec![1; 10]))).count_total > 0);
}
