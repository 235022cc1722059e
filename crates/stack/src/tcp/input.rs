//! Segments that arrive (RFC 9293, section 3.10.7), with the checks of RFC 5961 and RFC 7323.

use super::{Connection, TcpState};
use crate::time::SECOND;
use crate::wire::tcp::{ACK, FIN, Options, RST, SYN, Segment, URG};
use crate::{Error, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    /// A connection that a listener made is established.
    Accepted,
    /// The segment is answered by a reset.
    Refused,
}

/// How long a time stamp is remembered (RFC 7323, section 5.5).
const TIMESTAMP_LASTS: u64 = 24 * 86_400 * SECOND;

impl Connection {
    pub(crate) fn segment(&mut self, now: Instant, segment: &Segment<'_>) -> Outcome {
        self.receive.segments += 1;
        if self.predicted(now, segment) {
            return Outcome::Nothing;
        }
        let options = Options::parse(segment.options);
        match self.state {
            TcpState::SynSent => self.answer_to_syn(now, segment, &options),
            TcpState::Closed => Outcome::Refused,
            _ => self.checked(now, segment, &options),
        }
    }

    /// The other end lives.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = now;
        self.keep_alives_sent = 0;
    }

    /// The checks of all states but CLOSED, LISTEN and SYN-SENT, in the RFC's order.
    fn checked(&mut self, now: Instant, segment: &Segment<'_>, options: &Options) -> Outcome {
        if !self.passes_timestamps(now, segment, options) {
            return Outcome::Nothing;
        }
        if self.state == TcpState::SynReceived && segment.has(SYN) && segment.sequence == self.receive.initial {
            return self.syn_again(now, segment, options);
        }
        if !self.is_acceptable(segment) {
            self.answer_unacceptable(now, segment);
            return Outcome::Nothing;
        }
        self.heard(now);
        if segment.has(RST) {
            self.take_reset(now, segment);
            return Outcome::Nothing;
        }
        if segment.has(SYN) {
            if self.state == TcpState::SynReceived && !self.active {
                // Back to LISTEN.
                self.end(None);
            } else {
                self.challenge(now);
            }
            return Outcome::Nothing;
        }
        if !segment.has(ACK) {
            return Outcome::Nothing;
        }
        let mut outcome = Outcome::Nothing;
        if self.state == TcpState::SynReceived {
            if !self.completes_handshake(segment) {
                return Outcome::Refused;
            }
            self.establish(now, segment);
            outcome = Outcome::Accepted;
        } else {
            let oldest = self.send.unacknowledged.minus(self.send.largest_window.max(1));
            if segment.acknowledgment.before(oldest) || segment.acknowledgment.after(self.send.next) {
                // RFC 5961, section 5.
                self.challenge(now);
                return Outcome::Nothing;
            }
        }
        self.remember_timestamp(now, segment, options);
        if segment.acknowledgment.at_least(self.send.unacknowledged) {
            self.acknowledged(now, segment, options);
            if self.fin_acknowledged(now) {
                return outcome;
            }
        }
        self.take_urgent(segment);
        self.take_text(now, segment);
        outcome
    }

    /// PAWS (RFC 7323, section 5.3, R1); segments that lack the option are dropped (section 3.2).
    fn passes_timestamps(&mut self, now: Instant, segment: &Segment<'_>, options: &Options) -> bool {
        if !self.timestamps || segment.has(RST) {
            return true;
        }
        let Some((value, _)) = options.timestamps else { return false };
        // Older than the newest, modulo 2^32.
        let is_old = value.wrapping_sub(self.receive.ts_recent) > u32::MAX / 2;
        if is_old && now.since(self.receive.ts_recent_at) < TIMESTAMP_LASTS {
            self.receive.duplicates += 1;
            self.challenge(now);
            return false;
        }
        true
    }

    /// TS.Recent, from segments that cover what was last acknowledged (RFC 7323, section 4.3).
    pub(super) fn remember_timestamp(&mut self, now: Instant, segment: &Segment<'_>, options: &Options) {
        if let Some((value, _)) = options.timestamps
            && self.timestamps
            && segment.sequence.at_most(self.receive.last_ack_sent)
        {
            self.receive.ts_recent = value;
            self.receive.ts_recent_at = now;
        }
    }

    /// RFC 9293, section 3.10.7.4, first check. A closed window lets ACKs, RSTs and URGs in (MUST-66), without data.
    fn is_acceptable(&self, segment: &Segment<'_>) -> bool {
        let (next, window, length) = (self.receive.next, self.receive.window(), segment.length());
        let within = |number: crate::number::Seq| number.since(next) < window;
        // One number later: the other end counts the byte of its probe, which was dropped.
        if segment.sequence == next || window == 0 && length == 0 && segment.sequence == next.plus(1) {
            return true;
        }
        within(segment.sequence) || length > 0 && within(segment.sequence.plus(length - 1)) && window > 0
    }

    fn answer_unacceptable(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.has(RST) {
            return;
        }
        if self.state == TcpState::TimeWait && segment.has(FIN) {
            // The last acknowledgment was lost: TIME-WAIT begins anew.
            self.enter_time_wait(now);
        }
        if segment.payload.is_empty() {
            self.challenge(now);
            return;
        }
        // Data that were acknowledged before: that was lost, or they were slow.
        self.receive.duplicates += 1;
        let end = segment.sequence.plus(crate::number::long(segment.payload.len()));
        if end.at_most(self.receive.next) {
            self.receive.duplicate = Some((segment.sequence, end));
        }
        self.acknowledge_quickly();
    }

    /// Sends an acknowledgment for a segment that proves nothing, as often as the limit allows (RFC 5961, section 7).
    fn challenge(&mut self, now: Instant) {
        if self.may_challenge(now) {
            self.receive.ack_now = true;
        }
    }

    /// RFC 5961, section 3: only a reset at exactly RCV.NXT is believed.
    fn take_reset(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.sequence != self.receive.next {
            self.challenge(now);
            return;
        }
        let error = match self.state {
            TcpState::SynReceived if self.active => Some(Error::ConnectionRefused),
            TcpState::SynReceived | TcpState::TimeWait | TcpState::Closing | TcpState::LastAck => None,
            TcpState::CloseWait => Some(Error::BrokenPipe),
            _ => Some(Error::ConnectionReset),
        };
        self.end(error);
    }

    /// The urgent pointer (RFC 9293, section 3.8.5). Urgent data stay where they are among the others.
    fn take_urgent(&mut self, segment: &Segment<'_>) {
        if !segment.has(URG) || !self.state.receives() {
            return;
        }
        let end = segment.sequence.plus(u32::from(segment.urgent));
        if self.receive.urgent.is_none_or(|urgent| end.after(urgent)) && end.after(self.receive.next) {
            self.receive.urgent = Some(end);
            self.read_edges += 1;
        }
    }

    fn take_text(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.payload.is_empty() && !segment.has(FIN) {
            return;
        }
        if self.state == TcpState::TimeWait && segment.has(FIN) {
            self.enter_time_wait(now);
            self.receive.ack_now = true;
        }
        if !self.state.receives() {
            return;
        }
        let end = segment.sequence.plus(crate::number::long(segment.payload.len()));
        if self.orphan && end.after(self.receive.next) {
            // Nobody will ever read it (RFC 9293, section 3.6.1).
            self.reset(None);
            return;
        }
        self.accept(now, segment);
        if self.state == TcpState::Closing && self.send.fin_acknowledged {
            self.enter_time_wait(now);
        }
    }
}
