//! The lines of an interval log: which can be read, which belong to a tag, which are damaged.

use crate::units::plain;
use std::collections::BTreeSet;
use std::path::Path;
use store::hlog;

/// Starts later than this are times since 1970, not since the log's base.
const ABSOLUTE_S: f64 = 1e8;
/// Damaged lines that are named one by one.
const NAMED: usize = 3;

/// The tags that the interval logs of a run have, in the order of their names.
pub(crate) fn tags(run: &store::Run) -> BTreeSet<String> {
    let logs = run.results.iter().filter_map(|(step, _)| hlog::text(&run.path, step.index).ok().flatten());
    logs.flat_map(|(path, text)| Log::new(&path, &text).tags().map(plain).collect::<Vec<_>>()).collect()
}

/// The lines of a log that can be read.
pub(super) struct Log<'a> {
    lines: Vec<(u64, u64, hlog::Line<'a>)>,
    pub(super) damaged: Vec<(usize, String)>,
    /// What the largest values are multiplied by to become ns.
    pub(super) divisor: f64,
}

impl<'a> Log<'a> {
    pub(super) fn new(path: &'a Path, text: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut damaged = Vec::new();
        for line in hlog::lines(path, text) {
            match line {
                Ok(line) => lines.push(line),
                Err(store::StoreError::DamagedLine { line, why, .. }) => damaged.push((line, why)),
                Err(_) => {}
            }
        }
        let first = lines.iter().map(|line| line.start_s).reduce(f64::min).unwrap_or(0.0);
        let base = if first >= ABSOLUTE_S { first } else { 0.0 };
        let lines = lines
            .into_iter()
            .filter_map(|line| {
                let start = nanoseconds(line.start_s - base);
                if start.is_none() {
                    damaged.push((line.number, "the start is no time of a measurement".to_owned()));
                }
                Some((start?, nanoseconds(line.length_s).unwrap_or(0), line))
            })
            .collect();
        let header = text.lines().take_while(|line| line.starts_with('#'));
        let divisor = header
            .filter_map(|line| {
                line.strip_prefix("#[MaxValueDivisor:")?.trim_end().trim_end_matches(']').trim().parse().ok()
            })
            .next()
            .filter(|divisor: &f64| divisor.is_finite() && *divisor > 0.0)
            .unwrap_or(1e6);
        Self { lines, damaged, divisor }
    }

    /// The tags of the lines, and those that stand for several reflectors'.
    pub(super) fn tags(&self) -> impl Iterator<Item = &'a str> {
        let of_line = |(_, _, line): &(u64, u64, hlog::Line<'a>)| line.tag.unwrap_or("rtt");
        self.lines.iter().map(of_line).flat_map(|tag| [tag, tag.split_once('@').map_or(tag, |(bare, _)| bare)])
    }

    /// The lines of a tag in the order of time; those of all reflectors where the log has no line of the tag itself.
    pub(super) fn of_tag(&self, tag: &str) -> Vec<(u64, u64, hlog::Line<'a>)> {
        let own = |line: &hlog::Line<'_>| line.tag.unwrap_or("rtt") == tag;
        let of_any = |line: &hlog::Line<'_>| {
            line.tag.and_then(|of_line| of_line.split_once('@')).is_some_and(|(bare, _)| bare == tag)
        };
        let exact = self.lines.iter().any(|(_, _, line)| own(line));
        let mut lines: Vec<_> =
            self.lines.iter().filter(|(_, _, line)| if exact { own(line) } else { of_any(line) }).copied().collect();
        lines.sort_by_key(|(start, _, line)| (*start, line.number));
        lines
    }
}

/// Times of a measurement: up to ten years.
fn nanoseconds(seconds: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and ten years")]
    (0.0..3e8).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
}

/// Damaged lines, which are left out.
pub(super) struct Damage<'a> {
    pub(super) path: &'a Path,
    pub(super) lines: Vec<(usize, String)>,
}

impl Damage<'_> {
    pub(super) fn words(mut self) -> Vec<String> {
        self.lines.sort();
        self.lines.dedup();
        let rest = self.lines.len().saturating_sub(NAMED);
        let mut words: Vec<String> = self
            .lines
            .iter()
            .take(NAMED)
            .map(|(line, why)| {
                format!("{}: line {line} is damaged ({why}): it is left out of the picture", self.path.display())
            })
            .collect();
        if rest > 0 {
            words.push(format!("{}: {rest} more lines are damaged and left out", self.path.display()));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_no_measurement_are_refused() {
        assert_eq!(nanoseconds(0.3), Some(300_000_000));
        assert_eq!([-0.1, 1e300, f64::NAN].map(nanoseconds), [None; 3]);
    }
}
