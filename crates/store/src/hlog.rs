//! Reading HdrHistogram interval logs (the format of the HdrHistogram tools, HistogramLogReader): `#` comments, a quoted
//! legend, and lines `[Tag=T,]start_s,length_s,max,histogram`, where the histogram is base64 of the compressed V2
//! encoding.

use crate::{StoreError, cell};
use std::path::{Path, PathBuf};

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// `rtt`, `rtt_intended`, `lateness`, with `@host` where needed; absent on untagged lines.
    pub tag: Option<String>,
    /// Start in seconds, relative to the log's base time or absolute.
    pub start_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Largest value in the unit of the log's writer.
    pub max: f64,
    /// The histogram: base64 of the compressed V2 encoding.
    pub histogram: String,
}

impl Interval {
    /// The histogram, decoded; values in the unit of the log's writer (ns here).
    ///
    /// # Errors
    /// [`stats::StatsError`] for a text that is no histogram, or one too large to be of a measurement.
    pub fn decode(&self) -> Result<stats::Histogram, stats::StatsError> {
        stats::Histogram::from_base64_v2(&self.histogram)
    }
}

/// One line of a log as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line<'a> {
    /// Line number, from 1.
    pub number: usize,
    /// As [`Interval::tag`].
    pub tag: Option<&'a str>,
    /// As [`Interval::start_s`].
    pub start_s: f64,
    /// As [`Interval::length_s`].
    pub length_s: f64,
    /// As [`Interval::max`].
    pub max: f64,
    /// As [`Interval::histogram`].
    pub histogram: &'a str,
}

/// The interval log of a cell and where it is; `None` where the cell has none. Bytes that are no text become signs that
/// no line can hold, so that the damaged line is found.
///
/// # Errors
/// [`StoreError::Read`].
pub fn text(run: &Path, index: u32) -> Result<Option<(PathBuf, String)>, StoreError> {
    let path = cell::path(run, index, ".hlog");
    match std::fs::read(&path) {
        Ok(bytes) => {
            let text =
                String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            Ok(Some((path, text)))
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(StoreError::reading(&path, cause)),
    }
}

/// The lines of a log, one by one, without copying them: an hour has 100,000. `path` is only named in errors, which are
/// [`StoreError::DamagedLine`]; lines after a damaged one follow. The histograms are not decoded.
pub fn lines<'a>(path: &'a Path, text: &'a str) -> impl Iterator<Item = Result<Line<'a>, StoreError>> + 'a {
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') || line.starts_with('"') {
            return None;
        }
        let number = number + 1;
        Some(one(number, line).map_err(|why| StoreError::DamagedLine {
            path: path.to_owned(),
            line: number,
            why: why.to_owned(),
        }))
    })
}

/// Reads the text of a log. `path` is only named in errors. The histograms are not decoded.
///
/// # Errors
/// [`StoreError::DamagedLine`].
pub fn read(path: &Path, text: &str) -> Result<Vec<Interval>, StoreError> {
    lines(path, text)
        .map(|line| {
            line.map(|line| Interval {
                tag: line.tag.map(str::to_owned),
                start_s: line.start_s,
                length_s: line.length_s,
                max: line.max,
                histogram: line.histogram.to_owned(),
            })
        })
        .collect()
}

fn one(number: usize, line: &str) -> Result<Line<'_>, &'static str> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => {
            let (tag, rest) = tagged.split_once(',').ok_or("a tag without figures")?;
            (Some(tag), rest)
        }
        None => (None, line),
    };
    let mut fields = rest.splitn(4, ',');
    let mut figure =
        |why| fields.next().and_then(|text| text.trim().parse::<f64>().ok()).filter(|n| n.is_finite()).ok_or(why);
    let start_s = figure("the start is no number")?;
    let length_s = figure("the length is no number")?;
    let max = figure("the maximum is no number")?;
    let histogram = fields.next().filter(|text| !text.is_empty()).ok_or("the histogram is missing")?;
    Ok(Line { number, tag, start_s, length_s, max, histogram })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tagged_and_untagged_lines() {
        let text = "#[Histogram log format version 1.3]\n#[StartTime: 1 (seconds since epoch)]\n\
                    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
                    Tag=rtt,0.000,1.000,61.952,HISTFAAA\n1.5,1.000,2,HISTFBBB\r\n";
        let intervals = read(Path::new("x.hlog"), text).unwrap();
        assert_eq!(intervals.len(), 2);
        assert_eq!(intervals[0].tag.as_deref(), Some("rtt"));
        assert_eq!((intervals[1].start_s, intervals[1].max), (1.5, 2.0));
        assert_eq!(intervals[1].histogram, "HISTFBBB");
    }

    #[test]
    fn names_the_damaged_line() {
        for bad in ["Tag=rtt", "x,1,1,H", "1,1,1", "1,1,1,", "1,NaN,1,H", "1,1"] {
            let error = read(Path::new("x.hlog"), &format!("#\n{bad}\n")).unwrap_err().to_string();
            assert!(error.contains("x.hlog: line 2"), "{error}");
        }
    }
}
