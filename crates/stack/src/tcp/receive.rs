//! Received data: order, windows, and when they are acknowledged.

use super::{Connection, TcpState};
use crate::number::{Seq, long};
use crate::ring::Ring;
use crate::wire::tcp::{FIN, Segment};
use crate::{Instant, TcpOptions};

/// Stretches behind a gap that are remembered; what comes beyond is dropped and comes again.
const MAX_RANGES: usize = 64;
/// Segments below this size do not count as full ones.
const SMALLEST_FULL: u32 = 536;

/// Data behind a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Seq,
    pub(crate) end: Seq,
    /// Counts up with each segment that widened it: the newest is reported first (RFC 2018, section 4).
    newest: u32,
}

#[derive(Debug, Default)]
pub(crate) struct ReceiveSide {
    pub(crate) buffer: Ring,
    /// RCV.NXT.
    pub(crate) next: Seq,
    /// IRS.
    pub(crate) initial: Seq,
    /// The right edge of the window that was last announced: RCV.NXT + RCV.WND then.
    pub(crate) edge: Seq,
    /// The shift of the windows that are announced.
    pub(crate) shift: u8,
    pub(crate) ranges: Vec<Range>,
    arrivals: u32,
    /// What came twice, to be reported once (RFC 2883).
    pub(crate) duplicate: Option<(Seq, Seq)>,
    /// The number of the other end's FIN.
    pub(crate) fin: Option<Seq>,
    pub(crate) fin_received: bool,
    /// The application receives no more.
    pub(crate) shut: bool,
    pub(crate) urgent: Option<Seq>,
    pub(crate) ack_now: bool,
    /// Bytes that are not yet acknowledged.
    pub(crate) unacknowledged: u32,
    pub(crate) last_ack_sent: Seq,
    /// The size of full segments, as far as they were seen.
    full: u32,
    /// Acknowledgments that are still sent at once.
    pub(crate) quick: u8,
    /// Answers carry acknowledgments, so these may wait.
    pub(crate) interactive: bool,
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: Instant,
    pub(crate) segments: u64,
    pub(crate) out_of_order: u64,
    pub(crate) duplicates: u64,
}

impl ReceiveSide {
    pub(crate) fn new(options: TcpOptions) -> Self {
        Self { full: SMALLEST_FULL, quick: options.ack.quick_segments, ..Self::default() }
    }

    pub(crate) fn make_buffers(&mut self, options: TcpOptions) {
        self.buffer = Ring::new(options.receive_buffer);
        self.ranges = Vec::with_capacity(MAX_RANGES);
    }

    /// Nothing more is received; what is there stays.
    pub(crate) fn end(&mut self) {
        self.ranges = Vec::new();
        self.ack_now = false;
    }

    /// RCV.WND, as it was announced.
    pub(crate) fn window(&self) -> u32 {
        if self.edge.before(self.next) { 0 } else { self.edge.since(self.next) }
    }

    /// The right edge to announce. With a shift the window is rounded up, so the last unit is not offered.
    pub(crate) fn possible_edge(&self) -> Seq {
        let unit = (1_usize << self.shift) - 1;
        let most = 65_535_usize << self.shift;
        self.next.plus(long(self.buffer.free().saturating_sub(unit).min(most)))
    }

    /// The edge to announce: never to the left, and only by worthwhile steps (RFC 9293, section 3.8.6.2.2).
    pub(crate) fn offered_edge(&self, mss: u32) -> Seq {
        let possible = self.possible_edge();
        let step = (long(self.buffer.capacity()) / 2).min(mss);
        if possible.after(self.edge) && possible.since(self.edge) >= step { possible } else { self.edge }
    }

    /// The window field of a segment. It is rounded up, so that the edge does not move to the left; but not beyond the buffer:
    /// with each rounding the edge moves on a little, and what lies behind the buffer could not be kept.
    pub(crate) fn window_field(&self, mss: u32) -> u32 {
        let (window, shift) = (self.offered_edge(mss).since(self.next), self.shift);
        let up = window.saturating_add((1 << shift) - 1) >> shift;
        let fits = (up << shift) as usize <= self.buffer.free();
        if fits { up.min(65_535) } else { (window >> shift).min(65_535) }
    }

    /// Puts a stretch behind a gap; false where there is no room to remember it.
    fn add_range(&mut self, start: Seq, end: Seq) -> bool {
        self.arrivals = self.arrivals.wrapping_add(1);
        let newest = self.arrivals;
        let first = self.ranges.partition_point(|range| range.end.before(start));
        let behind = self.ranges.partition_point(|range| range.start.at_most(end));
        if first == behind {
            if self.ranges.len() == MAX_RANGES {
                return false;
            }
            self.ranges.insert(first, Range { start, end, newest });
            return true;
        }
        let merged = self.ranges.get(first..behind).unwrap_or_default().iter().fold(
            Range { start, end, newest },
            |all, range| Range { start: all.start.earlier(range.start), end: all.end.later(range.end), newest },
        );
        self.ranges.drain(first + 1..behind);
        if let Some(place) = self.ranges.get_mut(first) {
            *place = merged;
        }
        true
    }

    /// SACK blocks to send: a duplicate first, then the newest stretches.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Seq, Seq)> {
        let mut order = [0_usize; 4];
        let mut count = 0;
        for (index, range) in self.ranges.iter().enumerate() {
            let age =
                |at: usize| self.ranges.get(at).map_or(u32::MAX, |other| self.arrivals.wrapping_sub(other.newest));
            let own = self.arrivals.wrapping_sub(range.newest);
            let place = order.iter().take(count).position(|at| age(*at) > own).unwrap_or(count);
            if place < order.len() {
                order.copy_within(place..3, place + 1);
                if let Some(slot) = order.get_mut(place) {
                    *slot = index;
                }
                count = (count + 1).min(order.len());
            }
        }
        let ranges = order.into_iter().take(count).filter_map(|at| self.ranges.get(at));
        self.duplicate.into_iter().chain(ranges.map(|range| (range.start, range.end)))
    }
}

impl Connection {
    /// Segments were lost, doubled or reordered, or acknowledgments were lost: the next ones are acknowledged one by one, as Linux
    /// does. The other end then sees what is missing, and does not wait for an acknowledgment that is delayed or was lost.
    pub(super) fn acknowledge_quickly(&mut self) {
        self.receive.quick = self.receive.quick.max(self.options.ack.quick_segments);
        self.receive.interactive = false;
        self.receive.ack_now = true;
    }

    /// Takes data and FIN of a segment of which at least something lies in the window.
    pub(super) fn accept(&mut self, now: Instant, segment: &Segment<'_>) {
        let receive = &mut self.receive;
        let (mut start, mut data) = (segment.sequence, segment.payload);
        let mut fin = segment.has(FIN);
        if start.before(receive.next) {
            let known = receive.next.since(start) as usize;
            receive.duplicates += 1;
            receive.duplicate = Some((start, start.plus(long(known.min(data.len())))));
            data = data.get(known..).unwrap_or_default();
            start = receive.next;
            self.acknowledge_quickly();
        }
        let receive = &mut self.receive;
        let room = receive.edge.since(start) as usize;
        if data.len() > room {
            data = data.get(..room).unwrap_or_default();
            fin = false;
            receive.ack_now = true;
        }
        if fin {
            receive.fin = Some(start.plus(long(data.len())));
        }
        if data.is_empty() && !fin {
            return;
        }
        if start == receive.next {
            self.accept_in_order(now, data);
        } else {
            receive.out_of_order += 1;
            let end = start.plus(long(data.len()));
            if receive.ranges.iter().any(|range| range.start.at_most(start) && range.end.at_least(end)) {
                receive.duplicate = Some((start, end));
            }
            if !data.is_empty() && receive.add_range(start, end) {
                let offset = receive.buffer.length() + start.since(receive.next) as usize;
                receive.buffer.write_at(offset, data);
            }
            self.acknowledge_quickly();
        }
        if self.receive.fin == Some(self.receive.next) {
            self.fin_arrived(now);
        }
    }

    /// Takes data that follow at once to what is there.
    pub(super) fn accept_in_order(&mut self, now: Instant, data: &[u8]) {
        let receive = &mut self.receive;
        let taken = long(receive.buffer.push(data));
        receive.next = receive.next.plus(taken);
        if !receive.ranges.is_empty() {
            // A segment that fills a gap, or a part of it, is acknowledged at once (RFC 5681, section 4.2).
            receive.ack_now = true;
            while let Some(first) = receive.ranges.first().filter(|first| first.start.at_most(receive.next)) {
                let end = first.end;
                if end.after(receive.next) {
                    receive.buffer.extend(end.since(receive.next) as usize);
                    receive.next = end;
                }
                receive.ranges.remove(0);
            }
        }
        if taken > 0 {
            self.read_edges += 1;
            self.schedule_ack(now, taken);
        }
    }

    /// When this many new bytes are acknowledged (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2).
    fn schedule_ack(&mut self, now: Instant, bytes: u32) {
        let receive = &mut self.receive;
        receive.full = receive.full.max(bytes.min(65_535));
        receive.unacknowledged += bytes;
        if receive.unacknowledged >= 2 * receive.full || self.options.ack.delay_ns == 0 {
            receive.ack_now = true;
        } else if receive.quick > 0 && !receive.interactive {
            receive.quick -= 1;
            receive.ack_now = true;
        } else if self.timers.ack == Instant::NEVER {
            self.timers.ack = now.after(self.options.ack.delay_ns);
        }
    }

    /// The FIN of the other end is next (RFC 9293, section 3.10.7.4, eighth check).
    fn fin_arrived(&mut self, now: Instant) {
        let receive = &mut self.receive;
        receive.next = receive.next.plus(1);
        receive.edge = receive.edge.later(receive.next);
        receive.fin_received = true;
        receive.ack_now = true;
        receive.ranges.clear();
        self.read_edges += 1;
        match self.state {
            TcpState::Established => self.state = TcpState::CloseWait,
            TcpState::FinWait1 => self.state = TcpState::Closing,
            TcpState::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// An acknowledgment is sent with the segment that is written now.
    pub(super) fn ack_leaves(&mut self, with_data: bool) {
        let receive = &mut self.receive;
        if with_data && (receive.ack_now || self.timers.ack != Instant::NEVER) {
            receive.interactive = true;
        }
        receive.ack_now = false;
        receive.unacknowledged = 0;
        receive.duplicate = None;
        receive.last_ack_sent = receive.next;
        self.timers.ack = Instant::NEVER;
    }

    /// The application took bytes: whether the other end has to hear of the wider window.
    pub(super) fn window_may_open(&mut self) {
        if !self.state.receives() {
            return;
        }
        let receive = &self.receive;
        let (possible, capacity) = (receive.possible_edge(), long(receive.buffer.capacity()));
        if !possible.after(receive.edge) {
            return;
        }
        let wider = possible.since(receive.edge);
        let nearly_closed = receive.window() < (2 * self.send.mss).min(capacity / 2);
        if wider >= (capacity / 4).max(self.send.mss) || nearly_closed && wider >= self.send.mss.min(capacity / 2) {
            self.receive.ack_now = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(receive: &ReceiveSide) -> Vec<(u32, u32)> {
        receive.ranges.iter().map(|range| (range.start.0, range.end.0)).collect()
    }

    #[test]
    fn stretches_are_merged_and_the_newest_is_reported_first() {
        let mut receive = ReceiveSide::new(TcpOptions::default());
        receive.make_buffers(TcpOptions::default());
        for (start, end) in [(10, 20), (40, 50), (70, 80), (100, 110), (130, 140), (45, 55)] {
            assert!(receive.add_range(Seq(start), Seq(end)));
        }
        assert_eq!(ranges(&receive), [(10, 20), (40, 55), (70, 80), (100, 110), (130, 140)]);
        let blocks: Vec<u32> = receive.blocks().map(|(start, _)| start.0).collect();
        assert_eq!(blocks, [40, 130, 100, 70]);
        assert!(receive.add_range(Seq(20), Seq(100)));
        assert_eq!(ranges(&receive), [(10, 110), (130, 140)]);
    }

    #[test]
    fn no_more_stretches_are_remembered_than_there_is_room_for() {
        let mut receive = ReceiveSide::new(TcpOptions::default());
        receive.make_buffers(TcpOptions::default());
        let fit = (0..200).filter(|at| receive.add_range(Seq(at * 10), Seq(at * 10 + 5))).count();
        assert_eq!((fit, receive.ranges.capacity()), (MAX_RANGES, MAX_RANGES));
    }
}
