//! One phase on one path: starts the measuring threads, collects their entries on the calling thread, and ends all together.

use super::count::{PhaseCounter, SILENT};
use super::in_flight::{InFlight, InFlightConfig};
use super::loop_clock::SystemClock;
use super::loops::{ALL, Ended, LoopConfig, RECEIVED_WORDS, ReceiveDone, Receiver, SENT_WORDS, SendDone, Sender, spin};
use super::ring::{Consumer, Producer, Ring};
use super::schedule::Schedule;
use super::threads::{StartBarrier, ThreadPlacement, ThreadRole, place_thread};
use crate::driver::PassEnd;
use crate::{ProbeError, thread};
use clock::{Clock, MapRecorder};
use host::UsageSampler;
use model::{ClockMap, EndUsage, PacedSample, Pacer};
use net::stamps::SentStamps;
use net::{DuplexVisitor, Inbox, Outbox};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use wire::StopReport;

/// How often the rings are read; more often where the kernel keeps time stamps in a socket's buffer.
const LOOK: Duration = Duration::from_millis(5);
const LOOK_FOR_STAMPS: Duration = Duration::from_millis(2);
/// Extra wait for what a stream still holds, or the next phase would receive it.
const HELD_NS: u64 = 10_000_000_000;
/// Between two signals to a loop that shall end.
const NUDGE: Duration = Duration::from_millis(1);
/// From the moment that both threads are ready to the first message, so that the first is no later than the others.
const LEAD_NS: u64 = 3_000_000;
/// Grace for the entry of an answer that came in time: its receiver may have been preempted.
const GRACE_NS: u64 = 50_000_000;
/// Samples passed on at once, about.
const SAMPLES: usize = 16_384;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseProgress {
    pub now: u64,
    /// Messages answered and lost, each reflector counted.
    pub answered: u64,
    pub lost: u64,
    /// All is known of the messages that were intended before this tick.
    pub known: u64,
    pub all_sent: bool,
}

#[derive(Debug)]
pub(crate) struct PhaseDone {
    pub send: SendDone,
    pub end: PassEnd,
    /// Usage of the measuring threads; what was observed around them comes to it.
    pub own: StopReport,
    pub map: ClockMap,
    /// Entries without room in a ring or among the messages in flight.
    pub overrun: u64,
    /// What came and belongs to no message: of another session, length or run, or not asked for.
    pub unmatched: u64,
    /// Tick of the first intended send.
    pub begin: u64,
    /// Answers in time, each reflector counted.
    pub answered: u64,
}

pub(crate) struct Phase<'a> {
    pub clock: Clock,
    pub placement: &'a ThreadPlacement,
    /// Its `begin` is not looked at, and its `until` is the length of the schedule in ticks.
    pub loop_config: LoopConfig,
    pub schedule: Schedule<'a>,
    pub in_flight_config: InFlightConfig,
    /// Messages that the rings have room for.
    pub room: usize,
    /// Stamps of what is sent, numbered from this phase's first message: of each socket.
    pub sent_stamps: Vec<SentStamps>,
    pub counts_losses: bool,
    /// Ends the loops and the path's own waits.
    pub halt: &'a AtomicBool,
    pub counter: PhaseCounter<'a>,
}

impl DuplexVisitor for Phase<'_> {
    type Output = Result<PhaseDone, ProbeError>;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Self::Output {
        if self.placement.pacer == Pacer::Spin {
            self.run(Loops::One(&mut |context, sent, received| context.both(outbox, inbox, sent, received)))
        } else {
            self.run(Loops::Two(&mut |context, ring| context.send(outbox, ring), &mut |context, ring| {
                context.receive(inbox, ring)
            }))
        }
    }
}

/// The measured loops over one path, which are compiled for each kind of it, and all else of a phase once.
enum Loops<'a> {
    /// On a thread that does both.
    One(&'a mut (dyn FnMut(&LoopContext<'_>, SentProducer<'_>, ReceivedProducer<'_>) -> BothResult + Send)),
    /// On a thread each.
    Two(
        &'a mut (dyn FnMut(&LoopContext<'_>, SentProducer<'_>) -> SendResult + Send),
        &'a mut (dyn FnMut(&LoopContext<'_>, ReceivedProducer<'_>) -> ReceiveResult + Send),
    ),
}

type SentProducer<'a> = Producer<'a, SENT_WORDS>;
type ReceivedProducer<'a> = Producer<'a, RECEIVED_WORDS>;

impl Phase<'_> {
    fn run(self, loops: Loops<'_>) -> Result<PhaseDone, ProbeError> {
        let Self {
            clock,
            placement,
            loop_config,
            schedule,
            in_flight_config,
            room,
            sent_stamps,
            counts_losses,
            halt,
            counter,
        } = self;
        let mut sent_ring = Ring::<SENT_WORDS>::new(room.saturating_mul(loop_config.tags.len()));
        let mut received_ring = Ring::<RECEIVED_WORDS>::new(room.saturating_mul(usize::from(loop_config.peers)));
        let (sent_in, sent_out) = sent_ring.ends();
        let (received_in, received_out) = received_ring.ends();
        let collected = (sent_out, received_out);
        let mut collector = Collector::new(clock, in_flight_config, sent_stamps, counts_losses, counter, collected);
        halt.store(false, Ordering::Release);
        let barrier = StartBarrier::new(if matches!(loops, Loops::One(_)) { 1 } else { 2 });
        let sent_all = AtomicBool::new(false);
        let work = LoopContext {
            clock,
            placement,
            loop_config: &loop_config,
            schedule: &schedule,
            halt,
            sent_all: &sent_all,
            barrier: &barrier,
        };
        let mut map = MapRecorder::new(clock);
        let outcome = std::thread::scope(|scope| {
            let threads = match loops {
                Loops::One(both) => {
                    thread::spawn_scoped(scope, "pace", || both(&work, sent_in, received_in)).map(MeasuringThreads::One)
                }
                Loops::Two(send, receive) => {
                    let receiver = thread::spawn_scoped(scope, "receive", || receive(&work, received_in));
                    let sender = thread::spawn_scoped(scope, "send", || send(&work, sent_in));
                    receiver.and_then(|receiver| sender.map(|sender| MeasuringThreads::Two(sender, receiver)))
                }
            };
            let threads = match threads {
                Ok(threads) => threads,
                Err(error) => {
                    barrier.cancel();
                    return Err(error);
                }
            };
            let begin = barrier.begin(clock, LEAD_NS);
            if let Some(begin) = begin {
                collector.counter.begin(begin);
            }
            let end = collector.work(&work, &threads, &mut map);
            threads.join().map(|done| (done, end, begin.unwrap_or(0)))
        });
        let ((send, receive, usage), end, begin) = outcome?;
        let broken = [send.ended, receive.ended].into_iter().find_map(Ended::broken);
        let overrun = collector.in_flight.counts.overrun + send.dropped + receive.dropped;
        Ok(PhaseDone {
            send,
            end: broken.map_or(end, PassEnd::Broken),
            own: StopReport { usage, ..StopReport::default() },
            map: map.finish(),
            overrun,
            unmatched: collector.in_flight.counts.unmatched + receive.foreign,
            begin,
            answered: collector.in_flight.counts.answered,
        })
    }
}

struct LoopContext<'a> {
    clock: Clock,
    placement: &'a ThreadPlacement,
    loop_config: &'a LoopConfig,
    schedule: &'a Schedule<'a>,
    halt: &'a AtomicBool,
    /// A thread that does both has sent everything.
    sent_all: &'a AtomicBool,
    barrier: &'a StartBarrier,
}

type SendResult = Result<(SendDone, EndUsage, u64), ProbeError>;
type ReceiveResult = Result<(ReceiveDone, EndUsage, u64), ProbeError>;
type BothResult = Result<(SendDone, ReceiveDone, EndUsage), ProbeError>;

impl LoopContext<'_> {
    /// Places the calling thread and waits for the others: the settings with the real start; `None` when cancelled.
    #[inline(never)]
    fn prepare_thread(&self, role: ThreadRole) -> Result<Option<LoopConfig>, ProbeError> {
        let placed = place_thread(self.placement, role);
        let begin = self.barrier.arrive(usize::from(role == ThreadRole::Receiver), placed.is_ok());
        placed?;
        Ok(begin.map(|begin| LoopConfig {
            begin,
            until: begin.saturating_add(self.loop_config.until),
            ..self.loop_config.clone()
        }))
    }

    fn send<O: Outbox>(&self, outbox: &mut O, ring: Producer<'_, SENT_WORDS>) -> SendResult {
        let Some(loop_config) = self.prepare_thread(ThreadRole::Sender)? else { return Ok(Default::default()) };
        let schedule = self.schedule.clone();
        let sender = Sender::new(&loop_config, outbox, ring);
        let mut time = SystemClock::new(self.clock, self.placement.pacer);
        let mut usage = UsageSampler::start(self.placement.send_cpu);
        let done = sender.run(&mut time, schedule, self.halt, || usage.observe_cpu());
        let (usage, own_ns) = usage.finish_with_own();
        Ok((done.displaced(&usage), usage, own_ns))
    }

    fn receive<I: Inbox>(&self, inbox: &mut I, ring: Producer<'_, RECEIVED_WORDS>) -> ReceiveResult {
        let Some(loop_config) = self.prepare_thread(ThreadRole::Receiver)? else { return Ok(Default::default()) };
        let receiver = Receiver::new(&loop_config, inbox, ring);
        let time = SystemClock::new(self.clock, self.placement.pacer);
        let mut usage = UsageSampler::start(self.placement.receive_cpu);
        let done = receiver.run(&time, self.halt, || usage.observe_cpu());
        let (usage, own_ns) = usage.finish_with_own();
        Ok((done, usage, own_ns))
    }

    fn both<O: Outbox, I: Inbox>(
        &self,
        outbox: &mut O,
        inbox: &mut I,
        sent: Producer<'_, SENT_WORDS>,
        received: Producer<'_, RECEIVED_WORDS>,
    ) -> BothResult {
        let Some(loop_config) = self.prepare_thread(ThreadRole::Sender)? else { return Ok(Default::default()) };
        let schedule = self.schedule.clone();
        let (sender, receiver) =
            (Sender::new(&loop_config, outbox, sent), Receiver::new(&loop_config, inbox, received));
        let time = SystemClock::new(self.clock, self.placement.pacer);
        let mut usage = UsageSampler::start(self.placement.send_cpu);
        let (send, receive) = spin(&time, sender, receiver, schedule, self.halt, self.sent_all, || usage.observe_cpu());
        let usage = usage.finish();
        Ok((send.displaced(&usage), receive, usage))
    }
}

enum MeasuringThreads<'scope> {
    One(ScopedJoinHandle<'scope, BothResult>),
    Two(ScopedJoinHandle<'scope, SendResult>, ScopedJoinHandle<'scope, ReceiveResult>),
}

impl MeasuringThreads<'_> {
    fn have_sent(&self, work: &LoopContext<'_>) -> bool {
        match self {
            Self::One(both) => work.sent_all.load(Ordering::Acquire) || both.is_finished(),
            Self::Two(sender, _) => sender.is_finished(),
        }
    }

    /// Whether receiving has ended, which happens by itself only when the path is broken.
    fn have_lost_the_path(&self) -> bool {
        match self {
            Self::One(both) => both.is_finished(),
            Self::Two(_, receiver) => receiver.is_finished(),
        }
    }

    fn have_ended(&self) -> bool {
        match self {
            Self::One(both) => both.is_finished(),
            Self::Two(sender, receiver) => sender.is_finished() && receiver.is_finished(),
        }
    }

    fn join(self) -> BothResult {
        match self {
            Self::One(both) => thread::joined(both.join()),
            Self::Two(sender, receiver) => {
                let (sent, received) = (thread::joined(sender.join()), thread::joined(receiver.join()));
                let (send, send_usage, _) = sent?;
                let (receive, receive_usage, receive_ns) = received?;
                Ok((send, receive, super::usage::together(&send_usage, &receive_usage, receive_ns)))
            }
        }
    }
}

struct Collector<'a> {
    clock: Clock,
    sent_stamps: Vec<SentStamps>,
    sent: Consumer<'a, SENT_WORDS>,
    received: Consumer<'a, RECEIVED_WORDS>,
    in_flight: InFlight,
    samples: Vec<PacedSample>,
    grace: u64,
    timeout: u64,
    /// Of streams: how much longer what they hold is waited for.
    held: Option<u64>,
    counter: PhaseCounter<'a>,
}

impl<'a> Collector<'a> {
    fn new(
        clock: Clock,
        config: InFlightConfig,
        sent_stamps: Vec<SentStamps>,
        counts_losses: bool,
        counter: PhaseCounter<'a>,
        (sent, received): (Consumer<'a, SENT_WORDS>, Consumer<'a, RECEIVED_WORDS>),
    ) -> Self {
        Self {
            clock,
            sent_stamps,
            sent,
            received,
            in_flight: InFlight::new(config),
            samples: Vec::with_capacity(2 * SAMPLES),
            grace: clock.ticks(GRACE_NS),
            timeout: config.timeout,
            held: (!counts_losses).then(|| clock.ticks(HELD_NS)),
            counter,
        }
    }

    /// Counts until all is sent and answered or given up, then brings the threads to an end.
    fn work(&mut self, work: &LoopContext<'_>, threads: &MeasuringThreads<'_>, map: &mut MapRecorder) -> PassEnd {
        let end = loop {
            std::thread::sleep(if self.sent_stamps.is_empty() { LOOK } else { LOOK_FOR_STAMPS });
            // In this order: when it had sent everything before we looked, what we find now is all.
            let (all_sent, lost_the_path) = (threads.have_sent(work), threads.have_lost_the_path());
            self.collect();
            let now = self.clock.now();
            self.in_flight.expire(now.saturating_sub(self.grace), &mut self.samples);
            self.hand_over();
            map.push_if_due(now);
            let (waiting, all_known) = (self.in_flight.counts.waiting, all_sent && self.in_flight.counts.waiting == 0);
            let known = if all_known { u64::MAX } else { self.in_flight.known_before() };
            let early = self.counter.look(PhaseProgress {
                now,
                answered: self.in_flight.counts.answered,
                lost: self.in_flight.counts.lost,
                known,
                all_sent,
            });
            if early.is_some() || lost_the_path {
                break early.unwrap_or(PassEnd::Done);
            }
            let waited = now.saturating_sub(self.in_flight.last_sent);
            let enough = self.timeout.saturating_add(self.grace);
            let (open, enough) = match self.held {
                Some(held) => (self.in_flight.missing(), enough.saturating_add(held)),
                None => (waiting, enough),
            };
            if all_sent && open == 0 {
                break PassEnd::Done;
            }
            if all_sent && waited > enough {
                // Datagrams are lost; of a stream nothing is, unless it is broken.
                break self.held.map_or(PassEnd::Done, |_| SILENT);
            }
        };
        work.halt.store(true, Ordering::Release);
        while !threads.have_ended() {
            work.barrier.interrupt();
            std::thread::sleep(NUDGE);
        }
        self.collect();
        self.in_flight.retry(true, &mut self.samples);
        // What is still open was not given the time that it may take; only a whole wait makes a message lost.
        let now = self.clock.now();
        let horizon = if end == PassEnd::Done { now.saturating_sub(self.grace) } else { now };
        self.in_flight.expire(horizon, &mut self.samples);
        self.hand_over();
        end
    }

    fn collect(&mut self) {
        // The sends of answers up to here are in the ring already; send entries and stamps come first.
        let until = self.received.written();
        let sent_until = self.sent.written();
        while let Some(entry) = self.sent.pop(sent_until) {
            let [_, whom, intended, sent, ..] = entry;
            self.in_flight.sent(&entry, &mut self.samples);
            self.counter.sent(intended, sent, self.in_flight.addressed(whom));
            if self.samples.len() >= SAMPLES {
                self.hand_over();
            }
        }
        let single = self.sent_stamps.len() <= 1;
        for (whom, stamps) in (0_u64..).zip(&mut self.sent_stamps) {
            let (in_flight, whom) = (&mut self.in_flight, if single { ALL } else { whom });
            // A stamp less is no reason to end.
            let _ = stamps.drain(|number, ns| in_flight.driver(number, whom, ns));
        }
        // Answers that came before their send entry are older than those in the ring.
        self.in_flight.retry(false, &mut self.samples);
        while let Some(entry) = self.received.pop(until) {
            self.in_flight.on_answer(&entry, &mut self.samples);
            if self.samples.len() >= SAMPLES {
                self.hand_over();
            }
        }
    }

    fn hand_over(&mut self) {
        if !self.samples.is_empty() {
            self.counter.take(&self.samples);
            self.samples.clear();
        }
    }
}
