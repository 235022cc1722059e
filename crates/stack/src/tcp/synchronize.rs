//! The handshake (RFC 9293, section 3.5), active, passive and simultaneous.

use super::{Connection, Outcome, TcpState, window_shift};
use crate::number::{Seq, long};
use crate::time::MS;
use crate::wire::tcp::{ACK, Options, RST, SYN, Segment};
use crate::{Error, Instant};

impl Connection {
    /// Sends a SYN (active OPEN).
    pub(crate) fn open(&mut self, now: Instant) {
        self.active = true;
        self.state = TcpState::SynSent;
        self.send.next = self.send.initial.plus(1);
        self.offer();
        self.wanted.syn = true;
        self.send.silent_since = Some(now);
        // Also while the next hop is not known.
        self.arm_timeout(now);
    }

    /// Answers the SYN of another end (passive OPEN).
    pub(crate) fn answer(&mut self, now: Instant, sequence: Seq, window: u16, options: &Options) {
        self.state = TcpState::SynReceived;
        self.send.next = self.send.initial.plus(1);
        self.offer();
        self.take_syn(now, sequence, window, options);
        self.wanted.syn = true;
        self.send.silent_since = Some(now);
        // Also while the next hop is not known.
        self.arm_timeout(now);
    }

    /// What a SYN of this end offers.
    fn offer(&mut self) {
        let buffer = self.options.receive_buffer.next_power_of_two();
        self.receive.shift = if self.options.window_scale { window_shift(buffer) } else { 0 };
        self.send.small_end = self.send.next;
    }

    /// Sequence number, window and options of the other end's SYN.
    pub(super) fn take_syn(&mut self, now: Instant, sequence: Seq, window: u16, options: &Options) {
        self.receive.initial = sequence;
        self.receive.next = sequence.plus(1);
        self.receive.last_ack_sent = self.receive.next;
        self.receive.edge = self.receive.next.plus(self.first_window());
        self.send.window = u32::from(window);
        self.send.largest_window = u32::from(window);
        self.send.window_sequence = sequence;
        self.send.window_acknowledgment = self.send.initial;
        if let Some(mss) = options.mss {
            self.send.peer_mss = mss.max(64);
        }
        // Each is used only where both ends offer it.
        match options.window_scale.filter(|_| self.options.window_scale) {
            Some(shift) => self.send.shift = shift.min(14),
            None => self.receive.shift = 0,
        }
        self.sack &= options.sack_permitted;
        self.timestamps &= options.timestamps.is_some();
        if let Some((value, _)) = options.timestamps {
            self.receive.ts_recent = value;
            self.receive.ts_recent_at = now;
        }
        self.measure_segments();
    }

    /// The window of a SYN, which is never scaled.
    pub(super) fn first_window(&self) -> u32 {
        long(self.options.receive_buffer.next_power_of_two()).min(65_535)
    }

    /// Whether an acknowledgment is that of this end's SYN.
    pub(super) fn completes_handshake(&self, segment: &Segment<'_>) -> bool {
        segment.acknowledgment == self.send.initial.plus(1)
    }

    /// Both SYNs are acknowledged.
    pub(super) fn establish(&mut self, now: Instant, segment: &Segment<'_>) {
        self.state = if self.send.finished { TcpState::FinWait1 } else { TcpState::Established };
        self.make_buffers();
        let was_lost = self.send.backoff > 0;
        if was_lost {
            // The echo tells which SYN was answered, in ms; of one that was sent again since, nothing of the path.
            let echo = Options::parse(segment.options).timestamps.filter(|_| self.timestamps);
            let sample = echo.map(|(_, echo)| u64::from(self.timestamp(now).wrapping_sub(echo).max(1)) * MS);
            match sample.filter(|sample| *sample < self.options.rto_initial_ns) {
                Some(sample) => self.send.round_trip.measured(sample),
                None => self.send.round_trip.syn_was_lost(),
            }
            self.send.congestion.syn_was_lost(self.send.mss);
        } else if self.send.last_sent != Instant::NEVER {
            // After a cookie it is not known when its SYN was sent.
            let round_trip = now.since(self.send.last_sent);
            self.send.round_trip.measured(round_trip);
            self.send.rack.measured(round_trip);
        }
        self.send.last_sent = now;
        self.send.unacknowledged = self.send.initial.plus(1);
        self.send.window = self.scaled(segment);
        self.send.largest_window = self.send.largest_window.max(self.send.window);
        self.send.window_sequence = segment.sequence;
        self.send.window_acknowledgment = segment.acknowledgment;
        (self.send.backoff, self.send.silent_since) = (0, None);
        self.timers.retransmit = Instant::NEVER;
        self.wanted.syn = false;
        self.soft_error = None;
        self.start_keep_alive(now);
        self.write_edges += 1;
    }

    /// SYN-SENT (RFC 9293, section 3.10.7.3).
    pub(super) fn answer_to_syn(&mut self, now: Instant, segment: &Segment<'_>, options: &Options) -> Outcome {
        if segment.has(ACK) && !self.completes_handshake(segment) {
            // An old duplicate, or the other end is half open.
            return if segment.has(RST) { Outcome::Nothing } else { Outcome::Refused };
        }
        if segment.has(RST) {
            if segment.has(ACK) {
                self.end(Some(Error::ConnectionRefused));
            }
            return Outcome::Nothing;
        }
        if !segment.has(SYN) {
            return Outcome::Nothing;
        }
        self.take_syn(now, segment.sequence, segment.window, options);
        if !segment.has(ACK) {
            // Simultaneous open (MUST-10).
            self.state = TcpState::SynReceived;
            self.wanted.syn = true;
            return Outcome::Nothing;
        }
        self.establish(now, segment);
        self.receive.ack_now = true;
        if segment.length() > 1 {
            self.accept(now, &Segment { sequence: segment.sequence.plus(1), flags: segment.flags & !SYN, ..*segment });
        }
        Outcome::Nothing
    }

    /// SYN-RECEIVED: the SYN came again, as the answer was lost, or answers this end's SYN in a simultaneous open.
    pub(super) fn syn_again(&mut self, now: Instant, segment: &Segment<'_>, options: &Options) -> Outcome {
        if segment.has(RST) {
            return Outcome::Nothing;
        }
        self.remember_timestamp(now, segment, options);
        if segment.has(ACK) && self.completes_handshake(segment) {
            self.establish(now, segment);
            self.receive.ack_now = true;
            return Outcome::Accepted;
        }
        self.wanted.syn = true;
        Outcome::Nothing
    }
}
