//! Segments that leave (RFC 9293, section 3.8.6.2.1; RFC 5681; RFC 6675).

use super::{Connection, Purpose, TcpState};
use crate::Instant;
use crate::number::{Seq, long};
use crate::time::MS;
use crate::wire::tcp::{ACK, FIN, HEADER, Header, OptionBytes, PSH, SYN, URG};

/// How long cork holds back a segment that is not full, as Linux.
const CORK_LASTS: u64 = 200 * MS;

impl Connection {
    /// Writes the next segment due, with headers; its length. None also without a next hop or room in the frame.
    pub(crate) fn emit(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        if matches!(self.state, TcpState::SynSent | TcpState::SynReceived) {
            if self.wanted.syn {
                return self.emit_syn(now, frame);
            }
        } else if self.state.sends()
            && let Some(length) = self.emit_data(now, frame)
        {
            return Some(length);
        }
        if self.wanted.keep_alive {
            self.wanted.keep_alive = false;
            // A number before the window, which the other end has to answer (RFC 9293, section 3.8.4).
            return self.write(now, frame, self.send.next.minus(1), 0);
        }
        if self.receive.ack_now && self.state != TcpState::Closed {
            return self.write(now, frame, self.bare_sequence(), 0);
        }
        None
    }

    /// The number of a segment without data. The byte of a probe is beyond a closed window, and so would be the number after it:
    /// the other end would drop the acknowledgment with it. An open window is exact to a unit of its scale only.
    pub(crate) fn bare_sequence(&self) -> Seq {
        let send = &self.send;
        let end = send.unacknowledged.plus(send.window);
        let is_exact = send.window == 0 || send.next.since(end) >= 1 << send.shift;
        if send.next.after(end) && is_exact { end } else { send.next }
    }

    fn emit_data(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        if self.receive.ack_now && (!self.receive.ranges.is_empty() || self.receive.duplicate.is_some()) {
            // SACK blocks have room in segments without data only.
            return self.write(now, frame, self.bare_sequence(), 0);
        }
        if std::mem::take(&mut self.wanted.tail_probe)
            && let Some(length) = self.emit_tail_probe(now, frame)
        {
            return Some(length);
        }
        if std::mem::take(&mut self.wanted.window_probe)
            && let Some(length) = self.emit_window_probe(now, frame)
        {
            return Some(length);
        }
        if let Some(at) = self.send.flights.first_lost()
            && let Some(flight) = self.send.flights.get(at)
        {
            let (flying, length) = (self.send.flights.flying(), flight.length.min(self.send.mss));
            // Without SACK only the first segment is known to be lost, and always sent again (RFC 6582).
            let is_first =
                self.send.recovery.is_some_and(|recovery| recovery.begins || !self.sack && !recovery.timeout);
            if flying > 0 && !is_first && flying + length > self.congestion_window() {
                return None;
            }
            if let Some(recovery) = &mut self.send.recovery {
                recovery.begins = false;
            }
            return self.send_again(now, frame, at);
        }
        let length = self.next_length(now)?;
        self.send_new(now, frame, length)
    }

    /// cwnd; without SACK each duplicate acknowledgment counts as a segment that has left the network (RFC 6582).
    fn congestion_window(&self) -> u32 {
        let left = if self.sack { 0 } else { self.send.duplicate_acks.saturating_mul(self.send.mss) };
        self.send.congestion.window.saturating_add(left)
    }

    /// Sequence numbers of the next new segment, by windows and the rules against small segments; None when none may leave.
    fn next_length(&mut self, now: Instant) -> Option<u32> {
        let send = &self.send;
        if send.next == self.end_of_send() || send.flights.is_full() {
            return None;
        }
        let end = self.end_of_data();
        let unsent = if send.next.before(end) { end.since(send.next) } else { 0 };
        let usable = send.window.saturating_sub(send.next.since(send.unacknowledged));
        let data = unsent.min(send.mss).min(usable);
        let fin = send.finished && data == unsent && usable > data;
        let length = data + u32::from(fin);
        if length == 0 {
            self.wait_for_window(now);
            return None;
        }
        let flying = send.flights.flying();
        if flying > 0 && flying.saturating_add(length) > self.congestion_window() {
            return None;
        }
        if data == send.mss || fin || self.wanted.push {
            return Some(length);
        }
        if data < unsent {
            // The window ends in a segment that is not full (sender's silly window avoidance).
            if 2 * u64::from(data) >= u64::from(send.largest_window) {
                return Some(length);
            }
            self.wait_for_window(now);
            return None;
        }
        if self.options.cork || send.more {
            if self.timers.cork == Instant::NEVER {
                self.timers.cork = now.after(CORK_LASTS);
            }
            return None;
        }
        // The Nagle algorithm, in Minshall's form: one small segment at a time.
        (self.options.nodelay || send.small_end.at_most(send.unacknowledged)).then_some(length)
    }

    /// Nothing may be sent and nothing is in flight: a probe will ask whether the window opened (RFC 9293, section 3.8.6.1).
    fn wait_for_window(&mut self, now: Instant) {
        if self.send.flights.is_empty() && self.timers.retransmit == Instant::NEVER {
            self.keep_probing(now);
        }
    }

    fn send_new(&mut self, now: Instant, frame: &mut [u8], length: u32) -> Option<usize> {
        if self.options.restart_after_idle
            && self.send.flights.is_empty()
            && now.since(self.send.last_sent) > self.timeout()
        {
            self.send.congestion.restarted(self.send.mss);
        }
        let start = self.send.next;
        let written = self.write(now, frame, start, length)?;
        let send = &mut self.send;
        send.flights.sent(start, length, now);
        send.next = start.plus(length);
        send.last_sent = now;
        if length < send.mss {
            send.small_end = send.next;
        }
        self.wanted.push = false;
        self.arm_on_send(now);
        Some(written)
    }

    fn send_again(&mut self, now: Instant, frame: &mut [u8], at: usize) -> Option<usize> {
        let flight = *self.send.flights.get(at)?;
        // What was sent when the path carried more is cut to what it carries now.
        let length = if flight.length > self.send.mss + 1 { self.send.mss } else { flight.length };
        let written = self.write(now, frame, flight.start, length)?;
        self.send.flights.sent_again(at, length, now);
        self.send.retransmits += 1;
        self.arm_on_send(now);
        Some(written)
    }

    /// The last segment that may be missing (RFC 8985, section 7.3). The RFC would rather send new data; but a new segment alone is
    /// acknowledged late, and where only the acknowledgment of a burst was lost, the time-out would come first. What comes
    /// twice or closes a gap is acknowledged at once.
    fn emit_tail_probe(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        let written = self.send_again(now, frame, self.send.flights.last_missing()?)?;
        self.tail_was_lost();
        self.send.tail_probe = Some(self.send.next);
        self.arm_timeout(now);
        Some(written)
    }

    /// One number into a window that is closed, or too small (RFC 9293, section 3.8.6.1).
    fn emit_window_probe(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        if !self.send.flights.is_empty() {
            let length = self.send_again(now, frame, 0)?;
            self.keep_probing(now);
            return Some(length);
        }
        let unsent = self.end_of_send().since(self.send.next);
        let usable = self.send.window.saturating_sub(self.send.next.since(self.send.unacknowledged));
        // A window that is small but not closed is used now: the override of the silly window avoidance.
        let length = unsent.min(usable.max(1)).min(self.send.mss);
        if length == 0 {
            return None;
        }
        let written = self.send_new(now, frame, length)?;
        if usable == 0 {
            self.keep_probing(now);
        }
        Some(written)
    }

    fn keep_probing(&mut self, now: Instant) {
        self.timers.purpose = Purpose::WindowProbe;
        self.timers.retransmit = now.after(self.timeout());
    }

    fn emit_syn(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        let template = self.template.as_ref()?;
        let mut options = OptionBytes::default();
        let answers = self.state == TcpState::SynReceived;
        options.add_mss(self.announced_mss());
        if self.sack {
            options.add_sack_permitted();
        }
        if self.timestamps {
            options.add_timestamps(self.timestamp(now), self.receive.ts_recent);
        }
        if self.options.window_scale && (!answers || self.receive.shift > 0 || self.send.shift > 0) {
            options.add_window_scale(self.receive.shift);
        }
        let header = Header {
            source_port: self.flow.local_port,
            destination_port: self.flow.remote_port,
            sequence: self.send.initial,
            acknowledgment: if answers { self.receive.next } else { Seq(0) },
            flags: if answers { SYN | ACK } else { SYN },
            window: crate::number::short(self.first_window() as usize),
            urgent: 0,
        };
        let length = HEADER + options.bytes().len();
        let whole = template.length() + length;
        let segment = template.write(frame, length)?;
        header.write(options.bytes(), segment);
        let sum = template.checksum(segment);
        crate::wire::put(segment, 16, &sum);
        self.wanted.syn = false;
        self.receive.ack_now = false;
        self.send.segments += 1;
        if self.send.backoff == 0 {
            self.send.last_sent = now;
        }
        self.arm_timeout(now);
        Some(whole)
    }

    /// Writes one segment that begins at a number: as many data as its length, and the FIN if they end before.
    fn write(&mut self, now: Instant, frame: &mut [u8], start: Seq, length: u32) -> Option<usize> {
        let end = self.end_of_data();
        let data = if start.before(end) { length.min(end.since(start)) } else { 0 };
        let mut options = OptionBytes::default();
        if self.timestamps {
            options.add_timestamps(self.timestamp(now), self.receive.ts_recent);
        }
        if length == 0 && self.sack && (!self.receive.ranges.is_empty() || self.receive.duplicate.is_some()) {
            options.add_blocks(self.receive.blocks());
        }
        let mut flags = ACK;
        if length > data {
            flags |= FIN;
        }
        if data > 0 && start.plus(data) == end {
            // The last of what the application gave (MUST-61).
            flags |= PSH;
        }
        let mut urgent = 0;
        if let Some(until) = self.send.urgent.filter(|until| until.after(start)) {
            flags |= URG;
            urgent = crate::number::short(until.since(start) as usize);
        }
        let header_length = HEADER + options.bytes().len();
        let template = self.template.as_ref()?;
        let whole = template.length() + header_length + data as usize;
        let segment = template.write(frame, header_length + data as usize)?;
        let window = self.receive.window_field(self.send.mss);
        let header = Header {
            source_port: self.flow.local_port,
            destination_port: self.flow.remote_port,
            sequence: start,
            acknowledgment: self.receive.next,
            flags,
            window: crate::number::short(window as usize),
            urgent,
        };
        header.write(options.bytes(), segment);
        if data > 0 {
            let offset = start.since(self.send.unacknowledged) as usize;
            self.send.buffer.read_at(offset, segment.get_mut(header_length..)?);
        }
        let sum = template.checksum(segment);
        crate::wire::put(segment, 16, &sum);
        self.receive.edge = self.receive.edge.later(self.receive.next.plus(window << self.receive.shift));
        self.send.segments += 1;
        self.ack_leaves(data > 0);
        Some(whole)
    }

    pub(crate) fn unsent(&self) -> u32 {
        long(self.send.buffer.length()).saturating_sub(self.send.next.since(self.send.unacknowledged))
    }
}
