//! Reading HdrHistogram interval logs (the format of the HdrHistogram tools, HistogramLogReader): `#` comments, a quoted
//! legend, and lines `[Tag=T,]start_s,length_s,max,histogram`, where the histogram is base64 of the compressed V2
//! encoding.

use crate::{StoreError, cell, folder};
use std::path::{Path, PathBuf};

/// Starts later than this are times since 1970, not since the log's base.
const ABSOLUTE_S: f64 = 1e8;

/// One line of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval<'a> {
    /// Line number, from 1.
    pub number: usize,
    /// `rtt`, `rtt_intended`, `lateness`, with `@host` where needed; `rtt` of lines without a tag.
    pub tag: &'a str,
    /// Start since the log's base time, or since its first interval where starts are times since 1970.
    pub start_ns: u64,
    /// Length; 0 where the line has none that a measurement can have.
    pub length_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// The histogram: base64 of the compressed V2 encoding, values in ns. It is not decoded.
    pub histogram: &'a str,
}

/// The lines of a log, not copied: an hour has 100,000.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log<'a> {
    /// Those that can be read.
    pub intervals: Vec<Interval<'a>>,
    /// Those that cannot: number and why.
    pub damaged: Vec<(usize, String)>,
}

impl<'a> Log<'a> {
    /// Reads the text of a log.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let mut log = Self::default();
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') || line.starts_with('"') {
                continue;
            }
            match fields(line) {
                Ok(fields) => lines.push((number, fields)),
                Err(why) => log.damaged.push((number, why.to_owned())),
            }
        }
        let first = lines.iter().map(|(_, (_, [start_s, ..], _))| *start_s).reduce(f64::min).unwrap_or(0.0);
        let base = if first >= ABSOLUTE_S { first } else { 0.0 };
        let divisor = divisor(text);
        for (number, (tag, [start_s, length_s, max], histogram)) in lines {
            let Some(start_ns) = nanoseconds(start_s - base) else {
                log.damaged.push((number, "the start is no time of a measurement".to_owned()));
                continue;
            };
            let length_ns = nanoseconds(length_s).unwrap_or(0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
            let max_ns = (max * divisor).round() as u64;
            log.intervals.push(Interval { number, tag, start_ns, length_ns, max_ns, histogram });
        }
        log
    }

    /// The tags of the lines, and those that stand for several reflectors'.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> {
        self.intervals.iter().map(|interval| interval.tag).flat_map(|tag| [tag, bare(tag)])
    }

    /// The lines of a tag in the order of time; those of all reflectors where the log has no line of the tag itself.
    #[must_use]
    pub fn of_tag(&self, tag: &str) -> Vec<Interval<'a>> {
        let exact = self.intervals.iter().any(|interval| interval.tag == tag);
        let fits = |interval: &&Interval<'_>| if exact { interval.tag == tag } else { bare(interval.tag) == tag };
        let mut found: Vec<Interval<'a>> = self.intervals.iter().filter(fits).copied().collect();
        found.sort_by_key(|interval| (interval.start_ns, interval.number));
        found
    }
}

/// A tag without the reflector's name.
fn bare(tag: &str) -> &str {
    tag.split_once('@').map_or(tag, |(bare, _)| bare)
}

/// What the largest values are multiplied by to become ns: the header says it, else they are ms.
fn divisor(text: &str) -> f64 {
    let header = text.lines().take_while(|line| line.starts_with('#'));
    let mut named = header.filter_map(|line| {
        line.strip_prefix("#[MaxValueDivisor:")?.trim_end().trim_end_matches(']').trim().parse::<f64>().ok()
    });
    named.next().filter(|divisor| divisor.is_finite() && *divisor > 0.0).unwrap_or(1e6)
}

/// Times of a measurement: up to ten years.
fn nanoseconds(seconds: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and ten years")]
    (0.0..3e8).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
}

/// The interval log of a cell and where it is; `None` where the cell has none. Bytes that are no text become signs that
/// no line can hold, so that the damaged line is found.
///
/// # Errors
/// [`StoreError::Read`].
pub fn text(run: &Path, index: u32) -> Result<Option<(PathBuf, String)>, StoreError> {
    let path = cell::path(run, index, ".hlog");
    let text =
        |bytes| String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(folder::read(&path)?.map(|bytes| (path, text(bytes))))
}

/// Tag, start and length in s with the largest value, and histogram of a line.
fn fields(line: &str) -> Result<(&str, [f64; 3], &str), &'static str> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => tagged.split_once(',').ok_or("a tag without figures")?,
        None => ("rtt", line),
    };
    let mut fields = rest.splitn(4, ',');
    let mut figure =
        |why| fields.next().and_then(|text| text.trim().parse::<f64>().ok()).filter(|n| n.is_finite()).ok_or(why);
    let figures =
        [figure("the start is no number")?, figure("the length is no number")?, figure("the maximum is no number")?];
    let histogram = fields.next().filter(|text| !text.is_empty()).ok_or("the histogram is missing")?;
    Ok((tag, figures, histogram))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tagged_and_untagged_lines() {
        let text = "#[Histogram log format version 1.3]\n#[StartTime: 1 (seconds since epoch)]\n\
                    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
                    Tag=lateness@b,0.000,1.000,61.952,HISTFAAA\n1.5,1.000,2,HISTFBBB\r\n";
        let log = Log::parse(text);
        let [first, second] = log.intervals.as_slice() else { panic!("{log:?}") };
        assert_eq!((first.tag, first.max_ns, second.tag), ("lateness@b", 61_952_000, "rtt"));
        assert_eq!((second.start_ns, second.length_ns, second.histogram), (1_500_000_000, 1_000_000_000, "HISTFBBB"));
        assert_eq!((log.of_tag("lateness"), log.of_tag("lateness@c")), (vec![*first], vec![]));
        assert_eq!(log.tags().collect::<Vec<_>>(), ["lateness@b", "lateness", "rtt", "rtt"]);
        let absolute = Log::parse("#[MaxValueDivisor: 1000.0]\n1700000001.5,1,2,H\n1700000000.5,1,2,H\n");
        assert_eq!(
            absolute.intervals[0],
            Interval { number: 2, start_ns: 1_000_000_000, max_ns: 2_000, histogram: "H", ..*second }
        );
    }

    #[test]
    fn names_the_damaged_line() {
        for bad in ["Tag=rtt", "x,1,1,H", "1,1,1", "1,1,1,", "1,NaN,1,H", "1,1", "-5,1,1,H"] {
            let text = format!("#\n{bad}\n");
            let log = Log::parse(&text);
            assert!(log.intervals.is_empty() && log.damaged.len() == 1 && log.damaged[0].0 == 2, "{bad}: {log:?}");
        }
        assert_eq!(nanoseconds(0.3), Some(300_000_000));
        assert_eq!([-0.1, 1e300, f64::NAN].map(nanoseconds), [None; 3]);
    }
}
