//! The measured loops: a sender and a receiver, on a thread each, or both in one thread that spins.
//!
//! Between their first and last lines nothing is allocated, locked, printed or logged, and no system call is made beside the
//! path's own and the sleep until a message's time. Two rings take all to the counting thread ([`super::in_flight`]).

use super::loop_clock::LoopClock;
use super::ring::Producer;
use super::schedule::Schedule;
use crate::rounds::pattern;
use model::{EndUsage, TickRate};
use net::{Arrival, Inbox, Message, Outbox, PathError};
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{Tier, data};

/// To all reflectors at once.
pub(crate) const ALL: u64 = u32::MAX as u64;
/// Beside the reflector: a send before this one failed, so the kernel may not have counted as we do.
pub(crate) const UNCOUNTED: u64 = 1 << 32;

/// Messages between two looks at the CPU that a thread is on.
const BATCH: u64 = 1024;

/// A message that was sent: number, reflector (or [`ALL`], and perhaps [`UNCOUNTED`]), intended and actual time in ticks, wall
/// clock, and how many ticks of its lateness the path is to blame for.
pub(crate) type SentEntry = [u64; 6];
pub(crate) const SENT_WORDS: usize = 6;

/// An answer: number, reflector, time in ticks, the reflector's two ticks, wall clock (stack, here), the far wall clock
/// (stack, received, sent), what repairs cost there and back, what it reports about an earlier answer (the reflector's tick,
/// when it was sent).
pub(crate) type ReceivedEntry = [u64; 14];
pub(crate) const RECEIVED_WORDS: usize = 14;

#[derive(Debug, Clone)]
pub(crate) struct LoopConfig {
    /// When the schedule begins, in ticks.
    pub begin: u64,
    /// No message is sent from this tick on: the schedule was over long ago.
    pub until: u64,
    pub rate: TickRate,
    /// Number of the first message on the wire.
    pub first_number: u64,
    /// The tags of the reflectors' sessions; one entry when one message goes to all.
    pub tags: Vec<u64>,
    pub bytes: usize,
    /// Whether the wall clock is read beside the ticks.
    pub wall: bool,
    pub peers: u16,
    /// Whether answers carry the cost of repairs.
    pub repairs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ended {
    /// All is sent; a receiver never ends so.
    #[default]
    Done,
    Halted,
    Broken(PathError),
}

impl Ended {
    pub(crate) fn broken(self) -> Option<PathError> {
        if let Self::Broken(error) = self { Some(error) } else { None }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendDone {
    pub ended: Ended,
    /// Messages sent, each counted once, whatever the number of reflectors.
    pub sent: u64,
    /// Messages of the schedule that were not, because its time was over (or it was halted).
    pub unsent: u64,
    /// Sends that had to wait because the path took no more, and for how many ticks, less those without a CPU.
    pub blocked: u64,
    pub blocked_ticks: u64,
    /// Entries that found no room.
    pub dropped: u64,
    /// What the kernel counted of the sending thread: time in the run queue in ns, where it does, and involuntary switches.
    pub run_queue_wait_ns: Option<u64>,
    pub involuntary_switches: u64,
    /// How long the hypervisor had its CPU, where it is pinned.
    pub stolen_ns: Option<u64>,
}

impl SendDone {
    /// With what the kernel counted of the sending thread.
    pub(crate) fn displaced(self, usage: &EndUsage) -> Self {
        Self {
            run_queue_wait_ns: usage.run_queue_wait_ns,
            involuntary_switches: usage.involuntary_switches,
            stolen_ns: usage.cpu_steal_ns,
            ..self
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceiveDone {
    pub ended: Ended,
    /// Messages of another length, session or number.
    pub foreign: u64,
    /// Entries that found no room.
    pub dropped: u64,
}

pub(crate) struct Sender<'a, O> {
    config: &'a LoopConfig,
    outbox: &'a mut O,
    ring: Producer<'a, SENT_WORDS>,
    message: Vec<u8>,
    number: u64,
    blocked: u64,
    blocked_ticks: u64,
    /// Ticks of the present lateness that the path is to blame for: it held a message up, and that was not made up for since.
    held: u64,
    /// Datagrams that never left, and whether one of these sends may be counted otherwise by the kernel.
    unsent: u64,
    uncounted: u64,
}

impl<'a, O: Outbox> Sender<'a, O> {
    /// Takes and touches its memory.
    pub(crate) fn new(config: &'a LoopConfig, outbox: &'a mut O, ring: Producer<'a, SENT_WORDS>) -> Self {
        let mut message = pattern(config.bytes);
        // Where the reflector's stamps will be: 0 is none.
        data::write_stamps(&data::FarStamps::default(), &mut message);
        data::write_repaired(model::Repaired::default(), &mut message);
        data::write_tx_stamp(data::TxStamp::default(), &mut message);
        let unsent = outbox.unsent();
        Self {
            number: config.first_number,
            config,
            outbox,
            ring,
            message,
            blocked: 0,
            blocked_ticks: 0,
            held: 0,
            unsent,
            uncounted: 0,
        }
    }

    /// Sends all messages of the schedule, each at its time or, when that is past, at once.
    pub(crate) fn run<T: LoopClock>(
        mut self,
        time: &mut T,
        mut schedule: Schedule<'_>,
        halt: &AtomicBool,
        mut between: impl FnMut(),
    ) -> SendDone {
        let mut ended = Ended::Done;
        let mut unsent = 0;
        while let Some(offset_ns) = schedule.next() {
            let due = self.config.begin + self.config.rate.ticks(offset_ns);
            self.write();
            let now = time.now();
            if now < due {
                if !time.wait_until(due, halt) {
                    (ended, unsent) = (Ended::Halted, 1);
                    break;
                }
            } else if now >= self.config.until || halt.load(Ordering::Relaxed) {
                ended = if now >= self.config.until { Ended::Done } else { Ended::Halted };
                unsent = 1;
                break;
            }
            if let Some(end) = self.send(time, due, halt) {
                (ended, unsent) = (end, 1);
                break;
            }
            if self.number.is_multiple_of(BATCH) {
                between();
            }
        }
        self.done(ended, unsent, schedule)
    }

    fn done(&self, ended: Ended, unsent: u64, rest: Schedule<'_>) -> SendDone {
        /// Enough to say "many"; counting on would take as long as sending.
        const MOST: u64 = 10_000_000;
        let left = if unsent > 0 { rest.left(MOST) } else { 0 };
        SendDone {
            ended,
            sent: self.number - self.config.first_number,
            unsent: unsent + left,
            blocked: self.blocked,
            blocked_ticks: self.blocked_ticks,
            dropped: self.ring.dropped,
            ..SendDone::default()
        }
    }

    /// The next message's number, before its time comes.
    #[inline]
    fn write(&mut self) {
        data::write(self.number, self.config.tags.first().copied().unwrap_or(0), &mut self.message);
    }

    /// Sends one message to all. Comes back with the end of the loop, if this is it.
    #[inline(always)]
    fn send<T: LoopClock>(&mut self, time: &T, due: u64, halt: &AtomicBool) -> Option<Ended> {
        let config = self.config;
        let single = config.tags.len() <= 1;
        let times = if single { 1 } else { config.peers };
        for to in 0..times {
            if to > 0 {
                data::write(self.number, config.tags.get(usize::from(to)).copied().unwrap_or(0), &mut self.message);
            }
            let wall = if config.wall { time.realtime_ns() } else { 0 };
            let sent = time.now();
            // Lateness that was caught up no longer counts as held.
            self.held = self.held.min(sent.saturating_sub(due));
            let held = self.held;
            match self.outbox.try_send(to, &self.message) {
                Ok(true) => {}
                refused => {
                    if let Some(end) = self.send_blocking(time, to, refused, halt) {
                        return Some(end);
                    }
                }
            }
            let whom = if single && config.peers > 1 { ALL } else { u64::from(to) };
            self.ring.push([self.number, whom | self.uncounted, due, sent, wall, held]);
        }
        if config.wall && self.outbox.unsent() != self.unsent {
            self.unsent = self.outbox.unsent();
            self.uncounted = UNCOUNTED;
        }
        self.number += 1;
        None
    }
}

impl<O: Outbox> Sender<'_, O> {
    /// Waits until the path takes a message that it refused. What the thread spent in the run queue meanwhile is not the
    /// path's doing. Comes back with the end of the loop, if this is it.
    #[cold]
    fn send_blocking<T: LoopClock>(
        &mut self,
        time: &T,
        to: u16,
        refused: Result<bool, PathError>,
        halt: &AtomicBool,
    ) -> Option<Ended> {
        let mut error = match refused {
            Ok(_) => {
                self.blocked += 1;
                None
            }
            Err(error) => Some(error),
        };
        let (began, waited_before) = (time.now(), time.run_queue_wait_ns());
        loop {
            match error {
                None => {}
                Some(PathError::Interrupted) if halt.load(Ordering::Relaxed) => return Some(Ended::Halted),
                Some(PathError::Interrupted) => self.uncounted = UNCOUNTED,
                Some(error) => return Some(Ended::Broken(error)),
            }
            match self.outbox.send(to, &self.message) {
                Ok(()) => break,
                Err(failed) => error = Some(failed),
            }
        }
        let in_queue_ns = match (waited_before, time.run_queue_wait_ns()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => 0,
        };
        let held = time.now().saturating_sub(began).saturating_sub(self.config.rate.ticks(in_queue_ns));
        self.held = self.held.saturating_add(held);
        self.blocked_ticks = self.blocked_ticks.saturating_add(held);
        None
    }
}

pub(crate) struct Receiver<'a, I> {
    config: &'a LoopConfig,
    inbox: &'a mut I,
    ring: Producer<'a, RECEIVED_WORDS>,
    buffer: Vec<u8>,
    tier: Tier,
    foreign: u64,
    foreign_before: u64,
}

impl<'a, I: Inbox> Receiver<'a, I> {
    /// Takes and touches its memory.
    pub(crate) fn new(config: &'a LoopConfig, inbox: &'a mut I, ring: Producer<'a, RECEIVED_WORDS>) -> Self {
        let tier = Tier::for_size(config.bytes);
        let foreign_before = inbox.foreign();
        Self { config, inbox, ring, buffer: pattern(config.bytes), tier, foreign: 0, foreign_before }
    }

    pub(crate) fn run<T: LoopClock>(mut self, time: &T, halt: &AtomicBool, mut between: impl FnMut()) -> ReceiveDone {
        let mut count = 0_u64;
        let ended = loop {
            match self.inbox.wait(&mut self.buffer) {
                Ok(Arrival::Message(message)) => {
                    self.take(time, message);
                    count += 1;
                    if count.is_multiple_of(BATCH) {
                        between();
                    }
                }
                Ok(Arrival::Interrupted | Arrival::Nothing) => {
                    if halt.load(Ordering::Relaxed) {
                        break Ended::Halted;
                    }
                }
                Ok(Arrival::Stopped) => break Ended::Halted,
                Err(error) => break Ended::Broken(error),
            }
        };
        self.done(ended)
    }

    fn done(&self, ended: Ended) -> ReceiveDone {
        let foreign = self.foreign + self.inbox.foreign().saturating_sub(self.foreign_before);
        ReceiveDone { ended, foreign, dropped: self.ring.dropped }
    }

    #[inline(always)]
    fn take<T: LoopClock>(&mut self, time: &T, message: Message) {
        let received = time.now();
        let config = self.config;
        let wall = if config.wall { time.realtime_ns() } else { 0 };
        let from = usize::from(message.from).min(config.tags.len().saturating_sub(1));
        let tag = config.tags.get(from).copied().unwrap_or(0);
        let number = if message.bytes == config.bytes { data::read(self.tier, tag, &self.buffer) } else { None };
        let Some(number) = number else {
            self.foreign += 1;
            return;
        };
        let far = data::read_stamps(&self.buffer, config.wall);
        let told = if config.wall { data::read_tx_stamp(&self.buffer) } else { data::TxStamp::default() };
        self.ring.push([
            number,
            u64::from(message.from),
            received,
            far.rx,
            far.tx,
            message.stack_ns,
            wall,
            far.stack_ns,
            far.received_ns,
            far.sent_ns,
            if config.repairs { data::read_repaired(&self.buffer).word() } else { 0 },
            message.repaired.word(),
            told.tx,
            told.driver_ns,
        ]);
    }
}

/// Sends and receives in one thread, which never waits: at most one message out, then at most one in.
pub(crate) fn spin<T: LoopClock, O: Outbox, I: Inbox>(
    time: &T,
    mut sender: Sender<'_, O>,
    mut receiver: Receiver<'_, I>,
    mut schedule: Schedule<'_>,
    halt: &AtomicBool,
    sent_all: &AtomicBool,
    mut between: impl FnMut(),
) -> (SendDone, ReceiveDone) {
    let due_of = |config: &LoopConfig, offset_ns: u64| config.begin + config.rate.ticks(offset_ns);
    let config = sender.config;
    let mut next = schedule.next().map(|offset_ns| due_of(config, offset_ns));
    let mut sending = None;
    let mut turns = 0_u64;
    if next.is_some() {
        sender.write();
    }
    let ended = loop {
        if let Some(due) = next {
            let now = time.now();
            if now >= config.until {
                sending = Some((Ended::Done, 1));
                next = None;
                sent_all.store(true, Ordering::Release);
            } else if now >= due {
                if let Some(end) = sender.send(time, due, halt) {
                    sending = Some((end, 1));
                    break Ended::Halted;
                }
                next = schedule.next().map(|offset_ns| due_of(config, offset_ns));
                if next.is_some() {
                    sender.write();
                } else {
                    sent_all.store(true, Ordering::Release);
                }
            }
        }
        match receiver.inbox.look(&mut receiver.buffer) {
            Ok(Arrival::Message(message)) => receiver.take(time, message),
            Ok(Arrival::Nothing | Arrival::Interrupted) => {}
            Ok(Arrival::Stopped) => break Ended::Halted,
            Err(error) => break Ended::Broken(error),
        }
        turns += 1;
        if turns.is_multiple_of(BATCH) {
            between();
        }
        if halt.load(Ordering::Relaxed) {
            break Ended::Halted;
        }
    };
    let (end, unsent) = sending.unwrap_or(match (next, ended) {
        (None, _) => (Ended::Done, 0),
        (Some(_), ended) => (ended, 1),
    });
    (sender.done(end, unsent, schedule), receiver.done(ended))
}

#[cfg(test)]
mod tests;
