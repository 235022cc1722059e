//! When a load counts as steady, and how even it was. Pure arithmetic on its work per 100 ms.

/// Intervals of 100 ms that are looked at: one second.
pub(crate) const WINDOW: usize = 10;
/// A coefficient of variation over the window up to which it is steady.
const EVEN: f64 = 0.05;
/// By how much of the mean the halves of the window may differ, for a noisy load whose ramp is over.
const FLAT: f64 = 0.10;

/// Coefficient of variation: sample standard deviation (n-1) over mean; `None` below three values and for a mean of 0.
pub(crate) fn cv(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    if values.len() < 3 || mean <= 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / mean)
}

/// Whether a load with these rates, the newest last, is steady: over a second with work its coefficient of variation is
/// at most 5 %, or, for uneven loads (a disk), the halves' means differ by at most 10 % and no interval is empty.
pub(crate) fn steady(rates: &[f64]) -> bool {
    let Some(window) = rates.len().checked_sub(WINDOW).and_then(|first| rates.get(first..)) else { return false };
    let Some(variation) = cv(window) else { return false };
    let (early, late) = window.split_at(WINDOW / 2);
    let slope = (mean(late) - mean(early)).abs() / mean(window);
    variation <= EVEN || (slope <= FLAT && window.iter().all(|&rate| rate > 0.0))
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_that_of_a_sample() {
        // Mean 3, squares 4+1+0+1+4 = 10, 10/4 = 2.5.
        assert!((cv(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap() - 2.5_f64.sqrt() / 3.0).abs() < 1e-12);
        assert_eq!(cv(&[1.0, 2.0]), None);
        assert_eq!(cv(&[0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn a_ramp_is_not_steady_and_its_plateau_is() {
        let mut rates: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!(!steady(&rates));
        assert!(!steady(&[5.0; 9]), "less than a second");
        let turned_steady = (0..20).find(|_| {
            rates.push(10.0);
            steady(&rates)
        });
        assert!(matches!(turned_steady, Some(4..=9)), "{turned_steady:?}");
    }

    #[test]
    fn noise_without_a_slope_is_steady_but_silence_is_not() {
        let noisy = [10.0, 6.0, 9.0, 7.0, 8.0, 7.0, 9.0, 6.0, 10.0, 8.0];
        assert!(cv(&noisy).unwrap() > EVEN && steady(&noisy));
        assert!(!steady(&[0.0; 10]));
        assert!(!steady(&[9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0]));
    }
}
