//! Several repetitions as one.

use model::quantity::Unit;
pub use stats::mean;

/// Smallest and largest value; absent with fewer than two, because one value has no spread.
pub fn spread(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low.is_finite() && high.is_finite()).then_some([low, high])
}

/// The middle one of some values (the mean of the middle two); absent for none.
pub fn middle(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| stats::median(values))
}

/// The figure of several repetitions of one run: their geometric mean, of shares and of what may be 0 the mean.
pub fn centre(values: &[f64], unit: Unit) -> Option<f64> {
    let logs = by_ratio(values, &[], unit);
    let mean = mean(&compared(values, logs))?;
    Some(if logs { mean.exp() } else { mean })
}

/// What the test compares: logarithms of times and rates, shares as they are (they may be 0).
pub fn compared(values: &[f64], by_ratio: bool) -> Vec<f64> {
    if by_ratio { values.iter().map(|value| value.ln()).collect() } else { values.to_vec() }
}

/// Whether ratios can be compared: no figure is 0, and none is a share.
pub fn by_ratio(a: &[f64], b: &[f64], unit: Unit) -> bool {
    unit != Unit::Share && a.iter().chain(b).all(|value| *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_need_two() {
        assert_eq!(spread(&[3.0]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some([1.0, 3.0]));
        assert_eq!((middle(&[3.0, 1.0, 2.0]), middle(&[1.0, 2.0]), middle(&[])), (Some(2.0), Some(1.5), None));
    }
}
