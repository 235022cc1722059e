//! Several repetitions as one: exact where exact moments are stored, and by merged histograms where they are not.

/// Count, mean and sample standard deviation of one repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    /// Absent with a single message.
    pub(crate) stdev: Option<f64>,
}

/// The count, mean and sample standard deviation of all messages together, from those of the parts: the sums of squares
/// about each part's own mean, plus those of the parts' means about the common mean. No approximation; the same as
/// computing over all messages at once, up to rounding.
pub(crate) fn pooled(parts: &[Part]) -> Option<Part> {
    let count: u64 = parts.iter().map(|part| part.count).sum();
    if count == 0 {
        return None;
    }
    let total = count as f64;
    let mean = parts.iter().map(|part| part.mean * (part.count as f64 / total)).sum::<f64>();
    let squares: f64 = parts
        .iter()
        .map(|part| {
            let n = part.count as f64;
            let within = part.stdev.map_or(0.0, |s| s * s * (n - 1.0));
            within + n * (part.mean - mean).powi(2)
        })
        .sum();
    let stdev = (count > 1).then(|| (squares / (total - 1.0)).max(0.0).sqrt());
    Some(Part { count, mean, stdev })
}

/// Smallest and largest value; absent with fewer than two, because one value has no spread.
pub(crate) fn spread(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low.is_finite() && high.is_finite()).then_some([low, high])
}

/// The mean of some values; absent for none.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle one of some values (the mean of the middle two); absent for none.
pub(crate) fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(half)) {
        (1, Some(&value)) => Some(value),
        (0, Some(&upper)) => sorted.get(half.checked_sub(1)?).map(|lower| f64::midpoint(*lower, upper)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(values: &[f64]) -> Part {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let stdev = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        Part { count: values.len() as u64, mean, stdev: Some(stdev) }
    }

    #[test]
    fn pooling_equals_computing_over_all_messages_at_once() {
        let all: Vec<f64> = (0..1000).map(|i| 5000.0 + f64::from(i % 37) * 11.0 + f64::from(i % 5) * 300.0).collect();
        let whole = direct(&all);
        let parts = [direct(&all[..100]), direct(&all[100..103]), direct(&all[103..])];
        let pooled = pooled(&parts).unwrap();
        assert_eq!(pooled.count, whole.count);
        assert!((pooled.mean - whole.mean).abs() < 1e-6);
        assert!((pooled.stdev.unwrap() - whole.stdev.unwrap()).abs() < 1e-6);
        assert!((pooled.stdev.unwrap() - parts[0].stdev.unwrap()).abs() > 1.0, "not merely the first part");
    }

    #[test]
    fn single_messages_and_nothing() {
        assert_eq!(pooled(&[]), None);
        let one = Part { count: 1, mean: 7.0, stdev: None };
        assert_eq!(pooled(&[one]).unwrap(), one);
        let two = pooled(&[one, Part { count: 1, mean: 9.0, stdev: None }]).unwrap();
        assert_eq!((two.count, two.mean, two.stdev), (2, 8.0, Some(2f64.sqrt())));
    }

    #[test]
    fn spreads_need_two() {
        assert_eq!(spread(&[3.0]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some([1.0, 3.0]));
        assert_eq!((middle(&[3.0, 1.0, 2.0]), middle(&[1.0, 2.0]), middle(&[])), (Some(2.0), Some(1.5), None));
    }
}
