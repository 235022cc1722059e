//! Whether time that was taken from a measuring end can have moved a printed figure.

use super::percent;
use crate::{Evidence, Recorded};
use model::{LatencyKind, Probe};
use stats::rank;

/// The percentiles of the usual tables, the highest first.
const PRINTED: [f64; 4] = [0.999, 0.99, 0.9, 0.5];
/// Share of the time that a stream has to lose before its rate, which loses as much, reads differently. In percent.
const OF_A_RATE_PERCENT: f64 = 1.0;

/// Time that was taken from a measuring end.
#[derive(Debug, Clone, Copy)]
pub(super) struct LostTime {
    pub(super) total_ns: u64,
    /// No single piece was longer, in ns. With what its own measure may be off by: /proc/stat counts in ticks.
    pub(super) longest_ns: u64,
    /// What it was taken from, in ns.
    pub(super) of_ns: u64,
}

/// Whether lost time can have moved a printed figure. How it was spread is not known, so both extremes are tried:
///
/// - In small pieces: where a message's share is larger than half of the 95 % interval of the mean.
/// - In large pieces: where, without the messages that it may have made the slowest, the highest printed percentile would be
///   that of half as many messages, or the worst message half as slow.
pub(super) fn moves(evidence: &Evidence<'_>, taken: LostTime) -> bool {
    let Some(recorded) = evidence.recorded else {
        return percent(taken.total_ns, taken.of_ns) >= OF_A_RATE_PERCENT;
    };
    let delay_ns = taken.total_ns as f64 * messages_a_piece(evidence, taken);
    moves_mean(recorded, delay_ns) || moves_tail(recorded, delay_ns, taken.longest_ns)
}

/// How many messages one piece can delay: one where one is under way at a time, all that fall due meanwhile in an open loop.
fn messages_a_piece(evidence: &Evidence<'_>, taken: LostTime) -> f64 {
    let distance_ns = match (evidence.pace(), evidence.spec.probe()) {
        (Some(pace), _) => pace.distance_ns,
        (None, Probe::Wake | Probe::Cycle) => u64::from(evidence.spec.interval_us.unwrap_or(0)) * 1000,
        _ => return 1.0,
    };
    1.0 + taken.longest_ns as f64 / distance_ns.max(1) as f64
}

fn moves_mean(recorded: &Recorded, delay_ns: f64) -> bool {
    let latency = &recorded.latency;
    let count = latency.count.max(1) as f64;
    let standard = 1.96 * latency.stdev_ns.unwrap_or(0.0) / count.sqrt();
    let half = latency.mean_ci95_ns.map_or(standard, |[low, high]| (high - low) / 2.0);
    let of_rtt = if latency.kind == LatencyKind::RttHalf { 0.5 } else { 1.0 };
    delay_ns * of_rtt / count > half
}

fn moves_tail(recorded: &Recorded, delay_ns: f64, longest_ns: u64) -> bool {
    let all = &recorded.histogram;
    let (Some(median), Some(worst), count) = (all.quantile(0.5), all.max(), all.count()) else { return true };
    let beyond = PRINTED.iter().map(|q| count - rank(*q, count)).find(|beyond| *beyond >= stats::Histogram::BEYOND);
    let buckets: Vec<_> = all.iter_recorded().filter(|bucket| bucket.high_ns > median).collect();
    let (mut left_ns, mut made, mut worst_left) = (delay_ns, 0, median);
    for bucket in buckets.iter().rev() {
        let late_ns = bucket.high_ns - median;
        // Later than by any piece: something else made it.
        let could =
            if bucket.low_ns.saturating_sub(median) > longest_ns { 0.0 } else { (left_ns / late_ns as f64).ceil() };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
        let own = bucket.count.min(could as u64);
        made += own;
        left_ns = (left_ns - own as f64 * late_ns as f64).max(0.0);
        if own < bucket.count {
            worst_left = worst_left.max(bucket.high_ns.min(worst));
        }
    }
    beyond.is_none_or(|beyond| 2 * made >= beyond) || 2 * worst_left < worst
}
