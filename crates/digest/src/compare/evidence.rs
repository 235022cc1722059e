//! What the repetitions of two sides say about one figure: how far apart, how surely, and whether by more than chance.

use super::{MetricComparison, Outcome, Over};
use crate::Metric;
use crate::combine::{by_ratio, compared, mean};
use model::quantity::Unit;
pub use stats::LEVEL;
use stats::t_quantile;

/// Fewer samples than this have no interval: two figures do not tell how far a third may lie.
pub const FEWEST: usize = 3;

/// An interval of a ratio that reaches further than this, or below its reciprocal, does not show that there is no difference.
pub(super) const NARROW: f64 = 1.5;

/// Quantiles come from buckets that are up to a thousandth wide: no interval is narrower, and a smaller difference is none.
pub(super) const RESOLUTION: f64 = 0.001;

impl MetricComparison {
    /// How far apart the samples of two sides lie, untested; `None` when a side has none.
    pub(super) fn of(metric: Metric, a_values: Vec<f64>, b_values: Vec<f64>) -> Option<Self> {
        let logs = by_ratio(&a_values, &b_values, metric.unit());
        let (x, y) = (compared(&a_values, logs), compared(&b_values, logs));
        let (mean_a, mean_b) = (mean(&x)?, mean(&y)?);
        let error = standard_error(&x, &y);
        let (a, b) = if logs { (mean_a.exp(), mean_b.exp()) } else { (mean_a, mean_b) };
        let mut figure = Self {
            metric: metric.to_string(),
            unit: metric.unit().word().to_owned(),
            a,
            b,
            b_own: b_values.clone(),
            a_values,
            b_values,
            ratio: if logs { Some((mean_b - mean_a).exp()) } else { (mean_a > 0.0).then(|| mean_b / mean_a) },
            ratio_ci95: None,
            difference: b - a,
            difference_ci95: None,
            interval_over: None,
            quantity: metric,
            by_ratio: logs,
            over: Over::Samples,
            error,
            incomplete: false,
            p: None,
            p_corrected: None,
            smallest_p: 1.0,
            outcome: Outcome::Untrusted,
            sentence: String::new(),
        };
        figure.widen_to(LEVEL);
        Some(figure)
    }

    /// Gives it the interval over its samples that leaves out `level` of all cases.
    pub(super) fn widen_to(&mut self, level: f64) {
        if let Some((error, df)) = self.error {
            let half = t_quantile(1.0 - level / 2.0, df) * error;
            self.interval(if self.quantity.is_bucketed() && self.by_ratio { half.max(RESOLUTION) } else { half });
        }
    }

    /// An interval where a side has a single run: from the repetitions `within` each run, and the standard deviation between
    /// runs of the same thing (with its degrees of freedom), where known.
    pub(super) fn widen(&mut self, within: &[Vec<f64>; 2], spread: Option<(f64, f64)>) {
        self.over = if spread.is_some() { Over::Siblings } else { Over::OneRun };
        let [x, y] = within;
        let of_repetitions = (!self.by_ratio || by_ratio(x, y, self.quantity.unit()))
            .then(|| standard_error(&compared(x, self.by_ratio), &compared(y, self.by_ratio)))
            .flatten();
        let of_runs = spread.map(|(stdev, df)| {
            let runs = [&self.a_values, &self.b_values].map(|values| 1.0 / values.len().max(1) as f64);
            (stdev * runs.iter().sum::<f64>().sqrt(), df)
        });
        let half = |error: Option<(f64, f64)>| error.map(|(error, df)| error * t_quantile(0.975, df.max(1.0)));
        let (a, b) = (half(of_repetitions), half(of_runs));
        if a.is_some() || b.is_some() {
            self.interval(a.unwrap_or(0.0).hypot(b.unwrap_or(0.0)).max(if self.by_ratio { RESOLUTION } else { 0.0 }));
        }
    }

    /// An interval of one repetition a side from its batches: how steady each was, no more. Whether it has one.
    pub(super) fn over_batches(&mut self, within: [[f64; 2]; 2]) -> bool {
        let can = self.by_ratio && within.iter().all(|[low, _]| *low > 0.0);
        if can {
            let [a, b] = within.map(|[low, high]| (high / low).ln() / 2.0);
            (self.over, self.error) = (Over::Batches, None);
            self.interval(a.hypot(b).max(RESOLUTION));
        }
        can
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

    pub(super) fn is_same(&self) -> bool {
        let mut all = self.a_values.iter().chain(&self.b_values);
        all.next().is_none_or(|first| all.all(|value| value.total_cmp(first).is_eq()))
    }
}

/// Standard error of the difference of two means (Welch's t) and Satterthwaite's degrees of freedom; 3 figures a side at least.
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
pub fn p_against(mean: f64, limit: f64, (error, df): (f64, f64)) -> f64 {
    let distance = (mean - limit).abs();
    if error > 0.0 { 2.0 * stats::t_tail(distance / error, df) } else { f64::from(u8::from(distance == 0.0)) }
}

/// The figure of one side alone against a limit: its 95 % interval, and its two-sided p; absent with fewer than 3 values.
pub fn own(values: &[f64], limit: f64, unit: Unit) -> Option<([f64; 2], f64)> {
    let logs = by_ratio(values, &[], unit);
    let (mean, half) = stats::interval_of(&compared(values, logs))?;
    let df = values.len() as f64 - 1.0;
    let error = (half / t_quantile(0.975, df), df);
    Some(match logs {
        true if limit <= 0.0 => ([(mean - half).exp(), (mean + half).exp()], 0.0),
        true => ([(mean - half).exp(), (mean + half).exp()], p_against(mean, limit.ln(), error)),
        false => ([mean - half, mean + half], p_against(mean, limit, error)),
    })
}

/// The smallest number of samples a side with which `tests` corrected comparisons can reach the level at all.
pub fn repetitions_needed(tests: usize) -> usize {
    stats::samples_needed(tests, LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_times_by_hand() {
        let of = |a: &[f64], b: &[f64]| MetricComparison::of("p50".parse().unwrap(), a.to_vec(), b.to_vec());
        let found = of(&[10.0, 10.0, 10.0], &[11.0, 11.0, 11.0]).unwrap();
        assert!(found.by_ratio && (found.ratio.unwrap() - 1.1).abs() < 1e-12 && (found.difference - 1.0).abs() < 1e-9);
        let [low, high] = found.ratio_ci95.unwrap();
        assert!(low < 1.1 && high > 1.1 && high / low < 1.0021, "as wide as a bucket: {low} {high}");
        assert_eq!(of(&[10.0, 11.0], &[12.0, 13.0]).unwrap().ratio_ci95, None);
        assert_eq!(of(&[], &[1.0]), None);
    }

    #[test]
    fn welch_by_hand() {
        // Means 2 and 5, variances 1 and 4: squared errors 1/3 and 4/3, so df = (5/3)² / ((1/9 + 16/9) / 2) = 50/17.
        let (error, df) = standard_error(&[1.0, 2.0, 3.0], &[3.0, 5.0, 7.0]).unwrap();
        assert!((error - (5.0_f64 / 3.0).sqrt()).abs() < 1e-9 && (df - 50.0 / 17.0).abs() < 1e-9, "{error} {df}");
    }

    #[test]
    fn shares_are_subtracted() {
        let samples = (vec![0.0, 0.0, 0.0], vec![0.01, 0.02, 0.03]);
        let found = MetricComparison::of("loss".parse().unwrap(), samples.0, samples.1).unwrap();
        assert!(!found.by_ratio && found.ratio.is_none() && (found.difference - 0.02).abs() < 1e-12);
        assert!(found.difference_ci95.unwrap()[0] < 0.0, "three figures that scatter so say little");
    }
}
