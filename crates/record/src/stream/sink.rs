//! What a receiving flow hands to its counter, while others look at how far it is.

use super::{FlowCounted, FlowCounter};
use std::sync::atomic::{AtomicU64, Ordering};

/// One flow's counter and what it shares with the other flows of its end.
#[derive(Debug)]
pub struct FlowSink<'a> {
    counter: FlowCounter,
    size: usize,
    origin_ns: &'a AtomicU64,
    missing: &'a AtomicU64,
    now_ns: u64,
}

impl<'a> FlowSink<'a> {
    /// For datagrams of `size` bytes. `origin_ns`: the stream's first arrival, 0 before it; `missing` gets what is missing.
    pub fn new(counter: FlowCounter, size: usize, origin_ns: &'a AtomicU64, missing: &'a AtomicU64) -> Self {
        Self { counter, size, origin_ns, missing, now_ns: 0 }
    }

    /// A call returned at this time, in ns of the end's clock; what it brought follows.
    #[inline]
    pub fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.counter.arrived(now_ns);
        self.missing.store(self.counter.missing(), Ordering::Relaxed);
    }

    /// The first arrival of this flow, and perhaps of the stream.
    #[cold]
    fn begin(&mut self) {
        let now = self.now_ns.max(1);
        let origin = match self.origin_ns.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => now,
            Err(earlier) => earlier,
        };
        self.counter.begin(origin, now);
        self.counter.arrived(now);
    }

    /// A datagram of so many bytes with this number and time of sending, when it has ours; whether it was counted.
    #[inline]
    pub fn datagram(&mut self, bytes: usize, header: Option<(u64, Option<u64>)>) -> bool {
        let Some((seq, sent_ns)) = header.filter(|_| bytes == self.size) else {
            self.counter.ignored();
            return false;
        };
        if !self.counter.has_begun() {
            self.begin();
        }
        self.counter.datagram(seq, sent_ns, bytes as u64);
        true
    }

    #[inline]
    pub fn bytes(&mut self, bytes: u64) {
        if !self.counter.has_begun() {
            self.begin();
        }
        self.counter.bytes(bytes);
    }

    pub fn finish(self) -> FlowCounted {
        self.counter.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_count_from_the_first_arrival_of_any() {
        let (origin, missing) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut one = FlowSink::new(FlowCounter::new(5000, false), 100, &origin, &missing);
        let mut other = FlowSink::new(FlowCounter::new(5000, false), 100, &origin, &missing);
        one.at(1_000);
        assert!(!one.datagram(99, Some((0, None))), "of another length");
        assert!(!one.datagram(100, None), "of somebody else");
        assert_eq!(origin.load(Ordering::Relaxed), 0, "nothing of ours came yet");
        assert!(one.datagram(100, Some((0, None))));
        assert_eq!(origin.load(Ordering::Relaxed), 1_000);
        other.at(900_000_000);
        other.bytes(500);
        assert_eq!(origin.load(Ordering::Relaxed), 1_000);
        // The second ends a second after the first arrival of all.
        other.at(1_000_001_000);
        other.bytes(7);
        let counted = other.finish();
        assert_eq!(counted.counts.intervals.iter().map(|interval| interval.bytes).collect::<Vec<_>>(), [500, 7]);
        assert!(one.datagram(100, Some((3, Some(5)))));
        one.at(2_000);
        assert_eq!(missing.load(Ordering::Relaxed), 2);
        let counted = one.finish();
        assert_eq!((counted.counts.received, counted.counts.ignored), (2, 2));
    }
}
