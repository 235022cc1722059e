//! sfnt-pingpong: its table, a row a size, below comments that begin with `#`. `windhover pingpong --format sfnt` writes the same.

use crate::bins::{falls, nothing, set_percentile};
use crate::cell::{Tool, result, with_latency};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::worker::Measured;
use model::{Latency, LatencyKind, MachineFacts, Probe, Protocol};

pub(crate) fn parse(lines: &Lines<'_>, hints: &Hints) -> Result<Imported, Problem> {
    let mut found = Contents { percent: 99.0, ..Contents::default() };
    let mut imported = Imported::default();
    for line in &lines.all {
        match line.text.strip_prefix('#') {
            Some(comment) => found.take_comment(line, comment.trim())?,
            None => imported.results.push(found.row(line, hints)?),
        }
    }
    if imported.results.is_empty() {
        return Err(lines.lacks("this has no row of sfnt-pingpong (size mean min median max %ile stddev iter)"));
    }
    imported.machine = (found.machine != MachineFacts::default()).then_some(found.machine);
    Ok(imported)
}

#[derive(Debug, Default)]
struct Contents {
    version: Option<String>,
    /// Of the column `%ile`.
    percent: f64,
    is_rtt: bool,
    protocol: Option<Protocol>,
    machine: MachineFacts,
    has_heading: bool,
}

impl Contents {
    fn take_comment(&mut self, line: &Line<'_>, comment: &str) -> Result<(), Problem> {
        if comment.contains("mps") {
            return Err(line.problem("this is a table of sfnt-stream: only those of sfnt-pingpong are read"));
        }
        self.has_heading |= comment.starts_with("size") && comment.contains("iter");
        if let Some(percent) = comment.strip_prefix("percentile=") {
            self.percent = line.percent(percent.trim())?;
        }
        let Some((name, value)) = comment.split_once(':') else { return Ok(()) };
        let value = value.trim();
        match name.trim() {
            "reporting" => self.is_rtt = value == "RTT",
            "version" => self.version = Some(value.to_owned()),
            "cpu" => self.machine.cpu_model = Some(value.to_owned()),
            "cmdline" => {
                let protocol = |word: &str| word.replace('_', "-").parse::<Protocol>().ok();
                self.protocol = value.split_ascii_whitespace().find_map(protocol);
            }
            "uname" => {
                let mut words = value.split_ascii_whitespace();
                // `Linux HOST RELEASE …` of uname -a, `Linux RELEASE …` of Windhover.
                let is_release = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
                self.machine.kernel_release = words.find(is_release).map(str::to_owned);
            }
            _ => {}
        }
        Ok(())
    }

    fn row(&self, line: &Line<'_>, hints: &Hints) -> Result<Measured, Problem> {
        let fields: Vec<&str> = line.text.split_ascii_whitespace().collect();
        let [size, mean, min, median, max, at, stdev, count] = fields.as_slice() else {
            let why = "this is no row of sfnt-pingpong (size mean min median max %ile stddev iter)";
            return Err(line.problem(why));
        };
        if !self.has_heading {
            return Err(line.problem("the heading '# size mean min median max %ile stddev iter' is not above this row"));
        }
        let ns = |word: &str, what: &str| line.whole_ns(word, 1, what);
        let count: u64 = line.number(count, "iter")?;
        if count == 0 {
            return Err(line.problem("this row is of no message: iter is 0"));
        }
        let kind = if self.is_rtt { LatencyKind::Rtt } else { LatencyKind::RttHalf };
        let mut latency = Latency {
            mean_ns: Some(ns(mean, "mean")? as f64),
            stdev_ns: Some(ns(stdev, "stddev")? as f64),
            min_ns: Some(ns(min, "min")?),
            max_ns: Some(ns(max, "max")?),
            ..nothing(kind, count)
        };
        let values = [(50.0, ns(median, "median")?), (self.percent, ns(at, "%ile")?)];
        let mut rising = vec![("min", latency.min_ns), ("median", Some(values[0].1))];
        rising.insert(if self.percent < 50.0 { 1 } else { 2 }, ("%ile", Some(values[1].1)));
        rising.push(("max", latency.max_ns));
        if let Some(why) = falls(rising) {
            return Err(line.problem(why));
        }
        for (percent, value) in values {
            set_percentile(&mut latency, percent, Some(value));
        }
        let tool = Tool {
            name: "sfnt-pingpong",
            version: self.version.clone(),
            grain: "figures are whole ns, cut off".to_owned(),
            unknown: "other percentiles, the distribution, the order of the messages, policies and what disturbed the ends",
            ..Tool::default()
        };
        let protocol = hints.protocol.or(self.protocol);
        let mut result = result(Probe::Pingpong, protocol, Some(line.number(size, "size")?), tool);
        with_latency(&mut result, latency);
        Ok(Measured::new(result))
    }
}
