//! What a closed loop hides: it sends nothing while it waits, so a stall of any length is one message.

use crate::Recorded;
use crate::recorder::{SLOW_MEDIANS, SLOW_NS};
use model::result::LatencyCorrected;
use model::{LatencyKind, Probe, ProbeSpec};

/// What an open loop with the same distance of messages would have seen, see [`LatencyCorrected`]; the distance is the median round
/// trip with the gap. `None` where there is a schedule, which says it itself, and where nothing came back.
pub fn corrected(spec: &ProbeSpec, recorded: &Recorded) -> Option<LatencyCorrected> {
    // Of `wake` each deadline has its own figure.
    if recorded.schedule.is_some() || spec.probe() == Probe::Wake {
        return None;
    }
    let gap_us = u64::from(spec.gap.sleep_us) + u64::from(spec.gap.spin_us);
    let interval_ns = recorded.histogram.quantile(0.5)?.saturating_add(gap_us * 1000).max(1);
    let all = recorded.histogram.corrected(interval_ns);
    let kind = recorded.latency.kind;
    let half = kind == LatencyKind::RttHalf;
    let quantile = |q| all.quantile_if_supported(q).map(|ns| if half { ns / 2 + ns % 2 } else { ns });
    Some(LatencyCorrected {
        kind,
        interval_ns,
        count: all.count(),
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p99_9_ns: quantile(0.999),
        p99_99_ns: quantile(0.9999),
        p99_999_ns: quantile(0.99999),
    })
}

/// Messages slower than 20 medians and 1 ms, and what they took together, in ns.
pub(crate) fn long_stalls(recorded: &Recorded) -> (u64, u64) {
    let Some(median) = recorded.histogram.quantile(0.5) else { return (0, 0) };
    let from_ns = median.saturating_mul(SLOW_MEDIANS).max(SLOW_NS);
    let slow = recorded.histogram.iter_recorded().filter(|bucket| bucket.low_ns >= from_ns);
    slow.fold((0, 0_u64), |(count, ns), bucket| {
        (count + bucket.count, ns.saturating_add(bucket.low_ns.saturating_mul(bucket.count)))
    })
}
