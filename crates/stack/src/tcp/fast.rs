//! Header prediction: the segment that nearly always comes is taken without the checks that it passes by its form.

use super::{Connection, TcpState};
use crate::Instant;
use crate::number::long;
use crate::wire::tcp::{ACK, PSH, Segment};

impl Connection {
    /// Takes a segment of an established connection in order, of which nothing is unusual; false where any is.
    pub(super) fn predicted(&mut self, now: Instant, segment: &Segment<'_>) -> bool {
        let (send, receive) = (&self.send, &self.receive);
        let advance = segment.acknowledgment.since(send.unacknowledged);
        let usual = self.state == TcpState::Established
            && segment.flags & !PSH == ACK
            && segment.sequence == receive.next
            && advance <= send.next.since(send.unacknowledged)
            && (advance > 0 || !segment.payload.is_empty())
            && long(segment.payload.len()) <= receive.window()
            && receive.ranges.is_empty()
            && receive.fin.is_none()
            && send.recovery.is_none()
            && send.flights.sacked() + send.flights.lost() + send.flights.resent() == 0
            && send.tail_probe.is_none()
            && send.backoff == 0
            && !self.orphan;
        if !usual {
            return false;
        }
        if self.timestamps {
            let Some((value, _)) = segment.lone_timestamps() else { return false };
            if value.wrapping_sub(receive.ts_recent) > u32::MAX / 2 {
                return false;
            }
            if segment.sequence.at_most(receive.last_ack_sent) {
                self.receive.ts_recent = value;
                self.receive.ts_recent_at = now;
            }
        } else if !segment.options.is_empty() {
            return false;
        }
        self.heard(now);
        if advance > 0 {
            let flying = self.send.flights.flying();
            self.send.duplicate_acks = 0;
            self.advance(now, segment.acknowledgment);
            self.grow(advance, flying);
        }
        let window = self.scaled(segment);
        self.update_window(segment, window);
        if advance > 0 {
            self.arm_retransmit(now);
        }
        if !segment.payload.is_empty() {
            self.accept_in_order(now, segment.payload);
        }
        true
    }
}
