//! The lines of a file, without what terminals make of them, and the numbers in them.

use std::borrow::Cow;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) why: String,
}

impl Problem {
    pub(crate) fn new(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Line<'a> {
    /// From 1.
    pub(crate) number: usize,
    /// Without blanks around it and without escape sequences.
    pub(crate) text: Cow<'a, str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    pub(crate) whole: &'a str,
    pub(crate) all: Vec<Line<'a>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Problem> {
        let whole = std::str::from_utf8(bytes).map_err(|error| {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            Problem::new(line, "this is no text: name what the tool printed")
        })?;
        let all = (1..).zip(whole.lines()).map(|(number, text)| Line { number, text: without_escapes(text) });
        Ok(Self { whole, all: all.filter(|line| !line.text.is_empty()).collect() })
    }

    /// A problem of the file as a whole: it is reported for its last line.
    pub(crate) fn lacks(&self, why: impl Into<String>) -> Problem {
        Problem::new(self.all.last().map_or(1, |line| line.number), why)
    }
}

/// Without blanks at both ends and without ECMA-48 control sequences (colours, cursor moves).
fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text.trim());
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            out.push(letter);
        } else if letters.next_if_eq(&'[').is_some() {
            // The sequence ends with a letter, which belongs to it.
            while letters.next().is_some_and(|inside| !('@'..='~').contains(&inside)) {}
        }
    }
    Cow::Owned(out.trim().to_owned())
}

impl Line<'_> {
    pub(crate) fn problem(&self, why: impl Into<String>) -> Problem {
        Problem::new(self.number, why)
    }

    pub(crate) fn number<T: FromStr>(&self, word: &str, what: &str) -> Result<T, Problem> {
        word.parse().map_err(|_| self.problem(format!("{what} '{}' is no number of its kind", shortened(word))))
    }

    /// A number with a fraction that is one: "nan" and "inf" are none.
    pub(crate) fn finite(&self, word: &str, what: &str) -> Result<f64, Problem> {
        let number: f64 = self.number(word, what)?;
        if number.is_finite() {
            Ok(number)
        } else {
            Err(self.problem(format!("{what} '{}' is no number", shortened(word))))
        }
    }

    pub(crate) fn percent(&self, word: &str) -> Result<f64, Problem> {
        let percent = self.finite(word, "percentile")?;
        let fits = (0.0..=100.0).contains(&percent);
        if fits {
            Ok(percent)
        } else {
            Err(self.problem(format!("percentile {} is not from 0 to 100", shortened(word))))
        }
    }

    /// A time in ns from `00:00:10`.
    pub(crate) fn clock_ns(&self, clock: &str, what: &str) -> Result<u64, Problem> {
        let mut seconds = 0_u64;
        for part in clock.split(':') {
            seconds = seconds.saturating_mul(60).saturating_add(self.number(part, what)?);
        }
        Ok(seconds.saturating_mul(1_000_000_000))
    }

    /// A time in ns from one with a fraction, in units of `unit_ns`.
    pub(crate) fn time_ns(&self, word: &str, unit_ns: f64, what: &str) -> Result<u64, Problem> {
        let ns = self.number::<f64>(word, what)? * unit_ns;
        if !(0.0..MOST_NS).contains(&ns) {
            return Err(self.problem(format!("{what} {} is no time between 0 and 100 days", shortened(word))));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(ns.round() as u64)
    }

    pub(crate) fn whole_ns(&self, word: &str, unit_ns: u64, what: &str) -> Result<u64, Problem> {
        let ns = self.number::<u64>(word, what)?.checked_mul(unit_ns).filter(|ns| (*ns as f64) < MOST_NS);
        ns.ok_or_else(|| self.problem(format!("{what} {} is no time between 0 and 100 days", shortened(word))))
    }

    /// The word behind a label, which may stand apart from it: `C: 10000`, `P:80`.
    pub(crate) fn behind(&self, label: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(label)?;
        rest.split_ascii_whitespace().next()
    }
}

/// 100 days; counts of such times stay within 64 bits.
const MOST_NS: f64 = 100.0 * 86_400e9;

pub(crate) fn shortened(word: &str) -> String {
    model::text::excerpt(word, 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_see_is_left_out() {
        let lines = Lines::new(b"\x1b[2J\x1b[31msockperf:\x1b[0m 5 \x1b\n\n  b\r\n").unwrap();
        let all: Vec<(usize, &str)> = lines.all.iter().map(|line| (line.number, &*line.text)).collect();
        assert_eq!(all, [(1, "sockperf: 5"), (3, "b")]);
        assert_eq!(Lines::new(b"a\nb\xff").unwrap_err().line, 2);
    }

    #[test]
    fn numbers_have_a_place() {
        let lines = Lines::new(b"\nT: 0 C: 12 P:80").unwrap();
        let line = lines.all.first().unwrap();
        assert_eq!((line.behind("C:"), line.behind("P:"), line.behind("Q:")), (Some("12"), Some("80"), None));
        assert_eq!(line.time_ns("1.5", 1e3, "max"), Ok(1500));
        for word in ["-1", "nan", "1e30", "x"] {
            assert_eq!(line.time_ns(word, 1e3, "max").unwrap_err().line, 2, "{word}");
        }
        assert!(line.whole_ns("18446744073709551615", 1000, "max").is_err());
    }
}
