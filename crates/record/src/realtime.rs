//! Ticks to wall-clock time by a clock map. Only for labels: no latency is computed from it.

use model::ClockMap;

/// Wall clock at a tick, in ns since 1970: between two points by proportion, outside them by the calibrated rate.
/// `None` when the map has no points.
pub(crate) fn realtime_at(map: &ClockMap, tick: u64) -> Option<u64> {
    let after = map.points.partition_point(|point| point.tick <= tick);
    let earlier = after.checked_sub(1).and_then(|at| map.points.get(at));
    match (earlier, map.points.get(after)) {
        (Some(a), Some(b)) => {
            let span = i128::from(b.tick) - i128::from(a.tick);
            let wall = i128::from(b.realtime_ns) - i128::from(a.realtime_ns);
            let ns = wall * (i128::from(tick) - i128::from(a.tick)) / span.max(1);
            u64::try_from(i128::from(a.realtime_ns) + ns).ok()
        }
        (Some(a), None) => Some(a.realtime_ns.saturating_add(map.rate.ns(tick - a.tick))),
        (None, Some(b)) => Some(b.realtime_ns.saturating_sub(map.rate.ns(b.tick - tick))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ClockPoint, ClockSource, TickRate};

    #[test]
    fn between_and_beyond_the_points() {
        let point = |tick, realtime_ns| ClockPoint { tick, raw_ns: tick, monotonic_ns: tick, realtime_ns, width_ns: 0 };
        let mut map = ClockMap {
            source: ClockSource::Raw,
            rate: TickRate::NANOSECONDS,
            read_ns: 0.0,
            points: vec![point(1000, 50_000), point(2000, 51_100)],
            error_ppm: 0.0,
        };
        assert_eq!(realtime_at(&map, 1500), Some(50_550));
        assert_eq!(realtime_at(&map, 2500), Some(51_600));
        assert_eq!(realtime_at(&map, 400), Some(49_400));
        map.points.clear();
        assert_eq!(realtime_at(&map, 400), None);
    }
}
