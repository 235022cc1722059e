//! Whether two sets of figures differ by more than chance: the permutation test, and Holm's correction for many tests.
//!
//! The question that the test asks is: had the labels "before" and "after" been dealt to the same figures at random, how
//! often would their medians (or means) lie at least as far apart as they do? It assumes nothing about how figures scatter;
//! it does assume that they could have been measured in any order, so whoever measures has to interleave both sets.
//! (R. A. Fisher, The Design of Experiments, 1935; B. Phipson and G. K. Smyth, "Permutation P-values should never be zero",
//! 2010, for the one that is added to both counts of a random sample of dealings.)

use crate::SplitMix64;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// The mean; of logarithms it compares ratios.
    Mean,
    /// The median: the mean of the two middle figures of an even number.
    Median,
}

impl Centre {
    fn of(self, values: &mut [f64]) -> f64 {
        match self {
            Self::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Self::Median => {
                values.sort_by(f64::total_cmp);
                let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
                match (values.get(low), values.get(high)) {
                    (Some(a), Some(b)) => f64::midpoint(*a, *b),
                    _ => f64::NAN,
                }
            }
        }
    }
}

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Permutation {
    /// Centre of the second set less that of the first.
    pub difference: f64,
    /// The share of all dealings that lie at least as far apart, in either direction; never 0.
    pub p: f64,
    /// Whether all dealings were looked at, rather than a random sample of them.
    pub exact: bool,
}

/// Up to so many dealings all are looked at: two sets of 10.
const MOST_EXACT: u64 = 200_000;
/// How many are drawn otherwise: p is known to about 0.002 at 0.05.
pub(crate) const DRAWN: u32 = 20_000;

/// The two-sided permutation test of two sets of figures. All ways to deal the labels are looked at when they are at most
/// 200,000 (two sets of up to 9 and 10); otherwise 20,000 that `seed` draws, so the same input gives the same answer.
/// `None` when a set is empty or holds a figure that is not finite.
#[must_use]
pub fn permutation_test(first: &[f64], second: &[f64], centre: Centre, seed: u64) -> Option<Permutation> {
    if first.is_empty() || second.is_empty() || first.iter().chain(second).any(|value| !value.is_finite()) {
        return None;
    }
    let mut pool: Vec<f64> = first.iter().chain(second).copied().collect();
    let mut left = first.to_vec();
    let mut right = second.to_vec();
    let difference = centre.of(&mut right) - centre.of(&mut left);
    // Sums of the same figures in another order differ in their last bits: dealings that are as far apart must count.
    let scale = pool.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let bound = difference.abs() - scale * 1e-12;
    let mut reaches = |dealt: &mut dyn FnMut(&mut [f64], &mut [f64])| {
        dealt(&mut left, &mut right);
        (centre.of(&mut right) - centre.of(&mut left)).abs() >= bound
    };
    let ways = dealings(pool.len(), first.len());
    if let Some(ways) = ways.filter(|ways| *ways <= MOST_EXACT) {
        let mut chosen: Vec<usize> = (0..first.len()).collect();
        let mut count = 0_u64;
        loop {
            let far = reaches(&mut |left, right| deal(&pool, &chosen, left, right));
            count += u64::from(far);
            if !next(&mut chosen, pool.len()) {
                break;
            }
        }
        return Some(Permutation { difference, p: count as f64 / ways as f64, exact: true });
    }
    let mut random = SplitMix64::new(seed);
    let mut count = 0_u32;
    for _ in 0..DRAWN {
        random.shuffle(&mut pool);
        let far = reaches(&mut |left, right| {
            let (head, tail) = pool.split_at(left.len());
            left.copy_from_slice(head);
            right.copy_from_slice(tail);
        });
        count += u32::from(far);
    }
    let p = f64::from(count + 1) / f64::from(DRAWN + 1);
    Some(Permutation { difference, p, exact: false })
}

/// The smallest p that two sets of these sizes can reach, however far apart they lie: both extreme dealings of all. (Of
/// sets that differ in size only one is extreme when the centres are means; this is the bound for equal sizes.)
#[must_use]
pub fn smallest_p(first: usize, second: usize) -> f64 {
    match dealings(first + second, first) {
        Some(ways) if ways > 0 => (2.0 / ways as f64).min(1.0),
        _ => 0.0,
    }
}

/// The smallest number of samples a side with which `tests` comparisons at once, corrected, can reach `level` at all; 64 where
/// more are needed.
#[must_use]
pub fn samples_needed(tests: usize, level: f64) -> usize {
    (2..=64).find(|count| smallest_p(*count, *count) * tests.max(1) as f64 <= level).unwrap_or(64)
}

/// Holm's correction (S. Holm, "A simple sequentially rejective multiple test procedure", 1979): p-values of several tests
/// at once, each raised so that the chance of even one false finding among all stays below the level that it is compared
/// with. In the order given; at most 1.
#[must_use]
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
pub(crate) fn dealings(all: usize, chosen: usize) -> Option<u64> {
    let chosen = chosen.min(all.checked_sub(chosen)?) as u64;
    let mut ways = 1_u64;
    for step in 1..=chosen {
        // The product of i neighbouring numbers is divisible by i!, so no remainder is lost.
        ways = ways.checked_mul(all as u64 - chosen + step)? / step;
    }
    Some(ways)
}

/// Deals the chosen places of the pool (ascending) to the left and all others to the right.
fn deal(pool: &[f64], chosen: &[usize], left: &mut [f64], right: &mut [f64]) {
    let mut chosen = chosen.iter().copied().peekable();
    let (mut left, mut right) = (left.iter_mut(), right.iter_mut());
    for (place, value) in pool.iter().enumerate() {
        let slot = if chosen.next_if_eq(&place).is_some() { left.next() } else { right.next() };
        if let Some(slot) = slot {
            *slot = *value;
        }
    }
}

/// The next way to choose places, in ascending order; false after the last.
pub(crate) fn next(chosen: &mut [usize], all: usize) -> bool {
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

    fn test(first: &[f64], second: &[f64], centre: Centre) -> Permutation {
        permutation_test(first, second, centre, 1).unwrap()
    }

    #[test]
    fn exact_by_hand() {
        // Of the six dealings of 1 2 | 3 4 the difference of means is 2 once, -2 once.
        let apart = test(&[1.0, 2.0], &[3.0, 4.0], Centre::Mean);
        assert!(apart.exact && (apart.difference - 2.0).abs() < 1e-12 && (apart.p - 2.0 / 6.0).abs() < 1e-12);
        // Three and three, fully apart: both extremes of 20.
        let apart = test(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0], Centre::Mean);
        assert!((apart.p - 0.1).abs() < 1e-12 && (smallest_p(3, 3) - 0.1).abs() < 1e-12);
        let same = test(&[5.0, 5.0, 5.0], &[5.0, 5.0, 5.0], Centre::Median);
        assert!((same.p - 1.0).abs() < 1e-12 && same.difference == 0.0);
        assert_eq!(permutation_test(&[], &[1.0], Centre::Mean, 0), None);
        assert_eq!(permutation_test(&[f64::NAN], &[1.0], Centre::Mean, 0), None);
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
        // The same data by both ways: 9 and 10 exactly, and by drawing from the same pool.
        let first: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7)).collect();
        let second: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7) + 1.5).collect();
        let drawn = test(&first, &second, Centre::Mean);
        assert!(!drawn.exact);
        // Student's t for these figures has p of about 0.05; drawing must land near it.
        assert!((0.02..0.12).contains(&drawn.p), "{drawn:?}");
        let other = permutation_test(&first, &second, Centre::Mean, 2).unwrap();
        assert!((drawn.p - other.p).abs() < 0.01, "{drawn:?} {other:?}");
        assert_eq!(drawn, test(&first, &second, Centre::Mean), "the seed decides");
    }

    #[test]
    fn false_findings_are_as_rare_as_promised() {
        // Two sets of one distribution, 400 times: p must be uniform or larger. 5 % is 20; six deviations of a binomial
        // are 26.
        let mut random = SplitMix64::new(7);
        let mut draw = || random.unit();
        let below = (0..400)
            .filter(|_| {
                let first: Vec<f64> = (0..6).map(|_| draw()).collect();
                let second: Vec<f64> = (0..6).map(|_| draw()).collect();
                test(&first, &second, Centre::Mean).p <= 0.05
            })
            .count();
        assert!(below < 46, "{below} of 400 below 0.05");
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
            median in any::<bool>(),
        ) {
            let centre = if median { Centre::Median } else { Centre::Mean };
            let found = test(&first, &second, centre);
            prop_assert!(found.exact && found.p > 0.0 && found.p <= 1.0);
            // Swapping the sets turns the difference round and leaves the chance.
            let swapped = test(&second, &first, centre);
            prop_assert!((found.p - swapped.p).abs() < 1e-12);
            prop_assert!((found.difference + swapped.difference).abs() < 1e-6);
            // Neither order within a set nor a shift of everything changes it.
            let reversed: Vec<f64> = first.iter().rev().copied().collect();
            prop_assert!((test(&reversed, &second, centre).p - found.p).abs() < 1e-12);
            if first.len() == second.len() && !median {
                prop_assert!(found.p >= smallest_p(first.len(), second.len()) - 1e-12);
            }
        }

        #[test]
        fn figures_that_lie_apart_reach_the_smallest_p(count in 2_usize..8, gap in 1.0..1e6_f64) {
            let first: Vec<f64> = (0..count).map(|i| i as f64 / count as f64).collect();
            let second: Vec<f64> = first.iter().map(|value| value + gap).collect();
            let found = test(&first, &second, Centre::Mean);
            prop_assert!((found.p - smallest_p(count, count)).abs() < 1e-12, "{:?}", found);
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
