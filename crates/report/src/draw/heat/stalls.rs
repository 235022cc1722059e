//! Stalls: messages that were late together, as one each.

use super::map::{Strip, Tagged};
use crate::units::{counted, span};
use model::result::Outlier;
use std::cmp::Reverse;

/// Messages that are no further apart belong to one stall, in ns.
const GAP_NS: u64 = 1_000_000;

/// Messages that were late together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// When the worst of them was to be sent, in ns since the first intended send; of those that only the log has, the start of its
    /// column.
    pub at_ns: u64,
    /// The largest value, in ns.
    pub value_ns: u64,
    /// How many of the messages that were kept one by one belong to it; absent where none was.
    pub messages: Option<usize>,
}

impl Stall {
    /// `25.1 ms at 3.20 s: 11 messages`
    #[must_use]
    pub fn words(&self) -> String {
        let messages = self.messages.map(|count| format!(": {}", counted(count, "message"))).unwrap_or_default();
        format!("{} at {:.2} s{messages}", span(self.value_ns as f64), self.at_ns as f64 / 1e9)
    }
}

/// From when to when a message was on its way or waited to be sent.
pub(crate) fn way(outlier: &Outlier) -> (u64, u64) {
    let received = outlier.at_ns.saturating_add(if outlier.lost { 0 } else { outlier.rtt_ns });
    (outlier.at_ns.saturating_sub(outlier.lateness_ns), received)
}

/// The number of the stall that each span of time belongs to: those that overlap, or follow each other within 1 ms, are of
/// one. Numbers ascend with time.
pub(crate) fn together(spans: &[(u64, u64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|at| spans[*at]);
    let mut stalls = vec![0; spans.len()];
    let (mut stall, mut last) = (0, None);
    for at in order {
        let (from, to) = spans[at];
        stall += usize::from(last.is_some_and(|last: u64| from > last.saturating_add(GAP_NS)));
        last = last.max(Some(to));
        stalls[at] = stall;
    }
    stalls
}

/// Spans with a value each, one stall for those that belong together: whole span, and its worst.
fn joined(spans: &[(u64, u64)], of: impl Fn(usize) -> Stall) -> Vec<((u64, u64), Stall)> {
    let mut all: Vec<((u64, u64), Stall)> = Vec::new();
    let mut members: Vec<(usize, usize)> = together(spans).into_iter().zip(0..).collect();
    members.sort_by_key(|(stall, at)| (*stall, spans[*at]));
    let mut last = None;
    for (stall, at) in members {
        let (span, one) = (spans[at], of(at));
        match all.last_mut().filter(|_| last == Some(stall)) {
            Some((whole, worst)) => {
                whole.1 = whole.1.max(span.1);
                let messages = worst.messages.zip(one.messages).map(|(sum, more)| sum + more);
                let worse = if one.value_ns > worst.value_ns { one } else { worst.clone() };
                *worst = Stall { messages, ..worse };
            }
            None => all.push((span, one)),
        }
        last = Some(stall);
    }
    all
}

fn kept(tagged: &[Tagged]) -> Vec<((u64, u64), Stall)> {
    let ways: Vec<(u64, u64)> = tagged.iter().map(|one| way(&one.outlier)).collect();
    joined(&ways, |at| Stall { at_ns: tagged[at].at_ns, value_ns: tagged[at].value_ns, messages: Some(1) })
}

pub(super) fn worst(tagged: &[Tagged], most: usize) -> Vec<Stall> {
    sorted(kept(tagged).into_iter(), most)
}

fn sorted(stalls: impl Iterator<Item = ((u64, u64), Stall)>, most: usize) -> Vec<Stall> {
    let mut all: Vec<Stall> = stalls.map(|(_, stall)| stall).collect();
    all.sort_by_key(|stall| (Reverse(stall.value_ns), stall.at_ns));
    all.truncate(most);
    all
}

/// The worst stalls of a map, the worst first: of the messages that were kept one by one, and elsewhere of the largest value of
/// each column, because all that were kept may be of one stall.
pub(super) fn stalls(tagged: &[Tagged], strip: &Strip, most: usize) -> Vec<Stall> {
    let kept = kept(tagged);
    let columns = (0_u64..).zip(&strip.columns).filter_map(|(place, column)| {
        let from = strip.start_ns + place * strip.column_ns;
        let next = kept.partition_point(|((_, to), _)| *to < from);
        let is_known = kept.get(next).is_some_and(|((start, _), _)| *start < from + strip.column_ns);
        let value = column.max_ns.filter(|_| !is_known)?;
        Some((from, from.saturating_add(value)))
    });
    let columns: Vec<(u64, u64)> = columns.collect();
    let others =
        joined(&columns, |at| Stall { at_ns: columns[at].0, value_ns: columns[at].1 - columns[at].0, messages: None });
    sorted(kept.into_iter().chain(others), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Catches: neighbours of one stall counted apart, two stalls taken for one, order of the input that matters.
    #[test]
    fn spans_that_touch_are_one_stall() {
        let spans =
            [(50 * MS, 75 * MS), (10 * MS, 12 * MS), (60 * MS, 75 * MS), (76 * MS, 77 * MS), (79 * MS, 80 * MS)];
        assert_eq!(together(&spans), [1, 0, 1, 1, 2]);
        assert_eq!(together(&[]), Vec::<usize>::new());
    }

    #[test]
    fn a_stall_says_how_long_when_and_how_many() {
        let stall = Stall { at_ns: 3_204_000_000, value_ns: 25_100_000, messages: Some(11) };
        assert_eq!(stall.words(), "25.1 ms at 3.20 s: 11 messages");
        assert_eq!(Stall { messages: None, ..stall }.words(), "25.1 ms at 3.20 s");
    }
}
