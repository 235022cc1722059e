//! Synthetic traces: each known signature, and random ones that must stay unnamed.

use super::*;
use crate::SplitMix64;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const US: u64 = 1000;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive times in ns")]
fn whole(ns: f64) -> u64 {
    ns as u64
}

fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    -mean * (1.0 - random.unit()).ln()
}

/// Poisson arrivals with a mean gap.
fn trace(
    random: &mut SplitMix64,
    count: usize,
    gap_ns: f64,
    width: impl Fn(&mut SplitMix64) -> f64,
) -> Vec<(u64, u64)> {
    let mut at = 0.0;
    let stall = |_| {
        at += exponential(random, gap_ns);
        (whole(at), whole(width(random)))
    };
    (0..count).map(stall).collect()
}

#[test]
fn the_measured_trace_of_a_spinning_fifo_thread() {
    // As seen on a real machine: three stalls in 3 s, echoes of the other end's budget.
    let slow = [
        (455 * MS, 50_140 * US),
        (1447 * MS, 50_140 * US),
        (2437 * MS, 50_150 * US),
        (700 * MS, 22_300 * US),
        (1690 * MS, 28_000 * US),
    ];
    let found = find(&slow);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::RealTimeThrottling);
    assert_eq!((found[0].count, found[0].echoes, found[0].width_ns), (3, 2, 50_140 * US));
    assert!(found[0].period_ns.unwrap().abs_diff(1000 * MS) < 20 * MS);
    assert!(found[0].to_string().contains("50.1 ms every 99"), "{}", found[0]);
}

#[test]
fn stalls_at_odd_distances_are_not_throttling() {
    assert_eq!(find(&[(100 * MS, 50 * MS), (420 * MS, 51 * MS), (700 * MS, 49 * MS)]), []);
    assert_eq!(find(&[(100 * MS, 50 * MS)]), []);
    assert!(is_throttling_stall(50 * MS) && !is_throttling_stall(40 * MS));
}

#[test]
fn two_stalls_in_a_crowd_of_all_widths_are_not_throttling() {
    let mut slow = vec![(100 * MS, 50 * MS), (1100 * MS, 50 * MS)];
    assert_eq!(find(&slow).len(), 1);
    let mut random = SplitMix64::new(11);
    slow.extend(trace(&mut random, 30, 40e6, |random| 15e6 + random.unit() * 29e6));
    assert_eq!(find(&slow), []);
}

#[test]
fn slices_of_each_tick_are_told_apart() {
    for (hz, slice) in [(250, 4 * MS), (100, 10 * MS), (125, 8 * MS)] {
        let mut random = SplitMix64::new(u64::from(hz));
        let slow = trace(&mut random, 60, 9e6, |random| {
            let times = if random.unit() < 0.7 { 1.0 } else { 2.0 };
            times * slice as f64 + random.unit() * 60e3
        });
        let found = find(&slow);
        assert_eq!(found.first().map(|stall| stall.cause), Some(Cause::TickSlices { hz }), "HZ {hz}: {found:?}");
        assert!(found[0].count >= 55);
        assert!(found[0].to_string().contains(&format!("HZ={hz}")));
    }
}

#[test]
fn slices_are_found_beside_other_noise() {
    let mut random = SplitMix64::new(7);
    let mut slow = trace(&mut random, 40, 20e6, |random| 4e6 + random.unit() * 50e3);
    slow.extend(trace(&mut random, 20, 40e6, |random| 1e6 + exponential(random, 3e6)));
    let found = find(&slow);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::TickSlices { hz: 250 });
}

#[test]
fn unknown_periods_are_measured() {
    let mut random = SplitMix64::new(3);
    let slow: Vec<(u64, u64)> = (0..40)
        .filter(|at| at % 7 != 3)
        .map(|at| (5 * MS + at * 25 * MS + whole(random.unit() * 4e5), 1_700 * US + whole(random.unit() * 2e5)))
        .collect();
    let found = find(&slow);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, Cause::Unknown);
    assert!(found[0].period_ns.unwrap().abs_diff(25 * MS) < 50 * US);
    assert!(found[0].to_string().contains("every 25.0 ms"), "{}", found[0]);
    assert!(found[0].to_string().contains("cause unknown"));
}

#[test]
fn the_period_of_a_tick_is_named() {
    let slow: Vec<(u64, u64)> = (0..100).map(|at| (at * 4 * MS + 77, 1_200 * US + at)).collect();
    let found = find(&slow);
    assert_eq!(found.first().map(|stall| stall.cause), Some(Cause::TickPeriod { hz: 250 }), "{found:?}");
}

#[test]
fn two_periods_of_different_width_are_two_stalls() {
    let mut slow: Vec<(u64, u64)> = (0..20).map(|at| (at * 50 * MS, 1_500 * US)).collect();
    slow.extend((0..30).map(|at| (3 * MS + at * 33 * MS, 6 * MS)));
    let periods: Vec<u64> = find(&slow).iter().filter_map(|stall| stall.period_ns).collect();
    assert_eq!(periods, [50 * MS, 33 * MS]);
}

#[test]
fn a_drifting_period_with_a_foreign_stall_is_still_one() {
    let mut slow: Vec<(u64, u64)> = (0..30).map(|at| (at * 100_200 * US, 2 * MS)).collect();
    slow.push((1_333 * MS, 2 * MS));
    let found = find(&slow);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].period_ns.unwrap().abs_diff(100_200 * US) < 100 * US, "{found:?}");
}

#[test]
fn random_stalls_are_hardly_ever_called_periodic() {
    let mut fired = 0;
    for seed in 0..3000_u64 {
        let mut random = SplitMix64::new(seed);
        let count = 5 + usize::try_from(seed % 200).unwrap();
        let slow = match seed % 4 {
            0 => trace(&mut random, count, 10e6, |random| 1e6 + exponential(random, 3e6)),
            1 => trace(&mut random, count, 30e6, |random| 1e6 * 50_f64.powf(random.unit())),
            2 => trace(&mut random, count, 50e6, |random| 3.1e6 + random.unit() * 1e5),
            _ => trace(&mut random, count, 5e6, |random| 1e6 + random.unit() * 20e6),
        };
        fired += u32::from(!find(&slow).is_empty());
    }
    assert!(fired <= 1, "{fired} of 3000 random traces were named");
}

#[test]
fn binomial_tail() {
    assert!((tail(3, 1, 0.5) - 0.875).abs() < 1e-12);
    assert!((tail(10, 10, 0.1) - 1e-10).abs() < 1e-20);
    assert!((tail(5, 0, 0.3) - 1.0).abs() < 1e-12);
    assert!(tail(2, 3, 0.3).abs() < 1e-12);
}

proptest! {
    #[test]
    fn never_panics_and_ignores_order(mut slow in prop::collection::vec((any::<u64>(), 0_u64..u64::MAX / 8), 0..80)) {
        let found = find(&slow);
        slow.reverse();
        prop_assert_eq!(found, find(&slow));
    }

    #[test]
    fn periodic_ones_are_found(
        period_us in 11_000_u64..400_000, width_us in 1_000_u64..3_500, count in 10_u64..60, start in 0_u64..1_000_000_000,
    ) {
        let slow: Vec<(u64, u64)> = (0..count).map(|at| (start + at * period_us * US, width_us * US)).collect();
        let found = find(&slow);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].period_ns, Some(period_us * US));
    }
}
