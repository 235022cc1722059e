//! Whether two sets of figures differ by more than chance: the permutation test, and corrections for many tests.
//!
//! Had the labels "before" and "after" been dealt to the same figures at random, how often would their means lie at least as
//! far apart? That assumes nothing about how figures scatter, but that they could have been measured in any order: whoever
//! measures has to interleave both sets. (R. A. Fisher, The Design of Experiments, 1935; B. Phipson and G. K. Smyth,
//! "Permutation P-values should never be zero", 2010, for the one that is added to both counts of a random sample of dealings.)
//!
//! The figures of one set of repetitions move together. The step-down maxT method deals the labels of whole repetitions, looks
//! at all quantities of each dealing, and asks how often the largest lies as far apart as was measured (P. H. Westfall and S. S.
//! Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1): the chance of one false finding stays below the level.

use crate::SplitMix64;

/// Up to so many dealings all are looked at: two sets of 10, of several quantities two sets of 9.
const MOST_EXACT: [u64; 2] = [200_000, 50_000];
/// How many are drawn otherwise: p is known to about 0.002 at 0.05.
const DRAWN: u32 = 20_000;

/// The level that corrected p-values are compared with.
pub const LEVEL: f64 = 0.05;

/// The outcome of [`joint_permutation_test`], one entry a quantity, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    /// The p of each quantity by itself: the share of dealings as far apart, in either direction; never 0; 1 of equal figures.
    pub p: Vec<f64>,
    /// The same, corrected for all quantities.
    pub corrected: Vec<f64>,
    /// Whether all dealings were looked at, rather than 20,000 that the seed drew.
    pub exact: bool,
}

/// Tests several quantities of two sets of repetitions at once, two-sided, by means. Each set has one list a quantity, place k
/// of each of the same repetition. `None` when a set is empty, lists differ in length, or a figure is not finite.
pub fn joint_permutation_test(first: &[Vec<f64>], second: &[Vec<f64>], seed: u64) -> Option<Joint> {
    let (left, right) = (first.first()?.len(), second.first()?.len());
    let even = first.iter().all(|list| list.len() == left) && second.iter().all(|list| list.len() == right);
    let finite = first.iter().chain(second).flatten().all(|value| value.is_finite());
    if left == 0 || right == 0 || !even || !finite || first.len() != second.len() {
        return None;
    }
    // Of standardised figures the sum over the first set alone tells how far the means lie apart: all together are 0.
    let apart = |figures: &[f64], chosen: &[usize]| -> f64 {
        chosen.iter().filter_map(|place| figures.get(*place)).sum::<f64>().abs()
    };
    let own: Vec<usize> = (0..left).collect();
    let measured = |(index, (a, b)): (usize, (&Vec<f64>, &Vec<f64>))| {
        let figures = standardised(a, b)?;
        Some((index, apart(&figures, &own), figures))
    };
    // Those that lie farthest apart first: each is compared with the largest of itself and all that come after it.
    let mut tested: Vec<(usize, f64, Vec<f64>)> = first.iter().zip(second).enumerate().filter_map(measured).collect();
    tested.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut counts = vec![[0_u64; 2]; tested.len()];
    let mut look = |chosen: &[usize]| {
        let mut largest = 0.0_f64;
        for ((_, far, figures), [alone, joint]) in tested.iter().zip(&mut counts).rev() {
            let value = apart(figures, chosen);
            largest = largest.max(value);
            *alone += u64::from(value >= far - 1e-9);
            *joint += u64::from(largest >= far - 1e-9);
        }
    };
    let ways = dealings(left + right, left).filter(|ways| *ways <= MOST_EXACT[usize::from(first.len() > 1)]);
    let share: Box<dyn Fn(u64) -> f64> = if let Some(ways) = ways {
        let mut chosen = own;
        loop {
            look(&chosen);
            if !next(&mut chosen, left + right) {
                break;
            }
        }
        Box::new(move |count| count as f64 / ways as f64)
    } else {
        let mut places: Vec<usize> = (0..left + right).collect();
        let mut random = SplitMix64::new(seed);
        for _ in 0..DRAWN {
            random.shuffle(&mut places);
            look(places.get(..left).unwrap_or_default());
        }
        Box::new(|count| (count + 1) as f64 / f64::from(DRAWN + 1))
    };
    let mut out = Joint { p: vec![1.0; first.len()], corrected: vec![1.0; first.len()], exact: ways.is_some() };
    let mut least = 0.0_f64;
    for ((index, ..), [alone, joint]) in tested.iter().zip(counts) {
        least = least.max(share(joint));
        (out.p[*index], out.corrected[*index]) = (share(alone), least);
    }
    Some(out)
}

/// Both lists as one, less their mean and by their standard deviation; `None` where all are the same up to rounding.
fn standardised(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let count = all.len() as f64;
    let mean = all.iter().sum::<f64>() / count;
    let stdev = (all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let scale = all.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    (stdev > scale * 1e-12).then(|| all.iter().map(|value| (value - mean) / stdev).collect())
}

/// The smallest p that sets of these sizes can reach: both extreme dealings of all, which is the bound for equal sizes.
pub fn smallest_p(first: usize, second: usize) -> f64 {
    match dealings(first + second, first) {
        Some(ways) if ways > 0 => (2.0 / ways as f64).min(1.0),
        _ => 0.0,
    }
}

/// The fewest samples a side with which `tests` corrected comparisons at once can reach `level`; 64 where more are needed.
pub fn samples_needed(tests: usize, level: f64) -> usize {
    (2..=64).find(|count| smallest_p(*count, *count) * tests.max(1) as f64 <= level).unwrap_or(64)
}

/// Holm's correction (S. Holm, "A simple sequentially rejective multiple test procedure", 1979): p-values of several tests,
/// raised so that the chance of even one false finding stays below the level. In the order given; at most 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    let value = |place: usize| p.get(place).copied().unwrap_or(1.0);
    order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
    let mut raised = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        largest = largest.max(value(place) * (p.len() - rank) as f64).min(1.0);
        if let Some(slot) = raised.get_mut(place) {
            *slot = largest;
        }
    }
    raised
}

/// In how many ways `chosen` of `all` can be drawn; `None` beyond what a number holds.
fn dealings(all: usize, chosen: usize) -> Option<u64> {
    let chosen = chosen.min(all.checked_sub(chosen)?) as u64;
    let mut ways = 1_u64;
    for step in 1..=chosen {
        // The product of i neighbouring numbers is divisible by i!, so no remainder is lost.
        ways = ways.checked_mul(all as u64 - chosen + step)? / step;
    }
    Some(ways)
}

/// The next way to choose places, in ascending order; false after the last.
fn next(chosen: &mut [usize], all: usize) -> bool {
    let count = chosen.len();
    let Some(at) = (0..count).rev().find(|&at| chosen.get(at).is_some_and(|&place| place < all - count + at)) else {
        return false;
    };
    let first = chosen.get(at).copied().unwrap_or_default() + 1;
    for (offset, place) in chosen.iter_mut().skip(at).enumerate() {
        *place = first + offset;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The test of one quantity: its p, and whether it is exact.
    fn test(first: &[f64], second: &[f64], seed: u64) -> Option<(f64, bool)> {
        let joint = joint_permutation_test(&[first.to_vec()], &[second.to_vec()], seed)?;
        assert_eq!(joint.p, joint.corrected, "there is nothing to correct for");
        Some((joint.p[0], joint.exact))
    }

    fn p(first: &[f64], second: &[f64]) -> f64 {
        test(first, second, 1).unwrap().0
    }

    #[test]
    fn exact_by_hand() {
        // Of the six dealings of 1 2 | 3 4 the difference of means is 2 once, -2 once; of three and three fully apart both
        // extremes of 20.
        for (first, second, by_hand) in [
            (&[1.0, 2.0][..], &[3.0, 4.0][..], 2.0 / 6.0),
            (&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0], 0.1),
            (&[5.0, 5.0, 5.0], &[5.0, 5.0, 5.0], 1.0),
        ] {
            let (p, exact) = test(first, second, 1).unwrap();
            assert!(exact && (p - by_hand).abs() < 1e-12, "{first:?} {second:?}: {p}");
        }
        assert!((smallest_p(3, 3) - 0.1).abs() < 1e-12);
        assert_eq!((test(&[], &[1.0], 0), test(&[f64::NAN], &[1.0], 0)), (None, None));
    }

    #[test]
    fn dealings_are_counted_and_enumerated() {
        for all in 1..9 {
            for count in 1..=all {
                let mut chosen: Vec<usize> = (0..count).collect();
                let mut seen = std::collections::BTreeSet::new();
                loop {
                    assert!(seen.insert(chosen.clone()));
                    if !next(&mut chosen, all) {
                        break;
                    }
                }
                assert_eq!(Some(seen.len() as u64), dealings(all, count));
            }
        }
        assert_eq!(dealings(20, 10), Some(184_756));
        assert_eq!(dealings(200, 100), None);
    }

    #[test]
    fn a_random_sample_is_near_the_whole() {
        let first: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7)).collect();
        let second: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7) + 1.5).collect();
        let drawn = test(&first, &second, 1).unwrap();
        assert!(!drawn.1);
        // Student's t for these figures has p of about 0.05; drawing must land near it.
        assert!((0.02..0.12).contains(&drawn.0), "{drawn:?}");
        let other = test(&first, &second, 2).unwrap();
        assert!((drawn.0 - other.0).abs() < 0.01, "{drawn:?} {other:?}");
        assert_eq!(test(&first, &second, 1), Some(drawn), "the seed decides");
    }

    #[test]
    fn one_quantity_is_exact_up_to_ten_a_side_and_several_up_to_nine() {
        let lists =
            |count: usize, quantities: usize| vec![(0..count).map(|i| i as f64).collect::<Vec<_>>(); quantities];
        let exact = |count, quantities| {
            let joint = joint_permutation_test(&lists(count, quantities), &lists(count, quantities), 1).unwrap();
            joint.exact
        };
        assert_eq!([exact(10, 1), exact(11, 1), exact(9, 2), exact(10, 2)], [true, false, true, false]);
    }

    #[test]
    fn what_moves_together_costs_nothing() {
        let first: Vec<f64> = vec![10.0, 11.0, 12.0, 13.0, 14.0];
        let second: Vec<f64> = first.iter().map(|value| value + 20.0).collect();
        let times = |list: &[f64]| [1.0, 2.0, 7.0].map(|by| list.iter().map(|value| value * by).collect::<Vec<f64>>());
        let joint = joint_permutation_test(&times(&first), &times(&second), 1).unwrap();
        let best = smallest_p(5, 5);
        assert!(joint.exact && joint.corrected.iter().all(|p| (p - best).abs() < 1e-12), "{joint:?}");
    }

    #[test]
    fn unrelated_quantities_cost_something() {
        // One quantity that differs, three that scatter each in its own way.
        let noise = |k: u32| (0..10).map(|i| f64::from((i * 7 + k * 13) % 11 + (i * i * k) % 5)).collect::<Vec<f64>>();
        let mut lists: Vec<Vec<f64>> = (1..4).map(noise).collect();
        lists.insert(0, (0..10).map(|i| f64::from(i % 5) + if i < 5 { 0.0 } else { 4.0 }).collect());
        let (first, second): (Vec<_>, Vec<_>) =
            lists.iter().map(|list| (list[..5].to_vec(), list[5..].to_vec())).unzip();
        let joint = joint_permutation_test(&first, &second, 1).unwrap();
        assert!(joint.corrected[0] > joint.p[0], "{joint:?}");
        assert!(joint.corrected[0] <= joint.p[0] * 4.0 + 1e-12, "never more than Bonferroni: {joint:?}");
    }

    #[test]
    fn what_never_changes_is_no_finding() {
        let joint =
            joint_permutation_test(&[vec![0.0; 3], vec![1.0, 2.0, 3.0]], &[vec![0.0; 3], vec![7.0, 8.0, 9.0]], 1);
        let joint = joint.unwrap();
        assert_eq!((joint.p[0], joint.corrected[0]), (1.0, 1.0));
        assert!((joint.corrected[1] - 0.1).abs() < 1e-12, "{joint:?}");
        assert_eq!(joint_permutation_test(&[], &[], 1), None);
        assert_eq!(joint_permutation_test(&[vec![1.0], vec![1.0, 2.0]], &[vec![1.0], vec![1.0]], 1), None);
    }

    #[test]
    fn false_findings_are_as_rare_as_promised() {
        // Six quantities that depend on each other, both sets of one distribution, 400 times: the p of each, and that at most
        // 5 % have even one finding. 20 are expected; six deviations of a binomial are 26.
        let mut random = SplitMix64::new(11);
        let mut draw = || random.unit();
        let (mut alone, mut any) = (0, 0);
        for _ in 0..400 {
            let mut set = |count: usize| -> Vec<Vec<f64>> {
                let common: Vec<f64> = (0..count).map(|_| draw()).collect();
                (0..6).map(|k| common.iter().map(|c| c * f64::from(k) + draw()).collect()).collect()
            };
            let (first, second) = (set(5), set(5));
            let joint = joint_permutation_test(&first, &second, 1).unwrap();
            alone += u32::from(joint.p[0] <= 0.05);
            any += u32::from(joint.corrected.iter().any(|p| *p <= 0.05));
        }
        assert!(alone < 46 && any < 46, "{alone} and {any} of 400 have a finding");
    }

    #[test]
    fn enough_samples_to_show_anything() {
        assert_eq!([1, 6, 24].map(|tests| samples_needed(tests, 0.05)), [4, 5, 7]);
    }

    #[test]
    fn holm_by_hand() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn a_p_is_a_share_and_order_does_not_matter(
            first in prop::collection::vec(-1e6..1e6_f64, 1..7),
            second in prop::collection::vec(-1e6..1e6_f64, 1..7),
        ) {
            let (found, exact) = test(&first, &second, 1).unwrap();
            prop_assert!(exact && found > 0.0 && found <= 1.0);
            // Neither the order of the sets, nor that within one, changes it.
            prop_assert!((found - p(&second, &first)).abs() < 1e-12);
            let reversed: Vec<f64> = first.iter().rev().copied().collect();
            prop_assert!((p(&reversed, &second) - found).abs() < 1e-12);
            prop_assert!(first.len() != second.len() || found >= smallest_p(first.len(), second.len()) - 1e-12);
        }

        #[test]
        fn figures_that_lie_apart_reach_the_smallest_p(count in 2_usize..8, gap in 1.0..1e6_f64) {
            let first: Vec<f64> = (0..count).map(|i| i as f64 / count as f64).collect();
            let second: Vec<f64> = first.iter().map(|value| value + gap).collect();
            let found = p(&first, &second);
            prop_assert!((found - smallest_p(count, count)).abs() < 1e-12, "{}", found);
        }

        #[test]
        fn correction_only_raises(
            lists in prop::collection::vec(prop::collection::vec(-1e3..1e3_f64, 8..=8), 1..5),
        ) {
            let (first, second): (Vec<_>, Vec<_>) =
                lists.iter().map(|list| (list[..4].to_vec(), list[4..].to_vec())).unzip();
            let joint = joint_permutation_test(&first, &second, 1).unwrap();
            for (p, corrected) in joint.p.iter().zip(&joint.corrected) {
                prop_assert!(corrected >= p && *corrected <= 1.0 && *p > 0.0, "{joint:?}");
            }
        }

        #[test]
        fn holm_raises_and_keeps_the_order(p in prop::collection::vec(0.0..1.0_f64, 1..20)) {
            let raised = holm(&p);
            prop_assert_eq!(raised.len(), p.len());
            let most = p.len() as f64;
            for (one, up) in p.iter().zip(&raised) {
                prop_assert!(up >= one && *up <= (one * most).min(1.0) + 1e-12);
            }
            for (a, up_a) in p.iter().zip(&raised) {
                for (b, up_b) in p.iter().zip(&raised) {
                    prop_assert!(a > b || up_a <= up_b);
                }
            }
        }
    }
}
