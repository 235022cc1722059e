//! What the application calls (RFC 9293, section 3.9.1).

use super::{Connection, TcpState};
use crate::number::long;
use crate::ring::Ring;
use crate::{Error, Instant, Readiness, Shutdown, TcpInfo};

impl Connection {
    /// Takes bytes to send; how many.
    pub(crate) fn send(&mut self, bytes: &[u8], more: bool) -> Result<usize, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.send.finished {
            return Err(Error::BrokenPipe);
        }
        if !self.state.is_synchronized() {
            self.send.short_of_room = true;
            return Err(Error::WouldBlock);
        }
        let taken = self.send.buffer.push(bytes);
        self.send.more = more;
        if taken < bytes.len() {
            self.send.short_of_room = true;
            if taken == 0 {
                return Err(Error::WouldBlock);
            }
        }
        Ok(taken)
    }

    /// Both pieces of what may be received, or why there is nothing; both are empty at the end.
    pub(crate) fn received(&mut self) -> Result<(&[u8], &[u8]), Error> {
        // All that the other end sent is here: what happens to the connection later does not change that, as in Linux.
        if self.receive.buffer.length() == 0 && !self.receive.fin_received {
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if !self.receive.shut && self.state != TcpState::Closed {
                return Err(Error::WouldBlock);
            }
        }
        Ok(self.receive.buffer.slices())
    }

    /// Drops bytes that were received, which may open the window.
    pub(crate) fn consume(&mut self, count: usize) {
        self.receive.buffer.consume(count);
        if self.receive.urgent.is_some_and(|end| self.first_unread().at_least(end)) {
            self.receive.urgent = None;
        }
        self.window_may_open();
    }

    fn first_unread(&self) -> crate::number::Seq {
        let fin = u32::from(self.receive.fin_received);
        self.receive.next.minus(long(self.receive.buffer.length()) + fin)
    }

    /// Bytes until the end of urgent data, where there are any (RFC 9293, MUST-33).
    pub(crate) fn urgent(&self) -> Option<u32> {
        self.receive.urgent.map(|end| end.since(self.first_unread()))
    }

    /// What was sent so far ends urgent data.
    pub(crate) fn mark_urgent(&mut self) {
        self.send.urgent = Some(self.end_of_data());
    }

    pub(crate) fn shutdown(&mut self, how: Shutdown) -> Result<(), Error> {
        if matches!(self.state, TcpState::Closed | TcpState::SynSent) {
            return Err(Error::NotConnected);
        }
        if how != Shutdown::Write && !self.receive.shut {
            self.receive.shut = true;
            self.read_edges += 1;
        }
        if how != Shutdown::Read {
            self.finish();
        }
        Ok(())
    }

    /// A FIN follows the data.
    fn finish(&mut self) {
        if self.send.finished {
            return;
        }
        self.send.finished = true;
        self.send.more = false;
        self.write_edges += 1;
        self.state = match self.state {
            TcpState::Established => TcpState::FinWait1,
            TcpState::CloseWait => TcpState::LastAck,
            other => other,
        };
        self.timers.cork = Instant::NEVER;
    }

    /// The application gives the connection up, orderly (CLOSE).
    pub(crate) fn close(&mut self, now: Instant) {
        self.orphan = true;
        match self.state {
            TcpState::Closed => {}
            TcpState::SynSent => self.end(None),
            _ if self.receive.buffer.length() > 0 => {
                // Unread data are lost, and the other end hears of it (RFC 2525, section 2.17).
                self.reset(None);
            }
            _ => {
                self.finish();
                // What comes behind a gap is never read; the data that fill the gap reset the connection.
                self.receive.ranges.clear();
                self.receive.buffer = Ring::default();
                self.limit_fin_wait(now);
            }
        }
    }

    /// The application gives the connection up at once (ABORT).
    pub(crate) fn abort(&mut self) {
        self.orphan = true;
        match self.state {
            TcpState::Closed | TcpState::SynSent | TcpState::TimeWait => self.end(None),
            _ => self.reset(None),
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let over = self.state == TcpState::Closed;
        let read_closed = self.receive.fin_received || self.receive.shut || over;
        let buffer = &self.send.buffer;
        let has_room = self.state.is_synchronized() && buffer.free() * 3 >= buffer.capacity();
        Readiness {
            readable: self.receive.buffer.length() > 0 || read_closed,
            writable: over || self.send.finished || has_room,
            read_closed,
            hang_up: over || read_closed && self.send.finished,
            error: self.error.is_some(),
            urgent: self.receive.urgent.is_some(),
            read_edges: self.read_edges,
            write_edges: self.write_edges,
        }
    }

    pub(crate) fn info(&self) -> TcpInfo {
        let send = &self.send;
        TcpInfo {
            state: self.state,
            round_trip_ns: send.round_trip.smoothed,
            round_trip_variation_ns: send.round_trip.variation,
            retransmission_timeout_ns: self.timeout(),
            backoff: send.backoff,
            retransmits: send.retransmits,
            timeouts: send.timeouts,
            congestion_window: send.congestion.window,
            slow_start_threshold: send.congestion.threshold,
            send_mss: send.mss,
            send_window: send.window,
            receive_window: self.receive.window(),
            first_unacknowledged: send.unacknowledged.0,
            unacknowledged: send.next.since(send.unacknowledged),
            unsent: self.unsent(),
            unread: long(self.receive.buffer.length()),
            in_flight_segments: long(send.flights.len()),
            lost_segments: long(send.flights.lost()),
            sacked_segments: long(send.flights.sacked()),
            segments_sent: send.segments,
            segments_received: self.receive.segments,
            out_of_order_received: self.receive.out_of_order,
            duplicates_received: self.receive.duplicates,
            sack: self.sack,
            timestamps: self.timestamps,
            send_shift: send.shift,
            receive_shift: self.receive.shift,
            path_mtu: self.path_mtu,
        }
    }

    /// Packets were longer than the path's MTU: ICMP reported it (RFC 1191, RFC 8201), or the interface has another.
    pub(crate) fn path_is_narrower(&mut self, mtu: u16) {
        if mtu >= self.path_mtu {
            return;
        }
        self.path_mtu = mtu;
        let before = self.send.mss;
        self.measure_segments();
        if self.send.mss < before {
            // What is in flight was too long and never arrives; that is no congestion.
            self.lose_all();
        }
    }
}
