//! Reading HdrHistogram interval logs (the format of the HdrHistogram tools, HistogramLogReader): `#` comments, a quoted
//! legend, and lines `[Tag=T,]start_s,length_s,max,histogram`, where the histogram is base64 of the compressed V2
//! encoding.

use crate::StoreError;
use std::path::Path;

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

/// Reads the text of a log. `path` is only named in errors. The histograms are not decoded.
///
/// # Errors
/// [`StoreError::DamagedLine`].
pub fn read(path: &Path, text: &str) -> Result<Vec<Interval>, StoreError> {
    let mut intervals = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') || line.starts_with('"') {
            continue;
        }
        intervals.push(interval(line).map_err(|why| StoreError::DamagedLine {
            path: path.to_owned(),
            line: number + 1,
            why: why.to_owned(),
        })?);
    }
    Ok(intervals)
}

fn interval(line: &str) -> Result<Interval, &'static str> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => {
            let (tag, rest) = tagged.split_once(',').ok_or("a tag without figures")?;
            (Some(tag.to_owned()), rest)
        }
        None => (None, line),
    };
    let mut fields = rest.splitn(4, ',');
    let mut number =
        |why| fields.next().and_then(|text| text.trim().parse::<f64>().ok()).filter(|n| n.is_finite()).ok_or(why);
    let start_s = number("the start is no number")?;
    let length_s = number("the length is no number")?;
    let max = number("the maximum is no number")?;
    let histogram = fields.next().filter(|text| !text.is_empty()).ok_or("the histogram is missing")?.to_owned();
    Ok(Interval { tag, start_s, length_s, max, histogram })
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
