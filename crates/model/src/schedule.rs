//! The texts that a schedule of `pace` is given as: lists of rates, shapes, and files of times.

use crate::ranges::Ranges;
use crate::{ModelError, Shape};
use std::fmt;
use std::str::FromStr;

/// The most rates one list may name.
pub const MAX_RATES: usize = 1000;

/// Rates in messages a second, in the order asked for.
///
/// Grammar, as that of [`crate::SizeList`]: a comma list of `N`, `A-B+S` (in steps of S) and `A-BxF` (each F times the
/// last); a number may have a fraction, and end in `k` (1,000) or `M` (1,000,000).
#[derive(Debug, Clone, PartialEq)]
pub struct RateList(Vec<f64>);

impl RateList {
    /// The rates in order.
    pub fn rates(&self) -> &[f64] {
        &self.0
    }
}

/// A rate as people write it: whole numbers without a fraction.
pub fn rate_word(rate_pps: f64) -> String {
    if rate_pps.fract() == 0.0 { format!("{rate_pps:.0}") } else { rate_pps.to_string() }
}

/// A rate as documents and plans hold it: a whole number where it is one.
pub fn rate_value(rate_pps: f64) -> serde_json::Value {
    rate_word(rate_pps).parse::<u64>().map_or_else(|_| serde_json::Value::from(rate_pps), serde_json::Value::from)
}

const RANGES: Ranges = Ranges {
    what: "rate list",
    items: ("rates", MAX_RATES),
    units: &[('k', 1e3), ('K', 1e3), ('M', 1e6)],
    fractions: true,
    examples: [
        "use rates such as 10000, 10k,20k, 10k-50k+10k or 1k-64kx2",
        "say how a range goes up: 10k-50k+10k or 1k-64kx2",
    ],
};

impl FromStr for RateList {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        RANGES.parse(text).map(Self)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::Poisson => f.write_str("poisson"),
            Self::Burst { count } => write!(f, "burst:{count}"),
            Self::Times { offsets_ns } => write!(f, "{} given times", offsets_ns.len()),
        }
    }
}

impl FromStr for Shape {
    type Err = ModelError;

    /// `even`, `poisson` or `burst:N`; times come from a file ([`times`]).
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match (text, text.strip_prefix("burst:")) {
            ("even", _) => Ok(Self::Even),
            ("poisson", _) => Ok(Self::Poisson),
            (_, Some(count)) => count
                .parse()
                .map(|count| Self::Burst { count })
                .map_err(|_| ModelError::grammar("shape", text, "say how many messages a burst has, as in burst:10")),
            _ => Err(crate::words::unknown("shape", text, &["even", "poisson", "burst:N"])),
        }
    }
}

/// Reads a schedule: one time a line since the start, in seconds or with `ns`, `us`, `ms` or `s`, never going back.
/// Empty lines, and all after a `#`, do not count. Errors: [`ModelError::Document`] that names `what` and the line.
pub fn times(what: &str, text: &str) -> Result<Vec<u64>, ModelError> {
    let bad = |line: usize, why: &str| ModelError::Document {
        what: format!("schedule {what}"),
        why: if line == 0 { why.to_owned() } else { format!("line {line}: {why}") },
    };
    let mut times: Vec<u64> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let time = line.split('#').next().unwrap_or_default().trim();
        if time.is_empty() {
            continue;
        }
        let ns = nanoseconds(time).ok_or_else(|| {
            let shown = crate::text::excerpt(time, 40);
            bad(number, &format!("'{shown}' is no time: use seconds such as 0.25, or 250us, 250ms, 250000ns"))
        })?;
        if let Some(&before) = times.last().filter(|&&before| ns < before) {
            return Err(bad(number, &format!("{ns} ns comes after {before} ns: times never go back")));
        }
        times.push(ns);
    }
    match times.last() {
        None => Err(bad(0, "it holds no time: give one a line")),
        Some(0) => Err(bad(0, "its last time is 0, so it has no length: give a later one")),
        Some(_) => Ok(times),
    }
}

/// The mean rate of a schedule that [`times`] read, repeated with its last time as the period.
pub fn rate_of(times: &[u64]) -> f64 {
    let period_ns = times.last().copied().unwrap_or(0).max(1);
    times.len() as f64 * 1e9 / period_ns as f64
}

/// A time in whole ns; digits below are rounded.
fn nanoseconds(text: &str) -> Option<u64> {
    const UNITS: [(&str, u32); 5] = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];
    let (number, digits) =
        UNITS.iter().find_map(|(unit, digits)| Some((text.strip_suffix(unit)?, *digits))).unwrap_or((text, 9));
    let number = number.trim_end();
    if number.contains(['e', 'E']) {
        let ns = number.parse::<f64>().ok()? * f64::from(10_u32.pow(digits));
        let whole = ns.is_finite() && (0.0..1.8e19).contains(&ns);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        return whole.then_some(ns.round() as u64);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let places = digits as usize;
    let kept = fraction.get(..places.min(fraction.len()))?;
    let padded = format!("{whole}{kept:0<places$}");
    let padded = if padded.is_empty() { "0" } else { &padded };
    let up = fraction.as_bytes().get(places).is_some_and(|digit| *digit >= b'5');
    padded.parse::<u64>().ok()?.checked_add(u64::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PaceSpec, Stamps};

    fn list(text: &str) -> Vec<f64> {
        text.parse::<RateList>().unwrap().0
    }

    #[test]
    fn the_grammar_of_rates() {
        assert_eq!(list("10000"), [10_000.0]);
        assert_eq!(list("10k, 0.5M,2.5"), [10_000.0, 500_000.0, 2.5]);
        assert_eq!(list("10k-40k+10k"), [10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        assert_eq!(list("1k-9kx2"), [1_000.0, 2_000.0, 4_000.0, 8_000.0]);
        assert_eq!(list("0.1-0.5+0.1").len(), 5, "roundings do not lose the end");
        for text in
            ["", "a", "10k-20k", "20k-10k+1k", "1-5+0", "1-8x1", "0-8x2", "1-100000+1", "1e5", "inf", "-5", "5G"]
        {
            assert!(text.parse::<RateList>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_that_no_schedule_can_keep() {
        let check = |text: &str| PaceSpec { rates_pps: list(text), ..PaceSpec::default() }.check();
        for (text, shown) in [("0", "rate 0"), ("200M", "rate 200000000")] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(shown) && error.contains("100,000,000"), "{error}");
        }
        check("100M").unwrap();
    }

    #[test]
    fn shapes_and_stamps() {
        for text in ["even", "poisson", "burst:10"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        for text in ["burst", "burst:", "burst:x", "square"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
        assert_eq!("kernel".parse::<Stamps>(), Ok(Stamps::Kernel));
        assert!("nic".parse::<Stamps>().is_err());
    }

    #[test]
    fn a_schedule_in_every_unit() {
        let text = "# a burst\n0\n0.000000001\n1us\n1.5 µs # later\n\n0.25ms\n.5\n7e-1\n1s\n1.0000000005\n";
        assert_eq!(
            times("f", text).unwrap(),
            [0, 1, 1_000, 1_500, 250_000, 500_000_000, 700_000_000, 1_000_000_000, 1_000_000_001]
        );
        assert!((rate_of(&[0, 500_000_000]) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_bad_schedule_is_told_with_its_line() {
        for (text, words) in [
            ("0\n1\nx\n", &["line 3", "'x'"][..]),
            ("0\n# note\n2ms\n1ms\n", &["line 4", "1000000 ns", "2000000 ns", "never go back"]),
            ("0 1\n", &["line 1"]),
            ("-1\n", &["line 1"]),
            ("1e400\n", &["line 1"]),
            ("99999999999999999999\n", &["line 1"]),
            ("", &["no time"]),
            ("# only words\n", &["no time"]),
            ("0\n0\n", &["no length"]),
            ("\u{1b}[31m\n", &["line 1"]),
        ] {
            let error = times("s.txt", text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
            assert!(error.contains("s.txt") && !error.contains(['\n', '\u{1b}']), "{error}");
        }
    }
}
