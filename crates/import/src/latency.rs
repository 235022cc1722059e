//! latency of Xenomai 3 (Cobalt, Mercury): the histogram of `-g FILE`.
//!
//! Comments have the test mode, period and priority, and smallest, mean and largest latency in µs, overruns and switches to the
//! other kernel; lines of `xeno-config --info` may follow. Rows are `CELL.5 COUNT`, 1 more than counted (for gnuplot), between
//! two rows `CELL 1`. Cells are 1 µs wide; the last (`-H`, 300) takes all that is larger. Below 0 the amount counts.

use crate::bins::{Bins, Own};
use crate::cell::{Thread, Tool, wake_ups};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::worker::Measured;
use model::{Policy, WakeReport};

/// Test modes, and the factor's values. The short ones are those of latmus, which some files have.
const MODES: [(&str, &str); 6] = [
    ("periodic user-mode task", "user"),
    ("in-kernel periodic task", "kernel"),
    ("in-kernel timer handler", "irq"),
    ("user", "user"),
    ("kernel", "kernel"),
    ("irq", "irq"),
];

pub(crate) fn parse(lines: &Lines<'_>, _hints: &Hints) -> Result<Imported, Problem> {
    let mut found = Contents::default();
    lines.all.iter().try_for_each(|line| found.take(line))?;
    let Some(head) = found.head.take() else {
        return Err(lines.lacks(
            "this is no histogram of latency ('# 00:00:10 (periodic user-mode task, 1000 us period, priority 99)'): run latency with -g FILE",
        ));
    };
    let measured = measured(lines, &head, found.distribution, "latency")?;
    Ok(Imported { results: vec![measured], machine: None })
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) context: String,
    pub(crate) period_us: Option<u64>,
    pub(crate) priority: Option<u8>,
    pub(crate) elapsed_ns: u64,
    pub(crate) version: Option<String>,
    /// Switches away from the real-time core.
    pub(crate) switches: u64,
    /// The tool itself doubts its figures.
    pub(crate) is_doubted: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Distribution {
    pub(crate) own: Option<Own>,
    /// The smallest is below 0: some wake-ups came before their time.
    pub(crate) is_early: bool,
    pub(crate) overruns: u64,
    pub(crate) bins: Bins,
    /// The last cell is known to hold all that is larger.
    pub(crate) is_saturated: bool,
}

pub(crate) const CELL_NS: u64 = 1000;

impl Distribution {
    /// Smallest, mean and largest in µs; a smallest one below 0 is none.
    pub(crate) fn take_figures(&mut self, line: &Line<'_>, [min, mean, max]: [&str; 3]) -> Result<(), Problem> {
        self.is_early = min.starts_with('-');
        let mean_ns = line.finite(mean, "avg")? * 1e3;
        let min_us = line.finite(min, "min")?;
        if min_us > line.finite(max, "max")? {
            return Err(line.problem(format!("min {min} µs is above max {max} µs: the file contradicts itself")));
        }
        let min_ns = if self.is_early { None } else { Some(line.time_ns(min, 1e3, "min")?) };
        let max_ns = Some(line.time_ns(max, 1e3, "max")?);
        self.own = Some(Own { min_ns, max_ns, mean_ns: Some(mean_ns).filter(|ns| *ns >= 0.0) });
        Ok(())
    }

    pub(crate) fn add(&mut self, line: &Line<'_>, cell: &str, count: u64) -> Result<(), Problem> {
        let at_ns = line.whole_ns(cell, CELL_NS, "cell")?;
        if at_ns > stats::HOUR_NS {
            return Err(line.problem("this cell is no latency"));
        }
        self.bins.add(at_ns, count);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Contents {
    head: Option<Head>,
    distribution: Distribution,
}

impl Contents {
    fn take(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let Some(comment) = line.text.strip_prefix('#') else {
            if self.head.is_some() {
                return self.take_row(line);
            }
            // What the tool prints to the terminal, or another tool's file.
            return if is_screen(&line.text) { Ok(()) } else { Err(line.problem(NO_LINE)) };
        };
        if comment.trim_start().to_ascii_lowercase().starts_with("test started on:") {
            return Err(line.problem("this is a file of libevl's latmus: use 'windhover import latmus'"));
        }
        let clock_and_rest = comment.split_once('(').filter(|(_, rest)| rest.contains("us period"));
        if let Some((clock, rest)) = clock_and_rest.filter(|_| self.head.is_none()) {
            self.head = Some(head(line, clock.trim(), rest)?);
        } else if !comment.contains("----lat") && comment.contains('|') && self.distribution.own.is_none() {
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
        self.distribution.take_figures(line, [min, mean, max])?;
        self.distribution.overruns = line.number(overruns, "overruns")?;
        let switches = line.number(switches, "switches")?;
        self.head.iter_mut().for_each(|head| head.switches = switches);
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
        let Some(count) = count.checked_sub(1) else {
            return Err(line.problem("a count of latency -g is 1 at least"));
        };
        self.distribution.add(line, cell, count)
    }
}

const NO_LINE: &str = "this is no line of the tool's file: keep what -g FILE writes as it is";

/// Whether a line is of those that latency and latmus print to the terminal.
pub(crate) fn is_screen(text: &str) -> bool {
    let starts =
        ["RTT|", "RTH|", "RTD|", "RTS|", "---|", "HSH|", "HSS|", "HSD|", "== ", "warming up", "running quietly", "^C"];
    starts.iter().any(|start| text.starts_with(start))
}

pub(crate) fn measured(
    lines: &Lines<'_>,
    head: &Head,
    mut distribution: Distribution,
    name: &'static str,
) -> Result<Measured, Problem> {
    let Some(own) = distribution.own else {
        return Err(lines.lacks("the comment with min, avg and max is missing: the file is cut short"));
    };
    if distribution.bins.inside() == 0 {
        return Err(lines.lacks("the histogram holds no value"));
    }
    let (bins, is_early) = (&mut distribution.bins, distribution.is_early);
    bins.width_ns = CELL_NS;
    // The last cell of the histogram takes all that is larger. A latency below 0 may be the one of its cell.
    if let (Some((at, count)), Some(max_ns)) = (bins.bins.last().copied(), own.max_ns)
        && (distribution.is_saturated || max_ns >= at + CELL_NS)
    {
        bins.bins.pop();
        bins.over = count;
    }
    let mut grain = "bins are 1 µs wide, and each value counts as the least of its bin".to_owned();
    if is_early {
        grain.push_str("; some wake-ups came before their time and count by how much");
    }
    if head.switches > 0 {
        let times = head.switches;
        let words = "switches away from the real-time core, so its figures may not be of that core";
        grain.push_str(&format!("; {name} saw {times} {words}"));
    }
    if head.is_doubted {
        grain.push_str(&format!("; {name} says that its figures may be irrelevant (degraded mode)"));
    }
    let tool = Tool {
        name,
        version: head.version.clone(),
        grain,
        unknown: "the order and the time of the wake-ups, and what disturbed the thread",
        ..Tool::default()
    };
    let report = WakeReport {
        interval_ns: head.period_us.and_then(|us| us.checked_mul(1000)),
        missed: Some(distribution.overruns),
        ..WakeReport::default()
    };
    let thread = Thread { name: head.context.clone(), bins: distribution.bins, own };
    let mut measured = wake_ups(&[thread], &report, tool).map_err(|why| lines.lacks(why))?;
    let result = &mut measured.result;
    result.elapsed_ns = head.elapsed_ns;
    if let Some(latency) = result.latency.as_mut().filter(|_| is_early) {
        // It is below 0.
        latency.min_ns = None;
    }
    result.factors.insert("context".to_owned(), head.context.clone().into());
    let policy = head.priority.and_then(|priority| format!("fifo:{priority}").parse::<Policy>().ok());
    if let Some(policy) = policy.filter(|_| head.context == "user") {
        result.factors.insert("policy".to_owned(), policy.to_string().into());
    }
    Ok(measured)
}

/// `00:00:10` and `periodic user-mode task, 1000 us period, priority 99)`.
fn head(line: &Line<'_>, clock: &str, rest: &str) -> Result<Head, Problem> {
    let fields: Vec<&str> = rest.trim_end_matches(')').split(',').map(str::trim).collect();
    let known = |mode: &str| MODES.iter().find(|(name, _)| *name == mode).map(|(_, context)| *context);
    let (Some(context), [_, period, priority, ..]) = (fields.first().and_then(|mode| known(mode)), fields.as_slice())
    else {
        return Err(
            line.problem("this comment is not '# 00:00:10 (periodic user-mode task, 1000 us period, priority 99)'")
        );
    };
    let period = period.trim_end_matches("us period").trim();
    let priority = priority.trim_start_matches("priority").trim();
    Ok(Head {
        context: context.to_owned(),
        period_us: Some(line.number(period, "period")?),
        priority: Some(line.number(priority, "priority")?),
        elapsed_ns: line.clock_ns(clock, "duration")?,
        ..Head::default()
    })
}
