//! Lists of numbers with ranges, as sizes and rates are given.

use crate::ModelError;

/// What one kind of list allows.
pub(crate) struct Ranges {
    /// What it is ("size list").
    pub(crate) what: &'static str,
    /// What it lists ("sizes"), and how many at most.
    pub(crate) items: (&'static str, usize),
    /// Units that a number may end in, with what they stand for.
    pub(crate) units: &'static [(char, f64)],
    /// Whether numbers may have a fraction; a range then needs a step or factor.
    pub(crate) fractions: bool,
    /// What to write instead of what cannot be read, and instead of a range that does not say how it goes up.
    pub(crate) examples: [&'static str; 2],
}

impl Ranges {
    /// The numbers of a comma list of `N`, `A-B` (in steps of 1), `A-B+S` (in steps of S) and `A-BxF` (each F times the last).
    pub(crate) fn parse(&self, text: &str) -> Result<Vec<f64>, ModelError> {
        let bad = |why: &str| ModelError::grammar(self.what, text, why);
        let number = |digits: &str| {
            let with_unit = self.units.iter().find_map(|(unit, factor)| Some((digits.strip_suffix(*unit)?, *factor)));
            let (digits, factor) = with_unit.unwrap_or((digits, 1.0));
            let is_plain = digits.chars().all(|c| c.is_ascii_digit() || self.fractions && c == '.');
            let value = digits.parse::<f64>().ok().filter(|_| is_plain);
            value.map(|value| value * factor).ok_or_else(|| bad(self.examples[0]))
        };
        let mut all = Vec::new();
        for part in text.split(',').map(str::trim) {
            let Some((first, rest)) = part.split_once('-') else {
                all.push(number(part)?);
                continue;
            };
            let first = number(first)?;
            let (last, step, factor) = if let Some((last, step)) = rest.split_once('+') {
                (number(last)?, number(step)?, 1.0)
            } else if let Some((last, factor)) = rest.split_once('x') {
                (number(last)?, 0.0, number(factor)?)
            } else if self.fractions {
                return Err(bad(self.examples[1]));
            } else {
                (number(rest)?, 1.0, 1.0)
            };
            if rest.contains('x') && (factor <= 1.0 || first <= 0.0) {
                return Err(bad("a factor of 1 or less, or from 0, never ends"));
            } else if step <= 0.0 && factor <= 1.0 {
                return Err(bad("a step of 0 never ends"));
            } else if last < first {
                return Err(bad("a range goes upwards"));
            }
            // A step like 0.1 has no exact form: what misses the end by a rounding is still the end.
            let end = last * (1.0 + 1e-9);
            let of_range = (0_u32..).map(|taken| first * factor.powf(taken.into()) + f64::from(taken) * step);
            for value in of_range.take_while(|value| *value <= end) {
                all.push(value.min(last));
                let (items, most) = self.items;
                if all.len() > most {
                    return Err(bad(&format!("it names more than {most} {items}")));
                }
            }
        }
        Ok(all)
    }
}
