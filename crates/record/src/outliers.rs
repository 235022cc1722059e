//! Messages worth keeping one by one: the worst, those over a threshold, the lost ones.

use model::OutlierRule;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most messages kept for being over the threshold or lost, and most that can be asked for as the worst.
pub(crate) const MOST: usize = 10_000;

/// One message, still in ticks, with whatever else is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct OutlierCandidate<OutlierDetail = ()> {
    /// The time that decides whether it is kept.
    pub(crate) worth_ns: u64,
    /// Of equal times the earlier message counts as the worse one, whatever the batches were.
    pub(crate) seq: Reverse<u64>,
    pub(crate) sent: u64,
    pub(crate) lateness_ns: u64,
    pub(crate) lost: bool,
    pub(crate) more: OutlierDetail,
}

/// Fixed memory, touched by [`Outliers::new`].
#[derive(Debug)]
pub(crate) struct Outliers<OutlierDetail = ()> {
    worst: BinaryHeap<Reverse<OutlierCandidate<OutlierDetail>>>,
    places: usize,
    listed: Vec<OutlierCandidate<OutlierDetail>>,
    /// Whether lost messages and those over the threshold are listed.
    lists: bool,
    over_ns: u64,
}

/// An empty vector whose memory has been written.
pub(crate) fn touched<T: Clone + Default>(capacity: usize) -> Vec<T> {
    let mut memory = vec![T::default(); capacity];
    std::hint::black_box(&mut memory).fill(T::default());
    memory.clear();
    memory
}

impl<OutlierDetail: Copy + Ord + Default> Outliers<OutlierDetail> {
    pub(crate) fn new(rule: OutlierRule) -> Self {
        let places = usize::try_from(rule.worst).unwrap_or(MOST).min(MOST);
        Self {
            worst: BinaryHeap::from(touched::<Reverse<OutlierCandidate<OutlierDetail>>>(places)),
            places,
            listed: touched(MOST),
            lists: true,
            over_ns: rule.over_ns.unwrap_or(u64::MAX),
        }
    }

    /// Keeps the worst by a second time of the same messages, and nothing else.
    pub(crate) fn only_worst(rule: OutlierRule) -> Self {
        Self { listed: Vec::new(), lists: false, ..Self::new(OutlierRule { over_ns: None, ..rule }) }
    }

    /// Messages that take at least this long must be offered; all others may be.
    pub(crate) fn notable_from(&self) -> u64 {
        let worst = if self.worst.len() < self.places {
            0
        } else {
            self.worst.peek().map_or(u64::MAX, |least| least.0.worth_ns.saturating_add(1))
        };
        worst.min(self.over_ns.saturating_add(1))
    }

    /// Keeps a message if it belongs to those worth keeping. Does not allocate.
    pub(crate) fn offer(&mut self, kept: OutlierCandidate<OutlierDetail>) {
        if self.lists && (kept.lost || kept.worth_ns > self.over_ns) && self.listed.len() < MOST {
            self.listed.push(kept);
        }
        if kept.lost {
            return;
        }
        if self.worst.len() < self.places {
            self.worst.push(Reverse(kept));
        } else if let Some(mut least) = self.worst.peek_mut()
            && kept > least.0
        {
            *least = Reverse(kept);
        }
    }

    /// All kept messages in order of sending.
    pub(crate) fn finish(self) -> Vec<OutlierCandidate<OutlierDetail>> {
        let mut all = self.listed;
        all.extend(self.worst.into_iter().map(|kept| kept.0));
        all.sort_unstable_by_key(|kept| (kept.sent, kept.seq.0, kept.lost, kept.more));
        all.dedup();
        all
    }
}

/// What several kept of the same messages, each once. The time that decided is of any of them.
pub(crate) fn merged<OutlierDetail: Copy + Ord + Default>(
    several: [Outliers<OutlierDetail>; 3],
) -> Vec<OutlierCandidate<OutlierDetail>> {
    let mut all: Vec<_> = several.into_iter().flat_map(Outliers::finish).collect();
    let key = |kept: &OutlierCandidate<OutlierDetail>| (kept.sent, kept.seq.0, kept.lost, kept.more);
    all.sort_by_key(key);
    all.dedup_by_key(|kept| key(kept));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(seq: u64, rtt_ns: u64) -> OutlierCandidate {
        OutlierCandidate { worth_ns: rtt_ns, seq: Reverse(seq), sent: seq, lateness_ns: 0, lost: false, more: () }
    }

    fn run(rule: OutlierRule, messages: &[OutlierCandidate]) -> Vec<(u64, u64)> {
        let mut outliers = Outliers::new(rule);
        messages.iter().for_each(|&message| outliers.offer(message));
        outliers.finish().iter().map(|kept| (kept.seq.0, kept.worth_ns)).collect()
    }

    #[test]
    fn the_worst_and_the_earlier_of_equals() {
        let messages = [kept(0, 5), kept(1, 9), kept(2, 9), kept(3, 1), kept(4, 9)];
        assert_eq!(run(OutlierRule { worst: 2, over_ns: None }, &messages), [(1, 9), (2, 9)]);
        assert_eq!(run(OutlierRule { worst: 0, over_ns: None }, &messages), []);
    }

    #[test]
    fn over_the_threshold_and_worst_is_kept_once() {
        let messages = [kept(0, 5), kept(1, 9), kept(2, 8)];
        assert_eq!(run(OutlierRule { worst: 1, over_ns: Some(7) }, &messages), [(1, 9), (2, 8)]);
    }

    #[test]
    fn the_list_is_bounded() {
        let mut outliers = Outliers::new(OutlierRule { worst: 1, over_ns: Some(0) });
        let info = allocation_counter::measure(|| {
            for seq in 0..12_000 {
                outliers.offer(kept(seq, 5 + seq));
            }
        });
        assert_eq!(info.count_total, 0);
        let all = outliers.finish();
        assert_eq!(all.len(), MOST + 1);
        assert_eq!(all.last().map(|kept| kept.seq.0), Some(11_999));
    }

    #[test]
    fn what_is_not_notable_changes_nothing() {
        let mut outliers = Outliers::new(OutlierRule { worst: 2, over_ns: Some(100) });
        assert_eq!(outliers.notable_from(), 0);
        outliers.offer(kept(0, 5));
        outliers.offer(kept(1, 50));
        assert_eq!(outliers.notable_from(), 6);
        outliers.offer(kept(2, 500));
        outliers.offer(kept(3, 600));
        assert_eq!(outliers.notable_from(), 101);
    }
}
