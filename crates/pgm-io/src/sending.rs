//! The own source: what both halves share.

use crate::{EventKind, EventNote, Numbers, PgmIoError};
use clock::Clock;
use net::PathError;
use net::group::{Extra, GroupSocket, SendBatch, Target};
use pgm::Source;
use pgm::Sqn;
use pgm::source::{Class, SendError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use wire::pgm::events::Notes;

/// How much before its time a packet may leave, in ns: less than what a sleep is too long.
pub(crate) const AHEAD_NS: u64 = 25_000;

#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) source: Source,
    batch: SendBatch,
    group: Target,
    alert: bool,
    /// The newest time that the engine got.
    engine_ns: u64,
    pub(crate) notes: Notes<EventNote>,
}

impl Sending {
    /// `notes`: how many find room.
    pub(crate) fn new(source: Source, batch: SendBatch, group: Target, alert: bool, notes: usize) -> Self {
        Self { source, batch, group, alert, engine_ns: 0, notes: Notes::new(notes, EventNote::NOTHING) }
    }

    /// Sends what may go out now, or so soon that a wait would last longer: packets that the peak rate puts microseconds
    /// apart leave together. The engine's time runs ahead by no more than that, so no rate is higher in the end.
    #[inline]
    fn transmit(&mut self, now_ns: u64, socket: &GroupSocket) -> Result<(), PathError> {
        self.engine_ns = self.engine_ns.max(now_ns);
        let horizon_ns = now_ns.saturating_add(AHEAD_NS);
        loop {
            let mut more = true;
            while let Some(place) = self.batch.place() {
                let Some(out) = self.source.poll_transmit(self.engine_ns, place) else {
                    match self.source.poll_timeout(self.engine_ns) {
                        Some(due) if due > self.engine_ns && due <= horizon_ns => {
                            self.engine_ns = due;
                            continue;
                        }
                        _ => {}
                    }
                    more = false;
                    break;
                };
                if !matches!(out.class, Class::Odata | Class::Spm)
                    && let Some(what) = place.get(..out.length).and_then(|bytes| EventKind::sent(out.class, bytes))
                {
                    self.notes.push(EventNote { at_ns: now_ns, from: EventNote::OWN, what });
                }
                let extra = if out.router_alert && self.alert { Extra::RouterAlert } else { Extra::None };
                self.batch.push(out.length, &self.group, extra);
            }
            self.batch.flush(socket)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// What a packet to the own source says, if it is one, and the peer that sent it.
    pub(crate) fn heard(&mut self, now_ns: u64, from: u16, bytes: &[u8]) {
        let before = self.source.counts().naks;
        // What is no packet is counted there.
        let _ = self.source.handle_datagram(self.engine_ns.max(now_ns), bytes);
        if self.source.counts().naks != before
            && let Some(numbers) = Numbers::of(bytes)
        {
            let what = EventKind::NakReceived(numbers);
            self.notes.push(EventNote { at_ns: now_ns, from, what });
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.batch.lost
    }
}

/// The outcome of a transmission; what a signal left goes first the next time.
fn unless_interrupted(outcome: Result<(), PathError>) -> Result<(), PathError> {
    if matches!(outcome, Err(PathError::Interrupted)) { Ok(()) } else { outcome }
}

/// What both halves share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) own: GroupSocket,
    pub(crate) sending: Option<Mutex<Sending>>,
    /// When the source wants to be served; `u64::MAX`: not before something comes.
    due_ns: AtomicU64,
}

impl Shared {
    pub(crate) fn new(clock: Clock, own: GroupSocket, sending: Option<Sending>) -> Self {
        let due = if sending.is_some() { 0 } else { u64::MAX };
        Self { clock, own, sending: sending.map(Mutex::new), due_ns: AtomicU64::new(due) }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.ns(self.clock.now())
    }

    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, Sending>> {
        // A panic while it was held left no half-done packet behind.
        self.sending.as_ref().map(|sending| sending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    fn serve_with(&self, sending: &mut Sending, now_ns: u64) -> Result<(), PathError> {
        let done = sending.transmit(now_ns, &self.own);
        let due = sending.source.poll_timeout(sending.engine_ns).unwrap_or(u64::MAX);
        self.due_ns.store(due, Ordering::Relaxed);
        done
    }

    /// Serves the source's timers and what waits, unless the other half is at it.
    pub(crate) fn serve(&self) -> Result<(), PathError> {
        let Some(sending) = &self.sending else { return Ok(()) };
        let mut guard = match sending.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // It looks after everything that is due.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        unless_interrupted(self.serve_with(&mut guard, self.now()))
    }

    /// Gives the source, if there is one, the packets that `take` has for it, and sends what they asked for.
    pub(crate) fn hear(&self, take: impl FnOnce(&mut Sending, u64)) -> Result<(), PathError> {
        let Some(mut guard) = self.lock() else { return Ok(()) };
        let now = self.now();
        take(&mut guard, now);
        unless_interrupted(self.serve_with(&mut guard, now))
    }

    /// Takes a message once and sends what may go now; until when the rest, or all of it without room, has to wait.
    #[inline]
    pub(crate) fn publish(&self, message: &[u8], taken: &mut Option<Sqn>) -> Result<Option<u64>, PgmIoError> {
        let mut guard = self.lock().ok_or(PgmIoError::NoSource)?;
        let now = self.now();
        let mut full = false;
        if taken.is_none() {
            match guard.source.send(message) {
                Ok(sqn) => *taken = Some(sqn),
                Err(SendError::Full { .. }) => full = true,
                Err(error) => return Err(PgmIoError::Send(error)),
            }
        }
        self.serve_with(&mut guard, now)?;
        // At the latest after a while: the other half may have moved it.
        let until_ns = self.due_ns().min(now.saturating_add(1_000_000));
        Ok((full || guard.source.waiting() > 0).then_some(until_ns))
    }
}
