//! What the repetitions of two sides say about one figure: how far apart, how surely, and whether by more than chance.

use super::metric::Unit;
use stats::t_quantile;

/// Fewer repetitions than this have no interval: two figures do not tell how far a third may lie.
pub(super) const FEWEST: usize = 3;

/// The level that corrected p-values are compared with.
pub(super) const LEVEL: f64 = 0.05;

/// Quantiles come from buckets that are up to a thousandth wide: no interval is narrower, and a smaller difference is none.
pub(super) const RESOLUTION: f64 = 0.001;

/// How far apart two sides lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Effect {
    /// The first side's figure: the geometric mean over its repetitions, of shares the mean.
    pub(super) a: f64,
    /// The second side's.
    pub(super) b: f64,
    /// b / a; of figures that may be 0 absent where a is 0.
    pub(super) ratio: Option<f64>,
    /// b - a.
    pub(super) difference: f64,
    /// 95 % interval of the ratio.
    pub(super) ratio_ci95: Option<[f64; 2]>,
    /// 95 % interval of the difference; where there is one of the ratio, that times a less a.
    pub(super) difference_ci95: Option<[f64; 2]>,
    /// Whether logarithms were compared, so that the ratio is what was tested.
    pub(super) by_ratio: bool,
}

/// What the test compares: logarithms of times and rates, shares as they are (they may be 0).
pub(super) fn compared(values: &[f64], by_ratio: bool) -> Vec<f64> {
    if by_ratio { values.iter().map(|value| value.ln()).collect() } else { values.to_vec() }
}

/// Whether ratios can be compared: no figure is 0, and none is a share.
pub(super) fn by_ratio(a: &[f64], b: &[f64], unit: Unit) -> bool {
    unit != Unit::Share && a.iter().chain(b).all(|value| *value > 0.0)
}

/// How far apart they lie; `None` when a side has no figure. `bucketed`: the figures come from a histogram.
pub(super) fn effect(a: &[f64], b: &[f64], unit: Unit, bucketed: bool) -> Option<Effect> {
    let logs = by_ratio(a, b, unit);
    let (x, y) = (compared(a, logs), compared(b, logs));
    let (mean_a, mean_b) = (mean(&x)?, mean(&y)?);
    let half = half_width(&x, &y).map(|half| if bucketed && logs { half.max(RESOLUTION) } else { half });
    let apart = mean_b - mean_a;
    Some(if logs {
        let (first, second) = (mean_a.exp(), mean_b.exp());
        let interval = half.map(|half| [(apart - half).exp(), (apart + half).exp()]);
        Effect {
            a: first,
            b: second,
            ratio: Some(apart.exp()),
            difference: second - first,
            ratio_ci95: interval,
            difference_ci95: interval.map(|interval| interval.map(|ratio| first * (ratio - 1.0))),
            by_ratio: true,
        }
    } else {
        Effect {
            a: mean_a,
            b: mean_b,
            ratio: (mean_a > 0.0).then(|| mean_b / mean_a),
            difference: apart,
            ratio_ci95: None,
            difference_ci95: half.map(|half| [apart - half, apart + half]),
            by_ratio: false,
        }
    })
}

/// As [`effect`] for one repetition a side, with the intervals that the batches within each have. What such an interval says
/// is how steady each repetition was in itself, and not how far another one would lie.
pub(super) fn effect_of_batches(a: f64, b: f64, within_a: [f64; 2], within_b: [f64; 2]) -> Option<Effect> {
    if !(a > 0.0 && b > 0.0 && within_a[0] > 0.0 && within_b[0] > 0.0) {
        return None;
    }
    let half = |[low, high]: [f64; 2]| (high / low).ln() / 2.0;
    let (apart, half) = ((b / a).ln(), half(within_a).hypot(half(within_b)).max(RESOLUTION));
    let interval = [(apart - half).exp(), (apart + half).exp()];
    Some(Effect {
        a,
        b,
        ratio: Some(b / a),
        difference: b - a,
        ratio_ci95: Some(interval),
        difference_ci95: Some(interval.map(|ratio| a * (ratio - 1.0))),
        by_ratio: true,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Half of the 95 % interval of the difference of two means whose sides scatter differently (Welch's t, with the degrees of
/// freedom of Satterthwaite); absent with fewer than 3 figures on a side.
fn half_width(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len().min(y.len()) < FEWEST {
        return None;
    }
    let squared_error = |values: &[f64]| {
        let mean = mean(values)?;
        let count = values.len() as f64;
        Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count)
    };
    let (a, b) = (squared_error(x)?, squared_error(y)?);
    let whole = a + b;
    if whole <= 0.0 {
        return Some(0.0);
    }
    let df = whole.powi(2) / (a.powi(2) / (x.len() as f64 - 1.0) + b.powi(2) / (y.len() as f64 - 1.0));
    Some(t_quantile(0.975, df.max(1.0)) * whole.sqrt())
}

/// The half-open question behind a gate on one side alone: the 95 % interval of its figure.
pub(super) fn own_interval(values: &[f64], unit: Unit) -> Option<[f64; 2]> {
    let logs = by_ratio(values, &[], unit);
    let (mean, half) = stats::interval_of(&compared(values, logs))?;
    Some(if logs { [(mean - half).exp(), (mean + half).exp()] } else { [mean - half, mean + half] })
}

/// The smallest number of repetitions a side with which `tests` corrected comparisons can reach the level at all.
pub(super) fn repetitions_needed(tests: usize) -> usize {
    (2..=64).find(|count| stats::smallest_p(*count, *count) * tests.max(1) as f64 <= LEVEL).unwrap_or(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_times_by_hand() {
        let found = effect(&[10.0, 10.0, 10.0], &[11.0, 11.0, 11.0], Unit::Time, true).unwrap();
        assert!(found.by_ratio && (found.ratio.unwrap() - 1.1).abs() < 1e-12 && (found.difference - 1.0).abs() < 1e-9);
        let [low, high] = found.ratio_ci95.unwrap();
        assert!(low < 1.1 && high > 1.1 && high / low < 1.0021, "as wide as a bucket: {low} {high}");
        assert_eq!(effect(&[10.0, 11.0], &[12.0, 13.0], Unit::Time, true).unwrap().ratio_ci95, None);
        assert_eq!(effect(&[], &[1.0], Unit::Time, true), None);
    }

    #[test]
    fn welch_by_hand() {
        // Means 2 and 5, variances 1 and 4: squared errors 1/3 and 4/3, so df = (5/3)² / ((1/9 + 16/9) / 2) = 50/17.
        let half = half_width(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0]).unwrap();
        let expected = t_quantile(0.975, 50.0 / 17.0) * (5.0_f64 / 3.0).sqrt();
        assert!((half - expected).abs() < 1e-9, "{half} {expected}");
    }

    #[test]
    fn shares_are_subtracted() {
        let found = effect(&[0.0, 0.0, 0.0], &[0.01, 0.02, 0.03], Unit::Share, false).unwrap();
        assert!(!found.by_ratio && found.ratio.is_none() && (found.difference - 0.02).abs() < 1e-12);
        assert!(found.difference_ci95.unwrap()[0] < 0.0, "three figures that scatter so say little");
    }

    #[test]
    fn enough_repetitions_to_tell_anything() {
        assert_eq!(repetitions_needed(1), 4);
        assert_eq!(repetitions_needed(6), 5);
        assert_eq!(repetitions_needed(24), 7);
    }
}
