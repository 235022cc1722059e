//! Several flows as one direction.

use super::{FlowCounted, add};
use model::stream::{StreamInterval, StreamReceived};

/// Sums up flows. Jitter is that of a flow, so its mean over flows is given, and the largest of any.
pub fn merge(flows: &[FlowCounted]) -> StreamReceived {
    let counts = || flows.iter().map(|flow| &flow.counts);
    let interval_ns = counts().map(|flow| flow.interval_ns).max().unwrap_or(0).max(1);
    // How many of a flow's intervals make one of the common length; both are powers of two of a second.
    let joined = |flow: &StreamReceived| usize::try_from(interval_ns / flow.interval_ns.max(1)).unwrap_or(1).max(1);
    let length = counts().map(|flow| flow.intervals.len().div_ceil(joined(flow))).max().unwrap_or(0);
    let interval = |slot: usize| {
        let parts = || counts().filter_map(|flow| flow.intervals.chunks(joined(flow)).nth(slot)).flatten();
        let mut sum =
            StreamInterval { jitter_ns: mean(parts().map(|part| part.jitter_ns)), ..StreamInterval::default() };
        parts().for_each(|part| add(&mut sum, part));
        sum
    };
    let first = flows.iter().filter_map(|flow| flow.first_ns).min();
    let last = flows.iter().map(|flow| flow.last_ns).max().unwrap_or(0);
    let mut sum = StreamReceived {
        jitter_first_ns: mean(counts().map(|flow| flow.jitter_first_ns)),
        jitter_ns: mean(counts().map(|flow| flow.jitter_ns)),
        jitter_max_ns: counts().filter_map(|flow| flow.jitter_max_ns).reduce(f64::max),
        elapsed_ns: first.map_or(0, |first| last.saturating_sub(first)),
        interval_ns,
        intervals: (0..length).map(interval).collect(),
        ..StreamReceived::default()
    };
    for flow in counts() {
        sum.bytes += flow.bytes;
        sum.received += flow.received;
        sum.passed += flow.passed;
        sum.reordered += flow.reordered;
        sum.duplicated += flow.duplicated;
        sum.too_late += flow.too_late;
        sum.ignored += flow.ignored;
    }
    sum
}

/// What is known of a receiver that vanished: the seconds that it reported before.
pub fn from_intervals(reported: &[StreamInterval]) -> StreamReceived {
    let mut sum = StreamInterval::default();
    reported.iter().for_each(|interval| add(&mut sum, interval));
    StreamReceived {
        bytes: sum.bytes,
        received: sum.received,
        passed: sum.received + sum.lost,
        reordered: sum.reordered,
        duplicated: sum.duplicated,
        elapsed_ns: reported.len() as u64 * 1_000_000_000,
        interval_ns: 1_000_000_000,
        intervals: reported.to_vec(),
        ..StreamReceived::default()
    }
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
