//! `rtla timerlat hist`: a column for each CPU and context (interrupt `IRQ-000`, the thread that it wakes `Thr-000`, the return
//! to user space `Usr-000`). Each context is a result of its own.

use crate::bins::{Bins, Own};
use crate::cell::{Thread, Tool, wake_ups};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::WakeReport;

/// The columns' names, and the factor's values.
const CONTEXTS: [(&str, &str); 3] = [("IRQ-", "irq"), ("Thr-", "thread"), ("Usr-", "user")];

pub(crate) fn parse(lines: &Lines<'_>, _hints: &Hints) -> Result<Imported, Problem> {
    let mut found = Contents { unit_ns: 1000, ..Contents::default() };
    for line in &lines.all {
        if line.text.starts_with("ALL:") {
            // A summary of all CPUs: they are put together here.
            break;
        }
        found.take(line)?;
    }
    found.results(lines)
}

#[derive(Debug, Clone)]
struct Column {
    context: &'static str,
    cpu: u32,
    bins: Bins,
    count: Option<u64>,
    own: Own,
}

#[derive(Debug, Default)]
struct Contents {
    unit_ns: u64,
    elapsed_ns: u64,
    columns: Vec<Column>,
    /// Of all rows: a bin is at most as wide.
    step: u64,
    has_over: bool,
}

impl Contents {
    fn take(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let text = &*line.text;
        if text.starts_with('#') {
            return self.take_comment(line);
        }
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let rest: Vec<&str> = words.collect();
        if first == "Index" {
            self.columns = rest.iter().map(|word| column(line, word)).collect::<Result<_, _>>()?;
            return Ok(());
        }
        let is_row = first.bytes().all(|byte| byte.is_ascii_digit());
        let is_summary = ["over:", "count:", "min:", "avg:", "max:"].contains(&first);
        if !is_row && !is_summary {
            if !self.columns.is_empty() && !self.has_over {
                return Err(line.problem("this is no row of the histogram"));
            }
            // rtla's lines about a trace that it stopped.
            return Ok(());
        }
        if self.columns.is_empty() {
            return Err(line.problem(
                "there is no heading 'Index IRQ-000 Thr-000 …' above this: run rtla without --no-header and --no-index",
            ));
        }
        if rest.len() != self.columns.len() {
            let why = format!("this row has {} figures, and there are {} columns", rest.len(), self.columns.len());
            return Err(line.problem(why));
        }
        if is_row {
            return self.take_row(line, first, &rest);
        }
        self.has_over |= first == "over:";
        for (column, word) in self.columns.iter_mut().zip(rest) {
            column.take(line, first, word, self.unit_ns)?;
        }
        Ok(())
    }

    fn take_comment(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let text = &*line.text;
        if text.contains("RTLA") && !text.contains("timerlat histogram") {
            return Err(line.problem("this is no histogram of timer latency: use rtla timerlat hist"));
        }
        if text.contains("Time unit is nanoseconds") {
            self.unit_ns = 1;
        }
        // `# Duration:   0 00:00:10`, with the days first.
        if let Some(duration) = text.strip_prefix("# Duration:") {
            let parts: Vec<&str> = duration.split([' ', ':']).filter(|part| !part.is_empty()).collect();
            if let [days, hours, minutes, seconds] = parts.as_slice() {
                let number = |word: &str| line.number::<u64>(word, "duration").map(|number| number.min(100_000));
                let hours = number(days)? * 24 + number(hours)?;
                self.elapsed_ns = ((hours * 60 + number(minutes)?) * 60 + number(seconds)?) * 1_000_000_000;
            }
        }
        Ok(())
    }

    fn take_row(&mut self, line: &Line<'_>, index: &str, counts: &[&str]) -> Result<(), Problem> {
        let at_ns = line.whole_ns(index, self.unit_ns, "index")?;
        if at_ns > stats::HOUR_NS {
            return Err(line.problem("this index is no latency"));
        }
        self.step = common_divisor(self.step, at_ns);
        for (column, word) in self.columns.iter_mut().zip(counts) {
            let count: u64 = line.number(word, "count")?;
            if count > 0 {
                column.bins.add(at_ns, count);
            }
        }
        Ok(())
    }

    fn results(self, lines: &Lines<'_>) -> Result<Imported, Problem> {
        if self.columns.is_empty() {
            return Err(lines.lacks("this has no histogram of rtla timerlat hist ('Index IRQ-000 Thr-000 …')"));
        }
        if !self.has_over {
            return Err(lines.lacks("the histogram has no row 'over:' below it: the file is cut short"));
        }
        let width_ns = self.step.max(self.unit_ns);
        let mut imported = Imported::default();
        for (_, context) in CONTEXTS {
            let mut threads = Vec::new();
            for column in self.columns.iter().filter(|column| column.context == context) {
                let count = column.bins.count();
                if let Some(stated) = column.count.filter(|stated| *stated != count) {
                    let why = format!(
                        "CPU {} has {count} values in its {context} column, and 'count:' says {stated}",
                        column.cpu
                    );
                    return Err(lines.lacks(why));
                }
                if count > 0 {
                    let bins = Bins { width_ns, ..column.bins.clone() };
                    threads.push(Thread { name: format!("CPU {}", column.cpu), bins, own: column.own });
                }
            }
            if threads.is_empty() {
                continue;
            }
            let unit = if self.unit_ns == 1 { "ns" } else { "µs" };
            let tool = Tool {
                name: "rtla",
                grain: format!(
                    "times are whole {unit}, cut off, in bins of {} {unit} at most",
                    width_ns / self.unit_ns
                ),
                unknown: "the order and the time of the wake-ups, the period, the policy and what disturbed the threads",
                ..Tool::default()
            };
            let mut measured = wake_ups(&threads, &WakeReport::default(), tool).map_err(|why| lines.lacks(why))?;
            measured.result.elapsed_ns = self.elapsed_ns;
            measured.result.factors.insert("context".to_owned(), context.into());
            imported.results.push(measured);
        }
        if imported.results.is_empty() {
            return Err(lines.lacks("the histogram holds no value"));
        }
        Ok(imported)
    }
}

impl Column {
    /// A figure of the summary; `-` is none.
    fn take(&mut self, line: &Line<'_>, what: &str, word: &str, unit_ns: u64) -> Result<(), Problem> {
        if word == "-" {
            return Ok(());
        }
        match what {
            "over:" => self.bins.over = line.number(word, what)?,
            "count:" => self.count = Some(line.number(word, what)?),
            // Without a value older versions print the largest number as the smallest time.
            _ if self.count == Some(0) => {}
            "min:" => self.own.min_ns = Some(line.whole_ns(word, unit_ns, what)?),
            "max:" => self.own.max_ns = Some(line.whole_ns(word, unit_ns, what)?),
            // The mean of the bins is more exact than the one that is cut to whole units.
            _ if self.bins.over > 0 => self.own.mean_ns = Some(line.whole_ns(word, unit_ns, what)? as f64),
            _ => {}
        }
        Ok(())
    }
}

fn column(line: &Line<'_>, word: &str) -> Result<Column, Problem> {
    let of = |(start, context): &(&str, &'static str)| Some((word.strip_prefix(start)?, *context));
    let Some((cpu, context)) = CONTEXTS.iter().find_map(of) else {
        return Err(line.problem(format!("column '{}' is none of IRQ-, Thr- and Usr-", crate::lines::shortened(word))));
    };
    Ok(Column { context, cpu: line.number(cpu, "CPU")?, bins: Bins::default(), count: None, own: Own::default() })
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
