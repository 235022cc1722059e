//! What the repetitions of two sides say about one figure: how far apart, how surely, and whether by more than chance.

use model::quantity::Unit;
use stats::t_quantile;

/// Fewer samples than this have no interval: two figures do not tell how far a third may lie.
pub(super) const FEWEST: usize = 3;

/// The level that corrected p-values are compared with.
pub(super) const LEVEL: f64 = 0.05;

/// Quantiles come from buckets that are up to a thousandth wide: no interval is narrower, and a smaller difference is none.
pub(super) const RESOLUTION: f64 = 0.001;

/// How far apart two sides lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Effect {
    /// The first side's figure: the geometric mean over its samples, of shares the mean.
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
    /// Standard error of what was compared, and its degrees of freedom.
    pub(super) error: Option<(f64, f64)>,
}

impl Effect {
    /// Gives it an interval where a side has a single run: from the repetitions `within` each run, and from the standard
    /// deviation between runs of the same thing (with its degrees of freedom) where that is known. `runs`: runs a side.
    pub(super) fn widen(&mut self, within: &[Vec<f64>; 2], runs: [usize; 2], spread: Option<(f64, f64)>, unit: Unit) {
        let [x, y] = within;
        let of_repetitions = (!self.by_ratio || by_ratio(x, y, unit))
            .then(|| standard_error(&compared(x, self.by_ratio), &compared(y, self.by_ratio)))
            .flatten();
        let of_runs = spread.map(|(stdev, df)| {
            let share: f64 = runs.iter().map(|count| 1.0 / (*count).max(1) as f64).sum();
            (stdev * share.sqrt(), df)
        });
        let half = |error: Option<(f64, f64)>| error.map(|(error, df)| error * t_quantile(0.975, df.max(1.0)));
        let (a, b) = (half(of_repetitions), half(of_runs));
        if a.is_some() || b.is_some() {
            self.interval(a.unwrap_or(0.0).hypot(b.unwrap_or(0.0)).max(if self.by_ratio { RESOLUTION } else { 0.0 }));
        }
    }

    /// Sets the interval from its half width, in logarithms where these were compared.
    fn interval(&mut self, half: f64) {
        if self.by_ratio {
            let apart = (self.b / self.a).ln();
            let interval = [(apart - half).exp(), (apart + half).exp()];
            self.ratio_ci95 = Some(interval);
            self.difference_ci95 = Some(interval.map(|ratio| self.a * (ratio - 1.0)));
        } else {
            self.difference_ci95 = Some([self.difference - half, self.difference + half]);
        }
    }
}

/// The figure of several repetitions of one run: their geometric mean, of shares and of what may be 0 the mean.
pub(super) fn centre(values: &[f64], unit: Unit) -> Option<f64> {
    let logs = by_ratio(values, &[], unit);
    let mean = mean(&compared(values, logs))?;
    Some(if logs { mean.exp() } else { mean })
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
    let error = standard_error(&x, &y);
    let (first, second) = if logs { (mean_a.exp(), mean_b.exp()) } else { (mean_a, mean_b) };
    let mut effect = Effect {
        a: first,
        b: second,
        ratio: if logs { Some((mean_b - mean_a).exp()) } else { (mean_a > 0.0).then(|| mean_b / mean_a) },
        difference: second - first,
        ratio_ci95: None,
        difference_ci95: None,
        by_ratio: logs,
        error,
    };
    if let Some((error, df)) = error {
        let half = t_quantile(0.975, df) * error;
        effect.interval(if bucketed && logs { half.max(RESOLUTION) } else { half });
    }
    Some(effect)
}

/// As [`effect`] for one repetition a side, with the intervals that the batches within each have. What such an interval says
/// is how steady each repetition was in itself, and not how far another one would lie.
pub(super) fn effect_of_batches(a: f64, b: f64, within_a: [f64; 2], within_b: [f64; 2]) -> Option<Effect> {
    if !(a > 0.0 && b > 0.0 && within_a[0] > 0.0 && within_b[0] > 0.0) {
        return None;
    }
    let half = |[low, high]: [f64; 2]| (high / low).ln() / 2.0;
    let mut effect = Effect {
        a,
        b,
        ratio: Some(b / a),
        difference: b - a,
        ratio_ci95: None,
        difference_ci95: None,
        by_ratio: true,
        error: None,
    };
    effect.interval(half(within_a).hypot(half(within_b)).max(RESOLUTION));
    Some(effect)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard error of the difference of two means whose sides scatter differently, and its degrees of freedom (Welch's t,
/// with the degrees of freedom of Satterthwaite); absent with fewer than 3 figures on a side.
fn standard_error(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
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
        return Some((0.0, 1.0));
    }
    let df = whole.powi(2) / (a.powi(2) / (x.len() as f64 - 1.0) + b.powi(2) / (y.len() as f64 - 1.0));
    Some((whole.sqrt(), df.max(1.0)))
}

/// Two-sided p of a mean (with its standard error and degrees of freedom) against a limit.
pub(super) fn p_against(mean: f64, limit: f64, (error, df): (f64, f64)) -> f64 {
    let distance = (mean - limit).abs();
    if error > 0.0 { 2.0 * stats::t_tail(distance / error, df) } else { f64::from(u8::from(distance == 0.0)) }
}

/// The half-open question behind a gate on one side alone: the 95 % interval of its figure.
pub(super) fn own_interval(values: &[f64], unit: Unit) -> Option<[f64; 2]> {
    let logs = by_ratio(values, &[], unit);
    let (mean, half) = stats::interval_of(&compared(values, logs))?;
    Some(if logs { [(mean - half).exp(), (mean + half).exp()] } else { [mean - half, mean + half] })
}

/// Two-sided p of one side's figure against a limit; absent with fewer than 3 values, as its interval is.
pub(super) fn p_of_own(values: &[f64], limit: f64, unit: Unit) -> Option<f64> {
    let logs = by_ratio(values, &[], unit);
    let (mean, half) = stats::interval_of(&compared(values, logs))?;
    if logs && limit <= 0.0 {
        return Some(0.0);
    }
    let df = values.len() as f64 - 1.0;
    Some(p_against(mean, if logs { limit.ln() } else { limit }, (half / t_quantile(0.975, df), df)))
}

/// The smallest number of samples a side with which `tests` corrected comparisons can reach the level at all.
pub(super) fn repetitions_needed(tests: usize) -> usize {
    stats::samples_needed(tests, LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_times_by_hand() {
        let found = effect(&[10.0, 10.0, 10.0], &[11.0, 11.0, 11.0], Unit::Ns, true).unwrap();
        assert!(found.by_ratio && (found.ratio.unwrap() - 1.1).abs() < 1e-12 && (found.difference - 1.0).abs() < 1e-9);
        let [low, high] = found.ratio_ci95.unwrap();
        assert!(low < 1.1 && high > 1.1 && high / low < 1.0021, "as wide as a bucket: {low} {high}");
        assert_eq!(effect(&[10.0, 11.0], &[12.0, 13.0], Unit::Ns, true).unwrap().ratio_ci95, None);
        assert_eq!(effect(&[], &[1.0], Unit::Ns, true), None);
    }

    #[test]
    fn welch_by_hand() {
        // Means 2 and 5, variances 1 and 4: squared errors 1/3 and 4/3, so df = (5/3)² / ((1/9 + 16/9) / 2) = 50/17.
        let (error, df) = standard_error(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0]).unwrap();
        assert!((error - (5.0_f64 / 3.0).sqrt()).abs() < 1e-9 && (df - 50.0 / 17.0).abs() < 1e-9, "{error} {df}");
    }

    #[test]
    fn shares_are_subtracted() {
        let found = effect(&[0.0, 0.0, 0.0], &[0.01, 0.02, 0.03], Unit::Share, false).unwrap();
        assert!(!found.by_ratio && found.ratio.is_none() && (found.difference - 0.02).abs() < 1e-12);
        assert!(found.difference_ci95.unwrap()[0] < 0.0, "three figures that scatter so say little");
    }
}
