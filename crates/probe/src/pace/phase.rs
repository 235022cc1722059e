//! One phase on one way: the measuring threads are started and settled, the calling thread counts meanwhile, and all
//! come to an end together. A warm-up is a phase like the measured one, with another schedule.

use super::book::{Book, Terms};
use super::loops::{ALL, Course, Ended, GOT_WORDS, ReceiveDone, Receiver, SENT_WORDS, SendDone, Sender, spin};
use super::ring::{Consumer, Producer, Ring};
use super::schedule::Schedule;
use super::settle::{Hand, Meeting, Places, settle};
use super::time::Real;
use crate::ProbeError;
use clock::{Clock, MapRecorder};
use host::{CounterSampler, UsageSampler};
use model::{ClockMap, Counters, EndUsage, PacedSample, Pacer};
use net::stamps::SentStamps;
use net::{DuplexVisitor, Inbox, Outbox};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How often what the loops tell is looked at; more often where the kernel keeps stamps for us in a socket's buffer.
const LOOK: Duration = Duration::from_millis(5);
const LOOK_FOR_STAMPS: Duration = Duration::from_millis(2);
/// What a stream still holds is waited for so much longer, or the next phase would find it.
const HELD_NS: u64 = 10_000_000_000;
/// Between two signals to a loop that shall end.
const NUDGE: Duration = Duration::from_millis(1);
/// From the moment that both threads are ready to the first message, so that the first is no later than the others.
const LEAD_NS: u64 = 3_000_000;
/// An answer that came in time may be told so much later, because its receiver was displaced in between.
const TELL_NS: u64 = 50_000_000;
/// Samples that are handed over at once, about.
const SAMPLES: usize = 16_384;

/// What the counting thread does with what it is given.
pub(crate) trait Count {
    /// The schedule begins at this tick.
    fn begin(&mut self, tick: u64);
    /// Samples in the order that their fate was known.
    fn take(&mut self, samples: &[PacedSample]);
    /// A message left for so many reflectors, intended and sent at these ticks. What became of it comes with
    /// [`Count::take`].
    fn sent(&mut self, intended: u64, sent: u64, messages: u64) {
        let _ = (intended, sent, messages);
    }
    /// Called every few milliseconds; what it returns ends the phase.
    fn look(&mut self, seen: Seen) -> Option<Cut>;
}

/// What the counting thread sees now and then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub now: u64,
    /// Messages answered and lost, each reflector counted.
    pub answered: u64,
    pub lost: u64,
    /// All is known of the messages that were intended before this tick.
    pub known: u64,
    /// No more will be sent.
    pub all_sent: bool,
}

/// Why a phase was ended before its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The program was asked to end.
    Stopped,
    /// Nothing has come back for long.
    Silent,
    /// The control connection ended.
    PeerEnded,
}

/// What a phase leaves behind.
#[derive(Debug)]
pub(crate) struct PhaseDone {
    pub send: SendDone,
    pub receive: ReceiveDone,
    pub cut: Option<Cut>,
    pub usage: EndUsage,
    pub counters: Counters,
    pub map: ClockMap,
    /// What found no room in a ring or in the book.
    pub overrun: u64,
    /// What came and belongs to no message: of another session, length or run, or not asked for.
    pub strays: u64,
    /// Tick of the first intended send.
    pub begin: u64,
    /// Answers in time, each reflector counted.
    pub answered: u64,
}

/// One phase.
pub(crate) struct Phase<'a, C> {
    pub clock: Clock,
    pub places: &'a Places,
    /// Its `begin` is not looked at, and its `until` is the length of the schedule in ticks.
    pub course: Course,
    pub schedule: Schedule<'a>,
    pub terms: Terms,
    /// Messages that the rings have room for.
    pub room: usize,
    /// Stamps of what is sent, numbered from this phase's first message: of each socket.
    pub sent_stamps: Vec<SentStamps>,
    /// Whether messages have no borders, so that none is ever lost.
    pub stream: bool,
    /// What the loops look at. The way's own waits look at it too.
    pub halt: &'a AtomicBool,
    pub count: &'a mut C,
}

impl<C: Count> DuplexVisitor for Phase<'_, C> {
    type Output = Result<PhaseDone, ProbeError>;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Self::Output {
        let Self { clock, places, course, schedule, terms, room, sent_stamps, stream, halt, count } = self;
        let mut sent_ring = Ring::<SENT_WORDS>::new(room.saturating_mul(course.tags.len()));
        let mut got_ring = Ring::<GOT_WORDS>::new(room.saturating_mul(usize::from(course.peers)));
        let (sent_in, sent_out) = sent_ring.ends();
        let (got_in, got_out) = got_ring.ends();
        let mut clerk = Clerk {
            clock,
            sent_stamps,
            sent: sent_out,
            got: got_out,
            book: Book::new(terms),
            samples: Vec::with_capacity(2 * SAMPLES),
            tell: clock.ticks(TELL_NS),
            timeout: terms.timeout,
            held: stream.then(|| clock.ticks(HELD_NS)),
        };
        halt.store(false, Ordering::Release);
        let single = places.pacer == Pacer::Spin;
        let meeting = Meeting::new(if single { 1 } else { 2 });
        let sent_all = AtomicBool::new(false);
        let work =
            Work { clock, places, course: &course, schedule: &schedule, halt, sent_all: &sent_all, meeting: &meeting };
        let mut map = MapRecorder::new(clock);
        let counters = CounterSampler::start();
        let outcome = std::thread::scope(|scope| {
            let hands = if single {
                spawn(scope, "pace", || work.both(outbox, inbox, sent_in, got_in)).map(Hands::One)
            } else {
                let receiver = spawn(scope, "receive", || work.receive(inbox, got_in));
                let sender = spawn(scope, "send", || work.send(outbox, sent_in));
                receiver.and_then(|receiver| sender.map(|sender| Hands::Two(sender, receiver)))
            };
            let hands = match hands {
                Ok(hands) => hands,
                Err(error) => {
                    meeting.call_off();
                    return Err(error);
                }
            };
            let begin = meeting.begin(clock, LEAD_NS);
            if let Some(begin) = begin {
                count.begin(begin);
            }
            let cut = clerk.work(&work, &hands, count, &mut map);
            hands.join().map(|done| (done, cut, begin.unwrap_or(0)))
        });
        let ((send, receive, usage), cut, begin) = outcome?;
        let overrun = clerk.book.overrun() + send.dropped + receive.dropped;
        Ok(PhaseDone {
            send,
            receive,
            cut,
            usage,
            counters: counters.finish(),
            map: map.finish(),
            overrun,
            strays: clerk.book.strays() + receive.foreign,
            begin,
            answered: clerk.book.answered(),
        })
    }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, ProbeError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, work).map_err(|cause| ProbeError::Task(task::TaskError::Thread { name, cause }))
}

/// What the measuring threads share.
struct Work<'a> {
    clock: Clock,
    places: &'a Places,
    course: &'a Course,
    schedule: &'a Schedule<'a>,
    halt: &'a AtomicBool,
    /// A thread that does both has sent everything.
    sent_all: &'a AtomicBool,
    meeting: &'a Meeting,
}

type Sent = Result<(SendDone, EndUsage, u64), ProbeError>;
type Got = Result<(ReceiveDone, EndUsage, u64), ProbeError>;
type Both = Result<(SendDone, ReceiveDone, EndUsage), ProbeError>;

impl Work<'_> {
    /// Settles the calling thread and waits for the others. The course as it really is, or nothing when it was called
    /// off.
    fn meet(&self, hand: Hand) -> Result<Option<Course>, ProbeError> {
        let settled = settle(self.places, hand);
        let begin = self.meeting.attend(hand, settled.is_ok());
        settled?;
        Ok(begin.map(|begin| Course { begin, until: begin.saturating_add(self.course.until), ..self.course.clone() }))
    }

    fn send<O: Outbox>(&self, outbox: &mut O, ring: Producer<'_, SENT_WORDS>) -> Sent {
        let Some(course) = self.meet(Hand::Sends)? else { return Ok(Default::default()) };
        let schedule = self.schedule.clone();
        let sender = Sender::new(&course, outbox, ring);
        let mut time = Real::new(self.clock, self.places.pacer);
        let mut usage = UsageSampler::start(self.places.send_cpu);
        let done = sender.run(&mut time, schedule, self.halt, || usage.observe_cpu());
        let (usage, own_ns) = usage.finish_with_own();
        Ok((done.displaced(&usage), usage, own_ns))
    }

    fn receive<I: Inbox>(&self, inbox: &mut I, ring: Producer<'_, GOT_WORDS>) -> Got {
        let Some(course) = self.meet(Hand::Receives)? else { return Ok(Default::default()) };
        let receiver = Receiver::new(&course, inbox, ring);
        let time = Real::new(self.clock, self.places.pacer);
        let mut usage = UsageSampler::start(self.places.receive_cpu);
        let done = receiver.run(&time, self.halt, || usage.observe_cpu());
        let (usage, own_ns) = usage.finish_with_own();
        Ok((done, usage, own_ns))
    }

    fn both<O: Outbox, I: Inbox>(
        &self,
        outbox: &mut O,
        inbox: &mut I,
        sent: Producer<'_, SENT_WORDS>,
        got: Producer<'_, GOT_WORDS>,
    ) -> Both {
        let Some(course) = self.meet(Hand::Sends)? else { return Ok(Default::default()) };
        let schedule = self.schedule.clone();
        let (sender, receiver) = (Sender::new(&course, outbox, sent), Receiver::new(&course, inbox, got));
        let time = Real::new(self.clock, self.places.pacer);
        let mut usage = UsageSampler::start(self.places.send_cpu);
        let (send, receive) = spin(&time, sender, receiver, schedule, self.halt, self.sent_all, || usage.observe_cpu());
        let usage = usage.finish();
        Ok((send.displaced(&usage), receive, usage))
    }
}

/// The measuring threads.
enum Hands<'scope> {
    One(ScopedJoinHandle<'scope, Both>),
    Two(ScopedJoinHandle<'scope, Sent>, ScopedJoinHandle<'scope, Got>),
}

impl Hands<'_> {
    /// Whether the sender has nothing more to send.
    fn have_sent(&self, work: &Work<'_>) -> bool {
        match self {
            Self::One(both) => work.sent_all.load(Ordering::Acquire) || both.is_finished(),
            Self::Two(sender, _) => sender.is_finished(),
        }
    }

    /// Whether receiving has ended, which it does by itself only when the way is broken.
    fn have_lost_the_way(&self) -> bool {
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

    fn join(self) -> Both {
        fn joined<T>(handle: ScopedJoinHandle<'_, T>) -> T {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }
        match self {
            Self::One(both) => joined(both),
            Self::Two(sender, receiver) => {
                let (sent, got) = (joined(sender), joined(receiver));
                let (send, send_usage, _) = sent?;
                let (receive, receive_usage, receive_ns) = got?;
                Ok((send, receive, super::usage::together(&send_usage, &receive_usage, receive_ns)))
            }
        }
    }
}

/// The counting thread's own things.
struct Clerk<'a> {
    clock: Clock,
    sent_stamps: Vec<SentStamps>,
    sent: Consumer<'a, SENT_WORDS>,
    got: Consumer<'a, GOT_WORDS>,
    book: Book,
    samples: Vec<PacedSample>,
    tell: u64,
    timeout: u64,
    /// Of streams: how much longer what they hold is waited for.
    held: Option<u64>,
}

impl Clerk<'_> {
    /// Counts until all is sent and answered or given up, then brings the threads to an end.
    fn work<C: Count>(
        &mut self,
        work: &Work<'_>,
        hands: &Hands<'_>,
        count: &mut C,
        map: &mut MapRecorder,
    ) -> Option<Cut> {
        let cut = loop {
            std::thread::sleep(if self.sent_stamps.is_empty() { LOOK } else { LOOK_FOR_STAMPS });
            // In this order: when it had sent everything before we looked, what we find now is all.
            let (all_sent, lost_the_way) = (hands.have_sent(work), hands.have_lost_the_way());
            self.collect(count);
            let now = self.clock.now();
            self.book.expire(now.saturating_sub(self.tell), &mut self.samples);
            self.hand_over(count);
            map.push_if_due(now);
            let (waiting, all_known) = (self.book.waiting(), all_sent && self.book.waiting() == 0);
            let known = if all_known { u64::MAX } else { self.book.known_before() };
            let cut = count.look(Seen { now, answered: self.book.answered(), lost: self.book.lost(), known, all_sent });
            if cut.is_some() || lost_the_way {
                break cut;
            }
            let waited = now.saturating_sub(self.book.last_sent());
            let enough = self.timeout.saturating_add(self.tell);
            let (open, enough) = match self.held {
                Some(held) => (self.book.missing(), enough.saturating_add(held)),
                None => (waiting, enough),
            };
            if all_sent && open == 0 {
                break None;
            }
            if all_sent && waited > enough {
                // Datagrams are lost; of a stream nothing is, unless it is broken.
                break self.held.map(|_| Cut::Silent);
            }
        };
        work.halt.store(true, Ordering::Release);
        while !hands.have_ended() {
            work.meeting.nudge();
            std::thread::sleep(NUDGE);
        }
        self.collect(count);
        self.book.retry(true, &mut self.samples);
        // What is still open was not given the time that it may take; only a whole wait makes a message lost.
        let now = self.clock.now();
        let horizon = if cut.is_none() { now.saturating_sub(self.tell) } else { now };
        self.book.expire(horizon, &mut self.samples);
        self.hand_over(count);
        cut
    }

    /// Takes everything that the loops have told.
    fn collect<C: Count>(&mut self, count: &mut C) {
        // Answers up to here were sent before; their stamps and the word of their sending come first.
        let until = self.got.written();
        let sent_until = self.sent.written();
        while let Some(entry) = self.sent.pop(sent_until) {
            let [_, whom, intended, sent, ..] = entry;
            self.book.sent(&entry, &mut self.samples);
            count.sent(intended, sent, self.book.addressed(whom));
            if self.samples.len() >= SAMPLES {
                self.hand_over(count);
            }
        }
        let single = self.sent_stamps.len() <= 1;
        for (whom, stamps) in (0_u64..).zip(&mut self.sent_stamps) {
            let (book, whom) = (&mut self.book, if single { ALL } else { whom });
            // A stamp less is no reason to end.
            let _ = stamps.drain(|number, ns| book.driver(number, whom, ns));
        }
        // Answers that came before the word of their sending: they are older than those in the ring.
        self.book.retry(false, &mut self.samples);
        while let Some(entry) = self.got.pop(until) {
            self.book.got(&entry, &mut self.samples);
            if self.samples.len() >= SAMPLES {
                self.hand_over(count);
            }
        }
    }

    fn hand_over<C: Count>(&mut self, count: &mut C) {
        if !self.samples.is_empty() {
            count.take(&self.samples);
            self.samples.clear();
        }
    }
}

impl PhaseDone {
    /// What broke the way, if something did.
    pub(crate) fn broken(&self) -> Option<net::PathError> {
        [self.send.ended, self.receive.ended].into_iter().find_map(|ended| match ended {
            Ended::Broken(error) => Some(error),
            Ended::Done | Ended::Halted => None,
        })
    }
}
