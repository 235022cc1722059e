//! The clock against the system's own: ratios and order, never absolute times.

use std::time::{Duration, Instant};
use windhover_clock::{Clock, MapRecorder};

#[test]
fn a_span_agrees_with_the_systems_clock() {
    for clock in [Clock::calibrate().unwrap(), Clock::raw()] {
        // A preemption between the two reads at a border would falsify one attempt; not five in a row.
        let ratios: Vec<f64> = (0..5)
            .map(|_| {
                let (start, instant) = (clock.now(), Instant::now());
                std::thread::sleep(Duration::from_millis(20));
                let (end, elapsed) = (clock.now(), instant.elapsed());
                clock.ns(end - start) as f64 / elapsed.as_nanos() as f64
            })
            .collect();
        assert!(ratios.iter().any(|ratio| (0.998..1.002).contains(ratio)), "{:?}: {ratios:?}", clock.source());
    }
}

#[test]
fn ticks_and_spans_convert_there_and_back() {
    let clock = Clock::calibrate().unwrap();
    for ns in [1_000_u64, 1_000_000, 3_600_000_000_000] {
        assert!(clock.ns(clock.ticks(ns)).abs_diff(ns) <= 2, "{ns}");
    }
}

#[test]
fn reads_never_go_back_even_across_threads() {
    let clock = Clock::calibrate().unwrap();
    let mut last = clock.now();
    for _ in 0..200 {
        // Each hand-over orders the reads, whichever CPU the other thread runs on.
        let seen = std::thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
        assert!(seen >= last, "{seen} after {last}");
        last = clock.now();
        assert!(last >= seen, "{last} after {seen}");
    }
}

#[test]
fn a_read_costs_something_but_less_than_a_system_call_would() {
    let clock = Clock::calibrate().unwrap();
    let cost = clock.read_cost_ns();
    assert!(cost > 0.0, "{cost}");
    // Two reads bracket a third one's cost: the smallest difference seen cannot be far above the median cost.
    let smallest = (0..1000)
        .map(|_| {
            let a = clock.now();
            clock.now() - a
        })
        .min()
        .unwrap();
    assert!(clock.ns(smallest) as f64 <= 20.0 * cost, "{smallest} ticks, {cost} ns");
}

#[test]
fn the_points_of_a_map_are_consistent() {
    let clock = Clock::calibrate().unwrap();
    let mut recorder = MapRecorder::new(clock);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(10));
        recorder.push();
    }
    let map = recorder.finish();
    assert_eq!(map.points.len(), 5);
    assert_eq!(map.source, clock.source());
    for pair in map.points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        assert!(to.tick > from.tick && to.raw_ns > from.raw_ns && to.monotonic_ns > from.monotonic_ns);
        let ratio = clock.ns(to.tick - from.tick) as f64 / (to.raw_ns - from.raw_ns) as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
        assert!(from.width_ns > 0);
    }
    // Ten times what a good machine shows, a tenth of what a counter of varying frequency would.
    assert!(map.error_ppm < 100.0, "{}", map.error_ppm);
}

#[test]
fn a_point_is_only_due_after_its_interval() {
    let clock = Clock::raw();
    let mut recorder = MapRecorder::new(clock);
    recorder.push_if_due(clock.now());
    recorder.push_if_due(clock.now() + clock.ticks(2_000_000_000));
    let map = recorder.finish();
    assert_eq!(map.points.len(), 3, "the start, the one that was due, the end");
}
