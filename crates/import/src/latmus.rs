//! latmus of libevl (Xenomai 4): the histogram of `-g FILE`.
//!
//! Comments have kernel, libevl's version, period, context, priority, duration, and of each distribution the smallest, mean and
//! largest latency in µs, later the number of samples. Rows are `CELL COUNT`; later versions have a column for each
//! distribution, named before its figures. Cells are 1 µs wide; the last (`-H`, 200) takes all that is larger, with a `+`. A
//! latency below 0 counts by its amount.

use crate::latency::{Distribution, Head, is_screen, measured};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::MachineFacts;

const STARTED: &str = "test started on:";

pub(crate) fn parse(lines: &Lines<'_>, _hints: &Hints) -> Result<Imported, Problem> {
    let mut found = Contents::default();
    lines.all.iter().try_for_each(|line| found.take(line))?;
    found.results(lines)
}

/// The figures of one distribution; its name is empty where there is one only.
#[derive(Debug, Default)]
struct Part {
    name: String,
    figures: [Option<String>; 3],
    count: Option<u64>,
    distribution: Distribution,
}

#[derive(Debug, Default)]
struct Contents {
    has_begun: bool,
    head: Head,
    kernel: Option<String>,
    parts: Vec<Part>,
    has_rows: bool,
    columns: usize,
}

impl Contents {
    fn take(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let Some(comment) = line.text.strip_prefix('#').map(str::trim) else {
            return match () {
                () if is_screen(&line.text) => Ok(()),
                () if self.has_begun => self.take_row(line),
                () => Err(line.problem(NO_FILE)),
            };
        };
        if comment.to_ascii_lowercase().starts_with(STARTED) {
            self.has_begun = true;
            return Ok(());
        }
        if comment.contains("us period") {
            return Err(line.problem("this is a file of Xenomai's latency: use 'windhover import latency'"));
        }
        if self.has_rows {
            return Err(line.problem("a comment among the rows: this is more than one file"));
        }
        if self.has_begun { self.take_comment(line, comment) } else { Ok(()) }
    }

    fn take_comment(&mut self, line: &Line<'_>, comment: &str) -> Result<(), Problem> {
        if let Some(rest) = comment.strip_prefix("Linux version ") {
            self.kernel = rest.split_ascii_whitespace().next().map(str::to_owned);
        }
        self.head.is_doubted |= comment.starts_with("DEGRADED MODE");
        let Some((name, value)) = comment.split_once(':') else { return Ok(()) };
        let (name, value) = (name.trim(), value.trim());
        let first = value.split_ascii_whitespace().next().unwrap_or_default();
        match name {
            "libevl version" => self.head.version = Some(value.to_owned()),
            "sampling period" => self.head.period_us = Some(line.number(first, name)?),
            "context" => self.head.context = context(line, value)?,
            "thread priority" => self.head.priority = Some(line.number(first, name)?),
            "duration (hhmmss)" => self.head.elapsed_ns = line.clock_ns(value, name)?,
            "IN-BAND SWITCHES" => self.head.switches = line.number(first, name)?,
            _ => return self.take_figure(line, name, value),
        }
        Ok(())
    }

    /// `min latency: 0.205`, or with the distribution's name before it.
    fn take_figure(&mut self, line: &Line<'_>, label: &str, value: &str) -> Result<(), Problem> {
        const LABELS: [&str; 5] = ["min latency", "avg latency", "max latency", "sample count", "OVERRUNS"];
        let of = |(at, end): (usize, &&str)| Some((at, label.strip_suffix(*end)?.trim_end()));
        let Some((at, name)) = LABELS.iter().enumerate().find_map(of) else { return Ok(()) };
        let place = self.parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
            self.parts.push(Part { name: name.to_owned(), ..Part::default() });
            self.parts.len() - 1
        });
        let part = &mut self.parts[place];
        match at {
            3 => part.count = Some(line.number(value, label)?),
            4 => part.distribution.overruns = line.number(value, label)?,
            _ => {
                if let Some(figure) = part.figures.get_mut(at) {
                    *figure = Some(value.to_owned());
                }
                if let [Some(min), Some(mean), Some(max)] = &part.figures {
                    part.distribution.take_figures(line, [min, mean, max])?;
                }
            }
        }
        Ok(())
    }

    fn take_row(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let mut words = line.text.split_ascii_whitespace();
        let cell = words.next().unwrap_or_default();
        let counts = words.map(|word| line.number(word, "count")).collect::<Result<Vec<u64>, _>>()?;
        if !std::mem::replace(&mut self.has_rows, true) {
            self.columns = counts.len();
            if self.parts.is_empty() || self.parts.len() > self.columns {
                return Err(
                    line.problem("the comments with min, avg and max of each column are missing above this row")
                );
            }
        }
        if counts.is_empty() || counts.len() != self.columns {
            return Err(line.problem("this is no row 'CELL COUNT' of a histogram with as many columns as the first"));
        }
        if self.parts.iter().any(|part| part.distribution.is_saturated) {
            return Err(line.problem("a row follows the last one, whose cell has a '+'"));
        }
        let (cell, is_last) = cell.strip_suffix('+').map_or((cell, false), |cell| (cell, true));
        // A distribution without samples has a column, and no comment.
        let mut counts = counts.into_iter();
        for part in &mut self.parts {
            part.distribution.add(line, cell, counts.next().unwrap_or_default())?;
            part.distribution.is_saturated = is_last;
        }
        if counts.any(|count| count > 0) {
            return Err(line.problem("this column is of no distribution that the comments have figures of"));
        }
        Ok(())
    }

    fn results(self, lines: &Lines<'_>) -> Result<Imported, Problem> {
        if !self.has_begun {
            return Err(lines.lacks(NO_FILE));
        }
        if !self.has_rows {
            return Err(lines.lacks("the file has no rows: it is cut short"));
        }
        let mut imported = Imported::default();
        for part in self.parts {
            let inside = part.distribution.bins.inside();
            if let Some(stated) = part.count.filter(|stated| *stated != inside) {
                return Err(lines.lacks(format!(
                    "the rows have {inside} values, and 'sample count' says {stated}: rows are missing"
                )));
            }
            let mut one = measured(lines, &self.head, part.distribution, "latmus")?;
            if !part.name.is_empty() {
                let context = format!("{}/{}", self.head.context, part.name);
                one.result.factors.insert("context".to_owned(), context.into());
            }
            imported.results.push(one);
        }
        imported.machine =
            self.kernel.map(|release| MachineFacts { kernel_release: Some(release), ..MachineFacts::default() });
        Ok(imported)
    }
}

const NO_FILE: &str =
    "this is no file of libevl's latmus, which begins with '# test started on:': run latmus with -g FILE";

fn context(line: &Line<'_>, word: &str) -> Result<String, Problem> {
    let is_word =
        !word.is_empty() && word.len() <= 40 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if is_word { Ok(word.to_owned()) } else { Err(line.problem("this context is no word: irq, kernel, user …")) }
}
