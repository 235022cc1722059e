//! latmus of libevl (Xenomai 4): the histogram of `-g FILE`.
//!
//! A comment has the context (irq, kernel, user), the period and the priority, another one the smallest, mean and largest latency
//! in µs, overruns and switches to in-band mode. Rows are `CELL.5 COUNT`, with 1 added to each count for gnuplot's logarithmic
//! axis, between two rows `CELL 1` that close the picture. Cells are 1 µs wide; the last of the histogram (`-H`, 200) takes all that is
//! larger. A latency below 0 counts by its amount.

use crate::bins::{Bins, Own};
use crate::cell::{Thread, Tool, wake_ups};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::{Policy, WakeReport};

/// Reads a file.
pub(crate) fn parse(lines: &Lines<'_>, _hints: &Hints) -> Result<Imported, Problem> {
    let mut found = Found::default();
    for line in lines.iter() {
        found.take(line)?;
    }
    let Some(head) = found.head.take() else {
        return Err(lines.lacks("this is no histogram of latmus ('# 00:00:10 (user, 1000 us period, priority 90)'): run latmus with -g FILE"));
    };
    found.measured(lines, &head)
}

/// The first comment.
#[derive(Debug, Clone)]
struct Head {
    context: String,
    period_us: u64,
    priority: u8,
    elapsed_ns: u64,
}

#[derive(Debug, Default)]
struct Found {
    head: Option<Head>,
    own: Option<Own>,
    /// The smallest is below 0: some wake-ups came before their time.
    is_early: bool,
    overruns: u64,
    switches: u64,
    bins: Bins,
}

const CELL_NS: u64 = 1000;

impl Found {
    fn take(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let Some(comment) = line.text.strip_prefix('#') else {
            return if self.head.is_some() { self.take_row(line) } else { Ok(()) };
        };
        if let Some((clock, rest)) = comment.split_once('(') {
            self.head = Some(head(line, clock.trim(), rest)?);
        } else if !comment.contains("----lat") && comment.contains('|') {
            self.take_figures(line, comment)?;
        }
        Ok(())
    }

    /// `min| avg| max| overruns| switches|`
    fn take_figures(&mut self, line: &Line<'_>, comment: &str) -> Result<(), Problem> {
        let fields: Vec<&str> = comment.split('|').map(str::trim).collect();
        let [min, mean, max, overruns, switches, ..] = fields.as_slice() else {
            return Err(line.problem("this comment lacks some of: min, avg, max, overruns, switches"));
        };
        self.is_early = min.starts_with('-');
        let min_ns = if self.is_early { None } else { Some(line.time_ns(min, 1e3, "min")?) };
        let mean_ns = Some(line.number::<f64>(mean, "avg")? * 1e3).filter(|ns| ns.is_finite() && *ns >= 0.0);
        self.own = Some(Own { min_ns, max_ns: Some(line.time_ns(max, 1e3, "max")?), mean_ns });
        self.overruns = line.number(overruns, "overruns")?;
        self.switches = line.number(switches, "switches")?;
        Ok(())
    }

    fn take_row(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let words: Vec<&str> = line.text.split_ascii_whitespace().collect();
        let [at, count] = words.as_slice() else {
            return Err(line.problem("this is no row 'CELL.5 COUNT' of a histogram"));
        };
        let count: u64 = line.number(count, "count")?;
        // The rows that close the picture have no fraction.
        let Some(cell) = at.strip_suffix(".5") else {
            return line.number::<u64>(at, "cell").map(drop);
        };
        let at_ns = line.whole_ns(cell, CELL_NS, "cell")?;
        if at_ns > stats::HOUR_NS {
            return Err(line.problem("this cell is no latency"));
        }
        let Some(count) = count.checked_sub(1) else {
            return Err(line.problem("a count of latmus is 1 at least"));
        };
        self.bins.add(at_ns, count);
        Ok(())
    }

    fn measured(mut self, lines: &Lines<'_>, head: &Head) -> Result<Imported, Problem> {
        let Some(own) = self.own else {
            return Err(lines.lacks("the comment with min, avg and max is missing: the file is cut short"));
        };
        if self.bins.inside() == 0 {
            return Err(lines.lacks("the histogram holds no value"));
        }
        self.bins.width_ns = CELL_NS;
        // The last cell of the histogram takes all that is larger. A latency below 0 may be the one of its cell.
        if let (Some((at, count)), Some(max_ns)) = (self.bins.bins.last().copied(), own.max_ns)
            && max_ns >= at + CELL_NS
        {
            self.bins.bins.pop();
            self.bins.over = count;
        }
        let mut grain = "bins are 1 µs wide, and each value counts as the least of its bin".to_owned();
        if self.is_early {
            grain.push_str("; some wake-ups came before their time and count by how much");
        }
        if self.switches > 0 {
            let times = self.switches;
            grain.push_str(&format!(
                "; latmus saw {times} switches to in-band mode, so its figures may not be of the EVL core"
            ));
        }
        let tool = Tool {
            name: "latmus",
            grain,
            unknown: "the order and the time of the wake-ups, and what disturbed the thread",
            ..Tool::default()
        };
        let report = WakeReport {
            interval_ns: head.period_us.checked_mul(1000),
            missed: Some(self.overruns),
            ..WakeReport::default()
        };
        let thread = Thread { name: head.context.clone(), bins: self.bins, own };
        let mut measured = wake_ups(&[thread], &report, tool);
        let result = &mut measured.result;
        result.elapsed_ns = head.elapsed_ns;
        if let Some(latency) = result.latency.as_mut().filter(|_| self.is_early) {
            // It is below 0.
            latency.min_ns = None;
        }
        result.factors.insert("context".to_owned(), head.context.clone().into());
        if let Ok(policy) = format!("fifo:{}", head.priority).parse::<Policy>()
            && head.context == "user"
        {
            result.factors.insert("policy".to_owned(), policy.to_string().into());
        }
        Ok(Imported { results: vec![measured], machine: None })
    }
}

/// `00:00:10` and `user, 1000 us period, priority 90)`.
fn head(line: &Line<'_>, clock: &str, rest: &str) -> Result<Head, Problem> {
    let fields: Vec<&str> = rest.trim_end_matches(')').split(',').map(str::trim).collect();
    let [context @ ("irq" | "kernel" | "user"), period, priority, ..] = fields.as_slice() else {
        return Err(line.problem("this comment is not '# 00:00:10 (user, 1000 us period, priority 90)'"));
    };
    let period = period.trim_end_matches("us period").trim();
    let priority = priority.trim_start_matches("priority").trim();
    let mut seconds = 0_u64;
    for part in clock.split(':') {
        let part: u64 = line.number(part, "duration")?;
        seconds = seconds.saturating_mul(60).saturating_add(part);
    }
    Ok(Head {
        context: (*context).to_owned(),
        period_us: line.number(period, "period")?,
        priority: line.number(priority, "priority")?,
        elapsed_ns: seconds.saturating_mul(1_000_000_000),
    })
}
