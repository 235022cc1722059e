//! The typical value and ratio of a few figures, such as one a round.

/// Median of values in any order; the mean of the middle two for an even number.
#[must_use]
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

/// The typical ratio of figures that belong together in pairs, such as those of a round, with its 95 % bounds: the Hodges-Lehmann
/// estimate on logarithms with the interval of the signed-rank test (Hollander & Wolfe, Nonparametric Statistical Methods, 3.2 and
/// 3.3, normal approximation). A round in which the host took the CPU away from one of the two tools moves it no more than any
/// other round does.
#[must_use]
pub fn ratio(ours: &[f64], theirs: &[f64]) -> (f64, f64, f64) {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln()).collect();
    let count = logs.len();
    let mut walsh: Vec<f64> = (0..count)
        .flat_map(|i| (i..count).map(move |j| (i, j)))
        .map(|(i, j)| f64::midpoint(logs[i], logs[j]))
        .collect();
    walsh.sort_by(f64::total_cmp);
    let n = count as f64;
    let spread = 1.959_963_985 * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small rank, at least 0")]
    let rank = (n * (n + 1.0) / 4.0 - spread).max(0.0).floor() as usize;
    let (low, high) = (walsh.get(rank), walsh.get(walsh.len().saturating_sub(1 + rank)));
    let exp = |log: Option<&f64>| log.map_or(f64::NAN, |log| log.exp());
    (median(&walsh).exp(), exp(low), exp(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_ratio_has_no_width() {
        let (mean, low, high) = ratio(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0]);
        assert!((mean - 2.0).abs() < 1e-9 && (high - low).abs() < 1e-9);
        assert!((median(&[3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn one_bad_round_moves_little() {
        let theirs = vec![1.0; 20];
        let mut ours: Vec<f64> = (0..20).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
        let (before, low, high) = ratio(&ours, &theirs);
        assert!(low < before && before < high && high < 1.02, "{low} {before} {high}");
        ours[3] = 50.0;
        assert!((ratio(&ours, &theirs).0 - before).abs() < 0.003);
    }
}
