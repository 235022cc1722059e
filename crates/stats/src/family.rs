//! Several quantities of the same repetitions, tested at once.
//!
//! The median, the 99th percentile and the mean of one set of repetitions move together: to correct for them as if they were
//! independent would hide real differences. The step-down maxT method deals the labels of whole repetitions, looks at all
//! quantities of each dealing, and asks how often the largest of them lies as far apart as what was measured. (P. H. Westfall
//! and S. S. Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1.) The chance of even one false finding among the
//! quantities stays below the level that a corrected p is compared with.

use crate::SplitMix64;
use crate::permutation::{DRAWN, dealings, next};

/// Up to so many dealings all are looked at: two sets of 9. Many cells with many quantities are tested at once, so fewer than
/// for a single quantity.
const MOST_EXACT: u64 = 50_000;

/// The outcome of [`joint_permutation_test`], one entry a quantity, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    /// The p of each quantity by itself: that of [`crate::permutation_test`] with means. 1 for a quantity that is the same
    /// in all repetitions.
    pub p: Vec<f64>,
    /// The same, corrected for all quantities.
    pub corrected: Vec<f64>,
    /// Whether all dealings were looked at, rather than 20,000 that the seed drew.
    pub exact: bool,
}

/// Tests several quantities of two sets of repetitions at once, two-sided, by means. `first` and `second` hold one list a
/// quantity; the lists of a set are equally long, and place k of each belongs to the same repetition. `None` when a set is
/// empty, when lists differ in length, or when a figure is not finite.
#[must_use]
pub fn joint_permutation_test(first: &[Vec<f64>], second: &[Vec<f64>], seed: u64) -> Option<Joint> {
    let (left, right) = (first.first()?.len(), second.first()?.len());
    let even = first.iter().all(|list| list.len() == left) && second.iter().all(|list| list.len() == right);
    let finite = first.iter().chain(second).flatten().all(|value| value.is_finite());
    if left == 0 || right == 0 || !even || !finite || first.len() != second.len() {
        return None;
    }
    let quantities: Vec<Option<Vec<f64>>> = first.iter().zip(second).map(|(a, b)| standardised(a, b)).collect();
    // Of standardised figures the sum over the first set alone tells how far the means lie apart: all together are 0.
    let apart = |figures: &[f64], chosen: &[usize]| -> f64 {
        chosen.iter().filter_map(|place| figures.get(*place)).sum::<f64>().abs()
    };
    let own: Vec<usize> = (0..left).collect();
    let measured: Vec<Option<f64>> =
        quantities.iter().map(|q| q.as_deref().map(|figures| apart(figures, &own))).collect();
    // Those that lie farthest apart first: each is compared with the largest of itself and all that come after it.
    let mut order: Vec<usize> =
        (0..quantities.len()).filter(|index| measured.get(*index).is_some_and(Option::is_some)).collect();
    let far = |index: &usize| measured.get(*index).copied().flatten().unwrap_or(0.0);
    order.sort_by(|a, b| far(b).total_cmp(&far(a)).then(a.cmp(b)));
    let bounds: Vec<f64> = order.iter().map(|index| far(index) - 1e-9).collect();
    let figures: Vec<&[f64]> = order.iter().filter_map(|index| quantities.get(*index)?.as_deref()).collect();
    let mut alone = vec![0_u64; order.len()];
    let mut joint = vec![0_u64; order.len()];
    let mut look = |chosen: &[usize]| {
        let mut largest = 0.0_f64;
        for (place, figures) in figures.iter().enumerate().rev() {
            let value = apart(figures, chosen);
            largest = largest.max(value);
            let bound = bounds.get(place).copied().unwrap_or(f64::INFINITY);
            if let (Some(alone), Some(joint)) = (alone.get_mut(place), joint.get_mut(place)) {
                *alone += u64::from(value >= bound);
                *joint += u64::from(largest >= bound);
            }
        }
    };
    let ways = dealings(left + right, left).filter(|ways| *ways <= MOST_EXACT);
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
    for (index, (alone, joint)) in order.into_iter().zip(alone.into_iter().zip(joint)) {
        least = least.max(share(joint));
        if let (Some(p), Some(corrected)) = (out.p.get_mut(index), out.corrected.get_mut(index)) {
            *p = share(alone);
            *corrected = least;
        }
    }
    Some(out)
}

/// Both lists as one, less their mean and in units of their standard deviation; `None` where all figures are the same, up to
/// the rounding of a sum.
fn standardised(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let count = all.len() as f64;
    let mean = all.iter().sum::<f64>() / count;
    let stdev = (all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    let scale = all.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    (stdev > scale * 1e-12).then(|| all.iter().map(|value| (value - mean) / stdev).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Centre, permutation_test, smallest_p};
    use proptest::prelude::*;

    #[test]
    fn what_moves_together_costs_nothing() {
        let first: Vec<f64> = vec![10.0, 11.0, 12.0, 13.0, 14.0];
        let second: Vec<f64> = first.iter().map(|value| value + 20.0).collect();
        let times = |by: f64, list: &[f64]| list.iter().map(|value| value * by).collect::<Vec<f64>>();
        let joint = joint_permutation_test(
            &[first.clone(), times(2.0, &first), times(7.0, &first)],
            &[second.clone(), times(2.0, &second), times(7.0, &second)],
            1,
        )
        .unwrap();
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
        assert_eq!(joint_permutation_test(&[vec![]], &[vec![1.0]], 1), None);
        assert_eq!(joint_permutation_test(&[vec![1.0], vec![1.0, 2.0]], &[vec![1.0], vec![1.0]], 1), None);
        assert_eq!(joint_permutation_test(&[vec![f64::NAN]], &[vec![1.0]], 1), None);
    }

    #[test]
    fn false_findings_are_as_rare_as_promised() {
        // Six quantities that depend on each other, both sets of one distribution, 400 times: at most 5 % may have even one
        // finding. 20 are expected; six deviations of a binomial are 26.
        let mut random = SplitMix64::new(11);
        let mut draw = || random.unit();
        let mut below = 0;
        for _ in 0..400 {
            let mut set = |count: usize| -> Vec<Vec<f64>> {
                let common: Vec<f64> = (0..count).map(|_| draw()).collect();
                (0..6).map(|k| common.iter().map(|c| c * f64::from(k) + draw()).collect()).collect()
            };
            let (first, second) = (set(5), set(5));
            let joint = joint_permutation_test(&first, &second, 1).unwrap();
            below += u32::from(joint.corrected.iter().any(|p| *p <= 0.05));
        }
        assert!(below < 46, "{below} of 400 have a finding");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn alone_it_is_the_permutation_test(
            first in prop::collection::vec(-1e6..1e6_f64, 1..6),
            second in prop::collection::vec(-1e6..1e6_f64, 1..6),
        ) {
            let joint = joint_permutation_test(std::slice::from_ref(&first), std::slice::from_ref(&second), 1).unwrap();
            let single = permutation_test(&first, &second, Centre::Mean, 1).unwrap();
            // Dealings that lie equally far apart may fall on either side of a rounding.
            prop_assert!((joint.p[0] - single.p).abs() < 1e-9 || first.len() + second.len() < 3, "{joint:?} {single:?}");
            prop_assert_eq!(joint.p[0], joint.corrected[0]);
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
    }
}
