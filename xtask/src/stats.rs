//! The little statistics that benchmarks need.

/// Two-sided 95 % quantile of Student's t: Hill's expansion in the degrees of freedom (Abramowitz & Stegun 26.7.5).
pub(crate) fn t95(degrees: f64) -> f64 {
    let z: f64 = 1.959_963_985;
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    let g1 = (z3 + z) / 4.0;
    let g2 = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0;
    let g3 = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0;
    z + g1 / degrees + g2 / degrees.powi(2) + g3 / degrees.powi(3)
}

/// Median of values in any order; the mean of the middle two for an even number.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Geometric mean of ratios with its 95 % bounds, from the logarithms of paired ratios.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> (f64, f64, f64) {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = t95(count - 1.0) * (variance / count).sqrt();
    (mean.exp(), (mean - half).exp(), (mean + half).exp())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_quantile_is_the_tables() {
        for (degrees, table) in [(4.0, 2.776), (9.0, 2.262), (19.0, 2.093), (60.0, 2.000)] {
            assert!((t95(degrees) - table).abs() < 0.01, "{degrees}: {}", t95(degrees));
        }
    }

    #[test]
    fn a_constant_ratio_has_no_width() {
        let (mean, low, high) = ratio(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0]);
        assert!((mean - 2.0).abs() < 1e-9 && (high - low).abs() < 1e-9);
        assert!((median(&[3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < 1e-9);
    }
}
