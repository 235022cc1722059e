//! What an acknowledgment changes (RFC 9293, section 3.10.7.4, fifth check; RFC 5681; RFC 6675; RFC 8985).

use super::flights::{Fate, Flight};
use super::recovery::Recovery;
use super::{Connection, Purpose, TcpState};
use crate::Instant;
use crate::number::Seq;
use crate::wire::tcp::{FIN, Options, SYN, Segment};

impl Connection {
    /// Takes an acceptable acknowledgment: of new data, or the newest one again.
    pub(super) fn acknowledged(&mut self, now: Instant, segment: &Segment<'_>, options: &Options) {
        let acknowledgment = segment.acknowledgment;
        let window = self.scaled(segment);
        let is_duplicate = acknowledgment == self.send.unacknowledged
            && segment.payload.is_empty()
            && !segment.has(SYN | FIN)
            && window == self.send.window
            // Answers to probes of a closed window say nothing of losses.
            && window > 0
            && !self.send.flights.is_empty();
        let (flying, sacked) = (self.send.flights.flying(), self.send.flights.sacked());
        let advance = self.advance(now, acknowledgment);
        let duplicate_reported = self.sack && self.take_blocks(now, options.blocks());
        if duplicate_reported {
            self.duplicate_reported(acknowledgment);
        }
        let is_bare_duplicate = is_duplicate && options.blocks().is_empty();
        self.end_tail_probe(acknowledgment, duplicate_reported || is_bare_duplicate);
        if advance > 0 {
            self.send.duplicate_acks = 0;
            if !self.sack && self.send.recovery.is_some_and(|recovery| acknowledgment.before(recovery.point)) {
                // A partial acknowledgment: the next one was lost too (RFC 6582).
                self.lose_first();
            }
            // The acknowledgment that ends a recovery leaves the window at the threshold (RFC 5681, section 3.2, step 6).
            let is_repaired = matches!(self.send.recovery, Some(Recovery { timeout: false, .. }));
            self.end_recovery();
            if !is_repaired {
                self.grow(advance, flying);
            }
        } else if is_duplicate {
            self.send.duplicate_acks += 1;
        }
        self.update_window(segment, window);
        let look_again = self.detect_losses(now);
        if advance > 0 || self.send.flights.sacked() != sacked {
            self.arm_retransmit(now);
        }
        self.look_again(look_again);
    }

    /// The window of a segment, in bytes; those of SYNs are never scaled (RFC 7323, section 2.2).
    pub(super) fn scaled(&self, segment: &Segment<'_>) -> u32 {
        u32::from(segment.window) << if segment.has(SYN) { 0 } else { self.send.shift }
    }

    /// Moves SND.UNA; by how much.
    pub(super) fn advance(&mut self, now: Instant, acknowledgment: Seq) -> u32 {
        let send = &mut self.send;
        let advance = acknowledgment.since(send.unacknowledged);
        if advance == 0 {
            return 0;
        }
        let (mut sample, mut ambiguous) = (None, false);
        while let Some(flight) = send.flights.take_acknowledged(acknowledgment) {
            if flight.fate != Fate::Sacked {
                send.rack.delivered(now, &flight);
                sample = Some(now.since(flight.sent_at));
                ambiguous |= flight.retransmissions > 0;
            }
        }
        send.flights.trim(acknowledgment);
        // Karn: only segments sent once are measured. Others in a joint ACK may have arrived long before.
        if let Some(sample) = sample.filter(|_| !ambiguous) {
            send.round_trip.measured(sample);
        }
        let data = send.buffer.length().min(advance as usize);
        send.buffer.consume(data);
        if send.finished && crate::number::long(data) < advance {
            send.fin_acknowledged = true;
        }
        send.unacknowledged = acknowledgment;
        if send.urgent.is_some_and(|end| end.at_most(acknowledgment)) {
            send.urgent = None;
        }
        (send.backoff, send.silent_since) = (0, None);
        self.soft_error = None;
        if send.short_of_room && send.buffer.free() * 3 >= send.buffer.capacity() {
            send.short_of_room = false;
            self.write_edges += 1;
        }
        advance
    }

    /// Takes SACK blocks; whether the first one reports a duplicate (RFC 2883).
    fn take_blocks(&mut self, now: Instant, blocks: &[(Seq, Seq)]) -> bool {
        let mut duplicate = false;
        for (at, &(start, end)) in blocks.iter().enumerate() {
            if at == 0 {
                let within = blocks.get(1).is_some_and(|second| start.at_least(second.0) && end.at_most(second.1));
                if end.at_most(self.send.unacknowledged) || within {
                    duplicate = true;
                    continue;
                }
            }
            // Blocks of what was never sent, or is acknowledged, are of no use.
            if start.before(self.send.unacknowledged) || end.after(self.send.next) || !start.before(end) {
                continue;
            }
            let mut index = self.send.flights.first_from(start);
            while let Some(&flight) = self.send.flights.get(index).filter(|flight| flight.end().at_most(end)) {
                self.sacked(now, index, &flight);
                index += 1;
            }
        }
        duplicate
    }

    fn sacked(&mut self, now: Instant, index: usize, flight: &Flight) {
        if flight.fate == Fate::Sacked {
            return;
        }
        self.send.flights.change(index, Fate::Sacked);
        self.send.rack.delivered(now, flight);
        if flight.retransmissions == 0 {
            self.send.round_trip.measured(now.since(flight.sent_at));
        }
    }

    fn duplicate_reported(&mut self, acknowledgment: Seq) {
        if self.send.tail_probe.is_none() {
            // That of a probe is no sign of reordering.
            self.send.rack.duplicate_reported(acknowledgment, self.send.next);
        }
        let by_timer = self.send.tail_probe.is_some() || self.send.recovery.is_some_and(|recovery| recovery.timeout);
        if by_timer && self.send.was_delayable && self.send.flights.sacked() == 0 {
            self.send.round_trip.was_impatient(&self.options);
        }
    }

    /// RFC 8985, section 7.4.2: a tail loss probe that repaired a loss is a sign of congestion, as any other loss. Where both the
    /// segment and the probe arrived, the other end reports it: by a duplicate report, or without SACK blocks by its number again.
    fn end_tail_probe(&mut self, acknowledgment: Seq, was_needless: bool) {
        let Some(end) = self.send.tail_probe.filter(|end| acknowledgment.at_least(*end)) else { return };
        if was_needless {
            self.send.tail_probe = None;
        } else if acknowledgment.after(end) {
            self.tail_was_lost();
        }
    }

    /// No report of a duplicate came: the last tail loss probe repaired a loss.
    pub(super) fn tail_was_lost(&mut self) {
        if self.send.tail_probe.take().is_some() && self.send.recovery.is_none() {
            self.send.congestion.lost(self.send.congestion.window, self.send.mss);
        }
    }

    /// Widens the congestion window, outside of a fast recovery.
    pub(super) fn grow(&mut self, advance: u32, flying: u32) {
        let send = &mut self.send;
        let after_timeout = send.recovery.is_some();
        let congestion = &mut send.congestion;
        let was_full = after_timeout
            || flying + send.mss > congestion.window
            || congestion.window < congestion.threshold && 2 * u64::from(flying) >= u64::from(congestion.window);
        congestion.acknowledged(advance, send.mss, was_full, after_timeout);
    }

    /// SND.WND, from the newest segment only.
    pub(super) fn update_window(&mut self, segment: &Segment<'_>, window: u32) {
        // An end that counts the byte of its probe sends its data with a smaller number later.
        let closed = self.receive.window() == 0;
        let sequence = if closed { self.receive.next } else { segment.sequence };
        let send = &mut self.send;
        let newer = send.window_sequence.before(sequence)
            || send.window_sequence == sequence && send.window_acknowledgment.at_most(segment.acknowledgment);
        if !newer {
            return;
        }
        let was_probing = self.timers.purpose == Purpose::WindowProbe && self.timers.retransmit != Instant::NEVER;
        send.window = window;
        send.largest_window = send.largest_window.max(window);
        send.window_sequence = sequence;
        send.window_acknowledgment = segment.acknowledgment;
        if window == 0 {
            // The other end answers: the connection stays open (MUST-37), for as long as a socket holds it.
            if !self.orphan {
                send.silent_since = None;
            }
        } else if was_probing {
            // The byte of a probe was dropped, or it would be acknowledged.
            self.lose_all();
            self.send.backoff = 0;
            self.timers.retransmit = Instant::NEVER;
        }
    }

    /// What follows from the acknowledgment of the FIN; true where the connection is over.
    pub(super) fn fin_acknowledged(&mut self, now: Instant) -> bool {
        if !self.send.fin_acknowledged {
            return false;
        }
        match self.state {
            TcpState::FinWait1 => {
                self.state = TcpState::FinWait2;
                self.limit_fin_wait(now);
            }
            TcpState::Closing => self.enter_time_wait(now),
            TcpState::LastAck => {
                self.end(None);
                return true;
            }
            _ => {}
        }
        false
    }
}
