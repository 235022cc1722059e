//! Loss detection by time (RACK, RFC 8985) or, without SACK, by duplicate ACKs (RFC 6582), and recovery.

use super::flights::{Fate, Flight};
use super::{Connection, Purpose};
use crate::Instant;
use crate::number::Seq;

/// Acknowledgments of later data after which a segment counts as lost, where no reordering was ever seen.
const DUPLICATES: usize = 3;
/// Recoveries for which a widened reordering window is kept.
const WINDOW_PERSISTS: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// SND.NXT when it began: its acknowledgment ends it.
    pub(crate) point: Seq,
    /// It began with a retransmission time-out.
    pub(crate) timeout: bool,
    /// The first retransmission is still to come: no window holds it back (RFC 6675, section 5, step 4.3).
    pub(crate) begins: bool,
}

/// The most recently sent segment that was delivered, and how much later others may come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rack {
    sent_at: Instant,
    end: Seq,
    round_trip: u64,
    shortest: u64,
    /// The end of the furthest delivered segment.
    furthest: Option<Seq>,
    reordering_seen: bool,
    multiplier: u32,
    persists: u8,
    /// A duplicate was reported; another one counts only behind this number.
    round: Option<Seq>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_at: Instant(0),
            end: Seq(0),
            round_trip: 0,
            shortest: u64::MAX,
            furthest: None,
            reordering_seen: false,
            multiplier: 1,
            persists: WINDOW_PERSISTS,
            round: None,
        }
    }
}

impl Rack {
    /// The handshake took so long.
    pub(crate) fn measured(&mut self, round_trip: u64) {
        self.shortest = self.shortest.min(round_trip.max(1));
    }

    /// A segment was delivered: acknowledged, or selectively so, for the first time.
    pub(crate) fn delivered(&mut self, now: Instant, flight: &Flight) {
        let round_trip = now.since(flight.sent_at);
        if flight.retransmissions > 0 {
            // It may be the first transmission that arrived.
            if round_trip < self.shortest {
                return;
            }
        } else {
            self.measured(round_trip);
            self.reordering_seen |= self.furthest.is_some_and(|furthest| flight.end().before(furthest));
        }
        self.furthest = Some(self.furthest.map_or(flight.end(), |furthest| furthest.later(flight.end())));
        self.round_trip = round_trip;
        if later(flight.sent_at, flight.end(), self.sent_at, self.end) {
            (self.sent_at, self.end) = (flight.sent_at, flight.end());
        }
    }

    /// The other end received something twice: what was sent again was only late.
    pub(crate) fn duplicate_reported(&mut self, acknowledgment: Seq, next: Seq) {
        if self.round.is_none_or(|round| acknowledgment.at_least(round)) {
            self.round = Some(next);
            self.multiplier = (self.multiplier + 1).min(64);
            self.persists = WINDOW_PERSISTS;
        }
    }

    fn recovery_ended(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.multiplier = 1;
        }
    }

    /// The reordering window (section 6.2, step 4).
    fn window(&self, impatient: bool, smoothed: u64) -> u64 {
        if impatient && !self.reordering_seen {
            return 0;
        }
        (u64::from(self.multiplier) * (self.shortest.min(smoothed) / 4)).min(smoothed)
    }
}

/// Whether one transmission was after another; those at the same time are ordered by their numbers.
fn later(sent_at: Instant, end: Seq, than: Instant, than_end: Seq) -> bool {
    sent_at > than || sent_at == than && end.after(than_end)
}

impl Connection {
    /// Marks what must be lost by now; when to look again.
    pub(super) fn detect_losses(&mut self, now: Instant) -> Instant {
        let send = &mut self.send;
        let before = send.flights.lost();
        let mut look_again = Instant::NEVER;
        if self.sack {
            // Without these, segments are in sending order: if the oldest is not overtaken, none is.
            if send.flights.sacked() == 0
                && send.flights.resent() == 0
                && send
                    .flights
                    .get(0)
                    .is_none_or(|oldest| !later(send.rack.sent_at, send.rack.end, oldest.sent_at, oldest.end()))
            {
                return look_again;
            }
            let impatient = send.recovery.is_some() || send.flights.sacked() >= DUPLICATES;
            let wait = send.rack.round_trip + send.rack.window(impatient, send.round_trip.smoothed);
            for at in 0..send.flights.len() {
                let Some(&flight) = send.flights.get(at) else { break };
                if flight.fate != Fate::Flying || !later(send.rack.sent_at, send.rack.end, flight.sent_at, flight.end())
                {
                    continue;
                }
                let lost_at = flight.sent_at.after(wait);
                if lost_at <= now {
                    send.flights.change(at, Fate::Lost);
                } else {
                    look_again = look_again.min(lost_at);
                }
            }
        } else if send.duplicate_acks == 3 && send.recovery.is_none() {
            self.lose_first();
        }
        if self.send.flights.lost() > before {
            // What a probe showed, recovery repairs: another one may be sent.
            self.send.tail_probe = None;
            self.recover();
        }
        look_again
    }

    /// Sets the timer for the end of the reordering window, where that comes first.
    pub(super) fn look_again(&mut self, at: Instant) {
        if at < self.timers.retransmit {
            (self.timers.retransmit, self.timers.purpose) = (at, Purpose::Reordering);
        }
    }

    /// The oldest segment is lost (RFC 6582).
    pub(super) fn lose_first(&mut self) {
        if self.send.flights.get(0).is_some_and(|flight| flight.fate == Fate::Flying) {
            self.send.flights.change(0, Fate::Lost);
        }
    }

    /// Something is lost: the congestion window is halved, once for all that was in flight.
    fn recover(&mut self) {
        let send = &mut self.send;
        if send.recovery.is_none() {
            send.recovery = Some(Recovery { point: send.next, timeout: false, begins: true });
            send.congestion.lost(send.next.since(send.unacknowledged), send.mss);
        }
    }

    /// A recovery is over where all that was in flight at its start is acknowledged.
    pub(super) fn end_recovery(&mut self) {
        if self.send.recovery.is_some_and(|recovery| self.send.unacknowledged.at_least(recovery.point)) {
            self.send.recovery = None;
            self.send.rack.recovery_ended();
        }
    }

    /// The retransmission timer fired: all that is in flight counts as lost (RFC 5681, section 3.1; RFC 8985, section 6.3).
    pub(super) fn lose_all(&mut self) {
        let send = &mut self.send;
        // The first segment was SACKed but not ACKed: the other end has dropped what it had (RFC 2018, section 8).
        let renounced = send.flights.get(0).is_some_and(|flight| flight.fate == Fate::Sacked);
        for at in 0..send.flights.len() {
            let Some(flight) = send.flights.get(at) else { break };
            if flight.fate == Fate::Flying || renounced && flight.fate == Fate::Sacked {
                send.flights.change(at, Fate::Lost);
            }
        }
    }
}
