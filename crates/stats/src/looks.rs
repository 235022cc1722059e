//! When a comparison that may end early looks at its figures.
//!
//! Looking after each repetition and stopping at the first p below 0.05 finds a difference between equals far more often than
//! once in 20 times. Here the looks are fixed before the first, and the level is divided evenly among them: by Bonferroni's
//! inequality all looks together claim a difference between equals no more often than the whole level says. (Alpha spending,
//! K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical trials", 1983, with equal shares.) Intervals at
//! the level of one look are repeated confidence intervals (C. Jennison and B. W. Turnbull, 1989).

use crate::samples_needed;

/// Looks at a growing number of samples a side.
#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    at: Vec<usize>,
    level: f64,
}

impl Looks {
    /// The first look of several, in samples a side; each further one is at one and a half times as many.
    const FIRST: usize = 6;

    /// No look is at more samples a side than this.
    pub const MOST: usize = 32;

    /// The looks of a comparison of up to `most` samples a side. `level`: the chance that any look claims a difference between
    /// equals. `None` where so few samples cannot show any.
    pub fn up_to(most: usize, level: f64) -> Option<Self> {
        let last = most.min(Self::MOST);
        if last < samples_needed(1, level) {
            return None;
        }
        let mut at: Vec<usize> =
            std::iter::successors(Some(Self::FIRST), |at| Some(at + at / 2 + at % 2)).take(8).collect();
        at.retain(|at| *at < last);
        at.push(last);
        Some(Self { level: level / at.len() as f64, at })
    }

    pub fn is_due(&self, samples: usize) -> bool {
        self.at.contains(&samples)
    }

    /// The samples a side of the last look.
    pub fn last(&self) -> usize {
        self.at.last().copied().unwrap_or_default()
    }

    /// What the p of each look is compared with, and what its interval leaves out; also of an early last look.
    pub fn level(&self) -> f64 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SplitMix64, holm, smallest_p, t_tail};

    #[test]
    fn looks_are_few_and_each_can_find_something() {
        let at = |most| Looks::up_to(most, 0.05).map(|looks| looks.at);
        assert_eq!((at(3), at(4), at(6)), (None, Some(vec![4]), Some(vec![6])));
        assert_eq!((at(7), at(20)), (Some(vec![6, 7]), Some(vec![6, 9, 14, 20])));
        assert_eq!(at(1000), Some(vec![6, 9, 14, 21, 32]));
        for most in 4..100 {
            let looks = Looks::up_to(most, 0.05).unwrap();
            assert!(looks.level() * looks.at.len() as f64 <= 0.05 + 1e-12);
            assert!(looks.at.iter().all(|at| smallest_p(*at, *at) <= looks.level()), "{looks:?}");
            assert!(looks.is_due(looks.last()) && looks.last() == most.min(Looks::MOST));
        }
    }

    /// Logarithms of p50, jitter and p99.9 of a repetition: the last two scatter far and move together.
    fn repetition(random: &mut SplitMix64) -> [f64; 3] {
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let common = normal();
        [0.03 * normal(), 0.6 * (common + 0.5 * normal()), 0.5 * (common + 0.5 * normal())]
    }

    /// The smallest p of three figures (Student's t), corrected for the three.
    fn p(a: &[[f64; 3]], b: &[[f64; 3]]) -> f64 {
        let each = (0..3).map(|figure| {
            let moments = |side: &[[f64; 3]]| {
                let count = side.len() as f64;
                let mean = side.iter().map(|one| one[figure]).sum::<f64>() / count;
                (mean, side.iter().map(|one| (one[figure] - mean).powi(2)).sum::<f64>(), count)
            };
            let ((x, square_x, n), (y, square_y, m)) = (moments(a), moments(b));
            let error = ((square_x + square_y) / (n + m - 2.0) * (1.0 / n + 1.0 / m)).sqrt();
            2.0 * t_tail((x - y).abs() / error, n + m - 2.0)
        });
        holm(&each.collect::<Vec<_>>()).into_iter().fold(1.0, f64::min)
    }

    /// Whether a comparison finds a difference at a look; `by` is added to the second side's jitter.
    fn finds(random: &mut SplitMix64, by: f64, is_due: impl Fn(usize) -> bool, level: f64, last: usize) -> bool {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        (1..=last).any(|samples| {
            a.push(repetition(random));
            b.push(repetition(random));
            b[samples - 1][1] += by;
            is_due(samples) && p(&a, &b) <= level
        })
    }

    /// Of 4000 comparisons of a setting with itself 200 may find a difference; three deviations of a binomial are 41.
    #[test]
    fn a_setting_against_itself_is_rarely_called_different() {
        let mut random = SplitMix64::new(22);
        for most in [4, 9, 20, 32] {
            let looks = Looks::up_to(most, 0.05).unwrap();
            let mut found = || finds(&mut random, 0.0, |at| looks.is_due(at), looks.level(), looks.last());
            let wrong = (0..4000).filter(|_| found()).count();
            assert!(wrong <= 241, "up to {most}: {wrong} of 4000");
        }
        // What the looks are there for: a p below 0.05 after any repetition is found much more often.
        let mut found = || finds(&mut random, 0.0, |at| at >= Looks::FIRST, 0.05, 20);
        let wrong = (0..1000).filter(|_| found()).count();
        assert!(wrong > 100, "{wrong} of 1000: the noise is too tame to test anything");
    }

    #[test]
    fn three_times_the_jitter_is_found() {
        let mut random = SplitMix64::new(23);
        let looks = Looks::up_to(20, 0.05).unwrap();
        let mut found = || finds(&mut random, 3.0_f64.ln(), |at| looks.is_due(at), looks.level(), looks.last());
        let right = (0..500).filter(|_| found()).count();
        assert!(right >= 475, "{right} of 500");
    }
}
