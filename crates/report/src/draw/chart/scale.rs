//! From figures to coordinates, and which of them get a tick.

/// The range of an axis, of times in ns or of counts, and whether it is logarithmic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Domain {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) log: bool,
}

/// Ranges wider than this are drawn on a logarithmic axis.
const LOG_ABOVE: f64 = 20.0;

/// Where the values of an axis lie, 0 at the low end and 1 at the high end, with their labels.
pub(crate) type Ticks = Vec<(f64, String)>;

impl Domain {
    /// The domain of some values: from 0 on a linear axis, or logarithmic where they span more than a factor of 20.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = extremes(values)?;
        if high / low > LOG_ABOVE {
            return Some(Self::log(low, high));
        }
        let step = nice_step(high / 5.0);
        Some(Self { low: 0.0, high: (high * 1.02 / step).ceil() * step, log: false })
    }

    /// A logarithmic domain that ends at a 1, 2 or 5 of a decade on both sides.
    pub(crate) fn log(low: f64, high: f64) -> Self {
        let below = logs(low / 10.0, high).into_iter().rev().find(|tick| *tick <= low * 1.0001).unwrap_or(low);
        let above = logs(low, high * 10.0).into_iter().find(|tick| *tick >= high * 0.9999).unwrap_or(high);
        Self { low: below, high: if above > below { above } else { below * 10.0 }, log: true }
    }

    /// A linear domain between two values, that need not begin at 0.
    pub(crate) fn between(low: f64, high: f64) -> Self {
        let step = nice_step((high - low).max(high.abs() * 1e-6) / 6.0);
        let (below, above) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low: below, high: if above > below { above } else { below + step }, log: false }
    }

    /// Where a value lies, 0 at the low end and 1 at the high end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Values that get a tick, ascending.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        self.ticks_with((self.high / self.low).log10() <= 3.2)
    }

    /// The same; on a logarithmic axis 1, 2 and 5 of each decade where `fine`, else its powers of ten.
    pub(crate) fn ticks_with(&self, fine: bool) -> Vec<f64> {
        if self.log {
            let all = logs(self.low, self.high);
            let coarse: Vec<f64> = all.iter().copied().filter(|tick| leading_digit(*tick) == 1).collect();
            return if !fine && coarse.len() > 1 { coarse } else { all };
        }
        let step = nice_step((self.high - self.low) / 5.0);
        let mut ticks = Vec::new();
        let mut index = (self.low / step).ceil();
        while index * step <= self.high * 1.0001 {
            ticks.push(index * step);
            index += 1.0;
        }
        ticks
    }

    pub(crate) fn labelled(&self, word: impl Fn(f64) -> String) -> Ticks {
        self.ticks().into_iter().map(|value| (self.at(value), word(value))).collect()
    }

    pub(crate) fn scale(&self) -> &'static str {
        if self.log { ", log scale" } else { "" }
    }
}

/// Smallest and largest finite value above 0.
fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}

/// The 1, 2 and 5 of each decade between two values.
fn logs(low: f64, high: f64) -> Vec<f64> {
    let mut ticks = Vec::new();
    let mut decade = 10f64.powf(low.log10().floor());
    while decade <= high * 1.0001 && ticks.len() < 100 {
        for digit in [1.0, 2.0, 5.0] {
            let tick = decade * digit;
            if tick >= low * 0.9999 && tick <= high * 1.0001 {
                ticks.push(tick);
            }
        }
        decade *= 10.0;
    }
    ticks
}

fn leading_digit(value: f64) -> u32 {
    let scaled = value / 10f64.powf((value * 1.0001).log10().floor());
    if scaled < 1.5 {
        1
    } else if scaled < 3.5 {
        2
    } else {
        5
    }
}

/// 1, 2 or 5 times a power of ten, at least as large as asked for.
fn nice_step(rough: f64) -> f64 {
    let rough = if rough > 0.0 && rough.is_finite() { rough } else { 1.0 };
    let decade = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * decade >= rough * 0.9999).unwrap_or(10.0);
    digit * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_ranges_are_linear_from_zero() {
        let domain = Domain::of([5_200.0, 11_800.0].into_iter()).unwrap();
        assert_eq!(domain, Domain { low: 0.0, high: 15_000.0, log: false });
        assert_eq!(domain.ticks(), [0.0, 5_000.0, 10_000.0, 15_000.0]);
        assert_eq!(domain.at(7_500.0), 0.5);
    }

    #[test]
    fn wide_ranges_are_logarithmic_and_contain_their_values() {
        let domain = Domain::of([312.0, 4_100_000.0].into_iter()).unwrap();
        assert!(domain.log && domain.low <= 312.0 && domain.high >= 4_100_000.0, "{domain:?}");
        let ticks: Vec<String> = domain.ticks().iter().map(|tick| format!("{tick:.0}")).collect();
        assert_eq!(ticks, ["1000", "10000", "100000", "1000000"]);
        assert!(domain.at(312.0) >= 0.0 && domain.at(4_100_000.0) <= 1.0);
    }

    #[test]
    fn narrow_ranges_need_not_begin_at_zero() {
        let domain = Domain::between(10_200.0, 12_900.0);
        assert_eq!(domain, Domain { low: 10_000.0, high: 13_000.0, log: false });
        assert!(Domain::between(5.0, 5.0).high > 5.0);
    }

    #[test]
    fn nothing_has_no_domain() {
        assert_eq!(Domain::of([0.0, f64::NAN].into_iter()), None);
    }
}
