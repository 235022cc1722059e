//! Lines of HdrHistogram interval logs (the format of the HdrHistogram tools, HistogramLogReader): `#` comments, a quoted
//! legend, and lines `[Tag=T,]start_s,length_s,max,histogram`, where the histogram is base64 of the compressed V2
//! encoding. Text is taken in pieces of whole lines: a day of 100 ms intervals has 0.8 GB.

use std::collections::BTreeMap;

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
    pub max_ns: u64,
    /// The histogram: base64 of the compressed V2 encoding, values in ns. It is not decoded.
    pub histogram: &'a str,
}

/// What the figures of a log's lines are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Units {
    /// What starts are counted from, in the log's own seconds.
    pub base_s: f64,
    /// What the largest values are multiplied by to become ns.
    pub max_divisor: f64,
}

impl Units {
    /// As the comments at a log's begin say; without them the largest values are ms.
    #[must_use]
    pub fn of_head(text: &str) -> Self {
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let mut named = head.filter_map(|line| {
            line.strip_prefix("#[MaxValueDivisor:")?.trim_end().trim_end_matches(']').trim().parse::<f64>().ok()
        });
        let max_divisor = named.next().filter(|divisor| divisor.is_finite() && *divisor > 0.0).unwrap_or(1e6);
        Self { base_s: 0.0, max_divisor }
    }
}

/// The lines of a piece of a log, each an interval or its number and what is damaged.
pub struct Lines<'a> {
    lines: std::str::Lines<'a>,
    number: usize,
    units: Units,
    first_s: f64,
}

impl<'a> Lines<'a> {
    /// Lines after so many others.
    #[must_use]
    pub fn new(text: &'a str, before: usize, units: Units) -> Self {
        Self { lines: text.lines(), number: before, units, first_s: f64::INFINITY }
    }

    /// How many lines were read, with those before.
    #[must_use]
    pub fn read(&self) -> usize {
        self.number
    }

    fn interval(&mut self, line: &'a str) -> Result<Interval<'a>, &'static str> {
        let (tag, [start_s, length_s, max], histogram) = fields(line)?;
        self.first_s = self.first_s.min(start_s);
        let start_ns = nanoseconds(start_s - self.units.base_s).ok_or("the start is no time of a measurement")?;
        let length_ns = nanoseconds(length_s).unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let max_ns = (max * self.units.max_divisor).round() as u64;
        Ok(Interval { number: self.number, tag, start_ns, length_ns, max_ns, histogram })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Interval<'a>, (usize, &'static str)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.lines.next()?.trim_end();
            self.number += 1;
            if !(line.is_empty() || line.starts_with('#') || line.starts_with('"')) {
                let number = self.number;
                return Some(self.interval(line).map_err(|why| (number, why)));
            }
        }
    }
}

/// When the intervals of a tag are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// When the last begins.
    pub last_ns: u64,
    /// Length of the longest.
    pub interval_ns: u64,
}

impl Extent {
    /// That of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { last_ns: self.last_ns.max(other.last_ns), interval_ns: self.interval_ns.max(other.interval_ns) }
    }
}

/// What a log has, without its histograms.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// Lines of all kinds.
    pub lines: usize,
    /// The earliest start, in the log's own seconds; infinite without intervals.
    pub first_s: f64,
    /// Tags of the lines that can be read.
    pub tags: BTreeMap<String, Extent>,
    /// Lines that cannot be read: number and why.
    pub damaged: Vec<(usize, String)>,
}

impl Default for Survey {
    fn default() -> Self {
        Self { lines: 0, first_s: f64::INFINITY, tags: BTreeMap::new(), damaged: Vec::new() }
    }
}

impl Survey {
    /// Adds the next piece of a log.
    pub fn add(&mut self, text: &str, units: Units) {
        let mut lines = Lines::new(text, self.lines, units);
        for line in lines.by_ref() {
            match line {
                Ok(Interval { tag, start_ns, length_ns, .. }) => {
                    let one = Extent { last_ns: start_ns, interval_ns: length_ns };
                    match self.tags.get_mut(tag) {
                        Some(extent) => *extent = extent.with(one),
                        None => {
                            self.tags.insert(tag.to_owned(), one);
                        }
                    }
                }
                Err((number, why)) => self.damaged.push((number, why.to_owned())),
            }
        }
        self.lines = lines.number;
        self.first_s = self.first_s.min(lines.first_s);
    }

    /// Adds what was found in the lines after these.
    pub fn append(&mut self, later: Self) {
        self.damaged.extend(later.damaged.into_iter().map(|(number, why)| (self.lines + number, why)));
        self.lines += later.lines;
        self.first_s = self.first_s.min(later.first_s);
        for (tag, extent) in later.tags {
            let all = self.tags.entry(tag).or_default();
            *all = all.with(extent);
        }
    }

    /// What starts are counted from.
    #[must_use]
    pub fn base_s(&self) -> f64 {
        if self.first_s.is_finite() && self.first_s >= ABSOLUTE_S { self.first_s } else { 0.0 }
    }
}

/// Times of a measurement: up to ten years.
fn nanoseconds(seconds: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and ten years")]
    (0.0..3e8).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
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

    fn survey(pieces: &[&str], units: Units) -> Survey {
        let mut survey = Survey::default();
        pieces.iter().for_each(|piece| survey.add(piece, units));
        survey
    }

    #[test]
    fn reads_tagged_and_untagged_lines() {
        let text = "#[Histogram log format version 1.3]\n#[StartTime: 1 (seconds since epoch)]\n\
                    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
                    Tag=lateness@b,0.000,1.000,61.952,HISTFAAA\n1.5,1.000,2,HISTFBBB\r\n";
        let units = Units::of_head(text);
        let found: Vec<Interval<'_>> = Lines::new(text, 0, units).map(Result::unwrap).collect();
        let [first, second] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.tag, first.max_ns, second.tag), ("lateness@b", 61_952_000, "rtt"));
        assert_eq!((second.start_ns, second.length_ns, second.histogram), (1_500_000_000, 1_000_000_000, "HISTFBBB"));
        let absolute = "#[MaxValueDivisor: 1000.0]\n1700000001.5,1,2,H\n1700000000.5,1,2,H\n";
        let units = Units::of_head(absolute);
        let units = Units { base_s: survey(&[absolute], units).base_s(), ..units };
        assert_eq!(
            Lines::new(absolute, 0, units).next(),
            Some(Ok(Interval { number: 2, start_ns: 1_000_000_000, max_ns: 2_000, histogram: "H", ..*second }))
        );
    }

    #[test]
    fn names_the_damaged_line() {
        let units = Units::of_head("");
        for bad in ["Tag=rtt", "x,1,1,H", "1,1,1", "1,1,1,", "1,NaN,1,H", "1,1", "-5,1,1,H"] {
            let found = survey(&[&format!("#\n{bad}\n")], units);
            assert!(found.tags.is_empty() && found.damaged.len() == 1 && found.damaged[0].0 == 2, "{bad}: {found:?}");
        }
        assert_eq!(nanoseconds(0.3), Some(300_000_000));
        assert_eq!([-0.1, 1e300, f64::NAN].map(nanoseconds), [None; 3]);
    }

    /// Catches: line numbers, tags or starts that depend on where a log was cut.
    #[test]
    fn pieces_and_parts_are_as_the_whole() {
        let lines = ["#", "Tag=a,1,0.5,1,H", "bad", "2,1,1,H", "", "Tag=a,9,0.1,1,H", "Tag=b,4,9,1,H", "bad"];
        let lines = lines.map(|line| format!("{line}\n"));
        let units = Units::of_head("");
        let whole = survey(&[&lines.concat()], units);
        assert_eq!((whole.lines, whole.first_s, whole.damaged.len()), (8, 1.0, 2));
        assert_eq!(whole.tags["a"], Extent { last_ns: 9_000_000_000, interval_ns: 500_000_000 });
        for cut in 0..=lines.len() {
            let (before, after) = (lines[..cut].concat(), lines[cut..].concat());
            assert_eq!(survey(&[&before, &after], units), whole);
            let mut both = survey(&[&before], units);
            both.append(survey(&[&after], units));
            assert_eq!(both, whole);
        }
    }
}
