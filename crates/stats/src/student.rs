//! Student's t, intervals of a handful of figures, and the coefficient of variation.

/// ln Γ(x) for x > 0 by Stirling's series, after raising x to where six terms give full precision.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut z = x;
    while z < 12.0 {
        shift -= z.ln();
        z += 1.0;
    }
    let inverse = 1.0 / (z * z);
    let series = (1.0 / 12.0
        - inverse
            * (1.0 / 360.0
                - inverse
                    * (1.0 / 1260.0
                        - inverse * (1.0 / 1680.0 - inverse * (1.0 / 1188.0 - inverse * 691.0 / 360_360.0)))))
        / z;
    shift + (z - 0.5) * z.ln() - z + 0.5 * std::f64::consts::TAU.ln() + series
}

/// The regularised incomplete beta function I_x(a, b), by the faster form of its continued fraction (modified Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let guard = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = denominator;
    for step in 1..300_u32 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            denominator = 1.0 / guard(1.0 + term * denominator);
            numerator = guard(1.0 + term / numerator);
            change = denominator * numerator;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// The chance that Student's t with `df` degrees of freedom is below `t`.
fn t_below(t: f64, df: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(df / (df + t * t), df / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile of Student's t with `df` (1 and more) degrees of freedom. Accurate to 1e-9 relative for p from 0.0001 to
/// 0.9999. NaN for a p or df outside (0, 1) and [1, ∞).
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if !(p > 0.0 && p < 1.0 && df >= 1.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let mut high = 2.0;
    while t_below(high, df) < p && high < 1e12 {
        high *= 2.0;
    }
    let mut low = if high > 2.0 { high / 2.0 } else { 0.0 };
    // Newton's steps by the density, kept within the bracket.
    let scale = (ln_gamma(f64::midpoint(df, 1.0)) - ln_gamma(df / 2.0)).exp() / (df * std::f64::consts::PI).sqrt();
    let mut t = f64::midpoint(low, high);
    for _ in 0..100 {
        let off = t_below(t, df) - p;
        if off < 0.0 {
            low = t;
        } else {
            high = t;
        }
        let density = scale * (-f64::midpoint(df, 1.0) * (t * t / df).ln_1p()).exp();
        let step = t - off / density;
        let next = if step > low && step < high { step } else { f64::midpoint(low, high) };
        let moved = (next - t).abs();
        t = next;
        if moved <= 1e-12 * t {
            break;
        }
    }
    t
}

/// The chance that Student's t with `df` degrees of freedom (1 and more) is above `t`.
pub fn t_tail(t: f64, df: f64) -> f64 {
    t_below(-t, df)
}

fn mean_and_stdev(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((mean, (squares / (count - 1.0)).sqrt()))
}

/// Mean and half-width of its 95 % interval (Student's t) of independent figures; `None` with fewer than 3.
pub fn interval_of(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 3 {
        return None;
    }
    let (mean, stdev) = mean_and_stdev(values)?;
    let count = values.len() as f64;
    Some((mean, t_quantile(0.975, count - 1.0) * stdev / count.sqrt()))
}

/// Coefficient of variation: sample standard deviation over mean. `None` with fewer than 2 values or a mean of 0.
pub fn cv(values: &[f64]) -> Option<f64> {
    let (mean, stdev) = mean_and_stdev(values)?;
    (mean != 0.0).then(|| stdev / mean.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_table() {
        // Two-sided 95 %, two-sided 99 % and one-sided 99.95 % columns of the usual table.
        let table = [
            (1.0, 12.7062, 63.6567, 636.619),
            (2.0, 4.30265, 9.92484, 31.5991),
            (3.0, 3.18245, 5.84091, 12.9240),
            (5.0, 2.57058, 4.03214, 6.86883),
            (9.0, 2.26216, 3.24984, 4.78091),
            (10.0, 2.22814, 3.16927, 4.58689),
            (30.0, 2.04227, 2.74999, 3.64596),
            (31.0, 2.03951, 2.74404, 3.63346),
            (63.0, 1.99834, 2.65615, 3.45177),
            (120.0, 1.97993, 2.61742, 3.37345),
            (1e6, 1.95997, 2.57583, 3.29054),
        ];
        for (df, p975, p995, p9995) in table {
            for (p, expected) in [(0.975, p975), (0.995, p995), (0.9995, p9995)] {
                let found = t_quantile(p, df);
                assert!((found / expected - 1.0).abs() < 5e-6, "t({p}, {df}) = {found}, table {expected}");
                assert!((t_quantile(1.0 - p, df) + found).abs() < 1e-6 * found);
            }
        }
        assert!(t_quantile(0.5, 7.0).abs() < 1e-9);
        assert!(t_quantile(0.0, 7.0).is_nan() && t_quantile(0.9, 0.5).is_nan());
    }

    #[test]
    fn gamma_of_integers_and_halves() {
        assert!((ln_gamma(5.0) - 24.0_f64.ln()).abs() < 1e-13);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-13);
    }

    #[test]
    fn intervals_and_cv() {
        let (mean, half) = interval_of(&[10.0, 12.0, 14.0]).unwrap();
        assert!((mean - 12.0).abs() < 1e-12);
        assert!((half - 4.302_652_7 * 2.0 / 3.0_f64.sqrt()).abs() < 1e-5);
        assert_eq!(interval_of(&[1.0, 2.0]), None);
        assert!((cv(&[10.0, 12.0, 14.0]).unwrap() - 2.0 / 12.0).abs() < 1e-12);
        assert_eq!(cv(&[0.0, 0.0]), None);
    }
}
