//! The HdrHistogram interval log (format 1.3): comment lines, then a line an interval:
//! `Tag=rtt,start,length,max,base64`, times in seconds, the largest value in ms, the histogram V2 compressed.

use stats::{Buckets, Encoder, Histogram};
use std::fmt::Write;

/// Values of the log's third column are divided by this, as HdrHistogram's own writer does for nanoseconds.
const MAX_DIVISOR: f64 = 1e6;

pub(crate) struct Log {
    text: String,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Log {
    /// Begins a log; interval times count from `started_ns` (wall clock since 1970; 0 when not known).
    pub(crate) fn new(started_ns: u64) -> Self {
        let start = seconds(started_ns);
        let text = format!(
            "#[Histogram log format version 1.3]\n\
            #[Logged with windhover; values are ns; rtt is the round trip, not halved]\n\
            #[StartTime: {start:.3} (seconds since epoch)]\n#[BaseTime: {start:.3} (seconds since epoch)]\n\
            #[MaxValueDivisor: {MAX_DIVISOR:.3}]\n"
        );
        Self { text }
    }

    /// Adds an interval; an empty one, or one that cannot be encoded (counts above 2⁶³), is left out.
    pub(crate) fn add(&mut self, tag: &str, start_ns: u64, length_ns: u64, histogram: &Histogram) {
        if let (Some(max), Ok(encoded)) = (histogram.max(), histogram.to_base64_v2()) {
            let (start, length, max) = (seconds(start_ns), seconds(length_ns), max as f64 / MAX_DIVISOR);
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "Tag={tag},{start:.3},{length:.3},{max:.6},{encoded}");
        }
    }

    /// Appends the line of a tally to lines that are gathered before the log's start is known; an empty one is left out.
    pub(crate) fn line<const BITS: u32>(
        lines: &mut String,
        encoder: &mut Encoder,
        tag: &str,
        start_ns: u64,
        length_ns: u64,
        tally: &Buckets<BITS>,
    ) {
        let Some(max) = tally.quantile(1.0) else { return };
        let (start, length, max) = (seconds(start_ns), seconds(length_ns), max as f64 / MAX_DIVISOR);
        let begun = lines.len();
        let _ = write!(lines, "Tag={tag},{start:.3},{length:.3},{max:.6},");
        if encoder.base64_v2(tally, lines).is_ok() {
            lines.push('\n');
        } else {
            lines.truncate(begun);
        }
    }

    pub(crate) fn text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn the_librarys_own_reader_reads_it() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|value| histogram.record(value * 1000));
        let mut log = Log::new(1_700_000_000_250_000_000);
        log.add("rtt", 0, 1_000_000_000, &histogram);
        log.add("rtt", 1_000_000_000, 500_000_000, &histogram);
        log.add("rtt", 2_000_000_000, 500_000_000, &Histogram::new());
        let text = log.text();
        let mut intervals = 0_u32;
        let (mut start, mut base) = (None, None);
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            match entry.expect("every line parses") {
                LogEntry::Interval(interval) => {
                    assert!(interval.tag().is_some_and(|tag| &*tag == "rtt"));
                    assert_eq!(interval.start_timestamp().as_secs(), u64::from(intervals));
                    assert!((interval.max() - 0.1).abs() < 1e-9);
                    let read = Histogram::from_base64_v2(interval.encoded_histogram()).unwrap();
                    assert!(read.iter_recorded().eq(histogram.iter_recorded()));
                    intervals += 1;
                }
                LogEntry::StartTime(time) => start = Some(time.as_millis()),
                LogEntry::BaseTime(time) => base = Some(time.as_millis()),
            }
        }
        assert_eq!(intervals, 2);
        assert_eq!((start, base), (Some(1_700_000_000_250), Some(1_700_000_000_250)));
    }
}
