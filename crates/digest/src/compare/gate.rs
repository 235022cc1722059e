//! Gates: what a comparison must not show, for use in CI. `p99 > +10%`, `loss > 0.1%`, `p99.9 >= 200us @ load=build`. A gate
//! says what is *bad*. A signed number is a change from the first side, a bare one the second side's own figure; a bare
//! percentage of anything but a share is a change too.

use super::CompareError;
use crate::{Metric, UnknownMetric};
use model::quantity::Unit;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// How a figure is held against a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    More,
    Less,
    AtLeast,
    AtMost,
}

impl Relation {
    const ALL: [(&'static str, Self); 4] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::More), ("<", Self::Less)];

    /// Whether a value is so beside a limit.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        // Limits are written in decimals: what differs only in the last bits is the same.
        let same = (value - limit).abs() <= limit.abs().max(value.abs()) * 1e-12;
        match (self, value.total_cmp(&limit)) {
            (Self::AtLeast | Self::AtMost, _) if same => true,
            (_, _) if same => false,
            (Self::More | Self::AtLeast, order) => order == Ordering::Greater,
            (Self::Less | Self::AtMost, order) => order == Ordering::Less,
        }
    }

    /// Whether large figures break it.
    pub fn upwards(self) -> bool {
        matches!(self, Self::More | Self::AtLeast)
    }

    fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, known)| *known == self).map_or(">", |(word, _)| word)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// The change from the first side, as a share of it.
    Change(f64),
    /// The difference from the first side: ns, shares or a second.
    Difference(f64),
    /// The second side's own figure.
    Own(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub metric: Metric,
    /// How the figure lies beside the limit where the gate is broken.
    pub relation: Relation,
    pub limit: Limit,
    /// Only cells with these values of these factors.
    pub only: Vec<(String, String)>,
    text: String,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Gate {
    type Err = CompareError;

    fn from_str(text: &str) -> Result<Self, CompareError> {
        let wrong = |why: String| CompareError::Gate { gate: text.trim().to_owned(), why };
        let mut parts = text.split('@');
        let condition = parts.next().unwrap_or_default().trim();
        let only = parts
            .map(|part| match part.split_once('=') {
                Some((factor, value)) if !factor.trim().is_empty() && !value.trim().is_empty() => {
                    Ok((factor.trim().to_owned(), value.trim().to_owned()))
                }
                _ => Err(wrong("after @ stands FACTOR=VALUE, such as @ load=build".to_owned())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (at, (sign, relation)) = Relation::ALL
            .into_iter()
            .filter_map(|pair| Some((condition.find(pair.0)?, pair)))
            .min_by_key(|(at, (sign, _))| (*at, std::cmp::Reverse(sign.len())))
            .ok_or_else(|| {
                wrong("it has none of >, <, >= and <=: write METRIC > LIMIT, such as 'p99 > +10%'".to_owned())
            })?;
        let (name, rest) = condition.split_at(at);
        let metric: Metric = name.trim().parse().map_err(|error: UnknownMetric| wrong(error.to_string()))?;
        let limit = limit(metric, rest.get(sign.len()..).unwrap_or_default().trim()).map_err(wrong)?;
        let mut shown = format!("{metric} {} {}", relation.word(), rest.get(sign.len()..).unwrap_or_default().trim());
        for (factor, value) in &only {
            shown.push_str(&format!(" @ {factor}={value}"));
        }
        Ok(Self { metric, relation, limit, only, text: shown })
    }
}

/// Units by what they multiply a number with.
fn units(unit: Unit) -> &'static [(&'static str, f64)] {
    match unit {
        Unit::Ns => &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9)],
        Unit::Share => &[("%", 0.01), ("ppm", 1e-6)],
        Unit::PerSecond => &[("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6), ("", 1.0), ("k", 1e3), ("M", 1e6)],
        Unit::PerMillion => &[("per million", 1.0), ("", 1.0)],
        Unit::Us => &[("us", 1.0), ("µs", 1.0), ("μs", 1.0), ("ms", 1e3)],
        Unit::Count | Unit::Bytes | Unit::Number | Unit::Percent => &[("", 1.0), ("k", 1e3), ("M", 1e6)],
        Unit::Bits => &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)],
    }
}

fn limit(metric: Metric, text: &str) -> Result<Limit, String> {
    let unsigned = text.strip_prefix(['+', '-', '−']);
    let (signed, body) = (unsigned.is_some(), unsigned.unwrap_or(text));
    let negative = signed && !text.starts_with('+');
    let digits = body.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(body.len());
    let (number, unit) = body.split_at(digits);
    let known = units(metric.unit());
    let accepted = || {
        let words: Vec<&str> =
            known.iter().map(|(word, _)| *word).filter(|word| !word.is_empty() && *word != "%").collect();
        format!("a limit is a percentage such as +10%, or a number with {}", words.join(", "))
    };
    let number: f64 = number.parse().map_err(|_| accepted())?;
    let number = if negative { -number } else { number };
    let unit = unit.trim();
    if unit == "%" && metric.unit() != Unit::Share {
        return Ok(Limit::Change(number / 100.0));
    }
    let (_, by) = known.iter().find(|(word, _)| *word == unit).ok_or_else(accepted)?;
    Ok(if signed { Limit::Difference(number * by) } else { Limit::Own(number * by) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(text: &str) -> Gate {
        text.parse().unwrap()
    }

    #[test]
    fn the_grammar() {
        for (text, limit) in [
            ("p99>10 %", Limit::Change(0.1)),
            ("p99 > 50us", Limit::Own(50_000.0)),
            ("p99 >= +1.5 µs", Limit::Difference(1_500.0)),
            ("loss > 0.1%", Limit::Own(0.001)),
            ("loss > +0.1%", Limit::Difference(0.001)),
            ("transactions < -5%", Limit::Change(-0.05)),
            ("tps < 20k/s", Limit::Own(20_000.0)),
            ("bits<900Mbit/s", Limit::Own(9e8)),
            ("repaired > 0.1%", Limit::Own(0.001)),
            ("held > +50%", Limit::Difference(0.5)),
            ("naks > +10%", Limit::Change(0.1)),
            ("given-up > 0", Limit::Own(0.0)),
            ("naks > 500 per million", Limit::Own(500.0)),
            ("repaired.p50 > 1ms", Limit::Own(1e6)),
            ("up.retransmits > 10", Limit::Own(10.0)),
            ("initiator.demand > +5%", Limit::Change(0.05)),
            ("reflector.demand > 2us", Limit::Own(2.0)),
            ("down.rfc3550-jitter > 1ms", Limit::Own(1e6)),
            ("reorder-depth > 3", Limit::Own(3.0)),
        ] {
            assert_eq!(gate(text).limit, limit, "{text}");
        }
        assert_eq!(
            (gate("p99 > +10%").metric, gate("p99.9 <= 1ms").relation),
            ("p99".parse().unwrap(), Relation::AtMost)
        );
        let filtered = gate("intended.p99 > +10% @ load=build @ size = 32");
        assert_eq!(filtered.only, [("load".to_owned(), "build".to_owned()), ("size".to_owned(), "32".to_owned())]);
        assert_eq!(filtered.to_string(), "intended.p99 > +10% @ load=build @ size=32");
    }

    #[test]
    fn what_is_not_understood_is_said_in_one_line() {
        for (wrong, word) in [
            ("", "none of >"),
            ("p99", "none of >"),
            ("p98 > 1us", "p99.9"),
            ("p99 > ", "+10%"),
            ("p99 > 10", "us"),
            ("p99 > x%", "+10%"),
            ("p99 > 1..2%", "+10%"),
            ("p99 > 10 parsecs", "ms"),
            ("loss > 5us", "ppm"),
            ("p99 > +10% @ load", "FACTOR=VALUE"),
            ("> 10%", "p99.9"),
            ("p99 => 10%", "p99.9"),
            ("p99 > > 10%", "+10%"),
            ("p99 > --5%", "+10%"),
        ] {
            match wrong.parse::<Gate>() {
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(word) && !text.contains('\n'), "{wrong}: {text}");
                }
                Ok(gate) => panic!("{wrong} was taken for {gate:?}"),
            }
        }
    }

    #[test]
    fn limits_hold_at_their_edge() {
        assert!(Relation::AtLeast.holds(0.1 + 0.2, 0.3) && !Relation::More.holds(0.1 + 0.2, 0.3));
        assert!(
            Relation::More.holds(0.31, 0.3) && Relation::Less.holds(-0.31, -0.3) && Relation::AtMost.holds(0.3, 0.3)
        );
    }
}
