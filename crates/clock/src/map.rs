//! The clock map of one cell: points taken at the start, about each second, and at the end.

use crate::Clock;
use model::{ClockMap, ClockPoint};

/// Room for points; when it is full every second point goes and the distance doubles, so nothing is ever allocated.
const CAPACITY: usize = 1024;
/// Distance of points at first.
const FIRST_INTERVAL_NS: u64 = 1_000_000_000;

/// Collects the points of a clock map. Made before the measured loop; [`MapRecorder::push_if_due`] fits between two
/// batches: it allocates nothing and costs one comparison except about once a second.
#[derive(Debug)]
pub struct MapRecorder {
    clock: Clock,
    points: Vec<ClockPoint>,
    interval_ticks: u64,
    due: u64,
}

impl MapRecorder {
    /// Starts a map with its first point, now.
    pub fn new(clock: Clock) -> Self {
        let mut points = Vec::with_capacity(CAPACITY);
        let first = clock.point();
        points.push(first);
        let interval_ticks = clock.ticks(FIRST_INTERVAL_NS);
        Self { clock, points, interval_ticks, due: first.tick.saturating_add(interval_ticks) }
    }

    /// Adds a point when about a second has passed since the last one. `now` is a reading of the same clock.
    #[inline]
    pub fn push_if_due(&mut self, now: u64) {
        if now >= self.due {
            self.push();
        }
    }

    /// Adds a point now. Takes about 2 µs and allocates nothing.
    pub fn push(&mut self) {
        let point = self.clock.point();
        self.add(point);
    }

    fn add(&mut self, point: ClockPoint) {
        if self.points.len() >= CAPACITY {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval_ticks = self.interval_ticks.saturating_mul(2);
        }
        self.points.push(point);
        self.due = point.tick.saturating_add(self.interval_ticks);
    }

    /// Adds the last point and compares the calibrated rate with what all points say.
    pub fn finish(mut self) -> ClockMap {
        self.push();
        ClockMap {
            source: self.clock.source(),
            rate: self.clock.rate(),
            read_ns: self.clock.read_cost_ns(),
            error_ppm: error_ppm(&self.clock, &self.points),
            points: self.points,
        }
    }
}

/// The largest disagreement, in parts per million, between the calibrated rate and the raw clock: over each pair of
/// neighbours (a jump) and from the first point to each other one (a drift). What the points' widths can explain is
/// not counted, so that a map of a few milliseconds does not look worse than the clock is.
fn error_ppm(clock: &Clock, points: &[ClockPoint]) -> f64 {
    let between = |from: &ClockPoint, to: &ClockPoint| {
        let raw_ns = to.raw_ns.saturating_sub(from.raw_ns) as f64;
        let tick_ns = if to.tick >= from.tick {
            clock.ns(to.tick - from.tick) as f64
        } else {
            -(clock.ns(from.tick - to.tick) as f64)
        };
        // Half of each width at each end, and the rounding of three whole numbers.
        let explained_ns = (from.width_ns + to.width_ns) as f64 / 2.0 + 3.0;
        if raw_ns <= 0.0 { 0.0 } else { ((tick_ns - raw_ns).abs() - explained_ns).max(0.0) * 1e6 / raw_ns }
    };
    let jumps = points.windows(2).map(|pair| match pair {
        [from, to] => between(from, to),
        _ => 0.0,
    });
    let drifts = points.iter().skip(1).filter_map(|to| points.first().map(|from| between(from, to)));
    jumps.chain(drifts).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(tick: u64, raw_ns: u64) -> ClockPoint {
        ClockPoint { tick, raw_ns, monotonic_ns: raw_ns, realtime_ns: raw_ns, width_ns: 100 }
    }

    #[test]
    fn a_true_clock_has_no_error_and_a_drifting_one_has_its_drift() {
        let clock = Clock::raw();
        let second = 1_000_000_000;
        assert!(error_ppm(&clock, &[point(0, 0), point(second + 90, second), point(2 * second, 2 * second)]) < 1e-9);
        let drift = error_ppm(&clock, &[point(0, 0), point(second + 20_000, second)]);
        assert!((drift - 20.0).abs() < 0.2, "{drift}");
    }

    #[test]
    fn a_jump_that_is_made_good_again_is_seen() {
        let clock = Clock::raw();
        let second = 1_000_000_000;
        let error = error_ppm(&clock, &[point(0, 0), point(second - 500_000, second), point(2 * second, 2 * second)]);
        assert!(error > 400.0, "{error}");
        let back = error_ppm(&clock, &[point(second, second), point(second - 10, 2 * second)]);
        assert!(back > 900_000.0, "{back}");
    }

    #[test]
    fn a_long_map_thins_out_in_place() {
        let mut recorder = MapRecorder::new(Clock::raw());
        let room = recorder.points.capacity();
        let first = recorder.points[0];
        for n in 1..5000 {
            recorder.add(point(first.tick + n * 1000, first.raw_ns + n * 1000));
        }
        assert_eq!(recorder.points.capacity(), room, "no allocation");
        assert_eq!(recorder.points[0], first, "the start stays");
        assert!(recorder.points.len() <= CAPACITY && recorder.points.len() > CAPACITY / 4);
        assert!(recorder.points.is_sorted_by_key(|point| point.tick));
    }
}
