//! The typical value and ratio of a few figures, such as one a round.

use crate::{Evidence, Judgement, LEVEL};
use std::fmt;

/// The mean of some values; absent for none.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Median of values in any order; the mean of the middle two for an even number.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// A ratio with its 95 % bounds, in words `0.20 (0.19 to 0.21)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub typical: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// What its interval shows.
    pub fn judge(&self) -> Judgement {
        // Without a test the level plays no part.
        let interval = Some([self.low.ln(), self.high.ln()]);
        Evidence { difference: self.typical.ln(), interval, p: None, least: 0.0, narrow: 0.0 }.judge(LEVEL)
    }
}

impl fmt::Display for Ratio {
    /// Each number with the formatter's precision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { typical, low, high } = self;
        let digits = f.precision().unwrap_or(2);
        write!(f, "{typical:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}

/// The typical ratio of paired figures with its 95 % bounds: the Hodges-Lehmann estimate on logarithms with the interval of the
/// signed-rank test (Hollander & Wolfe, Nonparametric Statistical Methods, 3.2, 3.3, normal approximation); below 6 pairs range.
pub fn ratio(first: &[f64], second: &[f64]) -> Ratio {
    let logs: Vec<f64> = first.iter().zip(second).map(|(a, b)| (a / b).ln()).collect();
    let count = logs.len();
    let mut walsh: Vec<f64> = (0..count)
        .flat_map(|i| (i..count).map(move |j| (i, j)))
        .map(|(i, j)| f64::midpoint(logs[i], logs[j]))
        .collect();
    walsh.sort_by(f64::total_cmp);
    let rank = outside(count);
    let (low, high) = (walsh.get(rank), walsh.get(walsh.len().saturating_sub(1 + rank)));
    let exp = |log: Option<&f64>| log.map_or(f64::NAN, |log| log.exp());
    Ratio { typical: median(&walsh).exp(), low: exp(low), high: exp(high) }
}

/// How many of the smallest, and of the largest, Walsh averages lie outside of the interval, with correction for continuity.
fn outside(count: usize) -> usize {
    let n = count as f64;
    let spread = 1.959_963_985 * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small rank, at least 0")]
    let rank = (n * (n + 1.0) / 4.0 - spread - 0.5).max(0.0).floor() as usize;
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_ratio_has_no_width() {
        let Ratio { typical, low, high } = ratio(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0]);
        assert!((typical - 2.0).abs() < 1e-9 && (high - low).abs() < 1e-9);
        assert!((median(&[3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < 1e-9);
    }

    /// By the exact distribution of the rank sum: the share of all signs with a sum of at most so much.
    #[test]
    fn the_interval_covers_95_percent_and_not_much_more() {
        for count in 6..=40 {
            let most = count * (count + 1) / 2;
            let mut shares = vec![0.0; most + 1];
            shares[0] = 1.0;
            for rank in 1..=count {
                for sum in (0..=most).rev() {
                    let with = if sum >= rank { shares[sum - rank] } else { 0.0 };
                    shares[sum] = f64::midpoint(shares[sum], with);
                }
            }
            let missed = |rank: usize| 2.0 * shares.iter().take(rank + 1).sum::<f64>();
            let rank = outside(count);
            assert!(missed(rank) <= 0.05 && missed(rank + 2) > 0.05, "{count}: {} {}", missed(rank), missed(rank + 2));
        }
    }

    #[test]
    fn one_bad_round_moves_little() {
        let theirs = vec![1.0; 20];
        let mut ours: Vec<f64> = (0..20).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
        let Ratio { typical: before, low, high } = ratio(&ours, &theirs);
        assert!(low < before && before < high && high < 1.02, "{low} {before} {high}");
        ours[3] = 50.0;
        assert!((ratio(&ours, &theirs).typical - before).abs() < 0.003);
    }
}
