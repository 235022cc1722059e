//! Several flows as one direction.

use super::FlowCounted;
use model::stream::{StreamInterval, StreamReceived};

/// Sums up flows. Jitter is that of a flow, so its mean over flows is given, and the largest of any.
#[must_use]
pub fn merge(flows: &[FlowCounted]) -> StreamReceived {
    let interval_ns = flows.iter().map(|flow| flow.interval_ns).max().unwrap_or(0).max(1);
    let sum = |pick: fn(&FlowCounted) -> u64| flows.iter().map(pick).sum();
    let first = flows.iter().filter_map(|flow| flow.first_ns).min();
    let last = flows.iter().map(|flow| flow.last_ns).max().unwrap_or(0);
    let length = flows.iter().map(|flow| flow.intervals.len().div_ceil(joined(flow, interval_ns))).max().unwrap_or(0);
    let mut intervals = vec![StreamInterval::default(); length];
    let mut jitters = vec![Mean::default(); length];
    for flow in flows {
        for (at, interval) in flow.intervals.iter().enumerate() {
            let slot = at / joined(flow, interval_ns);
            let into = &mut intervals[slot];
            into.bytes += interval.bytes;
            into.received += interval.received;
            into.lost += interval.lost;
            into.reordered += interval.reordered;
            into.duplicated += interval.duplicated;
            jitters[slot].add(interval.jitter_ns);
        }
    }
    for (interval, jitter) in intervals.iter_mut().zip(&jitters) {
        interval.jitter_ns = jitter.value();
    }
    let mean = |pick: fn(&FlowCounted) -> Option<f64>| {
        let mut mean = Mean::default();
        flows.iter().for_each(|flow| mean.add(pick(flow)));
        mean.value()
    };
    StreamReceived {
        bytes: sum(|flow| flow.bytes),
        received: sum(|flow| flow.received),
        passed: sum(|flow| flow.passed),
        reordered: sum(|flow| flow.reordered),
        duplicated: sum(|flow| flow.duplicated),
        too_late: sum(|flow| flow.too_late),
        ignored: sum(|flow| flow.ignored),
        jitter_first_ns: mean(|flow| flow.jitter_first_ns),
        jitter_ns: mean(|flow| flow.jitter_ns),
        jitter_max_ns: flows.iter().filter_map(|flow| flow.jitter_max_ns).reduce(f64::max),
        elapsed_ns: first.map_or(0, |first| last.saturating_sub(first)),
        interval_ns,
        intervals,
    }
}

/// What is known of a receiver that vanished: the seconds that it told before.
#[must_use]
pub fn from_intervals(told: &[StreamInterval]) -> StreamReceived {
    let sum = |pick: fn(&StreamInterval) -> u64| told.iter().map(pick).sum::<u64>();
    let received = sum(|interval| interval.received);
    StreamReceived {
        bytes: sum(|interval| interval.bytes),
        received,
        passed: received + sum(|interval| interval.lost),
        reordered: sum(|interval| interval.reordered),
        duplicated: sum(|interval| interval.duplicated),
        elapsed_ns: told.len() as u64 * 1_000_000_000,
        interval_ns: 1_000_000_000,
        intervals: told.to_vec(),
        ..StreamReceived::default()
    }
}

/// How many of a flow's intervals make one of the common length; both are powers of two of a second.
fn joined(flow: &FlowCounted, interval_ns: u64) -> usize {
    usize::try_from(interval_ns / flow.interval_ns.max(1)).unwrap_or(1).max(1)
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}
