//! How comparisons in rounds are judged: figures of whole rounds, correction for many sets of tests, interval and test together.

use crate::holm;
use std::collections::BTreeMap;

/// The order of the arms in a round. It rotates, so that what the machine does meanwhile falls on all alike.
pub fn turns(arms: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |turn| (turn + round) % arms)
}

/// The figures of all cells in each round that has `cells` of them, in the order of the rounds. `figures` are rounds and figures.
pub fn whole_rounds(figures: impl IntoIterator<Item = (u32, f64)>, cells: usize) -> Vec<Vec<f64>> {
    let mut by_round: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (round, figure) in figures {
        by_round.entry(round).or_default().push(figure);
    }
    by_round.into_values().filter(|figures| figures.len() == cells).collect()
}

/// Corrects p-values, each already corrected within its set, for the number of sets that have tests: with one test a set by
/// Holm, which is sharper, with several by Bonferroni.
pub fn correct_sets(sets: &[Vec<f64>]) -> Vec<f64> {
    let p = sets.concat();
    let count = sets.iter().filter(|set| !set.is_empty()).count();
    if p.len() == count { holm(&p) } else { p.iter().map(|p| (p * count as f64).min(1.0)).collect() }
}

/// What is known of how far the second side lies above the first: of a logarithm of a ratio, of a share, or of any other difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// 0 for equal sides.
    pub difference: f64,
    /// Its confidence interval; without one the test decides alone.
    pub interval: Option<[f64; 2]>,
    /// The chance of such a difference between equals, corrected for all tests; without one the interval decides alone.
    pub p: Option<f64>,
    /// A smaller difference does not matter.
    pub least: f64,
    /// An interval within this far of 0 shows that there is no difference.
    pub narrow: f64,
}

/// What evidence shows of the second side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Lower,
    Higher,
    /// Neither by as much as matters.
    NoDifference,
    /// Interval and test do not decide.
    Unclear,
}

impl Evidence {
    /// A difference is claimed where p is at most `level`, the interval excludes 0, and the difference matters.
    pub fn judge(&self, level: f64) -> Judgement {
        let within = |far: f64| self.interval.is_some_and(|[low, high]| low > -far && high < far);
        if self.interval.is_none() && self.p.is_none() {
            return Judgement::Unclear;
        }
        let is_apart = self.interval.is_none_or(|[low, high]| low > 0.0 || high < 0.0);
        match (self.p.is_none_or(|p| p <= level), is_apart) {
            _ if within(self.least) => Judgement::NoDifference,
            (true, true) if self.difference >= self.least && self.difference > 0.0 => Judgement::Higher,
            (true, true) if self.difference <= -self.least && self.difference < 0.0 => Judgement::Lower,
            (false, false) if within(self.narrow) => Judgement::NoDifference,
            _ => Judgement::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_has_each_place_once() {
        let orders: Vec<Vec<usize>> = (0..3).map(|round| turns(3, round).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn rounds_that_lack_a_cell_are_left_out() {
        let figures = [(2, 5.0), (1, 1.0), (3, 9.0), (2, 7.0), (1, 3.0)];
        assert_eq!(whole_rounds(figures, 2), [[1.0, 3.0], [5.0, 7.0]]);
    }

    #[test]
    fn sets_of_one_are_corrected_by_holm() {
        assert_eq!(correct_sets(&[vec![0.01], vec![0.04]]), [0.02, 0.04]);
        assert_eq!(correct_sets(&[vec![0.01, 0.04], vec![0.6]]), [0.02, 0.08, 1.0]);
        assert_eq!(correct_sets(&[vec![0.01, 0.04], vec![]]), [0.01, 0.04]);
    }

    /// Catches: a claim by the test or the interval alone where there are both, one below what matters, and a wide interval
    /// that passes for equality.
    #[test]
    fn a_claim_needs_test_interval_and_size() {
        let evidence = |difference, interval, p| Evidence { difference, interval, p, least: 0.1, narrow: 1.0 };
        for (difference, interval, p, expected) in [
            (0.5, Some([0.3, 0.7]), Some(0.01), Judgement::Higher),
            (-0.5, Some([-0.7, -0.3]), Some(0.01), Judgement::Lower),
            (-0.5, None, Some(0.01), Judgement::Lower),
            (-0.5, Some([-0.7, -0.3]), None, Judgement::Lower),
            (0.5, Some([0.3, 0.7]), Some(0.06), Judgement::Unclear),
            (0.5, Some([-0.1, 1.1]), Some(0.01), Judgement::Unclear),
            (0.05, None, Some(0.01), Judgement::Unclear),
            (0.05, Some([0.04, 0.06]), Some(0.01), Judgement::NoDifference),
            (0.05, Some([-0.5, 0.6]), Some(0.4), Judgement::NoDifference),
            (0.05, Some([-1.5, 1.6]), Some(0.4), Judgement::Unclear),
            // On the borders, and without evidence.
            (0.1, Some([0.05, 0.7]), Some(0.05), Judgement::Higher),
            (-0.1, Some([-0.7, -0.05]), Some(0.05), Judgement::Lower),
            (0.5, Some([0.0, 0.7]), Some(0.01), Judgement::Unclear),
            (0.05, Some([-1.0, 0.5]), Some(0.4), Judgement::Unclear),
            (0.05, Some([-0.1, 0.05]), Some(0.01), Judgement::Unclear),
            (0.5, Some([f64::NAN, f64::NAN]), Some(0.01), Judgement::Unclear),
            (0.5, None, None, Judgement::Unclear),
        ] {
            assert_eq!(evidence(difference, interval, p).judge(0.05), expected, "{difference} {interval:?} {p:?}");
        }
    }
}
