//! What time makes due (RFC 6298, RFC 8985 section 7, RFC 9293 sections 3.8.3, 3.8.4 and 3.10.8).

use super::recovery::Recovery;
use super::{Connection, Purpose, TcpState};
use crate::ring::Ring;
use crate::time::{MS, SECOND};
use crate::{Error, Instant};

/// A tail loss probe waits four variations of the round trip beyond two round trips, for an acknowledgment that the other end's
/// scheduler holds up; so much at least and at most, and never more than the floor of the retransmission time-out.
const PROBE_SLACK_LEAST: u64 = MS / 4;
const PROBE_SLACK: u64 = 2 * MS;
/// The same where only one segment is in flight, which the other end need not acknowledge at once.
const PROBE_SLACK_ALONE: u64 = 50 * MS;
/// How long the end of a connection without a socket is retransmitted.
const ORPHAN_PATIENCE: u64 = 100 * SECOND;

impl Connection {
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.timers.ack <= now {
            self.timers.ack = Instant::NEVER;
            self.receive.ack_now = true;
            self.receive.interactive = false;
        }
        if self.timers.cork <= now {
            self.timers.cork = Instant::NEVER;
            self.wanted.push = true;
        }
        if self.timers.keep_alive <= now {
            self.keep_alive_due(now);
        }
        if self.timers.retransmit <= now {
            self.retransmit_due(now);
        }
        if self.timers.end <= now {
            self.end(None);
        }
    }

    /// Whether the other end may delay the ACK of all in flight: less than two full segments (RFC 5681, section 4.2).
    fn may_be_delayed(&self) -> bool {
        self.send.next.since(self.send.unacknowledged) < 2 * self.send.mss
    }

    /// RTO with back-off.
    pub(super) fn timeout(&self) -> u64 {
        let timeout = self.send.round_trip.timeout(&self.options, self.may_be_delayed());
        timeout.saturating_mul(1 << self.send.backoff.min(32)).min(self.options.rto_max_ns)
    }

    pub(super) fn arm_timeout(&mut self, now: Instant) {
        self.timers.purpose = Purpose::Timeout;
        self.timers.retransmit = now.after(self.timeout());
        if let Some(since) = self.send.silent_since {
            // Not beyond the time at which the connection is given up.
            self.timers.retransmit = self.timers.retransmit.min(since.after(self.patience())).max(now);
        }
    }

    /// New data were acknowledged: the timer begins anew, for a tail loss probe where that comes first.
    pub(super) fn arm_retransmit(&mut self, now: Instant) {
        let is_probing = self.timers.purpose == Purpose::WindowProbe && self.timers.retransmit != Instant::NEVER;
        if self.send.flights.is_empty() {
            self.timers.retransmit = Instant::NEVER;
        } else if !(is_probing && self.send.window == 0) {
            self.arm_timeout(now);
            self.probe_tail(now);
        }
    }

    /// A segment was sent: the timer runs (RFC 6298, section 5.1), and the tail loss probe comes later.
    pub(super) fn arm_on_send(&mut self, now: Instant) {
        if self.timers.retransmit == Instant::NEVER || self.timers.purpose == Purpose::WindowProbe {
            self.arm_timeout(now);
        } else if self.timers.purpose == Purpose::TailProbe
            && let Some(oldest) = self.send.flights.get(0)
        {
            self.timers.purpose = Purpose::Timeout;
            self.timers.retransmit = oldest.sent_at.after(self.timeout()).max(now);
        }
        self.probe_tail(now);
    }

    /// Sets the timer for a tail loss probe, where one may be sent and comes before the time-out (RFC 8985, section 7.2).
    /// The RFC has none while a recovery goes on. Here one is sent then too: where all of a short flight is lost, the
    /// probe's acknowledgment shows it within two round trips, and a time-out would take its floor.
    fn probe_tail(&mut self, now: Instant) {
        let send = &self.send;
        if !self.sack
            || self.timers.purpose != Purpose::Timeout
            || send.flights.lost() > 0
            || send.tail_probe.is_some_and(|end| end.after(send.unacknowledged))
            || send.backoff > 0
            || send.round_trip.smoothed == 0
        {
            return;
        }
        let usual = (4 * send.round_trip.variation).clamp(PROBE_SLACK_LEAST, PROBE_SLACK);
        let slack = if send.flights.len() == 1 { PROBE_SLACK_ALONE } else { usual };
        let patience = if self.may_be_delayed() { send.round_trip.patience } else { 0 };
        let slack = slack.min(self.options.rto_min_ns).max(patience);
        let at = now.after(2 * send.round_trip.smoothed + slack);
        if at < self.timers.retransmit {
            (self.timers.retransmit, self.timers.purpose) = (at, Purpose::TailProbe);
        }
    }

    /// How long the other end may be silent: R2, or the user time-out.
    fn patience(&self) -> u64 {
        if self.orphan {
            return self.options.give_up_ns.min(ORPHAN_PATIENCE);
        }
        if self.state.is_synchronized() {
            self.options.user_timeout_ns.unwrap_or(self.options.give_up_ns)
        } else {
            self.options.user_timeout_ns.unwrap_or(self.options.connect_give_up_ns)
        }
    }

    fn retransmit_due(&mut self, now: Instant) {
        self.timers.retransmit = Instant::NEVER;
        match self.timers.purpose {
            Purpose::TailProbe => {
                self.wanted.tail_probe = true;
                self.send.was_delayable = self.may_be_delayed();
                self.arm_timeout(now);
            }
            Purpose::Reordering => {
                let look_again = self.detect_losses(now);
                self.arm_timeout(now);
                self.look_again(look_again);
            }
            Purpose::WindowProbe => {
                if self.is_given_up(now) {
                    return;
                }
                self.wanted.window_probe = true;
                self.send.backoff = (self.send.backoff + 1).min(32);
                self.timers.retransmit = now.after(self.timeout());
            }
            Purpose::Timeout => self.timed_out(now),
        }
    }

    /// Whether the other end has been silent for too long, which ends the connection.
    fn is_given_up(&mut self, now: Instant) -> bool {
        let oldest = self.send.flights.get(0).map_or(now, |flight| flight.sent_at);
        let since = *self.send.silent_since.get_or_insert(oldest);
        if now.since(since) < self.patience() {
            return false;
        }
        let error = self.soft_error.unwrap_or(Error::TimedOut);
        self.end(Some(error));
        true
    }

    fn timed_out(&mut self, now: Instant) {
        if self.is_given_up(now) {
            return;
        }
        self.send.timeouts += 1;
        if self.state.is_synchronized() {
            self.send.was_delayable = self.may_be_delayed();
            self.lose_all();
            let send = &mut self.send;
            let in_flight = send.next.since(send.unacknowledged);
            send.congestion.timed_out(in_flight, send.mss, send.backoff > 0);
            send.recovery = Some(Recovery { point: send.next, timeout: true, begins: false });
            send.tail_probe = None;
            send.duplicate_acks = 0;
        } else {
            self.wanted.syn = true;
            self.send.retransmits += 1;
        }
        self.send.backoff = (self.send.backoff + 1).min(32);
        self.arm_timeout(now);
    }

    /// Keep-alive begins, or begins anew after a change of its options.
    pub(crate) fn start_keep_alive(&mut self, now: Instant) {
        self.timers.keep_alive = match self.options.keep_alive {
            Some(keep) if self.state.is_synchronized() && self.state != TcpState::TimeWait => now.after(keep.idle_ns),
            _ => Instant::NEVER,
        };
    }

    fn keep_alive_due(&mut self, now: Instant) {
        self.timers.keep_alive = Instant::NEVER;
        let Some(keep) = self.options.keep_alive.filter(|_| self.state.is_synchronized()) else { return };
        let due = self.last_heard.after(keep.idle_ns);
        if self.keep_alives_sent == 0 && due > now {
            self.timers.keep_alive = due;
        } else if self.end_of_send() != self.send.unacknowledged {
            // Data without acknowledgment ask the same (MUST-26).
            self.timers.keep_alive = now.after(keep.idle_ns);
        } else if self.keep_alives_sent >= keep.count {
            let error = self.soft_error.unwrap_or(Error::TimedOut);
            self.reset(Some(error));
        } else {
            self.keep_alives_sent += 1;
            self.wanted.keep_alive = true;
            self.timers.keep_alive = now.after(keep.interval_ns);
        }
    }

    /// Both ends closed (RFC 9293, section 3.6.1, MUST-13).
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = TcpState::TimeWait;
        let super::Timers { ack, purpose, .. } = self.timers;
        self.timers =
            super::Timers { ack, purpose, end: now.after(self.options.time_wait_ns), ..super::Timers::default() };
        self.send.buffer = Ring::default();
        if self.orphan {
            self.receive.buffer = Ring::default();
        }
    }

    /// FIN-WAIT-2 of a connection without a socket is limited.
    pub(super) fn limit_fin_wait(&mut self, now: Instant) {
        if self.orphan && self.state == TcpState::FinWait2 {
            self.timers.end = now.after(self.options.fin_wait_ns);
        }
    }
}
