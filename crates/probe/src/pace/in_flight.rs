//! The messages in flight. Pure: entries of both loops and the time in, samples out, each message once for each reflector.

use super::loops::{ALL, ReceivedEntry, SentEntry, UNCOUNTED};
use model::{PacedSample, Repaired, Sample, SampleFlags, StampTimes};
use std::collections::VecDeque;

/// Most messages that are remembered at once.
const MOST: usize = 1 << 21;
/// Answers that may wait for the entry of their send: a sender may be preempted between its send call and the entry.
const EARLY: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InFlightConfig {
    /// Number of the first message on the wire.
    pub first_number: u64,
    /// Messages whose number is a multiple of it are answered.
    pub every: u64,
    /// Reflectors, 1 or more.
    pub peers: u16,
    /// An answer after this time is late, in ticks.
    pub timeout: u64,
    /// Added to each sample: WARMUP, or nothing.
    pub flags: SampleFlags,
    /// Messages that may be in flight.
    pub room: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was sent here yet.
    Free,
    Waiting,
    Answered,
    Lost,
    Late,
    /// No answer was asked for.
    Unasked,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    seq: u64,
    intended: u64,
    sent: u64,
    sent_ns: u64,
    driver_ns: u64,
    /// How much of its lateness the path is to blame for.
    held: u64,
    state: State,
}

const FREE: Slot = Slot { seq: u64::MAX, intended: 0, sent: 0, sent_ns: 0, driver_ns: 0, held: 0, state: State::Free };

/// Messages by what became of them, each reflector counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InFlightCounts {
    /// Given up, and answers dropped, because there was no room.
    pub overrun: u64,
    /// Answers to no message of this run, or to one that asked for none.
    pub unmatched: u64,
    /// Answered in time.
    pub answered: u64,
    pub lost: u64,
    /// May still be answered.
    pub waiting: u64,
    /// Answered after their time.
    pub late: u64,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    config: InFlightConfig,
    slots: Vec<Slot>,
    /// Messages that the slots hold, a power of two.
    held: u64,
    /// All messages below are done with.
    tail: u64,
    /// By reflector: messages with lower numbers are known to be sent. Entries of one message may come apart.
    heads: Vec<u64>,
    /// Newest message answered, by reflector.
    newest: Vec<Option<u64>>,
    early: VecDeque<ReceivedEntry>,
    /// Stamps of messages whose entry has not come yet: number, reflector, time.
    early_stamps: VecDeque<(u64, u64, u64)>,
    /// From this message on the kernel's time stamp ids are unreliable.
    uncounted_from: u64,
    pub counts: InFlightCounts,
    /// When the last message was sent, in ticks; 0 before the first.
    pub last_sent: u64,
    last_intended: u64,
}

impl InFlight {
    /// Takes and touches its memory.
    pub(crate) fn new(config: InFlightConfig) -> Self {
        let held = config.room.clamp(1024, MOST).next_power_of_two();
        let peers = usize::from(config.peers.max(1));
        Self {
            config,
            slots: vec![FREE; held * peers],
            held: held as u64,
            heads: vec![0; peers],
            newest: vec![None; peers],
            early: VecDeque::with_capacity(EARLY),
            early_stamps: VecDeque::with_capacity(EARLY),
            uncounted_from: u64::MAX,
            ..Self::default()
        }
    }

    fn at(&self, seq: u64, peer: u16) -> Option<usize> {
        let row = usize::try_from(seq & (self.held - 1)).ok()?;
        Some(row * usize::from(self.config.peers.max(1)) + usize::from(peer))
    }

    fn slot(&mut self, seq: u64, peer: u16) -> Option<&mut Slot> {
        if peer >= self.config.peers.max(1) {
            return None;
        }
        let at = self.at(seq, peer)?;
        self.slots.get_mut(at).filter(|slot| slot.seq == seq)
    }

    pub(crate) fn sent(&mut self, entry: &SentEntry, out: &mut Vec<PacedSample>) {
        let [number, whom, intended, sent, sent_ns, held] = *entry;
        let seq = number.saturating_sub(self.config.first_number);
        if whom & UNCOUNTED != 0 {
            self.uncounted_from = self.uncounted_from.min(seq);
        }
        let whom = whom & !UNCOUNTED;
        while seq >= self.tail + self.held {
            // The oldest must go although its time is not over.
            self.counts.overrun += self.give_up(self.tail, out);
            self.tail += 1;
        }
        let asked = number.is_multiple_of(self.config.every.max(1));
        let peers = if whom == ALL { 0..self.config.peers.max(1) } else { one(whom) };
        for peer in peers {
            let Some(at) = self.at(seq, peer) else { continue };
            let state = if asked { State::Waiting } else { State::Unasked };
            let slot = Slot { seq, intended, sent, sent_ns, driver_ns: 0, held, state };
            if let Some(place) = self.slots.get_mut(at) {
                *place = slot;
            }
            if let Some(head) = self.heads.get_mut(usize::from(peer)) {
                *head = (*head).max(seq + 1);
            }
            self.counts.waiting += u64::from(asked);
            if !asked {
                out.push(self.sample(&slot, peer, 0, SampleFlags::UNASKED));
            }
        }
        self.last_sent = self.last_sent.max(sent);
        self.last_intended = self.last_intended.max(intended);
        // Usually none.
        for _ in 0..self.early_stamps.len() {
            if let Some((stamped, whom, driver_ns)) = self.early_stamps.pop_front() {
                self.driver(stamped, whom, driver_ns);
            }
        }
    }

    /// When the driver or the NIC sent a message to a reflector, or to [`ALL`]; perhaps before the message's entry. Only the
    /// first time counts: a stream sends again what was lost.
    pub(crate) fn driver(&mut self, seq: u64, whom: u64, driver_ns: u64) {
        let peers = if whom == ALL { 0..self.config.peers.max(1) } else { one(whom) };
        let head = self.heads.get(usize::from(peers.start)).copied().unwrap_or(0);
        if seq >= self.uncounted_from {
            return;
        }
        if seq >= head {
            // Nothing that far ahead is of this phase.
            if seq - head < self.held && self.early_stamps.len() < EARLY {
                self.early_stamps.push_back((seq, whom, driver_ns));
            }
            return;
        }
        for peer in peers {
            if let Some(slot) = self.slot(seq, peer)
                && slot.driver_ns == 0
                && slot.sent_ns <= driver_ns
            {
                slot.driver_ns = driver_ns;
            }
        }
    }

    /// An answer came. One whose message is not known yet is looked at again by [`InFlight::retry`].
    pub(crate) fn on_answer(&mut self, entry: &ReceivedEntry, out: &mut Vec<PacedSample>) {
        let [number, peer, received, ..] = *entry;
        let (Some(seq), Ok(peer)) = (number.checked_sub(self.config.first_number), u16::try_from(peer)) else {
            self.counts.unmatched += 1;
            return;
        };
        if self.heads.get(usize::from(peer)).is_some_and(|head| seq >= *head) {
            if self.early.len() < EARLY {
                self.early.push_back(*entry);
            } else {
                self.counts.overrun += 1;
            }
            return;
        }
        let (timeout, newest) = (self.config.timeout, self.newest.get(usize::from(peer)).copied().flatten());
        let Some(slot) = self.slot(seq, peer) else {
            self.counts.unmatched += 1;
            return;
        };
        let found = *slot;
        let in_time = received.saturating_sub(found.sent) < timeout;
        let behind = newest.is_some_and(|newest| newest > seq);
        let order = if behind { SampleFlags::REORDERED } else { SampleFlags::default() };
        match found.state {
            State::Waiting if in_time => {
                slot.state = State::Answered;
                self.counts.answered += 1;
                self.counts.waiting -= 1;
                out.push(self.stamped(&found, peer, entry, order));
            }
            State::Waiting => {
                // Nobody looked in time; it was lost all the same.
                slot.state = State::Late;
                self.counts.lost += 1;
                self.counts.late += 1;
                self.counts.waiting -= 1;
                out.push(self.given_up(&found, peer));
                out.push(self.stamped(&found, peer, entry, order.with(SampleFlags::LATE)));
            }
            State::Lost => {
                slot.state = State::Late;
                self.counts.late += 1;
                out.push(self.stamped(&found, peer, entry, order.with(SampleFlags::LATE)));
            }
            State::Answered | State::Late => out.push(self.stamped(&found, peer, entry, SampleFlags::DUPLICATE)),
            // An answer to a message that asked for none.
            State::Unasked | State::Free => self.counts.unmatched += 1,
        }
        if let Some(newest) = self.newest.get_mut(usize::from(peer)).filter(|_| found.state != State::Unasked) {
            *newest = Some(newest.map_or(seq, |newest| newest.max(seq)));
        }
    }

    /// Matches answers that came before the entry of their send; at the `end` of a run the rest are strays.
    pub(crate) fn retry(&mut self, end: bool, out: &mut Vec<PacedSample>) {
        for _ in 0..self.early.len() {
            let Some(entry) = self.early.pop_front() else { break };
            let head = usize::try_from(entry[1]).ok().and_then(|peer| self.heads.get(peer)).copied();
            if end && head.is_none_or(|head| entry[0].saturating_sub(self.config.first_number) >= head) {
                self.counts.unmatched += 1;
            } else {
                self.on_answer(&entry, out);
            }
        }
    }

    /// Gives up all messages whose time was over at `now`.
    pub(crate) fn expire(&mut self, now: u64, out: &mut Vec<PacedSample>) {
        let head = self.heads.iter().copied().min().unwrap_or(0);
        while self.tail < head {
            if self.is_open(self.tail, now) {
                break;
            }
            self.give_up(self.tail, out);
            self.tail += 1;
        }
    }

    /// Whether a message may still be answered in time.
    fn is_open(&self, seq: u64, now: u64) -> bool {
        (0..self.config.peers.max(1)).any(|peer| {
            let slot = self.at(seq, peer).and_then(|at| self.slots.get(at));
            slot.is_some_and(|slot| {
                slot.seq == seq && slot.state == State::Waiting && now < slot.sent.saturating_add(self.config.timeout)
            })
        })
    }

    fn give_up(&mut self, seq: u64, out: &mut Vec<PacedSample>) -> u64 {
        let mut given_up = 0;
        for peer in 0..self.config.peers.max(1) {
            let Some(slot) = self.slot(seq, peer).filter(|slot| slot.state == State::Waiting) else { continue };
            slot.state = State::Lost;
            let found = *slot;
            given_up += 1;
            out.push(self.given_up(&found, peer));
        }
        self.counts.lost += given_up;
        self.counts.waiting -= given_up;
        given_up
    }

    fn given_up(&self, slot: &Slot, peer: u16) -> PacedSample {
        self.sample(slot, peer, slot.sent.saturating_add(self.config.timeout), SampleFlags::LOST)
    }

    fn sample(&self, slot: &Slot, peer: u16, received: u64, flags: SampleFlags) -> PacedSample {
        PacedSample {
            sample: Sample {
                seq: slot.seq,
                intended: slot.intended,
                sent: slot.sent,
                received,
                peer_rx: 0,
                peer_tx: 0,
                flags: flags.with(self.config.flags),
            },
            reflector: peer,
            held: slot.held,
            stamps: StampTimes { sent_ns: slot.sent_ns, driver_ns: slot.driver_ns, ..StampTimes::default() },
            ..PacedSample::default()
        }
    }

    fn stamped(&self, slot: &Slot, peer: u16, entry: &ReceivedEntry, flags: SampleFlags) -> PacedSample {
        let [_, _, received, rx, tx, stack_ns, received_ns, far_stack_ns, far_received_ns, far_sent_ns, ..] = *entry;
        let [.., out, back, told_tx, told_ns] = *entry;
        let mut sample = self.sample(slot, peer, received, flags);
        (sample.sample.peer_rx, sample.sample.peer_tx) = (rx, tx);
        sample.stamps =
            StampTimes { stack_ns, received_ns, far_stack_ns, far_received_ns, far_sent_ns, ..sample.stamps };
        (sample.told_tx, sample.told_ns) = (told_tx, told_ns);
        (sample.out, sample.back) = (Repaired::from_word(out), Repaired::from_word(back));
        sample
    }

    /// Answers that have not come at all: a stream still holds them.
    pub(crate) fn missing(&self) -> u64 {
        (self.counts.waiting + self.counts.lost).saturating_sub(self.counts.late)
    }

    pub(crate) fn addressed(&self, whom: u64) -> u64 {
        if whom == ALL { u64::from(self.config.peers.max(1)) } else { 1 }
    }

    /// The fate of all messages is known that were intended before this tick, as far as [`InFlight::expire`] looked.
    pub(crate) fn known_before(&self) -> u64 {
        let oldest = (0..self.config.peers.max(1)).find_map(|peer| {
            let slot = self.at(self.tail, peer).and_then(|at| self.slots.get(at))?;
            (slot.seq == self.tail && slot.state != State::Free).then_some(slot.intended)
        });
        oldest.unwrap_or(self.last_intended)
    }
}

fn one(whom: u64) -> std::ops::Range<u16> {
    u16::try_from(whom).map_or(0..0, |peer| peer..peer.saturating_add(1))
}

#[cfg(test)]
mod tests;
